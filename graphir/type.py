"""Types of graphir values. Dimensions are tensorir expressions: int64 constants or arithmetic over
symbolic Vars; a symbolic dim is one Var object throughout a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias, assert_never

from ..support.dtype import DType
from ..support.errors import DTypeError
from ..support.node import Node, node
from ..tensorir.expr import Expr, ExprLike, Var, as_expr
from .dim import shape_equal, substitute_dim


@node
class TensorType(Node):
    """A dense tensor; a scalar has the shape ``()``."""

    shape: tuple[Expr, ...]
    dtype: DType

    @property
    def ndim(self) -> int:
        return len(self.shape)


@node
class TupleType(Node):
    fields: tuple[Type, ...]


@node
class ShapeType(Node):
    """The type of a shape value; ``values`` are its dims."""

    values: tuple[Expr, ...]


Type: TypeAlias = TensorType | TupleType | ShapeType


def tensor_type(shape: tuple[ExprLike, ...] | list[ExprLike], dtype: str = "float32") -> TensorType:
    """A TensorType; ints become int64 constants.

    Raises DTypeError for a dim that is neither an int nor an int64 expression.
    """
    if not isinstance(shape, (tuple, list)):
        raise DTypeError(repr(shape), ("a tuple of dims",), what="for a tensor's shape")
    for s in shape:
        if isinstance(s, bool) or not isinstance(s, (int, Expr)):
            wanted = 'an int, or a variable: n = te.var("n"), the same object wherever it is meant'
            raise DTypeError(repr(s), (wanted,), what="for a dim of a tensor's shape")
    return TensorType(tuple([as_expr(s) for s in shape]), DType(dtype))


def types_equal(a: Type, b: Type) -> bool:
    """Whether the types are one: same structure and dtypes, dims proved equal over the same
    Vars."""
    if a is b:
        return True
    match a, b:
        case TensorType(), TensorType():
            return a.dtype is b.dtype and shape_equal(a.shape, b.shape)
        case TupleType(), TupleType():
            return len(a.fields) == len(b.fields) and all(map(types_equal, a.fields, b.fields))
        case ShapeType(), ShapeType():
            return shape_equal(a.values, b.values)
    return False


def map_dims(kind: Type, fn: Callable[[Expr], Expr]) -> Type:
    """The type with ``fn`` applied to every dim."""
    match kind:
        case TensorType():
            return TensorType(tuple([fn(d) for d in kind.shape]), kind.dtype)
        case TupleType():
            return TupleType(tuple([map_dims(f, fn) for f in kind.fields]))
        case ShapeType():
            return ShapeType(tuple([fn(d) for d in kind.values]))
    assert_never(kind)


def substitute_type(kind: Type, values: Mapping[Var, Expr]) -> Type:
    """The type with symbolic Vars replaced (by identity)."""
    return map_dims(kind, lambda dim: substitute_dim(dim, values))


def dims_of(kind: Type) -> list[Expr]:
    """Every dim of the type, left to right."""
    match kind:
        case TensorType():
            return list(kind.shape)
        case TupleType():
            return [d for f in kind.fields for d in dims_of(f)]
        case ShapeType():
            return list(kind.values)
    assert_never(kind)


def tensors_of(kind: Type) -> list[TensorType]:
    """The tensors of the type, left to right: what a destination-passing callee writes."""
    match kind:
        case TensorType():
            return [kind]
        case TupleType():
            return [t for f in kind.fields for t in tensors_of(f)]
        case ShapeType():
            return []
    assert_never(kind)
