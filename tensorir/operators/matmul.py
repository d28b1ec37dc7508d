"""Matrix products: one reduction block, ``C[i, j] += A[i, k] * B[k, j]``, or, where k is 1, one
elementwise block: an outer product is written row by row, as fast as memory takes it.

Half precision accumulates in float32 and is rounded once, in a block of its own. Products of bytes
(``integer_matmul``) are summed in int32.
"""

from __future__ import annotations

from collections.abc import Callable

from ...support.dtype import DType
from ...support.errors import ComputeError
from ..expr import INDEX, BufferLoad, Expr, IntImm, Var
from ..expr import cast as cast_expr
from ..te import compute as te
from ..te.compute import Tensor
from ..te.tensor import ReduceAxis
from .elementwise import broadcast_load, broadcast_shape, elementwise
from .reduce import accumulator


def matmul(
    a: Tensor,
    b: Tensor,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    out_dtype: str = "",
) -> Tensor:
    """The matrix product with NumPy's rules: ``a[..., n, k]`` and ``b[..., k, m]`` give ``[..., n,
    m]``.

    Leading dims broadcast; a vector is a row on the left and a column on the right, and its dim is
    dropped. ``transpose_a`` and ``transpose_b`` exchange the last two dims of a matrix.
    ``out_dtype`` is the result's dtype where that is not the operands': that in which they are
    summed, without a rounding. Raises ComputeError for scalars, unequal dtypes, inner dims that
    differ, or another ``out_dtype``.
    """
    _check(a, b, "matmul")
    product = _matrices("matmul", a, b, transpose_a, transpose_b, _product)
    return _rounded("matmul", product, result_dtype_of("matmul", a, out_dtype))


def integer_matmul(a: Tensor, b: Tensor) -> Tensor:
    """The matrix product of bytes, int8 or uint8 each, or of int16, summed in int32, under
    ``matmul``'s rules.

    Exact: sums that int32 does not hold wrap around, of bytes from 32768 products of extreme values
    on. Raises ComputeError for scalars, other dtypes, or inner dims that differ.
    """
    kinds = {str(x.dtype) for x in (a, b)}
    if not kinds <= {"int8", "uint8"} and kinds != {"int16"}:
        found = " and ".join(sorted(kinds))
        raise ComputeError(f"integer_matmul: expected int8 or uint8, or int16, found {found}.")
    return _matrices("integer_matmul", a, b, False, False, _product_of_bytes)


def _matrices(
    name: str,
    a: Tensor,
    b: Tensor,
    transpose_a: bool,
    transpose_b: bool,
    multiplied: Callable[[Expr, Expr], Expr],
) -> Tensor:
    """The sums of what ``multiplied`` gives, as a block called ``name``."""
    if a.ndim == 0 or b.ndim == 0:
        raise ComputeError(f"{name}: a scalar has no matrix product.")
    inner_a = a.shape[-2 if transpose_a and a.ndim > 1 else -1]
    inner_b = b.shape[-1 if transpose_b or b.ndim == 1 else -2]
    _check_inner(name, inner_a, inner_b)
    batch = broadcast_shape([a.shape[:-2], b.shape[:-2]])
    rows = (a.shape[-1 if transpose_a else -2],) if a.ndim > 1 else ()
    columns = (b.shape[-2 if transpose_b else -1],) if b.ndim > 1 else ()
    shape = (*batch, *rows, *columns)
    k, axes = _terms(inner_a)

    def element(*indices: Var) -> Expr:
        lead, last = indices[: len(batch)], iter(indices[len(batch) :])
        row = [next(last)] if rows else []
        column = [next(last)] if columns else []
        left = (k, *row) if transpose_a and row else (*row, k)
        right = (*column, k) if transpose_b or not column else (k, *column)
        x = _batched(a, lead, batch, left)
        y = _batched(b, lead, batch, right)
        return te.sum(multiplied(x, y), axis=axes)

    return te.compute(shape, element, name)


