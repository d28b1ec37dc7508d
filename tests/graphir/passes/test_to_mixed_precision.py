"""ToMixedPrecision: operands are rounded once, results stay float32, everything else stays."""

from __future__ import annotations

import numpy as np
import pytest

from burnish import VirtualMachine, build
from burnish.graphir.module import IRModule
from burnish.graphir.passes.canonicalize import Canonicalize
from burnish.graphir.passes.channels_last import ChannelsLast
from burnish.graphir.passes.eliminate_common_subexpr import EliminateCommonSubexpr
from burnish.graphir.passes.recognize_attention import RecognizeAttention
from burnish.graphir.passes.to_mixed_precision import ToMixedPrecision
from burnish.graphir.text.parser import parse_module
from burnish.graphir.text.printer import print_module
from burnish.support.dtype import bfloat16_bits
from burnish.support.errors import ConfigError


def module(params: str, lines: str, result: str = "y") -> IRModule:
    body = "\n".join([f"            {line}" for line in lines.splitlines()])
    return parse_module(f"""
@I.ir_module
class Module:
    @R.function
    def main({params}):
        with R.dataflow():
{body}
            R.output({result})
        return {result}
""")


def operands(x: tuple[int, ...], w: tuple[int, ...], dtype: str) -> str:
    return ", ".join([f'{n}: R.Tensor({s}, dtype="{dtype}")' for n, s in (("x", x), ("w", w))])


LINEAR = operands((3, 8), (5, 8), "float32") + ', b: R.Tensor((5,), dtype="float32")'


def rounded(x: np.ndarray) -> np.ndarray:
    return (bfloat16_bits(x).astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def test_operands_are_rounded_and_the_result_is_float32() -> None:
    made = ToMixedPrecision()(module(LINEAR, "y = R.linear(x, w, b)"))
    text = print_module(made)
    assert text.count('dtype="bfloat16")') >= 2
    assert 'out_dtype="float32"' in text
    rng = np.random.default_rng(0)
    x, w, b = (rng.standard_normal(s).astype("float32") for s in ((3, 8), (5, 8), 5))
    expected = rounded(x) @ rounded(w).T + b
    found = np.asarray(VirtualMachine(build(made))["main"](x, w, b))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_the_bound_of_the_documents_is_needed_and_holds() -> None:
    """Of operands that lie as far as can be from a bfloat16."""
    made = ToMixedPrecision()(module(operands((5, 64), (3, 64), "float32"), "y = R.linear(x, w)"))
    worst = np.float32(1 + 2.0**-8 - 2.0**-15)
    x, w = np.full((5, 64), worst), np.full((3, 64), worst)
    exact = x.astype(np.float64) @ w.astype(np.float64).T
    found = np.asarray(VirtualMachine(build(made))["main"](x, w))
    error = np.abs(found - exact) / exact
    assert (error > 2.0**-8).all()
    assert (error <= 2.0**-7 + 2.0**-16 + 65 * 2.0**-24).all()


def test_an_operand_of_several_products_is_rounded_once() -> None:
    before = module(LINEAR, "a = R.linear(x, w, b)\nc = R.linear(x, w)\ny = R.add(a, c)")
    after = EliminateCommonSubexpr()(ToMixedPrecision()(before))
    assert print_module(after).count("R.astype(") == 2


@pytest.mark.parametrize(
    ("params", "line"),
    [
        (operands((3, 8), (5, 8), "float64"), "R.linear(x, w)"),
        (operands((3, 8), (8, 5), "float16"), "R.matmul(x, w)"),
        (operands((3, 1), (1, 5), "float32"), "R.matmul(x, w)"),
        (operands((3, 8), (3, 8), "float32"), "R.add(x, w)"),
    ],
)
def test_what_stays_as_it_is(params: str, line: str) -> None:
    before = module(params, f"y = {line}")
    assert print_module(ToMixedPrecision()(before)) == print_module(before)


WINDOW = "strides=[1, 1], padding=[1, 1, 1, 1], dilation=[1, 1]"


def test_a_convolution_has_its_bias_in_float32() -> None:
    params = operands((1, 6, 6, 8), (5, 8, 3, 3), "float32") + ', b: R.Tensor((5,), "float32")'
    made = ToMixedPrecision()(module(params, f"y = R.conv(x, w, b, {WINDOW}, channels_last=True)"))
    text = print_module(made)
    assert text.count("R.astype(") == 2
    assert 'out_dtype="float32"' in text


@pytest.mark.parametrize(
    ("x", "w", "more"),
    [
        ((1, 8, 6, 6), (5, 8, 3, 3), ""),
        ((1, 6, 6, 4), (5, 4, 3, 3), ", channels_last=True"),
        ((1, 6, 6, 9), (5, 9, 3, 3), ", channels_last=True"),
        ((1, 6, 6, 16), (4, 8, 3, 3), ", channels_last=True, groups=2"),
    ],
    ids=["channels first", "few channels", "odd channels", "groups"],
)
def test_convolutions_that_stay_float32(x: tuple[int, ...], w: tuple[int, ...], more: str) -> None:
    before = module(operands(x, w, "float32"), f"y = R.conv(x, w, {WINDOW}{more})")
    assert print_module(ToMixedPrecision()(before)) == print_module(before)


def test_transposed_operands() -> None:
    params = 'a: R.Tensor((2, 8, 3), dtype="float32"), b: R.Tensor((2, 8, 5), dtype="float32")'
    made = ToMixedPrecision()(module(params, "y = R.matmul(a, b, transpose_a=True)"))
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype("float32") for s in ((2, 8, 3), (2, 8, 5)))
    expected = rounded(a).swapaxes(1, 2) @ rounded(b)
    np.testing.assert_allclose(
        VirtualMachine(build(made))["main"](a, b), expected, rtol=1e-5, atol=1e-5
    )


