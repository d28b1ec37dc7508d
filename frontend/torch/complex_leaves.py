"""Complex inputs and outputs of a model: in a call they are views of real tensors, or are viewed as
complex ones, with a last axis of 2. Nothing is copied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.fx import Node

from ...support.call_form import CallForm
from ...support.errors import ArgumentError, ArtifactError, FrontendError
from .structure import CallStructure


@dataclass(frozen=True)
class ComplexLeaves:
    """A structure of calls, whose tensors of these places, among all tensors, are complex."""

    structure: CallStructure
    inputs: frozenset[int]
    outputs: frozenset[int]

    @classmethod
    def of(
        cls, program: ExportedProgram, structure: CallStructure, changed: Sequence[str]
    ) -> ComplexLeaves:
        """Read it from a program. Raises FrontendError for a complex tensor that it changes."""
        nodes = {n.name: n for n in program.graph.nodes}
        signature = program.graph_signature
        for name in changed:
            if _is_complex(nodes.get(name)):
                raise FrontendError(
                    f"forward() changes {name!r}, a tensor of complex numbers, in place, which "
                    "cannot be compiled: return the new value instead."
                )
        inputs = [nodes.get(name) for name in signature.user_inputs if isinstance(name, str)]
        results = program.graph.output_node().args[0]
        assert isinstance(results, (tuple, list))
        specs = zip(signature.output_specs, results, strict=True)
        outputs = [node for spec, node in specs if spec.kind is OutputKind.USER_OUTPUT]
        return cls(structure, _places(inputs), _places(outputs))

    def flatten(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """The tensors of a call, all of real numbers. Raises ArgumentError for one that should be
        complex and is not, and what ``CallStructure.flatten`` raises."""
        found = self.structure.flatten(args, kwargs)
        return [_real(x, i) if i in self.inputs else x for i, x in enumerate(found)]

    def unflatten(self, tensors: Sequence[Any]) -> Any:
        """The outputs in the structure that ``forward`` returned."""
        given = [_complex(x) if i in self.outputs else x for i, x in enumerate(tensors)]
        return self.structure.unflatten(given)

    def form(self) -> CallForm:
        """All of it as data, which has no complex numbers: ArtifactError where there are some."""
        if self.inputs or self.outputs:
            raise ArtifactError(
                "a model that takes or gives complex tensors cannot be saved; let forward() take "
                "and give torch.view_as_real of them."
            )
        return self.structure.form()


def _places(nodes: Sequence[Any]) -> frozenset[int]:
    tensors = [n for n in nodes if isinstance(n, Node) and _is_tensor(n)]
    return frozenset([i for i, n in enumerate(tensors) if _is_complex(n)])


def _is_tensor(node: Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def _is_complex(node: Node | None) -> bool:
    return node is not None and _is_tensor(node) and bool(node.meta["val"].dtype.is_complex)


def _real(x: Any, place: int) -> Any:
    if isinstance(x, torch.Tensor) and x.is_complex():
        return torch.view_as_real(x.detach().resolve_conj())
    if isinstance(x, np.ndarray) and x.dtype.kind == "c":
        parts = np.asarray(x, order="C")[..., np.newaxis]
        return parts.view(parts.real.dtype)
    found = getattr(x, "dtype", type(x).__name__)
    raise ArgumentError(
        f"tensor {place} of the call: complex numbers at compilation; got {found}. Pass a complex "
        "tensor."
    )


def _complex(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return torch.view_as_complex(x)
    both = np.ascontiguousarray(np.asarray(x))
    return both.view(np.result_type(both.dtype, np.complex64))[..., 0]


__all__ = ["ComplexLeaves"]
