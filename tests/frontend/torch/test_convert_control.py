"""Control flow of torch as branches and loops of the program, beside eager PyTorch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch._higher_order_ops import while_loop
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan

import burnish

X = torch.linspace(-1, 2, 12).reshape(3, 4)


class Calls(nn.Module):
    """A function of a layer and tensors."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function
        self.layer = nn.Linear(4, 4)

    def forward(self, *xs: torch.Tensor) -> Any:
        return self.function(self.layer, *xs)


def check(function: Any, *calls: tuple[torch.Tensor, ...], dynamic_shapes: Any = None) -> Any:
    """Compiled for the first call, right for all of them."""
    torch.manual_seed(0)
    module = Calls(function).eval()
    model = burnish.compile(module, calls[0], dynamic_shapes=dynamic_shapes)
    for xs in calls:
        with torch.no_grad():
            expected = module(*xs)
        found = model(*xs)
        if isinstance(expected, torch.Tensor):
            expected, found = (expected,), (found,)
        for ours, theirs in zip(found, expected, strict=True):
            assert type(ours) is type(theirs)
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    return model


def test_cond_takes_the_side_that_its_condition_says() -> None:
    def function(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        return torch.cond(x.sum() > 0, lambda x: layer(x) + y, lambda x: x - 1, (x,)) + 1

    check(function, (X,), (-X,))


def test_cond_within_cond_gives_several_tensors() -> None:
    """No branch gives its operand back: torch does not export an inner one that does."""

    def inner(x: torch.Tensor) -> Any:
        return torch.cond(x[0, 0] > 0, lambda x: (x * 2, x + 1), lambda x: (x - 1, -x), (x,))

    def function(layer: nn.Module, x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, inner, lambda x: (x.exp(), x * 3), (x,))

    check(function, (X,), (-X,), (X.abs(),))


def test_writes_and_operators_without_a_converter_inside_of_a_branch() -> None:
    def yes(x: torch.Tensor) -> torch.Tensor:
        y = x * 1
        y[:, 0].add_(1)
        return torch.einsum("ij,ij->ij", y, x)

    def function(layer: nn.Module, x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, yes, lambda x: layer(x).relu_(), (x,))

    check(function, (X,), (-X,))


def test_sizes_may_have_names() -> None:
    def function(layer: nn.Module, x: torch.Tensor) -> Any:
        taken = torch.cond(x.sum() > 0, lambda x: layer(x), lambda x: x * 2, (x,))
        total, rows = scan(lambda c, row: (c + row, c * row), torch.zeros(4), taken)
        return total, rows, map_rows(lambda row: layer(row).relu(), x)

    check(function, (X,), (-X,), (torch.rand(7, 4),), dynamic_shapes=({0: "rows"},))


def test_while_loop_ends_where_data_say() -> None:
    def function(layer: nn.Module, x: torch.Tensor, limit: torch.Tensor) -> Any:
        return while_loop(
            lambda i, s: (i < limit) & (s.abs().max() < 100),
            lambda i, s: (i + 1, layer(s) * 2 + x),
            (torch.tensor(0), x),
        )

    model = check(function, (X, torch.tensor(3)), (X, torch.tensor(0)), (X * 9, torch.tensor(50)))
    assert "loop" in model.script()


def test_scan_backwards_over_several_inputs() -> None:
    def step(carry: Any, rows: Any) -> Any:
        left, right = carry
        a, b = rows
        return (left + a, right * b), (left - right, a * 2)

    def function(layer: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Any:
        (left, right), (first, second) = scan(
            step, (torch.zeros(4), torch.ones(4)), (x, layer(y)), reverse=True
        )
        return left, right, first, second

    check(function, (X, X + 1), (-X, X))


def test_map_reads_what_stands_around_it() -> None:
    def function(layer: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Any:
        return map_rows(lambda row, other: layer(row) + other, x, y)

    check(function, (X, torch.ones(4)), (X, torch.zeros(4)))


def test_a_condition_may_be_of_sizes() -> None:
    def function(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
        taken: torch.Tensor = torch.cond(x.shape[0] > 4, lambda x: layer(x), lambda x: x * 1, (x,))
        return taken

    check(function, (X,), (torch.rand(7, 4),), dynamic_shapes=({0: "rows"},))


def test_loops_carry_integers() -> None:
    def function(layer: nn.Module, x: torch.Tensor) -> Any:
        count, found = while_loop(
            lambda i, s: i < 9,
            lambda i, s: (i + 1, layer(s) * 2 + x + i),
            (x.shape[0], x),
        )
        return count, found * count, torch.ones(count)

    check(function, (X,), (X * 99,), (torch.rand(7, 4),), dynamic_shapes=({0: "rows"},))


def test_loops_in_loops_read_integers_of_these() -> None:
    def function(layer: nn.Module, x: torch.Tensor) -> Any:
        def body(i: Any, s: torch.Tensor) -> Any:
            start = torch.zeros(())
            added = while_loop(
                lambda j, _: j < i,
                lambda j, t: (j + 1, t + j * i + s.mean()),
                (torch.tensor(0), start),
            )[1]
            inner = while_loop(lambda j, _: j < i, lambda j, t: (j + 1, t * 0.5 + j), (0, s))[1]
            return i + 1, inner + added + i

        return while_loop(lambda i, _: i < 4, body, (0, x))[1]

    check(function, (X,), (-X,))


def test_a_loop_begins_with_what_its_body_reads() -> None:
    def function(layer: nn.Module, x: torch.Tensor) -> Any:
        return while_loop(
            lambda i, _: i < 3,
            lambda i, s: (i + 1, torch.einsum("ij,ij->ij", s, x) + s.nonzero().sum()),
            (torch.tensor(0), x),
        )

    check(function, (X,), (-X,))
