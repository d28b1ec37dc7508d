"""One compiled signature of a model, and what tells one signature from another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..support.errors import ArgumentError, ArityError, InternalError, ShapeMismatchError
from ..vm.fast_entry import NUMPY
from ..vm.interpreter import VirtualMachine
from ..vm.tensor import Tensor
from .arrays import check_written, to_tensors, torch_kind, write_outputs
from .runnable import check_runnable
from .threads import check_threads, runtime

if TYPE_CHECKING:
    from ..frontend.imported import Imported
    from ..vm.program import Param
    from .executable import Executable
    from .kernel_facts import KernelFacts
    from .loaded_model import SavedCalls, SavedProgram

Entry = Callable[..., Any]


class CompiledSignature:
    """A program for one signature, with its entries for NumPy arrays and torch tensors."""

    def __init__(
        self,
        imported: Imported | SavedCalls,
        executable: Executable | SavedProgram,
        threads: int,
    ) -> None:
        self.imported = imported
        self.executable = executable
        self.threads = threads
        self._machines: dict[int, VirtualMachine] = {}
        self._entries: dict[str, Entry] = {}

    @property
    def facts(self) -> dict[str, KernelFacts]:
        """What is known of the kernels, by symbol."""
        raise InternalError(f"{type(self).__name__} knows nothing of its kernels.")

    @property
    def floor(self) -> int | None:
        """What intermediates need at least, in bytes; None where that is not known."""
        return None

    def machine(self, threads: int | None = None) -> VirtualMachine:
        """The machine that runs with at most ``threads`` threads; its native code is linked once
        for each number of them. Raises ArgumentError for a number below 1."""
        check_threads(threads)
        count = self.threads if threads is None else min(threads, self.threads)
        found = self._machines.get(count)
        if found is None:
            check_runnable(self.executable.target)
            found = VirtualMachine(self.executable.program, runtime=runtime(count))
            self._machines[count] = found
        return found

    def entry(self, kind: str, slow: Entry) -> Entry:
        """The fastest callable for positional arrays of one library (``numpy`` or ``torch``);
        ``slow`` handles the rest, and all where there is none."""
        found = self._entries.get(kind)
        if found is None:
            found = self._entries[kind] = self._make_entry(kind, slow)
        return found

    def _make_entry(self, kind: str, slow: Entry) -> Entry:
        known = self.imported
        if not known.positional_only:
            return slow
        array_kind = torch_kind() if kind == "torch" else NUMPY
        if known.single_output or known.bare_tuple:
            fast = self.machine().fast_entry("main", slow, kind=array_kind)
            return slow if fast is None else fast.call
        fast = self.machine().fast_entry("main", lambda *args: _Slow(slow(*args)), kind=array_kind)
        return slow if fast is None else _structured(fast.call, known.unflatten_outputs)

    def run(self, values: Sequence[object], threads: int | None = None) -> list[Tensor]:
        """Run on flattened inputs, checked; the flat list of outputs. Inputs and state that the
        model changes are written.

        Raises ArityError, ShapeMismatchError, DTypeMismatchError, ArgumentError.
        """
        names = self.imported.input_names
        if len(values) != len(names):
            raise ArityError(
                f"the model takes {len(names)} input{'s' if len(names) != 1 else ''} "
                f"({', '.join(names)}); got {len(values)}."
            )
        written, called = self.imported.written, [f"input {n!r}" for n in names]
        tensors = to_tensors(values, called)
        check_written(values, called, written)
        machine = self.machine(threads)
        try:
            result = machine["main"](*tensors)
        except ShapeMismatchError as error:
            if self.imported.source.startswith("torch") and not self.imported.dim_names:
                error.note(
                    "The model is compiled for fixed shapes. Name the dims that vary: "
                    'burnish.compile(module, (x,), dynamic_shapes=({0: "batch"},)).'
                )
            raise
        results = list(result) if isinstance(result, tuple) else [result]
        if written:
            write_outputs([values[i] for i in written], results[: len(written)])
        return results[len(written) :]


class _Slow:
    """A result that has its structure already."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _structured(call: Entry, unflatten: Callable[[list[Any]], Any]) -> Entry:
    """An entry whose flat outputs are put into the model's own structure."""

    def entry(*args: Any) -> Any:
        result = call(*args)
        kind = type(result)
        if kind is _Slow:
            return result.value
        return unflatten(list(result) if kind is tuple else [result])

    return entry


def listed_inputs(
    calls: Imported | SavedCalls, params: Sequence[Param]
) -> tuple[tuple[str, tuple[str, ...], str], ...]:
    """(name, shape, dtype) of each input tensor that callers give."""
    given = params[: len(params) - len(calls.state)]
    return tuple(
        [(n, p.spec.shape, p.spec.dtype) for n, p in zip(calls.input_names, given, strict=False)]
    )


def signature_key(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """What of a call a program depends on: structure, shapes, dtypes, plain values.

    Raises ArgumentError for an input that is neither an array nor a plain value.
    """
    named = [(k, _key(kwargs[k], f"input {k!r}")) for k in sorted(kwargs)]
    return (*[_key(x, f"input {i}") for i, x in enumerate(args)], *named)


def _key(x: Any, name: str) -> tuple[Any, ...]:
    shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    if shape is not None and dtype is not None:
        return ("tensor", tuple(shape), str(dtype).removeprefix("torch."))
    if isinstance(x, (list, tuple)):
        return (type(x), *[_key(item, f"{name}[{i}]") for i, item in enumerate(x)])
    if isinstance(x, Mapping):
        return (type(x), *[(k, _key(item, f"{name}[{k!r}]")) for k, item in x.items()])
    if x is None or isinstance(x, (bool, int, float, complex, str)):
        return ("value", type(x), repr(x))
    raise ArgumentError(
        f"{name}: expected a tensor, an array, or a number; found {type(x).__name__}."
    )
