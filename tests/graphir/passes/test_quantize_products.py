"""QuantizeProducts: the products that are named, and no others, take bytes."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.graphir.expr import constant
from burnish.graphir.module import IRModule
from burnish.graphir.passes.bind_params import BindParams
from burnish.graphir.passes.quantize_products import (
    QuantizeProducts,
    Range,
    quantizable,
    rounded_weight,
)
from burnish.graphir.text.parser import parse_module
from burnish.graphir.text.printer import print_module
from burnish.graphir.verify import verify_module
from burnish.tests.graphir.reference import run

RNG = np.random.default_rng(0)
PLAIN = "strides=[1], padding=[1, 1], dilation=[1]"


def module(line: str, x: str, *w: int) -> IRModule:
    made = parse_module(
        f"@R.function\ndef main(x: R.Tensor({x}), w: R.Tensor({w})):\n    with R.dataflow():\n"
        f"        y = {line}\n        R.output(y)\n    return y\n"
    )
    weight = RNG.standard_normal(w).astype("float32")
    bound: IRModule = BindParams("main", {"w": constant(weight)})(made)
    return bound


CASES = {
    "linear": ("R.linear(x, w)", (3, 16), (5, 16), 0),
    "matmul": ("R.matmul(x, w)", (2, 3, 16), (16, 5), 1),
    "matmul, turned": ("R.matmul(x, w, transpose_b=True)", (3, 16), (5, 16), 0),
    "conv": (f"R.conv(x, w, {PLAIN})", (1, 16, 7), (20, 16, 3), 0),
}


@pytest.mark.parametrize("name", CASES)
def test_rounded_operands(name: str) -> None:
    line, shape, weight, axis = CASES[name]
    before = module(line, str(shape), *weight)
    assert list(quantizable(before)) == ["y"]
    after = verify_module(QuantizeProducts({"y": Range(-1.0, 1.0)})(before))
    assert 'dtype="uint8"' in print_module(after)
    x = RNG.uniform(-1, 1, shape).astype("float32")
    step, zero = np.float32(2 / 255), 128
    bytes_ = np.clip(np.rint(x / step) + zero, 0, 255)
    numbers, scale = rounded_weight(constant_of(before), axis)
    plain = run(QuantizeProducts({})(before), "main", x)
    np.testing.assert_array_equal(plain, run(before, "main", x))
    expected = product(name, (bytes_ - zero) * step, numbers * scale)
    np.testing.assert_allclose(run(after, "main", x), expected, rtol=1e-4, atol=1e-4)


def constant_of(made: IRModule) -> np.ndarray:
    (name,) = made.constant_names
    return np.asarray(made.weights.weight(name).array())


def product(name: str, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    if name == "matmul":
        return x @ w
    if name != "conv":
        return x @ w.T
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1)))
    return np.asarray(
        sum(np.einsum("ncp,oc->nop", wide[..., k : k + 7], w[..., k]) for k in range(3))
    )


@pytest.mark.parametrize(
    ("line", "x", "w"),
    [
        (f"R.conv(x, w, {PLAIN}, groups=16)", (1, 16, 7), (16, 1, 3)),
        (f"R.conv(x, w, {PLAIN})", (1, 3, 7), (16, 3, 3)),
        ("R.matmul(x, w)", (3, 16), (2, 16, 5)),
        ("R.linear(x, w)", (3, 2), (5, 2)),
    ],
)
def test_what_cannot_be_of_bytes(line: str, x: tuple[int, ...], w: tuple[int, ...]) -> None:
    assert quantizable(module(line, str(x), *w)) == {}


def test_weights_of_nothing_are_nothing() -> None:
    numbers, scale = rounded_weight(np.zeros((2, 3), np.float32), 0)
    assert not numbers.any()
    assert (scale == 1).all()


def test_activations_that_two_products_read_are_rounded_once() -> None:
    made = parse_module(
        "@R.function\ndef main(x: R.Tensor((3, 16)), w: R.Tensor((5, 16)), v: R.Tensor((5, 16))):\n"
        "    with R.dataflow():\n        a = R.linear(x, w)\n        b = R.linear(x, v)\n"
        "        y = R.add(a, b)\n        R.output(y)\n    return y\n"
    )
    values = {n: constant(RNG.standard_normal((5, 16)).astype("float32")) for n in "wv"}
    bound: IRModule = BindParams("main", values)(made)
    text = print_module(QuantizeProducts({n: Range(0.0, 1.0) for n in "ab"})(bound))
    assert text.count('dtype="uint8"') == 1
