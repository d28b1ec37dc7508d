"""Objects of plain classes as trees: the tensors that attributes hold, and what else they are.

torch's pytrees take such an object apart with these two functions once its type is registered.
Numbers of Python, flags and dtypes belong to the tree, not to its leaves: two objects have one
structure only where they are equal. A size that varies is a leaf.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ...support.errors import FrontendError
from .numbers_of_data import SYMBOLIC


@dataclass(frozen=True)
class _Leaf:
    index: int


@dataclass(frozen=True, eq=False)
class _Value:
    kind: type
    value: Any

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Value) or self.kind is not other.kind:
            return False
        with contextlib.suppress(Exception):  # what others make of ==
            return self.value is other.value or bool(np.all(self.value == other.value))
        return False

    def __hash__(self) -> int:
        return hash(self.kind)


@dataclass(frozen=True)
class _Held:
    """What holds others: a sequence, a dict, or an object with attributes."""

    kind: type
    keys: tuple[Any, ...]
    parts: tuple[Any, ...]


class _Reader:
    """Gathers the leaves of one object, and the path to each."""

    def __init__(self) -> None:
        self.leaves: list[Any] = []
        self.paths: list[str] = []
        self.inside: list[Any] = []

    def read(self, value: Any, path: str) -> Any:
        if isinstance(value, SYMBOLIC):
            known = _known(value)
            value = value if known is None else known
        if isinstance(value, (torch.Tensor, *SYMBOLIC)):
            self.leaves.append(value)
            self.paths.append(path)
            return _Leaf(len(self.leaves) - 1)
        parts = _parts(value)
        if parts is None:
            return _Value(type(value), value)
        if any(value is other for other in self.inside):
            raise FrontendError(
                f"{type(self.inside[0]).__name__}{path} is an object that holds itself, which has "
                "no structure to compile: return the tensors that are wanted of it."
            )
        self.inside.append(value)
        word = "{0}[{1!r}]" if isinstance(value, (dict, list, tuple)) else "{0}.{1}"
        held = tuple([self.read(part, word.format(path, key)) for key, part in parts.items()])
        self.inside.pop()
        return _Held(type(value), tuple(parts), held)


def flatten_object(value: Any) -> tuple[list[Any], Any]:
    """The leaves of an object, and its structure."""
    reader = _Reader()
    structure = reader.read(value, "")
    return reader.leaves, structure


def flatten_object_with_paths(value: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """The same, with the path to each leaf, ``layers[0].keys``, as a key: torch takes no path for
    the name of an attribute."""
    reader = _Reader()
    structure = reader.read(value, "")
    paths: list[Any] = [pytree.MappingKey(path.removeprefix(".")) for path in reader.paths]
    return list(zip(paths, reader.leaves, strict=True)), structure


def unflatten_object(leaves: Iterable[Any], structure: Any) -> Any:
    """An object of the same class with these leaves; ``__init__`` is not run."""
    return _made(list(leaves), structure)


def numbers_of(structure: Any) -> list[Any]:
    """The numbers that belong to an object's structure, in order."""
    match structure:
        case _Value(kind, value) if issubclass(kind, (int, float)):
            return [value]
        case _Held(_, _, parts):
            return [number for part in parts for number in numbers_of(part)]
    return []


def _made(leaves: list[Any], structure: Any) -> Any:
    match structure:
        case _Leaf(index):
            return leaves[index]
        case _Value(_, value):
            return value
    parts = [_made(leaves, part) for part in structure.parts]
    kind = structure.kind
    if issubclass(kind, tuple):
        return kind(*parts) if hasattr(kind, "_fields") else kind(parts)
    if issubclass(kind, list):
        return kind(parts)
    named = dict(zip(structure.keys, parts, strict=True))
    if issubclass(kind, dict):
        filled = kind()
        filled.update(named)
        return filled
    made = kind.__new__(kind)
    made.__dict__.update(named)
    return made


def _parts(value: Any) -> dict[Any, Any] | None:
    """What a value holds, by its keys; None of one that holds nothing, or is no plain object."""
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return dict(enumerate(value))
    has_attributes = "__dict__" in dir(type(value)) and not isinstance(value, type)
    if not has_attributes or callable(value) or type(value).__module__.partition(".")[0] == "torch":
        return None
    return dict(vars(value))


def _known(number: Any) -> Any:
    """The number that a symbolic one stands for, where it stands for one alone."""
    node = number.node
    if isinstance(number, torch.SymInt):
        return node.maybe_as_int()
    return node.maybe_as_float() if isinstance(number, torch.SymFloat) else node.maybe_as_bool()
