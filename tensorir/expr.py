"""Expressions of tensorir, and the semantics contract of the whole IR.

Semantics
---------
* **Indices** are int64 and printed bare. Code generation narrows where bounds prove it.
* **Integer overflow** of int64 index arithmetic is undefined; other integers wrap.
* **Division**: ``Div`` is true division of floats and truncating division of integers; ``FloorDiv``
  and ``FloorMod`` round towards minus infinity. Of integers a quotient by zero is the dividend and
  a remainder 0, and the least integer divided by -1 is itself, remainder 0: nothing stops the
  process. (Indices are simplified as if neither came.) Float division by zero gives infinities and
  NaN.
* **Floats** are IEEE 754: neither contracted nor reassociated, with two exceptions, both stated in
  the IR: ``Call("fma", ...)``, and the update of a reduction block, whose terms may be summed in
  the order its schedule gives and whose product may be contracted into the sum. NaN and infinity
  are always honoured.
* ``Max`` and ``Min`` propagate NaN. Casting a float to an integer saturates, NaN becomes 0.
* **Literals**: a bare number takes the dtype of the other operand, or of the store it stands in.
* **Evaluation order**: expressions have no side effects, but for an ``ExternCall`` in an
  ``Evaluate``, so none is observable; ``Select`` evaluates both sides,
  ``Call("if_then_else", ...)`` only the chosen one (a guarded load never happens), and
  ``And``/``Or`` may evaluate both.
* **Foreign code**: an ``ExternCall`` of an expression gives a value of its arguments and of the
  memory that its pointers lead to, which it does not change: it may be called more or less often
  than the program says. As an ``Evaluate`` it runs each time, in its place among the statements
  that touch the same buffers. It touches nothing of the program but what the innermost block around
  it declares to read and write (outside of all blocks, all of the buffer). It writes through
  pointers of mask "w" and "rw" alone: all that the block declares, where the mask is "w", so that
  nothing of what was there before matters. What it does to the world outside is its own affair:
  calls in different blocks, and in iterations of loops that do not depend on each other, may come
  in any order, or at once.
* **Aliasing**: distinct buffers of a function do not overlap, unless the function has the attribute
  ``inplace``.

Nodes compare by identity; ``support.structural`` compares meaning. Of expressions ``a == b`` is an
``Equality``: as an expression it is the comparison, as a condition of Python it holds for one and
the same node and for equal constants.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeAlias

from ..support.dtype import DType
from ..support.errors import DTypeError, InternalError
from ..support.node import Node, node, walk

if TYPE_CHECKING:
    from .buffer import Buffer

INDEX = DType("int64")
BOOL = DType("bool")
FLOAT32 = DType("float32")

ExprLike: TypeAlias = "Expr | Equality | int | float | bool"


_NO_TRUTH = (
    "An expression of the IR has no truth value while the program is being built; use "
    "T.if_then_else, T.Select or T.where. (Schedule.get tells what was sampled.)"
)
DEFINED_AXES: ContextVar[frozenset[int]] = ContextVar("defined_axes", default=frozenset())
"""The axes, by their id, of the definition whose function runs now."""


class Expr(Node):
    """A value of some dtype, perhaps a vector. Python operators build expressions."""

    __slots__ = ()
    dtype: DType

    def __add__(self, other: ExprLike) -> Expr:
        return add(self, other)

    def __radd__(self, other: ExprLike) -> Expr:
        return add(other, self)

    def __sub__(self, other: ExprLike) -> Expr:
        return sub(self, other)

    def __rsub__(self, other: ExprLike) -> Expr:
        return sub(other, self)

    def __mul__(self, other: ExprLike) -> Expr:
        return mul(self, other)

    def __rmul__(self, other: ExprLike) -> Expr:
        return mul(other, self)

    def __truediv__(self, other: ExprLike) -> Expr:
        return quotient(self, other)

    def __rtruediv__(self, other: ExprLike) -> Expr:
        return quotient(other, self)

    def __floordiv__(self, other: ExprLike) -> Expr:
        return floordiv(self, other)

    def __rfloordiv__(self, other: ExprLike) -> Expr:
        return floordiv(other, self)

    def __mod__(self, other: ExprLike) -> Expr:
        return floormod(self, other)

    def __rmod__(self, other: ExprLike) -> Expr:
        return floormod(other, self)

    def __neg__(self) -> Expr:
        return neg(self)

    def __lt__(self, other: ExprLike) -> Expr:
        return LT(*paired(self, other))

    def __le__(self, other: ExprLike) -> Expr:
        return LE(*paired(self, other))

    def __gt__(self, other: ExprLike) -> Expr:
        return GT(*paired(self, other))

    def __ge__(self, other: ExprLike) -> Expr:
        return GE(*paired(self, other))

    def __eq__(self, other: object) -> Any:
        return Equality(self, other, is_equal=True)

    def __ne__(self, other: object) -> Any:
        return Equality(self, other, is_equal=False)

    __hash__ = object.__hash__

    def equal(self, other: ExprLike) -> Expr:
        """``self == other`` as an expression and nothing else."""
        return EQ(*paired(self, other))

    def not_equal(self, other: ExprLike) -> Expr:
        return NE(*paired(self, other))

    def astype(self, dtype: str) -> Expr:
        """The value converted to another dtype."""
        return cast(self, dtype)

    def __bool__(self) -> bool:
        raise TypeError(_NO_TRUTH)


class Equality:
    """What ``a == b`` and ``a != b`` give: a comparison that is not yet decided to be one of the
    program (``te.if_then_else(i == 0, ...)``) or of Python (``A.shape[1] == 128``)."""

    __slots__ = ("a", "b", "is_equal")

    def __init__(self, a: Expr, b: object, *, is_equal: bool) -> None:
        self.a, self.b, self.is_equal = a, b, is_equal

    def __bool__(self) -> bool:
        """Whether both are one node, or constants of one value. Raises TypeError where an axis of
        the definition that is being made is compared with a number: it has every value."""
        a, b = self.a, self.b
        if a is b:
            return self.is_equal
        if type(a) is IntImm or type(a) is FloatImm:
            other = b.value if isinstance(b, (IntImm, FloatImm)) else b
            if isinstance(other, (int, float)):
                return bool(a.value == other) is self.is_equal
        axes = DEFINED_AXES.get()
        if axes and isinstance(b, (int, float, IntImm, FloatImm)) and axes & set(map(id, walk(a))):
            raise TypeError(_NO_TRUTH)
        return not self.is_equal

    def as_expr(self) -> Expr:
        """The comparison as an expression. Raises DTypeError where one side is no value."""
        if not isinstance(self.b, (Expr, Equality, int, float)):
            raise DTypeError(
                type(self.b).__name__, ("an expression", "int", "float", "bool"), what="a value"
            )
        other = self.b.as_expr() if isinstance(self.b, Equality) else self.b
        return (EQ if self.is_equal else NE)(*paired(self.a, other))

    def astype(self, dtype: str) -> Expr:
        """The comparison's value converted to another dtype."""
        return cast(self.as_expr(), dtype)

    def __repr__(self) -> str:
        return f"{self.a!r} {'==' if self.is_equal else '!='} {self.b!r}"


