"""A saved model: what an artifact's parts become, its object code linked. No compiler, no torch.

Of several variants the best that this machine can run is taken: that of its own CPU, else the one
with the widest vectors. ``model.report`` says which, and why not the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ..support.abi import ABI_VERSION
from ..support.call_form import CallForm
from ..support.dtype import DType
from ..support.errors import (
    ArgumentError,
    ArityError,
    ArtifactError,
    BurnishError,
    NotCompiledError,
    ShapeMismatchError,
    TargetError,
)
from ..support.host import native_target
from ..support.keywords import hinted
from ..support.target import Target
from ..vm import parallel
from ..vm.artifact import Artifact, artifact_image
from ..vm.disassembler import parse_program, print_program
from ..vm.native import load_objects
from ..vm.program import Program
from ..vm.storage import storage_dtype
from ..vm.tensor import Tensor, array, wrap
from .arrays import copied
from .callable_model import CallableModel
from .kernel_facts import KernelFacts
from .loaded_report import LoadedReport, loaded_report
from .runnable import check_runnable
from .signature import CompiledSignature, listed_inputs
from .threads import check_threads, thread_count

if TYPE_CHECKING:
    from .verification import Verification


@dataclass(frozen=True)
class SavedCalls:
    """How calls look: what ``Imported`` is to a model compiled here."""

    input_names: tuple[str, ...]
    flatten_inputs: Callable[[tuple[Any, ...], dict[str, Any]], list[Any]]
    unflatten_outputs: Callable[[Sequence[Any]], Any]
    single_output: bool
    bare_tuple: bool
    positional_only: bool
    written: tuple[int, ...]
    dim_names: tuple[str, ...]
    source: str
    form: Callable[[], CallForm]
    state: tuple[str, ...] = ()
    """Tensors that calls change, each the model's own; the last inputs."""


@dataclass(frozen=True)
class SavedProgram:
    """A program, the CPU that it was compiled for, and what is known of its kernels by symbol."""

    program: Program
    target: Target
    facts: Mapping[str, KernelFacts]


class LoadedSignature(CompiledSignature):
    """One that was compiled elsewhere; ``scheduled`` is the part with the text of its module."""

    imported: SavedCalls
    executable: SavedProgram

    def __init__(
        self,
        calls: SavedCalls,
        program: SavedProgram,
        threads: int,
        report: LoadedReport,
        scheduled: str,
        floor: int | None,
    ) -> None:
        super().__init__(calls, program, threads)
        self.report, self.scheduled, self._floor = report, scheduled, floor

    @property
    def floor(self) -> int | None:
        return self._floor

    @property
    def facts(self) -> dict[str, KernelFacts]:
        return dict(self.executable.facts)