def test_another_dtype_is_refused() -> None:
    with pytest.raises(ConfigError, match="bfloat16"):
        ToMixedPrecision("float8").run(module(LINEAR, "y = R.linear(x, w, b)"))


WIDE_RESULTS = {
    "transposed": (
        operands((9, 8), (7, 8), "bfloat16"),
        'y = R.matmul(x, w, transpose_b=True, out_dtype="float32")',
    ),
    "turned": (
        operands((9, 8), (7, 8), "bfloat16"),
        'a = R.permute_dims(w)\ny = R.matmul(x, a, out_dtype="float32")',
    ),
    "batch": (
        operands((2, 9, 8), (2, 7, 8), "bfloat16"),
        'a = R.permute_dims(w, axes=[0, 2, 1])\ny = R.matmul(x, a, out_dtype="float32")',
    ),
    "pointwise": (
        operands((2, 16, 5, 5), (8, 16, 1, 1), "bfloat16"),
        "y = R.conv(x, w, strides=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], "
        'out_dtype="float32")',
    ),
    "attention": (
        operands((2, 9, 8), (2, 9, 8), "bfloat16"),
        'a = R.matmul(x, w, transpose_b=True, out_dtype="float32")\n'
        'b = R.softmax(a, axis=-1)\nc = R.astype(b, dtype="bfloat16")\n'
        'y = R.matmul(c, w, out_dtype="float32")',
    ),
}


@pytest.mark.parametrize("name", WIDE_RESULTS)
def test_sums_that_a_program_asks_for_stay_wide(name: str) -> None:
    made = module(*WIDE_RESULTS[name])
    for step in (Canonicalize(), ChannelsLast(), RecognizeAttention(), Canonicalize()):
        made = step(made)
    text = print_module(made)
    (header,) = [line for line in text.splitlines() if "def main(" in line]
    assert header.endswith('dtype="float32"):')
