"""ToDynamicBytes: products of bytes with a scale for each row, which no other row changes."""

from __future__ import annotations

import numpy as np
import pytest

from burnish import VirtualMachine, build
from burnish.graphir.passes.to_dynamic_bytes import ToDynamicBytes
from burnish.graphir.text.printer import print_module
from burnish.graphir.verify import verify_module
from burnish.tests.graphir.passes.test_to_integer_weights import floats, module


def rounded(x: np.ndarray) -> np.ndarray:
    """Rows as bytes stand for them, in float64; rows of zeros stay."""
    most = np.maximum(np.abs(x).max(-1, keepdims=True), np.float32(2.0**-100))
    step = (most / np.float32(127)).astype(np.float32)
    return np.rint(x / step).astype("float64") * step


@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize("way", ["linear", "matmul", "bias"])
def test_products_are_of_bytes(way: str, rows: int) -> None:
    w, x, b = floats(5, 64), floats(rows, 64), floats(5)
    x[-1] *= 1e-6
    text, given, extra = {
        "linear": ("R.linear(x, w)", w, ""),
        "matmul": ("R.matmul(x, w)", np.ascontiguousarray(w.T), ""),
        "bias": ("R.linear(x, w, b)", w, ", b: R.Tensor((5,))"),
    }[way]
    made = verify_module(ToDynamicBytes()(module(text, given, x=f"({rows}, 64)", extra=extra)))
    assert "R.integer_matmul(" in print_module(made)
    arguments = (x, b) if extra else (x,)
    found = np.asarray(VirtualMachine(build(made))["main"](*arguments))
    expected = rounded(x) @ rounded(w).T + (b if extra else 0)
    magnitude = np.abs(rounded(x)) @ np.abs(rounded(w)).T + np.abs(b if extra else 0)
    # The scale of a row may be the neighbour of the one here, and a number at a half go elsewhere.
    assert np.all(np.abs(found - expected) <= 6 * 2.0**-24 * magnitude + 1e-30)


def test_rows_of_zeros_infinities_and_nan() -> None:
    x = np.ones((4, 64), "float32")
    x[0], x[1, 3], x[2, 3] = 0, np.inf, np.nan
    w = floats(5, 64)
    made = ToDynamicBytes()(module("R.linear(x, w)", w, x="(4, 64)"))
    found = np.asarray(VirtualMachine(build(made))["main"](x))
    np.testing.assert_array_equal(found[0], 0)
    assert np.isnan(found[1:3]).all()
    assert np.isfinite(found[3]).all()


@pytest.mark.parametrize("shape", [(5, 3), (1, 64)])
def test_what_has_few_terms_or_one_output_stays(shape: tuple[int, int]) -> None:
    made = ToDynamicBytes()(module("R.linear(x, w)", floats(*shape), x=f"(3, {shape[1]})"))
    assert "R.integer_matmul(" not in print_module(made)


def test_layers_are_chosen_by_the_name_of_their_weight() -> None:
    before = module("R.linear(x, w)", floats(5, 64))
    assert print_module(ToDynamicBytes(lambda _: False)(before)) == print_module(before)
