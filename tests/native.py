"""Runs kernels on NumPy arrays for tests: lower, emit, link into this process, call under the
ABI."""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Sequence

import numpy as np
from llvmlite import binding

from burnish.support.abi import ABI_VERSION, ALIGNMENT
from burnish.support.host import native_target, resolve
from burnish.support.target import Target
from burnish.tensorir.codegen.object import emit_object, target_machine
from burnish.tensorir.expr import Expr, IntImm
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.lowering.pipeline import LoweredFunc, lower_func
from burnish.tensorir.lowering.scope import Scope
from burnish.tensorir.visitor import free_vars, substitute

_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
_LAUNCH = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)
_names = itertools.count()
_jit: list[binding.LLJIT] = []
_GUARD = np.random.default_rng(0).integers(1, 255, 4 * ALIGNMENT, np.uint8)
"""What lies before an array and after it while a kernel is called: wider than any vector, without
the bytes of zeros and of minus one, which kernels write often."""


class Runtime(ctypes.Structure):
    _fields_ = (
        ("abi_version", ctypes.c_int64),
        ("threads", ctypes.c_int64),
        ("launch", ctypes.c_void_p),
        ("pool", ctypes.c_void_p),
        ("cancel", ctypes.c_int64),
    )


class Native:
    """A linked image; keep it alive as long as its functions are called."""

    def __init__(self, images: Sequence[bytes], symbols: Sequence[str]) -> None:
        if not _jit:
            target_machine(native_target())  # initialises LLVM
            _jit.append(binding.create_lljit_compiler())
        library = binding.JITLibraryBuilder()
        for image in images:
            library.add_object_img(image)
        for symbol in symbols:
            library.export_symbol(symbol)
        library.add_current_process()
        self.tracker = library.link(_jit[0], f"test{next(_names)}")

    def call(
        self,
        symbol: str,
        arrays: Sequence[np.ndarray],
        dims: Sequence[int],
        workspace: int,
        threads: int,
    ) -> None:
        """Call a kernel with ``workspace`` bytes."""
        prepare(self.tracker[symbol], arrays, dims, workspace, threads)()


def prepare(
    address: int, arrays: Sequence[np.ndarray], dims: Sequence[int], workspace: int, threads: int
) -> _Call:
    """A call that can be repeated (and timed)."""
    return _Call(address, arrays, dims, workspace, threads)


