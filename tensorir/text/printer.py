"""PrimFuncs as Python text that ``text.parser`` reads back, and marked excerpts for errors.

The text keeps the vocabulary and manner of TVMScript. Its invariant is the law ``parse(print(f))``
is structurally equal to ``f``: nothing that has meaning is left out, and what is left out (int64
literals and loop variables carry no dtype, the root block of a scheduled function is a comment) the
parser restores. Names are unique among those in scope and depend on nothing but the function.
Nothing here simplifies or checks.
"""

from __future__ import annotations

import json
import keyword
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...support.errors import InternalError
from ...support.node import Node, node_repr, walk
from ...support.structural import structural_equal
from ...support.writer import Writer, identifier
from .. import expr as e
from ..buffer import Buffer, BufferRegion, Range
from ..expr import BOOL, INDEX, Expr, IntImm, Var, is_const
from ..stmt import (
    Allocate,
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    IterVar,
    LetStmt,
    MatchBuffer,
    SeqStmt,
    Stmt,
)

if TYPE_CHECKING:
    from ..function import PrimFunc

HEADER = "# from burnish.script import T\n\n"
_RESERVED = frozenset({*keyword.kwlist, "I", "R", "T", "cls", "float", "range"})

_OR, _AND, _NOT, _COMPARE, _ADD, _MUL, _UNARY, _ATOM = 1, 2, 3, 4, 8, 9, 10, 20
_BINARY: dict[type, tuple[str, int]] = {
    e.Add: ("+", _ADD),
    e.Sub: ("-", _ADD),
    e.Mul: ("*", _MUL),
    e.FloorDiv: ("//", _MUL),
    e.FloorMod: ("%", _MUL),
    e.Or: ("or", _OR),
    e.And: ("and", _AND),
}
_COMPARISONS: dict[type, str] = {
    e.EQ: "==",
    e.NE: "!=",
    e.LT: "<",
    e.LE: "<=",
    e.GT: ">",
    e.GE: ">=",
}
_LOOPS = {
    "serial": "T.serial",
    "parallel": "T.parallel",
    "vectorized": "T.vectorized",
    "unrolled": "T.unroll",
    "thread_binding": "T.thread_binding",
}
_BEGIN, _END = "\x01", "\x02"
"""Stand around the text of a guilty node until ``print_marked`` turns them into an underline."""


def print_func(func: PrimFunc, *, name: str | None = None) -> str:
    """The function's text, from ``@T.prim_func`` on; ``name`` overrides its own (as modules do)."""
    printer = _Printer()
    printer.func(func, name or func.name)
    return printer.out.text()


def print_stmt(stmt: Stmt) -> str:
    """A statement's text; binders from outside of it print under their own names."""
    printer = _Printer()
    printer.define_free(stmt)
    printer.stmt(stmt, tail=True)
    return printer.out.text()


def print_expr(expr: Expr) -> str:
    """An expression's text, on one line."""
    printer = _Printer()
    printer.define_free(expr)
    return printer.expr(expr)


@node_repr.register
def _(n: Expr) -> str:
    return print_expr(n)


@node_repr.register
def _(n: Stmt) -> str:
    return print_stmt(n).rstrip("\n")


@node_repr.register
def _(n: IterVar) -> str:
    return f"{n.var.name}: {n.kind} {n.dom!r}"


@node_repr.register
def _(n: Range) -> str:
    return f"[{print_expr(n.min)}, {print_expr(e.add(n.min, n.extent))})"


@node_repr.register
def _(n: BufferRegion) -> str:
    return print_region(n)


def print_region(region: BufferRegion) -> str:
    """A region's text, such as ``A[vi, 0:8]``."""
    printer = _Printer()
    printer.define_free(region)
    return printer.region(region)


