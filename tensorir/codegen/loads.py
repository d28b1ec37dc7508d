"""Loads and stores: contiguous, masked, strided, gathered, and the slots of register buffers.

A contiguous vector is one instruction, masked where it has a predicate; one that is read backwards
is that and a shuffle. Lanes that stand near each other (every other element, each element twice)
are shuffled together from contiguous vectors; anything else is a gather or scatter where the CPU
has them and single elements where it has not. A register buffer is a set
of slots: the elements that accesses with constant indices touch together, one vector alloca each,
which LLVM turns into SSA values. An access to a part of a slot reads or writes those lanes. A read
with a stride takes lanes of several slots: many of each by shuffles, one of each lane by lane, but
where it is a column of a tile whose rows are the slots, the whole tile is transposed when its first
column is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from llvmlite import ir

from ...support.abi import LINE_BYTES
from ...support.dtype import DType
from ..arith.linear import Linear, expr_key, render
from ..buffer import Buffer
from ..expr import (
    INDEX,
    Add,
    Broadcast,
    BufferLoad,
    Call,
    Expr,
    IntImm,
    Max,
    Min,
    Ramp,
    Select,
    add,
)
from ..lowering.vectorize_loops import may_fault
from ..stmt import BufferStore
from .constant_mask import constant_lanes, kept_lanes, load_run, run_of
from .extern_calls import Imported
from .frames import Frames, Key
from .llvm_types import (
    I1,
    PTR,
    Literal,
    call_intrinsic,
    constant,
    int_vector,
    memory_type,
    shuffle_mask,
    splat,
)
from .near_lanes import NearLanes, near_lanes
from .shuffles import selected_lanes
from .transpose import transpose_rows

_MASKED_BITS = 32
"""The narrowest lanes that vector instructions without mask registers have masks for."""
_NARROWEST = 16
"""Bytes of the narrowest vector of any CPU."""


@dataclass(slots=True)
class Slot:
    """Elements ``first .. first + count - 1`` of a register buffer in one alloca."""

    first: int
    count: int
    pointer: ir.Value
    version: int = 0
    """How many stores have been emitted."""
    apart: tuple[Slot, Slot] | None = None
    """Where the elements of two neighbours are kept apart, these: the alloca of the first has the
    even ones of both, that of the second the odd ones."""


@dataclass(slots=True)
class Registers:
    """The slots of a register buffer, by element."""

    slots: dict[int, Slot] = field(default_factory=dict)


class MemoryEmitter(Frames):
    """``Frames`` with loads and stores; knows whether the CPU gathers."""

    has_gather: bool = False
    has_scatter: bool = False

    def __init__(self, builder: ir.IRBuilder, *, may_alias: bool = False) -> None:
        super().__init__(builder, may_alias=may_alias)
        self.registers: dict[int, Registers] = {}
        self.kept: list[ir.Value] = []
        self.imported: Imported = {}
        """The functions that LLVM IR of the program's defines."""
        self.calls: dict[Key, ir.Value] = {}
        """The calls emitted for the statement at hand that may be found again."""

    # -- loads ------------------------------------------------------------------------------------
    def load(self, e: BufferLoad) -> ir.Value:
        """The loaded value, found again if nothing may have been stored in between."""
        buffer, index = e.buffer, e.indices[0]
        slots = self.registers.get(id(buffer))
        if slots is not None:
            return self._load_slot(slots, index, e.dtype)
        shape: Key
        if isinstance(index, Ramp):
            form = self.linear(index.base)
            shape = ("ramp", self.form_key(form), expr_key(index.stride), index.lanes)
        elif isinstance(index, Broadcast):
            form = self.linear(index.value)
            shape = ("splat", self.form_key(form), index.lanes)
        elif index.dtype.lanes > 1:
            return self._gather(e)
        else:
            form = self.linear(index)
            shape = ("scalar", self.form_key(form))
        guard = expr_key(e.predicate) if e.predicate is not None else None
        key = self.load_key(buffer, (shape, guard))
        known = self.recall(key)
        if known is None:
            known = self._new_load(e, form)
            self.frames[self.place].memo[key] = known
        return known

    def _new_load(self, e: BufferLoad, form: Linear) -> ir.Value:
        index = e.indices[0]
        if isinstance(index, Broadcast):
            return self._load_uniform(e, index)
        if e.predicate is None or not may_fault(index, self.scope):
            return self._load_at(e, form)
        with self._if_wanted(e.predicate) as result:
            result.append(self._load_at(e, form))
        return result[0]

    def _load_at(self, e: BufferLoad, form: Linear) -> ir.Value:
        index = e.indices[0]
        backwards = isinstance(index, Ramp) and _is_step(index, -1)
        if isinstance(index, Ramp) and not (_is_step(index, 1) or backwards):
            return self._gather(e)
        memory = self.memory[id(e.buffer)]
        dtype = e.dtype
        element = memory_type(dtype.scalar)
        if backwards:
            form = form.shift(1 - dtype.lanes)
        align = self.alignment(memory, form, dtype.itemsize)
        run = self._constant_run(e)
        if e.predicate is not None and run is not None and not backwards:
            pointer = self.address(e.buffer, form, element)
            value = load_run(self.builder, pointer, dtype, run)
        elif e.predicate is not None:
            mask = self.expr(e.predicate)
            if backwards:
                mask = self._reversed(mask)
            pointer = self.address(e.buffer, form, element)
            value = self._masked_load(pointer, mask, dtype, align)
        else:
            pointer = self.address(e.buffer, form, element)
            value = self.builder.load(pointer, align=align, typ=memory_type(dtype))
        if backwards:
            value = self._reversed(value)
        return self._from_memory(value, dtype)

    def _constant_run(self, e: BufferLoad) -> tuple[int, int] | None:
        """The lanes that a load of narrow elements is of, where its mask is constant and the CPU
        has none for them."""
        if e.predicate is None or self.has_gather or e.dtype.bits >= _MASKED_BITS:
            return None
        lanes = constant_lanes(e.predicate)
        return None if lanes is None else run_of(lanes)

    def _reversed(self, value: ir.Value) -> ir.Value:
        """A vector with its last lane first."""
        lanes = shuffle_mask(tuple(reversed(range(value.type.count))))
        return self.builder.shuffle_vector(value, Literal(value.type, "poison"), lanes)

    def _masked_load(self, pointer: ir.Value, mask: ir.Value, dtype: DType, align: int) -> ir.Value:
        t = memory_type(dtype)
        zeros = Literal(t, "zeroinitializer")
        args = [pointer, constant(DType("int32"), align), mask, zeros]
        return call_intrinsic(self.builder, "masked.load", t, args, f"{_suffix(t)}.p0")

    def _load_uniform(self, e: BufferLoad, index: Broadcast) -> ir.Value:
        """One element for all lanes; under a predicate only if some lane wants it."""
        scalar = BufferLoad(e.buffer, (index.value,))
        if e.predicate is None:
            return splat(self.builder, self.load(scalar), index.lanes)
        with self._if_wanted(e.predicate) as result:
            result.append(self.load(scalar))
        return splat(self.builder, result[0], index.lanes)

    @contextmanager
    def _if_wanted(self, predicate: Expr) -> Iterator[list[ir.Value]]:
        """What is emitted inside runs only if some lane is on, and so do the loads and divisions of
        an index. The values put into the list are zero after it where no lane is on."""
        word_type = ir.IntType(predicate.dtype.lanes)
        word = self.builder.bitcast(self.expr(predicate), word_type)
        wanted = self.builder.icmp_unsigned("!=", word, ir.Constant(word_type, 0))
        before = self.builder.block
        running, merge = self.builder.append_basic_block(), self.builder.append_basic_block()
        self.builder.cbranch(wanted, running, merge)
        self.builder.position_at_end(running)
        values: list[ir.Value] = []
        with self.frame(before):
            yield values
        last = self.builder.block
        self.builder.branch(merge)
        self.builder.position_at_end(merge)
        for k, value in enumerate(values):
            phi = self.builder.phi(value.type)
            phi.add_incoming(value, last)
            phi.add_incoming(Literal(value.type, _zero(value.type)), before)
            values[k] = phi

    def _from_memory(self, value: ir.Value, dtype: DType) -> ir.Value:
        if not dtype.is_bool:
            return value
        return self.builder.icmp_unsigned("!=", value, Literal(value.type, _zero(value.type)))

    def _to_memory(self, value: ir.Value, dtype: DType) -> ir.Value:
        return self.builder.zext(value, memory_type(dtype)) if dtype.is_bool else value

    # -- gathers ----------------------------------------------------------------------------------
    def _pointers(self, buffer: Buffer, index: Expr) -> ir.Value:
        """A vector of pointers to the elements a vector index names."""
        element = memory_type(buffer.dtype)
        if isinstance(index, Ramp) and isinstance(index.stride, IntImm):
            base = self.address(buffer, self.linear(index.base), element)
            steps: ir.Value = int_vector(64, [index.stride.value * k for k in range(index.lanes)])
        else:
            base = self.memory[id(buffer)].pointer
            steps = self.expr(index)
        pointers = self.builder.gep(base, [steps], source_etype=element)
        pointers.type = ir.VectorType(PTR, index.dtype.lanes)
        return pointers

    def _gather(self, e: BufferLoad) -> ir.Value:
        index, dtype = e.indices[0], e.dtype
        t = memory_type(dtype)
        kept = constant_lanes(e.predicate) if e.predicate is not None else None
        if e.predicate is None or kept is not None:
            near = self._near(e.buffer, index)
            if near is not None and kept is None:
                return self._load_near(e.buffer, near)
            if near is not None and kept is not None and self._are_inside(e.buffer, near):
                return kept_lanes(self.builder, self._load_near(e.buffer, near), kept)
        if e.predicate is None:
            looked_up = _lane_indices(index)
            if looked_up is not None:
                return self._look_up(e.buffer, looked_up, dtype)
        if self.has_gather and dtype.bits >= 32 and not isinstance(index, Broadcast):
            pointers = self._pointers(e.buffer, index)
            mask = self.expr(e.predicate) if e.predicate is not None else _all(dtype.lanes)
            zeros = Literal(t, "zeroinitializer")
            args = [pointers, constant(DType("int32"), dtype.itemsize), mask, zeros]
            suffix = f"{_suffix(t)}.v{dtype.lanes}p0"
            return call_intrinsic(self.builder, "masked.gather", t, args, suffix)
        if e.predicate is not None:
            return self._gather_guarded(e)
        return self._one_by_one(self._lane_pointers(e.buffer, index), dtype)

    def _one_by_one(self, pointers: Iterable[ir.Value], dtype: DType) -> ir.Value:
        """A vector of the elements at ``pointers``."""
        result: ir.Value = Literal(memory_type(dtype), "poison")
        element = memory_type(dtype.scalar)
        for lane, pointer in enumerate(pointers):
            one = self.builder.load(pointer, align=dtype.itemsize, typ=element)
            result = self.builder.insert_element(result, one, constant(DType("int32"), lane))
        return self._from_memory(result, dtype)

    def _load_near(self, buffer: Buffer, near: NearLanes) -> ir.Value:
        """Contiguous vectors, found again where others are taken from them too, and of them the
        lanes."""
        vectors = []
        for start in near.starts:
            base = render(near.first.shift(start))
            index = Ramp(base, IntImm(1, INDEX), near.width) if near.width > 1 else base
            vectors.append(self.load(BufferLoad(buffer, (index,))))
        return selected_lanes(self.builder, vectors, near.places)

    def _near(self, buffer: Buffer, index: Expr) -> NearLanes | None:
        """Lanes that stand near each other, of a vector that others read too where one is."""
        near = near_lanes(index, self.linear)
        if near is None:
            return None
        filled = near.filling(index.dtype.lanes)
        return filled if filled is not None and self._are_inside(buffer, filled) else near

    def _are_inside(self, buffer: Buffer, near: NearLanes) -> bool:
        """Whether all that the vectors of near lanes load is the buffer's."""
        size = self.linear(buffer.shape[0])
        return all(
            self.scope.is_at_least(form, 0)
            and self.scope.is_below(form.shift(near.width) - size, 1)
            for form in map(near.first.shift, near.starts)
        )

    def _look_up(self, buffer: Buffer, indices: list[Expr], dtype: DType) -> ir.Value:
        """Elements at places that are in memory: a place is loaded where it is used, which takes
        less than to load many and to gather by them."""
        element = memory_type(dtype.scalar)
        places = (self.address(buffer, self.linear(index), element) for index in indices)
        return self._one_by_one(places, dtype)

    def _lane_pointers(self, buffer: Buffer, index: Expr) -> list[ir.Value]:
        element = memory_type(buffer.dtype)
        lanes = index.dtype.lanes
        if isinstance(index, Ramp) and isinstance(index.stride, IntImm):
            form, step = self.linear(index.base), index.stride.value
            return [self.address(buffer, form.shift(step * k), element) for k in range(lanes)]
        where = self.expr(index)
        base = self.memory[id(buffer)].pointer
        numbers = [
            self.builder.extract_element(where, constant(DType("int32"), k)) for k in range(lanes)
        ]
        return [self.builder.gep(base, [n], source_etype=element) for n in numbers]

    def _gather_guarded(self, e: BufferLoad) -> ir.Value:
        """Element by element, each read only if its lane is on."""
        assert e.predicate is not None
        t = memory_type(e.dtype)
        mask = self.expr(e.predicate)
        result: ir.Value = Literal(t, "zeroinitializer")
        for lane, pointer in enumerate(self._lane_pointers(e.buffer, e.indices[0])):
            number = constant(DType("int32"), lane)
            before = self.builder.block
            on, merge = self.builder.append_basic_block(), self.builder.append_basic_block()
            self.builder.cbranch(self.builder.extract_element(mask, number), on, merge)
            self.builder.position_at_end(on)
            one = self.builder.load(
                pointer, align=e.dtype.itemsize, typ=memory_type(e.dtype.scalar)
            )
            filled = self.builder.insert_element(result, one, number)
            self.builder.branch(merge)
            self.builder.position_at_end(merge)
            phi = self.builder.phi(t)
            phi.add_incoming(filled, on)
            phi.add_incoming(result, before)
            result = phi
        return self._from_memory(result, e.dtype)

    # -- stores -----------------------------------------------------------------------------------
    def store(self, s: BufferStore) -> None:
        """``buffer[index] = value``, in the lanes of the predicate."""
        buffer, index = s.buffer, s.indices[0]
        slots = self.registers.get(id(buffer))
        value = self.expr(s.value)
        if slots is not None:
            mask = self.expr(s.predicate) if s.predicate is not None else None
            self._store_slot(slots, index, value, mask, s.value.dtype)
            return
        if s.predicate is None or not (isinstance(index, Ramp) and may_fault(index, self.scope)):
            self._store_at(s, value)
            return
        with self._if_wanted(s.predicate):
            self._store_at(s, value)

    def _store_at(self, s: BufferStore, value: ir.Value) -> None:
        buffer, index = s.buffer, s.indices[0]
        memory = self.memory[id(buffer)]
        dtype = s.value.dtype
        value = self._to_memory(value, dtype)
        element = memory_type(dtype.scalar)
        if index.dtype.lanes > 1 and not (isinstance(index, Ramp) and _is_step(index, 1)):
            self._scatter(s, value)
            self.stored(buffer)
        else:
            form = self.linear(index.base if isinstance(index, Ramp) else index)
            mask = self.expr(s.predicate) if s.predicate is not None else None
            pointer = self.address(buffer, form, element)
            align = self.alignment(memory, form, dtype.itemsize)
            if mask is None:
                value = self._written_whole(s, value)
                stored = self.builder.store(value, pointer, align=align)
                if memory.is_streamed and _fills_lines(form, dtype):
                    one = self.builder.module.add_metadata([constant(DType("int32"), 1)])
                    stored.set_metadata("nontemporal", one)
            else:
                self._masked_store(value, pointer, mask, align)
            self.stored(buffer, form)

    def _written_whole(self, s: BufferStore, value: ir.Value) -> ir.Value:
        """A vector that is chosen lane by lane as LLVM is to store it: where what is not chosen
        stands there already it would store the others under a mask (``_masked_store``)."""
        chosen = isinstance(s.value, Min | Max) and s.value.dtype.kind != "float"
        if s.value.dtype.lanes == 1 or not (chosen or isinstance(s.value, Select)):
            return value
        frozen = ir.Instruction(self.builder.block, value.type, "freeze", [value])
        self.builder._insert(frozen)
        return frozen

    def _masked_store(self, value: ir.Value, pointer: ir.Value, mask: ir.Value, align: int) -> None:
        """The lanes of a mask. Without registers for masks such a store takes as long as a dozen
        others (AMD), or is one for each lane: where all are on, which most are, it is a plain
        one."""
        if self.has_gather:
            self._store_lanes(value, pointer, mask, align)
            return
        lanes = self.builder.bitcast(mask, ir.IntType(value.type.count))
        is_whole = self.builder.icmp_unsigned("==", lanes, Literal(lanes.type, "-1"))
        with self.builder.if_else(is_whole) as (whole, part):
            with whole:
                self.builder.store(value, pointer, align=align)
            with part:
                self._store_lanes(value, pointer, mask, align)

    def _store_lanes(self, value: ir.Value, pointer: ir.Value, mask: ir.Value, align: int) -> None:
        args = [value, pointer, constant(DType("int32"), align), mask]
        call_intrinsic(
            self.builder, "masked.store", ir.VoidType(), args, f"{_suffix(value.type)}.p0"
        )

    def _scatter(self, s: BufferStore, value: ir.Value) -> None:
        dtype, index = s.value.dtype, s.indices[0]
        mask = self.expr(s.predicate) if s.predicate is not None else None
        if self.has_scatter and dtype.bits >= 32:
            pointers = self._pointers(s.buffer, index)
            on = mask if mask is not None else _all(dtype.lanes)
            args = [value, pointers, constant(DType("int32"), dtype.itemsize), on]
            suffix = f"{_suffix(value.type)}.v{dtype.lanes}p0"
            call_intrinsic(self.builder, "masked.scatter", ir.VoidType(), args, suffix)
            return
        for lane, pointer in enumerate(self._lane_pointers(s.buffer, index)):
            number = constant(DType("int32"), lane)
            one = self.builder.extract_element(value, number)
            if mask is None:
                self.builder.store(one, pointer, align=dtype.itemsize)
            else:
                with self.builder.if_then(self.builder.extract_element(mask, number)):
                    self.builder.store(one, pointer, align=dtype.itemsize)

    # -- register slots ---------------------------------------------------------------------------
    # Truth values are bytes there, as in memory: bytes can be shuffled, bits cannot.
    def _load_slot(self, registers: Registers, index: Expr, dtype: DType) -> ir.Value:
        return self._from_memory(self._stored_slot(registers, index, dtype), dtype)

    def _stored_slot(self, registers: Registers, index: Expr, dtype: DType) -> ir.Value:
        elements = slot_elements(index)
        if elements is None:
            return self._load_column(registers, index, dtype)
        first, lanes = elements
        slot = registers.slots[first]
        whole = self._read_slot(slot, dtype)
        if (slot.first, slot.count) == (first, lanes):
            return whole
        at = first - slot.first
        if lanes == 1:
            return self.builder.extract_element(whole, constant(DType("int32"), at))
        poison = Literal(whole.type, "poison")
        return self.builder.shuffle_vector(
            whole, poison, shuffle_mask(tuple(range(at, at + lanes)))
        )

    def _store_slot(
        self,
        registers: Registers,
        index: Expr,
        value: ir.Value,
        mask: ir.Value | None,
        dtype: DType,
    ) -> None:
        elements = slot_elements(index)
        value = self._to_memory(value, dtype)
        if elements is None:
            self._store_column(registers, index, value, mask, dtype)
            return
        first, lanes = elements
        slot = registers.slots[first]
        slot.version += 1
        if mask is not None:
            value = self.builder.select(mask, value, self._stored_slot(registers, index, dtype))
        if (slot.first, slot.count) != (first, lanes):
            whole = self._read_slot(slot, dtype)
            value = self._blend(whole, value, first - slot.first, lanes, slot.count)
        self._write_slot(slot, value, dtype)

    def _read_slot(self, slot: Slot, dtype: DType) -> ir.Value:
        """The elements of a slot, in their order."""
        t = _slot_type(dtype.scalar, slot.count)
        if slot.apart is None:
            return self.builder.load(slot.pointer, typ=t)
        even, odd = [self.builder.load(s.pointer, typ=t) for s in slot.apart]
        half, own = slot.count // 2, range(slot.count)
        begin = 0 if slot is slot.apart[0] else half
        places = tuple([begin + k // 2 + k % 2 * slot.count for k in own])
        return self.builder.shuffle_vector(even, odd, shuffle_mask(places))

    def _write_slot(self, slot: Slot, value: ir.Value, dtype: DType) -> None:
        if slot.apart is None:
            self.builder.store(value, slot.pointer)
            return
        first, second = [value if s is slot else self._read_slot(s, dtype) for s in slot.apart]
        for odd, s in enumerate(slot.apart):
            places = shuffle_mask(tuple(range(odd, 2 * slot.count, 2)))
            self.builder.store(self.builder.shuffle_vector(first, second, places), s.pointer)
            s.version += 1

    def _load_column(self, registers: Registers, index: Expr, dtype: DType) -> ir.Value:
        """A lane each of several slots. The columns of one tile are made together and found again
        until a row is stored."""
        places = _places(registers, index)
        slots = [slot for slot, _ in places]
        at, count = places[0][1], slots[0].count
        is_tile = all(p == at and s.count == count for s, p in places)
        distinct = list({id(s): s for s in slots}.values())
        if len(distinct) * 2 <= len(slots):
            return self._select_lanes(distinct, places, dtype)
        if count == 1 or not is_tile or len(distinct) < len(slots):
            return self._assembled([self._lane(s, p, dtype) for s, p in places], dtype)
        versions = tuple([(id(s), s.version) for s in slots])
        keys: list[Key] = [("column", j, self.epoch, versions) for j in range(count)]
        known = self.recall(keys[at])
        if known is None:
            rows = [self._read_slot(s, dtype) for s in slots]
            columns = transpose_rows(self.builder, rows, dtype.itemsize)
            self.frames[-1].memo.update(zip(keys, columns, strict=True))
            known = columns[at]
        return known

    def _select_lanes(
        self, slots: list[Slot], places: list[tuple[Slot, int]], dtype: DType
    ) -> ir.Value:
        """Many lanes each of few slots."""
        vectors = [self._read_slot(s, dtype) for s in slots]
        position = {id(s): n for n, s in enumerate(slots)}
        return selected_lanes(self.builder, vectors, [(position[id(s)], at) for s, at in places])

    def _lane(self, slot: Slot, at: int, dtype: DType) -> ir.Value:
        whole = self._read_slot(slot, dtype)
        if slot.count == 1:
            return whole
        return self.builder.extract_element(whole, constant(DType("int32"), at))

    def _assembled(self, elements: list[ir.Value], dtype: DType) -> ir.Value:
        result: ir.Value = Literal(memory_type(dtype), "poison")
        for k, element in enumerate(elements):
            result = self.builder.insert_element(result, element, constant(DType("int32"), k))
        return result

    def _store_column(
        self,
        registers: Registers,
        index: Expr,
        value: ir.Value,
        mask: ir.Value | None,
        dtype: DType,
    ) -> None:
        """Lane by lane into several slots."""
        b = self.builder
        for k, (slot, at) in enumerate(_places(registers, index)):
            number = constant(DType("int32"), k)
            one = b.extract_element(value, number)
            whole = self._read_slot(slot, dtype)
            if slot.count > 1:
                one = b.insert_element(whole, one, constant(DType("int32"), at))
            if mask is not None:
                one = b.select(b.extract_element(mask, number), one, whole)
            self._write_slot(slot, one, dtype)
            slot.version += 1

    def _blend(self, whole: ir.Value, part: ir.Value, at: int, lanes: int, count: int) -> ir.Value:
        """``whole`` with ``part`` in its lanes from ``at``."""
        if lanes == 1:
            return self.builder.insert_element(whole, part, constant(DType("int32"), at))
        widen = shuffle_mask(tuple([min(k, lanes - 1) for k in range(count)]))
        wide = self.builder.shuffle_vector(part, Literal(part.type, "poison"), widen)
        take = [count + k - at if at <= k < at + lanes else k for k in range(count)]
        return self.builder.shuffle_vector(whole, wide, shuffle_mask(tuple(take)))

    def prefetch(self, e: Call) -> ir.Value:
        """Asks for the cache line of an element, for reading, to stay in all caches or in those
        from the second level on."""
        load = e.args[0]
        assert isinstance(load, BufferLoad)
        index = load.indices[0]
        form = self.linear(index.base if isinstance(index, Ramp) else index)
        pointer = self.address(load.buffer, form, memory_type(load.buffer.dtype))
        hints = [constant(DType("int32"), v) for v in (0, 3 if e.op == "prefetch" else 2, 1)]
        return call_intrinsic(self.builder, "prefetch", ir.VoidType(), [pointer, *hints], "p0")


def _fills_lines(form: Linear, dtype: DType) -> bool:
    """Whether a vector is stored past the caches: of a part of a line, memory would have to be
    read. It divides a line or is several, lies at a multiple of its size (or of a line), and loops
    move it by whole lines, so that what is stored beside it makes up the rest."""
    size = dtype.lanes * dtype.itemsize
    part = math.gcd(size, LINE_BYTES)
    places = [form.const * dtype.itemsize % part]
    places += [c * dtype.itemsize % LINE_BYTES for c in form.terms.values()]
    return part in (size, LINE_BYTES) and part >= _NARROWEST and not any(places)


def slot_elements(index: Expr) -> tuple[int, int] | None:
    """(first, lanes) of a constant index of a register buffer; None where it is not constant."""
    match index:
        case IntImm(value):
            return value, 1
        case Ramp(IntImm(base), IntImm(1), lanes):
            return base, lanes
        case _:
            return None


def column_elements(index: Expr) -> range | None:
    """The elements that a constant index with a stride names, one a lane."""
    match index:
        case Ramp(IntImm(base), IntImm(stride), lanes) if stride > 1:
            return range(base, base + stride * lanes, stride)
        case _:
            return None


def _lane_indices(index: Expr) -> list[Expr] | None:
    """The index of each lane, where it is a place in memory moved by what is the same in all; None
    for any other."""
    match index:
        case BufferLoad(buffer, (Ramp(base, IntImm(1), lanes),), None) if buffer.scope == "global":
            return [BufferLoad(buffer, (add(base, k),)) for k in range(lanes)]
        case Add(Broadcast(value), moved) | Add(moved, Broadcast(value)):
            lane = _lane_indices(moved)
            return lane if lane is None else [add(value, i) for i in lane]
        case _:
            return None


def _places(registers: Registers, index: Expr) -> list[tuple[Slot, int]]:
    """The slot and the lane in it of each element of a column."""
    elements = column_elements(index)
    assert elements is not None
    slots = [registers.slots[k] for k in elements]
    return [(slot, k - slot.first) for slot, k in zip(slots, elements, strict=True)]


def _slot_type(dtype: DType, count: int) -> ir.Type:
    return memory_type(dtype.with_lanes(count))


def _is_step(index: Ramp, step: int) -> bool:
    return isinstance(index.stride, IntImm) and index.stride.value == step


def _suffix(t: ir.Type) -> str:
    return f"v{t.count}{t.element.intrinsic_name}"


def _zero(t: ir.Type) -> str:
    if isinstance(t, ir.VectorType):
        return "zeroinitializer"
    return "0" if isinstance(t, ir.IntType) else "0.0"


def _all(lanes: int) -> ir.Constant:
    return Literal(ir.VectorType(I1, lanes), "splat (i1 true)")
