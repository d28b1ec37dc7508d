"""blockize: what stands below a loop, or a run of blocks, becomes the body of one outer block.

    for i_0, j_0:                              for i_0, j_0:
        for i_1, j_1:                              with block C_o (i_0, j_0):
            with block C (i_0 * 16 + i_1, ...):  ->    init: for i_1, j_1: block C_init
                init; update                           for i_1, j_1:
                                                           with block C (i_1, j_1): update

What must hold for that, and the cut itself, are in ``rewriting/outer_blocks.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....support.errors import NotAncestorError, ScheduleValueError
from ...analysis.nested_blocks import blocks_below
from ...analysis.paths import Path, find_block, find_loop, loop_of, realize_of
from ...analysis.preconditions import fail
from ...expr import Var
from ...function import PrimFunc
from ...stmt import SeqStmt, Stmt, seq
from ..primitive import ATTR, BLOCKS, primitive
from ..rewriting.outer_blocks import Blockized, OuterBlock
from ..state import BlockLike, ScheduleState
from ..trace.handles import BlockHandle, BlockRV, LoopHandle, LoopRV
from ..trace.rows import ArgumentKind


def _resolved_target(sch: ScheduleState, primitive: str, value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [sch._handle(v) for v in value]
    return sch._place(value, primitive) if isinstance(value, LoopHandle) else sch._handle(value)


TARGET = ArgumentKind(_resolved_target)
"""A loop, a block or a list of blocks."""


class Blockize(ScheduleState):
    @primitive(BLOCKS, target=TARGET, preserve_unit_iters=ATTR)
    def blockize(
        self, target: LoopRV | BlockLike | list[BlockRV], preserve_unit_iters: bool = True
    ) -> BlockRV:
        """Make what stands below a loop, or a run of neighbouring blocks, the body of one new
        block, whose handle is returned.

        The new block is called after what it holds, with ``_o`` at the end. Each axis is divided:
        what the loops above contribute becomes an axis of the outer block, what the loops below
        contribute one of the inner block. The outer block declares the regions of the whole tile.
        The init of a reduction goes to the outer block, as a block of its own; the inner block is
        then the update. Where several blocks are held, outer axes that run alike are shared. With
        ``preserve_unit_iters=False`` axes with a single value are left out.

        Requires:

        - nothing but blocks, loops and conditions below (ScheduleValueError), and blocks that
          stand side by side with no other between them (NotAncestorError);
        - inner loops that run through whole tiles of each axis, and outer loops that step over
          them tile by tile (NonAffineError);
        - for a reduction: loops that are spatial or reduce but not both, terms that are added once,
          a predicate that its init can have (DependenceError);
        - for several blocks: values pass between them within one instance only, no reduction
          whose init runs only for some instances (DependenceError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 32), "float32"), B: T.Buffer((8,), "float32")):
                for i, k_0, k_1 in T.grid(8, 2, 16):
                    with T.block("B"):
                        vi = T.axis.spatial(8, i)
                        vk = T.axis.reduce(32, k_0 * 16 + k_1)
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + A[vi, vk]

        Schedule::

            i, k_0, k_1 = sch.get_loops("B")
            outer = sch.blockize(k_1, preserve_unit_iters=False)

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 32), "float32"), B: T.Buffer((8,), "float32")):
                for i, k_0 in T.grid(8, 2):
                    with T.block("B_o"):
                        vi_o, vk_o = T.axis.remap("SR", [i, k_0])
                        T.reads(A[vi_o, vk_o * 16:vk_o * 16 + 16])
                        T.writes(B[vi_o])
                        with T.init():
                            with T.block("B_init"):
                                T.reads()
                                T.writes(B[vi_o])
                                B[vi_o] = T.float32(0)
                        for k_1 in range(16):
                            with T.block("B"):
                                vk_i = T.axis.reduce(16, k_1)
                                T.reads(B[vi_o], A[vi_o, vk_o * 16 + vk_i])
                                T.writes(B[vi_o])
                                B[vi_o] = B[vi_o] + A[vi_o, vk_o * 16 + vk_i]
        """
        place: Var | list[str]
        if isinstance(target, LoopHandle):
            owner, place = target.func_name, target.var
        else:
            named = [self._block(b) for b in (target if isinstance(target, list) else [target])]
            owners = {o for o, _ in named}
            if len(owners) > 1:
                raise ScheduleValueError(
                    "blockize", f"The blocks are of different functions: {sorted(owners)}."
                )
            owner = owners.pop() if owners else self._function_name(None, "blockize")
            place = [name for _, name in named]
        done = blockize(self._functions[owner], place, preserve_unit_iters=preserve_unit_iters)
        self._commit(owner, done.func)
        return BlockHandle(done.outer, owner)


def blockize(
    func: PrimFunc,
    target: Var | Sequence[str],
    *,
    preserve_unit_iters: bool = True,
    primitive: str = "blockize",
) -> Blockized:
    """Make the subtree of a loop, or consecutive blocks, the body of a new block."""
    if isinstance(target, Var):
        path = find_loop(func, target, primitive)
        return OuterBlock(func, path, loop_of(path), None, preserve_unit_iters, primitive).run()
    path, picked, rest = _run_of_blocks(func, target, primitive)
    return OuterBlock(func, path, picked, rest, preserve_unit_iters, primitive).run()


def _run_of_blocks(
    func: PrimFunc, names: Sequence[str], primitive: str
) -> tuple[Path, Stmt, tuple[tuple[Stmt, ...], tuple[Stmt, ...]] | None]:
    """The path to the smallest statement around the blocks; of a sequence, the part that holds
    them, with what stands before and after."""
    if not names or len(set(names)) != len(names):
        found = f"Expected at least one block, each once; found {list(names)!r}."
        raise ScheduleValueError(primitive, found)
    paths = [find_block(func, name, primitive) for name in names]
    if len(paths) == 1:
        return paths[0], paths[0][-1], None
    common = 0
    while all(len(p) > common and p[common] is paths[0][common] for p in paths):
        common += 1
    path = paths[0][:common]
    lca = path[-1]
    wanted = set(names)
    if not isinstance(lca, SeqStmt):
        found = "The blocks stand in one another; blockize takes blocks side by side."
        raise fail(NotAncestorError, primitive, func, [realize_of(p) for p in paths], found)
    inside = [i for i, s in enumerate(lca.stmts) if any(p[common] is s for p in paths)]
    first, last = inside[0], inside[-1]
    part = lca.stmts[first : last + 1]
    others = [n.block for s in part for n in blocks_below(s) if n.block.name not in wanted]
    if others or any(n not in {b.block.name for s in part for b in blocks_below(s)} for n in names):
        shown = ", ".join(repr(b.name) for b in others) or "a block around one of them"
        found = (
            f"Between the blocks {', '.join(map(repr, names))} also stands {shown}. Blockize takes "
            "neighbours; name all of them."
        )
        raise fail(NotAncestorError, primitive, func, others, found)
    return path, seq(*part), (lca.stmts[:first], lca.stmts[last + 1 :])
