"""How a primitive is declared: a row over its method.

    class Split(ScheduleState):
        @primitive(LOOPS, loop=LOOP, factors=INPUT, preserve_unit_iters=ATTR, ...)
        def split(self, loop, factors, preserve_unit_iters=True, ...) -> list[LoopRV]:
            '''What it does, requires, and an example.'''
            func, variables = split(self._functions[loop.func_name], loop.var, ...)
            self._commit(loop.func_name, func)
            return [LoopHandle(v, loop.func_name) for v in variables]

The row says of what kind each argument is. Before the method runs, names of blocks become handles
and loops are checked; after it, the instruction is recorded. A method that raises records nothing.
A parameter ``decision`` makes a sampling primitive, which notes what it chose.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from ...support.errors import InternalError
from ...support.keywords import hinted
from .arguments import require_list
from .state import ScheduleState
from .trace.handles import LoopHandle
from .trace.rows import ROWS, ArgumentKind, Role, Row

Method = TypeVar("Method", bound=Callable[..., Any])

QUERIES = "Queries: what may be asked of a schedule, and copies of it."
SAMPLING = "Sampling: random decisions, each a variable that later primitives take."
LOOPS = "Loops: their number and order."
LOOP_KINDS = "Kinds of loops: how their iterations are run."
BLOCKS = "Blocks: their own iteration spaces."
PLACES = "Places: where a block is computed."
REDUCTIONS = "Reductions: their parts."
CACHES = "Caches: copies of buffers nearer to where they are used."
STORAGE = "Storage: a buffer's layout, scope and dtype."
ANNOTATIONS = (
    "Annotations: notes on blocks and loops that lowering, postprocessing or a user reads."
)
RULES = "Rules: schedules of whole functions, by name."


# -- kinds of arguments ----------------------------------------------------------------------------
def _block(sch: ScheduleState, primitive: str, value: Any) -> Any:
    return sch._handle(value)


def _loop(sch: ScheduleState, primitive: str, value: Any) -> Any:
    return sch._place(value, primitive)


def _loop_or_none(sch: ScheduleState, primitive: str, value: Any) -> Any:
    return None if value is None else sch._place(value, primitive)


def _place(sch: ScheduleState, primitive: str, value: Any) -> Any:
    is_sampled = isinstance(value, LoopHandle) and value.place
    return value if is_sampled else sch._place(value, primitive)


def _block_or_loop(sch: ScheduleState, primitive: str, value: Any) -> Any:
    is_loop = isinstance(value, LoopHandle)
    return sch._place(value, primitive) if is_loop else sch._handle(value)


def _consumers(sch: ScheduleState, primitive: str, value: Any) -> Any:
    return [sch._handle(c) for c in require_list(value, "consumer_blocks", primitive)]


INPUT = ArgumentKind()
"""Plain data among the inputs."""
ATTR = ArgumentKind(is_input=False)
"""Plain data."""
OPTIONAL = ArgumentKind(is_input=False, may_miss=True)
"""Plain data, which the instruction has where there is some."""
BLOCK = ArgumentKind(_block)
"""A block, or its name: the method gets the handle."""
CONSUMERS = ArgumentKind(_consumers, may_miss=True)
"""Blocks; none stands for the primitive's own choice."""
LOOP = ArgumentKind(_loop)
"""A loop that is one."""
LOOP_OR_NONE = ArgumentKind(_loop_or_none)
OPTIONAL_LOOP = ArgumentKind(_loop_or_none, may_miss=True)
PLACE = ArgumentKind(_place)
"""A loop, or a sampled place without one."""
BLOCK_OR_LOOP = ArgumentKind(_block_or_loop)
THIS_LOOP = ArgumentKind(_loop, is_named=False)
"""A loop that the text of a trace does not name."""
THIS_BLOCK_OR_LOOP = ArgumentKind(_block_or_loop, is_named=False)
THESE_LOOPS = ArgumentKind(is_named=False)
"""All positional arguments, which the method checks as a whole."""


# -- declaring -------------------------------------------------------------------------------------
def primitive(group: str, **arguments: ArgumentKind) -> Callable[[Method], Method]:
    """Declare a method that rewrites the program, or samples where it has a ``decision``."""
    return lambda method: _declared(method, group, "rewrite", arguments)


def composite(group: str, **arguments: ArgumentKind) -> Callable[[Method], Method]:
    """Declare a method that rewrites the program by other primitives, with decisions by name."""
    return lambda method: _declared(method, group, "composite", arguments)


def query(**arguments: ArgumentKind) -> Callable[[Method], Method]:
    """Declare a method whose instruction may go where nothing uses what it gave."""
    return lambda method: _declared(method, QUERIES, "query", arguments)


def _declared(method: Method, group: str, role: Role, arguments: dict[str, ArgumentKind]) -> Method:
    name = method.__name__
    signature = inspect.signature(method)
    parameters = [p for p in signature.parameters if p != "self"]
    if "decision" in parameters:
        parameters.remove("decision")
        role = "composite" if role == "composite" else "sampling"
    if parameters != list(arguments) or name in ROWS:
        raise InternalError(
            f"The row of {name!r} has the arguments {list(arguments)}, its method {parameters}."
        )
    gives_list = str(signature.return_annotation).startswith("list[")
    row = ROWS[name] = Row(name, group, role, arguments, gives_list)
    known = [p for p in signature.parameters.values() if p.name != "self"]
    names = {p.name: None for p in known}.keys()
    defaults = {p.name: p.default for p in known if p.default is not p.empty}
    several = next((p.name for p in known if p.kind is p.VAR_POSITIONAL), None)
    refuse = hinted(method)
    """The method, called where it says what is wrong."""

    def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
        """The arguments by name, or None where they are not those of the method."""
        own = {several: args} if several else dict(zip(names, args, strict=False))
        given = {**defaults, **own, **kwargs}
        fits = (several or len(args) == len(own)) and own.keys().isdisjoint(kwargs)
        return given if fits and given.keys() == names else None

    @functools.wraps(method)
    def run(self: ScheduleState, *args: Any, **kwargs: Any) -> Any:
        given = bind(args, kwargs)
        if given is None:
            return refuse(self, *args, **kwargs)
        for argument, kind in arguments.items():
            given[argument] = kind.resolve(self, name, given[argument])
        self._noted = {}
        loops = given.pop(several) if several else ()
        result = self._rewriting(name, lambda: method(self, *loops, **given))
        if several:
            given[several] = loops
        inputs, attrs = row.recorded({**given, **self._noted})
        outputs = result if isinstance(result, list) else [] if result is None else [result]
        self._record(name, inputs, attrs, outputs, self._noted.get("decision"))
        return result

    return cast(Method, run)
