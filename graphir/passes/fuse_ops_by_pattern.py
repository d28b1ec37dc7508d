"""FuseOpsByPattern: what a pattern matches is handed to a function of one's own.

That is a function of the environment (``register_func``), called between kernels, or a PrimFunc,
which is lowered as it stands. Where a value on the way is read by somebody else too, nothing is
handed over: it would be computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...support.passes import Pass
from ...tensorir.buffer import Buffer
from ...tensorir.function import PrimFunc
from ...tensorir.text.dim_text import DimError
from ..analysis import solve_shape_vars
from ..expr import Atom, CallDPS, CallDPSPacked, GlobalVar, Value, Var
from ..module import IRModule
from ..op import type_of
from ..patterns.matching import Matched, operands
from ..patterns.pattern import Pattern, PatternError, as_pattern, leaves, parts_of
from ..patterns.rewriting import CallRewriter
from ..text.printer import format_type
from ..type import TensorType, Type, tensors_of

Callee = str | PrimFunc | Callable[[Matched], PrimFunc]
Check = Callable[[Matched], bool]


@dataclass(frozen=True)
class FusionPattern:
    """What takes the place of a pattern: ``callee``, called with what ``operands`` match (None: the
    pattern's wildcards, constants and variables, in the order in which they are written), where
    ``check`` says so of the match."""

    callee: Callee
    pattern: Pattern
    operands: Sequence[Pattern] | None = None
    check: Check | None = None

    def __post_init__(self) -> None:
        as_pattern(self.pattern, "FuseOpsByPattern")
        if not isinstance(self.callee, (str, PrimFunc)) and not callable(self.callee):
            raise PatternError(
                "FuseOpsByPattern: the callee is the name of an environment function, a PrimFunc, "
                f"or a function that makes one of a match; found {self.callee!r}."
            )
        known = parts_of(self.pattern)
        for p in self.operands or ():
            if as_pattern(p, "FuseOpsByPattern") not in known:
                raise PatternError(
                    f"FuseOpsByPattern: {self.name} is to be called with what {p!r} matches, which "
                    "is no part of the pattern. Operands are the pattern's own objects."
                )
        if self.check is not None and not callable(self.check):
            raise PatternError(
                f"FuseOpsByPattern: the check is a function of a match; found {self.check!r}."
            )

    @property
    def name(self) -> str:
        """What errors and the printed pass call it."""
        callee: Any = self.callee
        if isinstance(callee, str):
            return callee
        return str(callee.name if isinstance(callee, PrimFunc) else callee.__name__)


@dataclass(frozen=True)
class FuseOpsByPattern(Pass):
    """Replace what patterns match by calls of functions of the environment or of PrimFuncs.

    ``patterns`` are FusionPatterns, or tuples of their fields; of a value the first that matches
    counts. A PrimFunc whose shapes do not fit a match is an error: narrow the pattern
    (``has_shape``), or give a function of the match that makes the PrimFunc for it.

    *requires*: nothing. *ensures*: nothing; what no pattern matches stays.

        lv = R.linear(x, w, b)
        y = R.relu(lv)
    becomes, for ("env.linear_relu", is_op("relu")(is_op("linear")(x, w, b)))
        y = R.call_dps_packed("env.linear_relu", (x, w, b), out_type=R.Tensor(...))
    """

    patterns: tuple[FusionPattern, ...]

    def __init__(self, patterns: Iterable[FusionPattern | tuple[Any, ...]]) -> None:
        made = tuple([p if isinstance(p, FusionPattern) else _from_tuple(p) for p in patterns])
        object.__setattr__(self, "patterns", made)

    def run(self, module: IRModule) -> IRModule:
        return _Dispatcher(module, self.patterns).transform()

    def __str__(self) -> str:
        return f"{self.name}{{{','.join([p.name for p in self.patterns])}}}"


def _from_tuple(fields: object) -> FusionPattern:
    if not isinstance(fields, tuple) or not 2 <= len(fields) <= 4:
        raise PatternError(
            "FuseOpsByPattern takes FusionPatterns, or tuples (callee, pattern[, operands[, "
            f"check]]); found {fields!r}."
        )
    return FusionPattern(*fields)


class _Dispatcher(CallRewriter):
    def __init__(self, module: IRModule, patterns: Sequence[FusionPattern]) -> None:
        super().__init__(module, [(p.pattern, self.rule(p)) for p in patterns])
        self.made: dict[int, tuple[PrimFunc, GlobalVar]] = {}

    def rule(self, fusion: FusionPattern) -> Callable[[Value, Matched], Value]:
        """The rewriter of one pattern."""
        inputs = leaves(fusion.pattern) if fusion.operands is None else list(fusion.operands)

        def rewrite(value: Value, matched: Matched) -> Value:
            given = [p for p in inputs if p in matched]
            if fusion.operands is not None and len(given) < len(inputs):
                return value
            if not _is_closed(fusion.pattern, given, value, matched):
                return value
            if fusion.check is not None and not fusion.check(matched):
                return value
            args: list[Any] = [matched[p] for p in given]
            return self.call(fusion, tuple(args), type_of(value), matched)

        return rewrite

    def call(
        self, fusion: FusionPattern, args: tuple[Atom, ...], kind: Type, matched: Matched
    ) -> Value:
        """The call that takes a match's place."""
        if isinstance(fusion.callee, str):
            return CallDPSPacked(fusion.callee, args, kind)
        callee = fusion.callee
        func = callee if isinstance(callee, PrimFunc) else callee(matched)
        if not isinstance(func, PrimFunc):
            raise PatternError(
                f"FuseOpsByPattern: {fusion.name} gave {func!r} for a match; it gives a PrimFunc."
            )
        _check_fits(fusion.name, func, [type_of(a) for a in args], kind)
        if id(func) not in self.made:
            self.made[id(func)] = (func, self.builder.add_func(func))
        return CallDPS(self.made[id(func)][1], args, kind)


def _is_closed(pattern: Pattern, inputs: Sequence[Pattern], value: Value, matched: Matched) -> bool:
    """Whether nothing but the match reads what is matched between its inputs and its result."""
    outside = {id(matched[p]) for p in inputs}
    inner: dict[Var, Value] = {}
    for p, subject in matched.found.items():
        atom = subject.atom
        if p is not pattern and isinstance(atom, Var) and id(atom) not in outside:
            inner.setdefault(atom, subject.value)
    read = [a for v in (value, *inner.values()) for a in operands(v)]
    return all(matched.scene.reads(var) == sum(a is var for a in read) for var in inner)


def _check_fits(name: str, func: PrimFunc, args: Sequence[Type], kind: Type) -> None:
    """Raise PatternError where a PrimFunc's parameters are not of the types of a call."""
    given = [t for a in args for t in tensors_of(a)] + tensors_of(kind)
    params = [p for p in func.params if isinstance(p, Buffer)]
    problem = ""
    if len(params) != len(given):
        problem = f"it has {len(params)} buffers"
    elif any(p.dtype is not t.dtype for p, t in zip(params, given, strict=True)):
        problem = f"its buffers are of {', '.join([str(p.dtype) for p in params])}"
    elif any(len(p.shape) != t.ndim for p, t in zip(params, given, strict=True)):
        problem = f"its buffers have {', '.join([str(len(p.shape)) for p in params])} dims"
    else:
        try:
            solve_shape_vars(func, args, kind)
        except DimError as error:
            problem = str(error)
    if problem:
        types = ", ".join([format_type(TensorType(t.shape, t.dtype)) for t in given])
        raise PatternError(
            f"FuseOpsByPattern: {name} does not fit a match: {problem}; the match has {types} "
            "(operands, then results). Narrow the pattern (has_shape, has_dtype), or give a "
            "function of the match that makes the PrimFunc."
        )
