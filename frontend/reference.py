"""Reference: what a foreign framework computes for a call, to verify a compiled model against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .imported import Imported


@dataclass(frozen=True)
class NodeValue:
    """The value of one node of a foreign model. ``value`` is a copy (bfloat16 as uint16, as in the
    IR)."""

    name: str
    operator: str
    where: str
    """The line of the user's source, as errors show it; empty where there is none."""
    value: np.ndarray


@dataclass(frozen=True)
class Reference:
    """``imported`` is the model once more, with ``variables`` that tell which variable of its
    ``main`` has a node's value. ``inputs`` are the tensors of the call in the order of its
    parameters, ``outputs`` the flat results (bfloat16 as uint16). Those that are ``exact`` are of
    the same model in float64. ``imported`` is None where the program depends on the inputs'
    values."""

    name: str
    imported: Imported | None
    inputs: Sequence[Any]
    outputs: Sequence[np.ndarray]
    values: Sequence[NodeValue]
    exact_outputs: Sequence[np.ndarray] | None = None
    exact_values: Sequence[NodeValue] | None = None

    def by_variable(self) -> dict[str, NodeValue]:
        """Variable of ``main`` to the first node whose value it holds: views of one value share a
        variable."""
        found: dict[str, NodeValue] = {}
        variables = self.imported.variables if self.imported is not None else {}
        for value in self.values:
            if value.name in variables:
                found.setdefault(variables[value.name], value)
        return found

    def exact(self, value: NodeValue) -> np.ndarray | None:
        """The same node's value in float64; None where that model has no such node."""
        known = (v.value for v in self.exact_values or () if v.name == value.name)
        return next((x for x in known if x.shape == value.value.shape), None)
