"""``Schedule``: a module being scheduled. A thin facade: methods resolve handles, delegate to the
primitives of this folder, and record what was done.

The state is a value: functions are never mutated, so copying a schedule copies a few references. A
primitive that raises leaves the schedule as it was. Names and positions of parameters are TVM's.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, overload

from ...support.errors import ScheduleError, ScheduleValueError, nearest
from ...support.node import walk
from ..arith import IndexMap
from ..expr import Expr, IntImm, Var
from ..function import PrimFunc
from ..printer import print_func
from ..stmt import Block, BlockRealize, For
from ..visitor import substitute
from . import (
    annotate,
    cache,
    compute_location,
    inline,
    layout,
    loops,
    partition,
    reduction,
    sampling,
)
from . import padding as padding_
from .affine import Bounds
from .analysis import (
    blocks_below,
    consumers_of,
    find_block,
    find_loop,
    is_output_block,
    loop_of,
    loops_above,
    producers_of,
    realize_of,
    scope_path,
)
from .handles import BlockHandle, BlockRV, LoopHandle, LoopRV
from .layout import as_index_map, find_buffer
from .merge import merge as merge_loops
from .trace import RV, Argument, Instruction, Trace

BlockLike: TypeAlias = BlockHandle | str
IntLike: TypeAlias = int | Expr


class ModuleLike(Protocol):
    """What a schedule needs of a module: a table of functions that copies cheaply."""

    @property
    def functions(self) -> Mapping[str, Any]: ...

    def copy(self) -> ModuleLike: ...

    def __getitem__(self, key: str, /) -> Any: ...

    def __setitem__(self, key: str, func: Any, /) -> None: ...


class FunctionTable:
    """The module of a bare PrimFunc."""

    def __init__(self, functions: Mapping[str, PrimFunc]) -> None:
        self.functions: dict[str, PrimFunc] = dict(functions)

    def copy(self) -> FunctionTable:
        return FunctionTable(self.functions)

    def __getitem__(self, key: str, /) -> PrimFunc:
        return self.functions[key]

    def __setitem__(self, key: str, func: PrimFunc, /) -> None:
        self.functions[key] = func

    def script(self) -> str:
        """The functions as text."""
        return "\n\n".join(print_func(f) for f in self.functions.values())

    def show(self) -> None:
        """Print the functions."""
        print(self.script())


class Schedule:
    """A module (or a bare PrimFunc) and the trace of what was done to it.

    ``seed`` feeds the sampling primitives; None draws one, kept in ``.seed``. With
    ``enable_checks=False`` the proofs of legality are skipped, for traces that are known to be
    legal; what a rewrite needs in order to be well defined is still checked.
    """

    def __init__(
        self, mod: PrimFunc | ModuleLike, seed: int | None = None, *, enable_checks: bool = True
    ) -> None:
        if isinstance(mod, PrimFunc):
            mod = FunctionTable({mod.attr("global_symbol") or mod.name: mod})
        self._module: ModuleLike = mod
        self._functions: dict[str, PrimFunc] = {
            name: f for name, f in mod.functions.items() if isinstance(f, PrimFunc)
        }
        for name, f in self._functions.items():
            if not isinstance(f.body, BlockRealize):
                raise ScheduleError(
                    "Schedule", f"The function {name!r} has no root block: it is lowered already."
                )
        self._changed: frozenset[str] = frozenset()
        self._working = self._default_function()
        self._renamed: dict[tuple[str, str], str] = {}
        self._values: dict[Var, int] = {}
        self._instructions: tuple[Any, Instruction] | None = None
        self._rv_count = 0
        self.seed: int = secrets.randbits(31) if seed is None else seed
        self._rng = random.Random(self.seed)
        self.enable_checks = enable_checks

    def _default_function(self) -> str | None:
        if "main" in self._functions:
            return "main"
        return next(iter(self._functions)) if len(self._functions) == 1 else None

    # -- state -------------------------------------------------------------------------------------
    @property
    def mod(self) -> Any:
        """The module as it stands: a copy of the one given, with the scheduled functions in
        place."""
        module = self._module.copy()
        for name in self._changed:
            module[name] = self._functions[name]
        return module

    @property
    def func(self) -> PrimFunc:
        """The function worked on, as it stands."""
        return self._functions[self._function_name(None)]

    @property
    def trace(self) -> Trace:
        """What was done so far."""
        found: list[Instruction] = []
        link = self._instructions
        while link is not None:
            link, inst = link
            found.append(inst)
        found.reverse()
        return Trace(tuple(found))

    def copy(self, *, seed: int | None = None) -> Schedule:
        """A schedule in the same state that goes its own way; it shares all handles made so far.

        Its generator is seeded from this one's, unless a seed is given.
        """
        new = object.__new__(Schedule)
        new.__dict__.update(self.__dict__)
        new.seed = self._rng.getrandbits(31) if seed is None else seed
        new._rng = random.Random(new.seed)
        return new

    fork = copy

    def show(self) -> None:
        """Print the function worked on and the trace."""
        print(print_func(self.func))
        self.trace.show()

    def work_on(self, func_name: str) -> None:
        """Make a function the one that names of blocks refer to."""
        self._working = self._function_name(func_name)

    @property
    def only_function(self) -> str | None:
        """The name of the module's only PrimFunc, or None if there are several."""
        return next(iter(self._functions)) if len(self._functions) == 1 else None

    def knows_function(self, name: str) -> bool:
        """Whether the module has a PrimFunc of this name."""
        return name in self._functions

    def get_shape_var(self, name: str) -> Var:
        """The symbolic dimension called ``name`` of the function worked on."""
        dims = self.func.shape_vars
        for v in dims:
            if v.name == name:
                return v
        known = ", ".join(repr(v.name) for v in dims) or "none"
        raise ScheduleValueError(
            "get_shape_var",
            f"{self.func.name!r} has no symbolic dimension {name!r}; it has {known}.",
        )

    @overload
    def get(self, rv: BlockHandle) -> Block: ...

    @overload
    def get(self, rv: LoopHandle) -> For: ...

    @overload
    def get(self, rv: Expr) -> int: ...

    def get(self, rv: BlockHandle | LoopHandle | Expr) -> Block | For | int:
        """What a random variable stands for: the block, the loop, or the integer."""
        if isinstance(rv, BlockHandle):
            func, name = self._block(rv)
            return realize_of(find_block(self._functions[func], name, "get")).block
        if isinstance(rv, LoopHandle):
            return loop_of(find_loop(self._functions[rv.func_name], rv.var, "get"))
        value = self._value(rv)
        if isinstance(value, Expr):
            raise ScheduleValueError("get", "The expression depends on a symbolic dimension.")
        return value

    def block_name(self, block: BlockLike) -> str:
        """The present name of a block."""
        return self._block(block)[1]

    # -- resolving ---------------------------------------------------------------------------------
    def _function_name(self, name: str | None) -> str:
        if name is None:
            if self._working is None:
                known = ", ".join(map(repr, self._functions)) or "none"
                raise ScheduleValueError(
                    "work_on",
                    f"The module has several PrimFuncs ({known}); call work_on or name one.",
                )
            return self._working
        if name not in self._functions:
            known = ", ".join(map(repr, self._functions)) or "none"
            raise ScheduleValueError(
                "work_on",
                f"There is no PrimFunc {name!r}; there are "
                f"{known}.{nearest(name, self._functions)}",
            )
        return name

    def _block(self, block: BlockLike) -> tuple[str, str]:
        """Function and present name of a block."""
        if isinstance(block, str):
            return self._function_name(None), block
        name = block.name
        while (block.func_name, name) in self._renamed:
            name = self._renamed[block.func_name, name]
        return block.func_name, name

    def _handle(self, block: BlockLike) -> BlockHandle:
        """The handle of a block; a name is looked up by a recorded get_block."""
        return self.get_block(block) if isinstance(block, str) else block

    def _value(self, e: Any) -> Any:
        """An int where an expression has a value through decisions, else the expression itself."""
        if not isinstance(e, Expr):
            return e
        change = {
            n: IntImm(self._values[n]) for n in walk(e) if isinstance(n, Var) and n in self._values
        }
        result = Bounds().simplify(substitute(e, change))
        return result.value if isinstance(result, IntImm) else result

    def _place(self, loop: LoopHandle, primitive: str) -> LoopHandle:
        if not isinstance(loop, LoopHandle):
            raise ScheduleValueError(primitive, f"Expected a loop; found {type(loop).__name__}.")
        if loop.place:
            raise ScheduleValueError(
                primitive, f"{loop!r} is a place without a loop, made by sampling."
            )
        return loop

    # -- recording ---------------------------------------------------------------------------------
    def _commit(self, func_name: str, func: PrimFunc) -> None:
        if func is self._functions[func_name]:
            return
        if not func.attr("is_scheduled"):
            func = func.with_attr("is_scheduled", True)
        self._functions = {**self._functions, func_name: func}
        self._changed = self._changed | {func_name}

    def _record(
        self,
        kind: str,
        inputs: Sequence[Argument] = (),
        attrs: Sequence[Argument] = (),
        outputs: Sequence[RV] = (),
        decision: Any = None,
    ) -> None:
        self._instructions = (
            self._instructions,
            Instruction(kind, tuple(inputs), tuple(attrs), tuple(outputs), decision),
        )
        self._rv_count += len(outputs)

    def _rename(self, func_name: str, old: str, new: str) -> None:
        self._renamed = {**self._renamed, (func_name, old): new}

    # -- queries -----------------------------------------------------------------------------------
    def get_block(self, name: str, func_name: str | None = None) -> BlockRV:
        """The block of a name; raises BlockNotFoundError with the nearest known name."""
        owner = self._function_name(func_name)
        find_block(self._functions[owner], name, "get_block")
        rv = BlockHandle(name, owner)
        self._record("get_block", (), (("name", name), ("func_name", owner)), (rv,))
        return rv

    def get_loops(self, block: BlockLike) -> list[LoopRV]:
        """The loops around a block, up to the block that holds it, outermost first."""
        handle = self._handle(block)
        func, name = self._block(handle)
        path = find_block(self._functions[func], name, "get_loops")
        result = [LoopHandle(loop.var, func) for loop in loops_above(path)]
        self._record("get_loops", (("block", handle),), (), result)
        return result

    def get_child_blocks(self, block_or_loop: BlockLike | LoopRV) -> list[BlockRV]:
        """The blocks directly below a block or loop, in program order."""
        if isinstance(block_or_loop, LoopHandle):
            loop = self._place(block_or_loop, "get_child_blocks")
            func = loop.func_name
            below = blocks_below(
                loop_of(find_loop(self._functions[func], loop.var, "get_child_blocks"))
            )
            target: RV = loop
        else:
            handle = self._handle(block_or_loop)
            func, name = self._block(handle)
            below = blocks_below(
                realize_of(find_block(self._functions[func], name, "get_child_blocks")).block.body
            )
            target = handle
        result = [BlockHandle(n.block.name, func) for n in below]
        self._record("get_child_blocks", (("", target),), (), result)
        return result

    def get_producers(self, block: BlockLike) -> list[BlockRV]:
        """The blocks of the same scope that write what a block reads."""
        return self._neighbours("get_producers", block, producers_of)

    def get_consumers(self, block: BlockLike) -> list[BlockRV]:
        """The blocks of the same scope that read what a block writes."""
        return self._neighbours("get_consumers", block, consumers_of)

    def _neighbours(
        self, kind: str, block: BlockLike, find: Callable[[Block, Block], Any]
    ) -> list[BlockRV]:
        handle = self._handle(block)
        func, name = self._block(handle)
        path = find_block(self._functions[func], name, kind)
        scope = scope_path(path)[-1]
        assert isinstance(scope, Block)
        result = [BlockHandle(n.block.name, func) for n in find(scope, realize_of(path).block)]
        self._record(kind, (("block", handle),), (), result)
        return result

    def get_output_blocks(self, scope_block: BlockLike) -> list[BlockRV]:
        """The blocks below a block that write a buffer which outlives it."""
        handle = self._handle(scope_block)
        func, name = self._block(handle)
        scope = realize_of(find_block(self._functions[func], name, "get_output_blocks")).block
        result = [
            BlockHandle(n.block.name, func)
            for n in blocks_below(scope.body)
            if is_output_block(self._functions[func], scope, n.block)
        ]
        self._record("get_output_blocks", (("scope_block", handle),), (), result)
        return result

    # -- sampling ----------------------------------------------------------------------------------
    def sample_perfect_tile(
        self,
        loop: LoopRV,
        n: int,
        max_innermost_factor: int = 16,
        decision: Sequence[int] | None = None,
    ) -> list[Var]:
        """``n`` factors of a loop's extent, as Vars for split; ``get`` tells their values."""
        self._place(loop, "sample_perfect_tile")
        func = self._functions[loop.func_name]
        factors = sampling.perfect_tile(
            self._rng, func, loop.var, n, max_innermost_factor, decision
        )
        result = [self._fresh_value(f, i) for i, f in enumerate(factors)]
        attrs = (("n", n), ("max_innermost_factor", max_innermost_factor))
        self._record("sample_perfect_tile", (("loop", loop),), attrs, result, list(factors))
        return result

    def sample_categorical(
        self, candidates: Sequence[int], probs: Sequence[float], decision: int | None = None
    ) -> Var:
        """One of the candidates, as a Var; the decision is its index."""
        index = sampling.categorical(self._rng, candidates, probs, decision)
        rv = self._fresh_value(int(candidates[index]))
        attrs = (("candidates", list(candidates)), ("probs", list(probs)))
        self._record("sample_categorical", (), attrs, (rv,), index)
        return rv

    def sample_compute_location(self, block: BlockLike, decision: int | None = None) -> LoopRV:
        """A place for a block: a loop of its first consumer, or to stay (-1), or inline (-2).

        Pass the result to compute_at.
        """
        handle = self._handle(block)
        func, name = self._block(handle)
        place, var = sampling.compute_location(self._rng, self._functions[func], name, decision)
        kinds = {sampling.ROOT: "root", sampling.INLINE: "inline"}
        rv = LoopHandle(var if var is not None else Var(kinds[place]), func, kinds.get(place, ""))
        self._record("sample_compute_location", (("block", handle),), (), (rv,), place)
        return rv

    def _fresh_value(self, value: int, offset: int = 0) -> Var:
        var = Var(f"v{self._rv_count + offset}")
        self._values = {**self._values, var: value}
        return var

    # -- loops -------------------------------------------------------------------------------------
    def split(
        self,
        loop: LoopRV,
        factors: Sequence[IntLike | None],
        preserve_unit_iters: bool = True,
        disable_predication: bool = False,
    ) -> list[LoopRV]:
        """See ``loops.split``. A factor may be None (inferred), an int, or a sampled value."""
        self._place(loop, "split")
        resolved = [None if f is None or self._value(f) == -1 else self._value(f) for f in factors]
        func, variables = loops.split(
            self._functions[loop.func_name],
            loop.var,
            resolved,
            preserve_unit_iters=preserve_unit_iters,
            disable_predication=disable_predication,
        )
        self._commit(loop.func_name, func)
        result = [LoopHandle(v, loop.func_name) for v in variables]
        self._record(
            "split",
            (("loop", loop), ("factors", list(factors))),
            (
                ("preserve_unit_iters", preserve_unit_iters),
                ("disable_predication", disable_predication),
            ),
            result,
        )
        return result

    def loop_partition(self, loop: LoopRV, factors: Sequence[IntLike | None]) -> list[LoopRV]:
        """See ``partition.loop_partition``."""
        self._place(loop, "loop_partition")
        resolved = [None if f is None else self._value(f) for f in factors]
        done = partition.loop_partition(self._functions[loop.func_name], loop.var, resolved)
        self._commit(loop.func_name, done.func)
        result = [LoopHandle(v, loop.func_name) for v in done.loops]
        self._record("loop_partition", (("loop", loop), ("factors", list(factors))), (), result)
        return result

    def fuse(self, *loops_: LoopRV, preserve_unit_iters: bool = True) -> LoopRV:
        """See ``loops.fuse``."""
        owner = self._owner(loops_, "fuse")
        func, var = loops.fuse(
            self._functions[owner],
            [loop.var for loop in loops_],
            preserve_unit_iters=preserve_unit_iters,
        )
        self._commit(owner, func)
        rv = LoopHandle(var, owner)
        inputs = [("", loop) for loop in loops_]
        self._record("fuse", inputs, (("preserve_unit_iters", preserve_unit_iters),), (rv,))
        return rv

    def merge(self, *loops_: LoopRV) -> LoopRV:
        """See ``merge.merge``; gives the innermost merged loop."""
        owner = self._owner(loops_, "merge")
        func, var = merge_loops(
            self._functions[owner], [loop.var for loop in loops_], checks=self.enable_checks
        )
        self._commit(owner, func)
        rv = LoopHandle(var, owner)
        self._record("merge", [("", loop) for loop in loops_], (), (rv,))
        return rv

    def reorder(self, *ordered_loops: LoopRV) -> None:
        """See ``loops.reorder``."""
        owner = self._owner(ordered_loops, "reorder")
        variables = [loop.var for loop in ordered_loops]
        self._commit(
            owner, loops.reorder(self._functions[owner], variables, checks=self.enable_checks)
        )
        self._record("reorder", [("", loop) for loop in ordered_loops])

    def _owner(self, handles: Sequence[LoopRV], primitive: str) -> str:
        if not handles:
            raise ScheduleValueError(primitive, "Expected at least one loop; found none.")
        for h in handles:
            self._place(h, primitive)
        names = {h.func_name for h in handles}
        if len(names) > 1:
            raise ScheduleValueError(
                primitive, f"The loops are of different functions: {sorted(names)}."
            )
        return names.pop()

    def add_unit_loop(self, block_or_loop: BlockLike | LoopRV) -> LoopRV:
        """See ``loops.add_unit_loop``."""
        owner, target, rv = self._target(block_or_loop)
        func, var = loops.add_unit_loop(self._functions[owner], target)
        self._commit(owner, func)
        result = LoopHandle(var, owner)
        self._record("add_unit_loop", (("block_or_loop", rv),), (), (result,))
        return result

    def _target(self, block_or_loop: BlockLike | LoopRV) -> tuple[str, Var | str, RV]:
        if isinstance(block_or_loop, LoopHandle):
            loop = self._place(block_or_loop, "annotate")
            return loop.func_name, loop.var, loop
        handle = self._handle(block_or_loop)
        func, name = self._block(handle)
        return func, name, handle

    # -- kinds and annotations ---------------------------------------------------------------------
    def parallel(self, loop: LoopRV) -> None:
        """Run the loop's iterations on several threads; they must be independent."""
        self._set_kind("parallel", loop, "parallel")

    def vectorize(self, loop: LoopRV) -> None:
        """Run the loop's iterations as the lanes of vectors; they must be independent."""
        self._set_kind("vectorize", loop, "vectorized")

    def unroll(self, loop: LoopRV) -> None:
        """Repeat the loop's body in the code."""
        self._set_kind("unroll", loop, "unrolled")

    def bind(self, loop: LoopRV, thread_axis: str) -> None:
        """Bind the loop to a thread axis such as ``threadIdx.x``."""
        self._set_kind("bind", loop, "thread_binding", thread_axis)

    def _set_kind(self, primitive: str, loop: LoopRV, kind: str, thread: str = "") -> None:
        self._place(loop, primitive)
        func = annotate.set_kind(
            self._functions[loop.func_name],
            loop.var,
            kind,
            thread=thread,
            checks=self.enable_checks,
        )
        self._commit(loop.func_name, func)
        self._record(primitive, (("loop", loop),), (("thread_axis", thread),) if thread else ())

    def annotate(self, block_or_loop: BlockLike | LoopRV, ann_key: str, ann_val: Any) -> None:
        """Annotate a block or loop; a sampled value is put in as its integer."""
        owner, target, rv = self._target(block_or_loop)
        value = (
            [self._value(v) for v in ann_val]
            if isinstance(ann_val, (list, tuple))
            else self._value(ann_val)
        )
        self._commit(owner, annotate.annotate(self._functions[owner], target, ann_key, value))
        self._record(
            "annotate", (("block_or_loop", rv), ("ann_key", ann_key), ("ann_val", ann_val))
        )

    def unannotate(self, block_or_loop: BlockLike | LoopRV, ann_key: str) -> None:
        """Remove an annotation."""
        owner, target, rv = self._target(block_or_loop)
        self._commit(owner, annotate.unannotate(self._functions[owner], target, ann_key))
        self._record("unannotate", (("block_or_loop", rv),), (("ann_key", ann_key),))

    def set_scope(self, block: BlockLike, buffer_index: int | str, storage_scope: str) -> None:
        """Move the buffer that a block writes to a storage scope, e.g. ``register``."""
        handle = self._handle(block)
        owner, name = self._block(handle)
        self._commit(
            owner, annotate.set_scope(self._functions[owner], name, buffer_index, storage_scope)
        )
        attrs = (("buffer_index", buffer_index), ("storage_scope", storage_scope))
        self._record("set_scope", (("block", handle),), attrs)

    # -- reductions --------------------------------------------------------------------------------
    def decompose_reduction(self, block: BlockLike, loop: LoopRV) -> BlockRV:
        """See ``reduction.decompose_reduction``: gives the init block; the handle given now
        means the update."""
        handle = self._handle(block)
        owner, name = self._block(handle)
        self._place(loop, "decompose_reduction")
        done = reduction.decompose_reduction(
            self._functions[owner], name, loop.var, checks=self.enable_checks
        )
        self._commit(owner, done.func)
        self._rename(owner, name, done.update)
        rv = BlockHandle(done.init, owner)
        self._record("decompose_reduction", (("block", handle), ("loop", loop)), (), (rv,))
        return rv

    def rfactor(self, loop: LoopRV, factor_axis: int) -> BlockRV:
        """See ``reduction.rfactor``: gives the block of partial results."""
        self._place(loop, "rfactor")
        done = reduction.rfactor(self._functions[loop.func_name], loop.var, factor_axis)
        self._commit(loop.func_name, done.func)
        rv = BlockHandle(done.partial, loop.func_name)
        self._record("rfactor", (("loop", loop),), (("factor_axis", factor_axis),), (rv,))
        return rv

    # -- caches and layouts ------------------------------------------------------------------------
    def cache_read(
        self,
        block: BlockLike,
        read_buffer_index: int | str,
        storage_scope: str,
        consumer_blocks: Sequence[BlockLike] = (),
    ) -> BlockRV:
        """See ``cache.cache_read``: gives the copy block."""
        handle = self._handle(block)
        owner, name = self._block(handle)
        consumers = [self._handle(c) for c in consumer_blocks]
        names = [self._block(c)[1] for c in consumers]
        done = cache.cache_read(
            self._functions[owner], name, read_buffer_index, storage_scope, names
        )
        self._commit(owner, done.func)
        rv = BlockHandle(done.blocks[0], owner)
        inputs: list[Argument] = [("block", handle)]
        attrs: list[Argument] = [
            ("read_buffer_index", read_buffer_index),
            ("storage_scope", storage_scope),
        ]
        if consumers:
            attrs.append(("consumer_blocks", consumers))
        self._record("cache_read", inputs + attrs, (), (rv,))
        return rv

    def cache_write(
        self, block: BlockLike, write_buffer_index: int | str, storage_scope: str
    ) -> BlockRV:
        """See ``cache.cache_write``: gives the copy block."""
        handle = self._handle(block)
        owner, name = self._block(handle)
        done = cache.cache_write(self._functions[owner], name, write_buffer_index, storage_scope)
        self._commit(owner, done.func)
        rv = BlockHandle(done.blocks[0], owner)
        attrs = (("write_buffer_index", write_buffer_index), ("storage_scope", storage_scope))
        self._record("cache_write", (("block", handle),), attrs, (rv,))
        return rv

    def cache_inplace(
        self,
        block: BlockLike,
        read_buffer_index: int | str,
        storage_scope: str,
        loop: LoopRV | None = None,
    ) -> list[BlockRV]:
        """See ``cache.cache_inplace``: gives the load and the store block. The index is that of the
        block's write."""
        handle = self._handle(block)
        owner, name = self._block(handle)
        var = None if loop is None else self._place(loop, "cache_inplace").var
        done = cache.cache_inplace(
            self._functions[owner], name, read_buffer_index, storage_scope, var
        )
        self._commit(owner, done.func)
        result = [BlockHandle(b, owner) for b in done.blocks]
        inputs: list[Argument] = [
            ("block", handle),
            ("read_buffer_index", read_buffer_index),
            ("storage_scope", storage_scope),
        ]
        if loop is not None:
            inputs.append(("loop", loop))
        self._record("cache_inplace", inputs, (), result)
        return result

    def reindex_cache_read(
        self,
        block: BlockLike,
        read_buffer_index: int | str,
        storage_scope: str,
        index_map: IndexMap | Callable[..., Any],
    ) -> BlockRV:
        """See ``cache.reindex_cache_read``: gives the copy block."""
        handle = self._handle(block)
        owner, name = self._block(handle)
        func = self._functions[owner]
        count = len(realize_of(find_block(func, name, "reindex_cache_read")).block.iter_vars)
        m = as_index_map(index_map, count)
        done = cache.reindex_cache_read(func, name, read_buffer_index, storage_scope, m)
        self._commit(owner, done.func)
        rv = BlockHandle(done.blocks[0], owner)
        attrs = (
            ("read_buffer_index", read_buffer_index),
            ("storage_scope", storage_scope),
            ("index_map", m),
        )
        self._record("reindex_cache_read", (("block", handle),), attrs, (rv,))
        return rv

    def transform_layout(
        self,
        block: BlockLike,
        buffer: tuple[str, int] | str,
        index_map: IndexMap | Callable[..., Any],
        pad_value: float | int | None = None,
    ) -> None:
        """See ``layout.transform_layout``."""
        handle = self._handle(block)
        owner, name = self._block(handle)
        func = self._functions[owner]
        target = find_buffer(
            func, realize_of(find_block(func, name, "transform_layout")).block, buffer
        )
        m = as_index_map(index_map, target.ndim)
        self._commit(owner, layout.transform_layout(func, name, buffer, m, pad_value))
        given = buffer if isinstance(buffer, str) else list(buffer)
        attrs = (("buffer", given), ("index_map", m), ("pad_value", pad_value))
        self._record("transform_layout", (("block", handle),), attrs)

    # -- places ------------------------------------------------------------------------------------
    def pad_einsum(self, block: BlockLike, padding: Sequence[int]) -> None:
        """See ``padding.pad_einsum``."""
        handle = self._handle(block)
        owner, name = self._block(handle)
        self._commit(owner, padding_.pad_einsum(self._functions[owner], name, list(padding)))
        self._record("pad_einsum", (("block", handle),), (("padding", list(padding)),))

    def become(self, other: Schedule) -> None:
        """Take over the state of a copy of this schedule: of what was tried on it, all is kept."""
        self.__dict__.update(other.copy().__dict__)

    def compute_at(
        self, block: BlockLike, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        """See ``compute_location.compute_at``; a sampled place may also mean to stay or to
        inline."""
        handle = self._handle(block)
        owner, name = self._block(handle)
        func = self._functions[owner]
        if loop.place == "inline":
            func = inline.compute_inline(func, name, checks=self.enable_checks)
        elif not loop.place:
            func = compute_location.compute_at(
                func,
                name,
                loop.var,
                preserve_unit_loops=preserve_unit_loops,
                index=index,
                checks=self.enable_checks,
            )
        self._commit(owner, func)
        attrs = (("preserve_unit_loops", preserve_unit_loops), ("index", index))
        self._record("compute_at", (("block", handle), ("loop", loop)), attrs)

    def reverse_compute_at(
        self, block: BlockLike, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        """See ``compute_location.reverse_compute_at``."""
        handle = self._handle(block)
        owner, name = self._block(handle)
        self._place(loop, "reverse_compute_at")
        func = compute_location.reverse_compute_at(
            self._functions[owner],
            name,
            loop.var,
            preserve_unit_loops=preserve_unit_loops,
            index=index,
            checks=self.enable_checks,
        )
        self._commit(owner, func)
        attrs = (("preserve_unit_loops", preserve_unit_loops), ("index", index))
        self._record("reverse_compute_at", (("block", handle), ("loop", loop)), attrs)

    def compute_inline(self, block: BlockLike) -> None:
        """See ``inline.compute_inline``."""
        handle = self._handle(block)
        owner, name = self._block(handle)
        self._commit(
            owner, inline.compute_inline(self._functions[owner], name, checks=self.enable_checks)
        )
        self._record("compute_inline", (("block", handle),))

    def reverse_compute_inline(self, block: BlockLike) -> None:
        """See ``inline.reverse_compute_inline``."""
        handle = self._handle(block)
        owner, name = self._block(handle)
        self._commit(
            owner,
            inline.reverse_compute_inline(self._functions[owner], name, checks=self.enable_checks),
        )
        self._record("reverse_compute_inline", (("block", handle),))

    def enter_postproc(self) -> None:
        """Mark that what follows is post-processing, which a mutated trace makes anew."""
        self._record("enter_postproc")
