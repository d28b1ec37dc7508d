"""SplitFloat32: three terms a number are the number, and products of terms those of float32."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish import VirtualMachine, build
from burnish.graphir.expr import Call
from burnish.graphir.module import IRModule
from burnish.graphir.passes.bind_params import BindParams
from burnish.graphir.passes.split_float32 import SplitFloat32, terms_of, why_whole
from burnish.graphir.text.parser import parse_module
from burnish.graphir.text.printer import print_module
from burnish.support.node import walk
from burnish.tests.tuner.rules.test_tiles import emulated

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


def wide(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(value=FLOATS)
def test_three_terms_are_the_number(value: float) -> None:
    x = np.array([value], "float32")
    total = sum(wide(t) for t in terms_of(x))
    if abs(value) > 3.38e38:
        assert np.isinf(total[0]) or total[0] == x[0]
    elif abs(value) > 2.0**-100:
        assert total[0] == np.float64(x[0])
    else:
        assert abs(total[0] - np.float64(x[0])) <= 2.0**-133


def test_behind_what_is_not_finite_stand_zeros() -> None:
    first, *rest = [wide(t) for t in terms_of(np.array([np.inf, -np.inf, np.nan], "float32"))]
    assert np.array_equal(first, [np.inf, -np.inf, np.nan], equal_nan=True)
    assert all((t == 0).all() for t in rest)


def module(line: str, x: tuple[int, ...], w: tuple[int, ...]) -> IRModule:
    made = parse_module(f"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor({x}, dtype="float32"), w: R.Tensor({w}, dtype="float32")):
        with R.dataflow():
            y = {line}
            R.output(y)
        return y
""")
    rng = np.random.default_rng(1)
    return BindParams("main", {"w": rng.standard_normal(w).astype("float32")})(made)


CONV = (
    "R.conv(x, w, strides=[{s}, {s}], padding=[0, 0, 0, 0], dilation=[1, 1], groups=1, "
    "channels_last=True, out_channels_last=True)"
)
CASES = {
    "linear": ("R.linear(x, w)", (9, 50), (7, 50)),
    "matmul": ("R.matmul(x, w)", (2, 9, 50), (50, 7)),
    "turned": ("R.matmul(x, w, transpose_b=True)", (9, 50), (7, 50)),
    "conv": (CONV.format(s=2), (1, 9, 9, 8), (5, 8, 3, 3)),
    "pointwise": (CONV.format(s=1), (1, 6, 6, 16), (5, 16, 1, 1)),
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_as_exact_as_before(name: str) -> None:
    before = module(*CASES[name])
    after = SplitFloat32()(before)
    text = print_module(after)
    assert "R.concat(" in text
    assert 'out_dtype="float32"' in text
    x = np.random.default_rng(0).standard_normal(CASES[name][1]).astype("float32")
    found, expected = (np.asarray(VirtualMachine(build(m))["main"](x)) for m in (after, before))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


def test_errors_against_float64_are_not_above_float32() -> None:
    before = module("R.linear(x, w)", (16, 1024), (16, 1024))
    (w,) = before.constants.values()
    x = np.random.default_rng(0).standard_normal((16, 1024)).astype("float32")
    exact = x.astype(np.float64) @ w.astype(np.float64).T
    after = build(SplitFloat32()(before), target=emulated())
    found = np.asarray(VirtualMachine(after)["main"](x))
    assert np.abs(found - exact).max() <= np.abs(x @ w.T - exact).max()


@pytest.mark.parametrize(
    ("line", "x", "w", "why"),
    [
        ("R.linear(x, w)", (4, 50), (7, 50), "fewer than 5 rows"),
        ("R.linear(x, w)", (9, 51), (7, 51), "an even number of terms"),
        ("R.linear(x, w)", (9, 4), (7, 4), "an even number of terms"),
        (CONV.format(s=1), (1, 9, 9, 8), (5, 8, 3, 3), "Winograd"),
        (CONV.format(s=2), (1, 9, 9, 3), (5, 3, 3, 3), "even number of channels"),
        (CONV.replace("groups=1", "groups=2").format(s=2), (1, 9, 9, 16), (6, 8, 3, 3), "groups"),
        (CONV.replace("=True", "=False").format(s=2), (1, 8, 9, 9), (5, 8, 3, 3), "side by side"),
    ],
)
def test_what_stays_whole(line: str, x: tuple[int, ...], w: tuple[int, ...], why: str) -> None:
    before = module(line, x, w)
    after = SplitFloat32()(before)
    assert "R.concat(" not in print_module(after)
    (call,) = [
        n
        for f in before.graph_functions.values()
        for n in walk(f)
        if isinstance(n, Call) and n.op in ("linear", "conv")
    ]
    assert why in why_whole(call)


def test_products_of_two_activations_stay_whole() -> None:
    made = parse_module("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((9, 50), dtype="float32"), w: R.Tensor((50, 7), dtype="float32")):
        with R.dataflow():
            y = R.matmul(x, w)
            R.output(y)
        return y
""")
    assert "R.concat(" not in print_module(SplitFloat32()(made))


def test_chosen_weights_alone() -> None:
    before = module("R.linear(x, w)", (9, 50), (7, 50))
    assert "R.concat(" not in print_module(SplitFloat32(chosen=lambda name: False)(before))
    assert "R.concat(" in print_module(SplitFloat32(chosen=lambda name: True)(before))
