"""Storage: raw CPU memory aligned as the kernel ABI asks, and the pool that workspaces come from.

A Storage owns bytes; tensors are views of it that keep it alive. A WorkspacePool hands each call a
storage of its own and takes it back afterwards: a list used as a stack, whose ``pop`` and
``append`` are atomic, so that concurrent calls never share one. Nothing here knows about kernels.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

import numpy as np

from ..support.aligned import aligned_empty
from ..support.dtype import DType
from ..support.errors import ArgumentError, VMError


def _address_words() -> ctypes.Array[ctypes.c_size_t] | None:
    """The process's memory as an array of words that begins at the ``data`` field of an ndarray at
    address 0, so that ``words[id(x) >> 3]`` is the data pointer of the ndarray ``x``.

    The field follows the object header. The public ways to the pointer (``x.ctypes.data``,
    ``__array_interface__``) build objects and take as long as a small kernel. Whether the layout is
    as expected is tried once, at import; None where it is not.
    """
    offset = object.__basicsize__
    if ctypes.sizeof(ctypes.c_size_t) != 8 or offset % 8:
        return None
    words = (ctypes.c_size_t * (1 << 45)).from_address(offset)
    base = np.zeros(64, np.uint8)
    for probe in (base, base[16:], base[:0], np.zeros((3, 4), np.float32).T, np.float64(1) + base):
        at = id(probe)
        if at % 8 or at >> 48 or words[at >> 3] != probe.__array_interface__["data"][0]:
            return None
    return words


WORDS = _address_words()


def data_pointer(x: np.ndarray) -> int:
    """The address of an array's first element; ``x`` must be exactly an ndarray, or a subclass's
    instance, which begins with the same fields."""
    return x.ctypes.data if WORDS is None else WORDS[id(x) >> 3]


@cache
def storage_dtype(dtype: DType) -> np.dtype:
    """The NumPy dtype that holds a dtype's elements; bfloat16, which NumPy lacks, is kept as
    uint16."""
    return np.dtype(np.uint16) if dtype == "bfloat16" else dtype.to_numpy()


class Storage:
    """``nbytes`` of uninitialised memory at ``pointer``, a multiple of ``ALIGNMENT``."""

    __slots__ = ("data", "nbytes", "pointer")

    def __init__(self, nbytes: int) -> None:
        """Raises VMError where the system has no such memory."""
        if nbytes < 0:
            raise ArgumentError(f"A storage cannot have {nbytes} bytes.")
        try:
            self.data = aligned_empty((nbytes,), np.dtype(np.uint8))
        except MemoryError as error:
            raise VMError(
                f"A call needs {nbytes} bytes at once, which the system does not give: smaller "
                "inputs need less; model.report tells what is needed for which step."
            ) from error
        self.nbytes = nbytes
        self.pointer = data_pointer(self.data)

    def view(self, offset: int, shape: Sequence[int], dtype: DType) -> np.ndarray:
        """The array of ``shape`` that begins ``offset`` bytes in; shares memory with the storage.

        Raises ArgumentError where it would reach beyond the storage.
        """
        held = storage_dtype(dtype)
        size = math.prod(shape) * held.itemsize
        if offset < 0 or offset + size > self.nbytes:
            raise ArgumentError(
                f"A {dtype} tensor of shape {tuple(shape)} at byte {offset} ends at byte "
                f"{offset + size}, beyond a storage of {self.nbytes} bytes."
            )
        return self.data[offset : offset + size].view(held).reshape(tuple(shape))


class WorkspacePool:
    """Storages that calls borrow, thread-safe without a lock.

    At most as many storages live as calls ran at once; one that proves too small is replaced by one
    that fits, so a pool settles at the largest workspace of its program.
    """

    __slots__ = ("_free",)

    def __init__(self) -> None:
        self._free: list[Storage] = []

    def take(self, nbytes: int) -> Storage:
        """A storage of at least ``nbytes``, the caller's own until ``give``."""
        try:
            storage = self._free.pop()
        except IndexError:
            return Storage(nbytes)
        return storage if storage.nbytes >= nbytes else Storage(nbytes)

    def give(self, storage: Storage) -> None:
        """Return a storage that was taken."""
        self._free.append(storage)

    @contextmanager
    def borrow(self, nbytes: int) -> Iterator[Storage]:
        """``take`` and ``give`` around a block."""
        storage = self.take(nbytes)
        try:
            yield storage
        finally:
            self.give(storage)

    @property
    def free_bytes(self) -> int:
        """Bytes held by storages that no call is using."""
        return sum([s.nbytes for s in self._free])
