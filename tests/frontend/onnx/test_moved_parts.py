"""Small tensors joined of sizes and of data keep what each element is, wherever it goes."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.driver.compile import compile
from burnish.frontend.onnx import import_onnx
from burnish.tests.frontend.onnx.oracle import compare, model

PADS = """
    more = Unsqueeze(n, first)
    widths = Concat<axis = 0>(zero, more, zero, zero)
    pairs = Reshape(widths, rows)
    back = Slice(pairs, last, before, first, minus)
    turned = Transpose<perm = [1, 0]>(back)
    flat = Reshape(turned, minus)
    y = Pad(x, flat)
"""
WEIGHTS = {
    "zero": np.array([0]), "first": np.array([0]), "rows": np.array([-1, 2]),
    "last": np.array([-1]), "before": np.array([-(1 << 62)]), "minus": np.array([-1]),
}  # fmt: skip


def test_pads_as_torch_exports_them_leave_the_other_axes_as_they_are() -> None:
    """The last axis grows by as many as data say; the first keeps the size that the file states."""
    made = model(PADS, "float[3, M] x, int64 n", weights=WEIGHTS)
    imported = import_onnx(made)
    assert 'R.Tensor((3, "y_size"), dtype="float32")' in imported.module.script()
    compiled = compile(made)
    x = np.random.default_rng(0).random((3, 4)).astype(np.float32)
    for n in (0, 2, 5):
        compare(compiled, made, x=x, n=np.array(n))
    assert compiled.compilations == 1


@pytest.mark.parametrize(
    "move",
    [
        "m = Gather<axis = 0>(v, two)", "a, m = Split<axis = 0>(v, parts)",
        "w = Tile(v, one) m = Slice(w, one, three)", "w = Unsqueeze(v, zero) m = Squeeze(w, zero)",
        "w = Expand(v, rows) m = Reshape(w, last)", "m = Identity(v)",
    ],
)  # fmt: skip
def test_sizes_among_data_stay_sizes(move: str) -> None:
    """The elements that are sizes are read off the module: the reshape has them by their names."""
    numbers = {"two": [2, 1], "parts": [1, 2], "one": [1], "three": [3], "zero": [0]}
    weights = {name: np.array(value) for name, value in numbers.items()}
    weights |= {"rows": np.array([1, 3]), "last": np.array([-1])}
    made = model(
        f"s = Shape<start: int = 0, end: int = 1>(x) v = Concat<axis = 0>(k, s, two_more) {move}"
        " at = Slice(m, last, big) y = Expand(ones, at)",
        "float[N, 2] x, int64[1] k",
        weights=weights | {"two_more": np.array([4]), "big": np.array([1 << 62]),
                           "ones": np.ones(1, np.float32)},
    )  # fmt: skip
    compiled = compile(made)
    for n, k in ((3, 1), (5, 2)):
        compare(compiled, made, x=np.zeros((n, 2), np.float32), k=np.array([k]))
    assert compiled.compilations == 1
    assert "bind_size" not in compiled.script("00-import")


@pytest.mark.parametrize("operator", ["Expand", "Tile"])
def test_an_input_that_says_where_too(operator: str) -> None:
    made = model(f"s = Shape(x) z = {operator}(s, s)", "float[2] x", outputs="int64 z")
    compiled = compile(made)
    compare(compiled, made, x=np.zeros(2, np.float32))
