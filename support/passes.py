"""Passes and pipelines: what both the graph's and a user's own sequences of rewrites are made of.

A pass is a frozen dataclass whose fields are its options; its name is its class's, in kebab case
(``FuseOps`` is ``fuse-ops``). A Pipeline runs passes in order on a copy of the module and tells its
instruments before and after each. Both have a text form: ``canonicalize,fuse-ops{max-depth=8}``.

This file knows nothing of modules but ``copy()``. The names of passes come from a table that is
handed in, so that an import list (``graphir/passes/pipeline.py``) is the only registry.
"""

from __future__ import annotations

import ast
import re
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar

from .config import flag
from .errors import BurnishError, ConfigError, PassError, nearest
from .print_after import printed_passes

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_BARE_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*\Z")
_CONSTANTS = {"true": True, "false": False, "none": None}


def kebab_case(name: str) -> str:
    """``FuseOps`` to ``fuse-ops``, ``max_depth`` to ``max-depth``."""
    return _HUMP.sub("-", name).replace("_", "-").lower()


@dataclass(frozen=True)
class Pass:
    """One rewrite of a module. Subclasses are frozen dataclasses and define ``run``."""

    name: ClassVar[str] = "pass"
    opt_level: ClassVar[int] = 0
    """A Pipeline leaves the pass out where ``PassContext.opt_level`` is lower."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = kebab_case(cls.__name__)

    def run(self, module: Any) -> Any:
        """The rewritten module. ``module`` is the pass's own copy: its table may be changed in
        place, its functions not."""
        return module

    def __call__(self, module: Any) -> Any:
        """Apply the pass to a copy of ``module``; an error inside it becomes a PassError.

        InternalError and errors that are not burnish's pass through with a note that names the
        pass.
        """
        if not hasattr(module, "copy"):
            raise ConfigError(
                f"Expected an IRModule for the pass {self.name!r}, found a "
                f"{type(module).__name__}; IRModule.from_expr(function) makes one of a function."
            )
        try:
            return self.run(module.copy())
        except PassError:
            raise
        except BurnishError as error:
            raise PassError(self.name, error) from error
        except Exception as error:
            error.add_note(f"in pass {self.name!r}")
            raise

    def options(self) -> dict[str, Any]:
        """The options that differ from their defaults, by their text name."""
        given = {}
        for f in fields(self):
            value = getattr(self, f.name)
            default = f.default_factory() if f.default_factory is not MISSING else f.default
            if default is MISSING or value != default:
                given[kebab_case(f.name)] = value
        return given

    def __str__(self) -> str:
        """The text form: name, and options in braces where any differs from its default."""
        options = ",".join(f"{k}={_print_value(v)}" for k, v in self.options().items())
        return f"{self.name}{{{options}}}" if options else self.name


class Instrument:
    """Told by a Pipeline what happens. The base class ignores everything."""

    def before_pass(self, pass_: Pass, module: Any) -> None:
        """Called with the module a pass is about to see."""

    def after_pass(self, pass_: Pass, module: Any) -> None:
        """Called with the module a pass returned; what it raises is blamed on the pass."""


@dataclass
class VerifyEach(Instrument):
    """Runs ``verify(module)``, which raises on an ill-formed module, after every pass."""

    verify: Callable[[Any], object]

    def after_pass(self, pass_: Pass, module: Any) -> None:
        self.verify(module)


@dataclass
class TimePasses(Instrument):
    """Collects the wall-clock seconds of each pass, in order of execution."""

    seconds: list[tuple[str, float]] = field(default_factory=list)
    _began: float = 0.0

    def before_pass(self, pass_: Pass, module: Any) -> None:
        self._began = time.perf_counter()

    def after_pass(self, pass_: Pass, module: Any) -> None:
        self.seconds.append((pass_.name, time.perf_counter() - self._began))

    def table(self) -> str:
        """A line a pass, the slowest first."""
        width = max((len(name) for name, _ in self.seconds), default=0)
        ranked = sorted(self.seconds, key=lambda row: -row[1])
        return "".join(f"{name:<{width}}  {seconds * 1e3:9.3f} ms\n" for name, seconds in ranked)


@dataclass
class PrintAfter(Instrument):
    """Prints the module after the named passes (``all``: after each), to stderr."""

    names: Sequence[str]
    write: Callable[[str], object] = field(default_factory=lambda: sys.stderr.write)

    def after_pass(self, pass_: Pass, module: Any) -> None:
        if "all" in self.names or pass_.name in self.names:
            self.write(f"# -- after {pass_}\n{str(module).rstrip()}\n")


_contexts: ContextVar[tuple[PassContext, ...]] = ContextVar("pass_contexts", default=())


@dataclass(frozen=True)
class PassContext:
    """What the pipelines run inside a ``with`` of it know besides their options.

        with PassContext(opt_level=2, config={"limit": 8}, instruments=[PrintAfter(["all"])]):
            module = pipeline(module)

    ``opt_level`` leaves out the passes above it (None: none is left out), ``config`` is read by
    passes that are handed the context (``module_pass``), ``instruments`` are told of every pass.
    Contexts do not add up: the innermost counts. Each thread has its own.
    """

    opt_level: int | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    instruments: Sequence[Instrument] = ()

    @staticmethod
    def current() -> PassContext:
        """The innermost context, or one without restrictions."""
        entered = _contexts.get()
        return entered[-1] if entered else PassContext()

    def runs(self, pass_: Pass) -> bool:
        """Whether a pipeline runs the pass here."""
        return self.opt_level is None or pass_.opt_level <= self.opt_level

    def __enter__(self) -> PassContext:
        _contexts.set((*_contexts.get(), self))
        return self

    def __exit__(self, *exception: object) -> None:
        _contexts.set(_contexts.get()[:-1])


@dataclass(frozen=True)
class Pipeline(Pass):
    """Passes in order; itself a pass, so pipelines nest."""

    passes: tuple[Pass, ...] = ()
    instruments: tuple[Instrument, ...] = ()

    def __init__(self, passes: Iterable[Pass] = (), instruments: Iterable[Instrument] = ()) -> None:
        passes = tuple(passes)
        for pass_ in passes:
            if not isinstance(pass_, Pass):
                raise ConfigError(
                    f"A pipeline holds passes; found {pass_!r}. Decorate a function with "
                    "@module_pass, and make an instance of a class: MyPass()."
                )
        object.__setattr__(self, "passes", passes)
        object.__setattr__(self, "instruments", tuple(instruments))

    def run(self, module: Any) -> Any:
        """Run every pass; raises PassError for the first that fails or breaks the module."""
        context = PassContext.current()
        instruments = (*self.instruments, *context.instruments)
        for pass_ in self.passes:
            if not context.runs(pass_):
                continue
            for instrument in instruments:
                instrument.before_pass(pass_, module)
            module = pass_(module)
            try:
                for instrument in instruments:
                    instrument.after_pass(pass_, module)
            except BurnishError as error:
                raise PassError(pass_.name, error) from error
        return module

    def with_instruments(self, *instruments: Instrument) -> Pipeline:
        """The same passes with more instruments."""
        return Pipeline(self.passes, (*self.instruments, *instruments))

    def __iter__(self) -> Iterator[Pass]:
        return iter(self.passes)

    def __len__(self) -> int:
        return len(self.passes)

    def __str__(self) -> str:
        """The text form, which ``parse_pipeline`` reads back."""
        return ",".join(str(p) for p in self.passes)


def instruments_from_flags(
    verify: Callable[[Any], object], known: Collection[str], stages: Collection[str] = ()
) -> tuple[Instrument, ...]:
    """What BURNISH_VERIFY and BURNISH_PRINT_AFTER ask for. ``known`` are the names of passes that
    may be printed after, ``stages`` those of stages, which somebody else prints; raises ConfigError
    for any other, naming the nearest."""
    found: list[Instrument] = []
    if flag("BURNISH_VERIFY") == "each":
        found.append(VerifyEach(verify))
    names = printed_passes(known, stages)
    if names:
        found.append(PrintAfter(names))
    return tuple(found)


# -- the text form
# ----------------------------------------------------------------------------------
def parse_pipeline(text: str, known: Mapping[str, type[Pass]] | Iterable[type[Pass]]) -> Pipeline:
    """The pipeline of a text such as ``canonicalize,fuse-ops{max-depth=8}``.

    ``known`` are the passes that may be named. Raises ConfigError for an unknown pass or option, a
    missing option, or a text that is no pipeline.
    """
    table = dict(known) if isinstance(known, Mapping) else {kind.name: kind for kind in known}
    return Pipeline([_parse_pass(item, table) for item in _split(text)])


def _parse_pass(text: str, known: Mapping[str, type[Pass]]) -> Pass:
    name, brace, rest = text.partition("{")
    name = name.strip()
    if brace and not rest.endswith("}"):
        raise ConfigError(f"Expected options as in 'fuse-ops{{max-depth=8}}', found {text!r}.")
    kind = known.get(name)
    if kind is None:
        raise ConfigError(
            f"There is no pass {name!r}; there are {', '.join(known)}.{nearest(name, known)}"
        )
    options = {kebab_case(f.name): f for f in fields(kind)}
    values: dict[str, Any] = {}
    for item in _split(rest[:-1]) if brace else ():
        key, equals, value = item.partition("=")
        key = key.strip()
        if key not in options:
            raise ConfigError(
                f"Pass {name!r} has no option {key!r}; it has {', '.join(options) or 'none'}."
                + nearest(key, options)
            )
        if not equals:
            raise ConfigError(f"Option {key!r} of pass {name!r} needs a value, as in {key}=8.")
        values[options[key].name] = _parse_value(value.strip(), f"option {key!r} of pass {name!r}")
    try:
        return kind(**values)
    except TypeError as error:
        raise ConfigError(f"Pass {name!r} cannot be made from {text!r}: {error}.") from error


_TOKEN = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|.""", re.DOTALL)


def _split(text: str) -> list[str]:
    """Split at commas outside of brackets and quotes."""
    parts = [""]
    depth = 0
    for token in _TOKEN.findall(text):
        depth += (token in "{[(") - (token in "}])")
        if depth < 0 or token in "'\"":
            break
        if token == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += token
    else:
        if depth == 0:
            return _stripped(parts, text)
    raise ConfigError(f"Unbalanced brackets or quotes in the pipeline text {text!r}.")


def _stripped(parts: list[str], text: str) -> list[str]:
    parts = [part.strip() for part in parts]
    if parts == [""]:
        return []
    if "" in parts:
        raise ConfigError(f"An empty item in the pipeline text {text!r}.")
    return parts


def _print_value(value: Any) -> str:
    for word, constant in _CONSTANTS.items():
        if value is constant:
            return word
    if isinstance(value, str) and _BARE_WORD.match(value) and value not in _CONSTANTS:
        return str(value)
    return repr(str(value)) if isinstance(value, str) else repr(value)


def _parse_value(text: str, what: str) -> Any:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _BARE_WORD.match(text):
        return text
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise ConfigError(f"{what}: {text!r} is no value.") from None
