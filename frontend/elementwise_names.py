"""What torch and ONNX call the elementwise operators that either of them has under a name of its
own: those of floats without attributes, and in ONNX of any dtype.

A row is the operator's name, its name in ``aten`` and that in ONNX; "" where there is none, or
where the front end has a converter of its own for it. Both front ends make their converters of this
table.
"""

from __future__ import annotations

NAMES: dict[str, tuple[str, str]] = {
    "abs": ("", "Abs"),
    "acos": ("acos", "Acos"),
    "acosh": ("acosh", "Acosh"),
    "asin": ("asin", "Asin"),
    "asinh": ("asinh", "Asinh"),
    "atan": ("atan", "Atan"),
    "atan2": ("atan2", ""),
    "atanh": ("atanh", "Atanh"),
    "bitwise_and": ("", "BitwiseAnd"),
    "bitwise_not": ("", "BitwiseNot"),
    "bitwise_or": ("", "BitwiseOr"),
    "bitwise_xor": ("", "BitwiseXor"),
    "ceil": ("", "Ceil"),
    "cos": ("cos", "Cos"),
    "cosh": ("cosh", "Cosh"),
    "erf": ("erf", "Erf"),
    "erfc": ("erfc", ""),
    "exp": ("exp", "Exp"),
    "exp2": ("exp2", ""),
    "expm1": ("expm1", ""),
    "floor": ("", "Floor"),
    "hard_sigmoid": ("hardsigmoid", ""),
    "hard_swish": ("hardswish", "HardSwish"),
    "hypot": ("hypot", ""),
    "isnan": ("", "IsNaN"),
    "log": ("log", "Log"),
    "log10": ("log10", ""),
    "log1p": ("log1p", ""),
    "log2": ("log2", ""),
    "logical_not": ("", "Not"),
    "mish": ("mish", "Mish"),
    "negative": ("", "Neg"),
    "reciprocal": ("reciprocal", "Reciprocal"),
    "relu": ("", "Relu"),
    "round": ("", "Round"),
    "rsqrt": ("rsqrt", ""),
    "sigmoid": ("sigmoid", "Sigmoid"),
    "sign": ("", "Sign"),
    "silu": ("silu", ""),
    "sin": ("sin", "Sin"),
    "sinh": ("sinh", "Sinh"),
    "softplus": ("", "Softplus"),
    "sqrt": ("sqrt", "Sqrt"),
    "tan": ("tan", "Tan"),
    "tanh": ("tanh", "Tanh"),
}
TORCH = {torch: ours for ours, (torch, _) in NAMES.items() if torch}
ONNX = {onnx: ours for ours, (_, onnx) in NAMES.items() if onnx}
