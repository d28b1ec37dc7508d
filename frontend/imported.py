"""Imported: what a front end gives the driver, the same for every kind of model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..graphir.module import IRModule


def _identity(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Imported:
    """``module`` has one graph Function ``main``: a parameter for each tensor input, weights as
    constants (copies), a tuple of outputs as result (or a bare one).

    ``flatten_inputs(args, kwargs)`` gives the tensors of a call in parameter order and raises ArityError
    or ArgumentError where the call does not fit; ``unflatten_outputs(tensors)`` puts a list of outputs
    into the model's own structure.
    """

    module: IRModule
    input_names: tuple[str, ...]
    flatten_inputs: Callable[[tuple[Any, ...], dict[str, Any]], list[Any]]
    unflatten_outputs: Callable[[list[Any]], Any]
    single_output: bool = True
    """The model gives one bare tensor: ``unflatten_outputs`` is ``lambda outputs: outputs[0]``."""
    positional_only: bool = True
    """Every call with exactly the right number of positional tensors flattens to itself."""
    dim_names: tuple[str, ...] = ()
    source: str = ""
    """What was imported, for reports: ``torch MLP``, ``mlp.onnx``."""
    notes: tuple[str, ...] = field(default=())
