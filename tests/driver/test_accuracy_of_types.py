"""Every kind of kernel in every type of computation against float64, within the bounds that
docs/precision.md states.

A product is a function f(x, w) that is linear in both: with |x| and |w| it gives the sum S of the
magnitudes that bounds go by, with ones the number of terms k, and what rounding may do to the
operands, dx and dw, changes a result by f(|x|, dw) + f(dx, |w| + dw) at most. Products that a word
leaves in float32 are within its bound all the more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import burnish
from burnish.tensorir.operators.winograd import error_bound
from burnish.tests.driver.conftest import Lambda

Product = Callable[[Tensor, Tensor], Tensor]
UNIT = 2.0**-24
HALVES = {"bfloat16": (2.0**-7, 2.0**-16), "float16": (2.0**-10, 2.0**-22)}
"""What a product of two rounded operands is off by, and its square."""
INTEGERS = {
    "int8-weights": (127, 128),
    "int8-weights:32": (127, 32),
    "int4-weights": (7, 32),
    "int4-weights:64": (7, 64),
}
"""The largest integer, and how many weights have one scale at most."""
WORDS = ("float32", "strict", "float32-split", *HALVES, "int8", *INTEGERS, "quantize")

PRODUCTS: dict[str, tuple[tuple[int, ...], tuple[int, ...], Product]] = {
    "linear": ((40, 64), (33, 64), F.linear),
    "linear of a batch": ((2, 20, 48), (40, 48), F.linear),
    "one row": ((1, 96), (50, 96), F.linear),
    "few rows": ((3, 64), (48, 64), F.linear),
    "a matrix that is not turned": ((30, 64), (64, 24), torch.matmul),
    "products of a batch": ((3, 33, 40), (3, 40, 20), torch.matmul),
    "conv": ((1, 16, 11, 9), (24, 16, 3, 3), lambda x, w: F.conv2d(x, w, padding=1)),
    "conv, Winograd's": ((1, 32, 12, 12), (32, 32, 3, 3), lambda x, w: F.conv2d(x, w, padding=1)),
    "conv, strided": ((2, 16, 11, 9), (16, 16, 3, 3), lambda x, w: F.conv2d(x, w, stride=2)),
    "conv, dilated": ((1, 16, 11, 9), (16, 16, 3, 3), lambda x, w: F.conv2d(x, w, dilation=2)),
    "conv of pixels": ((1, 32, 7, 7), (48, 32, 1, 1), F.conv2d),
    "conv of colours": ((1, 3, 12, 12), (16, 3, 5, 5), lambda x, w: F.conv2d(x, w, stride=2)),
    "conv of groups": ((1, 32, 8, 8), (32, 8, 3, 3), lambda x, w: F.conv2d(x, w, groups=4)),
    "conv, depthwise": ((1, 24, 9, 9), (24, 1, 3, 3), lambda x, w: F.conv2d(x, w, groups=24)),
    "conv of rows": ((2, 16, 30), (16, 16, 5), lambda x, w: F.conv1d(x, w, padding=2)),
    "conv, transposed": (
        (1, 16, 5, 5), (16, 16, 4, 4), lambda x, w: F.conv_transpose2d(x, w, stride=2),
    ),
}  # fmt: skip
"""The shapes of operands; of all but a batch's the second is constant."""
OF_TWO_INPUTS = "products of a batch"