@node
class Var(Expr):
    """A scalar binder: a loop variable, an iter var, a let, a symbolic dimension. Bound once."""

    name: str
    dtype: DType = INDEX

    def __repr__(self) -> str:
        return self.name


@node
class IntImm(Expr):
    """An integer or boolean constant."""

    value: int
    dtype: DType = INDEX


@node
class FloatImm(Expr):
    """A float constant; ``value`` is a Python float, possibly infinite or NaN."""

    value: float
    dtype: DType = FLOAT32


@node
class StringImm(Expr):
    """A string argument of a ``Call``; never a run-time value."""

    value: str
    dtype: DType = DType("handle")


@node
class Cast(Expr):
    """Conversion to ``dtype`` (same lanes); float to integer saturates."""

    dtype: DType
    value: Expr


class BinaryOp(Expr):
    """Two operands of one dtype, and a result of that dtype."""

    __slots__ = ()
    a: Expr
    b: Expr

    if TYPE_CHECKING:

        def __init__(self, a: Expr, b: Expr) -> None: ...


@node
class Add(BinaryOp):
    a: Expr
    b: Expr
    dtype: DType = field(init=False)

    def __post_init__(self) -> None:
        self.dtype = _same_dtype("Add", self.a, self.b)


@node
class Sub(BinaryOp):
    a: Expr
    b: Expr
    dtype: DType = field(init=False)

    def __post_init__(self) -> None:
        self.dtype = _same_dtype("Sub", self.a, self.b)


@node
class Mul(BinaryOp):
    a: Expr
    b: Expr
    dtype: DType = field(init=False)

    def __post_init__(self) -> None:
        self.dtype = _same_dtype("Mul", self.a, self.b)


