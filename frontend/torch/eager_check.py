"""Whether a module that cannot be imported runs at all: where it does not, there is nothing wrong
with compiling, and who reads of control flow and torch.where then looks in the wrong place."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...support.errors import FrontendError
from .eager_call import copied, eager_call, unchanged
from .export import error_text
from .registry import raised_at

_CASTS = {
    torch.float64: "double()",
    torch.float32: "float()",
    torch.float16: "half()",
    torch.bfloat16: "bfloat16()",
}


def check_eager(module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Call a module in eager PyTorch, which leaves it, the inputs and the random numbers as they
    were. Raises FrontendError where the call fails."""
    given, named = copied((tuple(args), dict(kwargs)))
    with warnings.catch_warnings(action="ignore"), unchanged(module):
        try:
            eager_call(module, given, named)
            return
        except Exception as error:  # whatever the model's own code raises
            failure = error
    inputs = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
    shown = ", ".join([f"{str(x.dtype)[6:]}{list(x.shape)}" for x in inputs])
    raise FrontendError(
        f"{type(module).__name__} fails on these inputs ({shown}) in eager PyTorch too"
        f"{raised_at(failure)}: {error_text(failure)}\n"
        f"Give inputs that the module takes: module(*inputs) has to run.{_cast_of(module, inputs)}"
    ) from failure


def _cast_of(module: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> str:
    """How the dtypes of inputs and weights become one, where no input has that of the weights."""
    kept = {p.dtype for p in module.parameters() if p.dtype in _CASTS}
    given = {x.dtype for x in inputs if x.dtype in _CASTS}
    if len(kept) != 1 or len(given) != 1 or kept == given:
        return ""
    (weights,), (floats,) = kept, given
    return (
        f" They are {str(floats)[6:]} and its weights {str(weights)[6:]}: call "
        f"x.{_CASTS[weights]}, or module.{_CASTS[floats]}."
    )


__all__ = ["check_eager"]
