"""Products of every kind: a rule for products schedules each, and no kernel is left far from the
machine without a note in the report."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch

import burnish
from burnish.driver.compiled_model import CompiledModel
from burnish.tests.tuner.rules.checking import refuse
from burnish.tuner.rules.matmul import MatmulRule
from burnish.tuner.rules.products import ProductsRule
from burnish.tuner.schedule_log import FAR_OFF

PRODUCT_RULES = ("matmul", "dot", "int8", "chain", "products", "attention", "bfloat16")
SIZES = (1, 3, 8, 17, 33, 64, 200)
DTYPES = (torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32)


class Product(torch.nn.Module):
    def __init__(self, compute: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.compute = compute

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.compute(*inputs)


def drawn(seed: int) -> tuple[Product, tuple[torch.Tensor, ...]]:
    """A product: operands shared, transposed, strided, broadcast, in a batch, of any size and
    dtype, with something before and behind it."""
    rng = random.Random(seed)
    m, n, k = [rng.choice(SIZES) for _ in range(3)]
    dtype, batch = rng.choice(DTYPES), rng.choice([(), (), (2,), (1, 4)])
    kind = rng.choice(["two", "square", "gram", "across", "strided", "linear", "broadcast"])
    before = rng.choice([lambda x: x, lambda x: x, torch.relu, lambda x: x * 2])
    behind = rng.choice(["", "relu", "x", "w", "double"])

    def compute(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = {
            "two": lambda: before(x) @ w,
            "square": lambda: before(x) @ x,
            "gram": lambda: before(x) @ before(x).mT,
            "across": lambda: x.mT @ before(x),
            "strided": lambda: before(x)[..., ::2] @ w[..., ::2, :],
            "linear": lambda: torch.nn.functional.linear(before(x), w),
            "broadcast": lambda: before(x) @ w[None],
        }[kind]()
        other = {"x": x, "w": w}.get(behind)
        if other is not None:
            return y + other if other.shape[-2:] == y.shape[-2:] else y
        return torch.relu(y) if behind == "relu" else y * 2 if behind == "double" else y

    if kind == "square":
        m = n = k
    shapes = (*batch, m, k), (n, k) if kind == "linear" else (*batch, k, n)
    generator = torch.Generator().manual_seed(seed)
    x, w = [torch.randint(-4, 5, s, generator=generator).to(dtype) for s in shapes]
    return Product(compute).eval(), (x, w)


def products_left_over(model: CompiledModel) -> list[str]:
    """The kernels with a product that no rule for products scheduled. (Outer products sum nothing:
    they are elementwise.)"""
    return [
        str(s)
        for name, s in model.report.schedules.items()
        if ("matmul" in name or "linear" in name) and s.rule not in (*PRODUCT_RULES, "elementwise")
    ]


@pytest.mark.parametrize("seed", range(40))
def test_every_product_has_a_rule_of_products(seed: int) -> None:
    model, inputs = drawn(seed)
    compiled = burnish.compile(model, example_inputs=inputs, threads=1)
    assert products_left_over(compiled) == []
    assert all(s.refusals == () for s in compiled.report.schedules.values())
    expected = model(*inputs).double().numpy()
    found = np.asarray(torch.as_tensor(compiled(*inputs)).double())
    scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
    assert (
        np.abs(found - expected).max(initial=0.0)
        <= (4e-3 if inputs[0].itemsize == 2 else 0.0) * scale
    )


@pytest.mark.parametrize(
    "name", ["relu(x @ x)", "x @ y + y", "x @ x + x", "x @ x.T / 8", "x.T @ x"]
)
def test_large_shared_operands(name: str) -> None:
    x = torch.zeros(512, 512)
    compute = {
        "relu(x @ x)": lambda x, y: torch.relu(x @ x),
        "x @ y + y": lambda x, y: x @ y + y,
        "x @ x + x": lambda x, y: x @ x + x,
        "x @ x.T / 8": lambda x, y: x @ x.T / 8,
        "x.T @ x": lambda x, y: x.T @ x,
    }[name]
    report = burnish.compile(Product(compute), example_inputs=(x, x), threads=1).report
    (kernel,) = report.schedules.values()
    assert (kernel.rule, kernel.refusals, report.notes) == ("matmul", (), [])
    assert kernel.slowdown is not None
    assert kernel.slowdown < 2


def test_no_slow_kernel_goes_without_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    for rule in (MatmulRule, ProductsRule):
        monkeypatch.setattr(rule, "apply", refuse)
    x = torch.zeros(300, 300)
    product, wide = Product(lambda x: x @ x), "llvm -mcpu=skylake-avx512"
    report = burnish.compile(product, example_inputs=(x,), target=wide, threads=1).report
    (kernel,) = report.schedules.values()
    assert kernel.rule == "reduction"
    assert [rule for rule, _ in kernel.refusals] == ["matmul", "products"]
    assert kernel.slowdown is not None
    assert kernel.slowdown > FAR_OFF
    assert any("may be slow" in note and repr(kernel.kernel) in note for note in report.notes)
    assert "matmul refused (unroll: The loop is too long.)" in str(report)
