"""ToIntegerWeights: constant weights become integers with scales, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.graphir.expr import constant
from burnish.graphir.module import IRModule
from burnish.graphir.passes.bind_params import BindParams
from burnish.graphir.passes.to_integer_weights import (
    RoundedLayer,
    ToIntegerWeights,
    group_of,
)
from burnish.graphir.text.parser import parse_module
from burnish.graphir.text.printer import print_module
from burnish.graphir.verify import verify_module
from burnish.support.errors import ConfigError
from burnish.tests.graphir.reference import run

RNG = np.random.default_rng(0)


def module(expression: str, w: np.ndarray, *, x: str = "(3, 64)", extra: str = "") -> IRModule:
    made = parse_module(
        f'@R.function\ndef main(x: R.Tensor({x}), w: R.Tensor({w.shape}, "{w.dtype}"){extra}):\n'
        f"    with R.dataflow():\n        y = {expression}\n        R.output(y)\n    return y\n"
    )
    bound: IRModule = BindParams("main", {"w": constant(w)})(made)
    return bound


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def rounded(w: np.ndarray, bits: int, group: int) -> np.ndarray:
    """Weights (n, k) as the integers stand for them, in float64."""
    most = (1 << (bits - 1)) - 1
    parts = w.reshape(len(w), -1, group)
    scale = np.abs(parts).max(-1, keepdims=True) / np.float32(most)
    return (np.rint(parts / scale).astype("float64") * scale).reshape(w.shape)


@pytest.mark.parametrize(("bits", "group"), [(8, 64), (4, 32)])
def test_a_linear_layer(bits: int, group: int) -> None:
    w, x, b = floats(5, 64), floats(3, 64), floats(5)
    layers: list[RoundedLayer] = []
    before = module("R.linear(x, w, b)", w, extra=", b: R.Tensor((5,))")
    made = verify_module(ToIntegerWeights(bits, note=layers.append)(before))
    assert "R.scaled_linear(" in print_module(made)
    found, expected = run(made, "main", x, b), x @ rounded(w, bits, group).T + b
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    (layer,) = layers
    assert (layer.before, layer.after) == (1280, 5 * 64 * bits // 8 + 5 * (64 // group) * 4)
    off = np.sqrt(np.square(w - rounded(w, bits, group)).sum() / np.square(w).sum())
    assert layer.error == pytest.approx(off, rel=1e-4)


@pytest.mark.parametrize(
    ("expression", "shape"),
    [("R.matmul(x, w)", (64, 5)), ("R.matmul(x, w, transpose_b=True)", (5, 64))],
)
@pytest.mark.parametrize("x", ["(3, 64)", "(2, 3, 64)", "(64,)"])
def test_a_product_with_a_constant_matrix(expression: str, shape: tuple[int, int], x: str) -> None:
    w, values = floats(*shape), floats(*eval(x))
    made = verify_module(ToIntegerWeights()(module(expression, w, x=x)))
    assert "R.scaled_linear(" in print_module(made)
    rows = w.T if shape[0] == 64 else w
    expected = values @ rounded(np.ascontiguousarray(rows), 8, 64).T
    np.testing.assert_allclose(run(made, "main", values), expected, rtol=1e-4, atol=1e-4)


def test_a_weight_of_two_layers_is_rounded_once() -> None:
    layers: list[RoundedLayer] = []
    before = module("R.add(R.linear(x, w), R.linear(R.relu(x), w))", floats(5, 64))
    text = print_module(ToIntegerWeights(note=layers.append)(before))
    assert text.count("R.scaled_linear(") == 2
    assert len(layers) == 1


@pytest.mark.parametrize(
    ("expression", "w", "x"),
    [
        ("R.matmul(x, w)", floats(2, 64, 5), "(2, 3, 64)"),
        ("R.matmul(x, w, transpose_a=True)", floats(64, 5), "(64, 3)"),
        ("R.matmul(w, x)", floats(5, 3), "(3, 64)"),
        ("R.linear(R.astype(x, dtype='float64'), w)", floats(5, 64).astype("float64"), "(3, 64)"),
        ("R.linear(x, w)", floats(5, 67), "(3, 67)"),
    ],
)
def test_what_stays_as_it_is(expression: str, w: np.ndarray, x: str) -> None:
    before = module(expression, w, x=x)
    assert print_module(ToIntegerWeights()(before)) == print_module(before)


def test_a_layer_without_groups_says_so() -> None:
    layers: list[RoundedLayer] = []
    ToIntegerWeights(note=layers.append)(module("R.linear(x, w)", floats(5, 67), x="(3, 67)"))
    assert "67 terms have no groups" in layers[0].reason


@pytest.mark.parametrize(
    ("terms", "bits", "most", "expected"),
    [(4096, 8, 128, 128), (784, 8, 128, 112), (784, 4, 32, 16), (12, 4, 32, None), (12, 8, 8, 4)],
)
def test_groups(terms: int, bits: int, most: int, expected: int | None) -> None:
    assert group_of(terms, bits, most) == expected


def test_another_width_is_refused() -> None:
    with pytest.raises(ConfigError, match="8 or 4"):
        ToIntegerWeights(3).run(module("R.linear(x, w)", floats(5, 64)))
