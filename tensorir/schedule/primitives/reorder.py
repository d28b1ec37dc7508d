"""reorder: the loops of one chain in another order."""

from __future__ import annotations

from collections.abc import Sequence

from ....support.errors import DependenceError, NotAncestorError, ScheduleValueError
from ....support.node import replace, walk
from ...analysis.affine import loop_bounds, undetermined
from ...analysis.block_kinds import axis_bindings, binds, reads_other_instances
from ...analysis.certain_writes import covered_within
from ...analysis.hidden_accesses import require_declared
from ...analysis.loop_checks import require_affine
from ...analysis.nested_blocks import blocks_below
from ...analysis.paths import Path, all_loops_above, find_loop, loop_of, rebuild, with_body
from ...analysis.preconditions import fail
from ...analysis.region_cover import instances_clash
from ...expr import Var
from ...function import PrimFunc
from ...stmt import BlockRealize, For, Stmt
from ..primitive import LOOPS, THESE_LOOPS, primitive
from ..state import ScheduleState
from ..trace.handles import LoopRV


class Reorder(ScheduleState):
    @primitive(LOOPS, ordered_loops=THESE_LOOPS)
    def reorder(self, *ordered_loops: LoopRV) -> None:
        """Put loops of one chain into the given order; loops that are not named keep their places.

        Requires:

        - loops that are named once each, all of the same function (ScheduleValueError);
        - a chain: between the outermost and the innermost of them no other statement stands beside
          a loop, and no block around it (NotAncestorError);
        - ranges that do not depend on a loop that comes to stand inside, blocks below that read no
          elements that other iterations write and write none twice, and no change to the order in
          which a reduction's init and terms come (DependenceError);
        - blocks below with spatial and reduce axes, bound affinely, each iteration with axes of its
          own (NonAffineError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((4, 12), "float32"), B: T.Buffer((4,), "float32")):
                for i, k in T.grid(4, 12):
                    with T.block("B"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + A[vi, vk]

        Schedule::

            i, k = sch.get_loops("B")
            sch.reorder(k, i)

        After::

            @T.prim_func
            def main(A: T.Buffer((4, 12), "float32"), B: T.Buffer((4,), "float32")):
                for k, i in T.grid(12, 4):
                    with T.block("B"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + A[vi, vk]
        """
        owner = self._owner(ordered_loops, "reorder")
        variables = [loop.var for loop in ordered_loops]
        self._commit(owner, reorder(self._functions[owner], variables, checks=self.enable_checks))


def reorder(func: PrimFunc, variables: Sequence[Var], *, checks: bool = True) -> PrimFunc:
    """Permute loops of one chain into the given order; loops not named keep their places."""
    for i, v in enumerate(variables):
        if any(other is v for other in variables[:i]):
            raise ScheduleValueError("reorder", f"The loop {v.name!r} is named twice.")
    if len(variables) < 2:
        for v in variables:
            find_loop(func, v, "reorder")
        return func
    path, chain = _chain(func, variables)
    wanted = {id(v) for v in variables}
    by_var = {id(loop.var): loop for loop in chain}
    order = iter(variables)
    new_chain = [by_var[id(next(order))] if id(loop.var) in wanted else loop for loop in chain]
    if all(a is b for a, b in zip(chain, new_chain, strict=True)):
        return func
    _require_free_domains(func, new_chain)
    body = chain[-1].body
    if checks:
        _require_reorderable(func, path, chain, body)
        _require_same_sums(func, chain, new_chain, body)
    for loop in reversed(new_chain):
        body = replace(loop, body=body)
    return with_body(func, rebuild(path, body))