class _Call:
    def __init__(
        self,
        address: int,
        arrays: Sequence[np.ndarray],
        dims: Sequence[int],
        workspace: int,
        threads: int,
    ) -> None:
        self.kernel = _KERNEL(address)
        self.keep: Native | None = None
        self.arrays = list(arrays)
        self.args = (ctypes.c_void_p * max(len(arrays), 1))(*[a.ctypes.data for a in arrays])
        self.dims = (ctypes.c_int64 * max(len(dims), 1))(*dims)
        self.workspace = aligned((max(workspace, 1),), "uint8")
        self.launches: list[tuple[int, int]] = []
        self.launch = _LAUNCH(self._launch)
        self.threads = threads
        self.runtime = Runtime(
            ABI_VERSION, threads, ctypes.cast(self.launch, ctypes.c_void_p), None
        )

    def _launch(self, rt: int, body: int, context: int, extent: int, grain: int) -> None:
        self.launches.append((extent, grain))
        task = _BODY(body)
        step = max(grain, -(-extent // self.threads))
        ranges = [(k, min(k + step, extent)) for k in range(0, extent, step)]
        workers = [
            threading.Thread(target=task, args=(context, begin, end, n))
            for n, (begin, end) in enumerate(ranges)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    def __call__(self) -> None:
        self.kernel(self.args, self.dims, self.workspace.ctypes.data, ctypes.byref(self.runtime))


def aligned(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """An uninitialised array aligned as intermediates are."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.empty(count + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + count].view(dtype).reshape(shape)


def value(e: Expr, lowered: LoweredFunc, dims: Sequence[int]) -> int:
    """The value of an expression over the function's dimensions."""
    known = {v: IntImm(n) for v, n in zip(lowered.dims, dims, strict=True)}
    result = Scope().simplify(substitute(e, known))
    assert isinstance(result, IntImm), free_vars([result])
    return result.value


def lower(func: PrimFunc | LoweredFunc, target: Target | None = None) -> LoweredFunc:
    """``func`` lowered for this machine."""
    return (
        func
        if isinstance(func, LoweredFunc)
        else lower_func(func, resolve(target or native_target()))
    )


def load_native(
    func: PrimFunc | LoweredFunc,
    *arrays: np.ndarray,
    dims: Sequence[int] = (),
    threads: int = 1,
    target: Target | None = None,
) -> _Call:
    """A repeatable call of ``func`` on ``arrays`` (outputs last)."""
    target = resolve(target or native_target())
    lowered = lower(func, target)
    symbol = str(lowered.func.attr("global_symbol", lowered.func.name))
    native = Native([emit_object([lowered], target).image], [symbol])
    shared, each = (value(e, lowered, dims) for e in (lowered.shared_bytes, lowered.thread_bytes))
    call = prepare(native.tracker[symbol], arrays, dims, shared + each * threads, threads)
    call.keep = native
    call.workspace[:] = 0xA5
    return call


def call_native(
    func: PrimFunc | LoweredFunc,
    *arrays: np.ndarray,
    dims: Sequence[int] = (),
    threads: int = 1,
    target: Target | None = None,
) -> None:
    """Lower, emit, link and call ``func`` on ``arrays``, whose last ones it writes.

    It is called on copies that lie between guards, but for arrays that overlap in part or have
    gaps: AssertionError names the argument beside which the kernel wrote.
    """
    lowered = lower(func, target)
    names = [p.name for p in lowered.func.params]
    guarded: dict[int, Guarded] = {}
    passed = []
    for name, array in zip(names, arrays, strict=True):
        if array.flags.c_contiguous and not _overlaps_in_part(array, arrays):
            guarded.setdefault(array.ctypes.data, Guarded(name, array))
            passed.append(guarded[array.ctypes.data].copy)
        else:
            passed.append(array)
    call = load_native(lowered, *passed, dims=dims, threads=threads, target=target)
    workspace = Guarded("the workspace", call.workspace)
    call.workspace = workspace.copy
    call()
    for each in (*guarded.values(), workspace):
        each.check()
        each.give_back()


def _overlaps_in_part(array: np.ndarray, arrays: Sequence[np.ndarray]) -> bool:
    """Whether an argument has some of its bytes in common with another one, and others not."""
    place = array.ctypes.data, array.nbytes
    return any(
        np.may_share_memory(array, other) and (other.ctypes.data, other.nbytes) != place
        for other in arrays
    )


class Guarded:
    """A copy of an array, as far from an aligned address as it, between two guards."""

    def __init__(self, name: str, array: np.ndarray) -> None:
        self.name, self.array = name, array
        raw = np.resize(_GUARD, 2 * _GUARD.size + array.nbytes + 2 * ALIGNMENT)
        self.start = _GUARD.size + ALIGNMENT
        self.start += (array.ctypes.data - raw.ctypes.data - self.start) % ALIGNMENT
        self.end = self.start + array.nbytes
        self.raw = raw
        self.before, self.after = raw[: self.start].copy(), raw[self.end :].copy()
        self.copy = raw[self.start : self.end].view(array.dtype).reshape(array.shape)
        self.copy[...] = array

    def check(self) -> None:
        """AssertionError where a guard is not what it was."""
        places = [
            *(np.flatnonzero(self.raw[: self.start] != self.before) - self.start),
            *(np.flatnonzero(self.raw[self.end :] != self.after) + self.array.nbytes),
        ]
        if places:
            raise AssertionError(
                f"{self.name} has {self.array.nbytes} bytes, and the kernel wrote {len(places)} "
                f"beside them, from byte {places[0]} to byte {places[-1]}"
            )

    def give_back(self) -> None:
        """Put what the kernel wrote into the array."""
        if self.array.flags.writeable:
            self.array[...] = self.copy
        elif self.array.tobytes() != self.copy.tobytes():
            raise AssertionError(f"{self.name} is read-only, and the kernel wrote into it")
