"""lift_allocation: how long an intermediate buffer lives.

Lowering gives a buffer only the memory that is live below the innermost loop it can be moved under,
so that its elements last for one iteration of that loop. A loop's annotation ``lift_allocation``
names buffers that live for all of its iterations instead: their memory is allocated around it, and
what one iteration wrote is there for the next. Whether anything relies on that is not asked here;
``stage_memory`` is what makes use of it.
"""

from __future__ import annotations

from ....support.errors import LoopKindError, ScheduleValueError
from ....support.node import replace
from ...analysis.block_kinds import reads_buffer, writes_buffer
from ...analysis.buffers import buffer_at
from ...analysis.paths import (
    Path,
    all_loops_above,
    find_block,
    find_loop,
    loop_of,
    loops_above,
    realize_of,
    rebuild,
    scope_of,
    walk_paths,
    with_body,
)
from ...analysis.preconditions import fail, require_ancestor
from ...buffer import Buffer
from ...expr import Var
from ...function import PrimFunc
from ...stmt import LIFTED, Block, For, annotation
from ..primitive import BLOCK, INPUT, OPTIONAL_LOOP, STORAGE, primitive
from ..state import BlockLike, ScheduleState
from ..trace.handles import LoopRV


class LiftAllocation(ScheduleState):
    @primitive(STORAGE, block=BLOCK, buffer_index=INPUT, loop=OPTIONAL_LOOP)
    def lift_allocation(
        self, block: BlockLike, buffer_index: int | str = 0, loop: LoopRV | None = None
    ) -> None:
        """Let the buffer that a block writes live for all iterations of a loop around the block.

        Lowering allocates a buffer below the innermost loop that holds all its users, for as much
        of it as one iteration needs. A lifted buffer is allocated around ``loop`` (around the
        outermost loop of the block, if None is given), so that what one iteration wrote is there
        in the next; the loop's annotation ``lift_allocation`` says so. ``buffer_index`` counts
        the block's writes, or is the buffer's name.

        Requires:

        - a buffer that the block writes, allocated in the block around it, and not in registers
          (ScheduleValueError);
        - a loop around the block (NotAncestorError);
        - no parallel loop from there down to the buffer's users, whose iterations would share it
          (LoopKindError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
                B = T.alloc_buffer((8, 6))
                for i in range(8):
                    for j in range(6):
                        with T.block("B"):
                            vi, vj = T.axis.remap("SS", [i, j])
                            B[vi, vj] = A[vi, vj] * T.float32(2)
                    for j in range(6):
                        with T.block("C"):
                            vi, vj = T.axis.remap("SS", [i, j])
                            C[vi, vj] = B[vi, vj] + T.float32(1)

        Schedule::

            sch.lift_allocation("B", 0, sch.get_loops("B")[0])

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
                B = T.alloc_buffer((8, 6))
                for i in T.serial(8, annotations={"lift_allocation": ["B"]}):
                    for j in range(6):
                        with T.block("B"):
                            vi, vj = T.axis.remap("SS", [i, j])
                            B[vi, vj] = A[vi, vj] * T.float32(2)
                    for j in range(6):
                        with T.block("C"):
                            vi, vj = T.axis.remap("SS", [i, j])
                            C[vi, vj] = B[vi, vj] + T.float32(1)
        """
        owner, name = self._block(block)
        var = None if loop is None else loop.var
        self._commit(owner, lift_allocation(self._functions[owner], name, buffer_index, var))


def lift_allocation(
    func: PrimFunc,
    block_name: str,
    buffer_index: int | str,
    loop_var: Var | None,
    primitive: str = "lift_allocation",
) -> PrimFunc:
    """Let the buffer that a block writes live for all iterations of a loop around the block (of
    the outermost one, if None is given)."""
    path = find_block(func, block_name, primitive)
    block = realize_of(path).block
    buffer = buffer_at(func, block, "write", buffer_index, primitive)
    loops = loops_above(path)
    if loop_var is None:
        if not loops:
            return func
        loop_var = loops[0].var
    require_ancestor(func, path, loop_var, primitive)
    holder = scope_of(path)
    _require_liftable(func, block, holder, buffer, primitive)
    loop_path = find_loop(func, loop_var, primitive)
    loop = loop_of(loop_path)
    _require_one_thread(func, loop_path, buffer, primitive)
    names = lifted_by(loop)
    if buffer.name in names:
        return func
    kept = [(k, v) for k, v in loop.annotations if k != LIFTED]
    annotations = (*kept, (LIFTED, [*names, buffer.name]))
    return with_body(func, rebuild(loop_path, replace(loop, annotations=annotations)))


def lifted_by(loop: For) -> list[str]:
    """The names of the buffers that live for all iterations of a loop."""
    return list(annotation(loop, LIFTED, []))


def _require_liftable(
    func: PrimFunc, block: Block, holder: Block, buffer: Buffer, primitive: str
) -> None:
    if all(b is not buffer for b in holder.alloc_buffers):
        found = (
            f"Expected a buffer that is allocated in the block {holder.name!r}; {buffer.name!r} is "
            + ("a parameter." if buffer in func.params else "allocated elsewhere.")
        )
        raise fail(ScheduleValueError, primitive, func, [block], found)
    if buffer.memory == "register":
        found = (
            f"{buffer.name!r} is in registers, which hold what is live in one iteration. Use "
            'set_scope(..., "global") first.'
        )
        raise fail(ScheduleValueError, primitive, func, [block], found)


def _require_one_thread(func: PrimFunc, loop_path: Path, buffer: Buffer, primitive: str) -> None:
    """Raises LoopKindError where iterations that run at once would share the buffer."""
    depth = len(loop_path) - 1
    for path in walk_paths(func.body):
        leaf = path[-1]
        if not isinstance(leaf, Block) or len(path) <= depth or path[depth] is not loop_path[-1]:
            continue
        if not (reads_buffer(leaf, buffer) or writes_buffer(leaf, buffer)):
            continue
        for loop in all_loops_above(path[depth:]):
            if loop.kind in ("parallel", "thread_binding"):
                found = (
                    f"The iterations of the {loop.kind} loop {loop.var.name!r} would share "
                    f"{buffer.name!r}, of which each has its own now. Lift to a loop inside it."
                )
                raise fail(LoopKindError, primitive, func, [loop], found)
