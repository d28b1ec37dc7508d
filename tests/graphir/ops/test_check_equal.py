"""check_equal: calls whose sizes an operator cannot take are refused before any kernel."""

from __future__ import annotations

import numpy as np
import pytest

import burnish
from burnish.script import I, R
from burnish.support.errors import ParseError, ShapeMismatchError


@I.ir_module
class Checked:
    @R.function
    def main(
        x: R.Tensor(("n",), dtype="float32"), y: R.Tensor(("m",), dtype="float32")
    ) -> R.Tensor(("n",), dtype="float32"):
        with R.dataflow():
            s = R.check_equal(R.shape(["n", "m + 1"]))  # noqa: F841
            z = R.add(x, x)
            R.output(z)
        return z


def test_sizes_are_compared_at_the_call() -> None:
    model = burnish.compile(Checked)
    x = np.ones(3, np.float32)
    np.testing.assert_array_equal(model(x, x[:2]), x + x)
    with pytest.raises(ShapeMismatchError, match=r"n == m \+ 1, got n = 3, m = 3"):
        model(x, x)
    assert "R.check_equal(R.shape([" in str(model.script())


def test_it_takes_two_sizes() -> None:
    with pytest.raises(ParseError, match="Expected two"):

        @I.ir_module
        class One:
            @R.function
            def main(x: R.Tensor(("n",), dtype="float32")) -> R.Tensor(("n",), dtype="float32"):
                with R.dataflow():
                    s = R.check_equal(R.shape(["n"]))  # noqa: F841
                    z = R.add(x, x)
                    R.output(z)
                return z
