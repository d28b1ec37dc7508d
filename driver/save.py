"""Saving a compiled model: a description, and parts named by what they hold.

Parts are object code, constants and texts. Weights whose layout is the same for several targets
are one part, and so are those that several signatures share. What of a model is kept is what a
call needs (``support.call_form``, ``vm.program``), besides texts for a reader: the report of the
compilation and the scheduled module.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import __version__
from ..support.abi import ABI_VERSION
from ..support.errors import ArtifactError
from ..support.target import Target
from ..tensorir.codegen.thread_pool import emit_thread_pool
from ..vm.artifact import artifact_image, write_artifact
from ..vm.disassembler import constant_hash, object_hash, print_program
from ..vm.program import Call, Program
from ..vm.tensor import array, as_tensor
from .arrays import to_tensors
from .executable import Executable
from .kernel_facts import kernel_facts
from .kernels import resolve_target
from .loaded_report import kept_of
from .precision import Precision
from .stages import ScheduleChoice, compile_again

if TYPE_CHECKING:
    from .compiled_model import ModelSignature


@dataclass(frozen=True)
class SavedFile:
    """What ``save`` wrote: the file, its size in bytes, and the CPUs it has kernels for."""

    path: Path
    size: int
    targets: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<{self.path}: {self.size / 1e6:.1f} MB, for {', '.join(self.targets)}>"


@dataclass(frozen=True)
class Saved:
    """What is kept of a model: its description and the parts that it names, for these targets."""

    model: dict[str, Any]
    parts: dict[str, Any]
    targets: tuple[Target, ...]

    def write(self, path: str | Path) -> SavedFile:
        """Write it to a file. Raises ArtifactError."""
        size = write_artifact(path, self.model, self.parts)
        return SavedFile(Path(path), size, tuple([t.cpu for t in self.targets]))

    @property
    def image(self) -> bytes:
        """What the file would hold."""
        return artifact_image(self.model, self.parts)


def describe_model(
    signatures: Sequence[ModelSignature],
    targets: Target | str | Sequence[Target | str] | None,
    *,
    name: str,
    schedule: ScheduleChoice,
    precision: Precision,
) -> Saved:
    """What a file of these signatures of one model holds. Raises ArtifactError, TargetError."""
    parts: dict[str, Any] = {}
    state: dict[str, list[Any]] = {}
    own: Sequence[Target | str] = [signatures[0].executable.target]
    if targets is not None:
        own = [targets] if isinstance(targets, (str, Target)) else targets
    resolved = list(dict.fromkeys([resolve_target(t) for t in own]))
    if not resolved:
        raise ArtifactError("save: targets is empty; name at least one CPU.")
    described = []
    for signature in signatures:
        calls, executable = signature.imported, signature.executable
        for tensor, called in zip(to_tensors(calls.held, calls.state), calls.state, strict=True):
            # A copy, since calls of other threads may change it before it is written.
            state[called] = _constant(array(tensor), parts)
        if calls.functions:
            raise ArtifactError(
                f"{name} calls functions of this process ({', '.join(sorted(calls.functions))}), "
                "which a file cannot keep. Compile it without fallback= and checked=True."
            )
        variants = []
        for target in resolved:
            again = target != executable.target
            made = compile_again(executable, target, schedule, precision) if again else executable
            variants.append(_variant(made, calls.places, parts))
        described.append(
            {
                "form": calls.form().to_json(),
                "inputs": list(calls.input_names),
                "source": calls.source,
                "dims": list(calls.dim_names),
                "written": list(calls.written),
                "state": list(calls.state),
                "floor": signature.floor,
                "variants": variants,
            }
        )
    model = {
        "name": name,
        "burnish": __version__,
        "abi": ABI_VERSION,
        "precision": precision if isinstance(precision, str) else dict(precision),
        "state": state,
        "signatures": described,
    }
    return Saved(model, parts, tuple(resolved))


def _variant(
    executable: Executable, places: Mapping[str, str], parts: dict[str, Any]
) -> dict[str, Any]:
    program = executable.program
    stage = executable.stages["40-scheduled"].script()
    return {
        "target": str(executable.target),
        "program": _text(print_program(program), parts),
        "constants": [_constant(value, parts) for value in program.constants],
        "objects": [_object(image, parts) for image in program.objects],
        "pool": _object(emit_thread_pool(executable.target), parts),
        "report": _text(executable.report.facts, parts),
        "facts": kept_of(executable.report),
        "scheduled": _text(stage, parts),
        "kernels": {s: asdict(facts) for s, facts in kernel_facts(executable, places).items()},
        "environment": _environment(program),
    }


def _environment(program: Program) -> list[str]:
    """The environment functions that the program calls, which whoever loads it must register."""
    every = [i for f in program.functions.values() for i in f.instructions]
    names = [i.func.partition(":") for i in every if isinstance(i, Call)]
    return sorted({name for kind, _, name in names if kind == "env"})


def _text(text: str, parts: dict[str, Any]) -> str:
    name = f"text/{hashlib.sha256(text.encode()).hexdigest()[:32]}"
    parts[name] = text.encode()
    return name


def _object(image: bytes, parts: dict[str, Any]) -> str:
    name = object_hash(image)
    parts[name] = image
    return name


def _constant(value: object, parts: dict[str, Any]) -> list[Any]:
    tensor = as_tensor(value, "a constant")
    name = constant_hash(tensor)
    parts[name] = np.ascontiguousarray(tensor.data).reshape(-1).view(np.uint8)
    return [name, str(tensor.dtype), list(tensor.shape)]