def print_marked(
    func: PrimFunc, nodes: Iterable[Node], message: str = "", *, context: int = 5
) -> str:
    """``message``, then the lines around the guilty ``nodes``, each underlined at every place it
    stands.

    Nodes are found by identity. A loop or block is underlined at its header. Where none of the
    nodes stands in the function the whole text is given.
    """
    printer = _Printer(guilty={id(n) for n in nodes})
    printer.func(func, func.name)
    kept: list[str] = [message] if message else []
    lines = printer.out.text().splitlines()
    guilty = [i for i, line in enumerate(lines) if _BEGIN in line]
    wanted = (
        {j for i in guilty for j in range(i - context, i + context + 1)}
        if guilty
        else set(range(len(lines)))
    )
    previous = -1
    for i in sorted(wanted & set(range(len(lines)))):
        if i != previous + 1:
            kept.append("    ...")
        kept += _underlined(lines[i])
        previous = i
    if previous < len(lines) - 1:
        kept.append("    ...")
    return "\n".join(kept)


def _underlined(line: str) -> list[str]:
    """The line without marks, and below it carets under what they enclosed (if anything)."""
    text, carets, depth = "", "", 0
    for c in line:
        if c in (_BEGIN, _END):
            depth += 1 if c == _BEGIN else -1
        else:
            text += c
            carets += "^" if depth else " "
    return [text, carets.rstrip()] if carets.strip() else [text]


def print_attr(value: Any) -> str:
    """A value of an attribute or annotation (str, int, float, bool, None, lists, dicts) as Python
    text.
    """
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(print_attr, value)) + "]"
    if isinstance(value, dict):
        return (
            "{" + ", ".join([f"{print_attr(k)}: {print_attr(v)}" for k, v in value.items()]) + "}"
        )
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if value is None or isinstance(value, (bool, int, float)):
        return repr(value)
    raise InternalError(f"An attribute holds a {type(value).__name__}, which has no text.")