def _chain(func: PrimFunc, variables: Sequence[Var]) -> tuple[Path, list[For]]:
    """The path to the outermost of the loops, and the loops from there to the innermost."""
    paths = [find_loop(func, v, "reorder") for v in variables]
    deepest = max(paths, key=len)
    shallow = min(paths, key=len)
    for p in paths:
        if len(p) > len(deepest) or deepest[: len(p)] != p:
            found = (
                f"The loops {loop_of(p).var.name!r} and {loop_of(deepest).var.name!r} are not on "
                "one chain."
            )
            raise fail(NotAncestorError, "reorder", func, [loop_of(p), loop_of(deepest)], found)
    between = deepest[len(shallow) - 1 :]
    for s in between:
        if not isinstance(s, For):
            what = "a block" if isinstance(s, BlockRealize) else "a branch of several statements"
            found = (
                f"Between {loop_of(shallow).var.name!r} and {loop_of(deepest).var.name!r} stands "
                f"{what}; reorder needs loops nested directly in one another."
            )
            raise fail(NotAncestorError, "reorder", func, [loop_of(shallow)], found)
    return shallow, [s for s in between if isinstance(s, For)]


def _require_free_domains(func: PrimFunc, new_chain: Sequence[For]) -> None:
    for i, loop in enumerate(new_chain):
        inside = {id(o.var) for o in new_chain[i:]}
        if any(id(n) in inside for e in (loop.min, loop.extent) for n in walk(e)):
            found = f"The range of {loop.var.name!r} depends on a loop that would move inside it."
            raise fail(DependenceError, "reorder", func, [loop], found)


def _require_reorderable(func: PrimFunc, path: Path, chain: Sequence[For], body: Stmt) -> None:
    require_declared(func, body, "reorder")
    nested = blocks_below(body)
    outer = all_loops_above(path)
    for n in nested:
        # The loops further out stand still: that they repeat instances, as those around a moved
        # producer do, does not matter.
        require_affine(func, n, [*chain, *n.loops], "reorder")
        if reads_other_instances(n.block):
            found = (
                f"The block {n.block.name!r} reads elements of its own output that other "
                "iterations write, so that their order matters."
            )
            raise fail(DependenceError, "reorder", func, [n.block], found)
        if instances_clash(n.block, [it.var for it in n.block.iter_vars]):
            found = (
                f"Several instances of the block {n.block.name!r} write the same element, so that "
                "their order matters, although its axes are spatial."
            )
            raise fail(DependenceError, "reorder", func, [n.block], found)
    if len(nested) > 1:
        trouble = covered_within(nested, [*outer, *chain])
        if trouble is not None:
            found = (
                f"The block {trouble.block.name!r} reads what another block below these loops "
                "writes in another iteration, or this cannot be excluded."
            )
            raise fail(DependenceError, "reorder", func, [trouble.block], found)


def _require_same_sums(
    func: PrimFunc, chain: Sequence[For], new_chain: Sequence[For], body: Stmt
) -> None:
    """A reduction begins with the init, at the least values of its reduce axes, and adds each term
    once. So a loop that repeats its instances (compute_at makes such) may not change places with a
    reduce loop, nor may two loops over reduce axes where one runs over a spatial axis as well."""
    places = {id(loop.var): i for i, loop in enumerate(new_chain)}
    swapped = [
        (a, b)
        for i, a in enumerate(chain)
        for b in chain[i + 1 :]
        if places[id(a.var)] > places[id(b.var)]
    ]
    for n in blocks_below(body):
        if n.block.init is None:
            continue
        repeats = undetermined(n.realize.iter_values, loop_bounds([*chain, *n.loops])) or []
        spatial, reduced = (axis_bindings(n.realize, (k,)) for k in ("spatial", "reduce"))
        for pair in swapped:
            over_reduce = [loop for loop in pair if binds(reduced, loop.var)]
            mixed = len(over_reduce) == 2 and any(binds(spatial, loop.var) for loop in pair)
            again = any(loop.var is v for v in repeats for loop in pair)
            if mixed or (over_reduce and again):
                names = " and ".join([repr(loop.var.name) for loop in pair])
                why = (
                    "one of them runs over a spatial and a reduce axis at once, so that its init "
                    "would no longer come first"
                    if mixed
                    else "one of them runs it again for the same elements, so that terms would be "
                    "added more than once"
                )
                found = (
                    f"The loops {names} may not change places around the reduction "
                    f"{n.block.name!r}: {why}."
                )
                raise fail(DependenceError, "reorder", func, list(pair), found)
