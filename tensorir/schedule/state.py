"""The state of a schedule: the functions as they stand, what handles mean, and the trace.

The state is a value: functions are never mutated and tables are replaced, so copying a schedule
copies a few references. Handles, names and expressions over sampled values are resolved here,
results are committed and recorded here, and the queries, which change nothing, live here. What
changes a program is in ``schedule``.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, Self, TypeAlias, overload

from ...support.errors import ScheduleError, ScheduleValueError, nearest
from ...support.node import walk
from ..expr import Expr, IntImm, Var
from ..function import PrimFunc
from ..printer import print_func
from ..stmt import Block, BlockRealize, For
from ..visitor import substitute
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


class ScheduleState:
    """Functions, what handles mean, and the trace; the queries, which change nothing."""

    def __init__(
        self, mod: PrimFunc | ModuleLike, seed: int | None = None, *, enable_checks: bool = True
    ) -> None:
        if isinstance(mod, PrimFunc):
            mod = FunctionTable({mod.attr("global_symbol") or mod.name: mod})
        if not hasattr(mod, "functions"):
            raise ScheduleValueError(
                "Schedule", f"Expected an IRModule or a PrimFunc; found {type(mod).__name__}."
            )
        self._module: ModuleLike = mod
        self._functions: dict[str, PrimFunc] = {
            name: f for name, f in mod.functions.items() if isinstance(f, PrimFunc)
        }
        for name, f in self._functions.items():
            if not isinstance(f.body, BlockRealize):
                raise ScheduleError(
                    "Schedule",
                    f"The function {name!r} has no root block: it is lowered already, or its "
                    "statements stand in no T.block.",
                )
        self._changed: frozenset[str] = frozenset()
        self._working = self._default_function()
        self._renamed: dict[tuple[str, str], str] = {}
        self._values: dict[Var, int] = {}
        self._instructions: tuple[Any, Instruction] | None = None
        self._rv_count = 0
        self._pending: set[BlockHandle] = set()
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

    def copy(self, *, seed: int | None = None) -> Self:
        """A schedule in the same state that goes its own way; it shares all handles made so far.

        Its generator is seeded from this one's, unless a seed is given.
        """
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        new.seed = self._rng.getrandbits(31) if seed is None else seed
        new._rng = random.Random(new.seed)
        new._pending = set()
        return new

    fork = copy

    def become(self, other: Self) -> None:
        """Take over the state of a copy of this schedule: of what was tried on it, all is kept."""
        self.__dict__.update(other.copy().__dict__)

    def show(self) -> None:
        """Print the function worked on and the trace."""
        print(print_func(self.func))
        self.trace.show()

    def work_on(self, func_name: str) -> None:
        """Make a function the one that names of blocks refer to."""
        self._working = self._function_name(func_name, "work_on")

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
        if not isinstance(value, int):
            raise ScheduleValueError("get", "The expression depends on a symbolic dimension.")
        return value

    def block_name(self, block: BlockLike) -> str:
        """The present name of a block."""
        return self._block(block)[1]

    # -- resolving ---------------------------------------------------------------------------------
    def _function_name(self, name: str | None, primitive: str = "Schedule") -> str:
        known = ", ".join(map(repr, self._functions))
        if not known:
            raise ScheduleValueError(primitive, "The module has no PrimFunc to schedule.")
        if name is None:
            if self._working is None:
                raise ScheduleValueError(
                    primitive,
                    f"The module has several PrimFuncs ({known}). Name one with "
                    'get_block(name, func_name), or choose one with work_on("...").',
                )
            return self._working
        if name not in self._functions:
            raise ScheduleValueError(
                primitive,
                f"There is no PrimFunc {name!r}; the module has "
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
        """The handle of a block. That of a name is made here, and its get_block is recorded with
        the first instruction that uses it: a primitive that fails records nothing."""
        if isinstance(block, BlockHandle):
            return block
        if not isinstance(block, str):
            raise ScheduleValueError(
                "Schedule",
                f"Expected a block (its name, or what get_block gives); found {_described(block)}.",
            )
        owner = self._function_name(None)
        find_block(self._functions[owner], block, "get_block")
        handle = BlockHandle(block, owner)
        self._pending.add(handle)
        return handle

    def _value(self, e: Any) -> Any:
        """An int where an expression has a value through decisions, else the expression itself."""
        if not isinstance(e, Expr):
            return e
        change = {
            n: IntImm(self._values[n]) for n in walk(e) if isinstance(n, Var) and n in self._values
        }
        result = Bounds().simplify(substitute(e, change))
        return result.value if isinstance(result, IntImm) else result

    def _factors(self, factors: Sequence[IntLike | None], primitive: str) -> list[Any]:
        """The values of factors, sampled ones included; None stays."""
        if not isinstance(factors, (list, tuple)):
            raise ScheduleValueError(
                primitive,
                f"Expected a list of factors such as [None, 16]; found {_described(factors)}.",
            )
        for f in factors:
            if f is not None and (
                isinstance(f, bool) or not (isinstance(f, Expr) or hasattr(f, "__index__"))
            ):
                raise ScheduleValueError(
                    primitive,
                    "Expected integers, sampled values or None as factors; found "
                    f"{_described(f)} in {list(factors)}.",
                )
        return [f if f is None else self._value(f) for f in factors]

    def _place(self, loop: LoopHandle, primitive: str) -> LoopHandle:
        if not isinstance(loop, LoopHandle):
            several = " Pass the loops one by one." if isinstance(loop, (list, tuple)) else ""
            raise ScheduleValueError(
                primitive,
                f"Expected a loop, such as get_loops gives; found {_described(loop)}.{several}",
            )
        if loop.place:
            raise ScheduleValueError(
                primitive, f"{loop!r} is a place without a loop, made by sampling."
            )
        return loop

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

    def _target(self, block_or_loop: BlockLike | LoopRV) -> tuple[str, Var | str, RV]:
        if isinstance(block_or_loop, LoopHandle):
            loop = self._place(block_or_loop, "annotate")
            return loop.func_name, loop.var, loop
        handle = self._handle(block_or_loop)
        func, name = self._block(handle)
        return func, name, handle

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
        if self._pending:
            used = [
                v for _, value in inputs for v in (value if isinstance(value, list) else [value])
            ]
            pending, self._pending = self._pending, set()
            for rv in used:
                if isinstance(rv, BlockHandle) and rv in pending:
                    named = (("name", rv.name), ("func_name", rv.func_name))
                    self._record("get_block", (), named, (rv,))
        instruction = Instruction(kind, tuple(inputs), tuple(attrs), tuple(outputs), decision)
        self._instructions = (self._instructions, instruction)
        self._rv_count += len(outputs)

    def _rename(self, func_name: str, old: str, new: str) -> None:
        self._renamed = {**self._renamed, (func_name, old): new}

    # -- queries -----------------------------------------------------------------------------------
    def get_block(self, name: str, func_name: str | None = None) -> BlockRV:
        """The block of a name; raises BlockNotFoundError with the nearest known name."""
        owner = self._function_name(func_name, "get_block")
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


def _described(value: object) -> str:
    """A wrong argument in a message: what it is, and itself where that is short."""
    match value:
        case BlockHandle():
            return f"the block {value.name!r}"
        case LoopHandle():
            return f"the loop {value.var.name!r}"
        case Expr():
            return "an expression"
        case str() | int() | float():
            return repr(value)
        case _:
            return f"a {type(value).__name__}"