@node
class Div(BinaryOp):
    """True division of floats; truncating division of integers."""

    a: Expr
    b: Expr
    dtype: DType = field(init=False)

    def __post_init__(self) -> None:
        self.dtype = _same_dtype("Div", self.a, self.b)


@node
class FloorDiv(BinaryOp):
    a: Expr
    b: Expr
    dtype: DType = field(init=False)

    def __post_init__(self) -> None:
        self.dtype = _same_dtype("FloorDiv", self.a, self.b)


@node
class FloorMod(BinaryOp):
    a: Expr
    b: Expr
    dtype: DType = field(init=False)

    def __post_init__(self) -> None:
        self.dtype = _same_dtype("FloorMod", self.a, self.b)


@node
class Min(BinaryOp):
    """The smaller; NaN if either is NaN."""

    a: Expr
    b: Expr
    dtype: DType = field(init=False)

    def __post_init__(self) -> None:
        self.dtype = _same_dtype("Min", self.a, self.b)


@node
class Max(BinaryOp):
    """The larger; NaN if either is NaN."""

    a: Expr
    b: Expr
    dtype: DType = field(init=False)

    def __post_init__(self) -> None:
        self.dtype = _same_dtype("Max", self.a, self.b)


class CompareOp(Expr):
    """A comparison of two operands of one dtype; bool, with their lanes. Ordered: false on NaN
    (NE: true)."""

    __slots__ = ()
    a: Expr
    b: Expr

    if TYPE_CHECKING:

        def __init__(self, a: Expr, b: Expr) -> None: ...


@node
class EQ(CompareOp):
    a: Expr
    b: Expr
    dtype: DType = field(init=False)

    def __post_init__(self) -> None:
        self.dtype = BOOL.with_lanes(_same_dtype("EQ", self.a, self.b).lanes)


@node
class NE(CompareOp):
    a: Expr
    b: Expr
    dtype: DType = field(init=False)

    def __post_init__(self) -> None:
        self.dtype = BOOL.with_lanes(_same_dtype("NE", self.a, self.b).lanes)


@node
class LT(CompareOp):
    a: Expr
    b: Expr
    dtype: DType = field(init=False)

    def __post_init__(self) -> None:
        self.dtype = BOOL.with_lanes(_same_dtype("LT", self.a, self.b).lanes)


@node
class LE(CompareOp):
    a: Expr
    b: Expr
    dtype: DType = field(init=False)

    def __post_init__(self) -> None:
        self.dtype = BOOL.with_lanes(_same_dtype("LE", self.a, self.b).lanes)


@node
class GT(CompareOp):
    a: Expr
    b: Expr
    dtype: DType = field(init=False)

    def __post_init__(self) -> None:
        self.dtype = BOOL.with_lanes(_same_dtype("GT", self.a, self.b).lanes)


@node
class GE(CompareOp):
    a: Expr
    b: Expr
    dtype: DType = field(init=False)

    def __post_init__(self) -> None:
        self.dtype = BOOL.with_lanes(_same_dtype("GE", self.a, self.b).lanes)


@node
class And(Expr):
    """Logical and of bools; either side may be evaluated."""

    a: Expr
    b: Expr
    dtype: DType = field(init=False)

    def __post_init__(self) -> None:
        self.dtype = _same_dtype("And", self.a, self.b)


@node
class Or(Expr):
    a: Expr
    b: Expr
    dtype: DType = field(init=False)

    def __post_init__(self) -> None:
        self.dtype = _same_dtype("Or", self.a, self.b)


@node
class Not(Expr):
    a: Expr
    dtype: DType = field(init=False)

    def __post_init__(self) -> None:
        self.dtype = self.a.dtype


@node
class Select(Expr):
    """``true_value`` where ``condition``, else ``false_value``; both are evaluated."""

    condition: Expr
    true_value: Expr
    false_value: Expr
    dtype: DType = field(init=False)

    def __post_init__(self) -> None:
        self.dtype = _same_dtype("Select", self.true_value, self.false_value)


