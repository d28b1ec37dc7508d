"""Rows that move elements: every kernel against NumPy, and the errors."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.graphir.text.printer import format_type
from burnish.tests.graphir.ops.kernel_cases import X, Y, check_error, check_kernel, module_of
from burnish.tests.graphir.reference import run

CASES: list[tuple[str, dict[str, str]]] = [
    *[
        (f"R.{name}(x)", {"x": k})
        for name in ("squeeze", "flatten", "permute_dims")
        for k in (X, Y)
    ],
    ("R.reshape(x, R.shape([3, 2]))", {"x": X}),
    ("R.reshape(x, R.shape([-1]))", {"x": Y}),
    ("R.flatten(x, start_dim=1)", {"x": 'R.Tensor(("m", 2, 3))'}),
    ("R.squeeze(x, axis=1)", {"x": 'R.Tensor(("m", 1, 3))'}),
    ("R.expand_dims(x, axis=[0, -1])", {"x": Y}),
    ("R.permute_dims(x, axes=[1, 2, 0])", {"x": 'R.Tensor((2, 3, "m"))'}),
    ('R.broadcast_to(x, R.shape(["m", 2, 3]))', {"x": "R.Tensor((2, 1))", "z": Y}),
    ("R.concat(a, b, axis=1)", {"a": Y, "b": Y}),
    ("R.concat(a, b)", {"a": Y, "b": X}),
    ("R.interleave(a, b, a)", {"a": Y, "b": Y}),
    ("R.interleave(a)", {"a": X}),
    ("R.strided_slice(x, axes=[1], begin=[0], end=[3], strides=[2])", {"x": Y}),
    ("R.strided_slice(x, axes=[0, 1], begin=[-1, None], end=[None, -1])", {"x": X}),
    ("R.strided_slice(x, axes=[1], begin=[2], end=[None], strides=[-1])", {"x": X}),
    ("R.pad(x, pad_width=[0, 1, 2, 0], pad_value=7.0)", {"x": X}),
    ("R.pad(x, pad_width=[1, 0, 0, 0])", {"x": Y}),
]


@pytest.mark.parametrize(("expression", "params"), CASES)
def test_kernel_computes_what_the_operator_means(expression: str, params: dict[str, str]) -> None:
    check_kernel(expression, params)


ERRORS: list[tuple[str, dict[str, str], str]] = [
    (
        "R.reshape(x, R.shape([4, 2]))",
        {"x": X},
        "(4, 2) is not proved to have the operand's 6 elements",
    ),
    ("R.reshape(x, R.shape([-1, -1]))", {"x": X}, "more than one -1"),
    (
        "R.reshape(x, R.shape([-1, 2]))",
        {"x": Y},
        "m * 3 elements are not proved to divide into (-1, 2)",
    ),
    ("R.reshape(x, x)", {"x": X}, "operand shape is no shape"),
    ("R.squeeze(x, axis=0)", {"x": X}, "dim 0 is 2"),
    ("R.permute_dims(x, axes=[0, 0])", {"x": X}, "names an axis twice"),
    ("R.broadcast_to(x, R.shape([2, 4]))", {"x": X}, "cannot become (2, 4)"),
    ("R.broadcast_to(x, R.shape([-1, 3]))", {"x": "R.Tensor((1, 3))"}, "cannot become (-1, 3)"),
    (
        "R.concat(a, b)",
        {"a": X, "b": "R.Tensor((2, 4))"},
        "(2, 4) float32 does not join along axis 0",
    ),
    ("R.interleave(a, b)", {"a": X, "b": "R.Tensor((2, 4))"}, "(2, 4) float32 beside (2, 3)"),
    ("R.interleave(a)", {"a": "R.Tensor(())"}, "tensors of one shape, with an axis"),
    (
        "R.strided_slice(x, axes=[0], begin=[1], end=[2])",
        {"x": Y},
        "axis 0 has the symbolic size m",
    ),
    ("R.pad(x, pad_width=[1])", {"x": X}, "pad_width=[1]"),
]


@pytest.mark.parametrize(("expression", "params", "message"), ERRORS)
def test_errors_name_operands_shapes_and_dtypes(
    expression: str, params: dict[str, str], message: str
) -> None:
    check_error(expression, params, message)


@pytest.mark.parametrize(
    ("begin", "end", "size"),
    [(0, None, "m"), (2, None, "m - 2"), (0, -1, "m - 1"), (2, -3, "m - 5")],
)
def test_of_a_symbolic_axis_both_ends_can_be_left_out(
    begin: int, end: int | None, size: str
) -> None:
    module = module_of(f"R.strided_slice(x, axes=[0], begin=[{begin}], end=[{end}])", x=Y)
    assert format_type(module["main"].ret_type) == f'R.Tensor(("{size}", 3), dtype="float32")'  # type: ignore[union-attr]
    array = np.arange(24.0, dtype="float32").reshape(8, 3)
    np.testing.assert_array_equal(run(module, "main", array), array[begin:end])
