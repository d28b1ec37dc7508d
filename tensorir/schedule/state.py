"""The state of a schedule: the functions as they stand, what handles mean, and the trace.

The state is a value: functions are never mutated and tables are replaced, so copying a schedule
copies a few references. Handles, names and expressions over sampled values are resolved here, and
results are committed and recorded here. The methods that users call are in ``methods``.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from ...support.display import show_text
from ...support.errors import ScheduleError, ScheduleValueError, nearest
from ..analysis.affine import Bounds
from ..analysis.paths import find_block
from ..arith import IndexMap
from ..expr import Expr, IntImm, Var
from ..function import PrimFunc
from ..stmt import BlockRealize
from ..text.printer import print_func
from ..visitor import free_vars, substitute
from .arguments import require_int, require_text
from .foreign_memory import BRINGS, calls_out, require_memory_kept
from .trace.handles import BlockHandle, LoopHandle, LoopRV
from .trace.trace import Argument, Instruction, Trace
from .trace.values import RV

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
        """Print the functions, in colours where that is possible."""
        show_text(self.script())


class ScheduleState:
    """Functions, what handles mean, and the trace."""

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
        self._calls_out: set[str] | None = None
        """The functions that call functions of C; None where nobody has looked."""
        self._working = self._default_function()
        self._renamings: tuple[tuple[str, str, str], ...] = ()
        self._births: dict[BlockHandle, int] = {}
        self._values: dict[Var, int] = {}
        self._instructions: tuple[Any, Instruction] | None = None
        self._rv_count = 0
        self._pending: set[BlockHandle] = set()
        self._noted: dict[str, Any] = {}
        self.seed: int = (
            secrets.randbits(31) if seed is None else require_int(seed, "the seed", "Schedule")
        )
        self._rng = random.Random(self.seed)
        self.enable_checks = enable_checks
        self.innermost_factor = 16
        """The greatest innermost factor that sampling draws where none is given; the tuner sets
        it after its target."""

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

    @property
    def only_function(self) -> str | None:
        """The name of the module's only PrimFunc, or None if there are several."""
        return next(iter(self._functions)) if len(self._functions) == 1 else None

    def knows_function(self, name: str) -> bool:
        """Whether the module has a PrimFunc of this name."""
        return name in self._functions

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
        if require_text(name, "a function's name", primitive) not in self._functions:
            raise ScheduleValueError(
                primitive,
                f"There is no PrimFunc {name!r}; the module has "
                f"{known}.{nearest(name, self._functions)}",
            )
        return name

    def _block(self, block: BlockLike) -> tuple[str, str]:
        """Function and present name of a block. A handle follows the renamings made after it was
        given out: an earlier one was of another block, whose name was free again."""
        if isinstance(block, str):
            return self._function_name(None), block
        self._require_own(block.func_name, f"the block {block.name!r}", "Schedule")
        name = block.name
        for owner, old, new in self._renamings[self._births.get(block, 0) :]:
            if owner == block.func_name and old == name:
                name = new
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
        self._note_births([handle])
        self._pending.add(handle)
        return handle

    def _value(self, e: Any) -> Any:
        """An int where an expression has a value through decisions, else the expression itself."""
        if not isinstance(e, Expr):
            return e
        result = Bounds().simplify(substitute(e, self._sampled_in([e])))
        return result.value if isinstance(result, IntImm) else result

    def _sampled_in(self, exprs: Sequence[Expr]) -> dict[Var, Expr]:
        """The sampled variables in expressions, and their values."""
        return {v: IntImm(self._values[v]) for v in free_vars(exprs) if v in self._values}

    def _index_map(self, m: IndexMap) -> IndexMap:
        """An index map with the values of what was sampled."""
        change = self._sampled_in(m.outputs)
        if not change:
            return m
        return IndexMap(m.inputs, tuple([substitute(e, change) for e in m.outputs]))

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
        self._require_own(loop.func_name, f"the loop {loop.var.name!r}", primitive)
        return loop

    def _require_own(self, func_name: str, what: str, primitive: str) -> None:
        if func_name not in self._functions:
            raise ScheduleValueError(
                primitive,
                f"Expected a handle of this schedule, which has {', '.join(self._functions)}; "
                f"found {what} of {func_name!r}, which another one gave out.",
            )

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

    def _target(self, block_or_loop: BlockLike | LoopRV) -> tuple[str, Var | str]:
        """The function of a loop and its variable, or of a block and its name."""
        if isinstance(block_or_loop, LoopHandle):
            return block_or_loop.func_name, block_or_loop.var
        return self._block(block_or_loop)

    def _decide(
        self, domain: tuple[Any, ...] | None, decision: Any, draw: Callable[[Any], Any]
    ) -> Any:
        """What a sampling primitive decides: ``draw`` checks the decision that was given, or draws
        where it is None. The ``domain`` begins with the primitive's name; of one that is None there
        is nothing to decide."""
        return draw(decision)

    def _fresh_value(self, value: int, offset: int = 0) -> Var:
        """A variable that stands for a sampled value."""
        var = Var(f"v{self._rv_count + offset}")
        self._values = {**self._values, var: value}
        return var

    # -- recording ---------------------------------------------------------------------------------
    def _keeps_signature(self, func_name: str) -> str:
        """Why a function's parameters must stay as they are; empty where they may change. That of
        a program is its caller's."""
        return (
            "whose layout belongs to the caller, and is not in the function's attribute "
            "layout_free. Use cache_read or cache_write and change the layout of the copy"
        )

    def _rewriting(self, primitive: str, rewrite: Callable[[], Any]) -> Any:
        """What a primitive gives. Where a function calls functions of C, memory that these have
        pointers to is as it was, or nothing has been done."""
        before, state = self._functions, dict(self.__dict__)
        if self._calls_out is None:
            self._calls_out = {name for name, f in before.items() if calls_out(f)}
        result = rewrite()
        for name in self._calls_out:
            try:
                require_memory_kept(primitive, before[name], self._functions[name])
            except ScheduleError:
                self.__dict__.update(state)
                raise
        if primitive in BRINGS:
            self._calls_out = None
        return result

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
        self._note_births(outputs)

    def _note(self, **values: Any) -> None:
        """What the instruction of the primitive that runs is to hold in place of what was given:
        the decision that was taken, the index map that a Python function stood for."""
        self._noted = {**self._noted, **values}

    def _rename(self, func_name: str, old: str, new: str) -> None:
        self._renamings = (*self._renamings, (func_name, old, new))

    def _note_births(self, handles: Sequence[RV]) -> None:
        """Note how many renamings there were before these handles; for most handles it is none."""
        if self._renamings:
            new = [h for h in handles if isinstance(h, BlockHandle) and h not in self._births]
            if new:
                self._births = {**self._births, **dict.fromkeys(new, len(self._renamings))}


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
