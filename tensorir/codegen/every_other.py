"""Stores of bfloat16 that are computed of bfloat16 element by element: the even elements and the
odd ones as two vectors of float32.

    y[i : i + 16] = relu(a[i : i + 16] + b[i : i + 16])

In the order of memory, widening is an unpacking of each half of a vector and a shift, and making
narrow two shuffles of bytes and two across lanes. Every other element of a vector of 32-bit words
is its upper half already, and the others are shifted there: an ``and`` and a shift widen a vector,
a shift and a blend join two. Nothing in between may know at which place it stands. Two stores that
are one register of float32 each, side by side, are made one for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from llvmlite import ir

from ...support.dtype import DType
from ...support.node import replace, walk
from ..expr import FLOAT32, Broadcast, BufferLoad, Expr, Ramp, Var
from ..lowering.scope import Scope
from ..stmt import BufferStore, Stmt
from ..visitor import Mutator
from .apart_slots import (
    BFLOAT16,
    Leaves,
    Pair,
    is_contiguous,
    leaves_of,
    neighbours,
    pair_of,
    plan_apart,
)
from .beside import Halves, joined
from .constant_mask import constant_lanes, load_run, run_of
from .frames import Key
from .llvm_expr import ExprEmitter
from .llvm_types import (
    I16,
    Literal,
    constant,
    memory_type,
    register_type,
    rounded_bits,
    shuffle_mask,
)
from .loads import Slot


class EveryOtherEmitter(ExprEmitter):
    """``ExprEmitter`` with such stores; ``apart_lanes`` are the lanes from which on they are made,
    two registers of float32; 0 for never."""

    apart_lanes: int = 0

    def __init__(self, builder: ir.IRBuilder, *, may_alias: bool = False) -> None:
        super().__init__(builder, may_alias=may_alias)
        self.apart: set[Pair] = set()
        self.halves_of: dict[int, Halves] = {}

    def keep_apart(self, body: Stmt) -> None:
        """Decide which registers are kept apart, before ``body`` is emitted."""
        lanes = self.apart_lanes // 2
        slots = {
            buffer: {s.first for s in registers.slots.values() if s.count == lanes}
            for buffer, registers in self.registers.items()
        }
        if not lanes or not any(slots.values()):
            return
        self.apart = plan_apart(body, slots, lanes, Scope().linear)
        for buffer, first in self.apart:
            both = [self.registers[buffer].slots[k] for k in (first, first + lanes)]
            for slot in both:
                slot.apart = (both[0], both[1])

    def store(self, s: BufferStore) -> None:
        leaves = self._leaves(s)
        if leaves is None:
            super().store(s)
            return
        if id(s.buffer) in self.registers:
            self._store_apart(s, self._computed(s.value, leaves))
            return
        b, lanes = self.builder, s.value.dtype.lanes
        bits = self._bits(s.value, leaves)
        parts = self._halves(bits)
        sixteen = constant(DType("int32").with_lanes(lanes // 2), 16)
        kind = ir.VectorType(I16, lanes)
        even, odd = b.bitcast(b.lshr(parts[0], sixteen), kind), b.bitcast(parts[1], kind)
        take = tuple([k + lanes * (k % 2) for k in range(lanes)])
        joined = Var("joined", s.value.dtype)
        self.bind(joined, b.shuffle_vector(even, odd, shuffle_mask(take)))
        super().store(replace(s, value=joined))

    def _halves(self, both: ir.Value) -> list[ir.Value]:
        lanes = both.type.count
        return [
            self.builder.shuffle_vector(
                both, Literal(both.type, "poison"), shuffle_mask(tuple(half))
            )
            for half in (range(lanes // 2), range(lanes // 2, lanes))
        ]

    def _store_apart(self, s: BufferStore, both: ir.Value) -> None:
        for part, own in zip(self._halves(both), self._pair(s), strict=True):
            self.builder.store(part, own.pointer)
            own.version += 1

    def _bits(self, value: Expr, leaves: Leaves) -> ir.Value:
        """The bits of a value, to be stored from their upper halves, its even elements first and
        then the odd ones."""
        with self._named(value, leaves) as named:
            found = self.single(named)
        lanes = value.dtype.lanes
        bits = self.builder.bitcast(found.value, register_type(DType("int32").with_lanes(lanes)))
        if found.fits:
            return bits
        return rounded_bits(self.builder, found.value, bits, lanes, plain=found.plain)

    def _computed(self, value: Expr, leaves: Leaves) -> ir.Value:
        """A float32 value, its even elements first and then the odd ones."""
        with self._named(value, leaves) as named:
            return self.expr(named)

    @contextmanager
    def _named(self, value: Expr, leaves: Leaves) -> Iterator[Expr]:
        """``value`` with variables for what it loads, whose values are apart."""
        loads = {**leaves.memory, **leaves.registers}
        named = {k: Var(load.buffer.name, load.dtype) for k, load in loads.items()}
        singles, halves = self.singles, self.halves
        self.singles = {
            **singles,
            **{id(named[k]): self._apart(leaf) for k, leaf in leaves.memory.items()},
            **{k: self._apart_halves(self.halves_of[k]) for k in _vars(value, self.halves_of)},
        }
        self.halves = halves.renamed(
            {id(named[k]): id(load.buffer) for k, load in leaves.registers.items()}
        )
        for k, load in leaves.registers.items():
            self.bind(named[k], self._apart_slots(load))
        yield _Named(named).visit(value)
        self.singles, self.halves = singles, halves

    def _apart(self, leaf: BufferLoad) -> ir.Value:
        """The even elements and then the odd ones as float32. Those that another load of the same
        elements has made float32 are found again, as the odd ones of ``x[i : i + 16]`` are the even
        ones of ``x[i + 1 : i + 17]``."""
        b, lanes = self.builder, leaf.dtype.lanes
        ints = DType("int32").with_lanes(lanes // 2)
        assert isinstance(leaf.indices[0], Ramp)
        form = self.linear(leaf.indices[0].base)
        parts = []
        for odd in (0, 1):
            what: Key = ("apart", self.form_key(form.shift(odd)), lanes)
            key = self.load_key(leaf.buffer, what)
            known = self.recall(key)
            if known is None:
                words = b.bitcast(self.load(leaf), register_type(ints))
                known = self._widened(words, odd)
                self.frames[self.place].memo[key] = known
            parts.append(known)
        return self._joined(parts[0], parts[1])

    def _widened(self, words: ir.Value, odd: int) -> ir.Value:
        ints = DType("int32").with_lanes(words.type.count)
        if odd:
            return self.builder.and_(words, constant(ints, -0x10000))
        return self.builder.shl(words, constant(ints, 16))

    def _joined(self, even: ir.Value, odd: ir.Value) -> ir.Value:
        lanes = 2 * even.type.count
        both = self.builder.shuffle_vector(even, odd, shuffle_mask(tuple(range(lanes))))
        return self.builder.bitcast(both, register_type(FLOAT32.with_lanes(lanes)))

    def _apart_halves(self, halves: Halves) -> ir.Value:
        """The same of two loads, of which one is the first half and the other the second."""
        lanes = halves.var.dtype.lanes
        whole = self._one_run(halves)
        if whole is None:
            first, second = self.load(halves.first), self.load(halves.second)
            whole = self.builder.shuffle_vector(first, second, shuffle_mask(tuple(range(lanes))))
        words = self.builder.bitcast(whole, register_type(DType("int32").with_lanes(lanes // 2)))
        return self._joined(self._widened(words, 0), self._widened(words, 1))

    def _one_run(self, halves: Halves) -> ir.Value | None:
        """Two loads under constant masks that are one run of elements, by plain loads."""
        loads = halves.first, halves.second
        first, second = [n.indices[0] for n in loads]
        assert isinstance(first, Ramp)
        masks = [[1] * first.lanes if n.predicate is None else constant_lanes(n.predicate)
                 for n in loads]  # fmt: skip
        on = [x for mask in masks if mask is not None for x in mask]
        run = run_of(on)
        if run is None or len(on) < 2 * first.lanes:
            return None
        if joined(first, second, self.linear) is None:
            return None
        dtype = halves.var.dtype
        form = self.linear(first.base)
        pointer = self.address(halves.first.buffer, form, memory_type(dtype.scalar))
        return load_run(self.builder, pointer, dtype, run)

    def _apart_slots(self, load: BufferLoad) -> ir.Value:
        """The even elements of registers and then the odd ones."""
        t = register_type(FLOAT32.with_lanes(load.dtype.lanes // 2))
        even, odd = [self.builder.load(own.pointer, typ=t) for own in self._pair(load)]
        return self._joined(even, odd)

    def _pair(self, access: BufferLoad | BufferStore) -> tuple[Slot, Slot]:
        pair = pair_of(access.buffer, access)
        found = self.registers[pair[0]].slots[pair[1]].apart if pair is not None else None
        assert found is not None
        return found

    # -- neighbours -------------------------------------------------------------------------------
    def join(self, stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """Statements, of which two in a row that store half of the lanes side by side are one."""
        joined: list[Stmt] = []
        for s in stmts if self.apart_lanes else ():
            both = self._both(joined[-1], s) if joined else None
            if both is None:
                joined.append(s)
            else:
                joined[-1] = both
        return tuple(joined) if self.apart_lanes else stmts

    def _both(self, s: Stmt, t: Stmt) -> BufferStore | None:
        if not (isinstance(s, BufferStore) and isinstance(t, BufferStore)) or self.may_alias:
            return None
        lanes = self.apart_lanes // 2
        if s.buffer.dtype != BFLOAT16 and pair_of(s.buffer, s) not in self.apart:
            return None
        found = neighbours(s, t, lanes, self.linear)
        # What is read under a mask is taken apart where it is bfloat16 alone.
        if found is None or any(h.first.buffer.dtype != BFLOAT16 for h in found.halves.values()):
            return None
        self.halves_of.update(found.halves)
        both = replace(s, value=found.value, indices=(found.place,))
        return both if self._leaves(both) is not None else None

    def _leaves(self, s: BufferStore) -> Leaves | None:
        """What such a store loads; None where it is none."""
        lanes = s.value.dtype.lanes
        if not self.apart_lanes or lanes % self.apart_lanes or s.predicate is not None:
            return None
        in_registers = id(s.buffer) in self.registers
        if in_registers:
            if pair_of(s.buffer, s) not in self.apart:
                return None
        elif s.buffer.dtype != BFLOAT16 or not is_contiguous(s.indices[0]):
            return None
        if not in_registers and isinstance(s.value, BufferLoad | Broadcast):
            return None
        leaves = leaves_of(s.value, self.halves_of, set(self.registers))
        if leaves is None or not leaves.pairs() <= self.apart:
            return None
        is_any = leaves.memory or leaves.registers or in_registers
        return leaves if is_any else None


def _vars(value: Expr, known: Mapping[int, Halves]) -> set[int]:
    return {id(n) for n in walk(value)} & known.keys()


class _Named(Mutator):
    """Puts Vars in the places of loads."""

    def __init__(self, leaves: Mapping[int, Var]) -> None:
        self.leaves = leaves

    def visit_BufferLoad(self, n: BufferLoad) -> Expr:  # noqa: N802
        return self.leaves.get(id(n), n)
