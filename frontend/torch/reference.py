"""What torch computes, node by node: the values that a compiled model is verified against.

``node_values`` runs the program the importer converted, the prepared one, through an fx Interpreter
and keeps every tensor on the way. ``Imported.variables`` tells which variable of ``main`` holds the
same value. ``torch_reference`` has all that a verification needs of a model. Nothing is compared.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.fx import Node
from torch.utils import _pytree as pytree

from ...support.errors import BurnishError
from ..reference import NodeValue, Reference
from .check_sizes import ProgramRun, program_inputs
from .decompose import prepare_program
from .export import export_lock, export_module
from .importer import import_exported_program
from .registry import location, operator_name
from .structure import CallStructure


def torch_reference(
    source: torch.nn.Module | ExportedProgram,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    *,
    fallback: str | None = None,
    float64: bool = False,
) -> Reference:
    """What eager PyTorch computes for a call, on the way and in the end; the module keeps its
    buffers, and the inputs their values. With ``float64`` the values of the model in float64 as
    well, where it runs in that.

    Raises what importing and calling the model raise.
    """
    named = dict(kwargs or {})
    places: Sequence[tuple[int, int, str]] = ()
    parameters: Sequence[str] = ()
    if isinstance(source, ExportedProgram):
        program, kind = source, "torch program"
    else:
        with export_lock:
            program, plan = export_module(source, args, named, dynamic_shapes)
        places, parameters, kind = plan.places, plan.parameters, f"torch {type(source).__name__}"
    imported = import_exported_program(
        program, places=places, parameters=parameters, source=kind, fallback=fallback
    )
    inputs = [_copied(x) for x in imported.flatten_inputs(tuple(args), named)]
    values = node_values(program, args, named, falls_back=fallback is not None)
    found = Reference(
        "eager PyTorch", imported, inputs, _outputs(source, args, named, imported.numbers), values
    )
    if not float64:
        return found
    if isinstance(source, ExportedProgram):
        raise BurnishError(
            "float64=True needs the torch.nn.Module: an exported program is of its dtypes. Pass "
            "the module as source=."
        )
    wide, wide_args = copy.deepcopy(source).double(), _doubled(tuple(args))
    wide_named = _doubled(named)
    with export_lock:
        wide_program, _ = export_module(wide, wide_args, wide_named, dynamic_shapes)
    return replace(
        found,
        exact_outputs=_outputs(wide, wide_args, wide_named, imported.numbers),
        exact_values=node_values(
            wide_program, wide_args, wide_named, falls_back=fallback is not None
        ),
    )


def exact_outputs(
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    numbers: Collection[int] = (),
) -> list[np.ndarray]:
    """The flat results of a call of a module in float64, the numbers at these places among its
    leaves too. The module and its inputs stay as they are. Raises what the call raises."""
    wide = copy.deepcopy(module).double()
    return _outputs(wide, _doubled(tuple(args)), _doubled(dict(kwargs or {})), numbers)


def _outputs(
    source: torch.nn.Module | ExportedProgram,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    numbers: Collection[int],
) -> list[np.ndarray]:
    """The tensors of a call's result, and the numbers at these places among its leaves. What the
    call writes is a copy."""
    module: Any
    module = source.module() if isinstance(source, ExportedProgram) else copy.deepcopy(source)
    args, named = pytree.tree_map(_copied, (tuple(args), dict(kwargs)))
    with torch.no_grad():
        result = module(*args, **named)
    leaves = enumerate(pytree.tree_leaves(result))
    return [
        _as_array(torch.as_tensor(x))
        for i, x in leaves
        if i in numbers or isinstance(x, torch.Tensor)
    ]


def _copied(x: Any) -> Any:
    return x.detach().clone() if isinstance(x, torch.Tensor) else x


def _doubled(values: Any) -> Any:
    def double(x: Any) -> Any:
        return x.detach().double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x

    return pytree.tree_map(double, values)


def node_values(
    program: ExportedProgram,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    falls_back: bool = False,
) -> list[NodeValue]:
    """Every tensor that an operator of the program computes for a call, in order. The program is
    prepared as for an import that ``falls_back`` to torch, or does not.

    Raises ArityError and ArgumentError for a call that does not fit the program.
    """
    with export_lock:
        program = prepare_program(program, falls_back=falls_back)
    structure = CallStructure.of(program)
    tensors = iter(structure.flatten(tuple(args), dict(kwargs or {})))
    leaves = structure.fill(tensors)
    recorder = _Recorder(program.graph_module)
    with torch.no_grad():
        recorder.run(*program_inputs(program, leaves))
    return recorder.values


class _Recorder(ProgramRun):
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
