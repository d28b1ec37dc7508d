"""Recurrent layers: the unscheduled function against NumPy in float64, and its text."""

from __future__ import annotations

import numpy as np
import pytest

from burnish import te
from burnish.support.errors import ComputeError
from burnish.support.structural import structural_equal
from burnish.tensorir import operators as op
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.verify.laws import verify_func
from burnish.tensorir.verify.regions import verify_regions
from burnish.tests.native import call_native
from burnish.tests.recurrent_reference import GATES, operands, recurrent


def function(cell: str, rows: int, units: int, dtype: str = "float32") -> PrimFunc:
    """Of any number of steps."""
    arrays = operands(cell, 1, rows, units, dtype)
    shapes = [(te.var("t"), *arrays[0].shape[1:]), *[a.shape for a in arrays[1:]]]
    tensors = [te.placeholder(s, dtype, name=f"x{i}") for i, s in enumerate(shapes)]
    return op.recurrent(*tensors, cell=cell)


@pytest.mark.parametrize("cell", GATES)
@pytest.mark.parametrize(("steps", "rows", "units"), [(4, 3, 5), (1, 1, 1), (0, 2, 3), (9, 1, 16)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_states_of_all_steps(cell: str, steps: int, rows: int, units: int, dtype: str) -> None:
    func = function(cell, rows, units, dtype)
    verify_regions(verify_func(func))
    assert structural_equal(parse_func(func.script()), func)
    given = operands(cell, steps, rows, units, dtype)
    expected = recurrent(*[x.astype("float64") for x in given], cell=cell)
    found = np.full(expected.shape, 77, dtype)
    call_native(func, *given, found, dims=[steps])
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("cell", GATES)
def test_what_is_no_number_stays_in_its_row(cell: str) -> None:
    given = operands(cell, 3, 2, 4)
    given[0][1, 0, 0] = np.nan
    func = function(cell, 2, 4)
    found = np.zeros((4, given[1].shape[0], 2, 4), np.float32)
    call_native(func, *given, found, dims=[3])
    assert np.isfinite(found[:, :, 1]).all()
    assert np.isfinite(found[:2]).all()
    assert np.isnan(found[3, 0, 0]).all()


def test_an_operand_of_the_new_state_is_a_grus() -> None:
    x, s, w = (te.placeholder(s, name=n) for s, n in (((2, 1, 4), "x"), ((2, 1, 1), "s"),
                                                        ((1, 4), "w")))  # fmt: skip
    with pytest.raises(ComputeError, match="an operand of the new state is for a GRU"):
        op.recurrent(x, s, w, te.placeholder((1,), name="b"), cell="lstm")
