"""BindSymbolicVars: names become numbers everywhere in a function."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.graphir.passes.bind_symbolic_vars import BindSymbolicVars
from burnish.graphir.text.parser import parse_module
from burnish.graphir.verify import verify_module
from burnish.support.errors import PassError
from burnish.support.structural import assert_structural_equal
from burnish.tests.graphir.reference import run

TEXT = """
from burnish.script import I, T, R

@I.ir_module
class Module:
    @R.function
    def other(x: R.Tensor(("n",))) -> R.Tensor(("n",)):
        lv = R.relu(x)
        return lv

    @R.function
    def main(x: R.Tensor(("n", "m")), y: R.Tensor(("n * m",))):
        lv = R.reshape(x, R.shape(["n * m"]))
        lv1 = R.call_dps_packed("env.add", (lv, y), R.Tensor(("n * m",), dtype="float32"))
        return lv1
"""


def test_names_become_numbers() -> None:
    module = verify_module(BindSymbolicVars({"n": 3, "m": 2}, "main")(parse_module(TEXT)))
    text = module.script()
    assert "x: R.Tensor((3, 2)" in text
    assert "R.shape([6])" in text
    assert 'R.Tensor((6,), dtype="float32")' in text
    assert 'def other(x: R.Tensor(("n",)' in text


def test_every_function_and_results() -> None:
    module = BindSymbolicVars({"n": 3})(parse_module(TEXT))
    x = np.asarray([-1, 0, 2], "float32")
    np.testing.assert_array_equal(run(module, "other", x), np.maximum(x, 0))
    assert 'x: R.Tensor((3, "m")' in module.script()


def test_nothing_to_bind_is_the_same_function() -> None:
    module = parse_module(TEXT)
    assert_structural_equal(BindSymbolicVars({})(module), module)


def test_a_name_that_is_no_dim() -> None:
    with pytest.raises(PassError, match=r"no parameter has a dim 'k'; found m, n"):
        BindSymbolicVars({"k": 3})(parse_module(TEXT))


@pytest.mark.parametrize("size", [-1, 2.5, True])
def test_what_is_no_size(size: object) -> None:
    with pytest.raises(PassError, match=rf"n cannot be {size!r}; expected a size"):
        BindSymbolicVars({"n": size})(parse_module(TEXT))  # type: ignore[dict-item]
