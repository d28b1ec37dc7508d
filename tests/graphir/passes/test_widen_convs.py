"""WidenConvs: convolutions of half precision are of float32, rounded once, where that is faster."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.graphir.expr import constant
from burnish.graphir.module import IRModule
from burnish.graphir.passes.bind_params import BindParams
from burnish.graphir.passes.widen_convs import WidenConvs
from burnish.graphir.text.parser import parse_module
from burnish.graphir.text.printer import print_module
from burnish.graphir.verify import verify_module
from burnish.tests.graphir.reference import run

W = np.random.default_rng(0).standard_normal((6, 8, 3, 3)).astype("float16")


def module(dtype: str, more: str = "", layout: str = "1, 5, 5, 8") -> IRModule:
    shape = f'R.Tensor(({layout}), dtype="{dtype}")'
    made = parse_module(
        f'@R.function\ndef main(x: {shape}, w: R.Tensor({W.shape}, "float16")):\n'
        f'    with R.dataflow():\n        v = R.astype(w, dtype="{dtype}")\n'
        "        y = R.conv(x, v, strides=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=1"
        f"{more})\n        R.output(y)\n    return y\n"
    )
    bound: IRModule = BindParams("main", {"w": constant(W)})(made)
    return bound


@pytest.mark.parametrize("more", ["", ', out_dtype="float32"'])
def test_a_convolution_is_of_float32_and_rounded_once(more: str) -> None:
    before = module("float16", f", channels_last=True{more}")
    made = verify_module(WidenConvs(lambda _: False)(before))
    text = print_module(made)
    assert 'R.astype(x, dtype="float32")' in text
    assert ("y = R.astype(wide" in text) == (not more)
    x = np.random.default_rng(1).standard_normal((1, 5, 5, 8)).astype("float16")
    found, expected = run(made, "main", x), run(before, "main", x)
    assert found.dtype == ("float32" if more else "float16")
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3)


def test_where_the_cpu_is_faster_those_stay_that_can_use_it() -> None:
    channels = ", channels_last=True"
    for dtype, more, layout, stays in (
        ("bfloat16", channels, "1, 5, 5, 8", True),
        ("float16", channels, "1, 5, 5, 8", False),
        ("bfloat16", "", "1, 8, 5, 5", False),
        ("float32", channels, "1, 5, 5, 8", True),
    ):
        before = module(dtype, more, layout)
        made = WidenConvs(lambda d: d == "bfloat16")(before)
        assert (print_module(made) == print_module(before)) is stays
