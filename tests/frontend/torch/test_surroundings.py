"""What surrounds an export leaves torch as it was."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
import torch.backends.opt_einsum as opt_einsum
from torch import nn

import burnish
from burnish.frontend.torch.export import export_module
from burnish.frontend.torch.surroundings import quiet_torch
from burnish.support.errors import FrontendError


def test_a_module_may_try_a_call_and_catch_what_it_raises() -> None:
    class Tries(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            try:
                return self.layer(x, lengths=None)
            except TypeError:
                return self.layer(x)

    x = torch.rand(1, 4)
    module = nn.Sequential(Tries(), nn.ReLU()).eval()
    torch.testing.assert_close(burnish.compile(module, (x,))(x), module(x))


class Converts(nn.Module):
    """A router that is of a dtype of its own, as mixtures of experts have."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        self.router = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.router = self.router.to(self.dtype)
        found: torch.Tensor = self.router(x.to(self.dtype))
        return found.to(x.dtype)


def test_a_conversion_to_the_dtype_that_is_there_changes_nothing() -> None:
    x = torch.rand(3, 4)
    module = Converts(torch.float32).eval()
    held = nn.Module._apply
    torch.testing.assert_close(burnish.compile(module, (x,))(x), module(x))
    with pytest.raises(FrontendError, match="convert it once, before compiling") as raised:
        burnish.compile(Converts(torch.float64).eval(), (x,))
    assert "self.router.to(self.dtype)" in str(raised.value)
    assert nn.Module._apply is held


def test_the_order_of_an_einsum_does_not_fix_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """opt_einsum, which is not among our dependencies, compares sizes."""

    asked: list[str] = []

    class Orders:
        @staticmethod
        def contract_path(equation: str, *shapes: Any, **options: Any) -> tuple[list[Any], str]:
            assert options == {"shapes": True, "optimize": "auto"}
            assert all(type(size) is int for shape in shapes for size in shape)
            asked.append(equation)
            return [(1, 2), (0, 1)], equation

    monkeypatch.setattr(opt_einsum, "is_available", lambda: True, raising=False)
    monkeypatch.setattr(opt_einsum, "get_opt_einsum", lambda: Orders, raising=False)

    weight = torch.rand(4, 4)

    class Chain(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            order = opt_einsum.get_opt_einsum()
            found, _ = order.contract_path("bi,ij,jk->bk", x, weight, weight, optimize="auto")
            assert found == [(1, 2), (0, 1)]
            return x @ weight @ weight

    export_module(Chain().eval(), (torch.rand(1, 4),), None, ({0: "batch"},))
    assert "bi,ij,jk->bk" in asked
    assert opt_einsum.get_opt_einsum() is Orders


class TakesAnything(nn.Module):
    def forward(self, x: torch.Tensor, **inputs: torch.Tensor) -> torch.Tensor:
        return x + inputs["y"] * inputs["scale"]


def test_keywords_without_a_name_of_their_own_have_dims_of_any_size() -> None:
    module, y = TakesAnything().eval(), torch.rand(3, 4)
    shapes = {"x": {0: "n"}, "y": {0: "n"}}
    plan = export_module(module, (torch.rand(3, 4),), {"y": y, "scale": torch.tensor(2.0)}, shapes)
    assert "forward" not in vars(module), "it is as it was"
    assert plan is not None
    model = burnish.compile(module, dynamic_shapes=shapes)
    x, y = torch.rand(7, 4), torch.rand(7, 4)
    assert torch.equal(model(x, y=y, scale=torch.tensor(3.0)), x + y * 3)


def test_what_torch_logs_of_an_error_is_said_once(
    capfd: pytest.CaptureFixture[str],
) -> None:
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    level = logger.level
    with quiet_torch():
        assert not logger.isEnabledFor(logging.ERROR)
    assert logger.level == level
    logger.setLevel(logging.DEBUG)  # as TORCH_LOGS does
    try:
        with quiet_torch():
            assert logger.isEnabledFor(logging.DEBUG)
    finally:
        logger.setLevel(level)

    class Branch(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if x.sum() > 0 else -x

    with pytest.raises(FrontendError) as caught:
        export_module(Branch(), (torch.rand(3),))
    said = str(caught.value)
    assert "torch.where" in said
    assert "TORCHDYNAMO" not in said
    assert "Caused by" not in said
    with pytest.raises(FrontendError, match="same reduction dim"):
        export_module(nn.Linear(4, 3), (torch.rand(2, 5),))
    printed = capfd.readouterr().err
    assert "Traceback" not in printed
    assert "def forward" not in printed, "the graph of what was traced until then"


class Tells(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        print(f"{x.shape[0]:03d} {x.max().item():.3f} {x.mean():.3f}")
        return x * 2


def test_a_module_may_print_formatted_values() -> None:
    x = torch.rand(3, 4)
    for shapes in (None, ({0: "n"},)):
        assert torch.equal(burnish.compile(Tells(), (x,), dynamic_shapes=shapes)(x), x * 2)
    for kind in (torch.SymInt, torch.SymFloat):
        assert "__format__" not in vars(kind)
