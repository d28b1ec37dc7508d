"""Arrays of other libraries at the door of a compiled model: torch tensors as the fast entry sees them,
and anything else through DLPack."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..support.errors import ArgumentError, DTypeMismatchError
from ..vm.fast_entry import ArrayKind
from ..vm.tensor import Tensor, as_tensor


def is_torch_tensor(x: object) -> bool:
    """Whether ``x`` is a torch tensor; torch is never imported for the question."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


@lru_cache(maxsize=1)
def torch_kind() -> ArrayKind:
    """torch tensors in, torch tensors out, for the generated entry of a model."""
    import torch

    dtypes = {
        name: getattr(torch, name)
        for name in (
            *("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8"),
            "bool",
        )
    }

    def empty(shape: tuple[int, ...], dtype: Any) -> Any:
        return torch.empty(shape, dtype=dtype)

    return ArrayKind(
        torch.Tensor,
        dtypes,
        "{x}.is_cpu and {x}.is_contiguous()",
        "{x}.data_ptr()",
        empty,
    )


def torch_to_tensor(x: Any, name: str) -> Tensor:
    """A torch tensor as a Tensor that shares its memory (a copy where it is strided).

    Raises ArgumentError for a tensor that is not in CPU memory, or not dense.
    """
    import torch

    if x.device.type != "cpu":
        raise ArgumentError(f"{name}: the tensor is on {x.device}; burnish runs on the CPU: call .cpu().")
    if x.layout is not torch.strided:
        raise ArgumentError(f"{name}: the tensor's layout is {x.layout}; call .to_dense().")
    if x.is_complex() or x.is_quantized:
        raise DTypeMismatchError(name, "a real dtype", str(x.dtype))
    dense = x.detach().resolve_neg().resolve_conj().contiguous()
    if dense.dtype is torch.bfloat16:
        return Tensor(dense.view(torch.uint16).numpy(), "bfloat16")
    return as_tensor(dense.numpy(), name)


def tensor_to_torch(t: Tensor) -> Any:
    """A Tensor as a torch tensor that shares its memory."""
    import torch

    if str(t.dtype) == "bfloat16":
        return torch.from_numpy(t.data).view(torch.bfloat16)
    return torch.from_numpy(t.numpy())


def to_tensors(values: Sequence[object], names: Sequence[str]) -> list[Tensor]:
    """Arrays of any library as Tensors, without copies where they are dense."""
    return [
        torch_to_tensor(v, n) if is_torch_tensor(v) else as_tensor(v, n)
        for v, n in zip(values, names, strict=True)
    ]


def like_inputs(outputs: Sequence[Tensor], inputs: Sequence[object]) -> list[Any]:
    """Outputs in the library of the inputs: torch if any is a torch tensor, NumPy if all are NumPy
    arrays, else burnish tensors."""
    if any(is_torch_tensor(x) for x in inputs):
        return [tensor_to_torch(t) for t in outputs]
    if all(isinstance(x, np.ndarray) for x in inputs):
        return [t.numpy() if str(t.dtype) != "bfloat16" else t for t in outputs]
    return list(outputs)
