"""Operators that are made of others: ``R.rms_norm`` in a text is the parts that it means.

Each function here takes atoms and attributes as TVM's operator of the name does, emits the parts
with a builder, and gives the last of them. What is printed afterwards are the parts: fusion,
schedules and other passes know these, and there is one way to say a thing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...support.dtype import DType
from ...support.errors import BurnishError
from ...tensorir.expr import Expr, IntImm
from ..builder import BlockBuilder
from ..dim import dim_equal, product, static_value
from ..expr import Atom, Call, Constant, ShapeExpr, Tuple, Value, constant
from ..interpolation import ROUNDINGS, Interpolation, in_float32, interpolate_axis
from ..op import folded_shape, type_of
from ..type import TensorType

OPERAND, SHAPE = "operand", "shape"


@dataclass(frozen=True, slots=True)
class WrittenOut:
    """``kinds`` says of each parameter of ``make``, behind the builder, whether it is a tensor or a
    shape; the others are attributes."""

    make: Callable[..., Value]
    kinds: dict[str, str]

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        found = dict(inspect.signature(self.make).parameters)
        found.pop("b")
        return found


WRITTEN_OUT: dict[str, WrittenOut] = {}
"""The operators of this file by name."""


def _written_out(**kinds: str) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    def add(make: Callable[..., Value]) -> Callable[..., Value]:
        WRITTEN_OUT[make.__name__] = WrittenOut(make, kinds)
        return make

    return add


def _error(name: str, found: str) -> BurnishError:
    return BurnishError(f"R.{name}: {found}.")


def _type(name: str, x: Atom) -> TensorType:
    kind = type_of(x)
    if not isinstance(kind, TensorType):
        raise _error(name, "expected a tensor")
    return kind


def _op(b: BlockBuilder, name: str, *args: Atom, **attrs: Any) -> Atom:
    return b.emit(Call(name, args, tuple(attrs.items())))


def _last(name: str, *args: Atom, **attrs: Any) -> Call:
    return Call(name, args, tuple(attrs.items()))


def _axis(name: str, axis: int, ndim: int) -> int:
    if not -ndim <= axis < ndim:
        raise _error(name, f"axis {axis} of a tensor of {ndim} dimensions")
    return axis % ndim


def _number(value: float, dtype: str) -> Constant:
    return constant(value, dtype)


# -- one value everywhere --------------------------------------------------------------------------
@_written_out(shape=SHAPE, fill_value=OPERAND)
def full(b: BlockBuilder, shape: ShapeExpr, fill_value: Atom, dtype: str = "void") -> Value:
    """A tensor of one value."""
    kind = _type("full", fill_value)
    if kind.ndim:
        raise _error("full", f"the value has {kind.ndim} dimensions; expected a number")
    if dtype != "void" and DType(dtype) is not kind.dtype:
        fill_value = _op(b, "astype", fill_value, dtype=dtype)
    return _last("broadcast_to", fill_value, shape)


@_written_out(shape=SHAPE)
def zeros(b: BlockBuilder, shape: ShapeExpr, dtype: str = "float32") -> Value:
    """A tensor of zeros."""
    return full(b, shape, _number(0, dtype))


@_written_out(shape=SHAPE)
def ones(b: BlockBuilder, shape: ShapeExpr, dtype: str = "float32") -> Value:
    """A tensor of ones."""
    return full(b, shape, _number(1, dtype))


@_written_out(x=OPERAND, fill_value=OPERAND)
def full_like(b: BlockBuilder, x: Atom, fill_value: Atom, dtype: str = "void") -> Value:
    """A tensor of one value, of the shape (and the dtype) of another one."""
    kind = _type("full_like", x)
    given = str(kind.dtype) if dtype == "void" else dtype
    return full(b, folded_shape(kind.shape), fill_value, given)


@_written_out(x=OPERAND)
def zeros_like(b: BlockBuilder, x: Atom, dtype: str = "void") -> Value:
    """Zeros of the shape (and the dtype) of another tensor."""
    kind = _type("zeros_like", x)
    return zeros(b, folded_shape(kind.shape), str(kind.dtype) if dtype == "void" else dtype)


@_written_out(x=OPERAND)
def ones_like(b: BlockBuilder, x: Atom, dtype: str = "void") -> Value:
    """Ones of the shape (and the dtype) of another tensor."""
    kind = _type("ones_like", x)
    return ones(b, folded_shape(kind.shape), str(kind.dtype) if dtype == "void" else dtype)


# -- pieces ----------------------------------------------------------------------------------------
@_written_out(x=OPERAND)
def split(
    b: BlockBuilder, x: Atom, indices_or_sections: int | Sequence[int], axis: int = 0
) -> Value:
    """A tuple of parts along an axis: as many equal ones, or those between the indices."""
    kind = _type("split", x)
    axis = _axis("split", axis, kind.ndim)
    size = static_value(kind.shape[axis])
    if size is None:
        raise _error("split", f"axis {axis} has a named size, whose parts have no known ones")
    if isinstance(indices_or_sections, int):
        count = indices_or_sections
        if count < 1 or size % count:
            raise _error("split", f"{size} elements are not {count} equal parts")
        ends = [size // count * (n + 1) for n in range(count)]
    else:
        ends = [min(max(int(n), 0), size) for n in indices_or_sections] + [size]
    parts = []
    for begin, end in zip([0, *ends], ends, strict=False):
        last = max(begin, end)
        parts.append(_op(b, "strided_slice", x, axes=[axis], begin=[begin], end=[last]))
    return Tuple(tuple(parts))


@_written_out(x=OPERAND)
def tile(b: BlockBuilder, x: Atom, repeats: int | Sequence[int]) -> Value:
    """Copies side by side, so many along each of the last axes."""
    kind = _type("tile", x)
    counts = [repeats] if isinstance(repeats, int) else list(repeats)
    if any(not isinstance(n, int) or n < 0 for n in counts):
        raise _error("tile", f"repeats={repeats!r}; expected numbers from 0 up")
    dims: list[Expr] = [IntImm(1)] * max(0, len(counts) - kind.ndim)
    dims += kind.shape
    counts = [1] * (len(dims) - len(counts)) + counts
    one = folded_shape([d for size in dims for d in (IntImm(1), size)])
    many = folded_shape(
        [d for n, size in zip(counts, dims, strict=True) for d in (IntImm(n), size)]
    )
    spread = _op(b, "broadcast_to", _op(b, "reshape", x, one), many)
    whole = [product([IntImm(n), size]) for n, size in zip(counts, dims, strict=True)]
    return _last("reshape", spread, folded_shape(whole))


# -- normalisations --------------------------------------------------------------------------------
@_written_out(data=OPERAND, weight=OPERAND)
def rms_norm(
    b: BlockBuilder,
    data: Atom,
    weight: Atom,
    axes: int | Sequence[int] = -1,
    epsilon: float = 1e-5,
) -> Value:
    """``data / sqrt(mean(data ** 2) + epsilon) * weight``; of halves the mean is float32."""
    kind = _type("rms_norm", data)
    along = [axes] if isinstance(axes, int) else list(axes)
    along = [_axis("rms_norm", a, kind.ndim) for a in along]
    narrow = kind.dtype.itemsize < 4
    x = _op(b, "astype", data, dtype="float32") if narrow else data
    dtype = "float32" if narrow else str(kind.dtype)
    mean = _op(b, "mean", _op(b, "multiply", x, x), axis=along, keepdims=True)
    scale = _op(b, "rsqrt", _op(b, "add", mean, _number(epsilon, dtype)))
    scaled = _op(b, "multiply", x, scale)
    if narrow:
        scaled = _op(b, "astype", scaled, dtype=str(kind.dtype))
    return _last("multiply", scaled, weight)


@_written_out(data=OPERAND, gamma=OPERAND, beta=OPERAND)
def group_norm(
    b: BlockBuilder,
    data: Atom,
    gamma: Atom,
    beta: Atom,
    num_groups: int,
    channel_axis: int = 1,
    axes: Sequence[int] | None = None,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Value:
    """Groups of channels with mean 0 and variance 1, each over all that stands behind axis 1."""
    kind = _type("group_norm", data)
    rest = list(range(2, kind.ndim))
    given = rest if axes is None else [_axis("group_norm", a, kind.ndim) for a in axes]
    if _axis("group_norm", channel_axis, kind.ndim) != 1 or sorted(given) != rest:
        raise _error("group_norm", "expected channels at axis 1 and axes of all that follow")
    channels = static_value(kind.shape[1])
    if channels is None or num_groups < 1 or channels % num_groups:
        raise _error("group_norm", f"{channels} channels are not {num_groups} groups")
    inner = product([IntImm(channels // num_groups), *kind.shape[2:]])
    grouped = _op(b, "reshape", data, folded_shape([kind.shape[0], IntImm(num_groups), inner]))
    normal = _op(b, "layer_norm", grouped, axes=[2], epsilon=epsilon)
    found = _op(b, "reshape", normal, folded_shape(kind.shape))
    return _affine(b, found, gamma if scale else None, beta if center else None, 1, kind.ndim)


@_written_out(data=OPERAND, gamma=OPERAND, beta=OPERAND, moving_mean=OPERAND, moving_var=OPERAND)
def batch_norm(
    b: BlockBuilder,
    data: Atom,
    gamma: Atom,
    beta: Atom,
    moving_mean: Atom,
    moving_var: Atom,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    momentum: float = 0.1,
    training: bool = False,
) -> Value:
    """That of a trained model: a tuple of the result and the two statistics, unchanged."""
    if training:
        raise _error("batch_norm", "training=True changes the statistics; this is for inference")
    kind = _type("batch_norm", data)
    axis = _axis("batch_norm", axis, kind.ndim)
    spread = [_along(b, x, axis, kind.ndim) for x in (moving_mean, moving_var)]
    epsilon_ = _number(epsilon, str(kind.dtype))
    centred = _op(b, "subtract", data, spread[0])
    found = _op(b, "multiply", centred, _op(b, "rsqrt", _op(b, "add", spread[1], epsilon_)))
    made = _affine(b, found, gamma if scale else None, beta if center else None, axis, kind.ndim)
    result: Atom = b.emit(made)
    return Tuple((result, moving_mean, moving_var))


def _along(b: BlockBuilder, x: Atom, axis: int, ndim: int) -> Atom:
    """A vector along one axis of a tensor of ``ndim`` dimensions."""
    kind = _type("reshape", x)
    dims: list[Expr] = [IntImm(1)] * ndim
    dims[axis] = kind.shape[0]
    return _op(b, "reshape", x, folded_shape(dims))


def _affine(
    b: BlockBuilder, x: Atom, gamma: Atom | None, beta: Atom | None, axis: int, ndim: int
) -> Value:
    if gamma is not None:
        x = _op(b, "multiply", x, _along(b, gamma, axis, ndim))
    return x if beta is None else _last("add", x, _along(b, beta, axis, ndim))


# -- integers for floats ---------------------------------------------------------------------------
@_written_out(data=OPERAND, scale=OPERAND, zero_point=OPERAND)
def quantize(
    b: BlockBuilder,
    data: Atom,
    scale: Atom,
    zero_point: Atom,
    axis: int = -1,
    out_dtype: str = "int8",
) -> Value:
    """``clip(round(data / scale) + zero_point)``, each channel of ``axis`` by its own scale where
    there are several."""
    kind, dtype = _type("quantize", data), DType(out_dtype)
    if not dtype.is_integer or dtype.bits > 16:
        raise _error("quantize", f"out_dtype={out_dtype!r}; expected int8, uint8, int16 or uint16")
    scale, zero = (_spread(b, v, axis, kind, "quantize") for v in (scale, zero_point))
    zero = _op(b, "astype", zero, dtype=str(kind.dtype))
    found = _op(b, "add", _op(b, "round", _op(b, "divide", data, scale)), zero)
    limits = np.iinfo(dtype.to_numpy())
    clipped = _op(b, "clip", found, min=float(limits.min), max=float(limits.max))
    return _last("astype", clipped, dtype=out_dtype)


@_written_out(data=OPERAND, scale=OPERAND, zero_point=OPERAND)
def dequantize(
    b: BlockBuilder,
    data: Atom,
    scale: Atom,
    zero_point: Atom,
    axis: int = -1,
    out_dtype: str = "float32",
) -> Value:
    """``(data - zero_point) * scale``, the other way."""
    kind = _type("dequantize", data)
    scale, zero = (_spread(b, v, axis, kind, "dequantize") for v in (scale, zero_point))
    numbers = [_op(b, "astype", v, dtype=out_dtype) for v in (data, zero, scale)]
    return _last("multiply", _op(b, "subtract", numbers[0], numbers[1]), numbers[2])


def _spread(b: BlockBuilder, x: Atom, axis: int, kind: TensorType, name: str) -> Atom:
    own = _type(name, x)
    if own.ndim > 1:
        raise _error(name, f"a scale or zero point has {own.ndim} dimensions; expected 0 or 1")
    return _along(b, x, _axis(name, axis, kind.ndim), kind.ndim) if own.ndim else x


# -- shapes as values ------------------------------------------------------------------------------
@_written_out(x=OPERAND)
def shape_of(b: BlockBuilder, x: Atom) -> Value:
    """The shape of a tensor, which its type has."""
    return folded_shape(_type("shape_of", x).shape)


@_written_out(x=OPERAND)
def tensor_to_shape(b: BlockBuilder, x: Atom) -> Value:
    """The shape that a constant has the numbers of."""
    kind = _type("tensor_to_shape", x)
    if not isinstance(x, Constant) or kind.ndim != 1 or not kind.dtype.is_integer:
        raise _error(
            "tensor_to_shape", "shapes are known when a program is parsed: expected R.const"
        )
    return folded_shape([IntImm(int(n)) for n in x.values()])


# -- sums of products ------------------------------------------------------------------------------
@_written_out(operands=OPERAND)
def einsum(b: BlockBuilder, operands: Atom, subscripts: str) -> Value:
    """Sums of products by the letters of the axes, ``"ij,jk->ik"``, two operands at a time."""
    parts = list(operands.fields) if isinstance(operands, Tuple) else [operands]
    text, _, result = subscripts.replace(" ", "").partition("->")
    labels = text.split(",")
    if "->" not in subscripts or "." in subscripts or len(labels) != len(parts):
        raise _error("einsum", f"{subscripts!r} of {len(parts)} operands; expected 'ij,jk->ik'")
    sizes: dict[str, Expr] = {}
    for x, own in zip(parts, labels, strict=True):
        kind = _type("einsum", x)
        if len(own) != kind.ndim or len(set(own)) != len(own):
            raise _error("einsum", f"{own!r} for a tensor of {kind.ndim} dimensions")
        for letter, size in zip(own, kind.shape, strict=True):
            if not dim_equal(sizes.setdefault(letter, size), size):
                raise _error("einsum", f"{letter!r} stands for axes of two sizes")
    if set(result) - set(sizes) or len(set(result)) != len(result):
        raise _error("einsum", f"{result!r} is not made of the axes of the operands")
    x, own = _summed(b, parts[0], labels[0], "".join([*labels[1:], result]))
    for n in range(1, len(parts)):
        kept = "".join([*labels[n + 1 :], result])
        y, other = _summed(b, parts[n], labels[n], own + kept)
        x, own = _contracted(b, (x, own), (y, other), kept, sizes)
    return _last("permute_dims", x, axes=[own.index(letter) for letter in result])


def _summed(b: BlockBuilder, x: Atom, labels: str, used: str) -> tuple[Atom, str]:
    """Without the axes that nobody else names."""
    alone = [n for n, letter in enumerate(labels) if letter not in used]
    if alone:
        x = _op(b, "sum", x, axis=alone, keepdims=False)
    return x, "".join([letter for letter in labels if letter in used])


def _contracted(
    b: BlockBuilder,
    left: tuple[Atom, str],
    right: tuple[Atom, str],
    kept: str,
    sizes: dict[str, Expr],
) -> tuple[Atom, str]:
    """The product of two operands as one of matrices: what both have and somebody wants later is
    the batch, what both have and nobody wants is summed."""
    (x, a), (y, c) = left, right
    both = [letter for letter in a if letter in c]
    batch = "".join([letter for letter in both if letter in kept])
    inner = "".join([letter for letter in both if letter not in kept])
    rows = "".join([letter for letter in a if letter not in both])
    columns = "".join([letter for letter in c if letter not in both])

    def matrix(value: Atom, own: str, groups: tuple[str, str]) -> Atom:
        order = batch + groups[0] + groups[1]
        turned = _op(b, "permute_dims", value, axes=[own.index(letter) for letter in order])
        dims = [sizes[letter] for letter in batch]
        dims += [product([sizes[letter] for letter in g]) for g in groups]
        return _op(b, "reshape", turned, folded_shape(dims))

    made = _op(b, "matmul", matrix(x, a, (rows, inner)), matrix(y, c, (inner, columns)))
    order = batch + rows + columns
    return _op(b, "reshape", made, folded_shape([sizes[letter] for letter in order])), order


# -- images ----------------------------------------------------------------------------------------
class _Emitting:
    """A builder as what emits operators."""

    def __init__(self, builder: BlockBuilder) -> None:
        self.builder = builder

    def op(self, name: str, *args: Atom, **attrs: object) -> Atom:
        return _op(self.builder, name, *args, **attrs)

    def type(self, atom: Atom) -> TensorType:
        return _type("resize2d", atom)


_LAYOUTS = {"NCHW": (2, 3), "NHWC": (1, 2)}
_COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")


@_written_out(data=OPERAND, size=SHAPE)
def resize2d(
    b: BlockBuilder,
    data: Atom,
    size: ShapeExpr,
    roi: Sequence[float] = (0.0, 0.0, 0.0, 0.0),
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "round",
    cubic_alpha: float = -0.75,
    cubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: str = "void",
) -> Value:
    """An image of another size, whose elements are those of the nearest places or weighted sums of
    two or four along each axis."""
    kind = _type("resize2d", data)
    rounding = "round_prefer_ceil" if rounding_method in ("", "round") else rounding_method
    for what, found, known in (
        ("layout", layout, tuple(_LAYOUTS)),
        ("method", method, ("nearest_neighbor", "linear", "cubic")),
        ("coordinate_transformation_mode", coordinate_transformation_mode, _COORDINATES),
        ("rounding_method", rounding, tuple(ROUNDINGS)),
    ):
        if found not in known:
            raise _error("resize2d", f"{what}={found!r}; expected {', '.join(known)}")
    mode = "nearest" if method == "nearest_neighbor" else method
    if mode != "nearest" and not kind.dtype.is_float:
        raise _error("resize2d", f"{method} of {kind.dtype}; cast to a float first")
    wanted = [static_value(n) for n in size.values]
    if kind.ndim != 4 or len(wanted) != 2:
        raise _error("resize2d", "expected data of 4 dimensions and a size of 2")
    how = Interpolation(
        mode,
        coordinate_transformation_mode,
        rounding,
        cubic_alpha,
        exclude_outside=bool(cubic_exclude),
    )
    emitting = _Emitting(b)

    def resized(x: Atom) -> Atom:
        for axis, out in zip(_LAYOUTS[layout], wanted, strict=True):
            given = static_value(kind.shape[axis])
            if given is None or out is None or given < 1 or out < 1:
                raise _error("resize2d", "expected sizes of images that are known, and not 0")
            x = interpolate_axis(emitting, x, axis, (given, out), out / given, how)
        return x

    result = in_float32(emitting, data, how, resized)
    if out_dtype not in ("void", str(kind.dtype)):
        return _last("astype", result, dtype=out_dtype)
    return result


__all__ = ["OPERAND", "SHAPE", "WRITTEN_OUT", "WrittenOut"]
