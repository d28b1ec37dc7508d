"""Kernels as callables: an address, the checks around it, and the workspace it is handed.

A kernel follows the ABI of ``support.abi``. ``BoundKernel.__call__`` takes arrays from anybody and
checks everything; ``run`` trusts the program that calls it; both hold the interpreter's lock only
while they prepare the argument arrays, and both may run in many threads at once.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..support.abi import ABI_VERSION, LONG_WORK, UNBOUNDED_WORK, WORK_SUFFIX
from ..support.errors import ArgumentError, UnknownFunctionError
from ..support.other_names import OtherName
from .interrupts import run_interruptibly
from .program import Kernel
from .shape_text import compile_shapes
from .signature import Signature
from .storage import WorkspacePool, data_pointer
from .tensor import Tensor, as_tensor

ENTRY = ctypes.CFUNCTYPE(None)
"""The C type of a kernel; a call through it releases the interpreter's lock. It declares no
argument types, because ctypes converts to a declared type by a slow call: every argument must be a
``byref`` or ``c_void_p`` object."""


class Runtime(ctypes.Structure):
    """The runtime record of the kernel ABI; ``launch`` and ``pool`` are null where threads is 1."""

    _fields_ = (
        ("abi_version", ctypes.c_int64),
        ("threads", ctypes.c_int64),
        ("launch", ctypes.c_void_p),
        ("pool", ctypes.c_void_p),
        ("cancel", ctypes.c_int64),
    )


_QUICK = 0.05
"""Seconds that Ctrl-C may wait for the end of a call. Where a call takes no longer by what earlier
ones took for their work, it is made directly: a helper thread costs about a tenth of a millisecond,
the time to start and to fetch what another core has in its caches."""

_WORK = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)

_serial = Runtime(ABI_VERSION, 1, None, None, 0)


def serial_runtime() -> int:
    """Address of the process's runtime record of one thread."""
    return ctypes.addressof(_serial)


class Library(Protocol):
    """What a kernel is bound to: something that knows addresses and keeps them valid."""

    def address(self, symbol: str) -> int: ...


