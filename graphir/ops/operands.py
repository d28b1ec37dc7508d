"""What every operator's rules share: reading operands, and errors that name them.

The rules of a row see a Call of A-normal form. They read its operands through the functions here,
so that each error says which operand of which operator has which shape and dtype. ``by_operator``
is the legalisation rule of nearly all rows: the function of ``tensorir.operators`` with the
operator's name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...support.dtype import DType
from ...support.errors import InternalError, TypeInferenceError
from ...tensorir import operators
from ...tensorir.expr import Expr
from ...tensorir.function import PrimFunc
from ...tensorir.operators.elementwise import ELEMENTWISE
from ...tensorir.te.compute import Tensor, create_prim_func, placeholder
from ..dim import DimError, broadcast_shapes, print_shape
from ..expr import Call, ShapeExpr
from ..op import attr, get_op, type_of
from ..type import TensorType, Type


def describe(kind: Type) -> str:
    """A type as errors show it: ``(m, 784) float32``."""
    if isinstance(kind, TensorType):
        return f"{print_shape(kind.shape)} {kind.dtype}"
    return type(kind).__name__


def operand_name(call: Call, index: int) -> str:
    """The name of an operand in the operator's row: ``x``, ``w``; ``x[2]`` of a variadic one."""
    params = get_op(call.op).params
    return (
        params[index]
        if index < len(params) and not get_op(call.op).variadic
        else f"{params[0]}[{index}]"
    )


def fail(
    call: Call,
    reason: str,
    expected: str = "",
    dims: tuple[Expr, Expr] | None = None,
    axes: tuple[int, ...] = (),
) -> TypeInferenceError:
    """An error that lists every operand of the call with its shape and dtype; ``dims`` are two
    that would have to be equal, ``axes`` those of the operands, from the right, where they meet."""
    return TypeInferenceError(call.op, _found(call, reason), expected, call.span, dims, axes)


def fail_to_broadcast(
    call: Call, reason: str, error: DimError, behind: int = 0
) -> TypeInferenceError:
    """The same of shapes that do not broadcast, with ``behind`` axes behind them in each operand
    that do not."""
    found = _found(call, f"{reason}: {error.message}")
    axes = (error.axis - behind,) * len(call.args)
    return TypeInferenceError(call.op, found, "", call.span, error.dims, axes, broadcasts=True)


def _found(call: Call, reason: str) -> str:
    """A reason, and the operands of the call."""
    listed = ", ".join(
        f"{operand_name(call, i)}: {describe(type_of(a))}"
        for i, a in enumerate(call.args)
        if not isinstance(a, ShapeExpr)
    )
    return f"{reason} ({listed})."


def tensor(call: Call, index: int) -> TensorType:
    """The type of a tensor operand."""
    kind = type_of(call.args[index])
    if not isinstance(kind, TensorType):
        raise TypeInferenceError(
            call.op,
            f"operand {operand_name(call, index)} is a {type(kind).__name__}.",
            "a tensor",
            call.span,
        )
    return kind


def tensors(call: Call) -> list[TensorType]:
    """The types of all operands, which must be tensors."""
    return [tensor(call, i) for i in range(len(call.args))]


def shape_operand(call: Call, index: int) -> tuple[Expr, ...]:
    """The dims of a shape operand."""
    value = call.args[index]
    if not isinstance(value, ShapeExpr):
        raise TypeInferenceError(
            call.op,
            f"operand {operand_name(call, index)} is no shape.",
            "R.shape([...])",
            call.span,
        )
    return value.values


def same_dtype(call: Call, kinds: Sequence[TensorType]) -> DType:
    """The one dtype of the operands; promotion is the front ends' and always an explicit cast."""
    if any(k.dtype is not kinds[0].dtype for k in kinds):
        raise fail(call, "the operands have different dtypes", "one dtype; cast with R.astype")
    return kinds[0].dtype


def require_float(call: Call, kinds: Sequence[TensorType]) -> None:
    """Raise unless every operand is of a float dtype."""
    if not all(k.dtype.is_float for k in kinds):
        raise fail(
            call, "this operator needs float operands", "float16, bfloat16, float32 or float64"
        )


def require_numbers(call: Call, kinds: Sequence[TensorType]) -> None:
    """Raise unless no operand is bool."""
    if any(k.dtype.is_bool for k in kinds):
        raise fail(call, "this operator needs numbers", "float or integer operands")


def broadcast(call: Call, kinds: Sequence[TensorType]) -> tuple[Expr, ...]:
    """The operands' shapes broadcast together, as NumPy does."""
    shape = kinds[0].shape
    for kind in kinds[1:]:
        try:
            shape = broadcast_shapes(shape, kind.shape)
        except DimError as error:
            raise fail_to_broadcast(call, "the shapes do not broadcast", error) from None
    return shape


def normal_axis(call: Call, axis: object, ndim: int, key: str = "axis") -> int:
    """An axis attribute counted from the front."""
    if not isinstance(axis, int) or isinstance(axis, bool) or not -ndim <= axis < ndim:
        raise fail(call, f"{key}={axis!r} is out of range", f"an int from {-ndim} to {ndim - 1}")
    return axis % ndim


def normal_axes(call: Call, axes: object, ndim: int, key: str = "axis") -> tuple[int, ...]:
    """An axes attribute (None for all, an int, a sequence) as sorted distinct axes from the
    front."""
    if axes is None:
        return tuple(range(ndim))
    items = axes if isinstance(axes, (tuple, list)) else (axes,)
    found = [normal_axis(call, a, ndim, key) for a in items]
    if len(set(found)) != len(found):
        raise fail(call, f"{key}={axes!r} names an axis twice", "distinct axes")
    return tuple(sorted(found))


def same_as_first(call: Call) -> Type:
    """Rule of elementwise float functions: the type of the operand."""
    kinds = tensors(call)
    require_float(call, kinds)
    return kinds[0]


# -- legalisation ------------------------------------------------------------------------------
Compute = Callable[..., "Tensor"]


def operator_function(name: str) -> Compute:
    """The function of ``tensorir.operators`` called ``name``."""
    row = ELEMENTWISE.get(name)
    found: Compute | None = row.function if row else getattr(operators, name, None)
    if found is None:
        raise InternalError(f"tensorir.operators has no function {name!r}")
    return found


def inputs(call: Call) -> list[Tensor]:
    """A placeholder for each tensor operand, in order, named as in the operator's row."""
    return [
        placeholder(kind.shape, kind.dtype, operand_name(call, i).replace("[", "_").strip("]"))
        for i, kind in enumerate(type_of(a) for a in call.args)
        if isinstance(kind, TensorType)
    ]


def as_prim_func(call: Call, operands: Sequence[Tensor], result: Tensor) -> PrimFunc:
    """The PrimFunc from the operands to the result, under the operator's name."""
    return create_prim_func([*operands, result]).with_attr("global_symbol", call.op)


def by_operator(name: str = "", **renamed: str) -> Callable[[Call], PrimFunc]:
    """A legalisation rule: the function of ``tensorir.operators`` called ``name`` (or as the
    operator), with the call's attributes as keywords, some of them ``renamed``."""

    def legalize(call: Call) -> PrimFunc:
        operands = inputs(call)
        keywords = {renamed.get(key, key): attr(call, key) for key in get_op(call.op).attrs}
        return as_prim_func(
            call, operands, operator_function(name or call.op)(*operands, **keywords)
        )

    return legalize