@node
class BufferLoad(Expr):
    """An element of a buffer; with one vector index (after lowering), a vector of elements.

    ``predicate`` (after lowering only) is a bool vector: lanes where it is false are not read and
    give zero.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    predicate: Expr | None = None
    dtype: DType = field(init=False)

    def __post_init__(self) -> None:
        lanes = self.indices[-1].dtype.lanes if self.indices else 1
        self.dtype = self.buffer.dtype.with_lanes(lanes)


@node
class Ramp(Expr):
    """The vector ``base, base + stride, ...`` of ``lanes`` elements. Appears with vectorisation."""

    base: Expr
    stride: Expr
    lanes: int
    dtype: DType = field(init=False)

    def __post_init__(self) -> None:
        self.dtype = self.base.dtype.with_lanes(self.lanes)


@node
class Broadcast(Expr):
    """A scalar repeated in ``lanes`` lanes. Appears with vectorisation."""

    value: Expr
    lanes: int
    dtype: DType = field(init=False)

    def __post_init__(self) -> None:
        self.dtype = self.value.dtype.with_lanes(self.lanes)


@node
class Call(Expr):
    """An intrinsic of ``tensorir.intrinsics`` applied to arguments: exp, tanh, fma, if_then_else
    ..."""

    op: str
    args: tuple[Expr, ...]
    dtype: DType


@node
class ExternCall(Expr):
    """A function that is not the compiler's, called with C's convention under its ``symbol``.

    ``args`` are scalars, strings and ``AccessPtr``s. ``dtype`` is what it gives; ``handle`` where
    it gives nothing. Integers are passed as they are, int64 for a bare number, which an ``int``
    takes as well.
    """

    symbol: str
    args: tuple[Expr, ...]
    dtype: DType


@node
class AccessPtr(Expr):
    """The address of ``element``, and of ``offset`` elements behind it, as an argument of an
    ``ExternCall``.

    ``mask`` says what the function does there: it reads ("r"), writes ("w"), or both ("rw"). The
    load is a place, never a value: the function reads and writes what the block around declares.
    Between lowering's first steps ``extents`` is the box from there on that it keeps to, where that
    is known and its layout told.
    """

    element: BufferLoad
    offset: Expr
    mask: str
    extents: tuple[Expr, ...] = ()
    dtype: DType = field(init=False)

    def __post_init__(self) -> None:
        self.dtype = DType("handle")

    @property
    def buffer(self) -> Buffer:
        return self.element.buffer

    @property
    def is_written(self) -> bool:
        return "w" in self.mask


@node
class BufferStride(Expr):
    """The stride of a buffer along an axis, which lowering knows when the buffer has its place:
    what variables of a match_buffer's strides become."""

    buffer: Buffer
    axis: int
    dtype: DType = field(init=False)

    def __post_init__(self) -> None:
        self.dtype = INDEX


@node
class Let(Expr):
    """``body`` with ``var`` bound to ``value``."""

    var: Var
    value: Expr
    body: Expr
    dtype: DType = field(init=False)

    def __post_init__(self) -> None:
        self.dtype = self.body.dtype


@node
class Reduce(Expr):
    """A reduction over ``axes``, only as the outermost expression of a compute definition.

    ``combiner`` is one of sum, prod, max, min; ``identity`` its neutral element. ``compute`` turns
    it into a block with an init and an update; it never appears in a PrimFunc.
    """

    combiner: str
    source: Expr
    axes: tuple[Any, ...]
    identity: Expr
    dtype: DType = field(init=False)

    def __post_init__(self) -> None:
        self.dtype = self.source.dtype


def _same_dtype(op: str, a: Expr, b: Expr) -> DType:
    if a.dtype is not b.dtype:
        raise DTypeError(
            f"{a.dtype} and {b.dtype}",
            ("two operands of one dtype (convert one with T.Cast or .astype)",),
            what=f"for {op}",
        )
    return a.dtype


# -- construction with literal conversion and constant folding ------------------------------------
def const(value: float | bool, dtype: str = INDEX) -> Expr:
    """A constant of ``dtype``; for vector dtypes a Broadcast of one."""
    dtype = DType(dtype)
    if dtype.lanes > 1:
        return Broadcast(const(value, dtype.scalar), dtype.lanes)
    if dtype.kind == "float":
        return FloatImm(float(value), dtype)
    if dtype.kind == "bool":
        return IntImm(int(bool(value)), dtype)
    if isinstance(value, float) and not value.is_integer():
        raise DTypeError(repr(value), ("an integer literal",), what=f"for {dtype}")
    least, most = int_limits(dtype)
    if not least <= value <= most:
        raise DTypeError(repr(value), (f"an integer from {least} to {most}",), what=f"for {dtype}")
    return IntImm(int(value), dtype)


