"""A model that was compiled here, and what can be asked of it: its stages, report, tuning, saving.

How it is called is in ``callable_model``.
"""

from __future__ import annotations

import inspect
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..frontend.imported import Imported
from ..graphir.module import IRModule
from ..graphir.passes.pass_list import PassList
from ..support.caller import callers_level
from ..support.errors import (
    ArityError,
    BurnishError,
    FrontendError,
    NotCompiledError,
    TuningError,
    VMError,
    nearest,
)
from ..support.keywords import hinted
from ..support.target import Target
from ..support.wording import spoken
from ..tuner.analytic import schedule_analytically
from ..tuner.records.database import TuningDatabase
from ..tuner.task_scheduler import PATIENCE
from ..vm.disassembler import print_program
from ..vm.registry import register_func, unregister_func
from .arrays import copied, random_inputs
from .callable_model import CallableModel
from .executable import Executable
from .given_sizes import Sizes, whole_sizes
from .index_checks import with_checked_indices
from .kernel_facts import KernelFacts, kernel_facts
from .kernels import KERNEL_STAGES, kernel_stage
from .load import restored
from .own_forward import own_forward
from .precision import Precision
from .questions import Asking
from .report import CompileReport
from .signature import CompiledSignature, names_by_position, signature_key
from .sources import (
    check_torch_module,
    import_source,
    import_torch_module,
    is_torch_module,
    origin_of,
    reference_of,
    source_name,
)
from .specialize import chained, describe, fits, specialised
from .stages import ScheduleChoice, compile_module, recompile
from .tasks import extract_tasks
from .timing import Timing, mean_timing, time_interleaved
from .tune import ScheduledBy, TuneResult, tune_tasks
from .verification import Verification
from .weights import changed_weights, digest_weights

if TYPE_CHECKING:
    from .save import Saved, SavedFile

MAX_SIGNATURES = 16
NOTE_SIGNATURES = 4
_ADVICE = 'Name the dims that vary, once: burnish.compile(module, dynamic_shapes=({0: "batch"},)).'
_ADVICE_WHERE_NAMED = "Sizes with names do not; pass as tensors what varies of the plain values."
_BYTECODE = "70-bytecode"
_TIMED_ROUNDS = 31
"""How often the programs before and after tuning are timed, in turns."""
_TIMED_SIZE = 16
"""What symbolic dims are when the programs before and after tuning are timed."""


class ModelSignature(CompiledSignature):
    """One that was compiled here, with all stages at hand."""

    imported: Imported
    executable: Executable

    @property
    def facts(self) -> dict[str, KernelFacts]:
        return kernel_facts(self.executable, self.imported.places)

    @property
    def floor(self) -> int | None:
        from .arena_floor import arena_floor

        return arena_floor(self.executable.stages["30-fused"].graph_functions["main"])


