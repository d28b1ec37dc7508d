"""The C-like text of a scheduled function: ``burnish.lower(s, args, simple_mode=True)``.

It is for reading: blocks are gone, their axes replaced by what they are bound to, memory is flat,
and ``produce B { ... }`` says which stage a nest computes::

    produce B {
      for (i.outer, 0, ((m + 31)/32)) {
        for (i.inner, 0, 32) {
          if (likely((((i.outer*32) + i.inner) < m))) {
            B[((i.outer*32) + i.inner)] = (A[((i.outer*32) + i.inner)]*2.000000f)

Division and remainder of indices round down. A loop is ``for (variable, start, extent)``, or
``parallel``, ``vectorized``, ``unrolled``. Nothing parses this text: programs are ``script()``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...support.errors import InternalError
from ..analysis.affine import Bounds, loop_bounds
from ..analysis.conditions import conjuncts
from ..buffer import Buffer
from ..expr import (
    EQ,
    GE,
    GT,
    INDEX,
    LE,
    LT,
    NE,
    Add,
    And,
    BufferLoad,
    Call,
    Cast,
    CompareOp,
    Div,
    Expr,
    ExternCall,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    Var,
    add,
    all_of,
    mul,
)
from ..stmt import (
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
)
from ..visitor import substitute
from .stage_lowering import LoweredStages

_OPERATORS: dict[type[Expr], str] = {
    Add: " + ", Sub: " - ", Mul: "*", Div: "/", FloorDiv: "/", FloorMod: " % ", LT: " < ",
    LE: " <= ", GT: " > ", GE: " >= ", EQ: " == ", NE: " != ", And: " && ", Or: " || ",
}  # fmt: skip
_SUFFIX = {"float32": "f", "float16": "h", "bfloat16": "bf"}


def loop_text(lowered: LoweredStages) -> str:
    """The function as C-like text; ends with a newline."""
    return _Text(lowered).run()


class _Text:
    """One walk. ``values`` has what iter vars are bound to, ``names`` the variables in scope."""

    def __init__(self, lowered: LoweredStages) -> None:
        self.lowered = lowered
        self.lines: list[str] = []
        self.depth = 0
        self.values: dict[Var, Expr] = {}
        self.names: dict[Var, str] = {}
        self.taken: set[str] = {v.name for v in lowered.func.shape_vars}
        self.bounds = Bounds()

    def run(self) -> str:
        root = self.lowered.func.root
        for b in root.alloc_buffers:
            name = self.lowered.buffers.get(b, b.name)
            self.line(f'// attr [{name}] storage_scope = "{b.scope}"')
            self.line(f"allocate {name}[{b.dtype} * {self.expr(_size(b))}]")
        self.body(root.body, None)
        return "\n".join(self.lines) + "\n"

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def nest(self, head: str, *bodies: Stmt, stage: str | None) -> None:
        self.line(head + " {")
        self.depth += 1
        for body in bodies:
            self.body(body, stage)
        self.depth -= 1
        self.line("}")

    # -- statements --------------------------------------------------------------------------------
    def owner(self, s: Stmt) -> str | None:
        """The stage a statement belongs to: that of its last block, which what stands before it
        under the same loops is computed for."""
        match s:
            case BlockRealize(_, _, block):
                return self.lowered.blocks.get(block.name)
            case For(body=body) | LetStmt(body=body):
                return self.owner(body)
            case IfThenElse(then_case=then_case):
                return self.owner(then_case)
            case SeqStmt(stmts):
                return self.owner(stmts[-1])
            case _:
                return None

    def body(self, s: Stmt, stage: str | None) -> None:
        """The statements of ``s``; neighbours of another stage than ``stage`` under one
        ``produce``."""
        stmts = s.stmts if isinstance(s, SeqStmt) else (s,)
        i = 0
        while i < len(stmts):
            owner = self.owner(stmts[i])
            if owner is None or owner == stage:
                self.stmt(stmts[i], stage)
                i += 1
                continue
            group = [stmts[i]]
            while i + len(group) < len(stmts) and self.owner(stmts[i + len(group)]) == owner:
                group.append(stmts[i + len(group)])
            self.nest(f"produce {owner}", *group, stage=owner)
            i += len(group)

    def stmt(self, s: Stmt, stage: str | None) -> None:
        match s:
            case BlockRealize():
                self.realize(s, stage)
            case For():
                self.loop(s, stage)
            case LetStmt(var, value, body):
                bound = self.bind(var, var.name)
                self.line(f"let {bound} = {self.expr(value)}")
                self.body(body, stage)
            case BufferStore(buffer, value, indices):
                self.line(f"{self.access(buffer, indices)} = {self.expr(value)}")
            case IfThenElse(condition, then_case, else_case):
                self.nest(f"if ({self.expr(condition)})", then_case, stage=stage)
                if else_case is not None:
                    self.nest("else", else_case, stage=stage)
            case Evaluate(value):
                self.line(self.expr(value))
            case _:
                raise InternalError(f"{type(s).__name__} in a function made of stages.")

    def loop(self, s: For, stage: str | None) -> None:
        outer = self.bounds
        self.bounds = outer | loop_bounds([s])
        low, extent = self.expr(s.min), self.expr(s.extent)
        if s.kind == "thread_binding":
            name = s.thread
            self.names[s.var] = name
            self.line(f"// attr [iter_var({name}, , {name})] thread_extent = {extent}")
            self.body(s.body, stage)
        else:
            before = set(self.taken)
            name = self.bind(s.var, self.lowered.loops.get(s.var, s.var.name))
            for key, value in s.annotations:
                self.line(f"// attr [{name}] {key} = {value}")
            word = "for" if s.kind == "serial" else s.kind
            self.nest(f"{word} ({name}, {low}, {extent})", s.body, stage=stage)
            self.taken = before
        self.bounds = outer

    def bind(self, var: Var, hint: str) -> str:
        name, number = hint, 0
        while name in self.taken:
            number += 1
            name = f"{hint}_{number}"
        self.taken.add(name)
        self.names[var] = name
        return name

    def realize(self, s: BlockRealize, stage: str | None) -> None:
        block = s.block
        for it, value in zip(block.iter_vars, s.iter_values, strict=True):
            self.values[it.var] = self.inlined(value)
        parts = [self.inlined(c) for c in conjuncts(s.predicate)]
        if parts:
            self.line(f"if ({' && '.join([f'likely({self.expr(p)})' for p in parts])}) {{")
            self.depth += 1
        for b in block.alloc_buffers:
            self.line(f"allocate {b.name}[{b.dtype} * {self.expr(_size(b))}]")
        self.init(block, stage)
        self.body(block.body, stage)
        if parts:
            self.depth -= 1
            self.line("}")

    def init(self, block: Block, stage: str | None) -> None:
        if block.init is None:
            return
        first = [
            EQ(self.values[it.var], it.dom.min) for it in block.iter_vars if it.kind == "reduce"
        ]
        self.nest(f"if ({self.expr(all_of(first))})", block.init, stage=stage)

    # -- expressions -------------------------------------------------------------------------------
    def inlined(self, e: Expr) -> Expr:
        return substitute(e, self.values)

    def access(self, buffer: Buffer, indices: Sequence[Expr]) -> str:
        # Outside in, so that a symbolic dim stays a factor: ((i*n) + j), not every product of it.
        flat: Expr = IntImm(0)
        for i, d in zip(indices, buffer.shape, strict=True):
            flat = add(mul(flat, d), self.bounds.simplify(self.inlined(i)))
        if all(isinstance(d, IntImm) for d in buffer.shape[1:]):
            flat = self.bounds.simplify(flat)
        return f"{self.lowered.buffers.get(buffer, buffer.name)}[{self.expr(flat)}]"

    def expr(self, e: Expr) -> str:  # noqa: C901 - one match over a closed set
        kind = type(e)
        if kind in _OPERATORS:
            pair: Any = e
            if isinstance(e, CompareOp) and pair.a.dtype is INDEX:
                pair = kind(*[self.bounds.simplify(self.inlined(x)) for x in (pair.a, pair.b)])
            return f"({self.expr(pair.a)}{_OPERATORS[kind]}{self.expr(pair.b)})"
        match e:
            case Var():
                value = self.values.get(e)
                return self.names.get(e, e.name) if value is None else self.expr(value)
            case IntImm():
                return _integer(e)
            case FloatImm():
                return _float(e)
            case BufferLoad(buffer, indices):
                return self.access(buffer, indices)
            case Min() | Max():
                return f"{kind.__name__.lower()}({self.expr(e.a)}, {self.expr(e.b)})"
            case Not(a):
                return f"!{self.expr(a)}"
            case Cast(dtype, value):
                return f"{dtype}({self.expr(value)})"
            case Select(condition, a, b):
                return f"select({self.expr(condition)}, {self.expr(a)}, {self.expr(b)})"
            case Call("neg", (a,)):
                return f"-{self.expr(a)}"
            case Call(op, args):
                return f"{op}({', '.join([self.expr(a) for a in args])})"
            case ExternCall(symbol, args):
                return f"{symbol}({', '.join([self.expr(a) for a in args])})"
            case Let(var, value, body):
                held = self.expr(value)
                return f"(let {self.bind(var, var.name)} = {held} in {self.expr(body)})"
            case _:
                raise InternalError(f"{kind.__name__} in a function made of stages.")


def _size(b: Buffer) -> Expr:
    size: Expr = IntImm(1)
    for d in b.shape:
        size = mul(size, d)
    return size


def _integer(e: IntImm) -> str:
    if e.dtype.is_bool:
        return "true" if e.value else "false"
    return str(e.value) if e.dtype is INDEX or e.dtype == "int32" else f"{e.dtype}({e.value})"


def _float(e: FloatImm) -> str:
    suffix = _SUFFIX.get(str(e.dtype), "")
    if not math.isfinite(e.value):
        return str(e.value)
    text = f"{e.value:.6f}"
    return (text if float(text) == e.value else repr(e.value)) + suffix
