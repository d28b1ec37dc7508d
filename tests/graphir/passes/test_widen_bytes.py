"""WidenBytes: products of bytes are of 16 bits, with the same sums, where rows are many."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.graphir.expr import constant
from burnish.graphir.module import IRModule
from burnish.graphir.parser import parse_module
from burnish.graphir.passes.bind_params import BindParams
from burnish.graphir.passes.widen_bytes import FEWEST_ROWS, WidenBytes
from burnish.graphir.printer import print_module
from burnish.graphir.verify import verify_module
from burnish.tests.graphir.reference import run

W = np.random.default_rng(0).integers(-128, 128, (16, 8)).astype("int8")


def module(rows: str, *, known: bool = True, batch: str = "") -> IRModule:
    made = parse_module(
        f'@R.function\ndef main(x: R.Tensor(({rows}, 16), dtype="uint8"), '
        f'w: R.Tensor(({batch}16, 8), dtype="int8")):\n'
        "    with R.dataflow():\n        y = R.integer_matmul(x, w)\n        R.output(y)\n"
        "    return y\n"
    )
    if not known:
        return made
    bound: IRModule = BindParams("main", {"w": constant(W)})(made)
    return bound


@pytest.mark.parametrize("dims", [(FEWEST_ROWS,), (4, FEWEST_ROWS // 4)])
def test_sums_are_the_same(dims: tuple[int, ...]) -> None:
    before = module(", ".join(map(str, dims)))
    made = verify_module(WidenBytes()(before))
    text = print_module(made)
    assert 'R.astype(x, dtype="int16")' in text
    assert 'R.Tensor((16, 8), dtype="int16")' in text
    x = np.random.default_rng(1).integers(0, 256, (*dims, 16)).astype("uint8")
    x.reshape(-1, 16)[0] = 255
    found = run(made, "main", x)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, x.astype("int64") @ W.astype("int64"))
    np.testing.assert_array_equal(found, run(before, "main", x))


@pytest.mark.parametrize(
    ("rows", "known", "batch", "widens"),
    [
        (str(FEWEST_ROWS - 1), True, "", False),
        ('"n"', True, "", False),
        (f'"n", {FEWEST_ROWS}', True, "", True),
        (str(FEWEST_ROWS), False, "", False),
        (f"3, {FEWEST_ROWS}", False, "3, ", False),
    ],
)
def test_few_rows_and_weights_of_data_stay(
    rows: str, known: bool, batch: str, widens: bool
) -> None:
    before = module(rows, known=known, batch=batch)
    text = print_module(WidenBytes()(before))
    assert ("int16" in text) is widens
    assert (text == print_module(before)) is not widens


def test_what_is_wide_stays() -> None:
    once = WidenBytes()(module(str(FEWEST_ROWS)))
    assert print_module(WidenBytes()(once)) == print_module(once)
