"""Random graphs: both builds are what eager says, and what is wrong is found."""

from __future__ import annotations

import subprocess
from typing import Any

import numpy as np
import pytest
import torch

import burnish
from burnish.tests.fuzz import graphs
from burnish.tests.fuzz.graphs import Checked, check_graph, report, run_chunk

SMALLEST = torch.iinfo(torch.int32).min


@pytest.mark.parametrize("family", graphs.FAMILIES)
@pytest.mark.parametrize("seed", range(500, 506))
def test_a_graph_is_what_eager_says(family: str, seed: int) -> None:
    checked = check_graph(seed, family)
    assert checked.failure == ""
    assert checked.ending == "same" or "complex" in checked.ending


def test_a_wrong_build_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = graphs._unfused

    def wrong(module: Any) -> Any:
        function = right(module)
        return lambda *inputs: [np.asarray(x) * 0 + 77 for x in graphs.flat(function(*inputs))]

    monkeypatch.setattr(graphs, "_unfused", wrong)
    for family in graphs.FAMILIES:
        assert "AssertionError" in check_graph(501, family).failure


def test_results_may_move_as_far_as_eager_s_own() -> None:
    want, zero = torch.tensor([1.0, 100.0, torch.nan]), torch.zeros(3, dtype=torch.float64)
    assert graphs._difference(want.clone(), want, zero) == ""
    off = want + torch.tensor([1e-3, 1e-3, 0.0])
    assert graphs._difference(off, want, zero) == ""
    further = want + torch.tensor([0.0, 1.0, 0.0])
    assert "1 of 3 elements differ: 101.0 at (1,)" in graphs._difference(further, want, zero)
    assert graphs._difference(further, want, zero + 0.5) == ""
    number = torch.tensor([1.0, 100.0, 3.0])
    assert "1 of 3" in graphs._difference(number, want, zero)
    assert graphs._difference(want.double(), want, zero) == (
        "torch.float64 (3,), not torch.float32 (3,)"
    )


def test_integers_are_equal() -> None:
    want = torch.tensor([3, SMALLEST], dtype=torch.int32)
    zero = torch.zeros(2, dtype=torch.float64)
    assert graphs._difference(want.clone(), want, zero) == ""
    assert "1 of 2" in graphs._difference(torch.tensor([3, 0], dtype=torch.int32), want, zero)


@pytest.mark.parametrize("source", [torch.float32, torch.float64])
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32, torch.int64])
def test_eager_casts_as_the_product_does(source: torch.dtype, dtype: torch.dtype) -> None:
    x = torch.tensor([torch.nan, torch.inf, -torch.inf, 1e30, -1e30, 2.7, 100.0], dtype=source)

    class Cast(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.to(dtype)

    with graphs.SaturatingCasts():
        cast = Cast()(x)
    limits = torch.iinfo(dtype)
    assert cast.tolist() == [0, limits.max, limits.min, limits.max, limits.min, 2, 100]
    assert np.array_equal(burnish.compile(Cast(), (x,))(x), cast)


def test_what_a_module_holds_moves_too() -> None:
    class Held(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.held = torch.nn.Parameter(torch.ones(4), requires_grad=False)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor]:
            return (self.held.double() + x,)

    module, x = Held(), torch.zeros(4, dtype=torch.int32)
    (spread,) = graphs._spread(module, [x], module(x))
    assert bool((spread > 1e-7).all())
    assert bool((module.held == 1).all())


def test_every_operator_s_roundings_count() -> None:
    """Also that of a result which is cast to a wider type, and those inside of gelu."""

    class Steps(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return torch.sin(x.float()).double(), torch.nn.functional.gelu(x.float()), x + 1

    module, x = Steps(), torch.full((4,), -4, dtype=torch.int64)
    sin, gelu, integer = graphs._spread(module, [x], module(x))
    assert bool((sin > 1e-8).all())
    assert bool((sin < 1e-5).all())
    assert bool((gelu > 1e-8).all())
    assert bool((integer == 0).all())


def test_a_crash_costs_one_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    said = '{"begin": 7}\n{"seed": 7, "family": "control", "ending": "same"}\n{"begin": 8}\n'
    answers = iter(
        [
            subprocess.CompletedProcess([], -11, said, "words"),
            subprocess.CompletedProcess([], 0, '{"begin": 9}\n', ""),
        ]
    )
    monkeypatch.setattr(graphs, "run_worker", lambda *arguments: next(answers))
    found = list(run_chunk("control", 7, 3))
    assert [(c.seed, bool(c.failure)) for c in found] == [(7, False), (8, True)]
    assert "SIGSEGV" in found[1].failure


def test_the_report_counts_by_family() -> None:
    text = report([Checked(0, "control", "same"), Checked(1, "control", "", "Traceback ...\n")])
    assert text == ("control: 2 graphs: 1 same, 1 failures\nFAILED control, seed 1\nTraceback ...")
