"""fuse_reduction_epilogue: what is added to a finished sum becomes what the sum begins with.

``C[i] = sum_k t(i, k)`` and ``D[i] = C[i] + b(i)`` become one reduction into ``D`` whose init is
``b(i)``, and ``C`` disappears. The same holds for every operation that a reduction combines with:
a product and a factor, a maximum and a lower limit, a minimum and an upper one. ``C[i] - b(i)``
begins with ``-b(i)``, and ``C[i] + b(i) + x(i)`` with ``b(i) + x(i)``.

Maxima, minima and integers give the same results to the bit. A sum or product of floats is rounded
in another order: the epilogue's term takes part from the beginning instead of at the end, one
rounding for each combination as before, so the error bound is that of any order of the same terms.
(A zero may have the other sign.) An epilogue that is not of this form, such as ``max(C[i] + b(i),
0)``, cannot go into the steps of a sum: clipping partial sums gives another result. It is refused;
fused after the bias, as a block of its own, it is moved by reverse_compute_at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ....support.errors import (
    DependenceError,
    NotCompleteBlockError,
    NotReductionBlockError,
    ScheduleValueError,
)
from ....support.node import replace, walk
from ...analysis.block_kinds import axis_bindings, binds, single_store
from ...analysis.hidden_accesses import require_scope_declared
from ...analysis.nested_blocks import is_output_block, scope_blocks
from ...analysis.paths import (
    Path,
    find_block,
    loops_above,
    realize_of,
    rebuild,
    scope_of,
    scope_path,
    with_body,
)
from ...analysis.preconditions import fail, require_complete, require_reduction
from ...analysis.region_cover import axis_of_index
from ...analysis.structure import COMBINERS, is_identity, same_indices
from ...analysis.whole_runs import require_reads_all, require_unconditional
from ...buffer import Buffer
from ...expr import Add, BufferLoad, Expr, Mul, Sub, Var, neg
from ...function import PrimFunc
from ...stmt import Block, BufferStore, For
from ...visitor import loads_from, substitute
from ..primitive import BLOCK, REDUCTIONS, primitive
from ..rewriting.inlining import with_inferred_regions
from ..rewriting.insertion import change_block
from ..state import BlockLike, ScheduleState

_PRIMITIVE = "fuse_reduction_epilogue"


class FuseReductionEpilogue(ScheduleState):
    @primitive(REDUCTIONS, reduction_block=BLOCK, epilogue_block=BLOCK)
    def fuse_reduction_epilogue(
        self, reduction_block: BlockLike, epilogue_block: BlockLike
    ) -> None:
        """Let a reduction begin with what a later block combines its result with, and remove that
        block.

        A bias added to a sum becomes the init of the sum; so does a factor of a product, a lower
        limit of a maximum, an upper limit of a minimum, and what is subtracted from a sum, negated.
        One block may combine with several values (``C[i] + b[i] + x[i]``, a bias and a residual):
        the sum begins with ``b[i] + x[i]``. The reduction writes the other block's buffer and keeps
        its name; fusing again adds the next term.

        Integers, maxima and minima keep their values to the bit. A sum of floats takes the bias
        first instead of last: as many roundings, in another order, and a zero may change its sign.
        Other epilogues, such as a relu after the bias, are no step of a sum and are refused: fuse
        the bias, and move the rest by reverse_compute_at.

        Requires:

        - a reduction block with an init, whose update combines its own element and a term
          (NotReductionBlockError); so fuse before decompose_reduction and after rfactor;
        - a complete epilogue with one store, not under a condition, that reads the result at its
          own axes (NotCompleteBlockError);
        - the same operation, with a value of the same dtype that does not read the result
          (DependenceError);
        - a result that only the two blocks use, read in whole, and finished where the epilogue
          stands (DependenceError);
        - inputs of the epilogue that are written before the reduction begins, and an output that
          nothing uses before the epilogue (DependenceError).

        Before::

            @T.prim_func
            def main(
                A: T.Buffer((4, 8), "float32"),
                b: T.Buffer((4,), "float32"),
                D: T.Buffer((4,), "float32"),
            ):
                C = T.alloc_buffer((4,))
                for i, k in T.grid(4, 8):
                    with T.block("C"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            C[vi] = T.float32(0)
                        C[vi] = C[vi] + A[vi, vk]
                for i in range(4):
                    with T.block("D"):
                        vi = T.axis.spatial(4, i)
                        D[vi] = C[vi] + b[vi]

        Schedule::

            sch.fuse_reduction_epilogue("C", "D")

        After::

            @T.prim_func
            def main(
                A: T.Buffer((4, 8), "float32"),
                b: T.Buffer((4,), "float32"),
                D: T.Buffer((4,), "float32"),
            ):
                for i, k in T.grid(4, 8):
                    with T.block("C"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            D[vi] = b[vi]
                        D[vi] = D[vi] + A[vi, vk]
        """
        owner, name = self._block(reduction_block)
        other, after = self._block(epilogue_block)
        if other != owner:
            raise ScheduleValueError(
                "fuse_reduction_epilogue",
                f"The blocks are of different functions: {owner!r} and {other!r}.",
            )
        self._commit(owner, fuse_reduction_epilogue(self._functions[owner], name, after))


@dataclass(slots=True)
class _Sum:
    """``buffer[indices] = combine(buffer[indices], term)``, beginning with ``first``; ``kind`` is
    the node of the operation."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    kind: type[Expr]
    combine: Callable[[Expr, Expr], Expr]
    term: Expr
    first: Expr


@dataclass(slots=True)
class _Pair:
    """The two blocks and the scope that both stand in."""

    func: PrimFunc
    reduction: Path
    epilogue: Path

    @property
    def block(self) -> Block:
        return realize_of(self.reduction).block

    @property
    def after(self) -> Block:
        return realize_of(self.epilogue).block

    @property
    def scope(self) -> Block:
        return scope_of(self.reduction)

    def refuse(self, found: str, guilty: Block | For) -> DependenceError:
        error = fail(DependenceError, _PRIMITIVE, self.func, [guilty], found)
        assert isinstance(error, DependenceError)
        return error


def fuse_reduction_epilogue(func: PrimFunc, reduction_block: str, epilogue_block: str) -> PrimFunc:
    """Let a reduction begin with what its only consumer combines the result with, and remove the
    consumer."""
    pair = _Pair(
        func,
        find_block(func, reduction_block, _PRIMITIVE),
        find_block(func, epilogue_block, _PRIMITIVE),
    )
    require_reduction(func, pair.block, _PRIMITIVE)
    require_complete(func, pair.after, _PRIMITIVE)
    if scope_path(pair.epilogue)[-1] is not pair.scope:
        found = f"{reduction_block!r} and {epilogue_block!r} are not in the same block."
        raise pair.refuse(found, pair.after)
    require_scope_declared(func, pair.scope, pair.block, _PRIMITIVE)
    require_scope_declared(func, pair.scope, pair.after, _PRIMITIVE)
    total = _sum_of(pair)
    _require_only_reader(pair, total.buffer)
    store = single_store(pair.after)
    if store is None:
        found = f"The body of {epilogue_block!r} is not a single store."
        raise fail(NotCompleteBlockError, _PRIMITIVE, func, [pair.after], found)
    axes, value = _epilogue_term(pair, total, store)
    _require_every_element(pair, total.buffer, axes)
    _require_final(pair)
    _require_settled(pair, store.buffer, value)
    change = dict(zip(axes, total.indices, strict=True))
    fused = _fused(pair.block, total, store, substitute(value, change), change)
    realize = replace(realize_of(pair.reduction), block=fused)
    changed = with_body(func, rebuild(pair.reduction, realize))
    changed = with_body(changed, rebuild(find_block(changed, epilogue_block, _PRIMITIVE), None))
    holder = realize_of(scope_path(pair.reduction)[:-1]).block.name

    def without(b: Block) -> Block:
        kept = tuple([x for x in b.alloc_buffers if x is not total.buffer])
        return replace(b, alloc_buffers=kept)

    return change_block(changed, holder, without, _PRIMITIVE)


def _fused(
    block: Block, total: _Sum, store: BufferStore, value: Expr, change: dict[Var, Expr]
) -> Block:
    where = tuple([substitute(i, change) for i in store.indices])
    own = BufferLoad(store.buffer, where)
    first = value if is_identity(total.kind, total.first) else total.combine(total.first, value)
    body = BufferStore(store.buffer, total.combine(own, total.term), where)
    init = BufferStore(store.buffer, first, where)
    return with_inferred_regions(replace(block, body=body, init=init, reads=(), writes=()))


def _sum_of(pair: _Pair) -> _Sum:
    """The reduction's update; its init may hold any value, as after an earlier fusion."""
    block = pair.block
    init, body = block.init, block.body
    if isinstance(init, BufferStore) and isinstance(body, BufferStore):
        kind = type(body.value)
        same = init.buffer is body.buffer and same_indices(init.indices, body.indices)
        same = same and init.predicate is None and body.predicate is None
        if kind in COMBINERS and same:
            a, b = body.value.a, body.value.b  # type: ignore[attr-defined]
            for own, term in ((a, b), (b, a)):
                if _is_load(own, body.buffer, body.indices) and not loads_from(term, body.buffer):
                    return _Sum(body.buffer, body.indices, kind, COMBINERS[kind], term, init.value)
    found = (
        f"The update of {block.name!r} is not a sum, product, maximum or minimum of its own "
        "element and a term."
    )
    raise fail(NotReductionBlockError, _PRIMITIVE, pair.func, [block], found)


def _is_load(e: Expr, buffer: Buffer, indices: tuple[Expr, ...]) -> bool:
    return isinstance(e, BufferLoad) and e.buffer is buffer and same_indices(e.indices, indices)


def _require_only_reader(pair: _Pair, buffer: Buffer) -> None:
    if is_output_block(pair.func, pair.scope, pair.block):
        found = f"{buffer.name!r} is not allocated in this block: it is needed elsewhere."
        raise pair.refuse(found, pair.block)
    if all(r.buffer is not buffer for r in pair.after.reads):
        found = f"{pair.after.name!r} does not read {buffer.name!r}."
        raise pair.refuse(found, pair.after)
    for n in scope_blocks(pair.scope):
        uses = any(r.buffer is buffer for r in (*n.block.reads, *n.block.writes))
        if uses and n.block is not pair.block and n.block is not pair.after:
            found = f"{n.block.name!r} uses {buffer.name!r} too."
            raise pair.refuse(found, n.block)


def _epilogue_term(pair: _Pair, total: _Sum, store: BufferStore) -> tuple[list[Var], Expr]:
    """The epilogue's axes in the order of the result's dimensions, and what it combines with."""
    name, value = pair.after.name, store.value
    found_term = _load_and_term(total, value)
    if found_term is not None and store.buffer.dtype is total.buffer.dtype:
        load, term = found_term
        if term is not None and not loads_from(term, total.buffer):
            axes = [axis_of_index(pair.after, i) for i in load.indices]
            named = [a for a in axes if a is not None]
            own = {it.var for it in pair.after.iter_vars}
            if len(named) == len(axes) == len(set(named)) and set(named) == own:
                return named, term
            found = f"{name!r} does not read {total.buffer.name!r} at exactly its own axes."
            raise fail(NotCompleteBlockError, _PRIMITIVE, pair.func, [pair.after], found)
    names: dict[type[Expr], str] = {Add: "sum", Mul: "product"}
    operation = names.get(total.kind, total.kind.__name__.lower())
    found = (
        f"{name!r} does not combine the {operation} {total.buffer.name!r} with another value of "
        f"its dtype by the same operation. Anything else would act on partial results; move it "
        "under the loops of the reduction with reverse_compute_at instead."
    )
    raise pair.refuse(found, pair.after)


def _load_and_term(total: _Sum, value: Expr) -> tuple[BufferLoad, Expr | None] | None:
    """A load of the result and what the chain of operations around it combines it with:
    ``a + C[i] - b`` gives ``C[i]`` and ``a - b``. None where no chain leads to the result."""
    if isinstance(value, BufferLoad) and value.buffer is total.buffer:
        return value, None
    if isinstance(value, total.kind):
        a, b = value.a, value.b  # type: ignore[attr-defined]
        for inner, other in ((a, b), (b, a)):
            found = _load_and_term(total, inner)
            if found is not None:
                load, term = found
                return load, other if term is None else total.combine(term, other)
    elif isinstance(value, Sub) and total.kind is Add:
        found = _load_and_term(total, value.a)
        if found is not None:
            load, term = found
            return load, neg(value.b) if term is None else term - value.b
    return None


def _require_every_element(pair: _Pair, buffer: Buffer, axes: Sequence[Var]) -> None:
    """The epilogue runs for each element, so that none is written now that was not before."""
    for path in (pair.reduction, pair.epilogue):
        require_unconditional(pair.func, path, _PRIMITIVE)
    require_reads_all(pair.func, pair.epilogue, axes, buffer, _PRIMITIVE)


def _require_final(pair: _Pair) -> None:
    """No loop around both runs over a reduce axis: the epilogue saw finished results."""
    reduced = axis_bindings(realize_of(pair.reduction), ("reduce",))
    around = loops_above(pair.epilogue)
    for loop in loops_above(pair.reduction):
        if any(loop is other for other in around) and binds(reduced, loop.var):
            found = (
                f"The loop {loop.var.name!r} runs over a reduce axis of {pair.block.name!r} and "
                f"holds {pair.after.name!r}."
            )
            raise pair.refuse(found, loop)


def _require_settled(pair: _Pair, output: Buffer, value: Expr) -> None:
    """What the epilogue reads is there, and the output unused, when the reduction begins."""
    read = {id(n.buffer): n.buffer for n in walk(value) if isinstance(n, BufferLoad)}
    order = [n.block for n in scope_blocks(pair.scope)]
    begins = next(i for i, b in enumerate(order) if b is pair.block)
    ends = next(i for i, b in enumerate(order) if b is pair.after)
    if ends < begins:
        found = f"{pair.after.name!r} stands before {pair.block.name!r}."
        raise pair.refuse(found, pair.after)
    outer = [id(loop) for loop in loops_above(pair.reduction)]
    for i, n in enumerate(scope_blocks(pair.scope)):
        if n.block is pair.after:
            continue
        uses = (*n.block.reads, *n.block.writes)
        if any(r.buffer is output for r in uses) and (
            i < ends or any(w.buffer is output for w in n.block.writes)
        ):
            found = f"{n.block.name!r} uses {output.name!r}, which the reduction would write."
            raise pair.refuse(found, n.block)
        late = i > begins or any(id(loop) in outer for loop in n.loops)
        if late and any(id(w.buffer) in read for w in n.block.writes):
            found = (
                f"{n.block.name!r} writes what {pair.after.name!r} reads, and not in a nest "
                f"before {pair.block.name!r} begins."
            )
            raise pair.refuse(found, n.block)
