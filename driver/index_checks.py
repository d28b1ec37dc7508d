"""Checked indices: ``compile(..., checked=True)``.

    y = R.take(x, i, axis=0)   ->   c = R.call_dps_packed("burnish.index_check.0", (i,), ...)
                                    y = R.take(x, c, axis=0)

A kernel takes an index that is out of range to the nearest element, so that it never reads or
writes outside of a buffer; eager PyTorch and NumPy raise. Here an environment function looks at the
indices of each look-up first, and gives them on as they are. It is a NumPy function: the native
segment ends before it. A size that is known at run time alone is read off the operand.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace as with_fields
from typing import Any

import numpy as np

from ..frontend.imported import Imported
from ..graphir.dim import static_value
from ..graphir.expr import Atom, Binding, Call, CallDPSPacked, Value
from ..graphir.module import IRModule
from ..graphir.mutator import ExprMutator
from ..graphir.op import attr, type_of
from ..graphir.type import TensorType
from ..support.errors import IndexRangeError
from ..support.node import replace

_numbers = itertools.count()
"""Names of environment functions are the process's, so are the numbers in them."""


def with_checked_indices(imported: Imported) -> Imported:
    """The import with a check before each look-up, and a note on what they cost."""
    rewrite = _Checks(imported.module, imported.places)
    module = rewrite.transform()
    if not rewrite.functions:
        return imported
    count = len(rewrite.functions)
    note = (
        f"checked=True: indices are looked at by NumPy {count} time{'s' if count > 1 else ''} in a "
        "call of the model; each ends a native segment and copies the indices."
    )
    functions = {**imported.functions, **rewrite.functions}
    return with_fields(imported, module=module, functions=functions, notes=(*imported.notes, note))


def _looked_up(call: Call) -> Iterator[tuple[int, int]]:
    """(position of an operand of indices, axis of the first operand that it counts along)"""
    match call.op:
        case "take" | "gather_elements" | "scatter_elements":
            yield 1, int(attr(call, "axis"))
        case "advanced_index" | "scatter_index":
            axes = [int(a) for a in attr(call, "axes")]
            yield from enumerate(axes, len(call.args) - len(axes))


class _Checks(ExprMutator):
    """Puts a check in front of each look-up; ``functions`` by name."""

    def __init__(self, module: IRModule, places: Mapping[str, str]) -> None:
        super().__init__(module)
        self.functions: dict[str, Callable[..., None]] = {}
        self._places = places
        self._bound = ""

    def visit_binding(self, binding: Binding) -> None:
        """Remember the variable: it knows the line of the foreign model."""
        self._bound = binding.var.name
        super().visit_binding(binding)

    def visit_Call(self, call: Call) -> Value:  # noqa: N802
        """The call on checked indices."""
        visited = super().visit_Call(call)
        if not isinstance(visited, Call):
            return visited
        args = list(visited.args)
        for position, axis in _looked_up(visited):
            args[position] = self._checked(visited, args[position], axis)
        same = all(a is b for a, b in zip(args, visited.args, strict=True))
        return visited if same else replace(visited, args=tuple(args))

    def _checked(self, call: Call, indices: Atom, axis: int) -> Atom:
        kind, held = type_of(indices), type_of(call.args[0])
        assert isinstance(kind, TensorType)
        assert isinstance(held, TensorType)
        size = static_value(held.shape[axis])
        place = self._places.get(self._bound, "")
        where = f"{call.op}{f' at {place}' if place else ''}, axis {axis % held.ndim}"
        name = f"burnish.index_check.{next(_numbers)}"
        self.functions[name] = _check(where, size, axis)
        operands = (indices,) if size is not None else (indices, call.args[0])
        return self.emit(CallDPSPacked(name, operands, kind))


def _check(where: str, size: int | None, axis: int) -> Callable[..., None]:
    """The environment function: indices, the tensor where its size is not known, and the result."""

    def check(indices: Any, *rest: Any) -> None:
        given = np.asarray(indices.numpy())
        count = size if size is not None else int(rest[0].shape[axis])
        if given.size:
            wrong = (given < -count) | (given >= count)
            if wrong.any():
                at = tuple(map(int, np.argwhere(wrong)[0]))
                raise IndexRangeError(
                    f"{where}: expected indices from {-count} to {count - 1}, found {given[at]} at "
                    f"place {list(at)} of the indices."
                )
        np.copyto(rest[-1].numpy(), given)

    return check


__all__ = ["with_checked_indices"]