class Products(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        shapes = [w for _, w, _ in PRODUCTS.values()]
        self.weights = nn.ParameterList([torch.randn(s, generator=generator) for s in shapes])
        self.inputs = [torch.randn(x, generator=generator) for x, _, _ in PRODUCTS.values()]
        self.inputs.append(self.weights[list(PRODUCTS).index(OF_TWO_INPUTS)].detach().clone())

    def forward(self, *inputs: Tensor) -> list[Tensor]:
        *xs, other = inputs
        return [
            product(x, other if name == OF_TWO_INPUTS else w)
            for (name, (_, _, product)), x, w in zip(
                PRODUCTS.items(), xs, self.weights, strict=True
            )
        ]


def compiled(module: Products, word: str, target: str) -> Any:
    words: dict[str, Any] = {"target": target, "threads": 1}
    if word == "quantize":
        sample = tuple(module.inputs)
        return burnish.quantize(module, [sample], ranges="minmax", bias_correction=False, **words)
    return burnish.compile(module, tuple(module.inputs), precision=word, **words)


def groups_of(terms: int, most: int, bits: int) -> int:
    """The longest divisor of the terms that fills words of 32 bits."""
    fitting = [n for n in range(1, most + 1) if terms % n == 0 and n * bits % 32 == 0]
    return max(fitting, default=terms)


def off_by(word: str, name: str, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """What rounding changes activations and weights by, at most: dx, dw."""
    none = torch.zeros_like(x), torch.zeros_like(w)
    outputs = 1 if name in ("a matrix that is not turned", "conv, transposed") else 0
    if name == OF_TWO_INPUTS:
        return none
    if word in INTEGERS:
        if w.ndim > 2:
            return none
        most, length = INTEGERS[word]
        rows = w if outputs == 0 else w.T
        size = groups_of(rows.shape[1], length, 8 if most == 127 else 4)
        steps = rows.abs().reshape(rows.shape[0], -1, size).amax(-1) / most
        dw = (steps / 2).repeat_interleave(size, 1)
        return none[0], dw if outputs == 0 else dw.T
    if word not in ("int8", "quantize"):
        return none
    others = [d for d in range(w.ndim) if d != outputs]
    dw = (w.abs().amax(others, keepdim=True) / 254).expand_as(w)
    if word == "int8":
        return (x.abs().amax(-1, keepdim=True) / 254).expand_as(x), dw
    span = float(x.clamp(min=0).max() - x.clamp(max=0).min())
    return torch.full_like(x, span / 510), dw


def bound_of(word: str, name: str, x: Tensor, w: Tensor) -> Tensor:
    """The largest error of each result, as the page has it."""
    product = PRODUCTS[name][2]
    terms = product(torch.ones_like(x), torch.ones_like(w)).max()
    dx, dw = off_by(word, name, x, w)
    # A divided activation may round to either neighbour of a half.
    dx, dw = dx * (1 + 2.0**-16), dw * (1 + 2.0**-16)
    whole = product(x.abs() + dx, w.abs() + dw)
    rounding, square = HALVES.get(word, (0.0, 0.0))
    bound = product(x.abs(), dw) + product(dx, w.abs() + dw)
    bound = bound + (rounding + square + (2 * terms + 6) * UNIT) * whole
    if w.shape[2:] == (3, 3) and word != "strict":
        # Convolutions may be Winograd's, of the rounded operands.
        bound = bound + error_bound(4, w.shape[1]) * float(x.abs().max() * w.abs().max())
    return bound


@pytest.fixture(scope="module")
def products() -> Products:
    return Products().eval()


def check(module: Products, word: str, target: str) -> dict[str, float]:
    """Every product within its bound; the error of each, of its bound."""
    found = compiled(module, word, target)(*module.inputs)
    parts = {}
    for name, x, w, y in zip(PRODUCTS, module.inputs, module.weights, found, strict=False):
        wide_x, wide_w = x.double(), w.detach().double()
        error = (y.detach().double() - PRODUCTS[name][2](wide_x, wide_w)).abs()
        parts[name] = float((error / bound_of(word, name, wide_x, wide_w)).max())
    assert {n: p for n, p in parts.items() if not p <= 1} == {}
    return parts


@pytest.mark.parametrize("word", WORDS)
def test_products_stay_within_their_bounds(products: Products, word: str) -> None:
    parts = check(products, word, "native")
    if word in HALVES or word in ("int8", "quantize", *INTEGERS):
        # The bounds are not idle, and the type is the one that was asked for.
        assert parts["linear"] > 0.02


@pytest.mark.parametrize("word", ["bfloat16", "float16", "float32-split", "int8", "quantize"])
def test_products_in_tiles_stay_within_the_same(products: Products, word: str) -> None:
    check(products, word, "native -mattr=+emulated-tiles")


# -- attention -------------------------------------------------------------------------------------
@pytest.mark.parametrize("target", ["native", "native -mattr=+emulated-tiles"])
@pytest.mark.parametrize("word", [*HALVES, "float32", "int8", "int8-weights"])
def test_attention_stays_within_its_bound(word: str, target: str) -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn((1, 2, 24, 16), generator=generator) for _ in range(3))
    module = Lambda(F.scaled_dot_product_attention)
    found = burnish.compile(module, (q, k, v), precision=word, target=target, threads=1)(q, k, v)
    exact = F.scaled_dot_product_attention(*(t.double() for t in (q, k, v)))
    rounding, square = HALVES.get(word, (0.0, 0.0))
    magnitudes = (q.abs() @ k.abs().mT).max() / math.sqrt(q.shape[-1])
    score = (rounding + square + 32 * UNIT) * float(magnitudes)
    bound = (rounding + math.expm1(2 * score) + 64 * UNIT) * float(v.abs().max())
    assert float((found.double() - exact).abs().max()) <= bound


# -- everything else -------------------------------------------------------------------------------
def _normed(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:])


