"""Checked indices: ``compile(..., checked=True)``.

    y = R.take(x, i, axis=0)   ->   c = R.call_dps_packed("burnish.index_check.0", (i,), ...)
                                    y = R.take(x, c, axis=0)

A kernel takes an index that is out of range to the nearest element, so that it never reads or
writes outside of a buffer; eager PyTorch and NumPy raise. Here an environment function looks at the
indices of each look-up first, and gives them on as they are. It is a NumPy function: the native
segment ends before it. A size that is known at run time alone is read off the operand. Negative
indices count from the end, as ONNX and ``x[i]`` have it, but where the front end says that the
foreign operator refuses them (``Imported.index_ranges``); class numbers of a one_hot, which is no
look-up, are such too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from dataclasses import replace as with_fields
from typing import Any

import numpy as np

from ..frontend.imported import Imported, IndexRange
from ..graphir.dim import static_value
from ..graphir.expr import Atom, Binding, Call, CallDPSPacked, Value
from ..graphir.mutator import ExprMutator
from ..graphir.op import attr, tensor_type_of, type_of
from ..graphir.type import TensorType
from ..support.errors import IndexRangeError
from ..support.node import replace

_numbers = itertools.count()
"""Names of environment functions are the process's, so are the numbers in them."""


def with_checked_indices(imported: Imported) -> Imported:
    """The import with a check before each look-up, and a note on what they cost."""
    rewrite = _Checks(imported)
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


@dataclass(frozen=True)
class _Indices:
    """Where indices stand in a call, and what is asked of them."""

    position: int
    operator: str
    axis: int | None
    """Of the first operand, which they count along."""
    size: int | None
    from_zero: bool


def _asked(call: Call, asked: IndexRange | None) -> Iterator[_Indices]:
    """The operands of indices of a call; ``asked`` is what the foreign framework says of them."""
    held, from_zero = type_of(call.args[0]), asked is not None
    if asked is not None and asked.operator is not None:
        yield _Indices(0, asked.operator, None, asked.size, from_zero)
        return
    for position, axis in _looked_up(call):
        assert isinstance(held, TensorType)
        size = static_value(held.shape[axis])
        yield _Indices(position, call.op, axis % held.ndim, size, from_zero)


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

    def __init__(self, imported: Imported) -> None:
        super().__init__(imported.module)
        self.functions: dict[str, Callable[..., None]] = {}
        self._places, self._ranges = imported.places, imported.index_ranges
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
        for indices in _asked(visited, self._ranges.get(self._bound)):
            args[indices.position] = self._checked(visited, indices)
        same = all(a is b for a, b in zip(args, visited.args, strict=True))
        return visited if same else replace(visited, args=tuple(args))

    def _checked(self, call: Call, asked: _Indices) -> Atom:
        indices = call.args[asked.position]
        kind = tensor_type_of(indices)
        place = self._places.get(self._bound, "")
        axis = "" if asked.axis is None else f", axis {asked.axis}"
        where = f"{asked.operator}{f' at {place}' if place else ''}{axis}"
        name = f"burnish.index_check.{next(_numbers)}"
        self.functions[name] = _check(where, asked)
        operands = (indices,) if asked.size is not None else (indices, call.args[0])
        return self.emit(CallDPSPacked(name, operands, kind))


def _check(where: str, asked: _Indices) -> Callable[..., None]:
    """The environment function: indices, the tensor where its size is not known, and the result."""

    def check(indices: Any, *rest: Any) -> None:
        given = np.asarray(indices.numpy())
        count = asked.size if asked.size is not None else int(rest[0].shape[asked.axis])
        low = 0 if asked.from_zero else -count
        if given.size:
            wrong = (given < low) | (given >= count)
            if wrong.any():
                at = tuple(map(int, np.argwhere(wrong)[0]))
                raise IndexRangeError(
                    f"{where}: expected indices from {low} to {count - 1}, found {given[at]} at "
                    f"place {list(at)} of the indices."
                )
        np.copyto(rest[-1].numpy(), given)

    return check


__all__ = ["with_checked_indices"]
