"""Arrays of other libraries at the door of a compiled model: torch tensors as the fast entry sees
them, and anything else through DLPack. Nothing here knows a model."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..support.errors import (
    ArgumentError,
    ArityError,
    DTypeMismatchError,
    ShapeMismatchError,
)
from ..support.wording import spoken
from ..vm.fast_entry import ArrayKind
from ..vm.program import Param
from ..vm.shape_text import compile_shapes
from ..vm.signature import named_dims
from ..vm.tensor import Tensor, array, as_tensor, empty

_TORCH_DTYPES = (
    *("float64", "float32", "float16", "bfloat16"),
    *("int64", "int32", "int16", "int8", "uint8", "bool"),
)
_SHARING_WORK = 1000
"""The most steps of NumPy's search for an element that two strided arrays have in common; beyond,
arrays that overlap count as such."""


def is_torch_tensor(x: object) -> bool:
    """Whether ``x`` is a torch tensor; torch is never imported for the question."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


@lru_cache(maxsize=1)
def torch_kind() -> ArrayKind:
    """torch tensors in, torch tensors out, for the generated entry of a model."""
    import torch

    # The default device may be set to another one, here and now, by whoever calls.
    cpu = torch.device("cpu")

    def empty_torch(shape: tuple[int, ...], dtype: Any) -> Any:
        return torch.empty(shape, dtype=dtype, device=cpu)

    users: Any = getattr(torch._C, "_storage_Use_Count", None)

    def keep(tensor: Any) -> tuple[Any, ...]:
        """The tensor, and what tells whether its memory is still what it was, and ours alone."""
        held = tensor
        if tensor.is_inference():
            with torch.inference_mode(False):
                held = torch.empty_like(tensor, device=cpu)
        storage = held.untyped_storage()
        word, size = storage._cdata, storage.nbytes
        return held, word, users(word), held.data_ptr(), size, size()

    def can_keep() -> bool:
        """Whether the storage's count tells of views that somebody has."""
        if users is None:
            return False
        held, word, idle, *_ = keep(empty_torch((4,), torch.float32))
        view = held.data
        counted: bool = users(word) == idle + 1
        del view
        return counted and users(word) == idle

    # A tensor without memory (its storage was freed) has the address 0, and goes the complete way;
    # so do layouts whose tensors cannot be asked for one.
    return ArrayKind(
        torch.Tensor,
        {name: getattr(torch, name) for name in _TORCH_DTYPES},
        "{x}.is_cpu and {x}.is_contiguous() and not {x}.is_neg() and (p_{x} := {x}.data_ptr())",
        "{x}.data_ptr()",
        empty_torch,
        argument="p_{x}",
        may_raise=True,
        view="{x}[0].data" if can_keep() else "",
        # Whoever has a view may have given the storage other memory: share_memory_(), resize_().
        busy="users({x}[1]) != {x}[2] or {x}[0].data_ptr() != {x}[3] or {x}[4]() != {x}[5]",
        keep=keep,
        kept_pointer="{x}[3]",
        names={"users": users},
    )