class _Printer:
    """Writes one text. ``names`` holds the names of all binders met; ``taken`` those in scope."""

    def __init__(self, guilty: set[int] | None = None) -> None:
        self.out = Writer()
        self.guilty = guilty or set()
        self.names: dict[int, str] = {}
        self.taken: set[str] = set(_RESERVED)
        self.open: list[list[tuple[Node, str]]] = [[]]
        self.loops: dict[int, For] = {}

    # -- names -----------------------------------------------------------------------------------
    @contextmanager
    def scope(self) -> Iterator[None]:
        """Binders defined inside give their names free at the end."""
        self.open.append([])
        yield
        for binder, name in self.open.pop():
            self.taken.discard(name)
            self.names.pop(id(binder), None)

    def define(self, binder: Var | Buffer, *, depth: int = -1) -> str:
        base = identifier(binder.name)
        name, number = base, 0
        while name in self.taken:
            number += 1
            name = f"{base}_{number}"
        self.taken.add(name)
        self.names[id(binder)] = name
        self.open[depth].append((binder, name))
        return self.marked(binder, name)

    def name(self, binder: Var | Buffer) -> str:
        """The name of a binder; one nobody defined is free and keeps its name to the end."""
        known = self.names.get(id(binder))
        if known is None:
            return self.define(binder, depth=0)
        return self.marked(binder, known)

    def define_free(self, n: Node) -> None:
        """Name the variables and buffers of a fragment that nothing in it binds, before any
        other.
        """
        nodes = list(walk(n))
        bound = {id(m.var) for m in nodes if isinstance(m, For | LetStmt | e.Let | IterVar)}
        for m in nodes:
            if isinstance(m, Block):
                bound |= {id(b) for b in m.alloc_buffers}
                bound |= {id(x.buffer) for x in m.match_buffers}
            elif isinstance(m, Allocate):
                bound.add(id(m.buffer))
        for m in nodes:
            if isinstance(m, Var | Buffer) and id(m) not in bound and id(m) not in self.names:
                self.define(m)

    def marked(self, n: Node, text: str) -> str:
        return f"{_BEGIN}{text}{_END}" if id(n) in self.guilty else text

    # -- expressions -----------------------------------------------------------------------------
    def expr(self, n: Expr, level: int = 0) -> str:
        """The text of ``n``, in parentheses where its operator binds less than ``level``."""
        text, own = self.expr_parts(n)
        return f"({text})" if own < level else text

    def expr_parts(self, n: Expr) -> tuple[str, int]:
        kind = type(n)
        if kind in _BINARY or kind in _COMPARISONS:
            text, level = self.binary(n)
        else:
            method: Callable[[Any], tuple[str, int]] | None = getattr(
                self, f"expr_{kind.__name__}", None
            )
            if method is None and isinstance(n, Var):
                method = self.expr_Var
            if method is None:
                raise InternalError(f"{kind.__name__} has no text form.")
            text, level = method(n)
        return (text if isinstance(n, Var) else self.marked(n, text)), level

    def binary(self, n: Any) -> tuple[str, int]:
        if type(n) in _COMPARISONS:
            sign, own = _COMPARISONS[type(n)], _COMPARE
            left_level = own + 1
        else:
            sign, own = _BINARY[type(n)]
            left_level = own
        # Two bare literals would be folded by the parser: the first one then shows its dtype.
        typed = _is_bare(n.a) and _is_bare(n.b)
        left = f"T.int64({n.a.value})" if typed else self.expr(n.a, left_level)
        return f"{left} {sign} {self.expr(n.b, own + 1)}", own

    def expr_Div(self, n: e.Div) -> tuple[str, int]:  # noqa: N802
        if n.dtype.is_float:
            return f"{self.expr(n.a, _MUL)} / {self.expr(n.b, _MUL + 1)}", _MUL
        return self.call("truncdiv", n.a, n.b)

    def expr_Var(self, n: Var) -> tuple[str, int]:  # noqa: N802
        return self.name(n), _ATOM

    def expr_IntImm(self, n: IntImm) -> tuple[str, int]:  # noqa: N802
        if n.dtype is INDEX:
            return str(n.value), _ATOM if n.value >= 0 else _UNARY
        value = bool(n.value) if n.dtype is BOOL else n.value
        return f"T.{n.dtype}({value})", _ATOM

    def expr_FloatImm(self, n: e.FloatImm) -> tuple[str, int]:  # noqa: N802
        return f"T.{n.dtype}({_float_text(n.value)})", _ATOM

    def expr_StringImm(self, n: e.StringImm) -> tuple[str, int]:  # noqa: N802
        return json.dumps(n.value, ensure_ascii=False), _ATOM

    def expr_Cast(self, n: e.Cast) -> tuple[str, int]:  # noqa: N802
        return f'T.Cast("{n.dtype}", {self.expr(n.value)})', _ATOM

    def expr_Min(self, n: e.Min) -> tuple[str, int]:  # noqa: N802
        return self.call("min", n.a, n.b)

    def expr_Max(self, n: e.Max) -> tuple[str, int]:  # noqa: N802
        return self.call("max", n.a, n.b)

    def expr_Not(self, n: e.Not) -> tuple[str, int]:  # noqa: N802
        return f"not {self.expr(n.a, _NOT)}", _NOT

    def expr_Select(self, n: e.Select) -> tuple[str, int]:  # noqa: N802
        return self.call("Select", n.condition, n.true_value, n.false_value)

    def expr_BufferLoad(self, n: e.BufferLoad) -> tuple[str, int]:  # noqa: N802
        if n.predicate is None:
            return f"{self.name(n.buffer)}[{self.indices(n.indices)}]", _ATOM
        indices, predicate = ", ".join(map(self.expr, n.indices)), self.expr(n.predicate)
        return f"{self.name(n.buffer)}.vload([{indices}], predicate={predicate})", _ATOM

    def expr_Ramp(self, n: e.Ramp) -> tuple[str, int]:  # noqa: N802
        return f"T.Ramp({self.expr(n.base)}, {self.expr(n.stride)}, {n.lanes})", _ATOM

    def expr_Broadcast(self, n: e.Broadcast) -> tuple[str, int]:  # noqa: N802
        return f"T.Broadcast({self.expr(n.value)}, {n.lanes})", _ATOM

    def expr_Call(self, n: e.Call) -> tuple[str, int]:  # noqa: N802
        if n.op == "neg" and not isinstance(n.args[0], e.FloatImm):
            return f"-{self.expr(n.args[0], _UNARY)}", _UNARY
        if n.op == "reinterpret":
            return f'T.reinterpret("{n.dtype}", {self.expr(n.args[0])})', _ATOM
        return self.call(n.op, *n.args)

    def expr_ExternCall(self, n: e.ExternCall) -> tuple[str, int]:  # noqa: N802
        dtype = "void" if n.dtype == "handle" else n.dtype
        args = [f'"{dtype}"', json.dumps(n.symbol), *map(self.expr, n.args)]
        return f"T.call_extern({', '.join(args)})", _ATOM

    def expr_BufferStride(self, n: e.BufferStride) -> tuple[str, int]:  # noqa: N802
        return f"{self.name(n.buffer)}.strides[{n.axis}]", _ATOM

    def expr_AccessPtr(self, n: e.AccessPtr) -> tuple[str, int]:  # noqa: N802
        offset = "" if is_const(n.offset, 0) else f", offset={self.expr(n.offset)}"
        if all(is_const(i, 0) for i in n.element.indices):
            return f'{self.name(n.buffer)}.access_ptr("{n.mask}"{offset})', _ATOM
        return f'T.address_of({self.expr(n.element)}, "{n.mask}"{offset})', _ATOM

    def expr_Let(self, n: e.Let) -> tuple[str, int]:  # noqa: N802
        value = self.expr(n.value)
        with self.scope():
            name = self.define(n.var)
            return f"T.Let({self.expr(n.body)}, where={{{name}: {value}}})", _ATOM

    def expr_Reduce(self, n: e.Reduce) -> tuple[str, int]:  # noqa: N802
        axes = ", ".join(map(self.name, n.axes))
        return f"T.reduce_{n.combiner}({self.expr(n.source)}, axis=[{axes}])", _ATOM

    def call(self, name: str, *args: Expr) -> tuple[str, int]:
        return f"T.{name}({', '.join(map(self.expr, args))})", _ATOM

    def indices(self, indices: Sequence[Expr]) -> str:
        return ", ".join(map(self.expr, indices)) or "()"

    # -- buffers ---------------------------------------------------------------------------------
    def dims(self, dims: Sequence[Expr], *, quoted: bool) -> str:
        """A shape as a tuple. A dim that only the callee knows is a string: in a parameter's
        annotation (``quoted``) every symbolic one, elsewhere those with a variable that is not in
        scope yet.
        """
        texts = [self.dim(d, quoted=quoted) for d in dims]
        return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"

    def dim(self, d: Expr, *, quoted: bool) -> str:
        fresh = {id(v): v for v in walk(d) if isinstance(v, Var) and id(v) not in self.names}
        for v in fresh.values():
            # The text of a dim means one variable in all of a function, whatever block it is in.
            self.define(v, depth=0)
        text = self.expr(d)
        if not fresh and (not quoted or isinstance(d, IntImm)):
            return text
        return f"'{text}'" if '"' in text else f'"{text}"'

    def decl(self, b: Buffer, *, quoted: bool = False, dtype: bool = False) -> str:
        """The arguments that describe a buffer: shape, dtype (float32 unless told), and what is
        unusual.
        """
        parts = [self.dims(b.shape, quoted=quoted)]
        if dtype or b.dtype != "float32":
            parts.append(f'"{b.dtype}"')
        if b.strides:
            parts.append(f"strides={self.dims(b.strides, quoted=quoted)}")
        if not is_const(b.elem_offset, 0):
            parts.append(f"elem_offset={self.dim(b.elem_offset, quoted=quoted)}")
        if b.scope != "global":
            parts.append(f'scope="{b.scope}"')
        if b.alignment:
            parts.append(f"align={b.alignment}")
        return ", ".join(parts)

    def region(self, r: BufferRegion) -> str:
        text = ", ".join(map(self.range_index, r.region)) or "()"
        return self.marked(r, f"{self.name(r.buffer)}[{text}]")

    def range_index(self, r: Range) -> str:
        if is_const(r.extent, 1):
            return self.expr(r.min)
        return f"{self.expr(r.min)}:{self.stop(r.min, r.extent)}"

    def stop(self, start: Expr, extent: Expr) -> str:
        """``start + extent``, folded if both are constants, in the form from which the parser gets
        ``extent`` back."""
        if is_const(start, 0):
            return self.expr(extent)
        if isinstance(start, IntImm) and isinstance(extent, IntImm):
            return self.expr(IntImm(start.value + extent.value, start.dtype))
        if isinstance(extent, e.Sub) and _is_difference_from(start, extent):
            return self.expr(extent.a)
        left = self.expr(start, _ADD)
        return f"{left} + {self.expr(extent, _ADD + 1)}"

    # -- statements ------------------------------------------------------------------------------
    def stmt(self, n: Stmt, *, tail: bool = False) -> None:
        """Write ``n``; ``tail`` says that nothing follows in its suite, so that a let or an
        allocation can stand as one line before the rest.
        """
        match n:
            case SeqStmt():
                for i, s in enumerate(n.stmts):
                    self.stmt(s, tail=tail and i == len(n.stmts) - 1)
            case LetStmt() | Allocate():
                self.binding(n, tail=tail)
            case For():
                self.loop(n)
            case BlockRealize():
                self.block(n.block, n)
            case Block():
                self.block(n, None)
            case IfThenElse():
                self.condition(n)
            case BufferStore():
                self.out.line(self.marked(n, self.store(n)))
            case Evaluate():
                self.out.line(self.marked(n, f"T.evaluate({self.expr(n.value)})"))

    def suite(self, header: str, body: Stmt) -> None:
        with self.out.block(header), self.scope():
            self.stmt(body, tail=True)

    def store(self, n: BufferStore) -> str:
        if n.predicate is None:
            return f"{self.name(n.buffer)}[{self.indices(n.indices)}] = {self.expr(n.value)}"
        indices = ", ".join(map(self.expr, n.indices))
        return (
            f"{self.name(n.buffer)}.vstore([{indices}], {self.expr(n.value)}, "
            f"predicate={self.expr(n.predicate)})"
        )

    def condition(self, n: IfThenElse) -> None:
        self.suite(self.marked(n, f"if {self.expr(n.condition)}:"), n.then_case)
        if n.else_case is not None:
            self.suite("else:", n.else_case)

    def binding(self, n: LetStmt | Allocate, *, tail: bool) -> None:
        """``x: T.int64 = value`` and the rest below it; where something follows, a ``with`` around
        it.
        """
        if isinstance(n, LetStmt):
            value, binder = self.expr(n.value), n.var
            made, annotation = f"T.LetStmt({value})", f": T.{n.var.dtype}"
        else:
            binder, annotation = n.buffer, ""  # type: ignore[assignment]
            value = made = self.allocation(n)
        if tail:
            self.out.line(self.marked(n, f"{self.define(binder)}{annotation} = {value}"))
            self.stmt(n.body, tail=True)
            return
        with self.scope():
            name = self.define(binder)
            self.suite(self.marked(n, f"with {made} as {name}:"), n.body)

    def allocation(self, n: Allocate) -> str:
        b = n.buffer
        parts = [f"[{', '.join(map(self.expr, b.shape))}]", f'"{b.dtype}"', f'"{b.scope}"']
        if b.strides:
            parts.append(f"strides=[{', '.join(map(self.expr, b.strides))}]")
        if not is_const(b.elem_offset, 0):
            parts.append(f"elem_offset={self.expr(b.elem_offset)}")
        if b.alignment:
            parts.append(f"align={b.alignment}")
        if n.annotations:
            parts.append(f"annotations={print_attr(dict(n.annotations))}")
        return f"T.allocate({', '.join(parts)})"

    def loop(self, n: For) -> None:
        """A loop; plain serial loops that contain nothing but each other become one ``T.grid``."""
        nest = [n]
        while (
            _is_plain(n)
            and isinstance(n.body, For)
            and _is_plain(n.body)
            and id(n.body) not in self.guilty
        ):
            inner = n.body
            bound = {id(f.var) for f in nest}
            if any(id(v) in bound for v in walk(inner.extent)):
                break
            nest.append(inner)
            n = inner
        extents = [self.expr(f.extent) for f in nest] if len(nest) > 1 else []
        header = f"T.grid({', '.join(extents)})" if extents else self.loop_range(nest[0])
        with self.scope():
            names = ", ".join([self.define(f.var) for f in nest])
            for f in nest:
                self.loops[id(f.var)] = f
            self.suite(self.marked(nest[0], f"for {names} in {header}:"), nest[-1].body)

    def loop_range(self, n: For) -> str:
        start = [] if is_const(n.min, 0) else [self.expr(n.min, _ADD)]
        args = [*start, self.stop(n.min, n.extent)]
        if n.kind == "serial" and not n.annotations and n.var.dtype is INDEX:
            return f"range({', '.join(args)})"
        if n.thread:
            args.append(f'thread="{n.thread}"')
        if n.annotations:
            args.append(f"annotations={print_attr(dict(n.annotations))}")
        return f"{_LOOPS.get(n.kind, f'T.{n.kind}')}({', '.join(args)})"

    def block(self, b: Block, realize: BlockRealize | None) -> None:
        header = f"with T.block({print_attr(b.name)}):"
        guilty = realize if realize is not None and id(realize) in self.guilty else b
        with self.out.block(self.marked(guilty, header)), self.scope():
            self.iter_vars(b, realize)
            if realize is not None and not is_const(realize.predicate, 1):
                self.out.line(f"T.where({self.expr(realize.predicate)})")
            self.out.line(f"T.reads({', '.join(map(self.region, b.reads))})")
            self.out.line(f"T.writes({', '.join(map(self.region, b.writes))})")
            if b.annotations:
                self.out.line(f"T.block_attr({print_attr(dict(b.annotations))})")
            self.block_body(b)

    def block_body(self, b: Block) -> None:
        for a in b.alloc_buffers:
            decl = self.decl(a)
            self.out.line(f"{self.define(a)} = T.alloc_buffer({decl})")
        for m in b.match_buffers:
            self.match_buffer(m)
        if b.init is not None:
            self.suite("with T.init():", b.init)
        self.stmt(b.body, tail=True)

    def match_buffer(self, m: MatchBuffer) -> None:
        source, decl = self.region(m.source), self.decl(m.buffer)
        self.out.line(self.marked(m, f"{self.define(m.buffer)} = T.match_buffer({source}, {decl})"))

    def iter_vars(self, b: Block, realize: BlockRealize | None) -> None:
        # Bindings are outside of the block: they print before the iter vars take their names.
        values = [self.expr(v) for v in realize.iter_values] if realize is not None else []
        doms = [self.iter_dom(it.dom) for it in b.iter_vars]
        if realize is not None and self.is_remap(b.iter_vars, realize.iter_values):
            names = ", ".join([self.define(it.var) for it in b.iter_vars])
            kinds = "".join(["S" if it.kind == "spatial" else "R" for it in b.iter_vars])
            self.out.line(f'{names} = T.axis.remap("{kinds}", [{", ".join(values)}])')
            return
        for i, (it, dom) in enumerate(zip(b.iter_vars, doms, strict=True)):
            args = f"{dom}, {values[i]}" if i < len(values) else dom
            self.out.line(self.marked(it, f"{self.define(it.var)} = T.axis.{it.kind}({args})"))

    def iter_dom(self, dom: Range) -> str:
        if is_const(dom.min, 0):
            return self.expr(dom.extent)
        return f"({self.expr(dom.min, _ADD)}, {self.stop(dom.min, dom.extent)})"

    def is_remap(self, iter_vars: Sequence[IterVar], values: Sequence[Expr]) -> bool:
        """Whether every iter var (there are several) is bound to a loop of its own extent."""
        if len(iter_vars) < 2 or len(iter_vars) != len(values):
            return False
        for it, value in zip(iter_vars, values, strict=True):
            loop = self.loops.get(id(value))
            if loop is None or it.kind not in ("spatial", "reduce") or id(it) in self.guilty:
                return False
            if not (is_const(loop.min, 0) and is_const(it.dom.min, 0)):
                return False
            if not structural_equal(loop.extent, it.dom.extent, map_free_vars=False):
                return False
        return True

    # -- functions -------------------------------------------------------------------------------
    def func(self, f: PrimFunc, name: str) -> None:
        for p in f.params:
            if isinstance(p, Var):
                self.define(p)
        params = [self.param(p) for p in f.params]
        self.out.line("@T.prim_func")
        with self.out.block(f"def {identifier(name)}({', '.join(params)}):"):
            if f.attrs:
                self.out.line(f"T.func_attr({print_attr(dict(f.attrs))})")
            if _is_implicit_root(f.body):
                assert isinstance(f.body, BlockRealize)
                self.out.line(self.marked(f.body.block, '# with T.block("root"):'))
                self.block_body(f.body.block)
            else:
                self.stmt(f.body, tail=True)

    def param(self, p: Buffer | Var) -> str:
        if isinstance(p, Var):
            return f"{self.name(p)}: T.{p.dtype}"
        # The dims are named before the buffer, so that a dim called like it keeps its name.
        decl = self.decl(p, quoted=True, dtype=True)
        return f"{self.define(p)}: T.Buffer({decl})"


