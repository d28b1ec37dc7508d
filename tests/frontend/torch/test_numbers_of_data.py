"""Numbers that programs read out of their tensors: as sizes, as places, as numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import burnish
from burnish.frontend.torch.importer import import_module
from burnish.support.errors import BurnishError, DataCheckError, FrontendError

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
NUMBERS = tuple(map(torch.tensor, (3, 2, 1)))
LENGTHS = (torch.tensor([3, 4, 1]), torch.tensor([2, 1, 5]), torch.tensor([1, 1, 1]))
Function = Callable[..., Any]


class Module(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def check(function: Function, told: tuple[torch.Tensor, ...], dims: Any = None) -> Any:
    """One compilation, equal to eager for each number; gives the model."""
    module = Module(function).eval()
    model = burnish.compile(module, (X, told[0]), dynamic_shapes=dims)
    for given in told:
        for x in (X, X[:5]) if dims else (X,):
            expected = module(x, given)
            found = model(x, given)
            is_one = isinstance(expected, torch.Tensor)
            pairs = [(found, expected)] if is_one else zip(found, expected, strict=True)
            for a, b in pairs:
                assert a.dtype == b.dtype
                torch.testing.assert_close(a, b)
    assert model.compilations == 1
    return model


def check_all(cases: dict[str, Function], told: tuple[torch.Tensor, ...], dims: Any = None) -> None:
    for name, function in cases.items():
        try:
            check(function, told, dims)
        except Exception as error:
            raise AssertionError(name) from error


NAMED = [{0: "rows"}, None]


@pytest.mark.parametrize("dims", [None, NAMED], ids=["static", "named"])
def test_slices(dims: Any) -> None:
    check_all(
        {
            "to": lambda x, n: x[: n.item()] * 2,
            "a tensor": lambda x, n: x[:n].softmax(0),
            "from": lambda x, n: x[n.item() :],
            "the last": lambda x, n: x[-n.item() :].sort(0)[0],
            "without the last": lambda x, n: x[: -n.item()],
            "between": lambda x, n: x[n.item() : 2 * n.item() + 1],
            "every other": lambda x, n: x[n.item() :: 2],
            "beyond the end": lambda x, n: x[: n.item() + 40],
            "arithmetic": lambda x, n: x[: n.item() // 2 + 1],
            "a pair of them": lambda x, n: x[: n.item()] @ x[: n.item()].T,
            "another shape": lambda x, n: x.reshape(-1)[: n.item() * 2].view(n.item(), 2),
        },
        NUMBERS,
        dims,
    )


def test_places() -> None:
    check_all(
        {
            "row": lambda x, n: x[n.item()],
            "from the end": lambda x, n: x[-n.item()],
            "column": lambda x, n: x[:, n.item()],
            "narrow": lambda x, n: x.narrow(0, n.item(), 2),
            "roll": lambda x, n: x.roll(n.item(), 0),
        },
        NUMBERS,
    )


def test_writes_at_places() -> None:
    def rows(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[: n.item()] = 0
        y[-n.item()] = x[0]
        return y

    def tail(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[n.item() + 5 :] = -1  # nothing, for some
        y[:, : n.item()] += x[:, : n.item()]
        y[n.item() :: 2] = 7
        return y

    def padded(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        y = torch.zeros(3, 6, 4)
        for i, n in enumerate(lengths.tolist()):
            y[i, :n] = x[:n]
        return y

    check_all({"rows": rows, "tail": tail}, NUMBERS)
    check(padded, LENGTHS)


def test_writes_of_other_sizes_are_refused_as_eager_refuses_them() -> None:
    def rows(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[: n.item()] = x[:3] + 1
        return y

    model = check(rows, NUMBERS[:1])
    for n in (0, 2, 4, 6, 7, -1):
        with pytest.raises(RuntimeError):
            rows(X, torch.tensor(n))
        with pytest.raises(BurnishError, match="as large as what it is set to"):
            model(X, torch.tensor(n))
    torch.testing.assert_close(model(X, torch.tensor(-3)), rows(X, torch.tensor(-3)))


def test_python_numbers_of_them() -> None:
    """int() and float() ask for a number of Python, which only bytecode has."""
    check_all(
        {
            "to": lambda x, n: x[: int(n)],
            "row": lambda x, n: x[int(n)],
            "float": lambda x, n: x / float(x.abs().max()) + int(n),
            "linspace": lambda x, n: torch.linspace(0, 1, n.item()),
        },
        NUMBERS,
    )
    check_all(
        {
            "mask": lambda x, n: torch.arange(int(n.max()))[None] < n[:, None],
            "means": lambda x, n: torch.stack([x[:i].mean(0) for i in n.tolist()]),
            "split": lambda x, n: [
                p.sum() for p in torch.split(torch.cat([x, x])[: n.sum()], n.tolist())
            ],
            "classes": lambda x, n: F.one_hot(n),
            "as many classes": lambda x, n: F.one_hot(n, n.max().item() + 2),
        },
        LENGTHS,
    )


def test_layers_on_as_many_steps_as_data_tell() -> None:
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()

    def masked(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        mask = torch.arange(n.max())[None] >= n[:, None]
        return layer(x.reshape(3, 2, 4).repeat(1, 3, 1)[:, : n.max()], src_key_padding_mask=mask)

    check_all(
        {
            "attention": masked,
            "all of a row masked": lambda x, n: F.scaled_dot_product_attention(
                *[x[None, : n.max()]] * 3, attn_mask=torch.arange(n.max())[:, None] > 0
            ),
            "causal": lambda x, n: F.scaled_dot_product_attention(
                *[x[None, : n.max()]] * 3, is_causal=True
            ),
            "groups": lambda x, n: F.scaled_dot_product_attention(
                x[None, None, : n.max()].expand(1, 4, -1, -1),
                *[x[None, None, : n.max()].expand(1, 2, -1, -1)] * 2,
                enable_gqa=True,
            ),
            "padded": lambda x, n: nn.utils.rnn.pad_sequence(
                [x[:i] for i in n.tolist()], batch_first=True, padding_value=-1
            ),
        },
        LENGTHS,
    )

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.GRU(4, 3, batch_first=True)

        def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
            states: torch.Tensor = self.layer(x[None, : n.max()])[0]
            return states

    module = Recurrent().eval()
    model = burnish.compile(module, (X, LENGTHS[0]))
    for n in LENGTHS:
        torch.testing.assert_close(model(X, n), module(X, n))


def test_numbers_of_either_sign() -> None:
    check_all(
        {
            "integer": lambda x, n: x - (n - 2).item(),
            "of integers": lambda x, n: (x * 8).int() * (n - 2).item(),
            "float": lambda x, n: x * x.min().item(),
            "a tensor without axes": lambda x, n: x.half().sum() * x.double().sum().item(),
            "filled": lambda x, n: torch.full((2,), (x.max().item() + 1) / 2),
            "flag": lambda x, n: x * (n > 1).item(),
        },
        NUMBERS,
    )


def test_sizes() -> None:
    check_all(
        {
            "repeat": lambda x, n: x.repeat(n.item(), 1),
            "expand": lambda x, n: x[:1].expand(n.item(), -1) * 2,
            "filled": lambda x, n: torch.full((n.item(), 2), n.item()),
            "pad": lambda x, n: F.pad(x, (0, n.item())),
            "triangle": lambda x, n: torch.tril(torch.ones(n.item(), n.item())),
            "join": lambda x, n: torch.cat([torch.zeros(n.item(), 4), x]),
        },
        NUMBERS,
    )


def test_what_is_asserted_is_checked() -> None:
    def first(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        size = n.item()
        torch._check(size <= 4)
        return x[:size]

    model = check(first, NUMBERS)
    assert model(X, torch.tensor(4)).shape == (4, 4)
    with pytest.raises(BurnishError, match=r"test_numbers_of_data.py:\d+.*<= 4"):
        model(X, torch.tensor(5))

    def masked(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        size = int(n.max())
        return x[:3, :size] * (torch.arange(size)[None] < n[:, None])

    model = burnish.compile(Module(masked), (X, LENGTHS[0]))
    torch.testing.assert_close(model(X, LENGTHS[2]), masked(X, LENGTHS[2]))
    with pytest.raises(BurnishError, match="got 5"):  # eager cannot broadcast these
        model(X, LENGTHS[1])


def test_rules_that_read_sizes_are_not_checked_for_what_they_are_by_construction() -> None:
    def bound(function: Function) -> int:
        return str(import_module(Module(function).eval(), (X,)).module).count("R.bind_size(")

    assert bound(lambda x: torch.nonzero(x)) == 1
    assert bound(lambda x: x[x > 0] * 2) == 1


def test_branches_and_loops_over_them_are_refused_where_they_stand() -> None:
    def loop(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        for _ in range(int(n)):
            x = x * 2
        return x

    for function in (loop, lambda x, n: x if n.item() > 1 else -x):
        with pytest.raises(FrontendError, match=r"does not export at .*test_numbers_of_data.py"):
            burnish.compile(Module(function), (X, NUMBERS[0]))


class MaskedByLengths(nn.Module):
    """A mask as long as the longest, beside queries of a length of their own: speech encoders."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:
        longest = int(torch.max(lengths).item())
        places = torch.arange(longest).expand(lengths.shape[0], longest)
        mask = places >= lengths.unsqueeze(1)
        return self.attention(x, x, x, key_padding_mask=mask)[0]


