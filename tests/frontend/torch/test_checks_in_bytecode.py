"""Checks whose answers a model keeps are made when the model runs, too."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch
from torch import nn

import burnish
from burnish.support.errors import DataCheckError, FrontendError, ShapeMismatchError

# pytest writes asserts of test files anew: these are compiled as they are.
SOURCE = """
def of_a_flag(x):
    ok = bool((x > 0).all())
    y = x + 1
    assert ok, "not positive"
    return y * 2

def of_the_contrary(x):
    ok = not bool(torch.isnan(x).any())
    if not ok:
        raise ValueError("nan")
    return x * 2

def of_a_count(x):
    n = int((x > 0).sum())
    assert n > 3
    return x * 2

def of_no_count(x):
    count = int(torch.isnan(x).sum())
    if count:
        raise ValueError(f"{count} values that are none")
    return x * 2

def of_a_range(x):
    n = int(x[0, 0] * 10)
    assert 3 < n < 100
    return x * 2 + n

def of_a_size(x):
    n = int((x > 0).sum())
    assert n == 4
    return x.reshape(n) * 2

def of_floats(x):
    low, high = float(x.min()), float(x.max())
    if low < 0 or high > 50:
        raise ValueError(low, high)
    return x * 2

def _count(x):
    return int((x > 0).sum())

def of_a_function(x):
    n = _count(x)
    if n < 4:
        raise ValueError(n)
    return x * 2

def caught(x):
    ok = bool((x > 0).all())
    try:
        assert ok
    except AssertionError:
        return x
    return x * 2

def caught_outside(x):
    try:
        return of_a_flag(x)
    except AssertionError:
        return x

def suppressed(x):
    with torch.no_grad(), contextlib.suppress(AssertionError):
        ok = bool((x > 0).all())
        assert ok
        return x
    return x * 2

def tensor_caught(x):
    try:
        assert (x > 0).all()
    except AssertionError:
        x = x.abs()
    return x.log()

def branches(x):
    ok = bool((x > 0).all())
    if not ok:
        x = x.abs()
    return x * 2

def compared(x):
    ok = (x > 0).all().item() is True
    assert ok
    return x * 2
"""
NAMESPACE: dict[str, Any] = {"contextlib": contextlib, "torch": torch}
exec(compile(SOURCE, "kept_answers.py", "exec"), NAMESPACE)


class Of(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.function = NAMESPACE[name]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.function(x)
        return found


GOOD = torch.tensor([[0.5, 1.0], [3.0, 2.0]])
INPUTS = [GOOD, -GOOD, GOOD * 1000, GOOD * float("nan"), GOOD * 0, GOOD - 1]


@pytest.mark.parametrize("name", [name for name in NAMESPACE if name.startswith("of_")])
def test_calls_raise_where_the_module_does(name: str) -> None:
    module = Of(name).eval()
    model = burnish.compile(module, (GOOD,))
    raised = 0
    for x in INPUTS:
        try:
            wanted = module(x)
        except (AssertionError, ValueError):
            raised += 1
            with pytest.raises((DataCheckError, ShapeMismatchError), match=r"kept_answers\.py"):
                model(x)
        else:
            torch.testing.assert_close(model(x), wanted, equal_nan=True)
    assert raised


@pytest.mark.parametrize(
    "name", ["caught", "caught_outside", "suppressed", "tensor_caught", "branches", "compared"]
)
def test_branches_that_do_more_are_refused(name: str) -> None:
    with pytest.raises(FrontendError, match="does not export"):
        burnish.compile(Of(name).eval(), (GOOD,))