def _is_difference_from(start: Expr, extent: e.Sub) -> bool:
    """Whether the parser gets ``extent`` back from its minuend: ``a - start`` of neither two
    constants nor an ``a`` that reads as ``start + n``.
    """
    if not structural_equal(extent.b, start, map_free_vars=False):
        return False
    if isinstance(extent.a, IntImm):
        return not isinstance(start, IntImm)
    a = extent.a
    return not (isinstance(a, e.Add) and structural_equal(a.a, start, map_free_vars=False))


def _is_bare(n: Expr) -> bool:
    return type(n) is IntImm and n.dtype is INDEX


def _float_text(value: float) -> str:
    if not math.isfinite(value):
        return f'"{value}"'
    if value.is_integer() and abs(value) < 1e16 and str(value) != "-0.0":
        return str(int(value))
    return repr(value)


def _is_plain(n: For) -> bool:
    """Whether a ``range`` or ``T.grid`` says all there is to say about a loop."""
    return n.kind == "serial" and not n.annotations and n.var.dtype is INDEX and is_const(n.min, 0)


def _is_implicit_root(body: Stmt) -> bool:
    """Whether the parser would put this very root block around what stands below the comment."""
    if not isinstance(body, BlockRealize) or body.iter_values or not is_const(body.predicate, 1):
        return False
    b = body.block
    if (
        b.name != "root"
        or b.iter_vars
        or b.reads
        or b.writes
        or b.annotations
        or b.init is not None
    ):
        return False
    if b.match_buffers or (isinstance(b.body, BlockRealize) and b.body.block.name == "root"):
        return False
    return bool(b.alloc_buffers) or any(isinstance(n, BlockRealize) for n in walk(b.body))
