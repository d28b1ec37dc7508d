"""Modules whose parameters were made under ``torch.inference_mode``.

    with torch.inference_mode():
        model = Net().eval()            # or model.half(), model.load_state_dict(..., assign=True)

Such parameters say that they want gradients and can have none; torch.export copies what they say to
tensors of its own, outside of that mode, and is refused. Nothing here is differentiated: while a
module is exported they want none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.nn.parameter import is_lazy


@contextmanager
def without_gradients(module: torch.nn.Module) -> Iterator[None]:
    """In the context no parameter that was made under ``torch.inference_mode`` wants gradients."""
    changed = [
        p for p in module.parameters() if not is_lazy(p) and p.is_inference() and p.requires_grad
    ]
    _want(changed, is_wanted=False)
    try:
        yield
    finally:
        _want(changed, is_wanted=True)


def _want(tensors: list[torch.nn.Parameter], *, is_wanted: bool) -> None:
    with torch.inference_mode():
        for tensor in tensors:
            tensor.requires_grad_(is_wanted)
