"""Rows of convolutions and pooling: every kernel against NumPy, result shapes, and the errors."""

from __future__ import annotations

import pytest

from burnish.tests.graphir.ops.kernel_cases import check_error, check_kernel

X, L = 'R.Tensor((2, 4, 7, 6), "float32")', 'R.Tensor((2, 7, 6, 4), "float32")'
S = 'R.Tensor(("n", 4, "h", 6), "float32")'
N = 'R.Tensor(("n", 4, 7, 6), "float32")'
W, D, G = (f'R.Tensor({s}, "float32")' for s in ("(3, 4, 3, 2)", "(4, 1, 3, 3)", "(6, 2, 3, 3)"))
BIAS = 'R.Tensor((3,), "float32")'
PLAIN = "strides=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1]"
WIDE = "strides=[2, 1], padding=[1, 1, 0, 2], dilation=[1, 2]"

CASES: list[tuple[str, dict[str, str]]] = [
    (f"R.conv(x, w, {PLAIN})", {"x": X, "w": W}),
    (f"R.conv(x, w, {PLAIN})", {"x": N, "w": W}),
    (f"R.conv(x, w, b, {WIDE})", {"x": X, "w": W, "b": BIAS}),
    (f"R.conv(x, w, b, {WIDE}, channels_last=True)", {"x": L, "w": W, "b": BIAS}),
    (f"R.conv(x, w, {WIDE}, out_channels_last=True)", {"x": X, "w": W}),
    (f"R.conv(x, w, {PLAIN}, groups=4)", {"x": X, "w": D}),
    (f"R.conv(x, w, {PLAIN}, groups=2)", {"x": X, "w": G}),
    (f"R.im2col(x, kernel=[3, 2], {WIDE}, pad_value=2.0)", {"x": L}),
    (
        "R.conv_transpose(x, w, strides=[2, 1], padding=[1, 0, 0, 1], dilation=[1, 2], "
        "output_padding=[1, 0])",
        {"x": X, "w": 'R.Tensor((4, 3, 3, 2), "float32")'},
    ),
    (
        "R.max_pool(x, kernel=[3, 2], strides=[2, 2], padding=[1, 1, 0, 0], dilation=[1, 1])",
        {"x": X},
    ),
    (
        "R.max_pool(x, kernel=[2, 2], strides=[2, 2], padding=[0, 0, 0, 0], dilation=[1, 1], "
        "ceil_mode=True, channels_last=True)",
        {"x": L},
    ),
    ("R.avg_pool(x, kernel=[3, 3], strides=[2, 2], padding=[1, 1, 1, 1])", {"x": X}),
    (
        "R.avg_pool(x, kernel=[3, 3], strides=[2, 2], padding=[1, 1, 1, 1], "
        "count_include_pad=False, ceil_mode=True)",
        {"x": X},
    ),
    ("R.adaptive_pool(x, output_size=[1, 1], mode='avg')", {"x": S}),
    ("R.adaptive_pool(x, output_size=[3, 2], mode='avg')", {"x": X}),
    ("R.adaptive_pool(x, output_size=[3, 2], mode='max', channels_last=True)", {"x": L}),
]


@pytest.mark.parametrize(("expression", "params"), CASES)
def test_kernel_computes_what_the_operator_means(expression: str, params: dict[str, str]) -> None:
    check_kernel(expression, params)


ERRORS: list[tuple[str, dict[str, str], str]] = [
    (f"R.im2col(x, kernel=[9, 2], {PLAIN})", {"x": L}, "a window does not fit"),
    (f"R.conv(x, w, {PLAIN})", {"x": X, "w": D}, "x has 4 channels, and w takes 1 in each of 1"),
    (f"R.conv(x, w, {PLAIN}, groups=3)", {"x": X, "w": D}, "an int that divides the channels"),
    (f"R.conv(x, w, b, {PLAIN})", {"x": X, "w": W, "b": G}, "the bias does not fit"),
    (f"R.conv(x, w, {PLAIN})", {"x": L, "w": W}, "x has 7 channels"),
    (f"R.conv(x, w, {PLAIN})", {"x": BIAS, "w": W}, "1 to 3 spatial dims"),
    (f"R.conv(x, w, {PLAIN})", {"x": X, "w": BIAS}, "the ranks of x and w differ"),
    ("R.conv(x, w, strides=[1], padding=[0], dilation=[1])", {"x": X, "w": W}, "2 ints of at leas"),
    (f"R.conv(x, w, {PLAIN})", {"x": 'R.Tensor((1, 4, 2, 2), "float32")', "w": W}, "does not fit"),
    (f"R.conv(x, w, {PLAIN}, out_dtype='float64')", {"x": X, "w": W}, "out_dtype='float64' of op"),
    (
        f"R.conv(x, w, b, {PLAIN}, out_dtype='float32')",
        {
            "x": X.replace("float32", "bfloat16"),
            "w": W.replace("float32", "bfloat16"),
            "b": BIAS.replace("float32", "bfloat16"),
        },
        "a bias of float32",
    ),
    (
        "R.max_pool(x, kernel=[2, 2], strides=[1, 1], padding=[2, 0, 0, 0], dilation=[1, 1])",
        {"x": X},
        "less than the kernel",
    ),
    ("R.adaptive_pool(x, output_size=[2, 1], mode='avg')", {"x": S}, "symbolic spatial dims"),
    ("R.adaptive_pool(x, output_size=[1, 1], mode='sum')", {"x": X}, "avg or max"),
    (
        "R.conv_transpose(x, w, strides=[1, 1], padding=[9, 0, 0, 0], dilation=[1, 1], "
        "output_padding=[0, 0])",
        {"x": X, "w": 'R.Tensor((4, 3, 3, 2), "float32")'},
        "at most (kernel - 1) * dilation",
    ),
]


@pytest.mark.parametrize(("expression", "params", "message"), ERRORS)
def test_errors_name_operands_shapes_and_dtypes(
    expression: str, params: dict[str, str], message: str
) -> None:
    check_error(expression, params, message)
