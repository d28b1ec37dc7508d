"""Variables of main as results, and given from outside."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.graphir.expose_values import exposable_values, expose_values
from burnish.graphir.module import IRModule
from burnish.graphir.verify import verify_module
from burnish.script import I, R
from burnish.support.errors import BurnishError
from burnish.tests.graphir.reference import run


@I.ir_module
class Chain:
    @R.function
    def main(x: R.Tensor(("n", 2), dtype="float32")) -> R.Tensor(("n", 2), dtype="float32"):
        with R.dataflow():
            a = R.negative(x)
            b = R.exp(a)
            c = R.add(a, b)
            R.output(c)
        return c


def test_every_value_comes_out() -> None:
    module: IRModule = Chain
    assert [v.name for v in exposable_values(module)] == ["a", "b", "c"]
    exposed = expose_values(module, ["a", "c"])
    verify_module(exposed)
    x = np.float32([[1, -2]])
    a, c = run(exposed, "main", x)
    np.testing.assert_array_equal(a, -x)
    np.testing.assert_allclose(c, -x + np.exp(-x), rtol=1e-6)
    assert [v.name for v in exposable_values(module)] == ["a", "b", "c"]  # it is as it was


def test_a_given_value_is_read_in_place_of_the_computed_one() -> None:
    exposed = expose_values(Chain, ["a", "b", "c"], ["a"])
    verify_module(exposed)
    assert [p.name for p in exposed["main"].params] == ["x", "a_given"]
    x, given = np.float32([[1, -2]]), np.float32([[0, 5]])
    a, b, c = run(exposed, "main", x, given)
    np.testing.assert_array_equal(a, -x)
    np.testing.assert_allclose(b, np.exp(given), rtol=1e-6)
    np.testing.assert_allclose(c, given + np.exp(given), rtol=1e-6)


def test_names_that_main_does_not_bind() -> None:
    with pytest.raises(BurnishError, match="'z'"):
        expose_values(Chain, ["z"])
