"""reindex: reindex_cache_read or reindex_cache_write, in the order of the block's axes."""

from __future__ import annotations

from ....support.errors import ScheduleValueError
from ....support.node import walk
from ...analysis.buffers import buffer_at
from ...analysis.paths import find_block, realize_of
from ...analysis.preconditions import fail
from ...arith import IndexMap
from ...expr import Var
from ...function import PrimFunc
from ...stmt import Block
from ..primitive import ATTR, BLOCK, CACHES, primitive
from ..primitives.reindex_cache_read import copy_in
from ..rewriting.insertion import Cached
from ..rewriting.reindexing import find_access
from ..state import BlockLike, ScheduleState
from ..trace.handles import BlockHandle, BlockRV
from .reindex_cache_write import copy_out


class Reindex(ScheduleState):
    @primitive(CACHES, block=BLOCK, buffer=ATTR)
    def reindex(self, block: BlockLike, buffer: tuple[str, int] | str) -> BlockRV:
        """Copy a buffer to one laid out by the axes of the block that accesses it.

        ``buffer`` is ``("read", i)``, ``("write", i)`` or a name. The new buffer
        ``<buffer>_reindex`` has a dimension for each axis that the access uses, in the order of the
        axes; a read is copied before the loops of the block, a write behind them. What reads
        ``A[i + r]`` so gets its windows written out; what writes a transposed element is itself
        plain. The copying block is returned; compute_at and its reverse move it.

        Requires:

        - a buffer that the block accesses, on one side if named (ScheduleValueError);
        - one element accessed by an instance (LayoutError);
        - for a read: what reindex_cache_read requires of the writers and of the axes;
        - for a write: what reindex_cache_write requires.

        Before::

            @T.prim_func
            def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((8, 4), "float32")):
                for i, j in T.grid(8, 4):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vj, vi] * T.float32(2)

        Schedule::

            sch.reindex("B", buffer=("read", 0))

        After::

            @T.prim_func
            def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((8, 4), "float32")):
                A_reindex = T.alloc_buffer((8, 4))
                for ax0, ax1 in T.grid(8, 4):
                    with T.block("A_reindex"):
                        v0, v1 = T.axis.remap("SS", [ax0, ax1])
                        A_reindex[v0, v1] = A[v1, v0]
                for i, j in T.grid(8, 4):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A_reindex[vi, vj] * T.float32(2)
        """
        owner, name = self._block(block)
        done = reindex(self._functions[owner], name, buffer)
        self._commit(owner, done.func)
        return BlockHandle(done.blocks[0], owner)


def reindex(func: PrimFunc, block_name: str, buffer: tuple[str, int] | str) -> Cached:
    """Copy a buffer that a block reads or writes to one laid out by the block's axes, those that
    the access uses, in their order."""
    primitive = "reindex"
    path = find_block(func, block_name, primitive)
    block = realize_of(path).block
    side, index = _side_of(func, block, buffer)
    access = find_access(func, path, side, index, primitive)
    used = {n for e in access.indices for n in walk(e) if isinstance(n, Var)}
    axes = [it.var for it in block.iter_vars]
    kept = [v for v in axes if v in used]
    change = {v: Var(v.name) for v in axes}
    index_map = IndexMap(tuple(change.values()), tuple([change[v] for v in kept]))
    name = f"{access.buffer.name}_reindex"
    if side == "read":
        return copy_in(access, index_map, "global", name)
    return copy_out(access, index_map, "global", name)


def _side_of(func: PrimFunc, block: Block, buffer: tuple[str, int] | str) -> tuple[str, int | str]:
    """``("read", i)``, ``("write", i)``, or the name of a buffer on one of the two sides."""
    if isinstance(buffer, str):
        wanted = buffer_at(func, block, "read", buffer, "reindex")
        written = any(w.buffer is wanted for w in block.writes)
        if written and block.init is None and any(r.buffer is wanted for r in block.reads):
            found = f"{block.name!r} reads and writes {buffer!r}; say ('read', i) or ('write', i)."
            raise fail(ScheduleValueError, "reindex", func, [block], found)
        return ("write" if written else "read"), buffer
    good = isinstance(buffer, (tuple, list)) and len(buffer) == 2
    if not good or buffer[0] not in ("read", "write") or not isinstance(buffer[1], int):
        raise ScheduleValueError(
            "reindex",
            f"Expected ('read', i), ('write', i) or a buffer's name; found {buffer!r}.",
        )
    return buffer[0], buffer[1]
