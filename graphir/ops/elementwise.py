"""Rows of the elementwise operators: those of the table ``ELEMENTWISE`` of
``tensorir/operators/elementwise.py``, and those with attributes.

Operands of one call have one dtype: no row promotes. ``divide`` of integers truncates, as in C;
``floor_divide`` and ``floor_mod`` round towards minus infinity; comparisons and logic give bool.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...support.dtype import DType
from ...support.errors import TypeInferenceError
from ...tensorir.operators.elementwise import (
    BITS,
    BOOLS,
    ELEMENTWISE,
    FLOATS,
    INTEGERS,
    NUMBERS,
)
from ..expr import Call
from ..op import REQUIRED, Op, attr, register
from ..type import TensorType, Type
from .operands import (
    broadcast,
    by_operator,
    fail,
    require_float,
    same_as_first,
    same_dtype,
    tensor,
    tensors,
)

BOOL = DType("bool")
_OTHER_KINDS = {
    NUMBERS: ("arithmetic needs numbers", "float or integer operands"),
    BITS: ("this operator works on bits", "integer operands"),
    INTEGERS: ("this operator works on bits", "integer operands"),
    BOOLS: ("logic needs bools", "bool operands"),
}
"""What is wrong, and what is expected, where operands are of none of these kinds."""


def _check_kinds(call: Call, found: list[TensorType], kinds: tuple[str, ...]) -> None:
    if kinds == FLOATS:
        require_float(call, found)
    elif not all(k.dtype.kind in kinds for k in found):
        raise fail(call, *_OTHER_KINDS[kinds])


def _of_row(call: Call) -> Type:
    """The rule of the table's operators."""
    row, found = ELEMENTWISE[call.op], tensors(call)
    _check_kinds(call, found, row.kinds)
    dtype = same_dtype(call, found)
    return TensorType(broadcast(call, found), BOOL if row.gives_bool else dtype)


def _gelu(call: Call) -> Type:
    if attr(call, "approximate") not in ("none", "tanh"):
        raise fail(call, f"approximate={attr(call, 'approximate')!r}", "'none' or 'tanh'")
    return same_as_first(call)


def _register(op: Op) -> None:
    register(replace(op, is_elementwise=True))


for _row in ELEMENTWISE.values():
    _register(Op(_row.name, _row.params, _of_row, by_operator()))
_register(Op("gelu", ("x",), _gelu, by_operator(), {"approximate": "none"}))
_register(Op("leaky_relu", ("x",), same_as_first, by_operator(), {"negative_slope": 0.01}))
_register(Op("elu", ("x",), same_as_first, by_operator(), {"alpha": 1.0}))


# -- where, cast, clip -------------------------------------------------------------------------
def _where(call: Call) -> Type:
    condition, x, y = tensors(call)
    if not condition.dtype.is_bool:
        raise fail(call, "the condition is no bool tensor", "a bool condition")
    dtype = same_dtype(call, [x, y])
    return TensorType(broadcast(call, [condition, x, y]), dtype)


def _astype(call: Call) -> Type:
    dtype = attr(call, "dtype")
    if not isinstance(dtype, str):
        raise TypeInferenceError(call.op, f"dtype={dtype!r}.", "the name of a dtype", call.span)
    return TensorType(tensor(call, 0).shape, DType(dtype))


def _reinterpret(call: Call) -> Type:
    kind, dtype = tensor(call, 0), DType(attr(call, "dtype"))
    if dtype.bits != kind.dtype.bits or "bool" in (dtype, kind.dtype):
        raise fail(call, f"dtype={dtype!r}", "a dtype of the same width, other than bool")
    return TensorType(kind.shape, dtype)


def _clip(call: Call) -> Type:
    low, high = attr(call, "min"), attr(call, "max")
    if low is None and high is None:
        raise fail(call, "neither min nor max is given", "at least one bound")
    kind = tensor(call, 0)
    _check_kinds(call, [kind], NUMBERS)
    return kind


def _fold_where(call: Call, arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.where(*arrays)


_register(Op("where", ("condition", "x", "y"), _where, by_operator(), fold=_fold_where))
_register(Op("astype", ("x",), _astype, by_operator("cast"), {"dtype": REQUIRED}))
_register(Op("reinterpret", ("x",), _reinterpret, by_operator(), {"dtype": REQUIRED}))
_register(Op("clip", ("x",), _clip, by_operator(), {"min": None, "max": None}))
