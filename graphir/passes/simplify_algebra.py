"""SimplifyAlgebra: operations that give what they were given, to the bit.

Every rule holds for all values: NaN, infinities and the zero of either sign. So ``x + 0`` stays (it
makes +0 of -0), and ``x + -0`` and ``x - 0`` go. No rule changes a dtype or a shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...support.dtype import DType
from ...support.passes import Pass
from ...tensorir.expr import IntImm
from ..builder import call_op
from ..dim import dim_equal
from ..expr import Atom, Call, Constant, Value
from ..module import IRModule
from ..op import attr, tensor_type_of, type_of
from ..patterns.matching import Matched
from ..patterns.pattern import Pattern, is_const, is_op, wildcard
from ..patterns.rewriting import Rewriter, rewrite_calls
from ..text.literal import readable
from ..type import TensorType, types_equal

_MANTISSA = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
_EXPONENT = {"float16": 5, "bfloat16": 8, "float32": 8, "float64": 11}


@dataclass(frozen=True)
class SimplifyAlgebra(Pass):
    """Remove neutral operands, pairs of inverse operations, casts that lead back, and pieces that
    are cut and joined again.

    *requires*: canonicalize. *ensures*: nothing.

        a = R.multiply(x, R.const(1.0, "float32"))
        b = R.negative(a)                                   y = R.relu(x)
        c = R.negative(b)                        ->
        y = R.relu(c)
    """

    def run(self, module: IRModule) -> IRModule:
        return rewrite_calls(RULES, module)


# -- neutral operands ------------------------------------------------------------------------------
_X, _N = wildcard(), is_const()


def _neutral(op: str, is_neutral: Callable[[float, DType], bool]) -> tuple[Pattern, Rewriter]:
    """An operation with a number that leaves the other operand as it is."""

    def rewriter(value: Value, matched: Matched) -> Value:
        number, kind = _number(matched[_N]), matched.type(_X)
        if number is None or not isinstance(kind, TensorType):
            return value
        fits = is_neutral(number, kind.dtype) and types_equal(kind, type_of(value))
        return matched[_X] if fits else value

    return is_op(op)(_X, _N), rewriter


def _number(atom: Value) -> float | None:
    """The number that a small constant holds everywhere."""
    if not isinstance(atom, Constant) or atom.bits is None:
        return None
    flat = readable(atom.values(), atom.type.dtype).reshape(-1)
    same = flat.size and bool((flat == flat[0]).all()) and len(set(map(str, flat))) == 1
    return float(flat[0]) if same else None


def _is_one(number: float, dtype: DType) -> bool:
    return number == 1 and not dtype.is_bool


def _is_plus_zero(number: float, dtype: DType) -> bool:
    return number == 0 and math.copysign(1.0, number) > 0


def _adds_nothing(number: float, dtype: DType) -> bool:
    return number == 0 and (not dtype.is_float or math.copysign(1.0, number) < 0)


# -- pairs -----------------------------------------------------------------------------------------
def _operand(value: Value, matched: Matched) -> Value:
    return matched[_X] if types_equal(matched.type(_X), type_of(value)) else value


def _of_operand(op: str) -> Rewriter:
    return lambda value, matched: call_op(op, matched[_X])


def _is_of_floats(value: Value) -> bool:
    kind = type_of(value)
    return isinstance(kind, TensorType) and kind.dtype.is_float


_CAST = is_op("astype")(_X)


def _cast_of_cast(value: Value, matched: Matched) -> Value:
    """``x`` through a dtype that holds every value of its own."""
    source, middle = matched.type(_X), matched.type(_CAST)
    final = type_of(value)
    assert isinstance(source, TensorType)
    assert isinstance(middle, TensorType)
    assert isinstance(final, TensorType)
    if not holds(middle.dtype, source.dtype) or (
        source.dtype.is_float and not final.dtype.is_float
    ):
        return value
    if source.dtype is final.dtype:
        return matched[_X]
    return call_op("astype", matched[_X], dtype=str(final.dtype))


def holds(wide: DType, narrow: DType) -> bool:
    """Whether a dtype has every value of another."""
    if wide is narrow or narrow.is_bool:
        return True
    if wide.is_bool or (narrow.is_float and not wide.is_float):
        return False
    if narrow.is_float:
        a, b = str(wide), str(narrow)
        return _MANTISSA[a] >= _MANTISSA[b] and _EXPONENT[a] >= _EXPONENT[b]
    bits = narrow.bits - (0 if str(narrow).startswith("u") else 1)
    if wide.is_float:
        return _MANTISSA[str(wide)] >= bits and str(wide) != "float16"
    signed = not str(wide).startswith("u")
    return (signed or str(narrow).startswith("u")) and wide.bits - signed >= bits


# -- pieces ----------------------------------------------------------------------------------------
def _joined_pieces(value: Value, matched: Matched) -> Value:
    """Neighbouring pieces of one value that are joined again are one piece of it."""
    assert isinstance(value, Call)
    kind, axis = type_of(value), int(attr(value, "axis"))
    assert isinstance(kind, TensorType)
    axis %= kind.ndim
    joined: list[Atom | tuple[Atom, int, int]] = []
    for arg in value.args:
        piece = _piece(matched, arg, axis)
        last = joined[-1] if joined else None
        if piece is not None and isinstance(last, tuple) and (last[0], last[2]) == piece[:2]:
            joined[-1] = (last[0], last[1], piece[2])
            continue
        joined.append(arg if piece is None else piece)
    if len(joined) == len(value.args):
        return value
    parts = [_whole(p, axis) if isinstance(p, tuple) else p for p in joined]
    return parts[0] if len(parts) == 1 else call_op("concat", *parts, axis=axis)


def _piece(matched: Matched, atom: Atom, axis: int) -> tuple[Atom, int, int] | None:
    """(what an atom is a piece of, its first element, that behind its last)"""
    call = matched.scene.subject(atom).value
    if not isinstance(call, Call) or call.op != "strided_slice":
        return None
    bounds = _bounds(call, axis)
    return None if bounds is None else (call.args[0], *bounds)


def _whole(piece: tuple[Atom, int, int], axis: int) -> Value:
    """A piece; of all elements, the value itself."""
    source, begin, end = piece
    kind = tensor_type_of(source)
    if begin == 0 and dim_equal(kind.shape[axis], IntImm(end)):
        return source
    return call_op("strided_slice", source, axes=(axis,), begin=(begin,), end=(end,))


def _bounds(call: Call, axis: int) -> tuple[int, int] | None:
    """The bounds of a slice along one axis, of steps of one and a static size."""
    kind = tensor_type_of(call.args[0])
    axes: Sequence[int] = attr(call, "axes")
    size = kind.shape[axis]
    strides = attr(call, "strides")
    if [a % kind.ndim for a in axes] != [axis] or not isinstance(size, IntImm):
        return None
    if strides is not None and list(strides) != [1]:
        return None
    begin, end = attr(call, "begin")[0], attr(call, "end")[0]
    first, last, _ = slice(begin, end).indices(size.value)
    return first, max(first, last)


_JOINED = is_op("concat")


def _piece_of_joined(value: Value, matched: Matched) -> Value:
    """A piece of joined values that lies in one of them is a piece of that."""
    assert isinstance(value, Call)
    whole = matched.value(_JOINED)
    assert isinstance(whole, Call)
    kind = tensor_type_of(whole)
    axis = int(attr(whole, "axis")) % kind.ndim
    bounds = _bounds(value, axis)
    if bounds is None or bounds[0] == bounds[1]:
        return value
    begin = 0
    for part in whole.args:
        size = _size(part, axis)
        if size is None:
            return value
        if begin <= bounds[0] and bounds[1] <= begin + size:
            return _whole((part, bounds[0] - begin, bounds[1] - begin), axis)
        begin += size
    return value


def _size(atom: Atom, axis: int) -> int | None:
    kind = tensor_type_of(atom)
    size = kind.shape[axis]
    return size.value if isinstance(size, IntImm) else None


RULES: tuple[tuple[Pattern, Rewriter], ...] = (
    _neutral("multiply", _is_one),
    _neutral("divide", _is_one),
    _neutral("add", _adds_nothing),
    _neutral("subtract", _is_plus_zero),
    (is_op("negative")(is_op("negative")(_X)), _operand),
    (is_op("logical_not")(is_op("logical_not")(_X)), _operand),
    (is_op("bitwise_not")(is_op("bitwise_not")(_X)), _operand),
    (is_op("relu")(is_op("relu")(_X)), _of_operand("relu")),
    (is_op("abs")(is_op("abs")(_X)), _of_operand("abs")),
    (is_op("abs")(is_op("negative")(_X)).where(_is_of_floats), _of_operand("abs")),
    (is_op("where")(wildcard(), _X, _X), _operand),
    (is_op("astype")(_CAST), _cast_of_cast),
    (is_op("concat"), _joined_pieces),
    (is_op("strided_slice")(_JOINED), _piece_of_joined),
)
"""Patterns, and what takes their place."""