def linear(x: Tensor, w: Tensor, bias: Tensor | None = None, *, out_dtype: str = "") -> Tensor:
    """``x[..., k]`` times ``w[n, k]`` transposed, plus ``bias[n]``: ``[..., n]``.

    A reduction block ``linear`` and, with a bias, a block ``bias_add``. ``out_dtype`` is that of
    ``matmul``, and the bias has the result's. Raises ComputeError for ranks, dtypes or dims that do
    not fit.
    """
    result_dtype = result_dtype_of("linear", x, out_dtype)
    if x.ndim == 0 or w.ndim != 2 or (bias is not None and bias.ndim != 1):
        raise ComputeError("linear: expected x[..., k], w[n, k] and bias[n].")
    _check(x, w, "linear")
    _check_inner("linear", x.shape[-1], w.shape[1])
    k, axes = _terms(x.shape[-1])

    def element(*indices: Var) -> Expr:
        product = _product(BufferLoad(x, (*indices[:-1], k)), BufferLoad(w, (indices[-1], k)))
        return te.sum(product, axis=axes)

    result = te.compute((*x.shape[:-1], w.shape[0]), element, "linear")
    if bias is None:
        return _rounded("linear", result, result_dtype)
    if bias.dtype is not result_dtype:
        raise ComputeError(f"linear: expected a bias of {result_dtype}, found {bias.dtype}.")
    _check_inner("linear", w.shape[0], bias.shape[0])
    return elementwise(
        "bias_add", lambda v, b: cast_expr(v + cast_expr(b, v.dtype), result_dtype), result, bias
    )


def _terms(count: Expr) -> tuple[Expr, list[ReduceAxis]]:
    """Which term of an element's sum is meant, and the axes to sum over: none where there is one
    term."""
    if isinstance(count, IntImm) and count.value == 1:
        return IntImm(0, INDEX), []
    k = te.reduce_axis((0, count), "k")
    return k, [k]


def _batched(
    x: Tensor, lead: tuple[Var, ...], batch: tuple[Expr, ...], matrix: tuple[Expr, ...]
) -> BufferLoad:
    """The element of ``x`` at ``matrix`` of the matrix at ``lead``."""
    own = x.shape[: x.ndim - len(matrix)]
    return broadcast_load(
        x,
        (*lead[len(lead) - len(own) :], *matrix),
        (*batch[len(batch) - len(own) :], *x.shape[len(own) :]),
    )


def _product(x: Expr, y: Expr) -> Expr:
    wide = accumulator(x.dtype)
    return cast_expr(x, wide) * cast_expr(y, wide)


def _product_of_bytes(x: Expr, y: Expr) -> Expr:
    return cast_expr(x, "int32") * cast_expr(y, "int32")


def result_dtype_of(name: str, x: Tensor, out_dtype: str) -> DType:
    """The dtype of the result of an operator ``name`` that sums products of elements of ``x``: its
    own, or that of the sums. Raises ComputeError for another ``out_dtype``."""
    """The dtype of a product's result: that of its operands, or of its sums."""
    if not out_dtype:
        return x.dtype
    if out_dtype != accumulator(x.dtype):
        raise ComputeError(
            f"{name}: expected out_dtype {str(accumulator(x.dtype))!r}, in which products of "
            f"{x.dtype} are summed, found {out_dtype!r}."
        )
    return DType(out_dtype)


def _rounded(name: str, result: Tensor, dtype: DType) -> Tensor:
    if result.dtype is dtype:
        return result
    return elementwise(f"{name}_{dtype}", lambda v: cast_expr(v, dtype), result)


def _check(a: Tensor, b: Tensor, name: str) -> None:
    if a.dtype is not b.dtype:
        raise ComputeError(
            f"{name}: expected operands of one dtype, found {a.dtype} and {b.dtype}."
        )


def _check_inner(name: str, a: Expr, b: Expr) -> None:
    if isinstance(a, IntImm) and isinstance(b, IntImm) and a.value != b.value:
        raise ComputeError(
            f"{name}: expected equal inner dimensions, found {a.value} and {b.value}."
        )
