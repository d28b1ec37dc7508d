"""Branches on values that only raise are checked when the model runs."""

from __future__ import annotations

import contextlib
import sys
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import burnish
from burnish.frontend.torch.checks_of_data import _code_of
from burnish.support.errors import DataCheckError, FrontendError
from burnish.tests.frontend.torch.oracle import Of

# pytest writes asserts of test files anew: these are compiled as they are.
SOURCE = """
def asserts(x):
    assert not torch.isnan(x).any(), f"values {x.min()}"
    return x * 2

def raises(x):
    if (x > 5).any():
        raise ValueError(f"too large: {x.max().item()}")
    else:
        x = x + 1
    return x * 2

def of_torch(x):
    torch._assert((x < 5).all(), "too large")
    return x * 2

def chains(x):
    assert x.min() > -5 and x.max() < 5 and x.sum() < 10
    if (x == 4).any() or (x == 3).all():
        raise IndexError
    return x * 2

def either(x):
    assert (x < 0).any() or (x > 0).any() or x.numel() == 0
    return x * 2

def known_last(x, strict=True):
    if torch.isinf(x).any() and strict:
        raise ValueError("infinite")
    return x * 2

def known_between(x, strict=True):
    if x.max() > 5 and strict and x.min() > 0:
        raise ValueError("all of them")
    assert x.max() < 5 or (strict and x.min() > 0) or x.sum() > 0
    return x * 2

def in_turn(x):
    for i in range(2):
        if (x[i] > 5).any() and i == 1:
            raise ValueError
    return x * 2

def does_between(x):
    y = x + 0
    if x.max() > 5:
        y.mul_(10)
        if x.min() < 0:
            raise ValueError
    return y * 2

def does_inside(x):
    y = x + 0
    if y.max() > 5 and y.mul_(2).min() < 0:
        raise ValueError
    return y

def log(text):
    SEEN.append(text)

def tells_by_name(x):
    if x.max() > 5:
        log("large")
    return x * 2

def tells_in_place(x):
    y = x + 0
    if x.max() > 5:
        print(torch.abs(y, out=y))
    return y

def asserts_caught(x):
    try:
        torch._assert((x < 5).all(), "too large")
    except AssertionError:
        return x * 0
    return x * 2

def quietly(x):
    with quiet(ValueError):
        if torch.isnan(x).any():
            raise ValueError
        return x * 2
    return x * 0

def numbers(x):
    if x.max().item() > 5:
        raise ValueError
    assert x.sum().item() < 100
    return x * 2

def by_bool(x):
    if not bool((x > -100).all()):
        raise IndexError("low")
    return x * 2

def in_a_loop(x):
    with torch.no_grad():
        for i in range(len(x)):
            assert x[i].isfinite().all()
    return x * 2

def integers(x):
    mask = torch.ones_like(x, dtype=torch.uint8)
    assert mask[0].all()
    return x * 2

def branches(x):
    if x.sum() > 0:
        return x * 2
    return x * 3

def caught(x):
    try:
        if torch.isnan(x).any():
            raise ValueError("nan")
    except ValueError:
        return x * 0
    return x * 2

def _checked(x):
    if torch.isnan(x).any():
        raise ValueError("nan")
    return x

def caught_outside(x):
    try:
        return _checked(x) * 2
    except ValueError:
        return x * 0

def suppressed(x):
    with contextlib.suppress(ValueError):
        if torch.isnan(x).any():
            raise ValueError("nan")
        return x * 2
    return x * 0

def suppressed_beside(x):
    with torch.no_grad(), contextlib.suppress(ValueError):
        if torch.isnan(x).any():
            raise ValueError("nan")
        return x * 2
    return x * 0

def in_known_contexts(x):
    with torch.autocast("cpu", enabled=len(x) > 99), torch.autograd.set_grad_enabled(False) as c:
        if torch.isnan(x).any():
            raise ValueError("nan")
    return x * 2

def tells_of_what_it_takes(x, kept=[1, 2, 3]):
    if x.max() > 5:
        print(kept.pop())
    return x * len(kept)

def sets(x):
    if x.max() > 5 and x.min() < 0:
        x = x * 3
        raise_later = True
    return x * 2

def tells(x):
    if x.max() > 5:
        print("large", x.max().item())
        warnings.warn(f"large values up to {x.max()}")
    return x * 2

def tells_and_sets(x):
    if x.max() > 5:
        print("large")
        x = x * 3
    return x * 2
"""
NAMESPACE: dict[str, Any] = {
    "SEEN": [],
    "contextlib": contextlib,
    "quiet": contextlib.suppress,
    "torch": torch,
    "warnings": warnings,
}
exec(compile(SOURCE, "checked_modules.py", "exec"), NAMESPACE)