class BoundKernel:
    """A kernel of a loaded library. Calling it writes its output arguments and returns nothing."""

    time_evaluator = OtherName("lib.time_evaluator(name)")
    entry_func = OtherName("the function itself")

    def __repr__(self) -> str:
        params = ", ".join([p.name for p in self.kernel.params])
        return f"<burnish kernel {self.kernel.name}({params})>"

    def __init__(self, kernel: Kernel, library: Library, runtime: int, pool: WorkspacePool) -> None:
        self.kernel = kernel
        self.library = library
        self.runtime = runtime
        self.pool = pool
        self.address = library.address(kernel.symbol)
        self.threads = int(Runtime.from_address(runtime).threads)
        self._entry = ENTRY(self.address)
        self._work = _work_of(kernel, library)
        self._seconds = float("inf")
        """Of a unit of work, in the fastest call that was timed."""
        self._fixed = None if kernel.dims else self._choose(None)
        self._outputs = frozenset(kernel.outputs)
        self._pointers = ctypes.c_void_p * max(1, len(kernel.params))
        self._dims = ctypes.c_int64 * max(1, len(kernel.dims))
        self._sizes = compile_shapes((kernel.shared_bytes, kernel.thread_bytes), kernel.dims)
        self._signature: Signature | None = None

    @property
    def signature(self) -> Signature:
        """The entry checks; raises VMError for a kernel whose dims its shapes do not give."""
        if self._signature is None:
            kernel = self.kernel
            self._signature = Signature(kernel.name, kernel.params, kernel.dims)
        return self._signature

    def entry_for(self, dims: Sequence[int]) -> Callable[..., object]:
        """What calls the kernel with these dims: the foreign function, or, where a call may take
        long, one of the same arguments that Ctrl-C ends."""
        return self._fixed or self._choose(ctypes.byref(self._dims(*dims)))

    def _choose(self, dims: object) -> Callable[..., object]:
        is_long = self._work is not None and self._work(dims) >= LONG_WORK
        return self._run_long if is_long else self._entry

    def _run_long(self, *handed: Any) -> None:
        """Call with a runtime record of its own, whose ``cancel`` ends this call alone, unless the
        kernel is known to be fast enough."""
        assert self._work is not None
        work = self._work(handed[1])
        if self._seconds * work < _QUICK:
            self._entry(*handed)
            return
        own = Runtime.from_buffer_copy(Runtime.from_address(self.runtime))
        arguments = (*handed[:-1], ctypes.byref(own))
        begin = time.perf_counter()
        run_interruptibly(lambda: self._entry(*arguments), lambda: setattr(own, "cancel", 1))
        if work < UNBOUNDED_WORK:
            self._seconds = min(self._seconds, (time.perf_counter() - begin) / work)

    def workspace_bytes(self, dims: Sequence[int]) -> int:
        """Bytes of workspace one call needs."""
        shared, thread = self._sizes(dims)
        return shared + thread * self.threads

    def run(self, tensors: Sequence[Tensor], dims: Sequence[int]) -> None:
        """Call without checks: the tensors fit the kernel's parameters and ``dims`` its dims."""
        self.run_pointers([data_pointer(t.data) for t in tensors], dims)

    def run_pointers(self, pointers: Sequence[int], dims: Sequence[int]) -> None:
        """Call on raw addresses, one a parameter, without checks; the caller keeps the memory
        alive."""
        slots, numbers = self._pointers(*pointers), self._dims(*dims)
        with self.pool.borrow(self.workspace_bytes(dims)) as workspace:
            self.entry_for(dims)(
                ctypes.byref(slots),
                ctypes.byref(numbers),
                ctypes.c_void_p(workspace.pointer),
                ctypes.c_void_p(self.runtime),
            )

    def __call__(self, *args: object) -> None:
        """Check the arguments (arrays, tensors, anything with __dlpack__), then call.

        A non-contiguous input is copied. Raises ArityError, DTypeMismatchError, ShapeMismatchError,
        and ArgumentError for an output that is not contiguous, cannot be written, or overlaps
        another argument of a kernel that is not in-place.
        """
        tensors, dims = self.check(*args)
        self.run(tensors, dims)

    def prepare(self, *args: object) -> Callable[[], None]:
        """Check once, and return a call of the kernel on these arguments with nothing left to do.

        For timing: the closure costs one foreign call, and holds a workspace of its own.
        """
        tensors, dims = self.check(*args)
        pointers = self._pointers(*[data_pointer(t.data) for t in tensors])
        slots = self._dims(*dims)
        workspace = WorkspacePool().take(self.workspace_bytes(dims))
        handed = (
            ctypes.byref(pointers),
            ctypes.byref(slots),
            ctypes.c_void_p(workspace.pointer),
            ctypes.c_void_p(self.runtime),
        )
        entry, keep = self.entry_for(dims), (tensors, workspace, self)

        def call(_keep: object = keep) -> None:
            entry(*handed)

        return call

    def check(self, *args: object) -> tuple[list[Tensor], list[int]]:
        """The arguments as tensors, and the values of the dims."""
        self.signature.check_arity(len(args))
        tensors = [
            as_output(a, self._label(i)) if i in self._outputs else as_tensor(a, self._label(i))
            for i, a in enumerate(args)
        ]
        dims = self.signature.bind(tensors)
        if not self.kernel.inplace:
            self._refuse_overlap(tensors)
        return tensors, dims

    def _label(self, index: int) -> str:
        return f"{self.kernel.name}, argument {self.kernel.params[index].name!r}"

    def _refuse_overlap(self, tensors: Sequence[Tensor]) -> None:
        ranges = [(t.pointer, t.pointer + t.nbytes) for t in tensors]
        for out in self.kernel.outputs:
            begin, end = ranges[out]
            for other, (start, stop) in enumerate(ranges):
                if other != out and begin < stop and start < end:
                    name = self.kernel.params[other].name
                    raise ArgumentError(
                        f"{self._label(out)}: the output overlaps the memory of {name!r}, and the "
                        "kernel is not in-place. Pass an output of its own."
                    )


def _work_of(kernel: Kernel, library: Library) -> Callable[[object], int] | None:
    """The function that tells a kernel's work from its dims; None for foreign code."""
    try:
        return _WORK(library.address(kernel.symbol + WORK_SUFFIX))
    except UnknownFunctionError:
        return None


def as_output(x: object, name: str) -> Tensor:
    """An output argument as a Tensor that shares its memory; ArgumentError where it cannot be
    written as C-contiguous memory."""
    tensor = as_tensor(x, name, copy=False)
    if not tensor.data.flags.writeable:
        raise ArgumentError(f"{name}: the output is read-only.")
    return tensor


def bind_kernel(
    kernel: Kernel,
    library: Library,
    *,
    runtime: int | None = None,
    pool: WorkspacePool | None = None,
) -> BoundKernel:
    """Bind a kernel's symbol in a loaded library.

    ``runtime`` is the address of a Runtime record (by default the serial one); ``pool`` gives
    workspaces and may be shared by the kernels of a program. Raises UnknownFunctionError for a
    symbol that the library lacks.
    """
    return BoundKernel(
        kernel,
        library,
        serial_runtime() if runtime is None else runtime,
        WorkspacePool() if pool is None else pool,
    )