def as_expr(value: ExprLike, dtype: str | None = None) -> Expr:
    """``value`` as an expression; a Python number becomes a constant of ``dtype`` (by default
    int64, float32 or bool after its Python type)."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, Equality):
        return value.as_expr()
    if dtype is not None:
        return const(value, dtype)
    if isinstance(value, bool):
        return IntImm(int(value), BOOL)
    if isinstance(value, int):
        return IntImm(value, INDEX)
    if isinstance(value, float):
        return FloatImm(value, FLOAT32)
    if hasattr(value, "__index__"):
        return IntImm(value.__index__(), INDEX)
    raise DTypeError(
        type(value).__name__, ("an expression", "int", "float", "bool"), what="a value"
    )


def paired(a: ExprLike, b: ExprLike) -> tuple[Expr, Expr]:
    """Both as expressions of one dtype and lane count: literals take the other's dtype, scalars the
    other's lanes, int32 widens to int64 (indices), and an integer becomes a float beside one."""
    if isinstance(a, Equality):
        a = a.as_expr()
    if isinstance(b, Equality):
        b = b.as_expr()
    if not isinstance(a, Expr):
        b = as_expr(b)
        a = const(a, b.dtype) if not (isinstance(a, float) and not b.dtype.is_float) else as_expr(a)
    elif not isinstance(b, Expr):
        b = const(b, a.dtype) if not (isinstance(b, float) and not a.dtype.is_float) else as_expr(b)
    if a.dtype is b.dtype:
        return a, b
    if a.dtype.lanes != b.dtype.lanes:
        if a.dtype.lanes == 1:
            a = Broadcast(a, b.dtype.lanes)
        elif b.dtype.lanes == 1:
            b = Broadcast(b, a.dtype.lanes)
    return _of_one_kind(a, b)


