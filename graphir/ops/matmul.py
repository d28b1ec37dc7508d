"""Rows of the products: ``matmul`` with NumPy's rules, ``integer_matmul``, the same of bytes, or of
int16, summed in int32, ``linear``, ``x @ w.T + bias``, and ``scaled_linear``, a linear layer whose
weights are integers of a few bits with a scale for each group of them.

``transpose_a`` and ``transpose_b`` of a matmul swap the last two axes of an operand of rank 2 and
more; canonicalize moves transposes there. ``out_dtype`` of ``matmul`` and ``linear`` is the dtype
of the result where that is not the operands': float32, in which products of half precision are
summed; the bias has it too.
"""

from __future__ import annotations

from ...support.dtype import DType
from ...tensorir.expr import Expr
from ...tensorir.operators.reduce import accumulator
from ...tensorir.operators.scaled_linear import BITS, WORD
from ..dim import DimError, broadcast_shapes, dim_equal, print_dim
from ..expr import Call
from ..op import Op, attr, get_op, register
from ..type import TensorType, Type
from .operands import by_operator, fail, fail_to_broadcast, same_dtype, tensors


def _oriented(call: Call, kind: TensorType, key: str) -> tuple[Expr, ...]:
    """The shape of an operand after its transposition."""
    if not attr(call, key):
        return kind.shape
    if kind.ndim < 2:
        raise fail(call, f"{key} of a vector", "an operand of rank 2 and more")
    return (*kind.shape[:-2], kind.shape[-1], kind.shape[-2])


def _matmul(call: Call) -> Type:
    kinds = tensors(call)
    dtype = same_dtype(call, kinds)
    shapes = [_oriented(call, k, key) for k, key in zip(kinds, _TRANSPOSES, strict=True)]
    a, b = [TensorType(shape, dtype) for shape in shapes]
    return TensorType(_product_shape(call, a, b), result_dtype_of(call, dtype))


def result_dtype_of(call: Call, dtype: DType) -> DType:
    """The dtype of the result of a call that sums products of elements of ``dtype``: that, or the
    one of the sums. Raises TypeInferenceError for another ``out_dtype``."""
    given = attr(call, "out_dtype")
    if given == "":
        return dtype
    if given != accumulator(dtype):
        raise fail(
            call, f"out_dtype={given!r} of operands of {dtype}", f"{str(accumulator(dtype))!r}"
        )
    return DType(given)


def _product_shape(call: Call, a: TensorType, b: TensorType) -> tuple[Expr, ...]:
    """The shape of a matrix product under NumPy's rules."""
    if a.ndim == 0 or b.ndim == 0:
        raise fail(call, "a scalar has no matrix product", "operands of rank 1 and more")
    inner_a, inner_b = a.shape[-1], b.shape[-2 if b.ndim > 1 else 0]
    if not dim_equal(inner_a, inner_b):
        raise fail(
            call,
            f"the inner dims {print_dim(inner_a)} and {print_dim(inner_b)} are not proved equal",
            "a (..., n, k) and b (..., k, m)",
            (inner_a, inner_b),
            _inner_axes(call, b.ndim),
        )
    try:
        batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except DimError as error:
        raise fail_to_broadcast(call, "the batch shapes do not broadcast", error, 2) from None
    columns = b.shape[-1:] if b.ndim > 1 else ()
    return (*batch, *a.shape[-2:-1], *columns)


def _inner_axes(call: Call, ndim_b: int) -> tuple[int, int]:
    """The axes that a product sums over, from the right, before any transposition."""
    turns_a, turns_b = [key in get_op(call.op).attrs and attr(call, key) for key in _TRANSPOSES]
    return -2 if turns_a else -1, -1 if turns_b or ndim_b == 1 else -2


def _linear(call: Call) -> Type:
    kinds = tensors(call)
    x, w = kinds[:2]
    dtype = result_dtype_of(call, same_dtype(call, kinds[:2]))
    if len(kinds) == 3 and kinds[2].dtype is not dtype:
        raise fail(
            call,
            "the operands have different dtypes",
            f"a bias of {dtype}, the dtype of the result; cast with R.astype",
        )
    if x.ndim == 0 or w.ndim != 2:
        raise fail(call, "the ranks do not fit", "x (..., in) and w (out, in)")
    if not dim_equal(x.shape[-1], w.shape[1]):
        raise fail(
            call,
            f"the inner dims {print_dim(x.shape[-1])} and {print_dim(w.shape[1])} are not proved "
            "equal",
            "x (..., in) and w (out, in)",
        )
    if len(kinds) == 3 and (kinds[2].ndim != 1 or not dim_equal(kinds[2].shape[0], w.shape[0])):
        raise fail(call, "the bias does not fit", f"bias ({print_dim(w.shape[0])},)")
    return TensorType((*x.shape[:-1], w.shape[0]), dtype)


def _integer_matmul(call: Call) -> Type:
    kinds = tensors(call)
    dtypes = {str(kind.dtype) for kind in kinds}
    if not dtypes <= {"int8", "uint8"} and dtypes != {"int16"}:
        raise fail(call, "an operand is not of bytes", "int8 or uint8 operands, or both int16")
    return TensorType(_product_shape(call, kinds[0], kinds[1]), DType("int32"))


def _scaled_linear(call: Call) -> Type:
    kinds = tensors(call)
    x, w, *factors = kinds
    narrow = all(f.dtype.is_float or (n and f.dtype == "uint8") for n, f in enumerate(factors))
    if (x.dtype, w.dtype) != ("float32", WORD) or not narrow:
        wanted = "x of float32, w of uint32, scale of floats, zero of floats or uint8"
        raise fail(call, "the dtypes do not fit", wanted)
    if attr(call, "bits") not in BITS:
        raise fail(call, f"bits={attr(call, 'bits')}", "2, 4 or 8 bits")
    shapes = "x (..., g * q * 32 / bits), w (n, g, q), scale (n, g) and zero (n, g)"
    if x.ndim == 0 or w.ndim != 3 or any(f.ndim != 2 for f in factors):
        raise fail(call, "the ranks do not fit", shapes)
    n, groups, words = w.shape
    same = [(x.shape[-1], groups * words * (WORD.bits // int(attr(call, "bits"))))]
    same += [pair for f in factors for pair in zip(f.shape, (n, groups), strict=True)]
    for a, b in same:
        if not dim_equal(a, b):
            found = f"the dims {print_dim(a)} and {print_dim(b)} are not proved equal"
            raise fail(call, found, shapes)
    return TensorType((*x.shape[:-1], n), x.dtype)


_OUT = {"out_dtype": ""}
_TRANSPOSES = {"transpose_a": False, "transpose_b": False}
register(Op("matmul", ("a", "b"), _matmul, by_operator(), {**_TRANSPOSES, **_OUT}))
register(Op("integer_matmul", ("a", "b"), _integer_matmul, by_operator()))
register(Op("linear", ("x", "w", "bias"), _linear, by_operator(), _OUT, optional=1))
register(
    Op(
        "scaled_linear",
        ("x", "w", "scale", "zero"),
        _scaled_linear,
        by_operator(),
        {"bits": 8},
        optional=1,
    )
)
