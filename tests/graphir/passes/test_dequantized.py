"""Products of what is computed of bytes are products of the bytes, and give what they gave."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.graphir.expr import constant
from burnish.graphir.module import IRModule
from burnish.graphir.passes.bind_params import BindParams
from burnish.graphir.passes.dead_code_elimination import DeadCodeElimination
from burnish.graphir.passes.keep_integer_weights import KeepIntegerWeights
from burnish.graphir.text.parser import parse_module
from burnish.graphir.text.printer import print_module
from burnish.graphir.verify import verify_module
from burnish.tests.graphir.reference import run

RNG = np.random.default_rng(0)
F = 'dtype="float32"'


def signed(*shape: int) -> np.ndarray:
    return RNG.integers(-128, 128, shape).astype("int8")


def scales(*shape: int) -> np.ndarray:
    return RNG.uniform(0.01, 0.1, shape).astype("float32")


def module(lines: str, x: str, dtype: str, constants: dict[str, np.ndarray]) -> IRModule:
    params = "".join(f', {n}: R.Tensor({a.shape}, "{a.dtype}")' for n, a in constants.items())
    body = "".join(f"        {line}\n" for line in lines.splitlines())
    made = parse_module(
        f'@R.function\ndef main(x: R.Tensor({x}, "{dtype}"){params}):\n    with R.dataflow():\n'
        f"{body}        R.output(y)\n    return y\n"
    )
    bound: IRModule = BindParams("main", {n: constant(a) for n, a in constants.items()})(made)
    return bound


ACTIVATION = (
    'i = R.astype(x, dtype="int32")\nc = R.astype(z, dtype="int32")\n'
    f"a = R.multiply(R.astype(R.subtract(i, c), {F}), r)\n"
)
PLAIN = f"a = R.multiply(R.astype(x, {F}), r)\n"
WEIGHT = f"b = R.multiply(R.astype(w, {F}), s)\n"
POINT = {"z": np.uint8(131), "r": np.float32(0.03)}
CASES = {
    "linear": (
        ACTIVATION + WEIGHT + "y = R.linear(a, b)", (3, 64),
        {**POINT, "w": signed(5, 64), "s": scales(5, 1)},
    ),
    "linear with a bias": (
        ACTIVATION + WEIGHT + "y = R.linear(a, b, e)", (2, 3, 64),
        {**POINT, "w": signed(5, 64), "s": scales(5, 1), "e": scales(5)},
    ),
    "a matrix, one scale": (
        ACTIVATION + WEIGHT + "y = R.matmul(a, b)", (3, 64),
        {**POINT, "w": signed(64, 5), "s": np.float32(0.2)},
    ),
    "a scale and a zero point a column": (
        ACTIVATION + 'v = R.astype(R.subtract(R.astype(w, dtype="int32"), R.astype(o, '
        f'dtype="int32")), {F})\nb = R.multiply(v, s)\ny = R.matmul(a, b)', (3, 64),
        {**POINT, "w": signed(64, 5), "s": scales(5), "o": signed(5)},
    ),
    "moved bytes": (
        ACTIVATION + WEIGHT + "f = R.reshape(R.permute_dims(a, axes=[0, 2, 1]), R.shape([3, 64]))\n"
        "y = R.linear(f, b)", (3, 16, 4), {**POINT, "w": signed(5, 64), "s": scales(5, 1)},
    ),
    "a convolution": (
        ACTIVATION + WEIGHT + "y = R.conv(a, b, e, strides=[2, 1], padding=[1, 1, 0, 2], "
        "dilation=[1, 2])", (2, 16, 7, 9),
        {**POINT, "w": signed(16, 16, 3, 2), "s": scales(16, 1, 1, 1), "e": scales(16)},
    ),
    "a pointwise convolution": (
        PLAIN + WEIGHT + "y = R.conv(a, b, strides=[1], padding=[0, 0], dilation=[1])", (2, 16, 7),
        {"r": np.float32(0.1), "w": signed(20, 16, 1), "s": scales(20, 1, 1)},
    ),
}  # fmt: skip
OTHERS = {
    "a scale a row of x": (
        f"a = R.multiply(R.astype(x, {F}), r)\n" + WEIGHT + "y = R.linear(a, b)", (3, 64),
        {"r": scales(3, 1), "w": signed(5, 64), "s": scales(5, 1)},
    ),
    "a scale a term": (
        PLAIN + WEIGHT + "y = R.matmul(a, b)", (3, 64),
        {"r": np.float32(0.1), "w": signed(64, 5), "s": scales(64, 1)},
    ),
    "groups": (
        PLAIN + WEIGHT + "y = R.conv(a, b, strides=[1, 1], padding=[0, 0, 0, 0], "
        "dilation=[1, 1], groups=2)", (1, 32, 5, 5),
        {"r": np.float32(0.1), "w": signed(32, 16, 3, 3), "s": np.float32(0.1)},
    ),
    "few channels": (
        PLAIN + WEIGHT + "y = R.conv(a, b, strides=[1, 1], padding=[0, 0, 0, 0], "
        "dilation=[1, 1])", (1, 3, 5, 5),
        {"r": np.float32(0.1), "w": signed(32, 3, 3, 3), "s": np.float32(0.1)},
    ),
}  # fmt: skip


def behind(name: str, cases: dict[str, tuple[str, tuple[int, ...], dict[str, np.ndarray]]]) -> str:
    """The text behind the pass, whose module gives the same values, nearer to float64's."""
    lines, shape, constants = cases[name]
    before = module(lines, str(shape), "uint8", constants)
    made = verify_module(DeadCodeElimination()(KeepIntegerWeights()(before)))
    values = RNG.integers(0, 256, shape).astype("uint8")
    found, expected = run(made, "main", values), run(before, "main", values)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5 * np.abs(expected).max())
    return print_module(made)


@pytest.mark.parametrize("name", CASES)
def test_products_of_bytes(name: str) -> None:
    text = behind(name, CASES)
    assert "integer_matmul" in text
    assert "R.linear" not in text
    assert "R.conv" not in text


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_product_of_bytes_stays_in_float32(name: str) -> None:
    assert "integer_matmul" not in behind(name, OTHERS)


def test_two_activations() -> None:
    lines = (
        ACTIVATION + f"b = R.multiply(R.astype(x, {F}), r)\ny = R.matmul(a, b, transpose_b=True)"
    )
    cases = {"y": (lines, (2, 40, 16), {k: np.asarray(v) for k, v in POINT.items()})}
    assert "integer_matmul" in behind("y", cases)
