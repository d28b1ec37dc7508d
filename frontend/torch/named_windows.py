"""Windows of signals as long as a named size, of which torch's own functions make a number.

    torch.hann_window(x.shape[1])

All are cosines of places, but for two. A periodic window is one of a place more, without its last;
one of a single place is 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


def window(
    name: str, window_length: Any, periodic: bool = True, *args: Any, **given: Any
) -> Tensor:
    """The window of a name, ``hann`` for ``torch.hann_window``, which has these arguments."""
    dtype = given.pop("dtype", None) or torch.get_default_dtype()
    for option in ("layout", "device", "pin_memory", "requires_grad"):
        given.pop(option, None)
    steps: Any = window_length if periodic else torch.sym_max(window_length - 1, 1)
    wide = torch.float64 if dtype is torch.float64 else torch.float32
    places = torch.arange(window_length, dtype=wide) / torch.full((), steps, dtype=wide)
    is_one = torch.full((), window_length, dtype=torch.int64) == 1
    found = WINDOWS[name](places, *args, **given)
    return torch.where(is_one, torch.ones((), dtype=wide), found).to(dtype)


def _cosines(places: Tensor, weights: Sequence[float]) -> Tensor:
    terms = [w * torch.cos(2 * math.pi * i * places) for i, w in enumerate(weights) if i]
    return sum(terms, torch.full((), weights[0], dtype=places.dtype))


def _hamming(places: Tensor, alpha: float = 0.54, beta: float = 0.46) -> Tensor:
    return _cosines(places, (alpha, -beta))


def _kaiser(places: Tensor, beta: float = 12.0) -> Tensor:
    at = 2 * places - 1
    inside = torch.sqrt((1 - at * at).clamp(min=0))
    whole = torch.full((), beta, dtype=places.dtype)
    return torch.special.i0(beta * inside) / torch.special.i0(whole)


WINDOWS: dict[str, Callable[..., Tensor]] = {
    "hann": lambda places: _cosines(places, (0.5, -0.5)),
    "hamming": _hamming,
    "blackman": lambda places: _cosines(places, (0.42, -0.5, 0.08)),
    "bartlett": lambda places: 1 - (2 * places - 1).abs(),
    "kaiser": _kaiser,
}


__all__ = ["WINDOWS", "window"]
