"""Recurrent layers of torch: any number of steps, layers, directions, and what is left to torch."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import burnish
from burnish.frontend.torch.convert_recurrent import steps_of

KINDS = {"lstm": nn.LSTM, "gru": nn.GRU, "tanh": nn.RNN, "relu": nn.RNN}


def layer(kind: str, *sizes: int, **options: Any) -> nn.Module:
    torch.manual_seed(0)
    if kind in ("tanh", "relu"):
        options["nonlinearity"] = kind
    return KINDS[kind](*sizes, **options).eval()


def agrees(model: Any, module: nn.Module, *args: Any) -> None:
    with torch.no_grad():
        wanted = pytree.tree_leaves(module(*args))
    for one, other in zip(pytree.tree_leaves(model(*args)), wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_one_program_serves_every_number_of_steps(
    kind: str, bidirectional: bool, bias: bool
) -> None:
    module = layer(kind, 6, 8, 2, bidirectional=bidirectional, bias=bias, batch_first=True)
    shapes = ({0: "batch", 1: "steps"},)
    model = burnish.compile(module, (torch.rand(2, 5, 6),), dynamic_shapes=shapes)
    for batch, steps in ((2, 5), (1, 1), (3, 40)):
        agrees(model, module, torch.randn(batch, steps, 6))
    assert model.compilations == 1
    assert "recurrent (" in str(model.report)


@pytest.mark.parametrize("kind", KINDS)
def test_given_states_and_rows_without_a_batch(kind: str) -> None:
    module = layer(kind, 6, 8)
    state = torch.randn(1, 3, 8)
    given = (state, state * 2) if kind == "lstm" else state
    example = (torch.randn(4, 3, 6), given)
    agrees(burnish.compile(module, example), module, *example)
    x = torch.randn(4, 6)
    agrees(burnish.compile(module, (x,)), module, x)


def test_float64_and_a_model_around_it() -> None:
    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(30, 6)
            self.layer = layer("lstm", 6, 8, 2, dropout=0.5)
            self.out = nn.Linear(8, 3)

        def forward(self, words: torch.Tensor) -> torch.Tensor:
            _, (h, _) = self.layer(self.words(words))
            result: torch.Tensor = self.out(h[-1])
            return result

    module = Reader().eval()
    words = torch.randint(0, 30, (7, 2))
    model = burnish.compile(module, (words,), dynamic_shapes=({0: "steps"},))
    for steps in (7, 1, 100):
        agrees(model, module, torch.randint(0, 30, (steps, 2)))
    double = layer("gru", 6, 8).double()
    x = torch.randn(5, 2, 6, dtype=torch.float64)
    agrees(burnish.compile(double, (x,)), double, x)


@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_what_is_left_to_torch_is_written_out() -> None:
    module, x = layer("lstm", 6, 8, proj_size=3), torch.randn(4, 2, 6)
    model = burnish.compile(module, (x,))
    assert "recurrent" not in model.script("00-import")
    with torch.no_grad():
        wanted = pytree.tree_leaves(module(x))
    for one, other in zip(pytree.tree_leaves(model(x)), wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", ["lstm", "gru", "tanh"])
def test_half_precision_of_named_lengths(kind: str, dtype: torch.dtype) -> None:
    module = layer(kind, 6, 8, bidirectional=True)
    exact = copy.deepcopy(module).double()
    x = torch.randn(4, 2, 6).to(dtype)
    model = burnish.compile(module.to(dtype), (x,), dynamic_shapes=({0: "steps"},))
    assert "recurrent" in model.script("00-import")
    exact.load_state_dict(module.state_dict())
    for steps in (1, 9):
        x = torch.randn(steps, 2, 6).to(dtype)
        with torch.no_grad():
            wanted = pytree.tree_leaves(exact(x.double()))
        for one, other in zip(pytree.tree_leaves(model(x)), wanted, strict=True):
            assert one.dtype is dtype
            error = 4 * torch.finfo(dtype).eps
            torch.testing.assert_close(one.double(), other, rtol=error, atol=error)


@pytest.mark.parametrize("kind", ["lstm", "gru", "tanh", "relu"])
def test_the_operator_runs_in_torch_too(kind: str) -> None:
    """What ``verify`` and fallbacks call."""
    module = layer(kind, 4, 5)
    x = torch.randn(3, 2, 4)
    model = burnish.compile(module, (x,))
    assert model.verify(x)
    cell = kind if kind in ("lstm", "gru") else f"rnn_{kind}"
    torch.library.opcheck(
        steps_of,
        (
            torch.randn(3, 2, {"lstm": 20, "gru": 15}.get(kind, 5)),
            torch.randn(2 if kind == "lstm" else 1, 2, 5),
            torch.randn(5, {"lstm": 20, "gru": 15}.get(kind, 5)),
            torch.randn(5) if kind == "gru" else None,
            cell,
        ),
        test_utils=("test_schema", "test_faketensor"),
    )
