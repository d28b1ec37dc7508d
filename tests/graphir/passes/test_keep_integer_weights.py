"""KeepIntegerWeights: weights that are computed of constant bytes are read as bytes."""

from __future__ import annotations

import numpy as np
import pytest

from burnish import VirtualMachine, build
from burnish.graphir.expr import constant
from burnish.graphir.module import IRModule
from burnish.graphir.passes.bind_params import BindParams
from burnish.graphir.passes.keep_integer_weights import KeepIntegerWeights
from burnish.graphir.text.parser import parse_module
from burnish.graphir.text.printer import print_module
from burnish.graphir.verify import verify_module
from burnish.tests.graphir.reference import run

N, K = 5, 64
RNG = np.random.default_rng(0)
BYTES = RNG.integers(-128, 128, (N, K)).astype("int8")
NIBBLES = RNG.integers(-8, 8, (N, K)).astype("int8")
UNSIGNED = RNG.integers(0, 256, (N, K)).astype("uint8")
COLUMNS = RNG.uniform(0.01, 0.1, (N, 1)).astype("float32")
ZEROS = RNG.integers(-8, 8, (N, 1)).astype("int8")
F = 'dtype="float32"'


def module(lines: str, constants: dict[str, np.ndarray], x: str = "(3, 64)") -> IRModule:
    params = "".join(f', {n}: R.Tensor({a.shape}, "{a.dtype}")' for n, a in constants.items())
    body = "".join(f"        {line}\n" for line in lines.splitlines())
    made = parse_module(
        f"@R.function\ndef main(x: R.Tensor({x}){params}):\n    with R.dataflow():\n{body}"
        "        R.output(y)\n    return y\n"
    )
    bound: IRModule = BindParams("main", {n: constant(a) for n, a in constants.items()})(made)
    return bound


def check(before: IRModule, x: tuple[int, ...] = (3, 64)) -> str:
    """The text behind the pass, whose module gives the same values."""
    made = verify_module(KeepIntegerWeights()(before))
    values = RNG.standard_normal(x).astype("float32")
    found, expected = run(made, "main", values), run(before, "main", values)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    return print_module(made)


