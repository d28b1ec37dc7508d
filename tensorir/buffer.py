"""Buffers: typed, shaped pieces of memory that a PrimFunc reads and writes."""

from __future__ import annotations

from typing import NoReturn

from ..support.dtype import DType
from ..support.node import Node, node
from .expr import INDEX, BufferLoad, Expr, ExprLike, IntImm, as_expr

SCOPES = ("global", "local", "register", "shared", "warp")
"""``global``: memory that may be parallel over threads (parameters, workspace shared by all
threads). ``local``: workspace of one thread. ``register``: indices must be constants after
unrolling; becomes SSA values. ``shared`` and ``warp`` are GPU names that the texts use; a CPU
treats them as global. A tag behind a scope, ``global.A_reg``, tells buffers apart for who reads the
program; the memory is that of the scope."""


def is_scope(name: object) -> bool:
    """Whether a name is a storage scope, with a tag or without."""
    if not isinstance(name, str):
        return False
    scope, dot, tag = name.partition(".")
    words = tag.split(".")
    return scope in SCOPES and (not dot or all(w.isidentifier() and w.isascii() for w in words))


@node
class Buffer(Node):
    """A binder: two buffers are the same only if they are one object.

    ``strides`` is empty for a compact row-major layout; ``elem_offset`` is in elements;
    ``alignment`` is in bytes, 0 for the alignment of the dtype.
    """

    name: str
    shape: tuple[Expr, ...]
    dtype: DType
    scope: str = "global"
    strides: tuple[Expr, ...] = ()
    elem_offset: Expr = IntImm(0, INDEX)
    alignment: int = 0

    def __getitem__(self, indices: ExprLike | tuple[ExprLike, ...]) -> BufferLoad:
        items = indices if isinstance(indices, tuple) else (indices,)
        return BufferLoad(
            self, tuple([as_expr(i, INDEX) if not isinstance(i, Expr) else i for i in items])
        )

    def __iter__(self) -> NoReturn:
        # Python would ask for A[0], A[1] and so on without end.
        raise TypeError(f"No Python loop runs through {self.name!r}: its elements have no values.")

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def all_strides(self) -> tuple[Expr, ...]:
        """The strides, those of a compact layout too."""
        if self.strides:
            return self.strides
        found: list[Expr] = []
        step: Expr = IntImm(1, INDEX)
        for extent in reversed(self.shape):
            found.append(step)
            step = step * extent
        return tuple(reversed(found))

    @property
    def memory(self) -> str:
        """The scope without its tag: one of SCOPES."""
        return self.scope.partition(".")[0]

    def __repr__(self) -> str:
        return f"Buffer({self.name})"


@node
class Range(Node):
    """``[min, min + extent)``."""

    min: Expr
    extent: Expr


@node
class BufferRegion(Node):
    """A box of a buffer, one range a dimension."""

    buffer: Buffer
    region: tuple[Range, ...]


def make_buffer(
    name: str,
    shape: tuple[ExprLike, ...] | list[ExprLike],
    dtype: str = "float32",
    scope: str = "global",
) -> Buffer:
    """A compact buffer; ints in ``shape`` become int64 constants."""
    return Buffer(name, tuple([as_expr(s) for s in shape]), DType(dtype), scope)


def ravel(indices: tuple[Expr, ...], shape: tuple[Expr, ...]) -> Expr:
    """The row-major position of an element."""
    flat: Expr = IntImm(0, INDEX)
    for i, extent in zip(indices, shape, strict=True):
        flat = flat * extent + i
    return flat


def unravel(flat: Expr, shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The indices of the element at a row-major position."""
    indices: list[Expr] = []
    for d in range(len(shape) - 1, -1, -1):
        indices.append(flat if d == 0 else flat % shape[d])
        flat = flat // shape[d]
    return tuple(reversed(indices))
