"""Modules that take derivatives in forward(), against eager torch: values, named sizes, weights'
own gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

from burnish.frontend.torch import import_module
from burnish.frontend.torch.derivatives import takes_derivatives
from burnish.frontend.torch.dynamic_shapes import plan_export
from burnish.graphir.verify import verify_module
from burnish.support.errors import FrontendError
from burnish.tests.frontend.torch.oracle import compare, evaluate


class Of(nn.Module):
    """A function of a network and inputs."""

    def __init__(self, function: Callable[..., Any], net: nn.Module) -> None:
        super().__init__()
        self.function, self.net = function, net

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self.net, x)


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Linear(6, 8), nn.SiLU(), nn.LayerNorm(8), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 1)
    )


def images(pool: nn.Module) -> nn.Module:
    first = nn.Conv2d(3, 4, 3, padding=1, bias=False)
    return nn.Sequential(
        first, nn.Tanh(), pool, nn.Conv2d(4, 6, 3, stride=2, dilation=2, groups=2), nn.ELU()
    )


def forces(net: nn.Module, x: torch.Tensor) -> Any:
    x = x.requires_grad_(True)
    energy = net(x).sum()
    return energy, -torch.autograd.grad(energy, x)[0]


def of_a_penalty(net: nn.Module, x: torch.Tensor) -> Any:
    x = x.detach().clone().requires_grad_(True)
    (first,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
    return first, torch.autograd.grad(first.pow(2).sum(), x)[0]


def backwards(net: nn.Module, x: torch.Tensor) -> Any:
    x = x.detach().clone().requires_grad_(True)
    net(x).sum().backward()
    return x.grad


def pairs(net: nn.Module, x: torch.Tensor) -> Any:
    x = x.requires_grad_(True)
    apart = (x[:, None] - x[None]).pow(2).sum(-1, keepdim=True) + 0.1
    energy = net(torch.exp(-apart * torch.arange(1, 7))).sum()
    return energy, -torch.autograd.grad(energy, x)[0]


def check(module: nn.Module, x: torch.Tensor, *others: torch.Tensor) -> None:
    """On ``x``, and with the first dim named on ``others``."""
    named = {"dynamic_shapes": ({0: "n"},)} if others else {}
    imported = import_module(module.eval(), (x.clone(),), **named)
    verify_module(imported.module)
    for given in (x, *others):
        expected = module(given.clone())
        leaves = expected if isinstance(expected, tuple) else (expected,)
        found = evaluate(imported, given.clone())
        for label, f, e in zip("012", found, leaves, strict=False):
            assert compare(label, f, e.detach()) == ""
        assert len(found) == len(leaves)


@pytest.mark.parametrize("function", [forces, of_a_penalty, backwards])
def test_of_several_layers_at_any_size(function: Callable[..., Any]) -> None:
    check(Of(function, mlp()), torch.randn(5, 6), torch.randn(1, 6), torch.randn(9, 6))


def test_of_distances_of_pairs() -> None:
    check(Of(pairs, mlp()), torch.randn(5, 3), torch.randn(2, 3))


def test_of_attention() -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(6, 2, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.attention(x, x, x)[0].pow(2)

    check(Of(forces, Attention()), torch.randn(2, 4, 6), torch.randn(3, 4, 6))


@pytest.mark.parametrize(
    "pool", [nn.AvgPool2d(2), nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(3, 2, 1)], ids=range(3)
)
def test_of_convolutions_and_pooling(pool: nn.Module) -> None:
    check(Of(forces, images(pool)), torch.randn(2, 3, 13, 12), torch.randn(3, 3, 13, 12))


def test_of_a_transposed_convolution() -> None:
    net = nn.Sequential(nn.ConvTranspose1d(3, 4, 3, stride=2, output_padding=1), nn.Tanh())
    check(Of(forces, net), torch.randn(2, 3, 7))


@pytest.mark.parametrize(
    "function",
    [
        lambda net, x: grad(lambda y: net(y).sum())(x),
        lambda net, x: vmap(jacrev(net))(x),
        lambda net, x: vmap(jacfwd(net))(x),
        lambda net, x: vmap(hessian(lambda y: net(y).sum()))(x),
        lambda net, x: jvp(net, (x,), (torch.ones_like(x),)),
        lambda net, x: vjp(net, x)[1](torch.ones(5, 1))[0],
        lambda net, x: vmap(lambda r: torch.trace(jacrev(lambda y: net(y) * y)(r)))(x),
    ],
    ids=["grad", "jacrev", "jacfwd", "hessian", "jvp", "vjp", "divergence"],
)
def test_of_torch_func(function: Callable[..., Any]) -> None:
    check(Of(function, mlp()), torch.randn(5, 6))


def test_forwards_sizes_are_fixed() -> None:
    module = Of(lambda net, x: jvp(net, (x,), (torch.ones_like(x),)), mlp()).eval()
    with pytest.raises(FrontendError, match=r"with n of any size: .*\nLeave dynamic_shapes out"):
        import_module(module, (torch.randn(5, 6),), ({0: "n"},))


@pytest.mark.parametrize(
    ("is_other", "text"),
    [
        (lambda n: n == 1, "something else where n is 1"),
        (lambda n: n == 0, None),
        (lambda n: n > 100, "something else where n is 128"),
        (lambda n: n % 2 == 0, "something else where n is 2"),
    ],
)
def test_a_branch_on_a_size_is_found(is_other: Callable[[int], bool], text: str | None) -> None:
    def branching(net: nn.Module, x: torch.Tensor) -> Any:
        energy, found = forces(net, x)
        return energy, found * 2 if is_other(x.shape[0]) else found

    module, x = Of(branching, mlp()), torch.randn(5, 6)
    if text is None:  # no elements, no difference
        check(module, x, torch.randn(0, 6))
        return
    with pytest.raises(FrontendError, match=text):
        import_module(module.eval(), (x,), ({0: "n"},))


def test_gradients_of_weights_are_the_user_s() -> None:
    module, x = Of(backwards, mlp()).eval(), torch.randn(5, 6)
    module(x)
    kept = [(p.grad, p.grad.clone()) for p in module.parameters() if p.grad is not None]
    assert len(kept) == len(list(module.parameters()))
    import_module(module, (x,), ({0: "n"},))
    for (held, before), p in zip(kept, module.parameters(), strict=True):
        assert p.grad is held
        assert torch.equal(held, before)


def test_which_modules_take_derivatives() -> None:
    x = torch.randn(5, 6)
    for function, expected in ((forces, True), (backwards, True), (lambda net, x: net(x), False)):
        module = Of(function, mlp()).eval()
        assert takes_derivatives(module, plan_export(module, (x,))) is expected
    failing = Of(lambda net, x: net(x) @ x, mlp()).eval()
    assert not takes_derivatives(failing, plan_export(failing, (x,)))


def test_values_that_are_looked_at_are_refused() -> None:
    def looking(net: nn.Module, x: torch.Tensor) -> Any:
        return forces(net, x)[1] * int(x.argmax())

    with pytest.raises(FrontendError, match=r"does not export at .*: GuardOnDataDependent"):
        import_module(Of(looking, mlp()).eval(), (torch.randn(5, 6),))