@pytest.mark.parametrize("dims", [{}, {0: "batch"}, {0: "batch", 1: "length"}], ids=str)
def test_a_size_read_that_has_to_be_another_is_compared_at_each_call(
    dims: dict[int, str], caplog: pytest.LogCaptureFixture
) -> None:
    torch.manual_seed(0)
    module = MaskedByLengths().eval()
    x, lengths = torch.rand(2, 6, 8), torch.tensor([6, 4])
    shapes = (dims, {k: v for k, v in dims.items() if k == 0})
    model = burnish.compile(module, (x, lengths), dynamic_shapes=shapes if dims else None)
    assert not [r for r in caplog.records if r.levelname in ("ERROR", "WARNING")]
    batch, length = (3 if 0 in dims else 2), (9 if 1 in dims else 6)
    y, others = torch.rand(batch, length, 8), torch.tensor([length, 1, 2][:batch])
    for inputs in ((x, lengths), (x, torch.tensor([2, 6])), (y, others)):
        assert torch.allclose(model(*inputs), module(*inputs), atol=1e-5)
    with pytest.raises(BurnishError, match="a size read out of a tensor that is"):
        model(x, torch.tensor([3, 4]))


class AllPositive(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch._check_tensor_all(x > 0)
        return x + 1


class NoneNegative(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch._check((x >= 0).all().item(), lambda: "negative")
        return x + 1


@pytest.mark.parametrize("kind", [AllPositive, NoneNegative])
def test_a_flag_that_torch_checks_is_checked_when_the_model_runs(kind: type[nn.Module]) -> None:
    model = burnish.compile(kind(), (torch.ones(3),))
    assert torch.equal(model(torch.full((3,), 2.0)), torch.full((3,), 3.0))
    with pytest.raises(DataCheckError, match=r"torch\._check.*the model itself raises here"):
        model(torch.tensor([1.0, -1.0, 2.0]))