def _of_one_kind(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """An int32 beside an int64 as one of these, and an integer beside a float as a float."""
    sa, sb = a.dtype.scalar, b.dtype.scalar
    if sa is not sb and {sa, sb} == {DType("int32"), INDEX}:
        return cast(a, INDEX.with_lanes(a.dtype.lanes)), cast(b, INDEX.with_lanes(b.dtype.lanes))
    if sa.is_float and sb.is_integer:
        return a, cast(b, sa.with_lanes(b.dtype.lanes))
    if sa.is_integer and sb.is_float:
        return cast(a, sb.with_lanes(a.dtype.lanes)), b
    return a, b


def is_const(e: Expr, value: float | None = None) -> bool:
    """Whether ``e`` is a scalar constant (with this value, if one is given)."""
    if type(e) is IntImm or type(e) is FloatImm:
        return value is None or e.value == value
    return False


def add(a: ExprLike, b: ExprLike) -> Expr:
    """``a + b``; integer constants are folded, and zeros dropped."""
    a, b = paired(a, b)
    if not a.dtype.is_float:
        if type(b) is IntImm:
            if type(a) is IntImm:
                return IntImm(a.value + b.value, a.dtype)
            if b.value == 0:
                return a
        elif type(a) is IntImm and a.value == 0:
            return b
    return Add(a, b)


def sub(a: ExprLike, b: ExprLike) -> Expr:
    a, b = paired(a, b)
    if not a.dtype.is_float and type(b) is IntImm:
        if type(a) is IntImm:
            return IntImm(a.value - b.value, a.dtype)
        if b.value == 0:
            return a
    return Sub(a, b)


def mul(a: ExprLike, b: ExprLike) -> Expr:
    a, b = paired(a, b)
    if not a.dtype.is_float:
        for x, y in ((a, b), (b, a)):
            if type(y) is IntImm:
                if type(x) is IntImm:
                    return IntImm(x.value * y.value, x.dtype)
                if y.value == 1:
                    return x
                if y.value == 0:
                    return y
    return Mul(a, b)


def div(a: ExprLike, b: ExprLike) -> Expr:
    """True division: of floats exactly, of integers truncating (as in C)."""
    a, b = paired(a, b)
    return Div(a, b)


def quotient(a: ExprLike, b: ExprLike, words: str = "te") -> Expr:
    """What ``a / b`` is, where one of them is a float. Raises DTypeError for two integers, whose
    quotient may be one of three; ``words`` is where their names are (te or T)."""
    a, b = paired(a, b)
    if a.dtype.scalar.is_integer and b.dtype.scalar.is_integer:
        cast_of_a = 'T.Cast("float32", a)' if words == "T" else 'te.cast(a, "float32")'
        raise DTypeError(
            f"{a.dtype} / {b.dtype}",
            (
                f"a // b, {words}.floordiv(a, b) (rounds down)",
                f"{words}.truncdiv(a, b) (towards zero)",
                f"{cast_of_a} / b (a float)",
            ),
            what="for the quotient of two integers",
        )
    return Div(a, b)


def floordiv(a: ExprLike, b: ExprLike) -> Expr:
    a, b = paired(a, b)
    if type(b) is IntImm and b.value != 0:
        if type(a) is IntImm:
            return IntImm(a.value // b.value, a.dtype)
        if b.value == 1:
            return a
    return FloorDiv(a, b)


def floormod(a: ExprLike, b: ExprLike) -> Expr:
    a, b = paired(a, b)
    if type(b) is IntImm and b.value != 0:
        if type(a) is IntImm:
            return IntImm(a.value % b.value, a.dtype)
        if b.value == 1:
            return IntImm(0, a.dtype)
    return FloorMod(a, b)


def neg(a: Expr) -> Expr:
    """``-a``; for floats the sign bit is flipped (``-0.0``, NaN)."""
    if a.dtype.is_float:
        if type(a) is FloatImm:
            return FloatImm(-a.value, a.dtype)
        return Call("neg", (a,), a.dtype)
    return sub(const(0, a.dtype), a)


def minimum(a: ExprLike, b: ExprLike) -> Expr:
    a, b = paired(a, b)
    if a is b:
        return a
    if type(a) is IntImm and type(b) is IntImm:
        return IntImm(min(a.value, b.value), a.dtype)
    return Min(a, b)


def maximum(a: ExprLike, b: ExprLike) -> Expr:
    a, b = paired(a, b)
    if a is b:
        return a
    if type(a) is IntImm and type(b) is IntImm:
        return IntImm(max(a.value, b.value), a.dtype)
    return Max(a, b)


def logical_and(a: ExprLike, b: ExprLike) -> Expr:
    a, b = as_expr(a), as_expr(b)
    if type(a) is IntImm:
        return b if a.value else a
    if type(b) is IntImm:
        return a if b.value else b
    return And(a, b)


def logical_or(a: ExprLike, b: ExprLike) -> Expr:
    a, b = as_expr(a), as_expr(b)
    if type(a) is IntImm:
        return a if a.value else b
    if type(b) is IntImm:
        return b if b.value else a
    return Or(a, b)


def logical_not(a: ExprLike) -> Expr:
    a = as_expr(a)
    if type(a) is IntImm:
        return IntImm(1 - a.value, BOOL)
    return Not(a)


def all_of(conditions: Sequence[Expr | Equality]) -> Expr:
    """The conjunction; true where there is none."""
    result: Expr = IntImm(1, BOOL)
    for c in conditions:
        result = logical_and(result, c)
    return result


def cast(value: Expr, dtype: str) -> Expr:
    """``value`` converted to ``dtype``; constants are folded, saturating into integers."""
    dtype = DType(dtype)
    if value.dtype is dtype:
        return value
    if type(value) is IntImm and dtype.lanes == 1:
        if dtype.is_integer:
            return IntImm(wrap_integer(value.value, dtype), dtype)
        return const(value.value, dtype)
    if type(value) is FloatImm and dtype in ("float64",):
        return FloatImm(value.value, dtype)
    return Cast(dtype, value)


def wrap_integer(value: int, dtype: DType) -> int:
    """``value`` modulo 2 ** bits, in the range of an integer ``dtype``."""
    if not dtype.is_integer:
        raise InternalError(f"wrap_integer of {dtype}")
    value &= (1 << dtype.bits) - 1
    if dtype.kind == "int" and value >> (dtype.bits - 1):
        value -= 1 << dtype.bits
    return value


def int_limits(dtype: DType) -> tuple[int, int]:
    """The least and the greatest integer of a dtype."""
    if dtype.kind == "int":
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    return 0, (1 << dtype.bits) - 1 if dtype.kind == "uint" else 1


def min_value(dtype: DType) -> Expr:
    """The identity of max: minus infinity, or the smallest integer."""
    if dtype.is_float:
        return FloatImm(-math.inf, dtype)
    return IntImm(int_limits(dtype)[0], dtype)


def max_value(dtype: DType) -> Expr:
    """The identity of min: infinity, or the largest integer."""
    if dtype.is_float:
        return FloatImm(math.inf, dtype)
    return IntImm(int_limits(dtype)[1], dtype)
