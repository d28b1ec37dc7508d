"""``x.data`` while a module is traced.

torch reads and sets it below what traces: what is read would be a constant without values, and what
is set would be lost without a word, so that a weight were the one before. Read, it is
``x.detach()`` here; set, it is refused where it stands.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ...support.errors import FrontendError

_TORCH = f"{Path(torch.__file__).parent}/"
_DATA: Any = torch._C.TensorBase.data


@contextmanager
def traced_data() -> Iterator[None]:
    """In code other than torch's the data of tensors that are traced are what is here."""
    tensor: Any = torch.Tensor
    tensor.data = property(_read, _set)
    try:
        yield
    finally:
        del tensor.data


def _read(x: torch.Tensor) -> Any:
    is_traced = isinstance(x, FakeTensor) and not _caller().startswith(_TORCH)
    return x.detach() if is_traced else _DATA.__get__(x)


def _set(x: torch.Tensor, value: Any) -> None:
    place = _caller()
    if isinstance(x, FakeTensor) and not place.startswith(_TORCH):
        raise FrontendError(
            f"forward() sets .data of a tensor at {place}, which cannot be compiled: compute with "
            "the new tensor instead (torch.nn.functional has layers that take their weights), or "
            "set it once before compiling."
        )
    _DATA.__set__(x, value)


def _caller() -> str:
    frame = sys._getframe(2)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


__all__ = ["traced_data"]
