"""Small compiled modules against torch: odd sizes, empty and unit dims, NaN and infinities.

One module applies a function to tensors of many shapes and gives a list: one export, many kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import burnish
from burnish.tests.driver.conftest import Lambda

SIZES = (1, 3, 17, 31, 33, 100)
SHAPES = ((), (1,), (3,), (1, 17), (31, 1), (17, 31), (33, 100), (2, 3, 5, 7))
INF, NAN = float("inf"), float("nan")
SPECIAL = torch.tensor(
    [
        [0.0, -0.0, INF, -INF, NAN, 1e38, -1e38, 1e-45],
        [1, 2, 3, 4, 5, 6, 7, 8],
        [-INF] * 8,
        [NAN] * 8,
        [INF, INF, -1, -1, 0, 0, 1, 1],
    ]
)
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def compare(found: Any, wanted: Any, tolerance: float | None = None) -> None:
    """Equal structure, shapes, dtypes; close values, NaN where torch has NaN."""
    if isinstance(wanted, (list, tuple)):
        assert len(found) == len(wanted)
        for f, w in zip(found, wanted, strict=True):
            compare(f, w, tolerance)
        return
    limit = tolerance or TOLERANCE.get(wanted.dtype, 0)
    torch.testing.assert_close(found, wanted, rtol=limit, atol=limit, equal_nan=True)


def check(
    function: Callable[..., Any] | nn.Module, *inputs: Tensor, tolerance: float | None = None
) -> None:
    """Compile for these inputs and compare, with torch and NumPy arrays."""
    module = function if isinstance(function, nn.Module) else Lambda(function)
    model = burnish.compile(module.eval(), inputs)
    with torch.no_grad():
        wanted = module(*inputs)
    compare(model(*inputs), wanted, tolerance)
    assert model.compilations == 1


def check_each(
    function: Callable[[Tensor], Any], inputs: Sequence[Tensor], tolerance: float | None = None
) -> None:
    """Apply a function to each input in one module."""
    check(lambda *xs: [function(x) for x in xs], *inputs, tolerance=tolerance)


# -- elementwise ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "function",
    [F.gelu, F.relu, F.silu, torch.tanh, torch.sigmoid, torch.exp, torch.erf, torch.sin, torch.abs],
    ids=lambda f: f.__name__,
)
def test_elementwise_functions_of_any_shape(function: Callable[[Tensor], Tensor]) -> None:
    check_each(function, [randn(*shape) * 2 for shape in SHAPES])


def test_broadcasting() -> None:
    pairs = [
        ((3, 1), (1, 17)),
        ((31,), (3, 31)),
        ((1,), (33,)),
        ((5, 1, 7), (3, 1)),
        ((), (3,)),
        ((2, 1, 1), (1, 3, 17)),
    ]

    def apply(*xs: Tensor) -> list[Tensor]:
        return [a * b + b - a for a, b in zip(xs[::2], xs[1::2], strict=True)]

    check(apply, *[randn(*shape, seed=i) for i, pair in enumerate(pairs) for shape in pair])


# -- reductions -----------------------------------------------------------------------------------
@pytest.mark.parametrize("dim", [0, 1, (0, 1)])
@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin"])
def test_reductions(name: str, dim: int | tuple[int, ...]) -> None:
    function = getattr(torch, name)
    shapes = ((1, 3), (17, 31), (31, 17), (5, 33, 7), (100, 1), (1, 100))
    inputs = [randn(*shape) for shape in shapes]
    for keepdim in (False, True):
        check_each(lambda x, k=keepdim: function(x, dim, keepdim=k), inputs)


@pytest.mark.parametrize("dim", [0, 1])
def test_softmax(dim: int) -> None:
    inputs = [randn(n, k) * 4 for n, k in zip(SIZES, reversed(SIZES), strict=True)]
    check_each(lambda x: F.softmax(x, dim), inputs)
    check_each(lambda x: F.log_softmax(x, dim), inputs)


def test_softmax_does_not_overflow() -> None:
    check(lambda x: F.softmax(x, -1), torch.tensor([[1e4, 1e4 - 1, -1e4], [-1e30, 0, 1e30]]))


def test_layer_norm() -> None:
    norms = nn.ModuleList([nn.LayerNorm(k) for k in SIZES[1:]])
    inputs = [randn(n, k) * 3 + 1 for n, k in pairwise(SIZES)]

    class Norms(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = norms

        def forward(self, *xs: Tensor) -> list[Tensor]:
            return [norm(x) for norm, x in zip(self.norms, xs, strict=True)]

    check(Norms(), *inputs)


def test_unit_softmax_and_norm() -> None:
    """Rows of one element: softmax is 1, layer_norm is 0."""
    check(lambda x: [F.softmax(x, -1), F.layer_norm(x, (1,))], randn(3, 1))


# -- products -------------------------------------------------------------------------------------
PRODUCTS = [
    (1, 3, 17),
    (3, 17, 31),
    (17, 31, 33),
    (31, 33, 100),
    (33, 100, 1),
    (100, 1, 3),
    (100, 100, 100),
    (1, 100, 33),
    (17, 1, 17),
    (1, 1, 1),
    (2, 17, 1),
]


@pytest.mark.parametrize("product", PRODUCTS, ids=lambda p: "x".join(map(str, p)))
def test_products_of_odd_sizes(product: tuple[int, int, int]) -> None:
    m, k, n = product
    check(lambda a, b: a @ b, randn(m, k), randn(k, n, seed=1), tolerance=1e-4)
    check(nn.Linear(k, n), randn(m, k), tolerance=1e-4)


@pytest.mark.parametrize("columns", [1, 3, 17, 33, 100])
def test_linear_for_any_batch(columns: int) -> None:
    torch.manual_seed(columns)
    module = nn.Sequential(nn.Linear(31, columns), nn.ReLU()).eval()
    model = burnish.compile(module, (randn(5, 31),), dynamic_shapes=({0: "batch"},))
    for batch in (0, 1, 2, 3, 7, 12, 13, 31, 100):
        x = randn(batch, 31)
        with torch.no_grad():
            compare(model(x), module(x), 1e-4)
    assert model.compilations == 1


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_chain_of_layers(dynamic: bool) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(
        *(nn.Linear(31, 33), nn.GELU(), nn.Linear(33, 17), nn.LayerNorm(17), nn.Linear(17, 3)),
        nn.Softmax(-1),
    ).eval()
    dims = ({0: "n"},) if dynamic else None
    model = burnish.compile(module, (randn(3, 31),), dynamic_shapes=dims)
    for batch in (0, 1, 3, 31) if dynamic else (3,):
        x = randn(batch, 31)
        with torch.no_grad():
            compare(model(x), module(x), 1e-4)


def test_products_in_a_row() -> None:
    check(
        lambda a, b, c: torch.exp(a @ b * 0.1) @ c,
        *(randn(17, 33), randn(33, 31, seed=1), randn(31, 5, seed=2)),
        tolerance=1e-4,
    )


def test_batched_products() -> None:
    check(lambda a, b: a @ b, randn(2, 3, 5, 7), randn(2, 3, 7, 4, seed=1), tolerance=1e-4)


def test_two_uses_of_one_weight() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(9, 9)
    check(lambda x: [layer(layer(x)), x @ layer.weight], randn(4, 9), tolerance=1e-4)


# -- empty ----------------------------------------------------------------------------------------
def test_empty_tensors() -> None:
    check_each(lambda x: [F.relu(x) + 1, x.sum(0), x.T], [randn(0, 3), randn(3, 0), randn(0, 0)])
    check(lambda x: [x.mean(1), x.sum(1), x.prod(1)], randn(3, 0))
    check(lambda x: F.softmax(x, -1), randn(0, 3))
    check(lambda a, b: torch.cat([a, b]), randn(0, 3), randn(2, 3))
    check(lambda a, b: a * b, randn(2, 0), randn(2, 1))


def test_empty_products() -> None:
    check(lambda a, b: a @ b, randn(3, 0), randn(0, 5))  # zeros
    check(lambda a, b: a @ b, randn(0, 3), randn(3, 5))
    check(lambda a, b: a @ b, randn(2, 3), randn(3, 0))


# -- NaN and infinities ---------------------------------------------------------------------------
@pytest.mark.parametrize(
    "function",
    [
        *(F.relu, torch.abs, torch.neg, torch.exp, torch.log, torch.tanh, torch.sigmoid, torch.erf),
        *(torch.sqrt, torch.rsqrt, torch.floor, torch.round, torch.sign, torch.isnan, F.silu),
    ],
    ids=lambda f: f.__name__,
)
def test_special_values_elementwise(function: Callable[[Tensor], Tensor]) -> None:
    check(function, SPECIAL)


@pytest.mark.parametrize("dim", [0, 1])
def test_special_values_in_reductions(dim: int) -> None:
    check(
        lambda x: [
            *(x.amax(dim), x.amin(dim), x.sum(dim), x.mean(dim)),
            *(F.softmax(x, dim), F.log_softmax(x, dim)),
            F.layer_norm(x, (8,)),
        ],
        SPECIAL,
    )


def test_special_values_in_pairs() -> None:
    check(
        lambda x, y: [
            *(torch.maximum(x, y), torch.minimum(x, y), x.clamp(-1, 1), torch.where(x > y, x, y)),
            *(x == y, x < y, x >= y, x != x),
            *(x**2, x**0.5, x / y),
        ],
        SPECIAL,
        SPECIAL.flip(0, 1),
    )


def test_a_nan_in_a_row_stays_in_its_row() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(33, 17), nn.ReLU(), nn.Linear(17, 5)).eval()
    x = randn(7, 33)
    x[3, 5] = NAN
    x[4, 6] = INF
    check(module, x, tolerance=1e-4)


# -- other dtypes ---------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_floats(dtype: torch.dtype) -> None:
    x = randn(5, 17).to(dtype)
    check(lambda x: [F.relu(x) + 1, x * x, x.amax(1)], x)
    check(nn.Linear(17, 3).to(dtype), x, tolerance=3e-2 if dtype is torch.bfloat16 else None)


def test_double_precision_is_kept() -> None:
    check(lambda x: [F.softmax(x, -1), torch.tanh(x), F.gelu(x)], randn(5, 9).double())


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8])
def test_integers(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    a = torch.randint(0, 100, (3, 17), generator=generator).to(dtype)
    b = torch.randint(1, 9, (3, 17), generator=generator).to(dtype)
    check(lambda a, b: [a + b, a - b, a * b, a // b, a % b, a.sum(1), a.amax(0), a > b], a, b)
    if dtype is not torch.uint8:
        check(lambda a, b: [-a, -a // b, -a % b, a // -b, a % -b], a, b)


def test_booleans() -> None:
    a = torch.tensor([[True, False, True], [False, False, True]])
    check(lambda a: [a & a.flip(0), a | a.flip(0), ~a, a.sum(), a.any(1), a.all(0), a.float()], a)


def test_numpy_gives_the_bits_of_torch() -> None:
    module = nn.Sequential(nn.Linear(31, 17), nn.Softmax(-1)).eval()
    x = randn(6, 31)
    model = burnish.compile(module, (x,))
    np.testing.assert_array_equal(model(x.numpy()), model(x).numpy())
