"""decompose_padding: a block that pads becomes a fill with a constant and a copy of what is inside.

    for i in range(10):  P[i] = A[i - 1] if 1 <= i < 9 else 0
 -> for i in range(10):  P[i] = 0
    for i in range(8):   P[i + 1] = A[i]

Neither part has a condition left where the axes are bound to whole loops: the copy runs over
exactly the inside. What cannot be cut off the loops stays as the copy's predicate. The fill comes
first, directly before the given loop, so nothing below the loop may need an element in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....support.errors import (
    DependenceError,
    NotCompleteBlockError,
    ScheduleError,
    ScheduleValueError,
)
from ....support.node import map_children, replace, walk
from ...analysis.affine import Bounds, loop_bounds, undetermined
from ...analysis.block_kinds import binding_map, binds, domain_bounds, single_store
from ...analysis.conditions import conjunction, conjuncts
from ...analysis.loop_checks import own_nest
from ...analysis.nested_blocks import blocks_below
from ...analysis.paths import (
    Path,
    all_loops_above,
    find_block,
    find_loop,
    fresh_name,
    loops_above,
    realize_of,
    rebuild,
    scope_of,
    with_body,
)
from ...analysis.preconditions import fail, require_ancestor, require_complete
from ...arith import infer_regions
from ...arith.linear import render
from ...buffer import Buffer, Range
from ...expr import (
    EQ,
    GE,
    GT,
    INDEX,
    LE,
    LT,
    NE,
    And,
    BufferLoad,
    Call,
    Expr,
    IntImm,
    Not,
    Or,
    Select,
    Var,
    add,
    is_const,
    maximum,
    minimum,
    sub,
)
from ...function import PrimFunc
from ...rolling import ROLLING
from ...stmt import Block, BlockRealize, BufferStore, For, IterVar, Stmt, seq
from ...visitor import has_load, substitute, uses
from ..primitive import BLOCK, BLOCKS, LOOP, primitive
from ..rewriting.nests import nest_like
from ..state import BlockLike, ScheduleState
from ..trace.handles import BlockHandle, BlockRV, LoopRV

_NEGATED: dict[type[Expr], type[Expr]] = {LT: GE, GE: LT, LE: GT, GT: LE, EQ: NE, NE: EQ}
_NAME = "decompose_padding"


class DecomposePadding(ScheduleState):
    def can_decompose_padding(self, block: BlockLike, loop: LoopRV) -> bool:
        """Whether decompose_padding would take a block and loop. Not recorded.

        Requires:

        - a block and a loop that are there (BlockNotFoundError, LoopNotFoundError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8,), "float32"), B: T.Buffer((10,), "float32")):
                for i in range(10):
                    with T.block("B"):
                        vi = T.axis.spatial(10, i)
                        B[vi] = T.if_then_else(1 <= vi and vi < 9, A[vi - 1], T.float32(0))

        Schedule::

            (i,) = sch.get_loops("B")
            assert sch.can_decompose_padding("B", i)
        """
        func, name = self._block(self._handle(block))
        var = self._place(loop, "can_decompose_padding").var
        find_loop(self._functions[func], var, "can_decompose_padding")
        try:
            decompose_padding(self._functions[func], name, var)
        except ScheduleError:
            return False
        return True

    @primitive(BLOCKS, block=BLOCK, loop=LOOP)
    def decompose_padding(self, block: BlockLike, loop: LoopRV) -> BlockRV:
        """Split a block that pads into a fill with the constant, whose handle is returned, and a
        copy of what is inside.

        The block stores ``if_then_else(inside, value, constant)``. The fill, called after the
        block with ``_pad_const`` at the end, comes directly before ``loop`` and has copies of the
        loops from there on. The block itself keeps its name and runs over the inside only: axes
        that are bound to whole loops of their own, from ``loop`` on, are cut to it; other
        conditions become the block's predicate.

        Requires:

        - a complete block that stores such a value, inside being a conjunction that does not read
          memory (NotCompleteBlockError) and does not hold always or never (ScheduleValueError);
        - a loop around the block (NotAncestorError);
        - no other block below the loop that uses the buffer, but readers after the block; no
          parallel loop whose iterations pad the same elements (DependenceError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8,), "float32"), B: T.Buffer((10,), "float32")):
                for i in range(10):
                    with T.block("B"):
                        vi = T.axis.spatial(10, i)
                        B[vi] = T.if_then_else(1 <= vi and vi < 9, A[vi - 1], T.float32(0))

        Schedule::

            (i,) = sch.get_loops("B")
            fill = sch.decompose_padding("B", i)

        After::

            @T.prim_func
            def main(A: T.Buffer((8,), "float32"), B: T.Buffer((10,), "float32")):
                for i in range(10):
                    with T.block("B_pad_const"):
                        vi = T.axis.spatial(10, i)
                        B[vi] = T.float32(0)
                for i in range(8):
                    with T.block("B"):
                        vi = T.axis.spatial(8, i)
                        B[vi + 1] = A[vi]
        """
        owner, name = self._block(block)
        done = decompose_padding(self._functions[owner], name, loop.var)
        self._commit(owner, done.func)
        return BlockHandle(done.fill, owner)


@dataclass(slots=True)
class DecomposedPadding:
    """The new function, and the name of the block that fills."""

    func: PrimFunc
    fill: str


@dataclass(slots=True)
class _Padding:
    """``buffer[indices] = value if all(inside) else pad``."""

    store: BufferStore
    inside: list[Expr]
    value: Expr
    pad: Expr


def decompose_padding(func: PrimFunc, block_name: str, loop_var: Var) -> DecomposedPadding:
    """Split a padding block into a fill before a loop, and a copy where the block was."""
    path = find_block(func, block_name, _NAME)
    block = realize_of(path).block
    require_complete(func, block, _NAME)
    require_ancestor(func, path, loop_var, _NAME)
    padding = _padding_of(func, block)
    loops = loops_above(path)
    at = next(i for i, loop in enumerate(loops) if loop.var is loop_var)
    _require_untouched(func, path, loops[at], padding.store.buffer)
    _require_no_race(func, path, padding.store.buffer)
    names = {n.block.name for n in walk(func.body) if isinstance(n, BlockRealize)}
    fill_name = fresh_name(names, f"{block.name}_pad_const")
    fill = _fill_nest(realize_of(path), loops[at:], padding, fill_name)
    top = path.index(loops[at])
    body = _copy_nest(func, path, top, padding)
    return DecomposedPadding(with_body(func, rebuild(path[: top + 1], seq(fill, body))), fill_name)


def _padding_of(func: PrimFunc, block: Block) -> _Padding:
    store = single_store(block)
    value = store.value if store is not None else None
    if store is None or not _is_choice(value):
        found = (
            f"Expected {block.name!r} to store if_then_else(inside, value, constant); it does not."
        )
        raise fail(NotCompleteBlockError, _NAME, func, [block], found)
    if any(key == ROLLING for key, _ in block.annotations):
        found = (
            f"The buffer that {block.name!r} writes is circular: filling it before the copy begins "
            "would be undone by the copy. Decompose the padding before rolling_buffer."
        )
        raise fail(DependenceError, _NAME, func, [block], found)
    assert value is not None
    condition, one, other = _choice(value)
    if not has_load(one) and has_load(other):
        one, other = other, one
        inside = _conjuncts(condition, negated=True)
    else:
        inside = _conjuncts(condition, negated=False)
    why = ""
    if inside is None:
        why = "its condition is no conjunction"
    elif has_load(other) or any(binds([other], it.var) for it in block.iter_vars):
        why = "the value outside is no constant"
    elif any(has_load(c) for c in inside):
        why = "its condition reads memory"
    if why:
        found = f"The block {block.name!r} does not pad: {why}."
        raise fail(NotCompleteBlockError, _NAME, func, [block], found)
    assert inside is not None
    bounds = domain_bounds(block)
    inside = [c for c in inside if not bounds.proves(c)]
    if not inside:
        found = f"The block {block.name!r} does not pad: its condition always holds."
        raise fail(ScheduleValueError, _NAME, func, [block], found)
    return _Padding(store, inside, one, other)


def _is_choice(e: Expr | None) -> bool:
    return isinstance(e, Select) or (isinstance(e, Call) and e.op == "if_then_else")


def _choice(e: Expr) -> tuple[Expr, Expr, Expr]:
    if isinstance(e, Select):
        return e.condition, e.true_value, e.false_value
    assert isinstance(e, Call)
    return e.args[0], e.args[1], e.args[2]


def _conjuncts(e: Expr, *, negated: bool) -> list[Expr] | None:
    """A condition (or its negation) as a list of conditions that all hold; None if it is none."""
    parts: list[list[Expr] | None]
    match e:
        case And(a=a, b=b) if not negated:
            parts = [_conjuncts(a, negated=False), _conjuncts(b, negated=False)]
        case Or(a=a, b=b) if negated:
            parts = [_conjuncts(a, negated=True), _conjuncts(b, negated=True)]
        case Not(a=a):
            return _conjuncts(a, negated=not negated)
        case Call(op="likely", args=(a,)):
            return _conjuncts(a, negated=negated)
        case Call(op="if_then_else", args=(a, b, c)) if not negated and is_const(c, 0):
            parts = [_conjuncts(a, negated=False), _conjuncts(b, negated=False)]
        case IntImm():
            return [] if bool(e.value) is not negated else None
        case _ if not negated:
            return [e]
        case LT() | LE() | GT() | GE() | EQ() | NE():
            return [_NEGATED[type(e)](e.a, e.b)]  # type: ignore[call-arg]
        case _:
            return None
    first, second = parts
    return None if first is None or second is None else [*first, *second]


def _require_untouched(func: PrimFunc, path: Path, loop: For, buffer: Buffer) -> None:
    """Other blocks below the loop may read what is padded, afterwards; nothing else."""
    block = realize_of(path).block
    passed = False
    for n in blocks_below(loop):
        if n.block is block:
            passed = True
            continue
        writes = any(r.buffer is buffer for r in n.block.writes)
        reads = any(r.buffer is buffer for r in n.block.reads)
        if writes or (reads and not passed):
            found = (
                f"{n.block.name!r} uses {buffer.name!r} below the loop {loop.var.name!r} as well, "
                f"and would see or undo the fill. Choose a loop that holds {block.name!r} alone."
            )
            raise fail(DependenceError, _NAME, func, [n.block], found)


def _require_no_race(func: PrimFunc, path: Path, buffer: Buffer) -> None:
    """Two threads that pad one element would write two values in turn."""
    realize = realize_of(path)
    near = loops_above(path)
    scope = scope_of(path)
    repeated = undetermined(realize.iter_values, loop_bounds(near))
    for loop in all_loops_above(path):
        if loop.kind not in ("parallel", "thread_binding"):
            continue
        if any(loop is x for x in near):
            shared = repeated is None or any(v is loop.var for v in repeated)
        else:
            shared = not any(b is buffer for b in scope.alloc_buffers)
        if shared:
            found = (
                f"Iterations of the parallel loop {loop.var.name!r} may pad the same elements, so "
                "that one thread would fill what another has copied. Decompose first."
            )
            raise fail(DependenceError, _NAME, func, [loop], found)


def _fill_nest(realize: BlockRealize, loops: Sequence[For], padding: _Padding, name: str) -> Stmt:
    used = [*realize.iter_values, realize.predicate]
    needed = [x for x in loops if binds(used, x.var) or not isinstance(x.extent, IntImm)]
    fill = BufferStore(padding.store.buffer, padding.pad, padding.store.indices)
    return nest_like(realize, realize.block.iter_vars, needed, name, fill, realize.predicate)


def _copy_nest(func: PrimFunc, path: Path, top: int, padding: _Padding) -> Stmt:
    """The statement at ``path[top]`` with the block running over the inside only."""
    realize = realize_of(path)
    block = realize.block
    lows, counts, rest = _inside_box(func, path, top, padding)
    shifted: dict[Var, Expr] = {v: add(v, low) for v, low in lows.items()}
    bounds = Bounds(
        {
            it.var: Range(IntImm(0), counts[it.var]) if it.var in counts else it.dom
            for it in block.iter_vars
        }
    )
    axes = tuple([IterVar(it.var, bounds.ranges[it.var], it.kind) for it in block.iter_vars])

    def moved(e: Expr) -> Expr:
        return (
            bounds.simplify(substitute(e, shifted)) if e.dtype is INDEX else substitute(e, shifted)
        )

    store = BufferStore(
        padding.store.buffer,
        _simplified(substitute(padding.value, shifted), bounds),
        tuple([moved(i) for i in padding.store.indices]),
    )
    reads, writes = infer_regions(store, None, axes)
    new_block = replace(block, iter_vars=axes, reads=reads, writes=writes, body=store)
    bindings = binding_map(realize)
    values = {v: add(b, lows[v]) if v in lows else b for v, b in bindings.items()}
    predicate = conjunction([realize.predicate, *[substitute(c, values) for c in rest]])
    nest: Stmt = replace(realize, predicate=predicate, block=new_block)
    extents = {bindings[v]: count for v, count in counts.items()}
    part = path[top:]
    for parent, child in zip(reversed(part[:-1]), reversed(part[1:]), strict=True):
        if isinstance(parent, For):
            nest = replace(parent, extent=extents.get(parent.var, parent.extent), body=nest)
        else:
            nest = rebuild((parent, child), nest)
    return nest


def _simplified(e: Expr, bounds: Bounds) -> Expr:
    """``e`` with the indices of its loads in canonical form."""
    change = {
        n: replace(n, indices=tuple([bounds.simplify(i) for i in n.indices]))
        for n in walk(e)
        if isinstance(n, BufferLoad)
    }
    return _replaced(e, change)


def _replaced(e: Expr, change: Mapping[BufferLoad, BufferLoad]) -> Expr:
    if isinstance(e, BufferLoad) and e in change:
        return change[e]
    return map_children(e, lambda c: _replaced(c, change) if isinstance(c, Expr) else c)


def _inside_box(
    func: PrimFunc, path: Path, top: int, padding: _Padding
) -> tuple[dict[Var, Expr], dict[Var, Expr], list[Expr]]:
    """For the axes whose loops can be cut: the first value inside and their number; and the
    conditions that remain."""
    realize = realize_of(path)
    block = realize.block
    loops = _own_loops(path, top)
    bounds = domain_bounds(block)
    lows: dict[Var, list[Expr]] = {}
    highs: dict[Var, list[Expr]] = {}
    rest: list[Expr] = []
    free = {
        it.var
        for it, value in zip(block.iter_vars, realize.iter_values, strict=True)
        if _is_whole(it, value, realize, loops)
    }
    for c in padding.inside:
        limit = _limit_of(c, block, bounds)
        if limit is None or limit[0] not in free:
            rest.append(c)
            continue
        v, low, high = limit
        if low is not None:
            lows.setdefault(v, []).append(low)
        if high is not None:
            highs.setdefault(v, []).append(high)
    starts, counts = _cut(func, block, lows, highs)
    return starts, counts, rest


def _cut(
    func: PrimFunc, block: Block, lows: Mapping[Var, list[Expr]], highs: Mapping[Var, list[Expr]]
) -> tuple[dict[Var, Expr], dict[Var, Expr]]:
    """The first value and the number of values within the limits of each axis that has some."""
    bounds = domain_bounds(block)
    starts: dict[Var, Expr] = {}
    counts: dict[Var, Expr] = {}
    for it in block.iter_vars:
        if it.var not in lows and it.var not in highs:
            continue
        low: Expr = IntImm(0)
        for x in lows.get(it.var, ()):
            low = x if bounds.proves_le(low, x) else maximum(low, x)
        high = it.dom.extent
        for x in highs.get(it.var, ()):
            high = x if bounds.proves_le(x, high) else minimum(x, high)
        count = bounds.simplify(sub(high, low))
        if isinstance(count, IntImm) and count.value <= 0:
            found = f"No value of the axis {it.var.name!r} is inside: the block only fills."
            raise fail(ScheduleValueError, _NAME, func, [block], found)
        if not bounds.proves_le(IntImm(0), count):
            count = maximum(count, IntImm(0))
        starts[it.var], counts[it.var] = bounds.simplify(low), count
    return starts, counts


def _own_loops(path: Path, top: int) -> list[For]:
    """The loops at and below ``path[top]`` that hold nothing but the block."""
    first = max(len(own_nest(path)) - 1, top)
    return [s for s in path[first:-1] if isinstance(s, For)]


def _is_whole(it: IterVar, value: Expr, realize: BlockRealize, loops: Sequence[For]) -> bool:
    """Whether an axis is bound to a loop of its own that runs through its domain."""
    loop = next((x for x in loops if x.var is value), None)
    if loop is None or not is_const(loop.min, 0) or not is_const(it.dom.min, 0):
        return False
    if not Bounds().proves_equal(loop.extent, it.dom.extent):
        return False
    elsewhere = [v for v in realize.iter_values if v is not value]
    if sum(1 for v in realize.iter_values if v is value) > 1:
        return False
    ranges = [e for x in loops for e in (x.min, x.extent)]
    return not any(uses(e, loop.var) for e in [*elsewhere, *conjuncts(realize.predicate), *ranges])


def _limit_of(c: Expr, block: Block, bounds: Bounds) -> tuple[Var, Expr | None, Expr | None] | None:
    """A condition on one axis alone, as its first value or the end of its values."""
    match c:
        case LT():
            room = sub(sub(c.b, c.a), 1)
        case LE():
            room = sub(c.b, c.a)
        case GT():
            room = sub(sub(c.a, c.b), 1)
        case GE():
            room = sub(c.a, c.b)
        case _:
            return None
    if room.dtype is not INDEX:
        return None
    form = bounds.linear(room)
    room = render(form)
    axes = [it.var for it in block.iter_vars if uses(room, it.var)]
    own = [(atom, k) for atom, k in form.terms.items() if any(uses(atom, v) for v in axes)]
    if len(axes) != 1 or len(own) != 1 or own[0][0] is not axes[0] or abs(own[0][1]) != 1:
        return None
    v, k = axes[0], own[0][1]
    if k == 1:
        return v, bounds.simplify(sub(v, room)), None
    return v, None, bounds.simplify(add(add(room, v), 1))
