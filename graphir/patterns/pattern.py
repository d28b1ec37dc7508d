"""Patterns: what a value of a graph may look like, as a tree (or DAG) of small objects.

    x, w = wildcard(), is_const()
    product = is_op("matmul")(x, w) | is_op("linear")(x, w)
    pattern = is_op("relu")(product).has_dtype("float32")

A pattern says nothing by itself; ``matching.py`` compares it with the values of a function. One
that stands at several places stands for one value: ``is_op("multiply")(x, x)`` is a square. The
operands of commutative operators are tried in both orders, alternatives in theirs, and what is
chosen first is taken back where the rest does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, TypeAlias

from ...support.dtype import DType
from ...support.errors import BurnishError, nearest
from ...tensorir.expr import Expr, as_expr
from ..expr import Atom, Value
from ..op import Op, all_ops
from ..type import Type

Operands: TypeAlias = "tuple[Pattern | EllipsisType, ...]"
Condition: TypeAlias = Callable[[Value], bool]


class PatternError(BurnishError):
    """A pattern, or a rewriting by one, that says something impossible."""


class Pattern:
    """Base of all patterns. Each method gives a pattern; nothing changes a pattern."""

    def __init__(self) -> None:
        note_made(self)

    @property
    def parts(self) -> tuple[Pattern, ...]:
        """The patterns that this one is made of."""
        return ()

    # -- combinations --------------------------------------------------------------------------
    def __or__(self, other: Pattern) -> Pattern:
        """Either; this one is tried first."""
        return Either((self, as_pattern(other, "|")))

    def __and__(self, other: Pattern) -> Pattern:
        """Both, of one value."""
        return Both(self, as_pattern(other, "&"))

    def __invert__(self) -> Pattern:
        """Any value that this pattern does not match."""
        return Not(self)

    def __add__(self, other: Pattern) -> Pattern:
        return is_op("add")(self, as_pattern(other, "+"))

    def __sub__(self, other: Pattern) -> Pattern:
        return is_op("subtract")(self, as_pattern(other, "-"))

    def __mul__(self, other: Pattern) -> Pattern:
        return is_op("multiply")(self, as_pattern(other, "*"))

    def __truediv__(self, other: Pattern) -> Pattern:
        return is_op("divide")(self, as_pattern(other, "/"))

    def __matmul__(self, other: Pattern) -> Pattern:
        return is_op("matmul")(self, as_pattern(other, "@"))

    def __neg__(self) -> Pattern:
        return is_op("negative")(self)

    def optional(self, around: Callable[[Pattern], Pattern]) -> Pattern:
        """What ``around`` makes of this pattern, or this pattern alone:
        ``conv.optional(lambda x: is_op("relu")(x))``."""
        return as_pattern(around(self), "optional") | self

    def dominates(self, path: Pattern, end: Pattern | None = None) -> Pattern:
        """A value (that ``end`` matches, where it is given) all of whose operands come from one
        value of this pattern, through operations that ``path`` matches, and from constants."""
        return Dominated(self, as_pattern(path, "dominates"), end or wildcard())

    # -- constraints ---------------------------------------------------------------------------
    def has_dtype(self, dtype: str) -> Pattern:
        """A tensor of this dtype."""
        return WithDType(self, DType(dtype))

    def has_shape(self, shape: Sequence[int | Expr | None]) -> Pattern:
        """A tensor of this shape; None is any size. Symbolic sizes are the same variables."""
        if isinstance(shape, (str, int)) or not isinstance(shape, Sequence):
            raise PatternError(
                f"has_shape takes a tuple of sizes, as in (None, 768); found {shape!r}."
            )
        return WithShape(self, tuple([None if d is None else as_expr(d) for d in shape]))

    def has_ndim(self, ndim: int) -> Pattern:
        """A tensor of so many dims."""
        return WithShape(self, (None,) * ndim)

    def has_type(self, kind: Type) -> Pattern:
        """A value of this type."""
        return WithType(self, kind)

    def has_attr(self, attrs: Mapping[str, Any] | None = None, **named: Any) -> Pattern:
        """A call of an operator with these attributes; one that is not written has its default."""
        wanted = {**(attrs or {}), **named}
        if not wanted:
            raise PatternError(
                'has_attr takes attributes: has_attr(axis=-1), has_attr({"axis": -1}).'
            )
        _check_attributes(self, wanted)
        return WithAttrs(self, tuple(wanted.items()))

    def used_once(self) -> Pattern:
        """A value that is read at one place of the function."""
        return UsedOnce(self)

    def where(self, condition: Condition) -> Pattern:
        """A value of which ``condition`` holds: it is called with the operation (or the parameter
        or constant)."""
        if not callable(condition):
            raise PatternError(f"where takes a function of a value; found {condition!r}.")
        return Where(self, condition)

    # -- users: in a PatternContext --------------------------------------------------------------
    def used_by(self, user: Pattern, index: int | None = None) -> Pattern:
        """Say, in the open PatternContext, that ``user`` reads this value (as its operand number
        ``index``); gives ``user``, so that chains can be written."""
        add_edge(self, as_pattern(user, "used_by"), index, only=False)
        return user

    def only_used_by(self, user: Pattern, index: int | None = None) -> Pattern:
        """As ``used_by``, and nothing else reads it."""
        add_edge(self, as_pattern(user, "only_used_by"), index, only=True)
        return user

    def fork_to(self, *users: Pattern) -> None:
        """``used_by`` each of these."""
        for user in users:
            self.used_by(user)

    def __xor__(self, user: Pattern) -> Pattern:
        return self.used_by(user)

    def __rshift__(self, user: Pattern) -> Pattern:
        return self.only_used_by(user)

    # -- text --------------------------------------------------------------------------------------
    def __repr__(self) -> str:
        return "wildcard()"


# -- leaves ----------------------------------------------------------------------------------------
class Wildcard(Pattern):
    """Any value."""


@dataclass(eq=False, repr=False)
class ConstantPattern(Pattern):
    """A constant; with a ``value``, one that is this number everywhere."""

    value: float | None = None

    def __post_init__(self) -> None:
        super().__init__()

    def __repr__(self) -> str:
        return "is_const()" if self.value is None else f"is_const({self.value!r})"


@dataclass(eq=False, repr=False)
class VarPattern(Pattern):
    """A variable, whatever it is bound to; of a name, where there is one."""

    name: str = ""
    is_parameter: bool = False

    def __post_init__(self) -> None:
        super().__init__()

    def __repr__(self) -> str:
        word = "is_param" if self.is_parameter else "is_var"
        return f"{word}({self.name!r})" if self.name else f"{word}()"


@dataclass(eq=False, repr=False)
class ShapePattern(Pattern):
    """A shape among operands (``reshape``'s second); None is any size."""

    shape: tuple[Expr | None, ...] | None = None

    def __post_init__(self) -> None:
        super().__init__()

    def __repr__(self) -> str:
        return "is_shape()" if self.shape is None else f"is_shape({_sizes(self.shape)})"


# -- operations ------------------------------------------------------------------------------------
@dataclass(eq=False, repr=False)
class CallPattern(Pattern):
    """A call of ``op``. ``args`` None: whatever its operands are."""

    op: Op
    args: Operands | None = None

    def __post_init__(self) -> None:
        super().__init__()

    def __call__(self, *args: Pattern | EllipsisType) -> CallPattern:
        """The call with patterns of its operands; ``...`` at the end stands for any others."""
        given = _operands(args, self.op.name)
        _check_arity(self.op, given)
        note_replaced(self)
        return CallPattern(self.op, given)

    @property
    def parts(self) -> tuple[Pattern, ...]:
        return _patterns(self.args)

    def __repr__(self) -> str:
        head = f"is_op({self.op.name!r})"
        return head if self.args is None else f"{head}({_listed(self.args)})"


@dataclass(eq=False, repr=False)
class CallDPSPattern(Pattern):
    """A ``call_dps`` of a PrimFunc, a ``call_dps_packed``, or a call of a graph function."""

    kind: str
    name: str = ""
    args: Operands | None = None

    def __post_init__(self) -> None:
        super().__init__()

    def __call__(self, *args: Pattern | EllipsisType) -> CallDPSPattern:
        note_replaced(self)
        return CallDPSPattern(self.kind, self.name, _operands(args, self.kind))

    @property
    def parts(self) -> tuple[Pattern, ...]:
        return _patterns(self.args)

    def __repr__(self) -> str:
        head = f"is_{self.kind}({self.name!r})" if self.name else f"is_{self.kind}()"
        return head if self.args is None else f"{head}({_listed(self.args)})"


@dataclass(eq=False, repr=False)
class TuplePattern(Pattern):
    fields: tuple[Pattern, ...]

    def __post_init__(self) -> None:
        super().__init__()

    @property
    def parts(self) -> tuple[Pattern, ...]:
        return self.fields

    def __repr__(self) -> str:
        return f"is_tuple([{_listed(self.fields)}])"


@dataclass(eq=False, repr=False)
class TupleGetItemPattern(Pattern):
    whole: Pattern
    index: int | None = None

    def __post_init__(self) -> None:
        super().__init__()

    @property
    def parts(self) -> tuple[Pattern, ...]:
        return (self.whole,)

    def __repr__(self) -> str:
        return f"is_tuple_get_item({self.whole!r}, {self.index!r})"


# -- combinations ----------------------------------------------------------------------------------
@dataclass(eq=False, repr=False)
class Either(Pattern):
    choices: tuple[Pattern, ...]

    def __post_init__(self) -> None:
        super().__init__()

    @property
    def parts(self) -> tuple[Pattern, ...]:
        return self.choices

    def __repr__(self) -> str:
        return "(" + " | ".join(map(repr, self.choices)) + ")"


@dataclass(eq=False, repr=False)
class Both(Pattern):
    a: Pattern
    b: Pattern

    def __post_init__(self) -> None:
        super().__init__()

    @property
    def parts(self) -> tuple[Pattern, ...]:
        return (self.a, self.b)

    def __repr__(self) -> str:
        return f"({self.a!r} & {self.b!r})"


@dataclass(eq=False, repr=False)
class Not(Pattern):
    """What is inside of it is never in a match."""

    a: Pattern

    def __post_init__(self) -> None:
        super().__init__()

    @property
    def parts(self) -> tuple[Pattern, ...]:
        return (self.a,)

    def __repr__(self) -> str:
        return f"~{self.a!r}"


@dataclass(eq=False, repr=False)
class Dominated(Pattern):
    parent: Pattern
    path: Pattern
    end: Pattern

    def __post_init__(self) -> None:
        super().__init__()

    @property
    def parts(self) -> tuple[Pattern, ...]:
        return (self.parent, self.path, self.end)

    def __repr__(self) -> str:
        return f"{self.parent!r}.dominates({self.path!r}, {self.end!r})"


# -- constraints -----------------------------------------------------------------------------------
@dataclass(eq=False, repr=False)
class Constrained(Pattern):
    """A pattern and a condition; it is in a match under its own name and under the pattern's."""

    pattern: Pattern

    def __post_init__(self) -> None:
        super().__init__()

    @property
    def parts(self) -> tuple[Pattern, ...]:
        return (self.pattern,)

    def __call__(self, *args: Pattern | EllipsisType) -> Pattern:
        raise PatternError(
            f"{self!r}: operands come before constraints, as in "
            "is_op('softmax')(x).has_attr(axis=-1)."
        )


@dataclass(eq=False, repr=False)
class WithDType(Constrained):
    dtype: DType

    def __repr__(self) -> str:
        return f"{self.pattern!r}.has_dtype({str(self.dtype)!r})"


@dataclass(eq=False, repr=False)
class WithShape(Constrained):
    shape: tuple[Expr | None, ...]

    def __repr__(self) -> str:
        return f"{self.pattern!r}.has_shape({_sizes(self.shape)})"


@dataclass(eq=False, repr=False)
class WithType(Constrained):
    type: Type

    def __repr__(self) -> str:
        return f"{self.pattern!r}.has_type(...)"


@dataclass(eq=False, repr=False)
class WithAttrs(Constrained):
    attrs: tuple[tuple[str, Any], ...]

    def __repr__(self) -> str:
        return f"{self.pattern!r}.has_attr({dict(self.attrs)!r})"


class UsedOnce(Constrained):
    """A value that is read at one place."""

    def __repr__(self) -> str:
        return f"{self.pattern!r}.used_once()"


@dataclass(eq=False, repr=False)
class Where(Constrained):
    condition: Condition

    def __repr__(self) -> str:
        return f"{self.pattern!r}.where(...)"


# -- how they are written --------------------------------------------------------------------------
def wildcard() -> Pattern:
    """Any value: a variable, a constant, a shape."""
    return Wildcard()


def is_op(name: str) -> CallPattern:
    """A call of an operator. ``is_op("linear")`` has any operands, ``is_op("linear")(x, w)`` these
    two, ``is_op("linear")(x, w, ...)`` these and perhaps others.

    Raises PatternError for a name that is no operator.
    """
    name = name.removeprefix("relax.").removeprefix("nn.")
    table = all_ops()
    if name not in table:
        raise PatternError(f"is_op: there is no operator {name!r}.{nearest(name, table)}")
    return CallPattern(table[name])


def is_const(value: float | None = None) -> Pattern:
    """A constant, a weight for instance; with a ``value``, one that holds this number alone."""
    return ConstantPattern(value)


def is_var(name: str = "") -> Pattern:
    """A variable (of this name), whatever it is bound to."""
    return VarPattern(name)


def is_param(name: str = "") -> Pattern:
    """A parameter of the function (of this name)."""
    return VarPattern(name, is_parameter=True)


def is_shape(shape: Sequence[int | Expr | None] | None = None) -> Pattern:
    """A shape among operands: any, or this one, None for any size."""
    if shape is None:
        return ShapePattern()
    return ShapePattern(tuple([None if d is None else as_expr(d) for d in shape]))


def is_call_dps(name: str = "", args: Sequence[Pattern] | None = None) -> CallDPSPattern:
    """A ``call_dps`` of a PrimFunc of the module (of this name), with these operands."""
    return CallDPSPattern("call_dps", name, None if args is None else _operands(args, "call_dps"))


def is_call_dps_packed(name: str = "", args: Sequence[Pattern] | None = None) -> CallDPSPattern:
    """A ``call_dps_packed`` of a function of the environment (of this name)."""
    given = None if args is None else _operands(args, "call_dps_packed")
    return CallDPSPattern("call_dps_packed", name, given)


def is_call_function(name: str = "", args: Sequence[Pattern] | None = None) -> CallDPSPattern:
    """A call of a graph function of the module (of this name)."""
    given = None if args is None else _operands(args, "call_function")
    return CallDPSPattern("call_function", name, given)


def is_tuple(fields: Sequence[Pattern]) -> Pattern:
    """A tuple of these."""
    return TuplePattern(tuple([as_pattern(f, "is_tuple") for f in fields]))


def is_tuple_get_item(whole: Pattern, index: int | None = None) -> Pattern:
    """A field of a tuple: number ``index``, or any."""
    return TupleGetItemPattern(as_pattern(whole, "is_tuple_get_item"), index)


# -- the open context ------------------------------------------------------------------------------
class Recorder:
    """What an open PatternContext is told of: patterns that are made, and who reads whom."""

    def made(self, pattern: Pattern) -> None:
        """A pattern was made while this one is open."""

    def replaced(self, pattern: Pattern) -> None:
        """A pattern was but the beginning of another: ``is_op("relu")`` of ``is_op("relu")(x)``."""

    def edge(self, producer: Pattern, user: Pattern, index: int | None, *, only: bool) -> None:
        """``user`` reads ``producer``."""


_open: list[Recorder] = []
"""The contexts that are open, the innermost last."""


def open_recorder(recorder: Recorder) -> None:
    _open.append(recorder)


def close_recorder() -> None:
    _open.pop()


def note_made(pattern: Pattern) -> None:
    if _open:
        _open[-1].made(pattern)


def note_replaced(pattern: Pattern) -> None:
    if _open:
        _open[-1].replaced(pattern)


def add_edge(producer: Pattern, user: Pattern, index: int | None, *, only: bool) -> None:
    """Tell the open context of a reader. Raises PatternError where none is open."""
    if not _open:
        raise PatternError(
            f"{producer!r} is said to be used by {user!r} outside of a PatternContext; write it "
            "in: with PatternContext() as ctx:"
        )
    _open[-1].edge(producer, user, index, only=only)


# -- checks ----------------------------------------------------------------------------------------
def as_pattern(found: object, where: str) -> Pattern:
    """``found``, if it is a pattern. Raises PatternError."""
    if isinstance(found, Pattern):
        return found
    hint = "; is_const(2.0) is a constant of one number" if isinstance(found, (int, float)) else ""
    raise PatternError(
        f"{where}: expected a pattern, as wildcard() makes one; found {found!r}{hint}."
    )


def _operands(args: Sequence[object], where: str) -> Operands:
    if Ellipsis in args[:-1]:
        raise PatternError(f"{where}: ... stands behind the last operand, for any others.")
    return tuple([Ellipsis if a is Ellipsis else as_pattern(a, where) for a in args])


def _check_arity(op: Op, args: Operands) -> None:
    count = len(_patterns(args))
    least, most = len(op.params) - op.optional, len(op.params)
    if op.variadic or ((least <= count or len(args) > count) and count <= most):
        return
    expected = str(most) if least == most else f"{least} to {most}"
    raise PatternError(
        f"is_op({op.name!r}) takes {expected} operands ({', '.join(op.params)}); found {count}."
    )


def _check_attributes(pattern: Pattern, wanted: Mapping[str, Any]) -> None:
    """An attribute that no operator of the pattern has is a mistake in its name."""
    ops = [p.op for p in _alternatives(pattern) if isinstance(p, CallPattern)]
    for key in wanted:
        if ops and not any(key in op.attrs for op in ops):
            names, known = ", ".join([op.name for op in ops]), [k for op in ops for k in op.attrs]
            raise PatternError(
                f"has_attr: {names} has no attribute {key!r}; "
                f"there are {', '.join(known) or 'none'}.{nearest(key, known)}"
            )


def _alternatives(pattern: Pattern) -> tuple[Pattern, ...]:
    """The patterns of which one is the value's own, below alternatives and constraints."""
    if isinstance(pattern, (Either, Constrained)):
        return tuple([inner for part in pattern.parts for inner in _alternatives(part)])
    return (pattern,)


def _patterns(args: Operands | None) -> tuple[Pattern, ...]:
    return tuple([a for a in args or () if isinstance(a, Pattern)])


def _listed(items: Sequence[object]) -> str:
    return ", ".join(["..." if i is Ellipsis else repr(i) for i in items])


def _sizes(shape: Sequence[Expr | None]) -> str:
    return "[" + ", ".join([repr(d) for d in shape]) + "]"


def head_ops(pattern: Pattern) -> frozenset[str] | None:
    """The operators whose calls a pattern can match; None where it may be anything."""
    match pattern:
        case CallPattern():
            return frozenset([pattern.op.name])
        case Constrained():
            return head_ops(pattern.pattern)
        case Either():
            found = [head_ops(choice) for choice in pattern.choices]
            known = [ops for ops in found if ops is not None]
            return frozenset().union(*known) if len(known) == len(found) else None
        case Both():
            a, b = head_ops(pattern.a), head_ops(pattern.b)
            return b if a is None else a if b is None else a & b
    return None


def parts_of(pattern: Pattern) -> set[Pattern]:
    """A pattern and all that it is made of."""
    found: set[Pattern] = set()
    stack = [pattern]
    while stack:
        top = stack.pop()
        if top not in found:
            found.add(top)
            stack += top.parts
    return found


def leaves(pattern: Pattern) -> list[Pattern]:
    """The patterns that values come in by, each once, in order: wildcards, constants, variables,
    also below constraints."""
    found: dict[Pattern, None] = {}
    seen: set[Pattern] = set()
    stack = [pattern]
    while stack:
        top = stack.pop()
        if top in seen:
            continue
        seen.add(top)
        inner = top
        while isinstance(inner, Constrained):
            inner = inner.pattern
        if isinstance(inner, (Wildcard, ConstantPattern, VarPattern)):
            found.setdefault(top)
        elif not isinstance(inner, Not):
            stack += reversed(inner.parts)
    return list(found)


__all__ = [
    "Atom", "Pattern", "PatternError", "is_call_dps", "is_call_dps_packed", "is_call_function",
    "is_const", "is_op", "is_param", "is_shape", "is_tuple", "is_tuple_get_item", "is_var",
    "wildcard",
]  # fmt: skip
