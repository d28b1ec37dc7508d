"""parallel, vectorize, unroll, bind: how the iterations of a loop are run.

A loop may run its iterations at once only if no iteration needs another: every block below binds
the loop to spatial axes alone, and what is handed from block to block stays within the iteration.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....support.errors import DependenceError, LoopKindError, ScheduleValueError
from ....support.node import replace, walk
from ...analysis.affine import is_independent, loop_bounds
from ...analysis.anywhere import anywhere
from ...analysis.block_kinds import axis_bindings, binds, reads_other_instances
from ...analysis.certain_writes import covered_within
from ...analysis.hidden_accesses import require_declared
from ...analysis.nested_blocks import Nested, blocks_below, scope_blocks
from ...analysis.paths import (
    Path,
    all_loops_above,
    find_loop,
    loop_of,
    rebuild,
    scope_of,
    walk_paths,
    with_body,
)
from ...analysis.preconditions import fail
from ...analysis.region_cover import iterations_clash
from ...expr import ExternCall, Var, is_const
from ...function import PrimFunc
from ...stmt import LIFTED, Block, For, annotation
from ..primitive import ATTR, LOOP, LOOP_KINDS, OPTIONAL, primitive
from ..state import ScheduleState
from ..trace.handles import LoopRV

THREAD_AXES = (
    "blockIdx.x",
    "blockIdx.y",
    "blockIdx.z",
    "threadIdx.x",
    "threadIdx.y",
    "threadIdx.z",
    "vthread",
)


_CALLS = anywhere(lambda n: isinstance(n, ExternCall))


class LoopKinds(ScheduleState):
    @primitive(LOOP_KINDS, loop=LOOP)
    def parallel(self, loop: LoopRV) -> None:
        """Run a loop's iterations on several threads, in any order.

        The number of threads is a property of the call. Of nested parallel loops lowering keeps the
        outermost. A kind that the loop had, here and below, gives way to the new one.

        Requires:

        - a loop bound to spatial axes alone in the blocks below (LoopKindError);
        - iterations that write different elements, and read none that another iteration writes
          (DependenceError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                for i, j in T.grid(8, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi, vj] + T.float32(1)

        Schedule::

            i, j = sch.get_loops("B")
            sch.parallel(i)

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                for i in T.parallel(8):
                    for j in range(6):
                        with T.block("B"):
                            vi, vj = T.axis.remap("SS", [i, j])
                            B[vi, vj] = A[vi, vj] + T.float32(1)
        """
        self._set_kind(loop, "parallel")

    @primitive(LOOP_KINDS, loop=LOOP, one_by_one=OPTIONAL)
    def vectorize(self, loop: LoopRV, one_by_one: str | None = None) -> None:
        """Run a loop's iterations as the lanes of vectors.

        Lowering needs a constant extent, which it cuts into vectors of the target's width and a
        shorter rest; a body that cannot be a vector becomes a serial loop. So does one that calls
        functions of C, which take one element at a time: the trace names them in ``one_by_one``,
        which is never given.

        Requires:

        - a loop with no other parallel or vectorised loop below, bound to spatial axes alone in
          the blocks below (LoopKindError);
        - iterations that write different elements, and read none that another iteration writes
          (DependenceError).

        Schedule::

            i, j = sch.get_loops("B")
            sch.vectorize(j)

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                for i in range(8):
                    for j in T.vectorized(6):
                        with T.block("B"):
                            vi, vj = T.axis.remap("SS", [i, j])
                            B[vi, vj] = A[vi, vj] + T.float32(1)
        """
        path = find_loop(self._functions[loop.func_name], loop.var, "vectorize")
        found = loop_of(path)
        nodes = walk(found) if _CALLS.within(found) else ()
        called = {n.symbol for n in nodes if isinstance(n, ExternCall)}
        self._note(one_by_one=", ".join(sorted(called)) or None)
        self._set_kind(loop, "vectorized")

    @primitive(LOOP_KINDS, loop=LOOP)
    def unroll(self, loop: LoopRV) -> None:
        """Repeat the loop's body in the code, once for each iteration, in order.

        Requires:

        - of a loop that was bound to threads, iterations that read nothing that another one writes
          (DependenceError).

        Schedule::

            i, j = sch.get_loops("B")
            sch.unroll(j)

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                for i in range(8):
                    for j in T.unroll(6):
                        with T.block("B"):
                            vi, vj = T.axis.remap("SS", [i, j])
                            B[vi, vj] = A[vi, vj] + T.float32(1)
        """
        self._set_kind(loop, "unrolled")

    @primitive(LOOP_KINDS, loop=LOOP, thread_axis=ATTR)
    def bind(self, loop: LoopRV, thread_axis: str) -> None:
        """Bind a loop to a thread axis of a GPU, such as ``threadIdx.x``.

        The CPU has no such threads: lowering runs the loop as it would a serial one.

        Requires:

        - one of ``blockIdx.x/y/z``, ``threadIdx.x/y/z`` and ``vthread`` (ScheduleValueError);
        - a loop bound to spatial axes alone in the blocks below, or, for ``threadIdx``, to
          reduce axes (LoopKindError);
        - iterations that write different elements, and read none that another iteration writes
          (DependenceError).

        Schedule::

            i, j = sch.get_loops("B")
            sch.bind(i, "blockIdx.x")

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                for i in T.thread_binding(8, thread="blockIdx.x"):
                    for j in range(6):
                        with T.block("B"):
                            vi, vj = T.axis.remap("SS", [i, j])
                            B[vi, vj] = A[vi, vj] + T.float32(1)
        """
        self._set_kind(loop, "thread_binding", thread_axis)

    def _set_kind(self, loop: LoopRV, kind: str, thread: str = "") -> None:
        func = self._functions[loop.func_name]
        changed = set_kind(func, loop.var, kind, thread=thread, checks=self.enable_checks)
        self._commit(loop.func_name, changed)


def set_kind(
    func: PrimFunc, var: Var, kind: str, *, thread: str = "", checks: bool = True
) -> PrimFunc:
    """Make a loop ``parallel``, ``vectorized``, ``unrolled`` or ``thread_binding``, whatever it
    was."""
    primitive = {
        "parallel": "parallel",
        "vectorized": "vectorize",
        "unrolled": "unroll",
        "thread_binding": "bind",
    }[kind]
    path = find_loop(func, var, primitive)
    loop = loop_of(path)
    if kind == "thread_binding" and thread not in THREAD_AXES:
        raise ScheduleValueError(
            primitive, f"Expected a thread axis, one of {', '.join(THREAD_AXES)}; found {thread!r}."
        )
    if kind == "vectorized":
        _require_vectorizable(func, loop)
    if kind != "unrolled" and checks:
        _require_independent(func, path, primitive, allow_reduce=thread.startswith("threadIdx"))
    elif loop.kind == "thread_binding" and checks:  # threads may wait for each other, loops not
        _require_independent(func, path, primitive, allow_reduce=True)
    return with_body(func, rebuild(path, replace(loop, kind=kind, thread=thread)))


def _require_vectorizable(func: PrimFunc, loop: For) -> None:
    for path in walk_paths(loop.body):
        n = path[-1]
        if isinstance(n, For) and n.kind in ("parallel", "vectorized"):
            found = (
                f"The loop {loop.var.name!r} holds the {n.kind} loop {n.var.name!r}; "
                "vectorize inner loops only."
            )
            raise fail(LoopKindError, "vectorize", func, [loop], found)


def _require_independent(func: PrimFunc, path: Path, primitive: str, *, allow_reduce: bool) -> None:
    loop = loop_of(path)
    require_declared(func, loop, primitive)
    nested = blocks_below(loop)
    outer = all_loops_above(path)
    scope = scope_of(path)
    for n in nested:
        _require_spatial(func, loop, n, outer, primitive, allow_reduce)
    for n in nested:
        if binds(axis_bindings(n.realize, ("reduce",)), loop.var):
            continue  # only threads get here; they combine their partial results
        private = not allow_reduce or all(w.buffer.memory != "shared" for w in n.block.writes)
        private = private and _private(scope, [*outer, loop], nested, n)
        if not private and reads_other_instances(n.block):
            found = (
                f"The block {n.block.name!r} reads elements of its own output that other "
                f"iterations of {loop.var.name!r} may write."
            )
            raise fail(DependenceError, primitive, func, [n.realize], found)
        if not private and not _writes_apart(loop, n, outer):
            found = (
                f"Several iterations of {loop.var.name!r} may write the same elements through the "
                f"block {n.block.name!r}, whose result is used outside of the loop."
            )
            raise fail(DependenceError, primitive, func, [n.realize], found)
    if len(nested) > 1:
        trouble = covered_within(
            [Nested(n.realize, n.loops[1:], n.conditions) for n in nested], [*outer, loop]
        )
        if trouble is not None:
            found = (
                f"The block {trouble.block.name!r} reads what another block writes in a different "
                f"iteration of {loop.var.name!r}, or this cannot be excluded."
            )
            raise fail(DependenceError, primitive, func, [trouble.realize], found)


def _require_spatial(
    func: PrimFunc, loop: For, n: Nested, outer: Sequence[For], primitive: str, allow_reduce: bool
) -> None:
    for it, value in zip(n.block.iter_vars, n.realize.iter_values, strict=True):
        if it.kind == "spatial" or not binds([value], loop.var):
            continue
        if it.kind == "reduce" and allow_reduce:
            continue
        advice = ""
        if it.kind == "reduce":
            advice = " Use rfactor to turn it into a spatial axis first."
        found = (
            f"The loop {loop.var.name!r} is bound to the {it.kind} axis {it.var.name!r} of "
            f"{n.block.name!r}; only loops over spatial axes may run at once.{advice}"
        )
        raise fail(LoopKindError, primitive, func, [loop, n.realize], found)


def _writes_apart(loop: For, n: Nested, outer: Sequence[For]) -> bool:
    """Whether different iterations run different instances: the bindings are injective and use the
    loop. Distinct spatial instances write distinct elements, by the meaning of spatial; an axis
    that does not say where tells no elements apart."""
    if is_const(loop.extent, 1):
        return True
    if iterations_clash(n.realize, loop.var):
        return False
    written = [{v for v in walk(w) if isinstance(v, Var)} for w in n.block.writes]
    spatial = [
        v
        for it, v in zip(n.block.iter_vars, n.realize.iter_values, strict=True)
        if it.kind == "spatial" and all(it.var in used for used in written)
    ]
    # The iterations compared are of one iteration of the outer loops, whose variables may thus
    # count as constants: regions of several outer iterations may overlap (the halo of a stencil).
    return binds(spatial, loop.var) and any(
        is_independent(spatial, loop_bounds(loops)) for loops in ([*outer, *n.loops], n.loops)
    )


def _private(scope: Block, around: Sequence[For], nested: Sequence[Nested], n: Nested) -> bool:
    """Whether what the block writes is allocated in the scope, used below the innermost of the
    loops alone and not lifted around any of them, so that every iteration has its own."""
    lifted = {name for loop in around for name in annotation(loop, LIFTED, ())}
    allocated = {id(b) for b in scope.alloc_buffers}
    below = {id(m.block) for m in nested}
    for region in n.block.writes:
        if id(region.buffer) not in allocated or region.buffer.name in lifted:
            return False
        for other in scope_blocks(scope):
            uses = [*other.block.reads, *other.block.writes]
            if id(other.block) not in below and any(r.buffer is region.buffer for r in uses):
                return False
    return True
