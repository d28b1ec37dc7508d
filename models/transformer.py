"""Transformers: BERT, GPT-2 and the vision transformer, at the sizes that benchmarks use.

Devlin et al., "BERT" (arXiv 1810.04805), norms behind; Radford et al., "Language Models are
Unsupervised Multitask Learners" (2019), norms in front, causal; Dosovitskiy et al., "An Image is
Worth 16x16 Words" (arXiv 2010.11929), norms in front.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .seeded import seeded_module


class Attention(nn.Module):
    """Self-attention of [batch, tokens, width], the three projections in one product."""

    def __init__(self, width: int, heads: int, *, causal: bool = False) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads, self.causal = heads, causal

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        qkv = self.qkv(x).reshape(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        z: Tensor = self.out(y.transpose(1, 2).reshape(batch, tokens, width))
        return z


class Layer(nn.Module):
    """Attention and a perceptron, each with a residual and a layer norm before or behind."""

    def __init__(
        self, width: int, heads: int, *, causal: bool, norm_first: bool, approximate: str = "none"
    ) -> None:
        super().__init__()
        self.attention = Attention(width, heads, causal=causal)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate), nn.Linear(4 * width, width)
        )
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.norm_first = norm_first

    def forward(self, x: Tensor) -> Tensor:
        if self.norm_first:
            x = x + self.attention(self.norm1(x))
            z: Tensor = x + self.mlp(self.norm2(x))
            return z
        x = self.norm1(x + self.attention(x))
        y: Tensor = self.norm2(x + self.mlp(x))
        return y


class Language(nn.Module):
    """Token and position embeddings, layers, and (``tied``) the product with the embedding."""

    def __init__(
        self, layers: list[Layer], width: int, words: int, tokens: int, *, tied: bool
    ) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(tokens, width)
        self.layers, self.norm = nn.Sequential(*layers), nn.LayerNorm(width)
        self.tied = tied

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        if not self.tied:
            y: Tensor = self.layers(self.norm(x))
            return y
        return F.linear(self.norm(self.layers(x)), self.words.weight)


class Vision(nn.Module):
    """Patches of 16 x 16, a class token, layers, and a classifier on that token."""

    def __init__(self, layers: list[Layer], width: int, size: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.places = nn.Parameter(torch.randn(1, (size // 16) ** 2 + 1, width) * 0.02)
        self.layers, self.norm = nn.Sequential(*layers), nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, image: Tensor) -> Tensor:
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        y: Tensor = self.head(self.norm(self.layers(x))[:, 0])
        return y


def bert(
    *, layers: int = 6, width: int = 384, heads: int = 12, tokens: int = 128, words: int = 30522,
    batch: int = 1, seed: int = 0,
) -> tuple[nn.Module, tuple[Tensor, ...]]:  # fmt: skip
    """An encoder in eval mode, and token ids int64 [batch, tokens]; the result is float32 [batch,
    tokens, width]."""

    def make() -> nn.Module:
        stack = [Layer(width, heads, causal=False, norm_first=False) for _ in range(layers)]
        return Language(stack, width, words, tokens, tied=False)

    module, _ = seeded_module(make, [], seed)
    return module, (_ids(batch, tokens, words, seed),)


def gpt2(
    *, layers: int = 6, width: int = 768, heads: int = 12, tokens: int = 64, words: int = 50257,
    batch: int = 1, seed: int = 0,
) -> tuple[nn.Module, tuple[Tensor, ...]]:  # fmt: skip
    """A decoder in eval mode, and token ids int64 [batch, tokens]; the result are the logits,
    float32 [batch, tokens, words]."""

    def make() -> nn.Module:
        stack = [
            Layer(width, heads, causal=True, norm_first=True, approximate="tanh")
            for _ in range(layers)
        ]
        return Language(stack, width, words, max(tokens, 1024), tied=True)

    module, _ = seeded_module(make, [], seed)
    return module, (_ids(batch, tokens, words, seed),)


def vit(
    *, layers: int = 12, width: int = 192, heads: int = 3, size: int = 224, classes: int = 1000,
    batch: int = 1, seed: int = 0,
) -> tuple[nn.Module, tuple[Tensor, ...]]:  # fmt: skip
    """ViT-tiny in eval mode, and an image float32 [batch, 3, size, size]; the result is float32
    [batch, classes]."""

    def make() -> nn.Module:
        stack = [Layer(width, heads, causal=False, norm_first=True) for _ in range(layers)]
        return Vision(stack, width, size, classes)

    return seeded_module(make, [(batch, 3, size, size)], seed)


def _ids(batch: int, tokens: int, words: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(words, (batch, tokens), generator=generator)
