"""Tensor: C-contiguous CPU memory with a dtype of ours, what a program's registers hold.

A Tensor is a NumPy array plus the dtype it stands for: NumPy has no bfloat16, whose elements are
held as uint16 bits. Everything that leaves (``numpy()``, ``__array__``, ``__dlpack__``) shares
memory with the tensor, so an environment function that writes through any of them writes the
tensor.

This is not an array library: no arithmetic, no slicing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..support.aligned import aligned_empty
from ..support.dtype import DType, bfloat16_bits
from ..support.errors import ArgumentError, DTypeError
from ..support.keywords import hinted
from ..support.other_names import OtherName
from .storage import data_pointer, storage_dtype

_SUPPORTED = tuple(
    [
        *("float64", "float32", "float16", "int64", "int32", "int16", "int8"),
        *("uint64", "uint32", "uint16", "uint8", "bool"),
    ]
)


class Tensor:
    """A dense CPU tensor: ``shape``, ``dtype``, and memory in row-major order.

    ``Tensor(data, dtype)`` wraps an array without copying; ``data`` must be C-contiguous, aligned
    to its dtype, and hold ``dtype`` (uint16 for bfloat16). Raises ArgumentError and DTypeError
    otherwise.
    """

    __slots__ = ("__weakref__", "data", "dtype")
    asnumpy = OtherName("numpy()")
    copyfrom = OtherName("numpy()[...] = array")
    copyto = OtherName("numpy().copy(), or an assignment to another's numpy()[...]")
    ctx = OtherName("nothing: burnish runs on the CPU")
    device = OtherName("nothing: burnish runs on the CPU")
    to_dlpack = OtherName("nothing: torch.from_dlpack(tensor) and others take it as it is")

    def __init__(self, data: np.ndarray, dtype: str | None = None) -> None:
        self.dtype = DType(dtype) if dtype is not None else dtype_of(data)
        if data.dtype != storage_dtype(self.dtype):
            raise DTypeError(
                str(data.dtype), (str(storage_dtype(self.dtype)),), f"memory of {self.dtype}"
            )
        if not data.flags.c_contiguous or not data.flags.aligned:
            raise ArgumentError(
                "A Tensor wraps C-contiguous, aligned memory only; copy it with burnish.array(x)."
            )
        self.data = data

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    @property
    def ndim(self) -> int:
        return self.data.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.data.size

    @property
    def nbytes(self) -> int:
        return self.data.nbytes

    @property
    def pointer(self) -> int:
        """Address of the first element."""
        return data_pointer(self.data)

    def numpy(self) -> np.ndarray:
        """The elements as a NumPy array that shares memory; DTypeError for bfloat16 (see
        ``bits``)."""
        if self.dtype == "bfloat16":
            raise DTypeError(
                "bfloat16",
                _SUPPORTED,
                "a dtype that NumPy has (take .bits() for the bits or .float32() for a copy)",
            )
        return self.data

    def bits(self) -> np.ndarray:
        """The elements' bits as unsigned integers of the same size; shares memory."""
        return self.data.view(f"u{self.data.dtype.itemsize}")

    def float32(self) -> np.ndarray:
        """A float32 copy of a floating tensor; exact for bfloat16 and float16."""
        if self.dtype == "bfloat16":
            return (self.data.astype(np.uint32) << 16).view(np.float32)
        return self.data.astype(np.float32)

    def reshape(self, shape: Sequence[int]) -> Tensor:
        """The same memory under another shape; raises ArgumentError where the sizes differ."""
        shape = tuple(shape)
        try:
            return wrap(self.data.reshape(shape), self.dtype)
        except ValueError:
            raise ArgumentError(
                f"A tensor of shape {self.shape} ({self.size} elements) cannot be seen as {shape}."
            ) from None

    def item(self) -> int | float | bool:
        """The value of a tensor of one element."""
        if self.size != 1:
            raise ArgumentError(f"item() needs one element; this tensor has shape {self.shape}.")
        value = self.float32() if self.dtype == "bfloat16" else self.data
        result: int | float | bool = value.item()
        return result

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers."""
        return (self.float32() if self.dtype == "bfloat16" else self.data).tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        held = self.numpy()
        if dtype is not None and np.dtype(dtype) != held.dtype:
            if copy is False:
                raise ValueError(f"a {self.dtype} tensor becomes {np.dtype(dtype)} only by a copy")
            return held.astype(dtype)
        return held.copy() if copy else held

    def __dlpack__(self, **options: Any) -> Any:
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.data.__dlpack_device__()

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        values = self.float32() if self.dtype == "bfloat16" else self.data
        text = np.array2string(values, threshold=20, edgeitems=2, separator=", ")
        return f"Tensor({text}, shape={self.shape}, dtype={self.dtype})"


def wrap(data: np.ndarray, dtype: DType) -> Tensor:
    """A Tensor around memory known to fit: the unchecked constructor."""
    tensor = Tensor.__new__(Tensor)
    tensor.data = data
    tensor.dtype = dtype
    return tensor


_KNOWN: dict[np.dtype, DType] = {np.dtype(name): DType(name) for name in _SUPPORTED}


def dtype_of(data: np.ndarray, name: str = "") -> DType:
    """The dtype of an array, which errors call ``name``; raises DTypeError for complex, strings,
    objects and foreign byte order."""
    known = _KNOWN.get(data.dtype)
    if known is None:
        what = f"{name} of " * bool(name) + "a dtype in native byte order"
        raise DTypeError(str(data.dtype), _SUPPORTED, what)
    return known


@hinted
def empty(shape: int | Sequence[int], dtype: str = "float32") -> Tensor:
    """An uninitialised tensor, 64-byte aligned."""
    kind = DType(dtype)
    dims = (shape,) if isinstance(shape, int) else tuple([int(n) for n in shape])
    if any(n < 0 for n in dims):
        raise ArgumentError(f"A tensor cannot have the shape {dims}.")
    return wrap(aligned_empty(dims, storage_dtype(kind)), kind)


@hinted
def array(x: object, dtype: str | None = None) -> Tensor:
    """A new 64-byte aligned tensor with a copy of ``x``: array, tensor, list or number.

    ``dtype`` converts; floats convert to bfloat16 by rounding to nearest even.
    """
    source = x if isinstance(x, Tensor) else _import(x)
    if dtype is None or DType(dtype) is source.dtype:
        result = empty(source.shape, source.dtype)
        result.data[...] = source.data
        return result
    kind = DType(dtype)
    values = source.float32() if source.dtype == "bfloat16" else source.data
    result = empty(source.shape, kind)
    if kind == "bfloat16":
        result.data[...] = bfloat16_bits(values)
    else:
        result.data[...] = values.astype(result.data.dtype)
    return result


def _import(x: object) -> Tensor:
    if isinstance(x, np.ndarray) or not hasattr(x, "__dlpack__"):
        data = np.asarray(x)
        return wrap(data, dtype_of(data))
    return from_dlpack(x, "x")


def from_dlpack(x: object, name: str) -> Tensor:
    """A tensor that shares memory with ``x``, which may be strided; ArgumentError naming ``name``
    where it is not a CPU tensor or cannot be exported."""
    device = x.__dlpack_device__()  # type: ignore[attr-defined]
    if device[0] != 1:
        raise ArgumentError(
            f"{name}: expected a tensor in CPU memory, got DLPack device {tuple(device)}. "
            "Move it to the CPU before the call."
        )
    try:
        data = np.from_dlpack(x)  # type: ignore[arg-type]
    except (BufferError, RuntimeError) as error:
        # A dtype that NumPy lacks comes as RuntimeError, a refusing exporter as BufferError.
        raise ArgumentError(f"{name}: the tensor cannot be read through DLPack: {error}") from error
    return wrap(data, dtype_of(data, name))


def _is_masked(x: object) -> bool:
    """Whether it is one of ``numpy.ma``, whose import takes a third of NumPy's own."""
    module = sys.modules.get("numpy.ma")
    return module is not None and isinstance(x, module.MaskedArray)