OTHERS: dict[str, tuple[tuple[int, ...], Callable[[Tensor], Tensor]]] = {
    "layer_norm": ((9, 40), _normed),
    "rms_norm": ((9, 40), lambda x: F.rms_norm(x, x.shape[-1:], eps=1e-5)),
    "group_norm": ((2, 8, 5, 5), lambda x: F.group_norm(x, 4)),
    "softmax": ((7, 33), lambda x: torch.softmax(x, -1)),
    "log_softmax": ((7, 33), lambda x: torch.log_softmax(x, -1)),
    "relu": ((5, 33), torch.relu),
    "gelu": ((5, 33), F.gelu),
    "gelu by tanh": ((5, 33), lambda x: F.gelu(x, approximate="tanh")),
    "silu": ((5, 33), F.silu),
    "hardswish": ((5, 33), F.hardswish),
    "softplus": ((5, 33), F.softplus),
    "elu": ((5, 33), F.elu),
    "exp": ((5, 33), torch.exp),
    "log1p": ((5, 33), lambda x: torch.log1p(x.abs())),
    "tanh": ((5, 33), torch.tanh),
    "sigmoid": ((5, 33), torch.sigmoid),
    "erf": ((5, 33), torch.erf),
    "sin": ((5, 33), torch.sin),
    "sqrt": ((5, 33), lambda x: torch.sqrt(x.abs())),
    "max_pool": ((1, 8, 9, 9), lambda x: F.max_pool2d(x, 3, 2, 1)),
    "avg_pool": ((1, 8, 9, 9), lambda x: F.avg_pool2d(x, 2)),
    "adaptive_pool": ((1, 8, 9, 9), lambda x: F.adaptive_avg_pool2d(x, 1)),
    "sum": ((40, 60), lambda x: x.sum(-1)),
    "mean of columns": ((40, 60), lambda x: x.mean(0)),
    "largest": ((9, 60), lambda x: x.amax(-1)),
    "add": ((9, 31), lambda x: x + x.flip(0)),
    "multiply": ((9, 31), lambda x: x * x.flip(0)),
    "divide": ((9, 31), lambda x: x / x.flip(0)),
    "transposed": ((9, 31), lambda x: x.mT.contiguous()),
}
ROUNDED = {torch.float32: 0.0, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
"""What rounding a result to its type changes it by."""
INSIDE = 256 * UNIT
"""What float32 inside is off by, of the largest result."""


@pytest.mark.parametrize("dtype", ROUNDED, ids=str)
def test_everything_else_is_of_float32_and_rounded_once(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    xs = [torch.randn(s, generator=generator).to(dtype) for s, _ in OTHERS.values()]
    functions = [f for _, f in OTHERS.values()]
    module = Lambda(lambda *x: [f(v) for f, v in zip(functions, x, strict=True)])
    found = burnish.compile(module, tuple(xs), threads=1)(*xs)
    parts = {}
    for name, x, y in zip(OTHERS, xs, found, strict=True):
        exact = OTHERS[name][1](x.double())
        assert y.dtype == dtype
        bound = (
            ROUNDED[dtype] * exact.abs()
            + INSIDE * exact.abs().max()
            + 2.0**-25 * (dtype == torch.float16)
        )
        parts[name] = float(((y.double() - exact).abs() / bound).max())
    assert {n: p for n, p in parts.items() if not p <= 1} == {}


@pytest.mark.parametrize("word", [w for w in WORDS if w != "quantize"])
def test_no_word_rounds_anything_else(word: str) -> None:
    generator = torch.Generator().manual_seed(0)
    xs = [torch.randn(s, generator=generator) for s, _ in OTHERS.values()]
    functions = [f for _, f in OTHERS.values()]
    module = Lambda(lambda *x: [f(v) for f, v in zip(functions, x, strict=True)])
    plain, asked = (
        burnish.compile(module, tuple(xs), precision=p, threads=1)(*xs) for p in ("float32", word)
    )
    assert all(torch.equal(a, b) for a, b in zip(plain, asked, strict=True))
