"""The analytic schedule: every operator has one, and it computes what the operator does."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import burnish
from burnish.graphir.passes.legalize import LegalizeOps
from burnish.support.host import native_target
from burnish.support.structural import structural_equal
from burnish.support.target import Target
from burnish.tensorir import operators as op
from burnish.tensorir.arith import Analyzer
from burnish.tensorir.expr import IntImm
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.te.compute import create_prim_func, placeholder
from burnish.tensorir.visitor import substitute
from burnish.tests import test_elementwise_cases
from burnish.tests.graphir.ops import (
    test_elementwise,
    test_matmul,
    test_nn,
    test_reduce,
    test_shape,
)
from burnish.tests.graphir.ops.kernel_cases import module_of
from burnish.tests.native import call_native
from burnish.tests.strategies.schedules import CORPUS
from burnish.tests.tuner.rules.checking import Workload, refuse, rules_of
from burnish.tuner.analytic import apply_rules, schedule_analytically
from burnish.tuner.rules.elementwise import ElementwiseRule
from burnish.tuner.rules.matmul import MatmulRule
from burnish.tuner.schedule_log import KernelSchedule, recorded

OPERATORS = [
    case
    for cases in (
        test_elementwise,
        test_elementwise_cases,
        test_matmul,
        test_nn,
        test_reduce,
        test_shape,
    )
    for case in cases.CASES
]


def arrays(func: PrimFunc, size: int) -> list[np.ndarray]:
    """Random arguments; every symbolic dim is ``size``."""
    rng = np.random.default_rng(0)
    known = {v: IntImm(size) for v in func.shape_vars}
    found = []
    for b in func.buffers:
        dims = [Analyzer().simplify(substitute(d, known)) for d in b.shape]
        values = rng.uniform(1, 9, [d.value for d in dims if isinstance(d, IntImm)])
        found.append((values > 5 if b.dtype.is_bool else values).astype(b.dtype.to_numpy()))
    return found


def check(func: PrimFunc, scheduled: PrimFunc) -> None:
    """A schedule of ``func`` does what ``func`` does, for symbolic dims of several sizes."""
    for size in (0, 2, 19) if func.shape_vars else (2,):
        plain, tuned = arrays(func, size), arrays(func, size)
        dims = [size] * len(func.shape_vars)
        call_native(func, *plain, dims=dims)
        call_native(scheduled, *tuned, dims=dims)
        for a, b in zip(plain, tuned, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("expression", "params"), OPERATORS)
def test_every_operator(expression: str, params: dict[str, str]) -> None:
    for func in LegalizeOps()(module_of(expression, **params)).prim_funcs.values():
        check(func, schedule_analytically(func, native_target()))


@pytest.mark.parametrize("name", CORPUS)
def test_every_shape_of_program(name: str) -> None:
    func = CORPUS[name]()
    check(func, schedule_analytically(func, native_target()))
    for seed in range(2):
        sch = Schedule(func, seed=seed)
        apply_rules(sch, native_target(), sampled=True)
        check(func, sch.func)


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("chain", ["elementwise"]),
        ("softmax", ["reduction"]),
        ("matmul", ["matmul", "products", "reduction"]),
        ("two_matmuls", ["chain", "products", "reduction"]),
        ("convolution", ["reduction"]),
    ],
)
def test_which_rules_there_are(name: str, rules: list[str]) -> None:
    assert rules_of(CORPUS[name](), native_target()) == rules


def test_dot_products_come_first() -> None:
    x, w = placeholder((1, 64), name="x"), placeholder((32, 64), name="w")
    func = create_prim_func([x, w, op.linear(x, w)])
    names = rules_of(func, Target("llvm -mcpu=haswell"))
    assert names == ["dot", "matmul", "products", "reduction"]


def test_a_rule_that_refuses_gives_way_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MatmulRule, "apply", refuse)
    sch = Schedule(CORPUS["matmul"](), seed=0)
    assert apply_rules(sch, native_target()) == "products"
    assert [inst.kind for inst in sch.trace] == ["apply_rule"]
    check(CORPUS["matmul"](), sch.func)


def test_where_no_rule_fits_the_function_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ElementwiseRule, "apply", refuse)
    func = CORPUS["chain"]()
    assert schedule_analytically(func, native_target()) is func


def test_the_result_is_marked_and_the_same_every_time() -> None:
    func = CORPUS["linear_relu"]()
    first, second = [schedule_analytically(func, native_target()) for _ in range(2)]
    assert first.attr("is_scheduled")
    assert structural_equal(first, second)


class _Layers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(96, 200), torch.nn.Linear(200, 50)
        self.norm = torch.nn.LayerNorm(200)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = self.norm(torch.nn.functional.gelu(self.first(x)))
        scores = torch.softmax(h @ h.transpose(0, 1), -1)
        return self.second(scores @ h), h.sum(0)


def test_threads_change_no_bit_of_a_model() -> None:
    torch.manual_seed(0)
    model, x = _Layers().eval(), torch.randn(150, 96)
    one, two = [burnish.compile(model, (x,), threads=n)(x) for n in (1, 2)]
    for a, b, c in zip(one, two, model(x), strict=True):
        assert torch.equal(a, b)
        torch.testing.assert_close(a, c, rtol=1e-4, atol=1e-4)


def test_what_has_no_iterations_needs_no_rule() -> None:
    func = Workload(op.relu, np.abs, (3, 0)).func
    with recorded() as log:
        assert apply_rules(Schedule(func, seed=0), native_target()) is None
    assert log == [KernelSchedule(func.name, "empty")]
