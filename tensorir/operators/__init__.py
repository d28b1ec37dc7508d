"""Operators as tensor expressions: functions from compute Tensors to compute Tensors. Nothing is
scheduled, nothing is named after a framework; ``create_prim_func`` makes a PrimFunc of the
result.
"""

from typing import NoReturn

from ...support.other_names import not_in_module
from .adaptive_pool import adaptive_pool
from .advanced_index import advanced_index
from .arg_extreme import argmax, argmin
from .attention import attention
from .conv import conv, conv_transpose
from .elementwise import (
    abs,
    acos,
    acosh,
    add,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    cast,
    ceil,
    clip,
    copysign,
    cos,
    cosh,
    divide,
    elu,
    equal,
    erf,
    erfc,
    exp,
    exp2,
    expm1,
    floor,
    floor_divide,
    floor_mod,
    fmod,
    gcd,
    gelu,
    greater,
    greater_equal,
    hard_sigmoid,
    hard_swish,
    hypot,
    isfinite,
    isinf,
    isnan,
    leaky_relu,
    less,
    less_equal,
    log,
    log1p,
    log2,
    log10,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    power,
    reciprocal,
    reinterpret,
    relu,
    round,
    rsqrt,
    shift_left,
    shift_right,
    sigmoid,
    sign,
    silu,
    sin,
    sinh,
    softplus,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    trunc,
    where,
)
from .im2col import im2col
from .index import gather_elements, take
from .matmul import integer_matmul, linear, matmul
from .norm import layer_norm
from .pad_edges import pad_edges
from .pool import avg_pool, max_pool
from .recurrent import recurrent
from .reduce import max, mean, min, prod, sum, variance
from .scaled_linear import scaled_linear
from .scan import cummax, cummin, cumprod, cumsum, last_match
from .scatter import scatter_elements, scatter_index
from .shape import (
    broadcast_to,
    concat,
    expand_dims,
    flatten,
    interleave,
    pad,
    permute_dims,
    reshape,
    squeeze,
    strided_slice,
    transpose,
)
from .softmax import log_softmax, softmax
from .sort import argsort
from .suppression import non_max_suppression
from .winograd import winograd_conv

__all__ = [
    "abs", "acos", "acosh", "adaptive_pool", "add", "advanced_index", "argmax", "argmin",
    "argsort", "asin", "asinh", "atan", "atan2", "atanh", "attention", "avg_pool",
    "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "broadcast_to", "cast", "ceil",
    "clip", "concat", "conv", "conv_transpose", "copysign", "cos", "cosh", "cummax", "cummin",
    "cumprod", "cumsum", "divide", "elu", "equal", "erf", "erfc", "exp", "exp2", "expand_dims",
    "expm1", "flatten",
    "floor", "floor_divide", "floor_mod", "fmod", "gather_elements", "gcd", "gelu",
    "greater",
    "greater_equal", "hard_sigmoid", "hard_swish", "hypot", "im2col", "integer_matmul",
    "interleave", "isfinite", "isinf", "isnan", "last_match", "layer_norm", "leaky_relu", "less",
    "less_equal", "linear", "log", "log1p", "log2", "log10", "log_softmax", "logical_and",
    "logical_not", "logical_or", "logical_xor", "matmul", "max", "max_pool", "maximum", "mean",
    "min", "minimum", "multiply",
    "negative", "non_max_suppression",
    "not_equal", "pad", "pad_edges", "permute_dims", "power", "prod", "reciprocal",
    "recurrent", "reinterpret", "relu", "reshape", "round", "rsqrt", "scaled_linear",
    "scatter_elements", "scatter_index",
    "shift_left", "shift_right", "sigmoid", "sign", "silu", "sin", "sinh", "softmax", "softplus",
    "sqrt", "square", "squeeze", "strided_slice", "subtract", "sum", "take", "tan", "tanh",
    "transpose", "trunc", "variance", "where", "winograd_conv",
]  # fmt: skip


_ELSEWHERE = {
    "arange": "te.compute((n,), lambda i: i)",
    "batch_matmul": "matmul, with transpose_b=True",
    "batch_norm": "R.batch_norm of a graph, or te.compute",
    "bias_add": "add, of a bias of shape (1, channels, 1, 1)",
    "concatenate": "concat",
    "conv2d": "conv",
    "conv2d_nchw": "conv",
    "dense": "linear",
    "elemwise_sum": "add",
    "full": "te.compute(shape, lambda *i: te.const(value, dtype))",
    "full_like": "te.compute(shape, lambda *i: te.const(value, dtype))",
    "gather": "gather_elements",
    "global_pool": "mean, over the axes of the image",
    "group_norm": "R.group_norm of a graph, or te.compute",
    "image": "R.resize2d of a graph",
    "ones": "te.compute(shape, lambda *i: te.const(1, dtype))",
    "pool2d": "max_pool or avg_pool",
    "rms_norm": "R.rms_norm of a graph, or te.compute",
    "split": "strided_slice, once for each part",
    "stack": "concat, of expand_dims",
    "tag": "te.tag_scope",
    "testing": "numpy",
    "tile": "R.tile of a graph, or te.compute",
    "x86": "burnish.build, which chooses schedules",
    "zeros": "te.compute(shape, lambda *i: te.const(0, dtype))",
}
"""Names of TVM's topi and topi.nn that are none here, and what does it."""


def __getattr__(name: str) -> NoReturn:
    if name == "nn":
        words = (
            "topi has no 'nn'. Its functions stand here: topi.relu, topi.softmax; dense is linear."
        )
        raise AttributeError(words)
    raise not_in_module("burnish.topi", name, _ELSEWHERE.get(name))
