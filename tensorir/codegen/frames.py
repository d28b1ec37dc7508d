"""Where the code generator stands: the builder, variables, buffers, and the scopes open around it.

A *frame* is a loop body or a branch. Index arithmetic is emitted once in the outermost frame in
which it is known, in front of the code that enters the next frame, and found again by its linear
form: what other compilers leave to loop-invariant code motion and common subexpression elimination
holds by construction, and LLVM gets less to do. Only pure integer arithmetic moves, and with it a
load that is an index of memory nobody writes, out of loops that run at least once. A predicated
access whose index must not be run when no lane is on has a frame of its own, which no load of the
index leaves. Other loads stay where they are, and a load is reused only until a store to its buffer
or a loop with one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from llvmlite import ir

from ...support.node import walk
from ..arith.linear import Linear, LinearKey
from ..buffer import Buffer
from ..expr import (
    BufferLoad,
    Call,
    Div,
    Expr,
    ExternCall,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    Var,
)
from ..lowering.scope import Scope
from .llvm_types import I64, Literal

Key: TypeAlias = Hashable
Terms: TypeAlias = dict[Expr, int]
"""Terms of a linear form: the coefficient of each atom."""


@dataclass(slots=True)
class Frame:
    """``before`` ends with the jump into this frame (None for the function's own).

    ``is_certain`` says that whoever reaches the end of ``before`` enters the frame.
    """

    before: ir.Block | None
    is_loop: bool = False
    is_certain: bool = False
    memo: dict[Key, ir.Value] = field(default_factory=dict)


@dataclass(slots=True)
class Memory:
    """A buffer that lives in memory: a pointer to element 0, and its alignment in bytes. What is
    stored goes past the caches where it ``is_streamed``."""

    pointer: ir.Value
    alignment: int
    is_written: bool = True
    is_streamed: bool = False


class Frames:
    """The state of one function being emitted; ``ExprEmitter`` adds the expressions."""

    def __init__(self, builder: ir.IRBuilder, *, may_alias: bool = False) -> None:
        self.builder = builder
        self.may_alias = may_alias
        self.frames = [Frame(None)]
        self.height: int | None = None
        """The frame that is emitted to, where it is not the innermost."""
        self.scope = Scope()
        self.values: dict[int, ir.Value] = {}
        self.levels: dict[int, int] = {}
        self.memory: dict[int, Memory] = {}
        self.epochs: dict[int, int] = {}
        self.accumulates = False
        """Whether some loop stores to one element again and again, which LLVM is to keep in a
        register."""
        self.overwrites = False
        """Whether some element in memory is stored twice in a stretch of code, as by rows that are
        written out: LLVM is to leave the last store."""
        self.places: set[tuple[int, LinearKey]] = set()
        self.epoch = 0
        self.forms: dict[int, tuple[Expr, Linear]] = {}
        self.atom_levels: dict[Expr, int] = {}
        self.loads: dict[Expr, tuple[int, ...]] = {}
        self.fresh = 0

    # -- frames -----------------------------------------------------------------------------------
    @contextmanager
    def frame(
        self, before: ir.Block, *, is_loop: bool = False, is_certain: bool = False
    ) -> Iterator[None]:
        """What is emitted inside stands in a frame entered from the end of ``before``."""
        self.frames.append(Frame(before, is_loop, is_certain))
        self.epoch += 1
        try:
            yield
        finally:
            self.frames.pop()
            self.epoch += 1

    def bind(self, var: Var, value: ir.Value) -> None:
        """``var`` has ``value`` from here to the end of the current frame."""
        self.values[id(var)] = value
        self.levels[id(var)] = len(self.frames) - 1

    @contextmanager
    def at_level(self, level: int) -> Iterator[None]:
        """Emit in frame ``level``: here if it is the innermost, else in front of the next one."""
        if level == len(self.frames) - 1:
            yield
            return
        before = self.frames[level + 1].before
        assert before is not None
        assert before.terminator is not None
        here, height = self.builder.block, self.height
        self.builder.position_before(before.terminator)
        self.height = level
        try:
            yield
        finally:
            self.height = height
            if here.terminator is not None:
                self.builder.position_before(here.terminator)
            else:
                self.builder.position_at_end(here)

    @property
    def place(self) -> int:
        """The frame that is being emitted to."""
        return len(self.frames) - 1 if self.height is None else self.height

    def recall(self, key: Key) -> ir.Value | None:
        """A value remembered in one of the open frames, of those around what is being emitted."""
        for frame in reversed(self.frames[: self.place + 1]):
            value = frame.memo.get(key)
            if value is not None:
                return value
        return None

    # -- index arithmetic -------------------------------------------------------------------------
    def linear(self, e: Expr) -> Linear:
        """The linear form of an index; nodes shared by unrolled copies are analysed once."""
        if type(e).__name__ == "Add" and isinstance(e.b, IntImm):  # type: ignore[attr-defined]
            form = self.linear(e.a)  # type: ignore[attr-defined]
            return form.shift(e.b.value)  # type: ignore[attr-defined]
        known = self.forms.get(id(e))
        if known is None:
            known = (e, self.scope.linear(e))
            self.forms[id(e)] = known
        return known[1]

    def level_of(self, atom: Expr) -> int:
        """The innermost frame that binds a variable of an atom."""
        if type(atom) is Var:
            return self.levels[id(atom)]
        known = self.atom_levels.get(atom)
        if known is None:
            known, loads = 0, False
            for n in (n for n in walk(atom) if not isinstance(n, Buffer)):
                if isinstance(n, Var) and id(n) in self.levels:
                    known = max(known, self.levels[id(n)])
                elif isinstance(n, BufferLoad) and self._is_steady(n):
                    loads = True
                elif isinstance(n, BufferLoad | Call | ExternCall) or (
                    isinstance(n, Div | FloorDiv | FloorMod) and not isinstance(n.b, IntImm)
                ):
                    # Other loads, branches and divisions that could trap stay where the program
                    # puts them.
                    return len(self.frames) - 1
            if loads:
                return max(known, self._certain_level())
            self.atom_levels[atom] = known
        return known

    def _is_steady(self, load: BufferLoad) -> bool:
        """Whether a load gives the same value wherever it stands: of one element, of memory that
        the function does not write."""
        memory = self.memory.get(id(load.buffer))
        scalar = load.dtype.lanes == 1 and load.predicate is None
        return scalar and memory is not None and not (memory.is_written or self.may_alias)

    def _certain_level(self) -> int:
        """The outermost frame from which the code here is reached whatever the data: loops that run
        at least once may be left, branches and loops that may be empty not."""
        level = len(self.frames) - 1
        while self.frames[level].is_certain:
            level -= 1
        return level

    def grouped(self, form: Linear) -> list[tuple[int, Terms]]:
        """The terms of a form by the frame they belong to, outermost first."""
        groups: dict[int, Terms] = {}
        for atom, c in form.terms.items():
            groups.setdefault(self.level_of(atom), {})[atom] = c
        return sorted(groups.items(), key=lambda group: group[0])

    def identity(self, terms: Terms) -> Key:
        """What a sum of terms is found again by: the terms, and, where some are loaded from memory,
        the stores before."""
        plain = frozenset(terms.items())
        loaded = [b for atom in terms for b in self._loaded(atom)]
        if not any(self.may_alias or self._is_written(b) for b in loaded):
            return plain
        return (plain, self.epoch, tuple([self._moment(b) for b in loaded]))

    def form_key(self, form: Linear) -> Key:
        """``identity`` of a whole form."""
        return (form.const, self.identity(form.terms))

    def _loaded(self, atom: Expr) -> tuple[int, ...]:
        """The buffers that an atom loads from."""
        if type(atom) is Var:
            return ()
        known = self.loads.get(atom)
        if known is None:
            known = tuple([id(n.buffer) for n in walk(atom) if isinstance(n, BufferLoad)])
            self.loads[atom] = known
        return known

    def _is_written(self, buffer: int) -> bool:
        memory = self.memory.get(buffer)
        return memory is None or memory.is_written

    def _moment(self, buffer: int) -> int:
        """A number that every store to a buffer changes; for registers always a new one."""
        memory = self.memory.get(buffer)
        if memory is None:
            self.fresh += 1
            return -self.fresh
        if not memory.is_written:
            return 0
        return self.epochs.get(0 if self.may_alias else buffer, 0)

    def terms(self, level: int, terms: Terms) -> ir.Value:
        """The sum of terms of one frame, emitted there once."""
        key = ("sum", self.identity(terms))
        known = self.recall(key)
        if known is not None:
            return known
        total: ir.Value | None = None
        with self.at_level(level):
            for atom, c in terms.items():
                first, *others = self.scope.atoms.factors_of(atom)
                value = self.atom(first)
                for factor in others:
                    value = self.builder.mul(value, self.atom(factor), flags=("nsw",))
                if c != 1:
                    value = self.builder.mul(value, constant_index(c), flags=("nsw",))
                total = value if total is None else self.builder.add(total, value, flags=("nsw",))
        assert total is not None
        self.frames[level].memo[key] = total
        return total

    def index(self, e: Expr) -> ir.Value:
        """A scalar int64 index."""
        return self.form_value(self.linear(e))

    def form_value(self, form: Linear) -> ir.Value:
        total: ir.Value | None = None
        seen: list[Key] = []
        for level, terms in self.grouped(form):
            part = self.terms(level, terms)
            if total is None:
                total = part
                seen = [self.identity(terms)]
                continue
            seen.append(self.identity(terms))
            key = ("index", tuple(seen))
            known = self.recall(key)
            if known is None:
                with self.at_level(level):
                    known = self.builder.add(total, part, flags=("nsw",))
                self.frames[level].memo[key] = known
            total = known
        if total is None:
            return constant_index(form.const)
        if form.const:
            total = self.builder.add(total, constant_index(form.const), flags=("nsw",))
        return total

    def address(self, buffer: Buffer, form: Linear, element: ir.Type) -> ir.Value:
        """A pointer to an element: outer terms first, the constant last, so that it folds."""
        pointer = self.memory[id(buffer)].pointer
        seen: list[Key] = []
        for level, terms in self.grouped(form):
            seen.append(self.identity(terms))
            key = ("address", id(buffer), tuple(seen))
            known = self.recall(key)
            if known is None:
                offset = self.terms(level, terms)
                with self.at_level(level):
                    known = self.builder.gep(pointer, [offset], source_etype=element)
                self.frames[level].memo[key] = known
            pointer = known
        if form.const:
            pointer = self.builder.gep(pointer, [constant_index(form.const)], source_etype=element)
        return pointer

    def atom(self, e: Expr) -> ir.Value:
        """An atom of a linear form."""
        if isinstance(e, Var):
            return self.values[id(e)]
        return self.operation(e) if isinstance(e, Mul | FloorDiv | FloorMod) else self.expr(e)

    def operation(self, e: Expr) -> ir.Value:
        """The value of an expression that is not to be put in linear form again; ``ExprEmitter``
        says how, here and in ``expr``."""
        raise AssertionError(f"no emitter for {type(e).__name__}")

    def expr(self, e: Expr) -> ir.Value:
        """The value of any expression."""
        raise AssertionError(f"no emitter for {type(e).__name__}")

    # -- memory -----------------------------------------------------------------------------------
    def alignment(self, memory: Memory, form: Linear, itemsize: int) -> int:
        """Bytes an access is known to be aligned to."""
        align = memory.alignment
        for c in form.terms.values():
            align = _gcd_power(align, c * itemsize)
        return _gcd_power(align, form.const * itemsize)

    def load_key(self, buffer: Buffer, what: Key) -> Key:
        """A key under which a load may be found again: it changes with every store that may touch
        it."""
        memory = self.memory[id(buffer)]
        if not memory.is_written:
            return ("load", id(buffer), what)
        when = self.epochs.get(0 if self.may_alias else id(buffer), 0)
        return ("load", id(buffer), what, when, self.epoch)

    def stored(self, buffer: Buffer, form: Linear | None = None) -> None:
        """Forget the loads of a buffer that has just been written, at ``form`` if it is known."""
        if form is not None:
            level = max(map(self.level_of, form.terms), default=0)
            if any(frame.is_loop for frame in self.frames[level + 1 :]):
                self.accumulates = True
            if buffer.scope != "register":
                place = (id(buffer), form.key)
                self.overwrites |= place in self.places
                self.places.add(place)
        key = 0 if self.may_alias else id(buffer)
        self.epochs[key] = self.epochs.get(key, 0) + 1


def constant_index(value: int) -> ir.Constant:
    """An int64 constant."""
    return Literal(I64, str(value))


def _gcd_power(a: int, b: int) -> int:
    """The largest power of two that divides both (``a`` is a power of two)."""
    return min(a, b & -b) if b else a
