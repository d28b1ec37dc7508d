"""Products over a long axis: errors no larger than twice those of PyTorch, relative to the largest
result, and the same bits for every number of threads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from burnish.support.host import native_target
from burnish.support.target import Target
from burnish.tensorir import operators as op
from burnish.tensorir.text.printer import print_func
from burnish.tests.native import call_native
from burnish.tests.tuner.rules.checking import Shape, Workload, scheduled

PRODUCTS: dict[str, tuple[Callable[[int], tuple[Shape, Shape]], dict[str, bool], str]] = {
    "product": (lambda k: ((16, k), (k, 48)), {}, "matmul"),
    "transposed": (lambda k: ((k, 16), (k, 33)), {"transpose_a": True}, "matmul"),
    "linear": (lambda k: ((9, k), (40, k)), {"transpose_b": True}, "matmul"),
    "few rows": (lambda k: ((1, k), (40, k)), {"transpose_b": True}, "dot"),
    "batch": (lambda k: ((2, 8, k), (2, k, 16)), {}, "matmul"),
    "column": (lambda k: ((16, k), (k, 1)), {}, "dot"),
}


def workload(name: str, depth: int | str, *, dtype: str = "float32") -> tuple[Workload, str]:
    shapes, turned, rule = PRODUCTS[name]
    a, b = shapes(depth)  # type: ignore[arg-type]
    return Workload(lambda x, y: op.matmul(x, y, **turned), np.matmul, a, b, dtype=dtype), rule


def operands(name: str, depth: int, dtype: str, *, positive: bool) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes, _, _ = PRODUCTS[name]
    found = [
        torch.randn(*s, generator=generator, dtype=getattr(torch, dtype))  # type: ignore[arg-type]
        for s in shapes(depth)
    ]
    return [x.abs() for x in found] if positive else found


def reference(name: str, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    turned = PRODUCTS[name][1]
    x = x.mT if turned.get("transpose_a") else x
    return x @ (y.mT if turned.get("transpose_b") else y)


def error(found: np.ndarray, exact: np.ndarray) -> float:
    return float(np.abs(found.astype(exact.dtype) - exact).max() / np.abs(exact).max())


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("depth", [150, 192, 256, 512, 768, 1009, 4096, 100_003])
@pytest.mark.parametrize("name", PRODUCTS)
def test_errors_are_those_of_pytorch(name: str, depth: int, positive: bool) -> None:
    product, expected = workload(name, depth)
    rule, func = scheduled(product.func, target=native_target())
    assert rule == expected
    x, y = operands(name, depth, "float32", positive=positive)
    exact = reference(name, x.double(), y.double()).numpy()
    found = np.empty(exact.shape, np.float32)
    call_native(func, x.numpy(), y.numpy(), found)
    # Blocks of 192 terms of one sign have errors of that size, whatever the order of PyTorch's.
    assert error(found, exact) <= 2 * max(error(reference(name, x, y).numpy(), exact), 2.7e-7)


@pytest.mark.parametrize("name", ["product", "few rows", "column"])
def test_a_depth_of_a_million(name: str) -> None:
    product, _ = workload(name, 10**6)
    _, func = scheduled(product.func, target=native_target())
    x, y = operands(name, 10**6, "float32", positive=True)
    exact = reference(name, x.double(), y.double()).numpy()
    found = np.empty(exact.shape, np.float32)
    call_native(func, x.numpy(), y.numpy(), found)
    assert error(found, exact) <= 6e-7


@pytest.mark.parametrize("name", ["product", "transposed", "linear", "batch"])
def test_symbolic_depths(name: str) -> None:
    product, _ = workload(name, "k")
    _, func = scheduled(product.func, target=native_target())
    for depth in (0, 1, 192, 193, 5000, 60_001):
        x, y = operands(name, depth, "float32", positive=True)
        exact = reference(name, x.double(), y.double()).numpy()
        found = np.full(exact.shape, -7, np.float32)
        call_native(func, x.numpy(), y.numpy(), found, dims=[depth])
        assert np.abs(found - exact).max() <= 1e-6 * np.abs(exact).max()


def test_double_precision() -> None:
    product, _ = workload("product", 30_000, dtype="float64")
    _, func = scheduled(product.func, target=native_target())
    x, y = operands("product", 30_000, "float64", positive=True)
    exact = x.numpy().astype(np.longdouble) @ y.numpy().astype(np.longdouble)
    found = np.empty(exact.shape)
    call_native(func, x.numpy(), y.numpy(), found)
    assert error(found, exact) <= 2 * max(error((x @ y).numpy(), exact), 7e-16)


def test_chains_and_candidates_sum_in_blocks_too() -> None:
    shapes = (12, 30_000), (30_000, 16), (16, 24)
    chain = Workload(lambda x, y, z: op.matmul(op.matmul(x, y), z), np.matmul, *shapes)
    arrays = [np.abs(a) for a in chain.arguments()]
    exact = np.linalg.multi_dot([a.astype(np.float64) for a in arrays])
    found = np.empty(exact.shape, np.float32)
    rule, analytic = scheduled(chain.func, target=native_target())
    assert rule == "chain"
    product = workload("product", 5000)[0].func
    for func in (analytic, scheduled(chain.func, sampled=True, target=native_target())[1]):
        call_native(func, *arrays, found)
        assert error(found, exact) <= 6e-7
    for seed in range(3):
        func = scheduled(product, sampled=True, seed=seed, target=native_target())[1]
        x, y = operands("product", 5000, "float32", positive=True)
        found = np.empty((16, 48), np.float32)
        call_native(func, x.numpy(), y.numpy(), found)
        assert error(found, reference("product", x.double(), y.double()).numpy()) <= 6e-7


def test_whole_numbers_need_no_blocks() -> None:
    product, _ = workload("product", 5000, dtype="int32")
    target = Target("llvm -mcpu=skylake-avx512")
    assert "sum_block" not in print_func(scheduled(product.func, target=target)[1])
    product, _ = workload("product", 5000)
    assert '"sum_block": 192' in print_func(scheduled(product.func, target=target)[1])


@pytest.mark.parametrize("name", ["product", "linear", "few rows"])
def test_bits_do_not_depend_on_threads(name: str) -> None:
    product, _ = workload(name, 5000)
    _, func = scheduled(product.func, target=native_target().with_options(threads=2))
    x, y = operands(name, 5000, "float32", positive=False)
    found = [np.empty(reference(name, x, y).shape, np.float32) for _ in range(3)]
    for threads, out in zip((1, 2, 3), found, strict=True):
        call_native(func, x.numpy(), y.numpy(), out, threads=threads)
    assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()
