"""What is computed of bytes: ``(float32(q) - zero) * scale``, and products of such operands.

    x = R.multiply(R.astype(R.subtract(R.astype(q, dtype="int32"), 3), dtype="float32"), 0.02)
    w = R.multiply(R.astype(v, dtype="float32"), s)         # v: (n, k) of int8; s: (n, 1)
    y = R.linear(x, w)
becomes
    i = R.integer_matmul(q, R.permute_dims(v))              # int32, exact
    c = R.multiply(3, R.sum(R.astype(R.permute_dims(v), dtype="int32"), axis=-2))
    y = R.multiply(R.astype(R.subtract(i, c), dtype="float32"), 0.02 * s)

The sum is exact, and rounded when it becomes float32, and when it is scaled: a result of ``y`` is
off by at most 3 * 2^-24 of its value, and so nearer to what the bytes stand for than a sum in
float32 is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..builder import call_op
from ..dim import static_shape, static_value
from ..expr import Atom, Call, Constant, Value, Var, constant
from ..integer_products import MOST_TERMS, integer_conv, integer_product, is_integer_conv
from ..mutator import ExprMutator
from ..op import attr, get_op, tensor_type_of
from ..type import TensorType

BYTES = ("int8", "uint8")
EXACT = ("int16", "int32", "float32")
"""What bytes, and their differences, are exact in."""
FEWEST_TERMS, FEWEST_ROWS = 4, 32
"""Terms of a sum, and rows of a product whose second operand is no constant, from which on it is
faster in bytes."""

Values = Callable[[Atom], "np.ndarray | None"]
"""The values of a zero point or a scale, where they are known."""


@dataclass(frozen=True)
class Dequantized:
    """``(numbers - zero) * scale``: ``numbers`` are bytes, the others broadcast to their shape."""

    numbers: Atom
    zero: np.ndarray
    scale: np.ndarray
    is_cast: bool = False
    """Whether there is a scale already: nothing may be subtracted any more."""

    @property
    def is_even(self) -> bool:
        """Whether zero and scale are one number each."""
        return self.zero.size == 1 and self.scale.size == 1


def dequantized(owner: ExprMutator, atom: Atom, values: Values) -> Dequantized | None:
    """How a float32 value is computed of bytes, or None. What moves elements of bytes with one
    scale moves the bytes."""
    call = owner.lookup_binding(atom)
    if not isinstance(call, Call) or not isinstance(atom, Var):
        return None
    if call.op == "astype":
        if str(attr(call, "dtype")) not in EXACT:
            return None
        operand = call.args[0]
        if tensor_type_of(operand).dtype in BYTES:
            return Dequantized(operand, np.zeros(()), np.ones((), np.float32))
        found = dequantized(owner, operand, values)
        return found if found is not None and not found.is_cast else None
    if call.op in ("subtract", "multiply"):
        return _combined(owner, call, values)
    if call.op == "permute_dims" or get_op(call.op).is_view:
        found = dequantized(owner, call.args[0], values)
        if found is None or not found.is_even or isinstance(found.numbers, Constant):
            return None
        moved = Call(call.op, (found.numbers, *call.args[1:]), call.attrs)
        return replace(found, numbers=owner.emit(moved.with_span(call.span), "bytes"))
    return None


def _combined(owner: ExprMutator, call: Call, values: Values) -> Dequantized | None:
    """Less a zero point, or times a scale."""
    first, other = call.args
    found = dequantized(owner, first, values)
    if found is None and call.op == "multiply":
        first, other = other, first
        found = dequantized(owner, first, values)
    if found is None or found.is_cast:
        return None
    array = values(other)
    same = static_shape(tensor_type_of(found.numbers).shape)
    if array is None or tensor_type_of(found.numbers).ndim < array.ndim:
        return None
    if array.size > 1 and (same is None or np.broadcast_shapes(array.shape, same) != same):
        return None
    if call.op == "multiply":
        is_scale = array.dtype == np.float32 and tensor_type_of(first).dtype == "float32"
        return replace(found, scale=array, is_cast=True) if is_scale else None
    is_whole = bool(np.all((array == np.rint(array)) & (np.abs(array) < 256)))
    return replace(found, zero=array) if is_whole and not found.zero.any() else None


def product_of_bytes(owner: ExprMutator, call: Call, values: Values) -> Value | None:
    """A ``linear``, ``matmul`` or ``conv`` in float32 of two operands that are computed of bytes,
    as the product of these; None where it is none."""
    if attr(call, "out_dtype") if call.op != "conv" else not _has_channels_first(call):
        return None
    kinds = [tensor_type_of(a) for a in call.args[:2]]
    if any(k.dtype != "float32" or k.ndim == 0 for k in kinds):
        return None
    w = dequantized(owner, call.args[1], values)
    x = dequantized(owner, call.args[0], values) if w is not None else None
    if x is None or w is None or not x.is_even:
        return None
    if call.op == "conv":
        return _conv(owner, call, x, w)
    return _product(owner, call, x, w, kinds)


def _has_channels_first(call: Call) -> bool:
    return not attr(call, "channels_last") and not attr(call, "out_channels_last")


def _product(
    owner: ExprMutator, call: Call, x: Dequantized, w: Dequantized, kinds: list[TensorType]
) -> Value | None:
    turned = call.op == "linear" or bool(attr(call, "transpose_b"))
    if call.op == "matmul" and attr(call, "transpose_a"):
        return None
    if kinds[1].ndim < 2:
        return None
    terms = static_value(kinds[0].shape[-1])
    columns = static_value(kinds[1].shape[-2 if turned else -1])
    if terms is None or columns is None or columns < 2:
        return None
    if not FEWEST_TERMS <= terms <= MOST_TERMS:
        return None
    if not isinstance(w.numbers, Constant):
        rows = static_shape(kinds[0].shape[:-1])
        if rows is not None and math.prod(rows) < FEWEST_ROWS:
            return None
    factors = [_of_columns(f, kinds[1], turned=turned) for f in (w.zero, w.scale)]
    zero, scale = factors
    if zero is None or scale is None:
        return None
    emit = _emitter(owner, call)
    numbers = w.numbers
    if turned:
        order = (*range(kinds[1].ndim - 2), kinds[1].ndim - 1, kinds[1].ndim - 2)
        numbers = emit("permute_dims", numbers, axes=order)
    sums = integer_product(emit, x.numbers, numbers, _points(x.zero), _points(zero))
    return _scaled(emit, sums, x.scale, scale, call.args[2:])


def _of_columns(factor: np.ndarray, kind: TensorType, *, turned: bool) -> np.ndarray | None:
    """A factor of the second operand as a scalar, or a number a column; None for another."""
    if factor.size == 1:
        return factor.reshape(())
    columns = -2 if turned else -1
    whole = (1,) * (kind.ndim - factor.ndim) + factor.shape
    if whole[columns] != factor.size:
        return None
    return factor.reshape(-1)


def _conv(owner: ExprMutator, call: Call, x: Dequantized, w: Dequantized) -> Value | None:
    if not is_integer_conv(x.numbers, w.numbers, int(attr(call, "groups"))):
        return None
    factors = [f.reshape(-1) if f.size > 1 else f.reshape(()) for f in (w.zero, w.scale)]
    outputs = static_value(tensor_type_of(w.numbers).shape[0])
    if any(f.size > 1 and f.shape[:1] != (outputs,) for f in (w.zero, w.scale)):
        return None
    emit = _emitter(owner, call)
    words = {key: attr(call, key) for key in ("strides", "padding", "dilation")}
    point = int(x.zero.reshape(()))
    sums = integer_conv(emit, x.numbers, w.numbers, point, _points(factors[0]), **words)
    made = owner.emit(_scaled(emit, sums, x.scale, factors[1], call.args[2:]), "scaled")
    ndim = tensor_type_of(made).ndim
    return call_op("permute_dims", made, axes=(0, ndim - 1, *range(1, ndim - 1)))


def _emitter(owner: ExprMutator, call: Call) -> Callable[..., Var]:
    def emit(name: str, *args: Atom, **attrs: object) -> Var:
        return owner.emit(call_op(name, *args, **attrs).with_span(call.span), "bytes")

    return emit


def _points(zero: np.ndarray) -> Constant | None:
    """Zero points as int32; None where they are zero."""
    return constant(zero.astype(np.int32), "int32") if zero.any() else None


def _scaled(
    emit: Callable[..., Var],
    sums: Atom,
    first: np.ndarray,
    second: np.ndarray,
    bias: tuple[Atom, ...],
) -> Call:
    """Sums of bytes times both scales, plus the bias."""
    scale = (first.astype(np.float64).reshape(()) * second.astype(np.float64)).astype(np.float32)
    wide = emit("astype", sums, dtype="float32")
    scaled = call_op("multiply", wide, constant(scale, "float32"))
    if not bias:
        return scaled
    return call_op("add", emit("multiply", *scaled.args), bias[0])
