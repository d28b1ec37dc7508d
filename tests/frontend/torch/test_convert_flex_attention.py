"""flex_attention beside eager PyTorch, to 1e-5 of the largest element (float32 sums)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import burnish
from burnish import errors

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")


@pytest.fixture(autouse=True)
def _fresh_torch() -> None:
    """Eager flex_attention compiles itself, eight times at most in a process."""
    torch._dynamo.reset()


def causal(b: Any, h: Any, i: Any, j: Any) -> Any:
    return i >= j


class Attention(nn.Module):
    """Slopes by head, and a window that leaves some queries without keys."""

    def __init__(self, kind: str, *, grouped: bool = False) -> None:
        super().__init__()
        self.kind, self.grouped = kind, grouped
        self.register_buffer("slopes", torch.rand(4))
        self.register_buffer("lengths", torch.tensor([3, 0, 20]))
        self.register_buffer("table", torch.rand(4, 64))

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        slopes, lengths, table = self.slopes, self.lengths, self.table
        changes = {
            "slopes": lambda s, b, h, i, j: s + slopes[h] * (j - i),
            "capped": lambda s, b, h, i, j: 5 * torch.tanh(s / 5),
            "table": lambda s, b, h, i, j: s * table[h, j] + torch.where(i > j, 0.5, -0.5),
        }
        masks = {
            "causal": causal,
            "lengths": lambda b, h, i, j: j < lengths[b],
            "both": lambda b, h, i, j: (i >= j) & (i - j < 5) & (h != 1),
        }
        change = changes.get(self.kind)
        mask = masks.get(self.kind)
        blocks = None
        if mask is not None:
            blocks = create_block_mask(
                mask, q.shape[0], q.shape[1], q.shape[2], k.shape[2], device="cpu"
            )
        return flex_attention(q, k, v, change, block_mask=blocks, enable_gqa=self.grouped)


def near(found: torch.Tensor, wanted: torch.Tensor, tolerance: float = 1e-5) -> None:
    error = (found.double() - wanted.double()).abs().max()
    assert error <= tolerance * max(1.0, wanted.abs().max().item())


@pytest.mark.parametrize("kind", ["", "slopes", "capped", "table", "causal", "lengths", "both"])
def test_scores_and_masks(kind: str) -> None:
    module = Attention(kind).eval()
    q, k, v = (torch.randn(3, 4, n, d) for n, d in ((7, 16), (9, 16), (9, 8)))
    near(burnish.compile(module, (q, k, v))(q, k, v), module(q, k, v))


@pytest.mark.parametrize("kind", ["slopes", "causal"])
def test_heads_that_share_keys(kind: str) -> None:
    module = Attention(kind, grouped=True).eval()
    q, k = torch.randn(2, 4, 6, 16), torch.randn(2, 2, 6, 16)
    near(burnish.compile(module, (q, k, k))(q, k, k), module(q, k, k))


def test_named_numbers_of_sequences_and_tokens() -> None:
    module = Attention("table").eval()
    q = torch.randn(2, 4, 10, 16)
    names = {0: "batch", 2: "tokens"}
    model = burnish.compile(module, (q, q, q), dynamic_shapes=(names, names, names))
    for batch, tokens in ((1, 1), (3, 17), (2, 64)):
        x = torch.randn(batch, 4, tokens, 16)
        near(model(x, x, x), module(x, x, x))
    assert model.compilations == 1


def test_sums_are_float32_for_narrow_operands() -> None:
    module = Attention("slopes").eval()
    q = torch.randn(1, 4, 8, 16, dtype=torch.bfloat16)
    near(burnish.compile(module, (q, q, q))(q, q, q), module(q, q, q), 1e-2)


class WithLogarithms(nn.Module):
    def forward(self, q: torch.Tensor) -> Any:
        return flex_attention(q, q, q, return_lse=True)


def test_the_logarithms_of_sums() -> None:
    q = torch.randn(2, 2, 5, 8)
    found = burnish.compile(WithLogarithms().eval(), (q,))(q)
    for a, b in zip(found, WithLogarithms()(q), strict=True):
        near(a, b)


class Layers(nn.Module):
    """More layers than torch compiles flex_attention for by itself."""

    def forward(self, q: torch.Tensor) -> Any:
        for layer in range(12):
            q = flex_attention(q, q, q, lambda s, b, h, i, j, layer=layer: s * layer)
        return q


def test_many_layers() -> None:
    q = torch.randn(1, 2, 5, 8)
    with torch._dynamo.config.patch(recompile_limit=64):
        wanted = Layers()(q)
    torch._dynamo.reset()
    near(burnish.compile(Layers().eval(), (q,))(q), wanted)


class Chained(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.rand(2, 8))

    def forward(self, q: torch.Tensor) -> Any:
        table = self.table
        return flex_attention(q, q, q, lambda s, b, h, i, j: s + table[b][j])


def test_a_row_of_a_table_is_refused() -> None:
    q = torch.randn(2, 2, 8, 8)
    with pytest.raises(errors.FrontendError, match=r"x\[b, i\], not x\[b\]\[i\]"):
        burnish.compile(Chained().eval(), (q,))
