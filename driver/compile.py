"""burnish.compile: a model in, a callable out.

    model = burnish.compile(module)                 lazy: compiled at the first call of each signature
    model = burnish.compile(module, (x,))           compiled now, for this signature alone
    model = burnish.compile("mlp.onnx")             the file states its signature

A call takes the *entry* of the library its arrays come from: Python generated for one signature, which
checks and calls native code. Whatever it does not know falls through to ``_dispatch``, which converts,
checks and explains.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..frontend.imported import Imported
from ..graphir.expr import Function, Tuple
from ..graphir.module import IRModule
from ..graphir.op import type_of
from ..support.errors import (
    ArgumentError,
    ArityError,
    BurnishError,
    DTypeMismatchError,
    FrontendError,
    NotCompiledError,
    ShapeMismatchError,
    TuningError,
    VMError,
    nearest,
)
from ..support.target import Target
from ..tuner.analytic import schedule_analytically
from ..tuner.database import TuningDatabase
from ..vm import parallel
from ..vm.fast_entry import NUMPY
from ..vm.interpreter import VirtualMachine
from ..vm.program import Param
from ..vm.tensor import Tensor, array, as_tensor
from .arrays import is_torch_tensor, like_inputs, tensor_to_torch, to_tensors, torch_kind
from .executable import Executable
from .kernels import resolve_target
from .report import CompileReport
from .stages import STAGES, ScheduleChoice, compile_module
from .tasks import extract_tasks
from .threads import runtime
from .timing import time_interleaved
from .tune import TuneResult, scheduled_by, tune_tasks

MAX_SIGNATURES = 16
NOTE_SIGNATURES = 4


class CompiledSignature:
    """A program for one signature, with its entries for NumPy arrays and torch tensors."""

    def __init__(self, imported: Imported, executable: Executable, threads: int) -> None:
        self.imported = imported
        self.executable = executable
        self.threads = threads
        self._machines: dict[int, VirtualMachine] = {}

    def machine(self, threads: int | None = None) -> VirtualMachine:
        """The machine that runs with a number of threads; its native code is linked once each."""
        count = self.threads if threads is None else min(threads, parallel.default_threads())
        if count < 1:
            raise ArgumentError(f"threads={threads}: expected at least 1.")
        if count not in self._machines:
            self._machines[count] = VirtualMachine(self.executable.program, runtime=runtime(count))
        return self._machines[count]

    def entry(self, kind: str, slow: Callable[..., Any]) -> Callable[..., Any]:
        """The fastest callable for positional arrays of one library; ``slow`` handles the rest."""
        if not self.imported.positional_only or not self.imported.single_output:
            return slow
        array_kind = torch_kind() if kind == "torch" else NUMPY
        fast = self.machine().fast_entry("main", slow, kind=array_kind)
        return slow if fast is None else fast.call

    def run(self, values: Sequence[object], threads: int | None = None) -> list[Tensor]:
        """Run on flattened inputs, checked; the flat list of outputs."""
        names = [f"input {n!r}" for n in self.imported.input_names]
        if len(values) != len(names):
            raise ArityError(
                f"the model takes {len(names)} input{'s' if len(names) != 1 else ''} "
                f"({', '.join(self.imported.input_names)}); got {len(values)}."
            )
        result = self.machine(threads)["main"](*to_tensors(values, names))
        return list(result) if isinstance(result, tuple) else [result]


class CompiledModel:
    """A compiled model: call it like the module it came from. See ``compile``."""

    def __init__(
        self,
        source: Any,
        example_inputs: Sequence[Any] | None,
        dynamic_shapes: Any,
        target: Target,
        threads: int,
    ) -> None:
        self._source = source
        self._dynamic_shapes = dynamic_shapes
        self._target = target
        self._threads = threads
        self._schedule: ScheduleChoice = schedule_analytically
        self._signatures: dict[tuple[Any, ...], CompiledSignature] = {}
        self._current: CompiledSignature | None = None
        self._fixed = False
        self._entry: Callable[..., Any] = self._dispatch
        imported = _import(source, example_inputs, dynamic_shapes)
        if imported is not None:
            self._fixed = True
            self._adopt((), imported)

    # -- calls --------------------------------------------------------------------------------------
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model: torch in, torch out; NumPy in, NumPy out; anything with ``__dlpack__`` in,
        burnish tensors out.

        Raises ArityError, ShapeMismatchError, DTypeMismatchError or ArgumentError before any work.
        """
        if kwargs:
            return self._dispatch(*args, **kwargs)
        return self._entry(*args)

    def run(self, inputs: Any, out: Any = None, threads: int | None = None) -> Any:
        """Run on ``inputs``: one array, a sequence, or a dict by input name.

        ``out`` (an array, or a sequence of them) receives the outputs and is returned; ``threads``
        bounds this call.
        """
        if isinstance(inputs, Mapping):
            inputs = self._by_name(inputs)
        args = tuple(inputs) if isinstance(inputs, (list, tuple)) else (inputs,)
        signature, values = self._select(args, {})
        outputs = signature.run(values, threads)
        if out is None:
            return self._wrap(signature, outputs, values)
        targets = list(out) if isinstance(out, (list, tuple)) else [out]
        if len(targets) != len(outputs):
            raise ArityError(f"out: the model gives {len(outputs)} outputs; {len(targets)} arrays were passed.")
        for i, (given, made) in enumerate(zip(targets, outputs, strict=True)):
            _write_out(given, made, f"out[{i}]" if isinstance(out, (list, tuple)) else "out")
        return out

    def _by_name(self, inputs: Mapping[str, Any]) -> list[Any]:
        names = self._require("run").imported.input_names
        unknown = [n for n in inputs if n not in names]
        if unknown or len(inputs) != len(names):
            hint = nearest(unknown[0], names) if unknown else ""
            raise ArityError(f"the model's inputs are {', '.join(names)}; got {', '.join(inputs)}.{hint}")
        return [inputs[n] for n in names]

    def _dispatch(self, *args: Any, **kwargs: Any) -> Any:
        """The complete way: pick (or compile) the signature, convert, run, wrap; and remember the entry
        that will take the next call of this kind directly."""
        signature, values = self._select(args, kwargs)
        outputs = signature.run(values)
        result = self._wrap(signature, outputs, values)
        if not kwargs:
            if all(type(v) is np.ndarray for v in values):
                self._entry = signature.entry("numpy", self._dispatch)
            elif all(is_torch_tensor(v) for v in values):
                self._entry = signature.entry("torch", self._dispatch)
        return result

    def _wrap(self, signature: CompiledSignature, outputs: list[Tensor], values: Sequence[Any]) -> Any:
        wrapped = like_inputs(outputs, values)
        imported = signature.imported
        return wrapped[0] if imported.single_output else imported.unflatten_outputs(wrapped)

    def _select(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[CompiledSignature, list[Any]]:
        if self._fixed:
            assert self._current is not None
            return self._current, self._current.imported.flatten_inputs(args, kwargs)
        if kwargs:
            raise ArityError("a lazily compiled model takes its inputs by position; pass example inputs to fix names.")
        key = tuple([_key(a) for a in args])
        if self._dynamic_shapes:
            key = ()
        if key not in self._signatures:
            self._compile_lazily(key, args)
        self._current = self._signatures[key]
        return self._current, self._current.imported.flatten_inputs(args, kwargs)

    def _compile_lazily(self, key: tuple[Any, ...], args: tuple[Any, ...]) -> None:
        count = len(self._signatures)
        if count >= MAX_SIGNATURES:
            raise VMError(
                f"This model was called with {count} different signatures and is compiled anew for each. "
                'Name the dims that vary: burnish.compile(module, dynamic_shapes=({0: "batch"},)).'
            )
        if count == NOTE_SIGNATURES - 1:
            warnings.warn(
                "burnish compiles this model for the fourth signature; if only sizes vary, name them once: "
                'burnish.compile(module, dynamic_shapes=({0: "batch"},)).',
                UserWarning,
                stacklevel=4,
            )
        example = tuple([_as_torch(a, f"input {i}") for i, a in enumerate(args)])
        imported = _import(self._source, example, self._dynamic_shapes)
        assert imported is not None
        self._adopt(key, imported)

    def _adopt(self, key: tuple[Any, ...], imported: Imported) -> None:
        executable = compile_module(imported.module, self._target, schedule=self._schedule, threads=self._threads)
        self._current = self._signatures[key] = CompiledSignature(imported, executable, self._threads)

    # -- looking inside --------------------------------------------------------------------------------
    def _require(self, what: str) -> CompiledSignature:
        if self._current is None:
            raise NotCompiledError(
                f"{what}: the model is not compiled yet; it compiles at its first call. Call it once, or pass "
                "example inputs to burnish.compile."
            )
        return self._current

    @property
    def module(self) -> IRModule:
        """The module at stage 40: fused and scheduled, weights not yet packed."""
        return self._require("module").executable.stages["40-scheduled"]

    @property
    def executable(self) -> Executable:
        """The program of the signature used last."""
        return self._require("executable").executable

    @property
    def report(self) -> CompileReport:
        """What the last compilation did; ``compilations`` counts over all signatures."""
        report = self._require("report").executable.report
        return report

    @property
    def compilations(self) -> int:
        """How many signatures were compiled."""
        return len(self._signatures)

    def script(self, stage: str = "30-fused") -> str:
        """The module after a stage (00-import ... 45-packed), or the program (70-bytecode), as text."""
        executable = self._require("script").executable
        if stage == "70-bytecode":
            from ..vm.disassembler import print_program

            return print_program(executable.program)
        if stage not in executable.stages:
            raise BurnishError(
                f"There is no stage {stage!r} to show; there are {', '.join((*executable.stages, '70-bytecode'))}."
                + nearest(stage, STAGES)
            )
        return executable.stages[stage].script()

    def show(self, stage: str = "30-fused") -> None:
        """Print a stage, highlighted where that is possible."""
        executable = self._require("show").executable
        if stage in executable.stages:
            executable.stages[stage].show()
        else:
            print(self.script(stage))

    def __repr__(self) -> str:
        state = "not compiled yet" if self._current is None else f"{len(self._signatures)} signature(s)"
        return f"<burnish model of {type(self._source).__name__}: {state}>"

    # -- tuning ------------------------------------------------------------------------------------------
    def tune(
        self,
        *,
        trials: int | None = None,
        minutes: float | None = None,
        database: TuningDatabase | str | Path | None = None,
        on_progress: Callable[[int, str], None] | None = None,
    ) -> TuneResult:
        """Tune the kernels of the signature used last, and swap the tuned ones in where they win.

        Budget: ``trials`` candidates in all, or ``minutes``. ``database`` (or a path) keeps the records;
        a later tune goes on from them. The old and the new program are timed in turns on random inputs
        at the end. Kernels with symbolic sizes are not tuned. Raises NotCompiledError, TuningError.
        """
        current = self._require("tune")
        if trials is None and minutes is None:
            trials = 64 * max(1, len(current.executable.report.kernels))
        records = database if isinstance(database, TuningDatabase) else TuningDatabase(database)
        tasks = extract_tasks(current.executable.stages["30-fused"], self._target)
        if not tasks:
            raise TuningError("the model has no kernel of static sizes to tune; compile it without dynamic_shapes.")
        result = TuneResult(tune_tasks(tasks, records, trials=trials, minutes=minutes, on_progress=on_progress))
        executable = compile_module(
            current.imported.module, self._target, schedule=scheduled_by(records), threads=self._threads
        )
        new = CompiledSignature(current.imported, executable, self._threads)
        inputs = random_inputs(executable.program.functions["main"].params)
        times = time_interleaved(
            {
                "before": lambda: current.machine()["main"](*inputs),
                "after": lambda: new.machine()["main"](*inputs),
            }
        )
        result.before, result.after = times["before"], times["after"]
        result.kept = result.after.minimum < result.before.minimum
        if result.kept:
            key = next(k for k, v in self._signatures.items() if v is current)
            self._schedule = scheduled_by(records)
            self._current = self._signatures[key] = new
            self._entry = self._dispatch
        return result


def compile(
    model: Any,
    example_inputs: Sequence[Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    target: Target | str = "native",
    threads: int | None = None,
) -> CompiledModel:
    """Compile a model for the CPU.

    ``model`` is a torch ``nn.Module``, a torch ``ExportedProgram``, an IRModule, or an ONNX model (a
    path, bytes, or a ModelProto). With ``example_inputs`` (a tuple of tensors) the signature is fixed:
    other shapes and dtypes are errors. Without them a torch module compiles at its first call, once
    for each signature. ``dynamic_shapes`` names dims that vary: ``({0: "batch"},)``; one compilation
    then serves every size, 0 and 1 included. ``threads`` bounds the threads of a call.

    Raises FrontendError and UnsupportedOpError (all unsupported operators at once), TargetError.
    """
    limit = parallel.default_threads()
    resolved = resolve_target(target)
    count = limit if threads is None else min(threads, limit)
    if resolved.threads:
        count = min(count, resolved.threads)
    if threads is not None and threads < 1:
        raise ArgumentError(f"threads={threads}: expected at least 1.")
    return CompiledModel(model, example_inputs, dynamic_shapes, resolved, count)


def _import(source: Any, example_inputs: Sequence[Any] | None, dynamic_shapes: Any) -> Imported | None:
    """The imported model, or None for a torch module whose signature is not known yet."""
    if isinstance(source, IRModule):
        return _import_module(source)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(source, torch.nn.Module):
        if example_inputs is None:
            from ..frontend.torch.importer import check_eval_mode

            check_eval_mode(source)
            return None
        from ..frontend.torch import import_module

        if is_torch_tensor(example_inputs) or isinstance(example_inputs, np.ndarray):
            raise FrontendError("example_inputs takes a tuple of inputs: write (x,) for a single one.")
        example = tuple([_as_torch(x, f"example input {i}") for i, x in enumerate(example_inputs)])
        return import_module(source, example, dynamic_shapes)
    if torch is not None and isinstance(source, torch.export.ExportedProgram):
        from ..frontend.torch import import_exported_program

        return import_exported_program(source)
    if isinstance(source, (str, Path, bytes)) or type(source).__name__ == "ModelProto":
        from ..frontend.onnx import import_onnx

        return import_onnx(source)
    raise FrontendError(
        "compile takes a torch.nn.Module, an ExportedProgram, an IRModule, or an ONNX model (path, bytes or "
        f"ModelProto); found {type(source).__name__}."
    )


def _import_module(module: IRModule) -> Imported:
    """An IRModule as it stands; its function ``main`` is what a call runs."""
    func = module["main"]
    if not isinstance(func, Function):
        raise FrontendError("compile needs a graph function 'main'; this one is a prim_func: use burnish.build.")
    names = tuple([p.name for p in func.params])
    single = not isinstance(func.body.result, Tuple)
    del single

    def flatten(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        if kwargs or len(args) != len(names):
            raise ArityError(f"main takes {len(names)} inputs ({', '.join(names)}); got {len(args) + len(kwargs)}.")
        return list(args)

    one = type(type_of(func.body.result)).__name__ == "TensorType"
    return Imported(module, names, flatten, tuple, single_output=one, source="IRModule")


def _key(x: Any) -> tuple[Any, ...]:
    """What of an input a lazily compiled signature depends on."""
    shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    if shape is None:
        raise ArgumentError(f"expected tensors or arrays; found {type(x).__name__}.")
    return (tuple(shape), str(dtype).removeprefix("torch."))


def _as_torch(x: Any, name: str) -> Any:
    """An example input as a torch tensor; other values pass through."""
    if isinstance(x, np.ndarray) or isinstance(x, Tensor):
        return tensor_to_torch(as_tensor(x, name))
    return x


def _write_out(given: Any, made: Tensor, name: str) -> None:
    """Copy an output into the caller's array; checks its shape and dtype first."""
    held = given.numpy() if hasattr(given, "numpy") else given
    if not isinstance(held, np.ndarray):
        raise ArgumentError(f"{name}: expected an array to write into, found {type(given).__name__}.")
    if held.shape != made.shape:
        raise ShapeMismatchError(name, str(made.shape), str(held.shape))
    if str(held.dtype) != str(made.numpy().dtype):
        raise DTypeMismatchError(name, str(made.dtype), str(held.dtype))
    if not held.flags.writeable:
        raise ArgumentError(f"{name}: the array is read-only.")
    held[...] = made.numpy()


def random_inputs(params: Sequence[Param]) -> list[Tensor]:
    """Random tensors for the parameters of a program of static shapes: floats in [0, 1), small integers."""
    rng = np.random.default_rng(0)
    made = []
    for p in params:
        shape = tuple([int(text) for text in p.spec.shape])
        if p.spec.dtype == "bfloat16":
            made.append(Tensor(np.full(shape, 0x3F00, np.uint16), "bfloat16"))
        elif p.spec.dtype.startswith("float"):
            made.append(array(rng.random(shape).astype(p.spec.dtype)))
        else:
            made.append(array(rng.integers(0, 2, shape).astype(p.spec.dtype)))
    return made