def torch_to_tensor(x: Any, name: str) -> Tensor:
    """A torch tensor as a Tensor that shares its memory (a copy where it is strided).

    Raises ArgumentError for a tensor that is not in CPU memory or not dense, DTypeMismatchError for
    a dtype that burnish has not.
    """
    import torch

    if x.device.type != "cpu":
        raise ArgumentError(
            f"{name}: the tensor is on {x.device}; burnish runs on the CPU: call .cpu()."
        )
    if x.is_nested:
        raise ArgumentError(f"{name}: the tensor is nested; call .to_padded_tensor(0.0).")
    if x.layout is not torch.strided:
        raise ArgumentError(f"{name}: the tensor's layout is {x.layout}; call .to_dense().")
    if x.is_complex() or x.is_quantized:
        raise DTypeMismatchError(name, "a real dtype", str(x.dtype))
    try:
        if x.numel() and not x.data_ptr():
            raise ArgumentError(f"{name}: the tensor has no memory; its storage was freed.")
        dense = x.detach().resolve_neg().contiguous()
        if dense.dtype is torch.bfloat16:
            return Tensor(dense.view(torch.uint16).numpy(), "bfloat16")
        return as_tensor(dense.numpy(), name)
    except (TypeError, RuntimeError) as error:
        # A dtype that NumPy has not, e.g. float8; a tensor without storage, e.g. a fake one.
        raise ArgumentError(
            f"{name}: a {x.dtype} tensor cannot be passed: {error}. Convert it before the call, as "
            "with .float()."
        ) from error


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
    arrays (bfloat16, which NumPy has not, stays a burnish tensor), else burnish tensors."""
    if any(is_torch_tensor(x) for x in inputs):
        return [tensor_to_torch(t) for t in outputs]
    if all(isinstance(x, np.ndarray) for x in inputs):
        return [t.numpy() if str(t.dtype) != "bfloat16" else t for t in outputs]
    return list(outputs)


def write_outputs(out: Any, outputs: Sequence[Tensor]) -> None:
    """Copy outputs into the caller's array, sequence of arrays, or dict of them (in order).

    All are checked before any is written: raises ArityError, ShapeMismatchError,
    DTypeMismatchError, and ArgumentError for what cannot be written.
    """
    is_many = isinstance(out, (list, tuple, Mapping))
    held = list(out.values()) if isinstance(out, Mapping) else list(out) if is_many else [out]
    if len(held) != len(outputs):
        plural = "s" if len(outputs) != 1 else ""
        raise ArityError(
            f"out: the model gives {len(outputs)} output{plural}; {len(held)} "
            f"{'arrays were' if len(held) != 1 else 'array was'} passed."
        )
    names = [f"out[{i}]" if is_many else "out" for i in range(len(held))]
    targets = [_writable(x, made, n) for x, made, n in zip(held, outputs, names, strict=True)]
    for target, made in zip(targets, outputs, strict=True):
        target[...] = made.data


def _writable(given: Any, made: Tensor, name: str) -> np.ndarray:
    """The memory of ``given`` as an array that fits ``made``; it may be strided."""
    memory, dtype = _memory(given, name)
    if memory.shape != made.shape:
        raise ShapeMismatchError(name, str(made.shape), str(memory.shape))
    if dtype != str(made.dtype):
        raise DTypeMismatchError(name, str(made.dtype), dtype)
    if not memory.flags.writeable:
        raise ArgumentError(f"{name}: the array is read-only.")
    return memory


def check_written(values: Sequence[object], names: Sequence[str], written: Sequence[int]) -> None:
    """Raise ArgumentError where an input that a call writes cannot be written, or shares memory
    with another one: what that reads would depend on the order of the work."""
    for i in written:
        memory, _ = _memory(values[i], names[i])
        if not memory.flags.writeable:
            raise ArgumentError(
                f"{names[i]}: the array is read-only, and the model writes this input; pass a copy."
            )
        for j, other in enumerate(values):
            if j != i and _may_share(memory, other):
                raise ArgumentError(
                    f"{names[i]}: the model writes this input, and it shares memory with "
                    f"{names[j]}; pass a copy of one."
                )


def _may_share(memory: np.ndarray, other: object) -> bool:
    try:
        found = _memory(other, "")[0]
        return np.may_share_memory(memory, found, max_work=_SHARING_WORK)  # type: ignore[arg-type]
    except ArgumentError:  # no memory that can be looked at, e.g. a list of numbers
        return False


def _memory(given: Any, name: str) -> tuple[np.ndarray, str]:
    """(the memory of an array of any library, its dtype's name)"""
    if isinstance(given, np.ndarray):
        return given, str(given.dtype)
    if isinstance(given, Tensor):
        return given.data, str(given.dtype)
    try:
        if is_torch_tensor(given):
            dtype, plain = str(given.dtype).removeprefix("torch."), given.detach()
            if dtype == "bfloat16":
                plain = plain.view(sys.modules["torch"].uint16)
            return plain.numpy(), dtype
        if hasattr(given, "__dlpack__"):
            memory = np.from_dlpack(given)
            return memory, str(memory.dtype)
    except (TypeError, RuntimeError, BufferError) as error:
        raise ArgumentError(f"{name}: its memory cannot be written: {error}") from error
    raise ArgumentError(f"{name}: expected an array to write into, found {type(given).__name__}.")


def copied(x: Any) -> Any:
    """An input of memory of its own; what is no array stays as it is."""
    if is_torch_tensor(x):
        return x.detach().clone()
    if isinstance(x, Tensor):
        return Tensor(x.data.copy(), str(x.dtype))
    return x.copy() if isinstance(x, np.ndarray) else x


def random_inputs(
    params: Sequence[Param], *, size: int | Mapping[str, int] | None = None
) -> list[Tensor]:
    """Random tensors for the parameters of a program: floats in [0, 1), integers 0 and 1.

    Every symbolic dim gets ``size``, or what it says of the dim by name; raises ArgumentError where
    there are some and it is None.
    """
    rng = np.random.default_rng(0)
    made: list[Tensor] = []
    for p in params:
        names = named_dims([p])
        if names and size is None:
            how = spoken(
                "pass inputs of a size of your choice",
                f"say what it is, as in --sizes {','.join([f'{n}=8' for n in named_dims(params)])}",
            )
            raise ArgumentError(f"input {p.name!r} has the named size {names[0]!r}; {how}.")
        values = [size[n] if isinstance(size, Mapping) else size or 0 for n in names]
        shape = compile_shapes(p.spec.shape, names)(values)
        try:
            made.append(_random(rng, shape, p.spec.dtype))
        except (MemoryError, ValueError) as error:
            raise ArgumentError(
                f"input {p.name!r} of shape {tuple(shape)} would have {math.prod(shape):,} "
                "elements, for which the system has no memory. Give smaller sizes."
            ) from error
    return made


def _random(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> Tensor:
    if dtype == "bfloat16":
        return array(rng.random(shape), "bfloat16")
    if dtype.startswith("float"):
        return array(rng.random(shape).astype(dtype))
    whole = empty(shape, dtype)
    whole.data[...] = rng.integers(0, 2, shape)
    return whole
