"""Loops over the places where flags are set: each place has its turn, which counts where its flag
is set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import burnish
from burnish.support.errors import DataCheckError, FrontendError
from burnish.tests.frontend.torch.oracle import Of


class Experts(nn.Module):
    """As transformers writes a mixture of experts."""

    def __init__(self, experts: int = 4) -> None:
        super().__init__()
        self.gate = nn.Linear(8, experts)
        self.experts = nn.ModuleDict({f"expert_{i}": nn.Linear(8, 8) for i in range(experts)})

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, 8)
        weights, chosen = self.gate(rows).softmax(-1).topk(2, -1)
        out = torch.zeros_like(rows)
        mask = nn.functional.one_hot(chosen, len(self.experts)).permute(2, 1, 0)
        for expert in torch.greater(mask.sum((-1, -2)), 0).nonzero():
            slot, row = torch.where(mask[expert].squeeze(0))
            found = self.experts[f"expert_{expert[0]}"](rows[row])
            out.index_add_(0, row, found * weights[row, slot, None])
        return out.reshape(x.shape)


def test_a_mixture_of_experts_of_any_batch_and_length() -> None:
    torch.manual_seed(0)
    module = Experts().eval()
    sizes = ({0: "batch", 1: "length"},)
    model = burnish.compile(module, (torch.randn(2, 5, 8),), dynamic_shapes=sizes)
    (note,) = [n for n in model.report.notes if "take all their turns" in n]
    assert "(4 at test_loops_of_hits.py:" in note
    for batch, length in ((1, 1), (1, 2), (3, 7)):
        x = torch.randn(batch, length, 8)
        torch.testing.assert_close(model(x), module(x))


def adds(x: Tensor) -> Tensor:
    out = x * 0
    for i in (x.sum(1) > 0).nonzero():
        out += x[i] + 1
    return out


def binds(x: Tensor) -> Tensor:
    out = x * 0
    for i in (x.sum(1) > 0).nonzero():
        out = out + x[i]
    return out


def writes_and_binds(x: Tensor) -> Tensor:
    out, other = x * 1, x * 2
    for i in (x.sum(1) > 0).nonzero():
        out.mul_(2)
        other[i] += 1
        out = out + other.sum()
    return out + other


def one_after_the_other(x: Tensor) -> Tensor:
    out = x * 0
    for i in (x.sum(1) > 0).nonzero():
        out = out + x[i]
    for i in torch.nonzero(x.sum(1)):
        out = out * x[i]
    return out


def one_in_the_other(x: Tensor) -> Tensor:
    out = x * 0
    for i in (x.sum(1) > 0).nonzero():
        for j in (x[i[0]] > 0).nonzero():
            out[i, j] += x[:, j].sum()
    return out


def places_of_two_axes(x: Tensor) -> Tensor:
    out = x * 0
    for i, j in torch.argwhere(x > 0.5):
        out[i, j] = 7.0
    return out


def writes_what_it_asked(x: Tensor) -> Tensor:
    """The flags are those of before."""
    flags = x.sum(1) > 0
    hit = flags.nonzero()
    out = x * 1
    flags.fill_(True)
    for i in hit:
        out[i] = -1
        flags.logical_not_()
    return out


def keeps_a_view(x: Tensor) -> Tensor:
    out = x * 1
    row = out[0]
    for i in (x.sum(1) > 0).nonzero():
        row += x[i[0]]
    return out


def skips(x: Tensor) -> Tensor:
    out = x * 0
    for i in x.sum(1).relu().nonzero():
        if i == 1:
            continue
        out[i] = x[i] * 3
    return out


@pytest.mark.parametrize(
    "function",
    [adds, binds, writes_and_binds, one_after_the_other, one_in_the_other, places_of_two_axes,
     writes_what_it_asked, keeps_a_view, skips],
)  # fmt: skip
def test_a_turn_counts_where_its_flag_is_set(function: Callable[[Tensor], Tensor]) -> None:
    torch.manual_seed(0)
    module = Of(function)
    model = burnish.compile(module, (torch.randn(4, 3),))
    x = torch.randn(4, 3)
    for given in (x, -x, torch.ones(4, 3), -torch.ones(4, 3), torch.zeros(4, 3)):
        torch.testing.assert_close(model(given), module(given))


def checks(x: Tensor) -> Tensor:
    out = x * 0
    for i in (x.sum(1) > 0).nonzero():
        assert (x[i] > -5).all()
        out += x[i]
    return out


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n = 0

    def forward(self, x: Tensor) -> Tensor:
        self.n = 0
        for _ in (x.sum(1) > 0).nonzero():
            self.n += 1
        return x * self.n


def test_a_module_that_counts_turns_is_refused() -> None:
    with pytest.raises(FrontendError, match="changes 'self'"):
        burnish.compile(Counts(), (torch.ones(4, 3),))


def test_what_a_turn_checks_it_checks_where_its_flag_is_set() -> None:
    model = burnish.compile(Of(checks), (torch.ones(2, 2),))
    low = torch.tensor([[-6.0, 2.0], [1.0, 1.0]])
    torch.testing.assert_close(model(low), checks(low))
    with pytest.raises(DataCheckError):
        model(torch.tensor([[-6.0, 7.0], [1.0, 1.0]]))


def counts(x: Tensor) -> Tensor:
    n = 0
    for _ in (x.sum(1) > 0).nonzero():
        n += 1
    return x + n


def gathers(x: Tensor) -> Tensor:
    found = [x.sum(0, keepdim=True)]
    for i in (x.sum(1) > 0).nonzero():
        found.append(x[i])
    return torch.cat(found).sum(0)


def last(x: Tensor) -> Tensor:
    found = x[:1]
    for i in (x.sum(1) > 0).nonzero():
        found = torch.cat([x[i], x[i]])
    return found


def leaves(x: Tensor) -> Tensor:
    out = x * 0
    for i in (x.sum(1) > 0).nonzero():
        out += x[i]
        break
    return out


def numbers(x: Tensor) -> Tensor:
    out = x * 0
    for n, i in enumerate((x.sum(1) > 0).nonzero()):
        out[n] = x[i[0]]
    return out


def comprehends(x: Tensor) -> Tensor:
    return x * len([i for i in (x.sum(1) > 0).nonzero()])


def knows_the_last(x: Tensor) -> Tensor:
    for i in (x.sum(1) > 0).nonzero():
        n = int(i)
    return x * n


def has_the_last(x: Tensor) -> Tensor:
    for i in (x.sum(1) > 0).nonzero():
        x = x + i
    return x[i]


class Counter:
    n = 0
    found: dict[str, Tensor]


def counts_elsewhere(x: Tensor) -> Tensor:
    counter = Counter()
    counter.n = 1
    for _ in (x.sum(1) > 0).nonzero():
        counter.n += 1
    return x * counter.n


def counts_deeply(x: Tensor) -> Tensor:
    held = {"counters": [Counter()]}
    for _ in (x.sum(1) > 0).nonzero():
        held["counters"][0].n += 1
    return x * held["counters"][0].n


def advances(x: Tensor) -> Tensor:
    out, others = x * 0, iter(range(9))
    for i in (x.sum(1) > 0).nonzero():
        out[i] = float(next(others))
    return out


def is_given(x: Tensor) -> Tensor:
    def places() -> Any:
        for i in (x.sum(1) > 0).nonzero():
            yield i + 0

    n = 0
    for _ in places():
        n += 1
    return x * n


def has_another_shape(x: Tensor) -> Tensor:
    total, found = x.sum(0), x * 2
    for _ in (x.sum(1) > 0).nonzero():
        found = total
    return x + found.sum()


def writes_an_alias(x: Tensor) -> Tensor:
    first = x * 1
    out = first
    for i in (x.sum(1) > 0).nonzero():
        out = out + x[i]
    out.mul_(2)
    return first + out


def has_a_view(x: Tensor) -> Tensor:
    first, out = x * 1, x * 2
    for _ in (x.sum(1) > 0).nonzero():
        out = first.view(4, 3)
    out += 1
    return first + out


def fills_a_dict(x: Tensor) -> Tensor:
    found = {"out": x}
    for i in (x.sum(1) > 0).nonzero():
        found["out"] = found["out"] + x[i]
    return found["out"]


def gives_twice(x: Tensor) -> Tensor:
    out, before = x * 0, x
    for i in (x.sum(1) > 0).nonzero():
        before = out
        out = out + x[i]
    return out + before


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (counts, "changes 'n', of <class 'int'>"),
        (gathers, "changes 'found', of <class 'list'>"),
        (last, "changes 'found', a tensor"),
        (leaves, "left before its end"),
        (numbers, "does not export"),
        (comprehends, "does not export"),
        (knows_the_last, "changes 'n'"),
        (has_the_last, "changes 'i'"),
        (counts_elsewhere, "changes 'counter'"),
        (counts_deeply, "changes 'held'"),
        (advances, "changes 'others'"),
        (is_given, "does not export"),
        (has_another_shape, "changes 'found'"),
        (writes_an_alias, "written afterwards"),
        (has_a_view, "one tensor to several variables"),
        (fills_a_dict, "changes 'found'"),
        (gives_twice, "one tensor to several variables"),
    ],
)
def test_what_else_is_seen_of_a_turn_is_refused(
    function: Callable[[Tensor], Tensor], said: str
) -> None:
    with pytest.raises(FrontendError, match=f"over the places that data tell .*{said}|{said}"):
        burnish.compile(Of(function), (torch.ones(4, 3),))
