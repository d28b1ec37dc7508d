"""The row of Winograd's convolution: its kernel against NumPy, and the errors."""

from __future__ import annotations

import pytest

from burnish.graphir.expr import Call
from burnish.graphir.op import get_op
from burnish.tests.graphir.ops.kernel_cases import check_error, check_kernel, module_of

X, U = 'R.Tensor((2, 7, 6, 5), "float32")', 'R.Tensor((4, 4, 3, 5), "float32")'
V = 'R.Tensor((6, 6, 3, 5), "float32")'
BIAS, LONG = 'R.Tensor((3,), "float32")', 'R.Tensor((4,), "float32")'
SYMBOLIC = 'R.Tensor((2, "h", 6, 5), "float32")'
SHORT, SHORT_U = 'R.Tensor((2, 7, 6, 5), "int16")', 'R.Tensor((4, 4, 3, 5), "int16")'
HALF = 'R.Tensor((2, 7, 6, 5), "float16")'


@pytest.mark.parametrize(
    ("expression", "params"),
    [
        ("R.winograd_conv(x, u, padding=[1, 1, 1, 1], tile=2)", {"x": X, "u": U}),
        ("R.winograd_conv(x, u, b, padding=[0, 2, 1, 0], tile=2)", {"x": X, "u": U, "b": BIAS}),
        ("R.winograd_conv(x, u, b, padding=[1, 1, 1, 1], tile=4)", {"x": X, "u": V, "b": BIAS}),
        (
            "R.winograd_conv(x, u, padding=[1, 1, 1, 1], tile=2, pad_value=3.0)",
            {"x": SHORT, "u": SHORT_U},
        ),
    ],
)
def test_kernel_computes_what_the_operator_means(expression: str, params: dict[str, str]) -> None:
    check_kernel(expression, params)


@pytest.mark.parametrize(
    ("expression", "params", "message"),
    [
        ("R.winograd_conv(x, u, padding=[1, 1, 1, 1], tile=3)", {"x": X, "u": U}, "one of 2, 4"),
        (
            "R.winograd_conv(x, u, padding=[1, 1, 1, 1], tile=4)",
            {"x": X, "u": U},
            "a weight (6, 6, out, 5)",
        ),
        (
            "R.winograd_conv(x, u, padding=[1, 1], tile=2)",
            {"x": X, "u": U},
            "4 ints of at least 0",
        ),
        (
            "R.winograd_conv(x, u, b, padding=[1, 1, 1, 1], tile=2)",
            {"x": X, "u": U, "b": LONG},
            "bias (3,)",
        ),
        (
            "R.winograd_conv(x, u, padding=[1, 1, 1, 1], tile=2)",
            {"x": SYMBOLIC, "u": U},
            "the sizes are not static",
        ),
        (
            "R.winograd_conv(x, x, padding=[1, 1, 1, 1], tile=2)",
            {"x": HALF},
            "the operands are of float16",
        ),
        (
            "R.winograd_conv(x, u, padding=[1, 1, 1, 1], tile=4)",
            {"x": SHORT, "u": 'R.Tensor((6, 6, 3, 5), "int16")'},
            "tile=4 of int16",
        ),
        (
            "R.winograd_conv(x, u, b, padding=[1, 1, 1, 1], tile=2)",
            {"x": SHORT, "u": SHORT_U, "b": 'R.Tensor((3,), "int16")'},
            "tile=2 and a bias of int16",
        ),
        (
            "R.winograd_conv(x, u, padding=[0, 0, 0, 0], tile=2)",
            {"x": 'R.Tensor((2, 7, 2, 5), "float32")', "u": U},
            "a window does not fit",
        ),
    ],
)
def test_errors_name_the_operands(expression: str, params: dict[str, str], message: str) -> None:
    check_error(expression, params, message)


def test_it_takes_an_epilogue_as_a_convolution_does() -> None:
    module = module_of("R.winograd_conv(x, u, padding=[1, 1, 1, 1], tile=2)", x=X, u=U)
    (binding,) = module["main"].body.blocks[0].bindings  # type: ignore[union-attr]
    call = binding.value
    assert isinstance(call, Call)
    legalize = get_op("winograd_conv").legalize
    assert legalize is not None
    assert legalize(call).attr("op_pattern") == "out_fusable"
