"""Saving a compiled model: a description, and parts named by what they hold.

Parts are object code, constants and texts. Weights whose layout is the same for several targets
are one part, and so are those that several signatures share. What of a model is kept is what a
call needs (``support.call_form``, ``vm.program``), besides texts for a reader: the report of the
compilation and the scheduled module.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import __version__
from ..support.abi import ABI_VERSION
from ..support.errors import ArtifactError
from ..support.target import Target
from ..tensorir.codegen.thread_pool import emit_thread_pool
from ..vm.artifact import write_artifact
from ..vm.disassembler import constant_hash, object_hash, print_program
from ..vm.program import Call, Program
from ..vm.tensor import as_tensor
from .executable import Executable
from .kernels import resolve_target
from .stages import ScheduleChoice, compile_again

if TYPE_CHECKING:
    from .compile import ModelSignature


@dataclass(frozen=True)
class SavedFile:
    """What ``save`` wrote: the file, its size in bytes, and the CPUs it has kernels for."""

    path: Path
    size: int
    targets: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<{self.path}: {self.size / 1e6:.1f} MB, for {', '.join(self.targets)}>"


def save_model(
    path: str | Path,
    signatures: Sequence[ModelSignature],
    targets: Target | str | Sequence[Target | str] | None,
    *,
    name: str,
    schedule: ScheduleChoice,
    precision: str,
) -> SavedFile:
    """Write signatures of one model. Raises ArtifactError, TargetError."""
    parts: dict[str, Any] = {}
    own: Sequence[Target | str] = [signatures[0].executable.target]
    if targets is not None:
        own = [targets] if isinstance(targets, (str, Target)) else targets
    resolved = list(dict.fromkeys([resolve_target(t) for t in own]))
    if not resolved:
        raise ArtifactError("save: targets is empty; name at least one CPU.")
    described = []
    for signature in signatures:
        calls, executable = signature.imported, signature.executable
        if calls.state:
            raise ArtifactError(
                f"Calls of {name} change tensors that the module holds ({', '.join(calls.state)}), "
                "which a file cannot. Make them inputs and outputs of forward()."
            )
        variants = []
        for target in resolved:
            again = target != executable.target
            made = compile_again(executable, target, schedule, precision) if again else executable
            variants.append(_variant(made, parts))
        described.append(
            {
                "form": calls.form().to_json(),
                "inputs": list(calls.input_names),
                "source": calls.source,
                "dims": list(calls.dim_names),
                "written": list(calls.written),
                "variants": variants,
            }
        )
    model = {
        "name": name,
        "burnish": __version__,
        "abi": ABI_VERSION,
        "signatures": described,
    }
    size = write_artifact(path, model, parts)
    return SavedFile(Path(path), size, tuple([t.cpu for t in resolved]))


def _variant(executable: Executable, parts: dict[str, Any]) -> dict[str, Any]:
    program = executable.program
    stage = executable.stages["40-scheduled"].script()
    return {
        "target": str(executable.target),
        "program": _text(print_program(program), parts),
        "constants": [_constant(value, parts) for value in program.constants],
        "objects": [_object(image, parts) for image in program.objects],
        "pool": _object(emit_thread_pool(executable.target), parts),
        "report": _text(executable.report.facts, parts),
        "scheduled": _text(stage, parts),
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
