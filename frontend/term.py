"""Formulas over values of the graph, written as one writes them: ``(x - mean) * scale``.

A Term is an atom with Python's operators. Numbers take the dtype of the term beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self, TypeAlias, TypeVar

import numpy as np

from ..graphir.expr import Atom, ShapeExpr, constant
from ..support.dtype import DType
from ..support.errors import FrontendError
from ..tensorir.expr import Expr, IntImm
from .integer_division import Emitter

Operand: TypeAlias = "Term | float | int | bool"
T = TypeVar("T", bound="Term")


class TermContext(Emitter, Protocol):
    """The part of a front end's context that makes terms."""

    def cast(self, atom: Atom, dtype: DType) -> Atom: ...
    def scalar(self, value: float, dtype: DType) -> Atom: ...
    def shape(self, dims: Sequence[Expr | int]) -> ShapeExpr: ...
    def reshape(self, x: Atom, dims: Sequence[Expr | int]) -> Atom: ...


class Term:
    """A tensor of the graph in a formula."""

    def __init__(self, context: TermContext, atom: Atom) -> None:
        self.context, self.atom = context, atom

    def _made(self, atom: Atom) -> Self:
        return type(self)(self.context, atom)

    # -- what it is ------------------------------------------------------------------------------
    @property
    def shape(self) -> tuple[Expr, ...]:
        return self.context.type(self.atom).shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> DType:
        return self.context.type(self.atom).dtype

    def sizes(self, what: str, first: int = 0) -> tuple[int, ...]:
        """The shape from an axis on, which must be static; ``what`` needs it."""
        found = [d.value for d in self.shape[first:] if isinstance(d, IntImm)]
        if len(found) != len(self.shape[first:]):
            raise FrontendError(f"{what} needs static sizes; make the dims static.")
        return tuple(found)

    # -- making others ---------------------------------------------------------------------------
    def op(self, name: str, *operands: Operand, **attrs: Any) -> Self:
        """An operator of it and of others."""
        atoms = [self._atom(x) for x in operands]
        return self._made(self.context.op(name, self.atom, *atoms, **attrs))

    def _atom(self, x: Operand) -> Atom:
        return x.atom if isinstance(x, Term) else self.context.scalar(x, self.dtype)

    def like(self, x: Operand) -> Self:
        """A number or a term in the dtype of this one."""
        return self._made(self._atom(x)).cast(str(self.dtype))

    def cast(self, dtype: str) -> Self:
        return self._made(self.context.cast(self.atom, DType(dtype)))

    def data(self, array: Any, dtype: str | None = None) -> Self:
        """A constant, of its own dtype where none is said."""
        kind = dtype or str(self.dtype)
        return self._made(constant(np.asarray(array), kind))

    def reshape(self, *dims: Expr | int) -> Self:
        return self._made(self.context.reshape(self.atom, dims))

    def expand(self, *dims: Expr | int) -> Self:
        """Broadcast to a shape."""
        return self._made(self.context.op("broadcast_to", self.atom, self.context.shape(dims)))

    def permute(self, *axes: int) -> Self:
        return self.op("permute_dims", axes=axes)

    def channels_first(self) -> Self:
        """(batch, places ..., channels) as (batch, channels, places ...)."""
        return self.permute(0, self.ndim - 1, *range(1, self.ndim - 1))

    def channels_last(self) -> Self:
        """(batch, channels, places ...) as (batch, places ..., channels)."""
        return self.permute(0, *range(2, self.ndim), 1)

    def swap(self, a: int = -1, b: int = -2) -> Self:
        """Two axes exchanged."""
        axes = list(range(self.ndim))
        axes[a], axes[b] = axes[b], axes[a]
        return self.permute(*axes)

    def unsqueeze(self, *axes: int) -> Self:
        return self.op("expand_dims", axis=axes)

    def cut(self, axis: int, begin: int | None, end: int | None, step: int = 1) -> Self:
        bounds = {"begin": (begin,), "end": (end,), "strides": (step,)}
        return self.op("strided_slice", axes=(axis,), **bounds)

    def at(self, axis: int, index: int) -> Self:
        """One place of an axis, which goes."""
        return self.cut(axis, index, index + 1 or None).op("squeeze", axis=axis)

    def parts(self, axis: int, count: int) -> list[Self]:
        """An axis of static size in equal parts."""
        size = self.shape[axis]
        each = (size.value if isinstance(size, IntImm) else 0) // count
        return [self.cut(axis, i * each, (i + 1) * each) for i in range(count)]

    def where(self, yes: Operand, no: Operand) -> Self:
        """A condition's choice; one of the two is a term."""
        like = yes if isinstance(yes, Term) else no
        assert isinstance(like, Term)
        atoms = [like._atom(yes), like._atom(no)]
        return self._made(self.context.op("where", self.atom, *atoms))

    def sum(self, *axes: int, keepdims: bool = False) -> Self:
        return self.op("sum", axis=axes or None, keepdims=keepdims)

    def floor_divide(self, divisor: int) -> Self:
        return self.op("floor_divide", divisor)

    def modulo(self, divisor: int) -> Self:
        return self.op("floor_mod", divisor)

    def __add__(self, other: Operand) -> Self:
        return self.op("add", other)

    def __sub__(self, other: Operand) -> Self:
        return self.op("subtract", other)

    def __mul__(self, other: Operand) -> Self:
        return self.op("multiply", other)

    def __truediv__(self, other: Operand) -> Self:
        return self.op("divide", other)

    def __radd__(self, other: float) -> Self:
        return self + other

    def __rmul__(self, other: float) -> Self:
        return self * other

    def __rsub__(self, other: float) -> Self:
        return self.data(other) - self

    def __neg__(self) -> Self:
        return self.op("negative")

    def __matmul__(self, other: Term) -> Self:
        return self.op("matmul", other)

    def __lt__(self, other: Operand) -> Self:
        return self.op("less", other)

    def __le__(self, other: Operand) -> Self:
        return self.op("less_equal", other)

    def __gt__(self, other: Operand) -> Self:
        return self.op("greater", other)

    def __ge__(self, other: Operand) -> Self:
        return self.op("greater_equal", other)

    def __and__(self, other: Term) -> Self:
        return self.op("logical_and", other)

    def __or__(self, other: Term) -> Self:
        return self.op("logical_or", other)

    def equals(self, other: Operand) -> Self:
        return self.op("equal", other)


def join(terms: Sequence[T], axis: int) -> T:
    """Terms along an axis."""
    return terms[0] if len(terms) == 1 else terms[0].op("concat", *terms[1:], axis=axis)


def stack(terms: Sequence[T], axis: int) -> T:
    """Terms along a new axis."""
    return join([t.unsqueeze(axis) for t in terms], axis)
