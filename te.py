"""Tensor expressions under the name programs know them by: ``from burnish import te``.

Names only; the definitions are in ``tensorir.te``, ``tensorir.stage_schedule`` and
``tensorir.intrinsics``. ``max``, ``min``, ``sum``, ``abs``, ``pow``, ``round``, ``all`` and ``any``
hide Python's builtins, as users of ``te.`` expect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from .support.dtype import DType
from .support.other_names import not_in_module
from .tensorir.expr import (
    Equality,
    Expr,
    ExprLike,
    ExternCall,
    Select,
    all_of,
    as_expr,
    floordiv,
    floormod,
    logical_and,
    logical_not,
)
from .tensorir.expr import cast as _cast
from .tensorir.expr import div as div
from .tensorir.expr import logical_or as logical_or
from .tensorir.expr import max_value as _max_value
from .tensorir.expr import maximum as maximum
from .tensorir.expr import min_value as _min_value
from .tensorir.expr import minimum as minimum
from .tensorir.intrinsics import call_intrin, intrinsic
from .tensorir.stages.stage import Stage, StageAxis, ThreadAxis, thread_axis
from .tensorir.stages.stage_schedule import StageSchedule, create_schedule
from .tensorir.te.compute import (
    ComputeOp,
    ReduceAxis,
    Tensor,
    TensorSlice,
    comm_reducer,
    compute,
    create_prim_func,
    max,
    min,
    placeholder,
    prod,
    reduce_axis,
    sum,
    tag_scope,
    var,
)
from .tensorir.te.reducers import CommReducer

size_var = var
truncdiv = div
indexdiv, indexmod = floordiv, floormod
Schedule = StageSchedule


def _function(name: str) -> Callable[..., Expr]:
    def function(*args: ExprLike) -> Expr:
        return call_intrin(name, *args)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{intrinsic(name).doc}."
    return function


acos = _function("acos")
acosh = _function("acosh")
asin = _function("asin")
asinh = _function("asinh")
atanh = _function("atanh")
cosh = _function("cosh")
exp = _function("exp")
exp2 = _function("exp2")
expm1 = _function("expm1")
log = _function("log")
log2 = _function("log2")
log10 = _function("log10")
log1p = _function("log1p")
sqrt = _function("sqrt")
rsqrt = _function("rsqrt")
tanh = _function("tanh")
erf = _function("erf")
sigmoid = _function("sigmoid")
sin = _function("sin")
sinh = _function("sinh")
cos = _function("cos")
tan = _function("tan")
atan = _function("atan")
atan2 = _function("atan2")
floor = _function("floor")
ceil = _function("ceil")
nearbyint = round = _function("round")
trunc = _function("trunc")
abs = _function("abs")
pow = power = _function("pow")
fmod = _function("fmod")
copysign = _function("copysign")
isnan = _function("isnan")
isinf = _function("isinf")
isfinite = _function("isfinite")
fma = _function("fma")
if_then_else = _function("if_then_else")


def cast(value: ExprLike, dtype: str) -> Expr:
    """``value`` converted to ``dtype``."""
    return _cast(as_expr(value), dtype)


def truncmod(a: ExprLike, b: ExprLike) -> Expr:
    """The remainder of ``truncdiv``, which has the sign of ``a``."""
    return as_expr(a) - div(a, b) * b


def call_extern(dtype: str, symbol: str, *args: ExprLike) -> Expr:
    """What a function of C gives for scalars; its code comes with ``burnish.build(..., symbols=,
    objects=)``, or LLVM IR with the pragma ``import_llvm``."""
    return ExternCall(symbol, tuple([as_expr(a) for a in args]), DType(dtype))


def const(value: float | bool, dtype: str | None = None) -> Expr:
    """A constant of ``dtype``; without one float32, int64 or bool after its Python type."""
    return as_expr(value, dtype)


def select(condition: ExprLike, true_value: Expr, false_value: Expr) -> Expr:
    """``true_value`` where ``condition``, else ``false_value``; both are evaluated."""
    return Select(as_expr(condition), true_value, false_value)


def all(*conditions: Expr | Equality) -> Expr:
    """Whether all of the conditions hold."""
    return all_of(conditions)


def any(*conditions: Expr | Equality) -> Expr:
    """Whether one of the conditions holds."""
    result: Expr = const(False, "bool")
    for c in conditions:
        result = logical_or(result, c)
    return result


def min_value(dtype: str) -> Expr:
    """The least value of a dtype (minus infinity of a float): the identity of a maximum."""
    return _min_value(DType(dtype))


def max_value(dtype: str) -> Expr:
    """The largest value of a dtype (infinity of a float): the identity of a minimum."""
    return _max_value(DType(dtype))


_ELSEWHERE = {
    "decl_tensor_intrin": "burnish.TensorIntrin, used by tensorize of burnish.Schedule",
    "extern": "a T.prim_func of burnish.script, or burnish.register_func between kernels",
    "extern_primfunc": "a T.prim_func of burnish.script",
    "gradient": "nothing: functions are compiled as they are",
    "hybrid": "a T.prim_func of burnish.script",
    "logaddexp": "te.log1p(te.exp(-te.abs(a - b))) + te.maximum(a, b)",
    "shift_left": "T.shift_left in text",
    "shift_right": "T.shift_right in text",
    "subtract": "burnish.topi.subtract of tensors, and - of expressions",
    "tensor": "Tensor",
    "trace": "burnish.register_func between kernels",
    "Shuffle": "a T.prim_func of burnish.script",
    "TensorComputeOp": "burnish.TensorIntrin, used by tensorize of burnish.Schedule",
    "add": "burnish.topi.add of tensors, and + of expressions",
    "bitwise_and": "&, and | and ^ beside it, or T.bitwise_and in text",
    "clz": "T.clz in text",
    "create_relax_prim_func": "create_prim_func",
    "divide": "burnish.topi.divide of tensors, and / of expressions",
    "multiply": "burnish.topi.multiply of tensors, and * of expressions",
    "popcount": "T.popcount in text",
    "q_multiply_shift": "integer arithmetic in int64, with a shift",
    "reinterpret": "T.reinterpret in text",
    "scan": "a T.prim_func of burnish.script, with an opaque axis for the order of its steps",
}
"""Names of TVM's te that are none here, and what does it."""


def __getattr__(name: str) -> NoReturn:
    raise not_in_module("burnish.te", name, _ELSEWHERE.get(name))


__all__ = [
    "CommReducer", "ComputeOp", "ReduceAxis", "Schedule", "Stage", "StageAxis", "StageSchedule",
    "Tensor", "TensorSlice", "ThreadAxis", "abs", "acos", "acosh", "all", "any", "asin", "asinh",
    "atan", "atan2", "atanh", "call_extern", "cast", "ceil", "comm_reducer", "compute", "const",
    "copysign", "cos", "cosh", "create_prim_func", "create_schedule", "div", "erf", "exp", "exp2",
    "expm1", "floor", "floordiv", "floormod", "fma", "fmod", "if_then_else", "indexdiv", "indexmod",
    "isfinite", "isinf", "isnan", "log", "log1p", "log2", "log10", "logical_and", "logical_not",
    "logical_or", "max", "max_value", "maximum", "min", "min_value", "minimum", "nearbyint",
    "placeholder", "pow", "power", "prod", "reduce_axis", "round", "rsqrt", "select", "sigmoid",
    "sin", "sinh", "size_var", "sqrt", "sum", "tag_scope", "tan", "tanh", "thread_axis", "trunc",
    "truncdiv", "truncmod", "var",
]  # fmt: skip
