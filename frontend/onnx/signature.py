"""What goes into a model and comes out of it: tensors, sequences of them, optionals.

A program takes and gives tensors alone. A sequence is a parameter for each of its elements, and an
optional is one or none, as the call has it: their types are asked for (``Question``). Numbers of
narrow dtypes come and go in memory of the dtype that they are stored in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from onnx import TypeProto, ValueInfoProto

from ...graphir.dim import parse_dim, substitute_dim
from ...graphir.expr import Atom, Var
from ...graphir.type import TensorType
from ...support.call_form import CallForm, SizeRange
from ...support.errors import (
    BurnishError,
    DTypeMismatchError,
    FrontendError,
    ShapeMismatchError,
)
from ...support.writer import NameTable
from ...tensorir.expr import Expr, IntImm
from ...tensorir.expr import Var as DimVar
from ..imported import InputTypes, SizeRelation
from .narrow import NARROW, from_stored, narrow_name, to_stored
from .registry import Context, Narrow, Value, import_dtype
from .size_bounds import relation

Shapes: TypeAlias = "tuple[int, ...] | list[Shapes] | None"
Bound: TypeAlias = "Var | Narrow | list[Bound] | None"


class Inputs:
    """The inputs of a graph that are no initializers."""

    def __init__(self, values: Sequence[ValueInfoProto]) -> None:
        # Of their own: a part of a model in memory holds the whole.
        self.values = [ValueInfoProto.FromString(v.SerializeToString()) for v in values]
        self.names = [v.name for v in values]
        self.params: list[Var] = []
        self._kinds: list[str] = []
        self._dims: dict[str, DimVar] = {}
        self._known: dict[DimVar, Expr] = {}
        self._names = NameTable()

    @property
    def dim_names(self) -> tuple[str, ...]:
        """The symbolic dims, one for each name that the model gives them, less those that are known
        to be others."""
        return tuple([v.name for v in self._dims.values() if v not in self._known])

    def relation(self, error: BurnishError) -> SizeRelation | None:
        """What could be asked of the sizes of a call, so that an error does not arise."""
        places: dict[str, tuple[str, int, int]] = {}
        for i, param in enumerate(self.params):
            assert isinstance(param.type, TensorType)
            for axis, dim in enumerate(param.type.shape):
                if isinstance(dim, DimVar):
                    places.setdefault(dim.name, (dim.name, i, axis))
        found = relation(error, places)
        return found and SizeRelation(*found, tuple(places.values()))

    def _name_dims(self, context: Context) -> None:
        """A name for each symbolic dim, in the order of the inputs."""
        for value in self.values:
            for i, name in enumerate(_sizes(value)):
                if isinstance(name, int):
                    continue
                if not isinstance(name, str):  # protobuf gives the bytes of what is no UTF-8
                    raise FrontendError(
                        f"input {value.name!r}: the name of dim {i} is no text; the file is "
                        "damaged."
                    )
                if name not in self._dims:
                    self._dims[name] = DimVar(context.dim_names.fresh(name))

    def _resolved(self, dim: Expr) -> Expr:
        """A symbolic dim in terms of those that stay."""
        after = substitute_dim(dim, self._known)
        return dim if after is dim else self._resolved(after)

    def declared(self) -> tuple[tuple[str, tuple[str, ...], str], ...]:
        """(name, shape, dtype) of each input, as the model says them; nothing where it has others
        than tensors of known rank."""
        if self.is_open:
            return ()
        found = []
        for value in self.values:
            shape = tuple([str(size) for size in _sizes(value)])
            found.append((value.name, shape, _kind(value.type.tensor_type.elem_type, value.name)))
        return tuple(found)

    def ranges(self, at_most: Mapping[str, int]) -> tuple[SizeRange, ...]:
        """Where calls have those symbolic dims that are bounded."""
        found: dict[str, SizeRange] = {}
        for i, param in enumerate(self.params):
            assert isinstance(param.type, TensorType)
            for axis, dim in enumerate(param.type.shape):
                if isinstance(dim, DimVar) and dim.name in at_most:
                    found.setdefault(dim.name, SizeRange(dim.name, i, axis, 0, at_most[dim.name]))
        return tuple(found.values())

    @property
    def is_open(self) -> bool:
        """Whether some input's shape is known from a call alone."""
        return any(
            not v.type.HasField("tensor_type") or not v.type.tensor_type.HasField("shape")
            for v in self.values
        )

    @property
    def is_plain(self) -> bool:
        """Every input is a tensor of a dtype that programs have."""
        tensors = all(v.type.HasField("tensor_type") for v in self.values)
        return tensors and not any(v.type.tensor_type.elem_type in NARROW for v in self.values)

    def bind(
        self, context: Context, types: InputTypes | None, related: Mapping[str, str] | None = None
    ) -> None:
        """A parameter for each tensor; symbolic dims that are ``related`` are what the text says.
        Raises FrontendError for what no call could give."""
        self._name_dims(context)
        by_name = {v.name: v for v in self._dims.values()}
        for name, text in (related or {}).items():
            if name in by_name:
                self._known[by_name[name]] = parse_dim(text, by_name.__getitem__)
        shapes: Sequence[Any] = [()] * len(self.values) if types is None else types.shapes
        for value, shape in zip(self.values, shapes, strict=True):
            where = f"input {value.name!r}"
            if types is None:
                bound: Any = self._declared(context, value, where)
            else:
                bound = self._given(value.type, shape, value.name, where)
            context.values[value.name] = bound

    def _declared(self, context: Context, value: ValueInfoProto, where: str) -> Bound:
        if not value.type.HasField("tensor_type"):
            raise FrontendError(f"{where} is no tensor.")
        kind = value.type.tensor_type
        if not kind.HasField("shape"):
            raise FrontendError(
                f"{where} has no shape; export the model with one, or set it in graph.input. Dims "
                "may be symbolic."
            )
        shape = [
            IntImm(size) if isinstance(size, int) else self._resolved(self._dims[size])
            for size in _sizes(value)
        ]
        return self._param(value.name, shape, kind.elem_type, where)

    def _given(self, kind: TypeProto, shapes: Shapes, name: str, where: str) -> Bound:
        if kind.HasField("optional_type"):
            inner = kind.optional_type.elem_type
            return None if shapes is None else self._given(inner, shapes, name, where)
        if kind.HasField("sequence_type"):
            if not isinstance(shapes, list):
                raise FrontendError(f"{where}: expected a list of tensors.")
            inner = kind.sequence_type.elem_type
            return [self._given(inner, s, f"{name}_{i}", where) for i, s in enumerate(shapes)]
        if not kind.HasField("tensor_type") or not isinstance(shapes, tuple):
            raise FrontendError(f"{where} is no tensor.")
        declared = [d.dim_value for d in kind.tensor_type.shape.dim]
        if kind.tensor_type.HasField("shape") and (
            len(declared) != len(shapes)
            or any(d > 0 and d != s for d, s in zip(declared, shapes, strict=True))
        ):
            raise ShapeMismatchError(where, str(tuple(declared)), str(shapes))
        dims = [IntImm(n) for n in shapes]
        return self._param(name, dims, kind.tensor_type.elem_type, where)

    def _param(self, name: str, shape: Sequence[Expr], number: int, where: str) -> Bound:
        kind = TensorType(tuple(shape), import_dtype(number, where))
        self.params.append(Var(self._names.name(name, name), kind))
        self._kinds.append(_kind(number, where))
        return Narrow(self.params[-1], number) if number in NARROW else self.params[-1]

    # -- calls -----------------------------------------------------------------------------------
    def form(self, results: int, ranges: Sequence[SizeRange] = ()) -> CallForm:
        """Inputs by position, by keyword, or as one dict."""
        plain = CallForm.plain(self.names, results, takes_dict=True)
        return replace(plain, ranges=tuple(ranges))

    def nested(self) -> Callable[[tuple[Any, ...], Mapping[str, Any]], list[Any]]:
        """The inputs of a call, as they are given."""
        return self.form(1).flatten

    def flattened(
        self, ranges: Sequence[SizeRange]
    ) -> Callable[[tuple[Any, ...], Mapping[str, Any]], list[Any]]:
        """The same as a tensor for each parameter."""
        select = self.form(1, ranges).flatten

        def flatten(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
            given = _leaves(select(args, kwargs))
            for x, kind, param in zip(given, self._kinds, self.params, strict=False):
                found = narrow_name(x)
                if found is not None and found != kind:
                    raise DTypeMismatchError(f"input {param.name!r}", kind, found)
            return [to_stored(x) for x in given]

        return flatten


def _sizes(value: ValueInfoProto) -> list[int | str]:
    """The dims of a tensor, each a number or its name, which without one is that of its place."""
    if not value.type.HasField("tensor_type"):
        return []
    return [
        d.dim_value
        if d.HasField("dim_value") and d.dim_value >= 0
        else d.dim_param or f"{value.name}_dim{i}"
        for i, d in enumerate(value.type.tensor_type.shape.dim)
    ]


def _kind(number: int, where: str) -> str:
    """The dtype that a call has: of narrow ones their own, not that they are stored in."""
    return NARROW[number].name if number in NARROW else str(import_dtype(number, where))


def _leaves(values: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for v in values:
        if isinstance(v, (list, tuple)):
            found += _leaves(v)
        elif v is not None:
            found.append(v)
    return found


class Outputs:
    """The outputs of a graph: their tensors, and how a call has them."""

    def __init__(self, context: Context, values: Sequence[Value], where: str) -> None:
        self.tensors: list[Atom] = []
        self._tree = [self._place(context, v, where) for v in values]

    def _place(self, context: Context, value: Value, where: str) -> Any:
        """None, a list, or (the place among the tensors, the dtype they stand for)."""
        if value is None:
            return None
        if isinstance(value, list):
            return [self._place(context, v, where) for v in value]
        if isinstance(value, Narrow):
            self.tensors.append(value.stored)
            return len(self.tensors) - 1, value.kind
        self.tensors.append(context.tensor(value, where))
        return len(self.tensors) - 1, None

    @property
    def is_plain(self) -> bool:
        """Whether the outputs are the tensors as they are."""
        return all(isinstance(t, tuple) and t[1] is None for t in self._tree)

    def restore(self) -> Callable[[list[Any]], Any]:
        """From the tensors to what a call gives: a tuple, or the only output."""
        tree = self._tree

        def build(place: Any, tensors: list[Any]) -> Any:
            if place is None:
                return None
            if isinstance(place, list):
                return [build(p, tensors) for p in place]
            made = tensors[place[0]]
            return made if place[1] is None else from_stored(made, place[1])

        def restored(tensors: list[Any]) -> Any:
            made = [build(p, tensors) for p in tree]
            return made[0] if len(made) == 1 else tuple(made)

        return restored