@hinted
class LoadedModel(CallableModel[LoadedSignature]):
    """A model from a file: call it like the module it came from. See ``load``."""

    def __init__(
        self,
        artifact: Artifact,
        signatures: Sequence[LoadedSignature],
        state: Mapping[str, Tensor],
        asked: str | None,
    ) -> None:
        super().__init__(is_torch=False)
        self._artifact, self._state, self._asked = artifact, state, asked
        self._signatures = {(i,): s for i, s in enumerate(signatures)}
        self._current = signatures[0]

    def _select(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> LoadedSignature:
        known = list(self._signatures.values())
        if len(known) == 1:
            return known[0]
        for signature in known:
            if _fits(signature, args, kwargs):
                self._current = signature
                return signature
        given = [*map(_shown, args), *[f"{k}={_shown(v)}" for k, v in kwargs.items()]]
        raise ShapeMismatchError(
            "the inputs",
            " or ".join([f"({_shown_inputs(s)})" for s in known]),
            f"({', '.join(given)})",
            "The file has the signatures that the model had been called with when it was saved: "
            "call it with these too before, or name the dims that vary, as in "
            'burnish.compile(module, dynamic_shapes=({0: "batch"},)).',
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """``pickle``, ``copy`` and ``torch.save`` keep the file, with the state of now."""
        from .load import restored

        known, threads = self._artifact, self._current.threads
        if not self._state:
            return restored, (bytes(known.image), threads, self._asked)
        parts: dict[str, Any] = {name: known.part(name) for name in known.names}
        table = {}
        for name, tensor in self._state.items():
            parts[f"state/{name}"] = tensor.data.tobytes()
            table[name] = [f"state/{name}", str(tensor.dtype), list(tensor.shape)]
        image = artifact_image(known.model | {"state": table}, parts)
        return restored, (image, threads, self._asked)

    def _require(self, what: str) -> LoadedSignature:
        return self._current

    @property
    def signatures(self) -> tuple[LoadedSignature, ...]:
        """All that the file holds."""
        return tuple(self._signatures.values())

    @property
    def executable(self) -> SavedProgram:
        """The program of the signature used last."""
        return self._current.executable

    @property
    def target(self) -> Target:
        """The CPU that the kernels in use were compiled for."""
        return self._current.executable.target

    @property
    def report(self) -> LoadedReport:
        """Which kernels were taken and why, and what their compilation said of itself."""
        return self._current.report

    def verify(
        self, *args: Any, source: Any = None, tolerance: float | None = None, **kwargs: Any
    ) -> Verification:
        """Compare the outputs of a call with those of the model that this one was saved from:
        ``source`` is a torch module, an ExportedProgram, or an ONNX model. ``CompiledModel.verify``
        looks closer. Raises as that does, and ArgumentError without a source."""
        if source is None:
            raise ArgumentError(
                "verify: a file has no model to compare with; give it: "
                "model.verify(*inputs, source=module)."
            )
        from .own_forward import own_forward
        from .sources import reference_of
        from .verification import Verification
        from .verify_model import Verifier

        with own_forward(source):
            reference = reference_of(source, args, kwargs, None, fallback=None, float64=False)
            signature = self._select(args, kwargs)
            values = [copied(v) for v in signature.imported.flatten_inputs(args, kwargs)]
            precision = self._artifact.model.get("precision", "fast")
            verifier = Verifier(reference, self.target, precision=precision, tolerance=tolerance)
            checks = tuple(verifier.check_outputs(signature.run(values)))
        note = "a saved model is compared by its outputs: a file keeps no values on the way."
        return Verification(str(self._artifact.path), reference.name, checks, (), notes=(note,))

    def tune(self, **options: Any) -> NoReturn:
        """Raises NotCompiledError: a saved model has code, and no programs that could be scheduled
        in another way."""
        raise NotCompiledError(
            "A loaded model cannot be tuned: compile the model that it was saved from, tune that, "
            "and save it again."
        )

    def refresh(self) -> NoReturn:
        """Raises NotCompiledError: a saved model has weights of its own."""
        raise NotCompiledError(
            "A loaded model has the weights that it was saved with: change the module, compile it, "
            "and save it again."
        )

    def script(self, stage: str = "40-scheduled") -> str:
        """The scheduled module (``40-scheduled``) or the program (``70-bytecode``) as text.

        Raises ArgumentError for another stage: a file keeps no more.
        """
        if stage == "40-scheduled":
            return _text(self._artifact, self._current.scheduled)
        if stage == "70-bytecode":
            return print_program(self._current.executable.program)
        raise ArgumentError(
            f"A loaded model has the stages 40-scheduled and 70-bytecode; found {stage!r}."
        )

    def show(self, stage: str = "40-scheduled") -> None:
        """Print a stage."""
        print(self.script(stage))

    def _repr_html_(self) -> str:
        """What a notebook shows: the model and its inputs, and the report of its compilation."""
        from html import escape

        from .model_profile import html_table

        rows = [[name, dtype, f"({', '.join(shape)})"] for name, shape, dtype in self.inputs]
        table = html_table(repr(self), ("input", "dtype", "shape"), rows)
        return f"{table}<pre>{escape(str(self.report))}</pre>"

    def __repr__(self) -> str:
        count = len(self._signatures)
        plural = "s" if count != 1 else ""
        return f"<burnish model of {self._artifact.path}: {count} signature{plural}>"


def loaded_model(
    artifact: Artifact, threads: int | None, target: Target | str | None
) -> LoadedModel:
    """The model of an artifact. Raises ArtifactError, TargetError and, for ``threads``,
    ArgumentError."""
    check_threads(threads)
    try:
        return _model(artifact, threads, None if target is None else str(target))
    except (ArtifactError, TargetError):
        raise
    except (BurnishError, KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise ArtifactError(
            f"{artifact.path}: its description is not one that this burnish reads: {error!r}. Save "
            "the model again with this version."
        ) from error


def _model(artifact: Artifact, threads: int | None, target: str | None) -> LoadedModel:
    model, path = artifact.model, artifact.path
    if model["abi"] != ABI_VERSION:
        raise ArtifactError(
            f"{path} was saved by burnish {model['burnish']}, whose kernels speak version "
            f"{model['abi']} of the kernel ABI; this one speaks {ABI_VERSION}. Save it again."
        )
    state = {
        name: array(_array(artifact.part(part), dtype, tuple(shape)))
        for name, (part, dtype, shape) in model["state"].items()
    }
    signatures = []
    for known in model["signatures"]:
        variant, why = _best_variant(known["variants"], target, path)
        form = CallForm.from_json(known["form"])
        calls = SavedCalls(
            tuple(known["inputs"]),
            _flattened(form, [state[name] for name in known["state"]]),
            form.unflatten,
            form.is_single,
            form.is_tuple,
            form.is_flat and not known["written"],
            tuple(known["written"]),
            tuple(known["dims"]),
            known["source"],
            partial(CallForm.from_json, known["form"]),
            tuple(known["state"]),
        )
        chosen = Target(variant["target"])
        program = program_of(artifact, variant)
        count = thread_count(chosen, threads)
        _take_pool(artifact, variant, count)
        text = f"loaded from {path}, {why}\nwhen it was saved:\n"
        text += _text(artifact, variant["report"])
        report = loaded_report(text, variant.get("facts", {}))
        facts = {symbol: KernelFacts.from_json(held) for symbol, held in variant["kernels"].items()}
        saved = SavedProgram(program, chosen, facts)
        scheduled, floor = variant["scheduled"], known["floor"]
        signatures.append(LoadedSignature(calls, saved, count, report, scheduled, floor))
    return LoadedModel(artifact, signatures, state, target)


def _flattened(form: CallForm, held: list[Tensor]) -> Callable[..., list[Any]]:
    return lambda args, kwargs: [*form.flatten(args, kwargs), *held]


def _text(artifact: Artifact, part: str) -> str:
    return bytes(artifact.part(part)).decode()


def program_of(artifact: Artifact, variant: Mapping[str, Any]) -> Program:
    """The program of a signature for one CPU."""
    constants = {
        name: _array(artifact.part(name), dtype, tuple(shape))
        for name, dtype, shape in variant["constants"]
    }
    objects = {name: bytes(artifact.part(name)) for name in variant["objects"]}
    text = _text(artifact, variant["program"])
    return parse_program(text, constants, objects, name=f"{artifact.path}: {variant['program']}")


def _array(part: memoryview, dtype: str, shape: tuple[int, ...]) -> Tensor:
    kind = DType(dtype)
    return wrap(np.frombuffer(part, storage_dtype(kind)).reshape(shape), kind)


def _take_pool(artifact: Artifact, variant: Mapping[str, Any], threads: int) -> None:
    if threads > 1 and not parallel.is_installed():
        parallel.install(load_objects([bytes(artifact.part(variant["pool"]))]))


def _best_variant(
    variants: Sequence[Mapping[str, Any]], wanted: str | None, path: Path | str
) -> tuple[Mapping[str, Any], str]:
    """The variant to run, and a sentence that says why."""
    host = native_target()
    asked = None if wanted is None else Target(wanted).resolved(host).cpu
    usable: list[tuple[tuple[bool, int, int], Mapping[str, Any]]] = []
    reasons: list[str] = []
    for variant in variants:
        target = Target(variant["target"])
        if asked not in (None, target.cpu):
            reasons.append(f"{target.cpu} was not asked for")
            continue
        try:
            check_runnable(target, host)
        except TargetError as error:
            reasons.append(error.message)
            continue
        rank = (target.cpu == host.cpu, target.vector_bits, len(target.features))
        usable.append((rank, variant))
    if not usable:
        raise TargetError(_no_variant(variants, asked, host, reasons, path))
    usable.sort(key=lambda pair: pair[0], reverse=True)
    chosen = usable[0][1]
    others = [f"{Target(v['target']).cpu} would do too" for _, v in usable[1:]] + reasons
    cpu = Target(chosen["target"]).cpu
    return chosen, f"with its kernels for {cpu}" + (f" ({'; '.join(others)})" if others else "")


def _no_variant(
    variants: Sequence[Mapping[str, Any]],
    asked: str | None,
    host: Target,
    reasons: Sequence[str],
    path: Path | str,
) -> str:
    """What a file has, where nothing of it can be run or is what was asked for, and what to do."""
    held = [Target(v["target"]).cpu for v in variants]
    listed = ", ".join(held)
    if asked is not None and asked not in held:
        return (
            f"{path} has no kernels for {asked}, which was asked for; it has those for {listed}. "
            "Leave target out for the best of them, or save the model with "
            f"targets=[..., {asked!r}]."
        )
    return (
        f"{path} has no kernels that can be used here, on {host.cpu}; it has those for {listed}. "
        f"{' '.join(reasons)} Save the model with targets=[..., {host.cpu!r}] too."
    )


def _shown_inputs(signature: LoadedSignature) -> str:
    params = signature.executable.program.functions["main"].params
    listed = listed_inputs(signature.imported, params)
    return ", ".join([f"{name}: {dtype}[{', '.join(shape)}]" for name, shape, dtype in listed])


def _shown(value: Any) -> str:
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None:
        return type(value).__name__ if isinstance(value, (list, tuple, Mapping)) else repr(value)
    return f"{str(dtype).removeprefix('torch.')}[{', '.join(map(str, shape))}]"


def _fits(signature: LoadedSignature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call is of the signature, by its structure, ranks, fixed sizes and dtypes."""
    try:
        values = signature.imported.flatten_inputs(args, kwargs)
    except (ArityError, ArgumentError, ShapeMismatchError):
        return False
    params = signature.executable.program.functions["main"].params
    for value, param in zip(values, params, strict=True):
        shape = tuple(getattr(value, "shape", ()))
        dtype = str(getattr(value, "dtype", "")).removeprefix("torch.")
        if len(shape) != len(param.spec.shape) or dtype != param.spec.dtype:
            return False
        known = zip(shape, param.spec.shape, strict=True)
        if any(text.isdecimal() and int(text) != size for size, text in known):
            return False
    return True


__all__ = ["LoadedModel", "SavedCalls", "SavedProgram", "loaded_model", "program_of"]
