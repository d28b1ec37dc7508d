"""BindParams: values in, errors for what does not fit."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.graphir.expr import constant
from burnish.graphir.passes.bind_params import BindParams
from burnish.graphir.text.parser import parse_module
from burnish.graphir.verify import verify_module
from burnish.support.errors import DTypeMismatchError, PassError, ShapeMismatchError
from burnish.tests.graphir.reference import run

MODULE = parse_module(
    '@R.function\ndef main(x: R.Tensor(("m", 2)), w: R.Tensor((3, 2)), b: R.Tensor(("k",))):\n'
    "    with R.dataflow():\n        y = R.linear(x, w)\n        R.output(y)\n    return (y, b)\n"
)
W = np.arange(6, dtype="float32").reshape(3, 2)


class TensorLike:
    def numpy(self) -> np.ndarray:
        return W


@pytest.mark.parametrize("value", [W, TensorLike(), constant(W)])
def test_a_parameter_becomes_a_constant(value: object) -> None:
    module = verify_module(BindParams("main", {"w": value})(MODULE))
    assert [p.name for p in module.graph_functions["main"].params] == ["x", "b"]
    x = np.ones((4, 2), "float32")
    np.testing.assert_array_equal(run(module, "main", x, np.zeros(1, "float32"))[0], x @ W.T)
    assert len(MODULE.graph_functions["main"].params) == 3


def test_a_symbolic_dim_takes_the_values() -> None:
    module = BindParams("main", {"b": np.zeros(5, "float32")})(MODULE)
    assert "R.Tensor((5,)" in module.script()


@pytest.mark.parametrize(
    ("params", "cause", "message"),
    [
        ({"v": W}, None, "function 'main' has no parameter 'v'; it has x, w, b."),
        ({"w": W.T}, ShapeMismatchError, "w: expected shape (3, 2), got (2, 3)."),
        ({"w": W[0]}, ShapeMismatchError, "w: expected shape (3, 2), got (2,)."),
        ({"w": W.astype("float64")}, DTypeMismatchError, "w: expected dtype float32, got float64."),
    ],
)
def test_what_does_not_fit_is_refused(
    params: dict[str, object], cause: type | None, message: str
) -> None:
    with pytest.raises(PassError) as caught:
        BindParams("main", params)(MODULE)
    assert message in str(caught.value)
    if cause is not None:
        assert isinstance(caught.value.__cause__, cause)


def test_kernels_and_missing_functions_are_refused() -> None:
    with pytest.raises(PassError, match="no function 'mian'"):
        BindParams("mian", {})(MODULE)
    kernel = parse_module(
        '@T.prim_func\ndef f(X: T.Buffer((1,), "float32")):\n'
        "    for i in range(1):\n        X[i] = T.float32(0)\n"
    )
    with pytest.raises(PassError, match="'f' is a prim_func"):
        BindParams("f", {})(kernel)


def test_large_values_are_weights_by_the_parameters_name() -> None:
    text = (
        "@R.function\ndef main(x: R.Tensor((8, 8)), w: R.Tensor((8, 8))):\n    return R.add(x, w)\n"
    )
    module, w = parse_module(text), np.ones((8, 8), "float32")
    bound = verify_module(BindParams("main", {"w": w})(module))
    w[:] = 2
    assert list(bound.constants) == ["w"]
    assert (bound.constants["w"] == 1).all()
    assert list(module.weights) == []
    (name,) = verify_module(BindParams("main", {"w": constant(w)})(module)).constants
    assert name.startswith("sha256:")


SIZED = """
@R.function
def main(x: R.Tensor(("b", "m")), w: R.Tensor(("n", "m")), v: R.Tensor(("n",))):
    b, n = T.int64(), T.int64()
    y: R.Tensor((b, n), "float32") = R.linear(x, w, v)
    z: R.Tensor((b * n,), "float32") = R.reshape(y, R.shape([b * n]))
    return z
"""


def test_a_parameter_binds_its_dims() -> None:
    module = verify_module(BindParams("main", {"w": W})(parse_module(SIZED)))
    text = module.script()
    assert 'x: R.Tensor(("b", 2)' in text
    assert "v: R.Tensor((3,)" in text
    assert 'R.reshape(y, R.shape(["b * 3"]))' in text
    x, v = np.ones((4, 2), "float32"), np.ones(3, "float32")
    np.testing.assert_array_equal(run(module, "main", x, v), (x @ W.T + v).reshape(12))


def test_values_that_disagree_about_a_dim() -> None:
    values = {"w": W, "v": np.zeros(4, "float32")}
    with pytest.raises(PassError, match=r"disagree: symbolic dim n would be both 3 and 4 .*w \(3"):
        BindParams("main", values)(parse_module(SIZED))
