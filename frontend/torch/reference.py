"""What torch computes, node by node: the values that a compiled model is verified against.

``node_values`` runs the program the importer converted, the prepared one, through an fx Interpreter
and keeps every tensor on the way. ``Imported.variables`` tells which variable of ``main`` holds the
same value. It compares nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.fx import Interpreter, Node

from .decompose import prepare_program
from .export import program_inputs
from .registry import location, operator_name
from .structure import CallStructure


@dataclass(frozen=True)
class NodeValue:
    """The value of one node of the program. ``value`` is a copy (bfloat16 as uint16, as in the
    IR)."""

    name: str
    operator: str
    where: str
    """The line of the user's source, as errors show it."""
    value: np.ndarray


def node_values(
    program: ExportedProgram, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
) -> list[NodeValue]:
    """Every tensor that an operator of the program computes for a call, in order.

    Raises ArityError and ArgumentError for a call that does not fit the program.
    """
    program = prepare_program(program)
    structure = CallStructure.of(program)
    tensors = iter(structure.flatten(tuple(args), dict(kwargs or {})))
    leaves = structure.fill(tensors)
    recorder = _Recorder(program.graph_module)
    with torch.no_grad():
        recorder.run(*program_inputs(program, leaves))
    return recorder.values


class _Recorder(Interpreter):
    """Keeps the tensors that operators return."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self.values: list[NodeValue] = []

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        if n.op == "call_function" and isinstance(result, torch.Tensor):
            self.values.append(NodeValue(n.name, operator_name(n), location(n), _as_array(result)))
        return result


def _as_array(x: torch.Tensor) -> np.ndarray:
    dense = x.detach().clone(memory_format=torch.contiguous_format)
    return dense.view(torch.uint16).numpy() if x.dtype is torch.bfloat16 else dense.numpy()
