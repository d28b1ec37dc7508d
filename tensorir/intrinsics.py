"""The table of intrinsics: what a ``Call`` may name, and what it gives.

Each row says how many operands an intrinsic takes, of which kinds, what dtype comes out, and
whether it is pure. ``call_intrin`` is the one constructor that checks and converts; the printer,
the parser, the verifier, the simplifier and code generation all read the same table. ``Min`` and
``Max`` are nodes of their own and not here; nothing in this file says how an intrinsic is computed.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..support.dtype import DType
from ..support.errors import DTypeError
from .expr import BOOL, FLOAT32, BufferLoad, Call, Equality, Expr, ExprLike, as_expr, paired

_FLOAT = ("float",)
_INTEGER = ("int", "uint")
_BITS = ("int", "uint", "bool")
_NUMBER = ("float", "int", "uint")
_ANY = ("float", "int", "uint", "bool")


@dataclass(frozen=True)
class Intrinsic:
    """A row: ``kinds`` are the dtype kinds its operands may have; ``result`` is ``same`` (the
    operands' dtype), ``bool`` (with their lanes), ``given`` (the caller names it) or ``none`` (no
    value: it stands in an Evaluate). ``pure`` calls may be dropped, repeated and moved; those that
    are ``composed`` lowering writes with the others (``lowering.expand_intrinsics``). ``cost`` is
    about how many instructions one takes, by which schedules and cost models go.
    """

    name: str
    arity: int
    kinds: tuple[str, ...]
    doc: str
    result: str = "same"
    pure: bool = True
    composed: bool = False
    cost: int = 1


MANY = 8
"""Instructions from which on an intrinsic is costly: not to be written out often, or done twice."""

_ROWS = (
    # Elementary functions; accurate to a few units in the last place, special values as in C99.
    Intrinsic("exp", 1, _FLOAT, "e ** x", cost=14),
    Intrinsic("exp_negative", 1, _FLOAT, "e ** x for x of at most 0; not defined above", cost=10),
    Intrinsic("exp2", 1, _FLOAT, "2 ** x", cost=12),
    Intrinsic("expm1", 1, _FLOAT, "e ** x - 1, accurate near 0", cost=20),
    Intrinsic("log", 1, _FLOAT, "natural logarithm", cost=20),
    Intrinsic("log2", 1, _FLOAT, "logarithm to base 2", cost=20),
    Intrinsic("log10", 1, _FLOAT, "logarithm to base 10", cost=22),
    Intrinsic("log1p", 1, _FLOAT, "log(1 + x), accurate near 0", cost=24),
    Intrinsic("sqrt", 1, _FLOAT, "square root, correctly rounded", cost=4),
    Intrinsic("rsqrt", 1, _FLOAT, "1 / sqrt(x)", cost=8),
    Intrinsic("tanh", 1, _FLOAT, "hyperbolic tangent", cost=24),
    Intrinsic("sinh", 1, _FLOAT, "hyperbolic sine", cost=28),
    Intrinsic("cosh", 1, _FLOAT, "hyperbolic cosine", cost=24),
    Intrinsic("erf", 1, _FLOAT, "error function", cost=28),
    Intrinsic("erfc", 1, _FLOAT, "1 - erf(x), accurate where that is small", cost=40),
    Intrinsic("gelu", 1, _FLOAT, "x times the share of the normal distribution below x", cost=30),
    Intrinsic("sigmoid", 1, _FLOAT, "1 / (1 + exp(-x))", cost=18),
    Intrinsic("sin", 1, _FLOAT, "sine of radians", cost=24),
    Intrinsic("cos", 1, _FLOAT, "cosine of radians", cost=24),
    Intrinsic("tan", 1, _FLOAT, "tangent of radians", cost=36),
    Intrinsic("asin", 1, _FLOAT, "arc sine; NaN outside of [-1, 1]", cost=24),
    Intrinsic("acos", 1, _FLOAT, "arc cosine; NaN outside of [-1, 1]", cost=24),
    Intrinsic("atan", 1, _FLOAT, "arc tangent", cost=22),
    Intrinsic("pow", 2, _FLOAT, "a ** b", cost=50),
    Intrinsic("atan2", 2, _FLOAT, "arc tangent of a / b in the quadrant of (b, a)", cost=34),
    # Rounding and signs; exact.
    Intrinsic("floor", 1, _FLOAT, "largest integral value not above x"),
    Intrinsic("ceil", 1, _FLOAT, "smallest integral value not below x"),
    Intrinsic("round", 1, _FLOAT, "nearest integral value, halves to even"),
    Intrinsic("trunc", 1, _FLOAT, "x without its fraction"),
    Intrinsic("abs", 1, _NUMBER, "absolute value; of the smallest integer, itself"),
    Intrinsic("neg", 1, _FLOAT, "x with the other sign, zeros and NaN included"),
    Intrinsic("copysign", 2, _FLOAT, "a with the sign of b", cost=3),
    Intrinsic("fmod", 2, _FLOAT, "remainder of a / b truncated, with the sign of a", cost=40),
    Intrinsic("isnan", 1, _FLOAT, "whether x is NaN", result="bool"),
    Intrinsic("isinf", 1, _FLOAT, "whether x is plus or minus infinity", result="bool", cost=2),
    Intrinsic(
        "isfinite", 1, _FLOAT, "whether x is neither infinite nor NaN", result="bool", cost=2
    ),
    # Elementary functions of which there is no code of its own.
    Intrinsic("exp10", 1, _FLOAT, "10 ** x", composed=True, cost=16),
    Intrinsic("asinh", 1, _FLOAT, "inverse hyperbolic sine", composed=True, cost=40),
    Intrinsic("acosh", 1, _FLOAT, "inverse hyperbolic cosine; NaN below 1", composed=True, cost=40),
    Intrinsic("atanh", 1, _FLOAT, "inverse hyperbolic tangent", composed=True, cost=36),
    Intrinsic(
        "hypot", 2, _FLOAT, "sqrt(a * a + b * b), without overflow between", composed=True, cost=12
    ),
    # Three operands.
    Intrinsic("fma", 3, _FLOAT, "a * b + c, contracted: rounded once where the target has fma"),
    Intrinsic("if_then_else", 3, _ANY, "b if a else c; only the chosen one is evaluated"),
    Intrinsic(
        "dot4_u8i8",
        9,
        _INTEGER,
        "a + b0 * c0 + ... + b3 * c3, int32 from four uint8 and four int8; a + b + c in this order",
    ),
    Intrinsic("dot4_i8i8", 9, _INTEGER, "the same from four int8 and four int8"),
    Intrinsic("dot4_u8u8", 9, _INTEGER, "the same from four uint8 and four uint8"),
    Intrinsic(
        "dot2_bf16",
        5,
        _FLOAT,
        "a + b0 * c0 + b1 * c1, float32 from two bfloat16 and two bfloat16; the order, the number "
        "of roundings and what becomes of subnormal numbers are the CPU's",
    ),
    Intrinsic(
        "dot2_i16", 5, _INTEGER, "a + b0 * c0 + b1 * c1, int32 from two int16 and two int16; wraps"
    ),
    # Bits.
    Intrinsic("popcount", 1, _INTEGER, "number of set bits", cost=4),
    Intrinsic("clz", 1, _INTEGER, "number of leading zero bits; the width for 0", cost=4),
    Intrinsic("bitwise_and", 2, _BITS, "a & b"),
    Intrinsic("bitwise_or", 2, _BITS, "a | b"),
    Intrinsic("bitwise_xor", 2, _BITS, "a ^ b"),
    Intrinsic("bitwise_not", 1, _BITS, "~a"),
    Intrinsic("shift_left", 2, _INTEGER, "a << b; undefined where b is not in [0, bits)"),
    Intrinsic("shift_right", 2, _INTEGER, "a >> b, arithmetic for signed integers"),
    Intrinsic(
        "reinterpret", 1, _ANY, "the bits of a as another dtype of the same width", result="given"
    ),
    # Hints.
    Intrinsic("likely", 1, ("bool",), "a, which the program expects to hold"),
    Intrinsic(
        "prefetch",
        1,
        _ANY,
        "asks for the cache line of a buffer's element",
        result="none",
        pure=False,
    ),
    Intrinsic(
        "prefetch_l2",
        1,
        _ANY,
        "asks for the cache line of a buffer's element, to stand in the second-level cache",
        result="none",
        pure=False,
    ),
)

DOTS = {
    "dot4_u8i8": ("int32", "uint8", "int8", 4),
    "dot4_i8i8": ("int32", "int8", "int8", 4),
    "dot4_u8u8": ("int32", "uint8", "uint8", 4),
    "dot2_bf16": ("float32", "bfloat16", "bfloat16", 2),
    "dot2_i16": ("int32", "int16", "int16", 2),
}
"""The dot products of narrow elements: the dtypes of the sum and of the two operands, and how many
elements these have."""

INTRINSICS: dict[str, Intrinsic] = {row.name: row for row in _ROWS}
"""Every intrinsic by name."""

UNARY_FLOAT = tuple(
    [
        r.name
        for r in _ROWS
        if r.arity == 1 and r.kinds == _FLOAT and r.result == "same" and not r.composed
    ]
)
"""Names of the intrinsics from one float to a float of the same dtype that have code of their
own."""


def is_pure(call: Call) -> bool:
    """Whether a call may be dropped, repeated and moved."""
    row = INTRINSICS.get(call.op)
    return row is not None and row.pure


def is_costly(call: Call) -> bool:
    """Whether a call takes MANY instructions, as elementary functions do."""
    return INTRINSICS[call.op].cost >= MANY


def intrinsic(name: str) -> Intrinsic:
    """The row of ``name``; raises DTypeError where there is none."""
    row = INTRINSICS.get(name)
    if row is None:
        raise DTypeError(name, tuple(INTRINSICS), what="an intrinsic")
    return row


def call_intrin(name: str, *args: ExprLike, dtype: str | None = None) -> Expr:
    """``name(*args)`` as an expression.

    Python numbers take the dtype of the other operands (float32 where there is none); scalars are
    broadcast to the lanes of vectors. ``dtype`` is needed by ``reinterpret`` and refused elsewhere
    unless it is the dtype that comes out anyway. A constant condition of ``if_then_else`` chooses.

    Raises DTypeError for an unknown name, a wrong number of operands, or dtypes the row does not
    take.
    """
    row = intrinsic(name)
    _check_arity(row, len(args))
    operands = _convert(row, tuple([a.as_expr() if type(a) is Equality else a for a in args]))
    result = result_dtype(name, operands, dtype)
    return Call(name, operands, result)


def result_dtype(name: str, operands: tuple[Expr, ...], dtype: str | None = None) -> DType:
    """The dtype of ``name(*operands)``; raises DTypeError where the operands do not fit the row."""
    row = intrinsic(name)
    _check_arity(row, len(operands))
    values = operands
    if name in DOTS:
        return _dot_dtype(name, operands)
    if name == "if_then_else":
        condition, values = operands[0], operands[1:]
        if condition.dtype is not BOOL:
            raise DTypeError(
                str(condition.dtype), ("bool",), what="for the condition of if_then_else"
            )
    for value in values:
        if value.dtype.kind not in row.kinds:
            raise DTypeError(
                str(value.dtype), row.kinds, what=f"for an operand of the intrinsic {name}"
            )
        if value.dtype is not values[0].dtype:
            found = f"{values[0].dtype} and {value.dtype}"
            raise DTypeError(found, ("operands of one dtype",), what=f"for the intrinsic {name}")
    same = values[0].dtype
    if row.result == "given":
        return _reinterpreted(same, dtype)
    result = {"same": same, "bool": BOOL.with_lanes(same.lanes), "none": DType("handle")}[
        row.result
    ]
    if dtype is not None and DType(dtype) is not result:
        raise DTypeError(str(dtype), (str(result),), what=f"for the result of the intrinsic {name}")
    if row.result == "none" and not isinstance(operands[0], BufferLoad):
        raise DTypeError(type(operands[0]).__name__, ("a buffer's element",), what=f"for {name}")
    return result


def _dot_dtype(name: str, operands: tuple[Expr, ...]) -> DType:
    lanes = operands[0].dtype.lanes
    for value, dtype in zip(operands, _dot_dtypes(name), strict=True):
        expected = dtype.with_lanes(lanes)
        if value.dtype is not expected:
            raise DTypeError(str(value.dtype), (str(expected),), what=f"an operand of {name}")
    return operands[0].dtype


def _dot_dtypes(name: str) -> list[DType]:
    """The dtypes of the operands: the sum, the elements of the one, those of the other."""
    total, first, second, count = DOTS[name]
    return [DType(d) for d in (total, *[first] * count, *[second] * count)]


def _check_arity(row: Intrinsic, found: int) -> None:
    if found != row.arity:
        raise DTypeError(f"{found} operands", (f"{row.arity} operands",), what=f"for {row.name}")


def _reinterpreted(source: DType, dtype: str | None) -> DType:
    if dtype is None:
        raise DTypeError("none", ("the dtype that comes out",), what="for reinterpret")
    target = DType(dtype)
    if target.bits * target.lanes != source.bits * source.lanes:
        raise DTypeError(
            f"{target} for {source}", ("a dtype of the same width",), what="for reinterpret"
        )
    return target


def _convert(row: Intrinsic, args: tuple[ExprLike, ...]) -> tuple[Expr, ...]:
    """The operands as expressions of one dtype and lane count (the condition apart)."""
    if row.name == "if_then_else":
        condition = as_expr(args[0], BOOL)
        return (condition, *paired(args[1], args[2]))
    if row.name in DOTS:
        return tuple([as_expr(a, d) for a, d in zip(args, _dot_dtypes(row.name), strict=True)])
    known = [a for a in args if isinstance(a, Expr)]
    if not known:
        dtype = FLOAT32 if row.kinds == _FLOAT else None
        return tuple([as_expr(a, dtype) for a in args])
    if len(args) == 2:
        return paired(args[0], args[1])
    model = max(known, key=lambda e: e.dtype.lanes)
    return tuple([paired(a, model)[0] for a in args])