GOOD = torch.tensor([[0.5, -1.0], [1.0, 2.0]])
INPUTS = [
    GOOD, GOOD * float("nan"), GOOD * 0, GOOD * 0 + 7, GOOD * 0 + 3, GOOD * 0 - 1000,
    GOOD.clone().fill_(4), torch.tensor([[float("inf"), 1.0], [0.0, 0.0]]),
]  # fmt: skip


@pytest.mark.parametrize(
    "name",
    ["asserts", "raises", "of_torch", "chains", "known_between", "numbers", "by_bool", "in_a_loop",
     "in_known_contexts", "integers"],
)  # fmt: skip
def test_calls_raise_where_the_module_does(name: str) -> None:
    module = Of(NAMESPACE[name]).eval()
    model = burnish.compile(module, (GOOD,))
    for x in INPUTS:
        try:
            wanted = module(x)
        except (AssertionError, ValueError, IndexError, OverflowError):
            with pytest.raises(DataCheckError, match="the model itself raises here"):
                model(x)
        else:
            torch.testing.assert_close(model(x), wanted, equal_nan=True)


@pytest.mark.parametrize(
    "name",
    [
        "branches",
        "caught",
        "caught_outside",
        "suppressed",
        "suppressed_beside",
        "sets",
        "tells_and_sets",
        "tells_of_what_it_takes",
        "either",
        "known_last",
        "in_turn",
        "does_between",
        "does_inside",
        "tells_by_name",
        "tells_in_place",
        "asserts_caught",
        "quietly",
    ],
)
def test_branches_that_do_more_are_refused(name: str) -> None:
    with pytest.raises(FrontendError, match="does not export"):
        burnish.compile(Of(NAMESPACE[name]).eval(), (GOOD,))


@pytest.mark.filterwarnings("error")
def test_what_would_be_told_is_not_and_the_report_says_so() -> None:
    model = burnish.compile(Of(NAMESPACE["tells"]).eval(), (GOOD,))
    assert torch.equal(model(GOOD * 10), GOOD * 20)
    (note,) = model.report.notes
    assert "prints, warns or logs for some values at checked_modules.py:" in note


def test_named_sizes_and_saved_models_keep_their_checks(tmp_path: Any) -> None:
    module = Of(NAMESPACE["chains"]).eval()
    model = burnish.compile(module, (GOOD,), dynamic_shapes=({0: "n"},))
    model.save(tmp_path / "m.burnish")
    for made in (model, burnish.load(tmp_path / "m.burnish")):
        assert torch.equal(made(GOOD[:1]), GOOD[:1] * 2)
        with pytest.raises(DataCheckError):
            made(torch.full((5, 2), 4.0))
    assert torch.SymBool.__bool__.__module__ == "torch"


def test_assertions_on_what_is_known_are_made_at_once() -> None:
    class Known(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            torch._assert(bool(x.shape[0] == 2), "two rows")
            torch._assert((x < 5).all(), "too large")  # type: ignore[no-untyped-call]
            return x * 2

    assert torch.equal(burnish.compile(Known(), (GOOD,))(GOOD), GOOD * 2)
    with pytest.raises(FrontendError, match="two rows"):
        burnish.compile(Known(), (GOOD[:1],))


def test_a_caller_stands_behind_its_call() -> None:
    """Where the interpreter runs a function of Python that is called, and the caller's place is
    among what it keeps behind the call."""

    def asks() -> int:
        return sys._getframe(1).f_lasti

    def calls() -> Any:
        return asks() if asks else None

    code = _code_of(calls.__code__)
    for _ in range(20):  # until calls are specialised
        assert code.branch_at(calls()) is None
