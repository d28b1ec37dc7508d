"""CallableModel: what is called like the model it came from, whether compiled here or loaded.

A call takes the *entry* of the library its arrays come from: Python generated for one signature,
which checks and calls native code. Whatever it does not know falls through to ``_dispatch``, which
converts, checks and explains.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from ..support.errors import ArtifactError
from ..support.keywords import hinted
from ..vm.tensor import Tensor
from .arrays import (
    is_torch_tensor,
    like_inputs,
    tensor_to_torch,
    to_tensors,
    write_outputs,
)
from .signature import CompiledSignature, listed_inputs

if TYPE_CHECKING:
    from .export_library import ExportedLibrary
    from .memory_plan import MemoryPlan
    from .model_profile import ModelProfile

S = TypeVar("S", bound=CompiledSignature)


@hinted
class CallableModel(ABC, Generic[S]):
    """Signatures by key, and the entry that takes the next call."""

    def __init__(self, *, is_torch: bool) -> None:
        self._is_torch = is_torch
        self._signatures: dict[tuple[Any, ...], S] = {}
        self._entry: Callable[..., Any] = self._dispatch
        self._lock = threading.Lock()
        self._takes_entries = True
        """Whether the signature of the next call may be that of the last."""

    @abstractmethod
    def _select(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> S:
        """The signature of a call."""

    def _before_call(self, signature: S, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """What is to be done before a call that takes the complete way, as the first one does."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model: torch in, torch out; NumPy in, NumPy out; anything with ``__dlpack__`` in,
        burnish tensors out.

        Raises ArityError, ShapeMismatchError, DTypeMismatchError or ArgumentError before any work.
        """
        if kwargs:
            return self._dispatch(*args, **kwargs)
        return self._entry(*args)

    def run(self, inputs: Any, out: Any = None, threads: int | None = None) -> Any:
        """Run on ``inputs``: one array, a sequence of inputs, or a dict by input name.

        ``out`` (an array, a sequence of them, or a dict in the outputs' order) receives the outputs
        and is returned; it may be strided and may share memory with an input. ``threads`` bounds
        this call. Raises as a call does, and for an ``out`` that does not fit.
        """
        is_named = isinstance(inputs, Mapping)
        args = () if is_named else tuple(inputs) if isinstance(inputs, (list, tuple)) else (inputs,)
        signature = self._select(args, dict(inputs) if is_named else {})
        kwargs = dict(inputs) if is_named else {}
        self._before_call(signature, args, kwargs)
        values = signature.imported.flatten_inputs(args, kwargs)
        outputs = signature.run(values, threads)
        if out is None:
            return self._wrap(signature, outputs, values)
        write_outputs(out, outputs)
        return out

    @abstractmethod
    def _require(self, what: str) -> S:
        """The signature used last; raises NotCompiledError where there is none."""

    @property
    def inputs(self) -> tuple[tuple[str, tuple[str, ...], str], ...]:
        """(name, shape, dtype) of each input tensor of the signature used last; symbolic dims by
        name. Calls take them by position, by keyword, or (ONNX models) as one dict."""
        signature = self._require("inputs")
        params = signature.executable.program.functions["main"].params
        return listed_inputs(signature.imported, params)

    def arguments(self, tensors: Sequence[Any]) -> list[Any]:
        """The arguments of a call of the signature used last whose input tensors are these, in the
        order of ``inputs``: put into the lists and dicts that it takes, with the plain values that
        became part of the program. ``model(*model.arguments(tensors))`` is that call.

        Raises ArityError for another number of tensors, NotCompiledError before the first call.
        """
        return self._require("arguments").imported.form().arguments(tensors)

    def export_library(self, folder: str | Path, *, name: str = "model") -> ExportedLibrary:
        """Write the signature used last as a C library: a header and a source of plain C, the
        kernels as object files, the weights, and an example. ``print`` what it gives for the sizes.

        Named sizes are arguments of its calls, which run on one thread unless it is told to take
        more. Raises NotCompiledError before the first call, and ArtifactError for models with
        state, with functions of the environment, or with sizes that depend on values.
        """
        from .export_library import export_library

        signature = self._require("export_library")
        calls, executable = signature.imported, signature.executable
        if calls.state or calls.written:
            raise ArtifactError("The model changes tensors in place, which the C library cannot.")
        form = None
        with nullcontext() if calls.dim_names else suppress(ArtifactError):
            form = calls.form()  # of classes that have no text: names are numbers
        return export_library(
            executable.program,
            executable.target,
            calls.input_names,
            folder,
            name,
            form.ranges if form is not None else (),
            outputs=form.output_names if form is not None else (),
        )

    def memory(self, **dims: int) -> MemoryPlan:
        """What the signature used last holds, and what a call takes: ``print(model.memory())``.

        ``dims`` are values for its named sizes: ``model.memory(batch=8)``. Raises ArgumentError
        where one is missing or does not exist, and NotCompiledError before the first call.
        """
        from .memory_plan import plan_of_program

        signature = self._require("memory")
        program = signature.executable.program
        return plan_of_program(program, signature.threads, dims, signature.floor)

    def profile(
        self, *args: Any, seconds: float = 0.5, roofline: bool = True, **kwargs: Any
    ) -> ModelProfile:
        """Where the time of a call goes: ``print(model.profile(x))`` shows a table by kernel.

        The inputs are those of a call. The program runs for about ``seconds``, in its usual form;
        tensors that calls write stay as they are. ``roofline`` compares with the machine's peaks,
        which are measured once a process, in a second.

        Raises as a call does, and ArgumentError for ``seconds`` that are not positive.
        """
        from .profile import profile_program

        signature = self._select(args, kwargs)
        values = signature.imported.flatten_inputs(args, kwargs)
        names = [f"input {n!r}" for n in signature.imported.input_names]
        return profile_program(
            signature.executable.program,
            signature.executable.target,
            signature.facts,
            to_tensors(values, names),
            threads=signature.threads,
            seconds=seconds,
            roofline=roofline,
            name=signature.imported.source,
        )

    def _dispatch(self, *args: Any, **kwargs: Any) -> Any:
        """The complete way: pick (or compile) the signature, convert, run, wrap; and remember the
        entry that will take the next call of this kind directly."""
        signature = self._select(args, kwargs)
        self._before_call(signature, args, kwargs)
        values = signature.imported.flatten_inputs(args, kwargs)
        outputs = signature.run(values)
        if values and not kwargs and self._takes_entries:
            if all([type(v) is np.ndarray for v in values]):
                self._take_entry(signature, "numpy")
            elif all([is_torch_tensor(v) for v in values]):
                self._take_entry(signature, "torch")
        return self._wrap(signature, outputs, values)

    def _take_entry(self, signature: S, kind: str) -> None:
        """Have the next call go to a signature directly, unless it was replaced meanwhile."""
        entry = self._entry_of(signature, kind)
        with self._lock:
            if any(signature is known for known in self._signatures.values()):
                self._entry = entry

    def _entry_of(self, signature: S, kind: str) -> Callable[..., Any]:
        """What takes the next calls of arrays of one library, after one of a signature."""
        return signature.entry(kind, self._dispatch)

    def _wrap(self, signature: S, outputs: list[Tensor], values: Sequence[Any]) -> Any:
        """Outputs in the library of the inputs (of the source, where it takes none) and in the
        structure of the model."""
        imported = signature.imported
        given = values[: len(values) - len(imported.state)]
        if not given and self._is_torch:
            wrapped = [tensor_to_torch(t) for t in outputs]
        else:
            wrapped = like_inputs(outputs, given)
        return wrapped[0] if imported.single_output else imported.unflatten_outputs(wrapped)
