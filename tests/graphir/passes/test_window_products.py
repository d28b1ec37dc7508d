"""WindowProducts: first layers of half precision are products of what their windows read."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.graphir.expr import constant
from burnish.graphir.module import IRModule
from burnish.graphir.passes.bind_params import BindParams
from burnish.graphir.passes.window_products import WindowProducts
from burnish.graphir.text.parser import parse_module
from burnish.graphir.text.printer import print_module
from burnish.graphir.verify import verify_module
from burnish.tests.graphir.reference import run

PRODUCTS = WindowProducts(lambda dtype: dtype == "float16")


def module(
    x: tuple[int | str, ...], w: tuple[int, ...], more: str = "", *, bound: bool = True
) -> IRModule:
    count = len(w) - 2
    window = f"strides={[2] * count}, padding={[1, 2] * count}, dilation={[1] * count}"
    shape = ", ".join(map(str, x))
    text = (
        f'@R.function\ndef main(x: R.Tensor(({shape}), "float16"), w: R.Tensor({w}, "float16"), '
        f'b: R.Tensor(({w[0]},), "{"float32" if "out_dtype" in more else "float16"}")):\n'
        "    with R.dataflow():\n"
        f"        y = R.conv(x, w, b, {window}{more})\n        R.output(y)\n    return y\n"
    )
    weight = np.random.default_rng(0).standard_normal(w).astype("float16")
    made = parse_module(text)
    return BindParams("main", {"w": constant(weight)})(made) if bound else made


@pytest.mark.parametrize("more", ["", ', out_dtype="float32"'])
@pytest.mark.parametrize(
    ("x", "w", "layout"),
    [
        ((2, 3, 9, 11), (16, 3, 7, 5), ""),
        ((2, 3, 9, 11), (16, 3, 7, 5), ", out_channels_last=True"),
        ((2, 9, 11, 3), (16, 3, 7, 5), ", channels_last=True"),
        ((2, 9, 11, 4), (17, 4, 5, 5), ", channels_last=True, out_channels_last=False"),
        ((1, 1, 140), (16, 1, 97), ""),
    ],
)
@pytest.mark.parametrize("bound", [True, False])
def test_a_convolution_is_a_product_of_rows(
    x: tuple[int, ...], w: tuple[int, ...], layout: str, more: str, bound: bool
) -> None:
    before = module(x, w, f"{layout}{more}", bound=bound)
    made = verify_module(PRODUCTS(before))
    text = print_module(made)
    assert ("R.conv(" in text, "R.im2col(" in text, "R.linear(" in text) == (False, True, True)
    rng = np.random.default_rng(1)
    inputs = [rng.standard_normal(x).astype("float16")]
    if not bound:
        inputs.append(rng.standard_normal(w).astype("float16"))
    inputs.append(rng.standard_normal(w[0]).astype("float32" if more else "float16"))
    found, expected = run(made, "main", *inputs), run(before, "main", *inputs)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-2)


def test_terms_of_a_constant_weight_are_whole_pairs() -> None:
    text = print_module(PRODUCTS(module((1, 3, 9, 9), (16, 3, 7, 7))))
    assert "(16, 148)" in text


@pytest.mark.parametrize(
    ("x", "w", "more"),
    [
        ((2, 3, 9, 9), (16, 3, 3, 3), ""),  # few terms
        ((2, 3, 9, 9), (8, 3, 7, 7), ""),  # few outputs
        ((2, 8, 9, 9), (16, 8, 7, 7), ""),  # channels enough
        ((2, 6, 9, 9), (16, 3, 7, 7), ", groups=2"),
    ],
)
def test_others_stay(x: tuple[int, ...], w: tuple[int, ...], more: str) -> None:
    before = module(x, w, more)
    assert print_module(PRODUCTS(before)) == print_module(before)


def test_where_the_type_is_not_fast_all_stay() -> None:
    before = module((1, 3, 9, 9), (16, 3, 7, 7))
    made = WindowProducts(lambda _: False)(before)
    assert print_module(made) == print_module(before)