def as_tensor(x: object, name: str, *, copy: bool = True) -> Tensor:
    """An argument as a Tensor that shares its memory; what is not C-contiguous and aligned is
    copied, or, for an output (``copy=False``), refused.

    Raises ArgumentError naming the argument for what is no CPU tensor; Python numbers and lists are
    refused, because their dtype would be a guess.
    """
    if isinstance(x, Tensor):
        return x
    if _is_masked(x):
        raise ArgumentError(f"{name}: a masked array's mask would be lost; pass x.filled(value).")
    if isinstance(x, np.ndarray):
        is_bfloat16 = x.dtype.name == "bfloat16"  # of ml_dtypes; NumPy itself has none
        tensor = (
            wrap(x.view("u2"), DType("bfloat16")) if is_bfloat16 else wrap(x, dtype_of(x, name))
        )
    elif hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        tensor = from_dlpack(x, name)
    else:
        raise ArgumentError(
            f"{name}: expected a NumPy array, a burnish tensor or anything with __dlpack__, "
            f"got {type(x).__name__}."
        )
    if not tensor.data.flags.c_contiguous or not tensor.data.flags.aligned:
        if not copy:
            raise ArgumentError(
                f"{name}: an output must be C-contiguous and aligned; what is written to a copy of "
                "it would be lost. Pass a contiguous array."
            )
        data = aligned_empty(tensor.shape, tensor.data.dtype)
        data[...] = tensor.data
        return wrap(data, tensor.dtype)
    return tensor
