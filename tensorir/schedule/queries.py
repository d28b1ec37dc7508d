"""``QueryMethods``: what may be asked of a schedule, and copies of it; no program changes here.

Queries that give handles are recorded, because later instructions of the trace name what they gave.
A docstring is the method's entry in docs/primitives.md.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Self, overload

from ...support.display import as_html, show_text
from ...support.errors import ScheduleValueError
from ...support.keywords import hinted
from ..analysis.nested_blocks import blocks_below, consumers_of, is_output_block, producers_of
from ..analysis.paths import (
    find_block,
    find_inner_block,
    find_loop,
    loop_of,
    loops_above,
    realize_of,
    scope_of,
)
from ..expr import Expr, Var
from ..stmt import Block, For, Stmt
from .arguments import require_int, require_text
from .primitive import ATTR, BLOCK, THIS_BLOCK_OR_LOOP, query
from .state import BlockLike, ScheduleState
from .trace.handles import BlockHandle, BlockRV, LoopHandle, LoopRV


@hinted
class QueryMethods(ScheduleState):
    """Queries: what may be asked of a schedule, and copies of it."""

    # -- blocks and loops --------------------------------------------------------------------------
    @query(name=ATTR, func_name=ATTR)
    def get_block(self, name: str, func_name: str | None = None) -> BlockRV:
        """The handle of the block called ``name``.

        Every parameter of a primitive that is a block also takes its name. ``func_name`` is needed
        where the module has several PrimFuncs and none is called ``main``, unless ``work_on`` chose
        one. A handle stays valid while primitives rewrite the program around its block.

        Requires:

        - a block of this name; the error names the nearest (BlockNotFoundError);
        - a PrimFunc of the name ``func_name``, or only one (ScheduleValueError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((30,), "float32"), B: T.Buffer((30,), "float32")):
                for i in range(30):
                    with T.block("B"):
                        vi = T.axis.spatial(30, i)
                        B[vi] = A[vi] + T.float32(1)

        Schedule::

            block = sch.get_block("B")
            assert sch.get(block).name == "B"
            assert sch.get(sch.get_block("root", func_name="main")).name == "root"
        """
        owner = self._function_name(func_name, "get_block")
        find_block(
            self._functions[owner], require_text(name, "a block's name", "get_block"), "get_block"
        )
        self._note(func_name=owner)
        return BlockHandle(name, owner)

    @query(block=BLOCK)
    def get_loops(self, block: BlockLike) -> list[LoopRV]:
        """The loops around a block, up to the block that holds it, outermost first.

        Requires:

        - a block of the program (BlockNotFoundError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4, 6), "float32")):
                for i, j in T.grid(4, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi, vj] + T.float32(1)

        Schedule::

            i, j = sch.get_loops("B")
            assert [sch.get(loop).extent.value for loop in (i, j)] == [4, 6]
            assert sch.get_loops("root") == []
        """
        func, name = self._block(block)
        path = find_block(self._functions[func], name, "get_loops")
        return [LoopHandle(loop.var, func) for loop in loops_above(path)]

    @query(block_or_loop=THIS_BLOCK_OR_LOOP)
    def get_child_blocks(self, block_or_loop: BlockLike | LoopRV) -> list[BlockRV]:
        """The blocks directly below a block or loop, in program order; not the blocks in these.

        Requires:

        - a block of the program (BlockNotFoundError), or a loop of it (LoopNotFoundError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
                B = T.alloc_buffer((8,))
                for i in range(8):
                    with T.block("B"):
                        vi = T.axis.spatial(8, i)
                        B[vi] = A[vi] + T.float32(1)
                for i in range(8):
                    with T.block("C"):
                        vi = T.axis.spatial(8, i)
                        C[vi] = B[vi] * T.float32(2)

        Schedule::

            first, second = sch.get_child_blocks("root")
            assert [sch.get(b).name for b in (first, second)] == ["B", "C"]
            (i,) = sch.get_loops(second)
            assert [sch.get(b).name for b in sch.get_child_blocks(i)] == ["C"]
        """
        primitive = "get_child_blocks"
        top: Stmt
        if isinstance(block_or_loop, LoopHandle):
            func = block_or_loop.func_name
            top = loop_of(find_loop(self._functions[func], block_or_loop.var, primitive))
        else:
            func, name = self._block(block_or_loop)
            top = realize_of(find_block(self._functions[func], name, primitive)).block.body
        return [BlockHandle(n.block.name, func) for n in blocks_below(top)]

    @query(block=BLOCK)
    def get_producers(self, block: BlockLike) -> list[BlockRV]:
        """The blocks of the same scope that write what a block reads, in program order.

        Only names of buffers are compared: a producer may write elements that are never read.

        Requires:

        - a block of the program (BlockNotFoundError), other than the root (ScheduleValueError).

        Schedule::

            assert [sch.get(b).name for b in sch.get_producers("C")] == ["B"]
            assert sch.get_producers("B") == []
        """
        return self._neighbours("get_producers", block, producers_of)

    @query(block=BLOCK)
    def get_consumers(self, block: BlockLike) -> list[BlockRV]:
        """The blocks of the same scope that read what a block writes, in program order.

        Requires:

        - a block of the program (BlockNotFoundError), other than the root (ScheduleValueError).

        Schedule::

            assert [sch.get(b).name for b in sch.get_consumers("B")] == ["C"]
            assert sch.get_consumers("C") == []
        """
        return self._neighbours("get_consumers", block, consumers_of)

    def _neighbours(
        self, kind: str, block: BlockLike, find: Callable[[Block, Block], Any]
    ) -> list[BlockRV]:
        func, name = self._block(block)
        path = find_inner_block(self._functions[func], name, kind)
        scope = scope_of(path)
        return [BlockHandle(n.block.name, func) for n in find(scope, realize_of(path).block)]

    @query(scope_block=BLOCK)
    def get_output_blocks(self, scope_block: BlockLike) -> list[BlockRV]:
        """The blocks directly below a block that write a buffer which outlives it, in program
        order: below the root, those that write the function's outputs.

        Requires:

        - a block of the program (BlockNotFoundError).

        Schedule::

            assert [sch.get(b).name for b in sch.get_output_blocks("root")] == ["C"]
        """
        owner, name = self._block(scope_block)
        func = self._functions[owner]
        scope = realize_of(find_block(func, name, "get_output_blocks")).block
        return [
            BlockHandle(n.block.name, owner)
            for n in blocks_below(scope.body)
            if is_output_block(func, scope, n.block)
        ]

    # -- what handles stand for --------------------------------------------------------------------
    @overload
    def get(self, rv: BlockHandle) -> Block: ...

    @overload
    def get(self, rv: LoopHandle) -> For: ...

    @overload
    def get(self, rv: Expr) -> int: ...

    def get(self, rv: BlockHandle | LoopHandle | Expr) -> Block | For | int:
        """What a handle or sampled value stands for: the Block, the For, or the int.

        The node is the present one; nodes are never mutated, so it does not follow later rewrites.
        Not recorded.

        Requires:

        - a block that is still there (BlockNotFoundError), a loop that is still there
          (LoopNotFoundError), an expression over constants and sampled values
          (ScheduleValueError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((30,), "float32"), B: T.Buffer((30,), "float32")):
                for i in range(30):
                    with T.block("B"):
                        vi = T.axis.spatial(30, i)
                        B[vi] = A[vi] + T.float32(1)

        Schedule::

            (i,) = sch.get_loops("B")
            assert sch.get(i).extent.value == 30
            assert sch.get(sch.get_block("B")).iter_vars[0].kind == "spatial"
            outer, inner = sch.sample_perfect_tile(i, n=2)
            assert sch.get(outer * inner) == 30
        """
        if isinstance(rv, BlockHandle):
            func, name = self._block(rv)
            return realize_of(find_block(self._functions[func], name, "get")).block
        if isinstance(rv, LoopHandle):
            loop = self._place(rv, "get")
            return loop_of(find_loop(self._functions[loop.func_name], loop.var, "get"))
        if not isinstance(rv, Expr):
            raise ScheduleValueError(
                "get", f"Expected a block, a loop or a sampled value; found {rv!r}."
            )
        value = self._value(rv)
        if not isinstance(value, int):
            raise ScheduleValueError("get", "The expression depends on a symbolic dimension.")
        return value

    def block_name(self, block: BlockLike) -> str:
        """The present name of a block, which decompose_reduction changes.

        Requires:

        - a handle, or a name that is in the program (BlockNotFoundError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")):
                for i, k in T.grid(4, 6):
                    with T.block("B"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + A[vi, vk]

        Schedule::

            block = sch.get_block("B")
            assert sch.block_name(block) == "B"
            tried = sch.copy()
            tried.decompose_reduction(block, tried.get_loops(block)[1])
            assert tried.block_name(block) == "B_update"
        """
        return self._block(self._handle(block))[1]

    def get_shape_var(self, name: str) -> Var:
        """The symbolic dimension (an int64 Var) called ``name`` of the function worked on, to
        compute factors and index maps with.

        Requires:

        - a dimension of this name (ScheduleValueError).

        Before::

            @T.prim_func
            def main(a: T.handle, b: T.handle):
                n = T.int64()
                A = T.match_buffer(a, (n,), "float32")
                B = T.match_buffer(b, (n,), "float32")
                for i in range(n):
                    with T.block("B"):
                        vi = T.axis.spatial(n, i)
                        B[vi] = A[vi] + T.float32(1)

        Schedule::

            n = sch.get_shape_var("n")
            (i,) = sch.get_loops("B")
            assert sch.get(i).extent is n
        """
        dims = self.func.shape_vars
        for v in dims:
            if v.name == name:
                return v
        known = ", ".join(repr(v.name) for v in dims) or "none"
        raise ScheduleValueError(
            "get_shape_var",
            f"{self.func.name!r} has no symbolic dimension {name!r}; it has {known}.",
        )

    # -- the schedule itself -----------------------------------------------------------------------
    def work_on(self, func_name: str) -> None:
        """Make a PrimFunc of the module the one that names of blocks refer to, and that ``func``
        gives. At first it is ``main``, or the only one. Not recorded.

        Requires:

        - a PrimFunc of this name; the error names the nearest (ScheduleValueError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((30,), "float32"), B: T.Buffer((30,), "float32")):
                for i in range(30):
                    with T.block("B"):
                        vi = T.axis.spatial(30, i)
                        B[vi] = A[vi] + T.float32(1)

        Schedule::

            sch.work_on("main")
            assert sch.func is sch.mod["main"]
        """
        self._working = self._function_name(func_name, "work_on")

    def copy(self, *, seed: int | None = None) -> Self:
        """A schedule in the same state that goes its own way; it shares all handles made so far.

        Its generator is seeded with ``seed``, or, if None, from this one's. ``fork`` is the same.
        A copy costs a few references.

        Requires:

        - an int as seed, or None (ScheduleValueError).

        Schedule::

            (i,) = sch.get_loops("B")
            other = sch.copy(seed=1)
            other.unroll(i)
            assert other.get(i).kind == "unrolled"
            assert sch.get(i).kind == "serial"
        """
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        new.seed = (
            self._rng.getrandbits(31) if seed is None else require_int(seed, "the seed", "copy")
        )
        new._rng = random.Random(new.seed)
        new._pending = set()
        return new

    fork = copy

    def become(self, other: Self) -> None:
        """Take over the state of a copy of this schedule: of what was tried on it, all is kept.

        Schedule::

            (i,) = sch.get_loops("B")
            tried = sch.copy()
            tried.unroll(i)
            sch.become(tried)

        After::

            @T.prim_func
            def main(A: T.Buffer((30,), "float32"), B: T.Buffer((30,), "float32")):
                for i in T.unroll(30):
                    with T.block("B"):
                        vi = T.axis.spatial(30, i)
                        B[vi] = A[vi] + T.float32(1)
        """
        self.__dict__.update(other.copy().__dict__)

    def show(self) -> None:
        """Print the function worked on and the trace as Python, in colours on a terminal and in a
        notebook where pygments is installed. A notebook shows so a schedule that ends a cell.

        Schedule::

            sch.get_block("B")
            sch.show()
        """
        show_text(self._text())

    def _repr_html_(self) -> str:
        return as_html(self._text())

    def _text(self) -> str:
        return f"{self.func.script()}\n{self.trace}"
