"""Which sums in registers are kept as even and odd elements.

    s[0:8]  = s[0:8]  + Cast("float32x8", x[i : i + 8])
    s[8:16] = s[8:16] + Cast("float32x8", x[i + 8 : i + 16])

Of 16 bfloat16 the even ones are float32 after a shift and the odd ones after an ``and``, where in
the order of memory each half is unpacked across the register and shifted. So two neighbours of a
buffer of registers are kept *apart*, the even elements of both in the one and the odd ones in the
other, where such pairs are all that is stored there, besides what is equal in all lanes. Who reads
them otherwise finds them in their order (``loads``), as behind the loop, when lanes are added up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ...support.node import children, walk
from ..arith.linear import Linear
from ..expr import FLOAT32, Broadcast, BufferLoad, Call, Expr, IntImm, Ramp, Var
from ..stmt import BufferStore, SeqStmt, Stmt
from .beside import ELEMENTWISE, Halves, joined
from .llvm_expr import OF_THEIR_OWN
from .loads import column_elements, slot_elements
from .math import SPLITS_BLOCK

BFLOAT16 = "bfloat16"
_COMPUTED = (BFLOAT16, "float32", "bool")
Pair = tuple[int, int]
"""The id of a buffer, and the first element of two neighbours."""


class Neighbours(NamedTuple):
    """Two stores as one: what is stored, the variables in it that are two loads, and where."""

    value: Expr
    halves: dict[int, Halves]
    place: Expr


@dataclass
class Leaves:
    """What a value that is computed lane by lane loads: bfloat16 of memory, and registers."""

    memory: dict[int, BufferLoad] = field(default_factory=dict)
    registers: dict[int, BufferLoad] = field(default_factory=dict)

    def pairs(self) -> set[Pair]:
        """The neighbours among the registers."""
        return {pair for load in self.registers.values() if (pair := pair_of(load.buffer, load))}


def pair_of(buffer: object, access: BufferLoad | BufferStore) -> Pair | None:
    """The neighbours that a contiguous access of all of them names."""
    match access.indices[0]:
        case Ramp(IntImm(first), IntImm(1), _):
            return id(buffer), first
        case _:
            return None


def leaves_of(value: Expr, halves: Mapping[int, object], in_registers: set[int]) -> Leaves | None:
    """Those of ``value``; None where it is not computed lane by lane of these. ``halves`` are
    variables of bfloat16, ``in_registers`` the buffers that are."""
    found = Leaves()
    return found if _is_elementwise(value, found, halves, in_registers, set()) else None


def _is_elementwise(
    e: Expr, found: Leaves, halves: Mapping[int, object], in_registers: set[int], seen: set[int]
) -> bool:
    if id(e) in seen:
        return True
    seen.add(id(e))
    if isinstance(e, Broadcast):
        return e.value.dtype in _COMPUTED
    if isinstance(e, Var):
        return id(e) in halves
    if isinstance(e, BufferLoad):
        return _is_leaf(e, found, in_registers)
    is_call = isinstance(e, Call) and e.op not in OF_THEIR_OWN and e.op not in SPLITS_BLOCK
    if not (is_call or isinstance(e, ELEMENTWISE)) or e.dtype.scalar not in _COMPUTED:
        return False
    below = [n for n in children(e) if isinstance(n, Expr)]
    return all(_is_elementwise(n, found, halves, in_registers, seen) for n in below)


def _is_leaf(e: BufferLoad, found: Leaves, in_registers: set[int]) -> bool:
    if e.predicate is not None or not is_contiguous(e.indices[0]):
        return False
    if id(e.buffer) in in_registers:
        found.registers[id(e)] = e
        return e.buffer.dtype == FLOAT32 and pair_of(e.buffer, e) is not None
    found.memory[id(e)] = e
    return e.buffer.dtype == BFLOAT16


def is_contiguous(index: Expr) -> bool:
    match index:
        case Ramp(_, IntImm(1)):
            return True
        case _:
            return False


# -- the plan --------------------------------------------------------------------------------------
@dataclass
class _Uses:
    """What is stored in pairs: those that each is computed of, and those that read bfloat16."""

    read: dict[Pair, set[Pair]] = field(default_factory=dict)
    narrow: set[Pair] = field(default_factory=set)
    other: set[Pair] = field(default_factory=set)
    """Those where something else is stored too."""


def plan_apart(
    body: Stmt, slots: Mapping[int, set[int]], lanes: int, linear: Callable[[Expr], Linear]
) -> set[Pair]:
    """The pairs that are kept apart; ``slots`` are the first elements of the slots of ``lanes``
    float32 of each buffer of registers."""
    uses = _Uses()
    for stmts in _sequences(body):
        _note(stmts, uses, slots, lanes, linear)
    kept = {p for p in uses.read if p not in uses.other}
    # A slot is of one pair.
    kept = {(b, k) for b, k in kept if not {(b, k - lanes), (b, k + lanes)} & uses.read.keys()}
    while others := {p for p in kept if not uses.read[p] <= kept}:
        kept -= others
    apart = uses.narrow & kept
    while True:
        readers = {p for p in kept if uses.read[p] & apart}
        operands = {q for p in apart for q in uses.read[p] & kept}
        if readers | operands <= apart:
            return apart
        apart |= readers | operands


def _sequences(body: Stmt) -> Iterator[tuple[Stmt, ...]]:
    """The statements that run one after another, everywhere."""
    stmts = body.stmts if isinstance(body, SeqStmt) else (body,)
    yield stmts
    for s in stmts:
        for inner in () if isinstance(s, BufferStore) else children(s):
            if isinstance(inner, Stmt):
                yield from _sequences(inner)


def _note(
    stmts: tuple[Stmt, ...],
    uses: _Uses,
    slots: Mapping[int, set[int]],
    lanes: int,
    linear: Callable[[Expr], Linear],
) -> None:
    before: BufferStore | None = None
    for s in (*stmts, None):
        both = None
        if before is not None and isinstance(s, BufferStore):
            both = neighbours(before, s, lanes, linear) if id(s.buffer) in slots else None
        if both is None:
            if before is not None:
                _note_single(before, uses, slots, lanes)
            before = s if isinstance(s, BufferStore) and id(s.buffer) in slots else None
            continue
        assert before is not None
        _note_pair(before, both, uses, slots, lanes)
        before = None


def _note_single(s: BufferStore, uses: _Uses, slots: Mapping[int, set[int]], lanes: int) -> None:
    """A store of one slot: it is in the way, unless all lanes are equal."""
    if isinstance(s.value, Broadcast) and s.predicate is None:
        return
    column, run = column_elements(s.indices[0]), slot_elements(s.indices[0])
    elements = column if run is None else range(run[0], run[0] + run[1])
    for k in slots[id(s.buffer)]:
        if elements is None or any(k <= e < k + lanes for e in elements):
            uses.other |= {(id(s.buffer), k), (id(s.buffer), k - lanes)}


def _note_pair(
    s: BufferStore, both: Neighbours, uses: _Uses, slots: Mapping[int, set[int]], lanes: int
) -> None:
    pair = pair_of(s.buffer, s)
    assert pair is not None
    leaves = leaves_of(both.value, both.halves, set(slots))
    own = slots[id(s.buffer)]
    if leaves is None or not {pair[1], pair[1] + lanes} <= own:
        uses.other.add(pair)
        uses.read.setdefault(pair, set())
        return
    uses.read.setdefault(pair, set()).update(leaves.pairs())
    if leaves.memory or both.halves:
        uses.narrow.add(pair)


def neighbours(
    s: BufferStore, t: BufferStore, lanes: int, linear: Callable[[Expr], Linear]
) -> Neighbours | None:
    """What two stores of so many lanes side by side store, where it is computed alike."""
    if s.buffer is not t.buffer or s.predicate is not None or t.predicate is not None:
        return None
    if s.value.dtype.lanes != lanes or t.value.dtype.lanes != lanes:
        return None
    index = joined(s.indices[0], t.indices[0], linear)
    both = joined(s.value, t.value, linear) if index is not None else None
    if index is None or both is None:
        return None
    own = [n for n in walk(both.value) if isinstance(n, BufferLoad) and n.buffer is s.buffer]
    masked = [half.first.buffer for half in both.halves.values()]
    if not all(_is_same(n, s) for n in own) or any(buffer is s.buffer for buffer in masked):
        return None
    return Neighbours(both.value, both.halves, index.value)


def _is_same(load: BufferLoad, store: BufferStore) -> bool:
    """Whether a load of a joined value is of the elements that are stored, and no others."""
    match load.indices[0], store.indices[0]:
        case Ramp(IntImm(a), IntImm(1), _), Ramp(IntImm(b), IntImm(1), _):
            return a == b
        case _:
            return False
