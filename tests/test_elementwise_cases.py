"""Every row of the table of elementwise operators, against the numerics table: as a function of
tensors, in half precision, and as an operator of graphs. The names that torch and ONNX have for
them are tested in ``tests/frontend/test_elementwise_names.py``."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.graphir.op import get_op
from burnish.tensorir.operators.elementwise import ELEMENTWISE, ElementwiseOperator
from burnish.tensorir.te.compute import create_prim_func, placeholder
from burnish.tests.elementwise_cases import NUMPY, meaning
from burnish.tests.graphir.ops.kernel_cases import B, N, X, check_kernel
from burnish.tests.native import call_native

VALUES = np.array([-3.5, -2.0, -1.0, -0.5, -0.25, -0.0, 0.0, 0.25, 0.75, 1.0, 1.5, 2.5, 7.0])
ROWS = list(ELEMENTWISE.values())
OPERANDS = {"float": X, "int": N, "bool": B}
CASES = [
    (f"R.{row.name}({', '.join(row.params)})", dict.fromkeys(row.params, operand))
    for row in ROWS
    for kind, operand in OPERANDS.items()
    if kind in row.kinds
]
"""A call of each row with each kind of operands."""
OF_FLOATS = [row for row in ROWS if "float" in row.kinds]


def computed(row: ElementwiseOperator, *arrays: np.ndarray) -> np.ndarray:
    inputs = [
        placeholder(x.shape, str(x.dtype), name) for x, name in zip(arrays, row.params, strict=True)
    ]
    func = create_prim_func([*inputs, row.function(*inputs)])
    found = np.empty(arrays[0].shape, "bool" if row.gives_bool else arrays[0].dtype)
    call_native(func, *arrays, found)
    return found


def operands(row: ElementwiseOperator, dtype: str) -> list[np.ndarray]:
    """Every value, or every pair of values."""
    made = np.meshgrid(VALUES, VALUES) if len(row.params) == 2 else [VALUES]
    return [np.ascontiguousarray(x.astype(dtype)) for x in made]


@pytest.mark.parametrize("row", OF_FLOATS, ids=lambda row: row.name)
def test_floats_mean_what_numpy_says(row: ElementwiseOperator) -> None:
    for dtype, tolerance in (("float32", 3e-6), ("float64", 1e-12)):
        inputs = operands(row, dtype)
        with np.errstate(all="ignore"):
            expected = meaning(row.name)(*[x.astype("float64") for x in inputs])
        found = computed(row, *inputs)
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance / 10)


@pytest.mark.parametrize("row", OF_FLOATS, ids=lambda row: row.name)
def test_half_precision_is_rounded_once(row: ElementwiseOperator) -> None:
    inputs = operands(row, "float16")
    single = computed(row, *[x.astype("float32") for x in inputs])
    with np.errstate(all="ignore"):
        expected = single if row.gives_bool else single.astype("float16")
    np.testing.assert_array_equal(computed(row, *inputs), expected)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_graph_has_the_row(row: ElementwiseOperator) -> None:
    assert get_op(row.name).is_elementwise
    assert row.function.__doc__


@pytest.mark.parametrize(("expression", "params"), CASES)
def test_kernel_computes_what_the_operator_means(expression: str, params: dict[str, str]) -> None:
    check_kernel(expression, params)


def test_the_numerics_table_has_nothing_else() -> None:
    assert set(NUMPY) <= set(ELEMENTWISE)