@hinted
class CompiledModel(CallableModel[ModelSignature]):
    """A compiled model: call it like the module it came from. See ``compile``."""

    def __init__(
        self,
        source: Any,
        imported: Imported | None,
        dynamic_shapes: Any,
        target: Target,
        threads: int,
        precision: Precision = "fast",
        again: Callable[[], Imported] | None = None,
        fallback: str | None = None,
        checked: bool = False,
        check: str | None = None,
        passes: PassList | None = None,
        specialize: Sequence[Sizes] = (),
        schedule: ScheduleChoice = schedule_analytically,
    ) -> None:
        super().__init__(is_torch=is_torch_module(source))
        # A source that is not imported again is not kept: its weights are the caller's.
        self._source = source if imported is None else None
        self._again = again
        self._weights: dict[str, str] | None = None
        """Digests of the weights that the compiled signatures have."""
        self._source_name = source_name(source)
        self._compiling = 0
        """The thread that compiles a signature."""
        self._names: tuple[str, ...] = ()
        """The inputs that may be given by position."""
        self.__signature__: inspect.Signature | None = None
        if is_torch_module(source):
            with suppress(TypeError, ValueError):
                self.__signature__ = inspect.signature(source.forward)
                self._names = names_by_position(self.__signature__)
        self._dynamic_shapes = dynamic_shapes
        self._target = target
        self._threads = threads
        self._precision = precision
        self._fallback = fallback
        self._checked = checked
        self._passes = passes
        self._sizes = tuple(specialize)
        self._special: dict[int, list[ModelSignature]] = {}
        """The programs of given sizes, by the signature of all sizes that they belong to."""
        self._is_to_verify = check == "first-call"
        self._verified: set[int] = set()
        """Signatures whose first call was verified."""
        self._origin = origin_of(source)
        self._schedule = schedule
        self._current: ModelSignature | None = None
        self._asking: Asking[ModelSignature] | None = None
        if imported is not None and imported.question is not None:
            self._asking = Asking(
                imported,
                partial(import_source, source, fallback=fallback),
                self._adopt_answered,
                self._compile,
            )
            self._takes_entries = False
            imported = None
        self._fixed = self._adopt((), imported) if imported is not None else None

    @property
    def precision(self) -> Precision:
        """What the model is compiled for; the words by layer that ``"auto"`` chose."""
        return self._precision

    # -- calls -------------------------------------------------------------------------------------
    def _select(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ModelSignature:
        """The signature of a call, compiled if it is new."""
        if self._fixed is not None:
            self._current = self._of_its_sizes(self._fixed, args, kwargs)
            return self._current
        if self._asking is not None:
            self._current = self._asking.select(args, kwargs)
            return self._current
        key = signature_key(args, kwargs, self._names, has_sizes=not self._dynamic_shapes)
        found = self._signatures.get(key)
        if found is None:
            if self._compiling == threading.get_ident():
                raise FrontendError(
                    f"forward() of {self._source_name} calls the model that is compiled of it: "
                    "compile a copy of the module, or assign the model itself, module.forward = "
                    "model, which is taken for its own."
                )
            with self._lock:
                found = self._signatures.get(key)
                if found is None:
                    self._compiling = threading.get_ident()
                    try:
                        found = self._compile_lazily(key, args, kwargs)
                    finally:
                        self._compiling = 0
        self._current = self._of_its_sizes(found, args, kwargs)
        return self._current

    def _of_its_sizes(
        self, general: ModelSignature, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> ModelSignature:
        """The program of a call's sizes, where there is one."""
        special = self._special.get(id(general), ())
        if not special:
            return general
        values = general.imported.flatten_inputs(args, kwargs)
        return next((s for s in special if fits(s, values)), general)

    def _entry_of(self, signature: ModelSignature, kind: str) -> Callable[..., Any]:
        """A specialised program's calls begin where those of all sizes do."""
        known = {id(s): s for s in self._signatures.values()}
        for general, special in self._special.items():
            if general in known and any(s is signature for s in (known[general], *special)):
                return chained(known[general], special, kind, self._dispatch)
        return super()._entry_of(signature, kind)

    @property
    def _advice(self) -> str:
        return _ADVICE_WHERE_NAMED if self._dynamic_shapes else _ADVICE

    def _compile_lazily(
        self, key: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> ModelSignature:
        if self.__signature__ is not None:
            try:
                self.__signature__.bind(*args, **kwargs)
            except TypeError as error:
                raise ArityError(
                    f"{self._source_name}.forward{self.__signature__}: {error}."
                ) from None
        count = len(self._signatures)
        if count >= MAX_SIGNATURES:
            raise VMError(
                f"This model was called with {count} different signatures and is compiled anew for "
                f"each; the next one is refused. {self._advice}"
            )
        weights = digest_weights(self._source)
        if self._weights is not None:
            state = {n for known in self._signatures.values() for n in known.imported.state}
            changed = changed_weights(self._weights, weights)
            _refuse_changes([name for name in changed if name not in state])
        imported = import_torch_module(
            self._source, args, kwargs, self._dynamic_shapes, self._fallback
        )
        adopted = self._adopt(key, imported)
        self._weights = weights
        if count == NOTE_SIGNATURES - 1:
            warnings.warn(
                "burnish compiled this model for the fourth signature; each new shape, dtype, "
                "structure or plain value compiles it anew, and after "
                f"{MAX_SIGNATURES} no more. {self._advice}",
                UserWarning,
                stacklevel=callers_level(),
            )
        return adopted

    def _adopt(self, key: tuple[Any, ...], imported: Imported) -> ModelSignature:
        special = []
        for sizes in self._sizes:
            one = self._compile(specialised(imported, sizes))
            # In front, so that a saved model finds it first.
            self._signatures[(*key, "sizes", *sizes.items())] = one
            special.append(one)
        made = self._signatures[key] = self._current = self._compile(imported)
        if special:
            self._special[id(made)] = special
            listed = "; ".join([describe(s) for s in self._sizes])
            made.executable.report.notes.append(f"programs of their own: {listed}.")
        return made

    def _adopt_answered(self, imported: Imported) -> ModelSignature:
        return self._adopt((len(self._signatures),), imported)

    def _compile(self, imported: Imported) -> ModelSignature:
        if self._checked:
            imported = with_checked_indices(imported)
        executable = compile_module(
            imported.module,
            self._target,
            schedule=self._schedule,
            threads=self._threads,
            precision=self._precision,
            passes=self._passes,
        )
        executable.report.notes += imported.notes
        if isinstance(self._schedule, ScheduledBy):
            executable.report.notes += self._schedule.explain(executable.report, self._target)
        executable.report.frontend |= imported.seconds
        calls = imported.without_module()
        _register(calls)
        return ModelSignature(calls, executable, self._threads)

    def refresh(self) -> None:
        """Take the weights that the torch module has now, as if it were compiled anew.

        A fixed signature is compiled again here, the others with their next calls; schedules that
        ``tune`` has put in use stay in use. Raises FrontendError where the model has no module to
        look at: it came from a file, an ExportedProgram or an IRModule, or the module is gone.
        """
        if self._source is None:
            if self._again is None:
                if self._fixed is not None and self._fixed.imported.is_quantized:
                    raise FrontendError(
                        "A quantised model has the weights and ranges of its samples; quantize the "
                        "module as it is now: burnish.quantize(module, samples)."
                    )
                raise FrontendError(
                    f"A model compiled from {self._source_name} has the weights it was given; "
                    "refresh() is for those of a torch.nn.Module. Compile the new ones."
                )
            imported = self._again()
            with self._lock:
                self._special.clear()
                self._fixed = self._adopt((), imported)
                self._entry = self._dispatch
            return
        check_torch_module(self._source)
        with self._lock:
            self._signatures, self._weights = {}, None
            self._special.clear()
            self._current, self._entry = None, self._dispatch

    # -- keeping -----------------------------------------------------------------------------------
    def save(
        self, path: str | Path, *, targets: Target | str | Sequence[Target | str] | None = None
    ) -> SavedFile:
        """Write the compiled signatures to one file that ``burnish.load`` reads, here or elsewhere,
        without torch, onnx or a compiler.

        ``targets`` are the CPUs that it holds kernels for (``["x86-64-v3", "native"]``); loading
        takes the best that the machine can run. By default it is the target that the model was
        compiled for. What stood at ``path`` is replaced when the new file is complete. Tensors of
        the module that calls change are kept as they are now.

        Raises NotCompiledError before the first call, TargetError, and ArtifactError where inputs
        or outputs are of classes that a file cannot tell, where the program depends on values of
        the inputs, or the file cannot be written.
        """
        return self._saved("save", targets).write(path)

    def save_graph(self, path: str | Path) -> None:
        """Write the graph of the signature used last as an ONNX file, for Netron to draw: fused
        kernels with their operations, bytes and source lines, shapes on the lines. It cannot be
        run, and holds no weights.

        Raises NotCompiledError before the first call, MissingExtraError without onnx, and
        ArtifactError where the file cannot be written.
        """
        from .graph_file import save_graph

        signature = self._require("save_graph")
        func = signature.executable.stages["30-fused"].graph_functions["main"]
        facts = {known.name: known for known in signature.facts.values()}
        save_graph(func, facts, path, name=self._source_name)

    def __reduce__(self) -> tuple[Any, ...]:
        """``pickle``, ``copy`` and ``torch.save`` keep what ``save`` keeps, and give a LoadedModel.

        Raises as ``save`` does.
        """
        return restored, (self._saved("copying and pickling", None).image, self._threads)

    def _saved(self, what: str, targets: Target | str | Sequence[Target | str] | None) -> Saved:
        from .save import describe_model

        self._require(what)
        with self._lock:
            signatures = tuple(self._signatures.values())
        return describe_model(
            signatures, targets, name=self._source_name,
            schedule=self._schedule, precision=self._precision,
        )  # fmt: skip

    # -- comparing with the source -----------------------------------------------------------------
    def verify(
        self,
        *args: Any,
        source: Any = None,
        float64: bool = False,
        tolerance: float | None = None,
        nodes: bool = True,
        **kwargs: Any,
    ) -> Verification:
        """Compare a call with eager PyTorch, or with ONNX's reference evaluator: the outputs, and
        (``nodes``) each operator's result, computed of the reference's own inputs. ``print`` what
        it gives; it is true where all agrees, names the first operator that does not, and the
        graph pass or the kernel's schedule that the outputs differ from on.

        Errors are relative to the largest element. ``float64`` compares with the module in float64
        instead, and shows eager's own errors beside. ``tolerance`` is that of all values (by
        default 1e-4 for an operator in float32, 1e-3 for an output). ``source`` is the model that
        was compiled, where it is not held: an ExportedProgram, or ONNX bytes.

        Nothing changes: inputs and state are copied. The source's weights are those it has now.
        Raises as a call does, FrontendError where the source is gone or its own call fails, and
        ArgumentError where it has to be given.
        """
        from .verify_model import Verifier

        given = self._origin() if source is None else source
        with own_forward(given):
            reference = reference_of(
                given, args, kwargs, self._dynamic_shapes, fallback=self._fallback, float64=float64
            )
            if reference.imported is not None:
                _register(reference.imported)
            signature = self._select(args, kwargs)
            values = [copied(v) for v in signature.imported.flatten_inputs(args, kwargs)]
            verifier = Verifier(
                reference,
                self._target,
                schedule=self._schedule,
                precision=self._precision,
                threads=self._threads,
                tolerance=tolerance,
                passes=self._passes,
                is_quantized=signature.imported.is_quantized,
            )
            return verifier.verify(signature.imported.source, signature.run(values), nodes=nodes)

    def _before_call(
        self, signature: ModelSignature, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """The comparison that ``check="first-call"`` asks for."""
        if not self._is_to_verify or id(signature) in self._verified:
            return
        found = self.verify(*args, nodes=False, **kwargs).check()
        worst = max(found.outputs, key=lambda v: v.error, default=None)
        error = "no outputs" if worst is None else f"largest error {worst.error:.2g}"
        note = f'check="first-call": the first call agrees with {found.reference}, {error}.'
        signature.executable.report.notes.append(note)
        self._verified.add(id(signature))

    # -- looking inside ----------------------------------------------------------------------------
    def _require(self, what: str) -> ModelSignature:
        if self._current is None:
            how = spoken(
                "Call it once, or pass example inputs to burnish.compile.",
                "Its program depends on what its inputs hold: burnish run, profile and verify take "
                "them as --input FILE.",
            )
            raise NotCompiledError(
                f"{what}: the model is not compiled yet; it compiles at its first call. {how}"
            )
        return self._current

    @property
    def inputs(self) -> tuple[tuple[str, tuple[str, ...], str], ...]:
        """(name, shape, dtype) of each input tensor of the signature used last; symbolic dims by
        name. Calls take them by position, by keyword, or (ONNX models) as one dict.

        Raises NotCompiledError where only a call tells them.
        """
        before = self._asking.inputs() if self._asking and self._current is None else None
        return super().inputs if before is None else before

    @property
    def module(self) -> IRModule:
        """The module at stage 40 of the signature used last: fused and scheduled, weights not yet
        packed."""
        return self._require("module").executable.stages["40-scheduled"]

    @property
    def executable(self) -> Executable:
        """The program of the signature used last."""
        return self._require("executable").executable

    @property
    def report(self) -> CompileReport:
        """What the compilation of the signature used last did."""
        return self._require("report").executable.report

    @property
    def compilations(self) -> int:
        """How many signatures were compiled."""
        return len(self._signatures)

    def script(self, stage: str = "30-fused") -> str:
        """The module after a stage (00-import to 45-packed), each kernel's loops (50-lowered) or
        LLVM IR (60-llvm), which are made again for it, or the program (70-bytecode), as text.

        Raises NotCompiledError, and BurnishError for a stage that there is not.
        """
        executable = self._require("script").executable
        if stage == _BYTECODE:
            return print_program(executable.program)
        if stage in KERNEL_STAGES:
            return kernel_stage(executable, stage)
        if stage not in executable.stages:
            known = (*executable.stages, *KERNEL_STAGES, _BYTECODE)
            raise BurnishError(
                f"There is no stage {stage!r} to show; there are {', '.join(known)}."
                f"{nearest(stage, known)}"
            )
        return executable.stages[stage].script()

    def show(self, stage: str = "30-fused") -> None:
        """Print a stage, highlighted where that is possible."""
        executable = self._require("show").executable
        if stage in executable.stages:
            executable.stages[stage].show()
        else:
            print(self.script(stage))

    def _repr_html_(self) -> str:
        """What a notebook shows: the model, and the report of the signature used last."""
        report = "" if self._current is None else self.report._repr_html_()
        return f"<p>{escape(repr(self))}</p>{report}"

    def __repr__(self) -> str:
        count = len(self._signatures)
        state = f"{count} signature{'s' if count != 1 else ''}" if count else "not compiled yet"
        return f"<burnish model of {self._source_name}: {state}>"

    # -- tuning ------------------------------------------------------------------------------------
    def tune(
        self,
        *,
        trials: int | None = None,
        minutes: float | None = None,
        sizes: Sizes | Sequence[Sizes] = (),
        database: TuningDatabase | str | Path | None = None,
        strategy: str = "evolutionary",
        task_scheduler: str = "gradient",
        patience: int | None = PATIENCE,
        cluster: str | None = None,
        verbose: int = 0,
        on_progress: Callable[[int, str], None] | None = None,
    ) -> TuneResult:
        """Tune the kernels of the signature used last, and swap the tuned ones in where they win.

        Budget: ``trials`` candidates in all, or ``minutes``; ``task_scheduler`` divides it between
        the kernels, by what the model is expected to gain (``gradient``) or in turns
        (``round-robin``), and leaves a kernel alone after ``patience`` measurements without a gain
        (None: never). ``database`` (or a path) keeps the records; a later tune goes on from them.
        ``strategy`` is ``evolutionary``, ``random`` or ``replay_trace``. ``cluster`` is the
        address of a dask scheduler whose workers build and time (None: this machine does).
        ``verbose`` is 1 for a table or lines on stderr, 2 for a line a measurement. Ctrl-C ends the
        search, not the tune: what was found until then is used.

        A model of named sizes is tuned for ``sizes``, as in ``[{"batch": 1}, {"batch": 32}]``: each
        candidate is measured at all of them, and the one program that comes of it has the best
        geometric mean; kernels whose sizes only data tell are left alone. Without ``sizes`` only
        kernels of fixed sizes are tuned.

        The old and the new program are timed in turns on random inputs at the end; signatures
        compiled later get the best records too. Raises NotCompiledError, ArgumentError,
        TuningError.
        """
        current = self._require("tune")
        if trials is None and minutes is None:
            trials = 64 * max(1, len(current.executable.report.kernels))
        records = database
        if not isinstance(records, TuningDatabase):
            records = TuningDatabase(records, makes_folders=False)
        names = current.imported.dim_names
        measured = whole_sizes(sizes, spoken("sizes", "--sizes"), names)
        tasks = extract_tasks(current.executable.stages["30-fused"], self._target, measured)
        if not tasks and names and not measured:
            how = spoken(
                f"tune(sizes=[{dict.fromkeys(names, 1)}])",
                f"--sizes {','.join([f'{n}=1' for n in names])}",
            )
            raise TuningError(
                "the model has no kernel of fixed sizes to tune. Say at which sizes it is to be "
                f"measured, as in {how}."
            )
        if not tasks:
            raise TuningError("the model has no kernel that can be tuned.")
        result = tune_tasks(
            tasks,
            records,
            trials=trials,
            minutes=minutes,
            strategy=strategy,
            task_scheduler=task_scheduler,
            patience=patience,
            cluster=cluster,
            verbose=verbose,
            on_progress=on_progress,
        )
        schedule = ScheduledBy(records)
        executable = recompile(current.executable, schedule)
        found = schedule.take_notes()
        executable.report.notes += [*current.imported.notes, *found]
        known = current.executable.report.notes
        known += [note for note in found if note not in known]
        if executable.program.objects == current.executable.program.objects:
            return result
        new = ModelSignature(current.imported, executable, self._threads)
        result.before, result.after = _time_both(current, new, measured)
        result.kept = result.after.is_less_than(result.before)
        if result.kept:
            self._schedule = schedule
            result.kept = self._replace(current, new)
        return result

    def _replace(self, old: ModelSignature, new: ModelSignature) -> bool:
        """Put a signature in the place of one; whether that is still there, with its weights."""
        with self._lock:
            key = next((k for k, v in self._signatures.items() if v is old), None)
            if key is None:
                return False
            self._signatures[key] = self._current = new
            self._fixed = new if self._fixed is old else self._fixed
            for special in self._special.values():
                special[:] = [new if s is old else s for s in special]
            if id(old) in self._special:
                self._special[id(new)] = self._special.pop(id(old))
            if self._asking is not None:
                self._asking.replace(old, new)
            self._entry = self._dispatch
            return True


def _register(imported: Imported) -> None:
    """Register the environment functions that a model brings, for as long as it lives."""
    for name, function in imported.functions.items():
        register_func(name, function)
        weakref.finalize(imported, unregister_func, name).atexit = False


def _refuse_changes(names: Sequence[str]) -> None:
    if not names:
        return
    others = f" and {len(names) - 1} more" if len(names) > 1 else ""
    raise FrontendError(
        "The weights of the module have changed since the model's first compilation "
        f"({names[0]!r}{others}), and the new signature would not have those of the others. Call "
        "refresh() to compile all signatures with the present weights."
    )


def _time_both(
    old: CompiledSignature, new: ModelSignature, sizes: Sequence[Sizes]
) -> tuple[Timing, Timing]:
    """The times of both programs; of several sizes the geometric means."""
    params = old.executable.program.functions["main"].params
    before, after = old.machine()["main"], new.machine()["main"]
    found: tuple[list[Timing], list[Timing]] = ([], [])
    for given in sizes or (_TIMED_SIZE,):
        inputs = random_inputs(params, size=given)
        times = time_interleaved(
            {"before": partial(before, *inputs), "after": partial(after, *inputs)},
            rounds=max(3, _TIMED_ROUNDS // max(1, len(sizes))),
        )
        found[0].append(times["before"])
        found[1].append(times["after"])
    return mean_timing(found[0]), mean_timing(found[1])
