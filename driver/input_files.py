"""Input tensors from files, for the commands: ``.npy``, and what has a bfloat16 too, ``.pt`` of
``torch.save`` and ``.safetensors``.

A file of several tensors gives them in their order. NumPy has no bfloat16: floats from ``.npy`` are
rounded to it where the model takes it, which is said.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..support.errors import ArgumentError
from ..support.file_kind import HEAD_BYTES, kind_of_file
from ..vm.tensor import Tensor, array
from .arrays import torch_to_tensor

_HEADER_BYTES = 1 << 26
_SAFE = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2",
    "I8": "<i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "<u1", "BOOL": "|b1",
    "BF16": "<u2",
}  # fmt: skip
"""The dtypes of a safetensors file that burnish has."""


def read_inputs(
    files: Sequence[str], dtypes: Sequence[str], say: Callable[[str], Any] = print
) -> list[Any]:
    """The tensors of some files, in order. ``dtypes`` are what the model takes, where that is
    known.

    Raises ArgumentError for a file that cannot be read, or that holds something else.
    """
    found = [(name, x) for name in files for x in _tensors(name)]
    wanted = [*dtypes, *[""] * len(found)]
    return [_fitting(name, x, dtype, say) for (name, x), dtype in zip(found, wanted, strict=False)]


def _tensors(name: str) -> list[Any]:
    ending = Path(name).suffix
    if ending in (".pt", ".pth"):
        return _of_torch(name)
    return _of_safetensors(name) if ending == ".safetensors" else [_of_numpy(name)]


def _fitting(name: str, x: Any, dtype: str, say: Callable[[str], Any]) -> Any:
    """Floats of NumPy as bfloat16, where that is wanted."""
    if dtype != "bfloat16" or not isinstance(x, np.ndarray) or x.dtype.kind != "f":
        return x
    say(f"{name}: {x.dtype} rounded to bfloat16, which the model takes and .npy does not have")
    return array(x, "bfloat16")


def _of_numpy(name: str) -> np.ndarray:
    try:
        found: np.ndarray = np.load(name, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise _unreadable(name, ".npy", error) from error
    if not isinstance(found, np.ndarray):
        raise ArgumentError(
            f"{name}: expected one array (.npy); found an archive of several (.npz). Keep each in "
            "a file of its own, or all in one .safetensors."
        )
    return found


def _unreadable(name: str, kind: str, error: Exception) -> ArgumentError:
    """Of a file that is missing, or none of its kind."""
    if isinstance(error, OSError) and error.strerror:
        return ArgumentError(f"{name} cannot be read: {error.strerror}.")
    with open(name, "rb") as file:
        found, _ = kind_of_file(name, file.read(HEAD_BYTES))
    return ArgumentError(
        f"{name}: cannot be read as {kind}: it is {found}. Inputs are .npy, .pt (tensors of "
        "torch.save) or .safetensors."
    )


def _of_torch(name: str) -> list[Any]:
    """A tensor, or a list or dict of some."""
    try:
        import torch

        held = torch.load(name, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever torch and pickle raise for a file that is none
        if isinstance(error, OSError):
            raise _unreadable(name, ".pt", error) from error
        problem = str(error).partition("\n")[0]
        raise ArgumentError(
            f"{name}: cannot be read as a file of torch.save that holds tensors alone: {problem}"
        ) from error
    values = list(held.values()) if isinstance(held, dict) else held
    values = list(values) if isinstance(values, (list, tuple)) else [values]
    if not values or not all(isinstance(x, torch.Tensor) for x in values):
        raise ArgumentError(
            f"{name}: expected a tensor, or a list or dict of tensors; found a "
            f"{type(held).__name__} of something else."
        )
    return [_plain(torch_to_tensor(x, name)) for x in values]


def _of_safetensors(name: str) -> list[Any]:
    """All tensors of the file, in the order of its header."""
    try:
        image = Path(name).read_bytes()
        size = int.from_bytes(image[:8], "little")
        if len(image) < 8 or size > min(len(image) - 8, _HEADER_BYTES):
            raise ValueError("its header is longer than the file")
        try:
            header = json.loads(image[8 : 8 + size])
        except RecursionError as error:
            raise ValueError("its header is nested too deeply") from error
        data = memoryview(image)[8 + size :]
        rows = {key: row for key, row in header.items() if key != "__metadata__"}
        found = [_of_row(row, data) for row in rows.values()]
    except OSError as error:
        raise _unreadable(name, ".safetensors", error) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArgumentError(f"{name}: cannot be read as .safetensors: {error!r}") from error
    if not found:
        raise ArgumentError(f"{name}: holds no tensor.")
    return found


def _of_row(row: Any, data: memoryview) -> Any:
    begin, end = row["data_offsets"]
    if row["dtype"] not in _SAFE:
        raise ValueError(f"a tensor of {row['dtype']}; known are {', '.join(_SAFE)}")
    if not 0 <= begin <= end <= len(data):
        raise ValueError("a tensor outside of the file")
    held = np.frombuffer(data[begin:end], _SAFE[row["dtype"]]).reshape(row["shape"])
    return Tensor(held.copy(), "bfloat16") if row["dtype"] == "BF16" else held.copy()


def _plain(tensor: Tensor) -> Any:
    """As NumPy has it, where it has the dtype."""
    return tensor if tensor.dtype == "bfloat16" else tensor.numpy()


__all__ = ["read_inputs"]
