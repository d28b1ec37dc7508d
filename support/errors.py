"""Every error burnish raises on purpose. Each class holds data and renders itself.

A message says what was expected, what was found, where, and what to do. ``BurnishError`` is the
root of what a user can cause; ``InternalError`` is a defect of ours and never caught.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .source import Span
from .wording import spoken


class BurnishError(Exception):
    """Root of the errors a user can act on. ``stage`` and ``span`` are set where they are known."""

    stage: str | None = None
    span: Span | None = None

    def __init__(self, message: str, *, span: Span | None = None, stage: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if span is not None:
            self.span = span
        if stage is not None:
            self.stage = stage

    def note(self, text: str) -> BurnishError:
        """Add a line of context below the message and return the error itself."""
        self.add_note(text)
        return self

    def __str__(self) -> str:
        parts = [self.message]
        if self.span is not None:
            parts.append(self.span.render())
        if self.stage is not None:
            parts.append("Set BURNISH_DUMP=DIR to keep every stage of the compilation.")
        return "\n".join(parts)


class InternalError(Exception):
    """A defect in burnish itself."""

    def __init__(self, message: str) -> None:
        super().__init__(
            f"{message}\nThis is a defect in the compiler, not in your program. "
            "Set BURNISH_DUMP=DIR to keep every stage and report it with the last one."
        )


def nearest(name: str, known: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` for the closest known name, or nothing."""
    known = list(known)
    close = [k for k in known if k.lower() == name.lower()]
    close = close or difflib.get_close_matches(name, known, n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


# -- bad values ---------------------------------------------------------------------------------
class DTypeError(BurnishError, TypeError):
    """A name that is no dtype, or a dtype that an operation cannot take.

    ``what`` says what was expected: a noun ("a dtype") or where it was ("for Add").
    """

    def __init__(self, found: str, expected: Sequence[str], what: str = "a dtype") -> None:
        self.found, self.expected = found, tuple(expected)
        if what.startswith("for "):
            text = f"Expected {' or '.join(expected)} {what}; found {found}."
        else:
            text = f"Expected {what}, one of {', '.join(expected)}; found {found!r}."
        super().__init__(text)


class ConfigError(BurnishError, ValueError):
    """An environment flag or option with a value it cannot have."""


class KeywordError(BurnishError, TypeError):
    """A keyword that a function does not have."""


class TargetError(BurnishError, ValueError):
    """A target text that cannot be parsed or asks for what this machine lacks."""


class MissingExtraError(BurnishError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        self.package, self.extra = package, extra
        super().__init__(
            f"{purpose} needs the package {package!r}, which is not installed. "
            f"Install it with: pip install 'burnish[{extra}]'"
        )


class DataError(BurnishError, ValueError):
    """Data files that are missing, corrupt or do not fit each other."""


# -- front ends ---------------------------------------------------------------------------------
class FrontendError(BurnishError):
    """A model that cannot be imported."""


@dataclass(frozen=True)
class UnsupportedOp:
    """One unsupported operator of a model: how often it occurs and where it was first seen."""

    name: str
    count: int
    first_seen: str
    hint: str = ""


class UnsupportedOpError(FrontendError):
    """All the operators of a model that have no converter, at once."""

    def __init__(
        self, ops: Sequence[UnsupportedOp], frontend: str, *, may_fall_back: bool = False
    ) -> None:
        self.ops = tuple(ops)
        lines = [
            f"{len(ops)} operator{'s' if len(ops) != 1 else ''} of this {frontend} model "
            "cannot be imported:"
        ]
        for op in ops:
            lines.append(f"  {op.name} (x{op.count}), first at {op.first_seen}{op.hint}")
        lines.append(
            "Rewrite the model without them, or register a converter "
            f"(burnish.register_{frontend}_op, docs/patterns.md)."
        )
        if may_fall_back:
            runs = {"torch": "torch", "onnx": "ONNX's reference evaluator"}[frontend]
            how = spoken(f'burnish.compile(..., fallback="{frontend}")', f"--fallback {frontend}")
            lines.append(f"{how} lets {runs} run what it can of them.")
        super().__init__("\n".join(lines))


# -- text, verification, types --------------------------------------------------------------------
class ParseError(BurnishError, SyntaxError):
    """A text that is not a program; rendered with a caret under the guilty columns."""

    def __init__(self, message: str, span: Span | None = None) -> None:
        BurnishError.__init__(self, message, span=span)
        self.msg = message

    def __str__(self) -> str:
        return BurnishError.__str__(self)


class VerifyError(BurnishError):
    """An IR that breaks one of its laws; ``context`` is the printed IR around the guilty node."""

    def __init__(self, law: str, found: str, context: str = "", span: Span | None = None) -> None:
        self.law, self.found, self.context = law, found, context
        text = f"The IR breaks the law: {law}\nFound: {found}"
        if context:
            text += "\n" + context
        super().__init__(text, span=span)


class TypeInferenceError(BurnishError, TypeError):
    """An operator call whose arguments do not fit each other."""

    def __init__(
        self,
        op: str,
        found: str,
        expected: str = "",
        span: Span | None = None,
        dims: tuple[object, object] | None = None,
        axes: tuple[int, ...] = (),
        *,
        broadcasts: bool = False,
    ) -> None:
        self.op, self.found, self.expected = op, found, expected
        self.dims = dims
        """Two that would have to be equal, where that is what is wrong."""
        self.axes = axes
        """The axis of each operand along which these two meet, counted from the right: -1, -2. An
        operand may have fewer. None, where the operator does not tell."""
        self.broadcasts = broadcasts
        """A dim of 1 would fit any other there."""
        self.is_of_dtypes = False
        """Whether it is dtypes that are wrong, in a model that is imported."""
        super().__init__(self._text(), span=span)

    def _text(self) -> str:
        return f"{self.op}: {self.found}" + (f" Expected {self.expected}." if self.expected else "")

    def cast_by(self, how: str) -> None:
        """Say how to cast in the words of the model that is imported, which has no R.astype."""
        self.is_of_dtypes = self.is_of_dtypes or "cast with R.astype" in self.expected
        self.expected = self.expected.replace("cast with R.astype", how)
        self.message = self._text()


class StructuralEqualityError(BurnishError, AssertionError):
    """Two programs that were asserted to be structurally equal and are not."""

    def __init__(self, difference: str, left: str = "", right: str = "") -> None:
        self.difference, self.left, self.right = difference, left, right
        where = difference if difference.startswith("at ") else f"at {difference}"
        text = f"The programs are not structurally equal. First difference {where}."
        if left or right:
            text += f"\n--- left\n{left}\n--- right\n{right}"
        super().__init__(text)


class ComputeError(BurnishError, ValueError):
    """A compute definition that has no meaning or cannot become a PrimFunc."""


class PassError(BurnishError):
    """Wraps an error raised inside a pass, with the pass's name."""

    def __init__(self, pass_name: str, cause: BaseException) -> None:
        self.pass_name = pass_name
        super().__init__(f"In pass {pass_name!r}: {cause}", stage=pass_name)


# -- schedules ------------------------------------------------------------------------------------
class ScheduleError(BurnishError):
    """A schedule primitive whose precondition does not hold; the schedule stays as it was.

    ``primitive`` is its name, ``found`` what breaks the precondition, ``context`` the function's
    text with the guilty place marked.
    """

    def __init__(self, primitive: str, found: str, context: str = "") -> None:
        self.primitive, self.found, self.context = primitive, found, context
        super().__init__(f"{primitive}: {found}" + (f"\n{context}" if context else ""))


class LoopNotFoundError(ScheduleError):
    """A loop handle that is no longer in the function (split, fused or removed)."""


class BlockNotFoundError(ScheduleError):
    """A block name that is not in the function."""


class NotAncestorError(ScheduleError):
    """A loop that does not stand around the block, or loops that are not on one chain."""


class NotCompleteBlockError(ScheduleError):
    """A block that is not complete (the only writer of its output, all iterations spatial)."""


class NotReductionBlockError(ScheduleError):
    """A block that is not a reduction (init and update over reduce axes)."""


class NonAffineError(ScheduleError):
    """A binding or index that is not an affine map of the loops, where one is required."""


class LoopKindError(ScheduleError):
    """A loop of a kind or with annotations that the primitive cannot take."""


class DependenceError(ScheduleError):
    """A transformation that would break a data dependence."""


class LayoutError(ScheduleError):
    """A layout map that is not a bijection, or a buffer whose layout may not change."""


class ScheduleValueError(ScheduleError, ValueError):
    """A factor, index or option that the primitive cannot take."""


class RuleMismatchError(ScheduleError):
    """A rule for functions of another kind: those with ``wanted``, where this one has ``parts``."""

    def __init__(self, rule: str, wanted: str, parts: str) -> None:
        self.rule, self.wanted, self.parts = rule, wanted, parts
        super().__init__(
            rule,
            f"The rule is for functions with {wanted}; this one is of another kind, with {parts}.",
        )


class DecisionError(ScheduleValueError):
    """A decision outside of its domain: the ``field`` of a ``rule`` cannot take this ``value``, but
    one of ``domain``."""

    def __init__(self, rule: str, field: str, value: object, domain: Sequence[int]) -> None:
        self.rule, self.field, self.value, self.domain = rule, field, value, tuple(domain)
        super().__init__(
            "apply_rule",
            f"The rule {rule!r} takes as {field!r} one of {list(self.domain)} here; found "
            f"{value!r}.",
        )


class TensorizeError(ScheduleError):
    """A body that is not the computation a tensor intrinsic describes."""


class TraceError(ScheduleError):
    """A trace that does not replay on this function or cannot be read."""


# -- code generation, tuning ---------------------------------------------------------------------
class CodegenError(BurnishError):
    """A lowered function that cannot become object code."""


class TuningError(BurnishError):
    """A tuning request that cannot be served."""


class BuildError(TuningError):
    """A candidate that does not build."""


class WorkerFailed(BuildError):
    """A job that did not get to an end, for want of memory or files or by a defect: that says
    nothing about the candidate."""


class WorkerDied(WorkerFailed):
    """A worker process that ended in the middle of a job, by the job's fault or another's."""


class MeasureTimeout(TuningError):
    """A candidate that took longer than its limit."""


# -- running ---------------------------------------------------------------------------------------
class VMError(BurnishError):
    """A program that cannot be loaded or run."""


RAISES = "raises"
"""What the words on a check of values begin with that the model itself makes."""


class DataCheckError(VMError, AssertionError, ValueError):
    """Values for which the model's own code raises: ``assert``, or ``raise`` behind an ``if``."""


class NotCompiledError(VMError):
    """A model that has no program yet: it compiles at its first call."""


class UnknownFunctionError(VMError, KeyError):
    """A function name that is neither in the module nor registered."""

    def __init__(self, name: str, known: Iterable[str], where: str) -> None:
        self.name = name
        known = tuple(known)
        VMError.__init__(
            self,
            f"Function {name!r} is not known: it is neither in {where} nor a registered "
            f"environment function.{nearest(name, known)} "
            f"Register it with @burnish.register_func({name!r}).",
        )

    def __str__(self) -> str:
        return BurnishError.__str__(self)


class DuplicateFunctionError(VMError, ValueError):
    """An environment function registered twice without ``override=True``."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"An environment function called {name!r} is already registered. "
            "Choose another name, or pass override=True to replace it."
        )


class EnvironmentFunctionError(VMError):
    """An environment function raised; the cause is chained."""


class VerificationError(VMError):
    """A compiled model gives something else than the one it was compiled from."""


class IndexRangeError(VMError, IndexError):
    """An index that is out of range, of a model that checks them (``checked=True``)."""


class ArityError(VMError, TypeError):
    """A wrong number of inputs."""


class ShapeMismatchError(VMError, ValueError):
    """An argument whose shape does not fit the compiled signature."""

    def __init__(self, arg: str, expected: str, got: str, advice: str = "") -> None:
        self.arg, self.expected, self.got = arg, expected, got
        super().__init__(
            f"{arg}: expected shape {expected}, got {got}." + (f" {advice}" if advice else "")
        )


class DTypeMismatchError(VMError, TypeError):
    """An argument whose dtype does not fit the compiled signature; never a silent cast."""

    def __init__(self, arg: str, expected: str, got: str) -> None:
        self.arg, self.expected, self.got = arg, expected, got
        super().__init__(
            f"{arg}: expected dtype {expected}, got {got}. Convert it before the call."
        )


class ArgumentError(VMError, ValueError):
    """An argument that is no CPU tensor, overlaps another, or cannot be written."""


class RequestError(BurnishError):
    """A request to a server that is refused; ``status`` is the code of HTTP it is answered with."""

    def __init__(self, message: str, *, status: int = 400) -> None:
        self.status = status
        super().__init__(message)


class ArtifactError(VMError):
    """A saved program that is corrupt, of another version, or for another CPU."""