CASES = {
    "a scale a column": (
        f"a = R.astype(w, {F})\nb = R.multiply(a, s)\ny = R.linear(x, b)",
        {"w": BYTES, "s": COLUMNS},
        "bits=8",
    ),
    "few bits": (
        f"a = R.astype(w, {F})\nb = R.multiply(s, a)\ny = R.linear(x, b)",
        {"w": NIBBLES, "s": COLUMNS},
        "bits=4",
    ),
    "no scale": (f"a = R.astype(w, {F})\ny = R.linear(x, a)", {"w": BYTES}, "bits=8"),
    "unsigned": (f"a = R.astype(w, {F})\ny = R.linear(x, a)", {"w": UNSIGNED}, "bits=8"),
    "zero points of integers": (
        'a = R.astype(w, dtype="int32")\nc = R.astype(z, dtype="int32")\n'
        f"d = R.astype(R.subtract(a, c), {F})\nb = R.multiply(d, s)\ny = R.linear(x, b)",
        {"w": BYTES, "z": ZEROS, "s": COLUMNS},
        "bits=8",
    ),
    "groups": (
        f"a = R.astype(w, {F})\nb = R.multiply(a, s)\nc = R.reshape(b, R.shape([5, 64]))\n"
        "y = R.linear(x, c)",
        {
            "w": BYTES.reshape(N, 2, 32),
            "s": RNG.uniform(0.01, 0.1, (N, 2, 1)).astype("float32"),
        },
        "bits=8",
    ),
    "groups written out": (
        f"a = R.astype(w, {F})\nb = R.multiply(a, s)\ny = R.linear(x, b)",
        {"w": BYTES, "s": np.repeat(RNG.uniform(0.01, 0.1, (N, 4)).astype("float32"), 16, 1)},
        "bits=8",
    ),
    "rows of columns": (
        f"a = R.astype(w, {F})\nb = R.multiply(a, s)\ny = R.matmul(x, b)",
        {"w": np.ascontiguousarray(BYTES.T), "s": np.ascontiguousarray(COLUMNS.T)},
        "bits=8",
    ),
    "turned": (
        f"a = R.astype(w, {F})\nb = R.permute_dims(R.multiply(a, s))\ny = R.matmul(x, b)",
        {"w": BYTES, "s": COLUMNS},
        "bits=8",
    ),
    "turned and not": (
        f"a = R.multiply(R.astype(w, {F}), s)\nb = R.matmul(x, a, transpose_b=True)\n"
        "y = R.matmul(x, R.permute_dims(a))\ny = R.add(y, b)",
        {"w": BYTES, "s": COLUMNS},
        "bits=8",
    ),
    "a bias": (
        f"a = R.astype(w, {F})\nb = R.multiply(a, s)\ny = R.linear(x, b, c)",
        {"w": BYTES, "s": COLUMNS, "c": np.arange(N, dtype="float32")},
        "bits=8",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_bytes_are_kept(name: str) -> None:
    lines, constants, width = CASES[name]
    text = check(module(lines, constants))
    assert f"{width})" in text
    assert "R.scaled_linear(" in text
    assert text.split("y = ", 1)[-1].count("R.linear(") == 0


@pytest.mark.parametrize("x", [(64,), (2, 3, 64)])
def test_any_rank_of_rows(x: tuple[int, ...]) -> None:
    lines, constants, _ = CASES["a scale a column"]
    assert "R.scaled_linear(" in check(module(lines, constants, str(x)), x)


SCALED = f"a = R.astype(w, {F})\nb = R.multiply(a, s)\n"
LEFT = {
    "a scale a term": (
        SCALED + "y = R.linear(x, b)",
        {"w": BYTES, "s": RNG.uniform(0.01, 0.1, (1, K)).astype("float32")},
    ),
    "a scale of several rows": (
        SCALED + "y = R.linear(x, b)",
        {"w": BYTES[:1], "s": COLUMNS},
    ),
    "two scales": (
        SCALED + "c = R.multiply(b, s)\ny = R.linear(x, c)",
        {"w": BYTES, "s": COLUMNS},
    ),
    "zero points that are no integers": (
        f"a = R.astype(w, {F})\nb = R.subtract(a, s)\ny = R.linear(x, b)",
        {"w": BYTES, "s": COLUMNS},
    ),
    "wide integers": (
        SCALED + "y = R.linear(x, b)",
        {"w": BYTES.astype("int32"), "s": COLUMNS},
    ),
    "groups that fill no word": (
        f"a = R.astype(w, {F})\nb = R.multiply(a, s)\nc = R.reshape(b, R.shape([5, 66]))\n"
        "y = R.linear(R.pad(x, pad_width=[0, 0, 1, 1]), c)",
        {
            "w": RNG.integers(-128, 128, (N, 22, 3)).astype("int8"),
            "s": RNG.uniform(0.01, 0.1, (N, 22, 1)).astype("float32"),
        },
    ),
    "the other operand": (
        f"a = R.astype(w, {F})\ny = R.matmul(a, R.permute_dims(x))",
        {"w": BYTES},
    ),
    "turned rows": (
        f"a = R.astype(w, {F})\ny = R.matmul(R.permute_dims(x), a, transpose_a=True)",
        {"w": np.ascontiguousarray(BYTES.T)},
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_stays_as_it_is(name: str) -> None:
    lines, constants = LEFT[name]
    before = module(lines, constants)
    assert print_module(KeepIntegerWeights()(before)) == print_module(before)


def test_weights_that_two_products_read_are_packed_once() -> None:
    lines = f"a = R.multiply(R.astype(w, {F}), s)\nb = R.linear(x, a)\n"
    lines += "y = R.add(b, R.linear(R.relu(x), a))"
    made = KeepIntegerWeights()(module(lines, {"w": BYTES, "s": COLUMNS}))
    assert print_module(made).count("R.scaled_linear(") == 2
    assert len([n for n in made.weights if "words" in n]) == 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("is_grouped", [False, True])
def test_products_of_half_precision_read_bytes_too(dtype: str, is_grouped: bool) -> None:
    """As torchao leaves them: scales of that type, zero points as bytes, sums rounded once."""
    h = f'dtype="{dtype}"'
    shape, places = ((N, 2, 32), (N, 2, 1)) if is_grouped else ((N, K), (N, 1))
    zero = RNG.integers(-8, 8, places).astype("int8")
    scale = RNG.uniform(0.01, 0.1, places).astype("float16")
    lines = (
        f"r = R.astype(x, {h})\na = R.astype(w, {h})\nc = R.astype(z, {h})\n"
        f"d = R.subtract(a, c)\nt = R.astype(s, {h})\nb = R.multiply(d, t)\n"
        + (f"e = R.reshape(b, R.shape([{N}, {K}]))\n" if is_grouped else "")
        + f"o = R.linear(r, {'e' if is_grouped else 'b'})\ny = R.astype(o, {F})"
    )
    numbers = NIBBLES.reshape(shape)
    before = module(lines, {"w": numbers, "z": zero, "s": scale})
    made = verify_module(KeepIntegerWeights()(before))
    assert "R.scaled_linear(" in print_module(made)
    x = RNG.standard_normal((3, K)).astype("float32")
    weight = ((numbers.astype("float64") - zero) * scale.astype("float64")).reshape(N, K)
    unit = 2.0**-8 if dtype == "bfloat16" else 2.0**-11
    magnitude = np.abs(x) @ np.abs(weight).T
    found = np.asarray(VirtualMachine(build(made))["main"](x))
    # Rows, scales and results are rounded to the type, weights are not.
    assert np.all(np.abs(found - x @ weight.T) <= 3.1 * unit * magnitude)


def test_differences_that_bfloat16_does_not_hold_are_folded() -> None:
    h = 'dtype="bfloat16"'
    lines = (
        f"r = R.astype(x, {h})\na = R.astype(w, {h})\nc = R.astype(z, {h})\n"
        f"d = R.subtract(a, c)\no = R.linear(r, d)\ny = R.astype(o, {F})"
    )
    before = module(lines, {"w": UNSIGNED, "z": np.full((N, 1), -100, "int8")})
    assert "R.linear(" in print_module(KeepIntegerWeights()(before)).replace("scaled_linear", "")
    near = module(lines, {"w": BYTES, "z": np.full((N, 1), -100, "int8")})
    assert "R.scaled_linear(" in print_module(KeepIntegerWeights()(near))
