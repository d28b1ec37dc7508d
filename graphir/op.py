"""Op: an operator is a name, a signature and its rules; a row of a table in ``graphir/ops``.

    register(Op("linear", ("x", "w", "bias"), optional=1, infer_type=..., legalize=...))

``infer_type(call)`` gives the result's type or raises TypeInferenceError. ``legalize(call)`` gives
the PrimFunc that computes it: inputs in the order of the call's tensor arguments, then outputs.
Types of arguments are read with ``type_of``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..support.errors import InternalError, TypeInferenceError, nearest
from ..support.remembered import forget, remembered
from ..tensorir.expr import ExprLike
from ..tensorir.function import PrimFunc
from .dim import fold_dim
from .expr import (
    Atom,
    Call,
    CallDPS,
    CallDPSPacked,
    CallFunction,
    Constant,
    If,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Value,
    Var,
)
from .type import TensorType, TupleType, Type


@dataclass(frozen=True)
class Op:
    """``params`` names the operands; the last ``optional`` may be absent. ``attrs`` maps attribute
    names to defaults (``REQUIRED`` where there is none). A variadic operator (concat) has
    ``variadic=True``."""

    name: str
    params: tuple[str, ...]
    infer_type: Callable[[Call], Type]
    legalize: Callable[[Call], PrimFunc] | None = None
    attrs: dict[str, Any] = field(default_factory=dict)
    optional: int = 0
    variadic: bool = False
    is_view: bool = False
    """The result is the operand's memory under another shape (reshape, flatten): no kernel."""
    is_elementwise: bool = False
    """Each element of the result depends on the elements at its place, operands broadcast."""
    binds_dim: bool = False
    """The call gives a named size, its second operand, its value."""
    stays: bool = False
    """The call stays where it is, read or not, and has no kernel; all that bind sizes do."""
    fold: Callable[[Call, Sequence[np.ndarray]], np.ndarray | None] | None = None
    """The call's result for arrays, where NumPy moves the same bits: constants are folded by it,
    and no kernel is made for that. None for arrays that are left to a kernel."""
    doc: str = ""


REQUIRED = object()
_OPS: dict[str, Op] = {}
OTHER_NAMES = {
    "avg_pool2d": "avg_pool",
    "batch_matmul": "matmul",
    "conv1d": "conv",
    "conv2d": "conv",
    "conv2d_transpose": "conv_transpose",
    "conv3d": "conv",
    "dense": "linear",
    "leakyrelu": "leaky_relu",
    "max_pool2d": "max_pool",
    "transpose": "permute_dims",
}
"""What operators are called elsewhere, without the namespaces that they stand in there."""


def register(op: Op) -> Op:
    """Add a row to the operator table; a name is registered once."""
    if op.name in _OPS:
        raise InternalError(f"operator {op.name!r} is registered twice")
    _OPS[op.name] = op
    return op


def replace_op(op: Op) -> Op:
    """Add a row, in the place of one of this name where there is one."""
    _OPS[op.name] = op
    forget(infer_type)
    return op


def get_op(name: str) -> Op:
    """The operator called ``name``; raises TypeInferenceError with the nearest name if there is
    none."""
    try:
        return _OPS[name]
    except KeyError:
        last = name.rpartition(".")[2]
        known = OTHER_NAMES.get(last, last)
        hint = f" Here it is {known!r}." if known in _OPS else nearest(last, _OPS)
        raise TypeInferenceError(name, f"there is no such operator.{hint}") from None


def all_ops() -> dict[str, Op]:
    """Every registered operator by name."""
    return dict(_OPS)


def is_variadic(name: str) -> bool:
    """Whether there is an operator of this name that takes any number of operands."""
    return name in _OPS and _OPS[name].variadic


def type_of(value: Value) -> Type:
    """The type of an atom or of an operation."""
    if isinstance(value, (Var, Constant, ShapeExpr)):
        return value.type
    if isinstance(value, Tuple):
        return TupleType(tuple([type_of(f) for f in value.fields]))
    if isinstance(value, TupleGetItem):
        whole = type_of(value.value)
        if not isinstance(whole, TupleType) or not 0 <= value.index < len(whole.fields):
            raise TypeInferenceError(
                "tuple_get_item", f"index {value.index} of a value that has no such field."
            )
        return whole.fields[value.index]
    if isinstance(value, (CallDPS, CallDPSPacked, CallFunction)):
        return value.out_type
    if isinstance(value, Call):
        return infer_type(value)
    if isinstance(value, If):
        return type_of(value.true_branch.result)
    raise InternalError(f"type_of({type(value).__name__})")


def tensor_type_of(value: Value) -> TensorType:
    """The type of a value that is a tensor."""
    kind = type_of(value)
    assert isinstance(kind, TensorType)
    return kind


def folded_shape(dims: Sequence[ExprLike]) -> ShapeExpr:
    """Dims and numbers as a shape, folded."""
    return ShapeExpr(tuple([fold_dim(d) for d in dims]))


def reshaped(x: Atom, dims: Sequence[ExprLike]) -> Call:
    """``x`` under another shape, whose dims are folded."""
    return Call("reshape", (x, folded_shape(dims)))


@remembered
def infer_type(call: Call) -> Type:
    """The type of an operator call; checks arity and attribute names first. Passes and the verifier
    ask again and again."""
    op = get_op(call.op)
    least, most = len(op.params) - op.optional, len(op.params)
    if not op.variadic and not least <= len(call.args) <= most:
        expected = str(most) if least == most else f"{least} to {most}"
        named = [f"{key}=" for key in op.attrs] if len(call.args) > most else []
        raise TypeInferenceError(
            op.name,
            f"{len(call.args)} operands were given."
            + (f" What is no operand is given by name ({', '.join(named)})." if named else ""),
            f"{expected} ({', '.join(op.params)})",
            call.span,
        )
    for key, _ in call.attrs:
        if key not in op.attrs:
            raise TypeInferenceError(
                op.name, f"unknown attribute {key!r}.{nearest(key, op.attrs)}", span=call.span
            )
    for key, default in op.attrs.items():
        if default is REQUIRED and all(k != key for k, _ in call.attrs):
            raise TypeInferenceError(op.name, f"attribute {key!r} is missing.", span=call.span)
    return op.infer_type(call)


def attr(call: Call, key: str) -> Any:
    """An attribute of a call, or the operator's default."""
    for k, v in call.attrs:
        if k == key:
            return v
    return get_op(call.op).attrs[key]
