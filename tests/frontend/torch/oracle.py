"""How a torch converter is tested: many small functions in one export, imported, verified,
evaluated by the reference interpreter of the graph, and compared with eager torch: dtype, shape and
values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from burnish.frontend.imported import Imported
from burnish.frontend.torch import import_module
from burnish.graphir.analysis import bindings
from burnish.graphir.verify import verify_module
from burnish.tests.graphir.reference import run

Function = Callable[..., Any]
TOLERANCE = {torch.float16: 4e-3, torch.float32: 2e-5, torch.float64: 1e-12}


class Of(nn.Module):
    """Computes a function of one tensor."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


class Calls(nn.Module):
    """Every function of the same inputs; the outputs in order."""

    def __init__(self, functions: Sequence[Function]) -> None:
        super().__init__()
        self.functions = list(functions)

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple([f(*inputs) for f in self.functions])


class One(nn.Module):
    """A function as a module, with a parameter for each of the function's."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any, y: Any = None) -> Any:
        return self.function(x) if y is None else self.function(x, y)


def evaluate(imported: Imported, *inputs: torch.Tensor) -> list[np.ndarray]:
    """The outputs of the imported graph, by the reference interpreter."""
    values = imported.flatten_inputs(inputs, {})
    result = run(imported.module, "main", *[v.numpy() for v in values])
    return list(result) if isinstance(result, tuple) else [result]


def compare(label: str, found: np.ndarray, expected: torch.Tensor) -> str:
    """What differs, or nothing."""
    wanted = expected.numpy()
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return f"{label}: {found.dtype} {found.shape}, torch {wanted.dtype} {wanted.shape}"
    tolerance = TOLERANCE.get(expected.dtype, 0)
    if not np.allclose(found, wanted, rtol=tolerance, atol=tolerance, equal_nan=True):
        return f"{label}: {found!r}, torch {wanted!r}"
    return ""


def check_all(
    functions: Mapping[str, Function],
    *inputs: torch.Tensor,
    dynamic_shapes: Any = None,
    also: Sequence[tuple[torch.Tensor, ...]] = (),
) -> Imported:
    """Import all functions in one module and compare each, on the inputs and on ``also``."""
    module = Calls(list(functions.values())).eval()
    imported = import_module(module, inputs, dynamic_shapes)
    verify_module(imported.module)
    wrong: list[str] = []
    for given in (inputs, *also):
        with torch.no_grad():
            expected = module(*given)
        found = evaluate(imported, *given)
        pairs = zip(functions, found, expected, strict=True)
        wrong += [compare(label, f, e) for label, f, e in pairs]
    differences = "\n".join(filter(None, wrong))
    if differences:
        pytest.fail(differences, pytrace=False)
    return imported


def import_function(function: Function, *inputs: Any, dynamic_shapes: Any = None) -> Imported:
    """One function of one or two inputs, imported and verified."""
    imported = import_module(One(function).eval(), inputs, dynamic_shapes)
    verify_module(imported.module)
    return imported


def operators_of(imported: Imported) -> list[str]:
    """The operators of main, in order."""
    values = [b.value for b in bindings(imported.module["main"])]  # type: ignore[arg-type]
    return [v.op for v in values if hasattr(v, "op")]
