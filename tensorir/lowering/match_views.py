"""Views that ``T.match_buffer`` names inside of blocks: which element of the source an index means.

A view takes its source's dimensions in order; those of the region that have one element may be
left out, and dimensions of one element may be added. A view of another shape is a reshape, and
needs a region without gaps. Strides and offset that are variables are bound to what they are;
others must be what they are. Views of views resolve through each other to memory. Accesses are
rewritten by their indices, so a view costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...support.errors import CodegenError
from ..buffer import Buffer, ravel, unravel
from ..expr import Expr, IntImm, Var, add, is_const, mul
from ..stmt import MatchBuffer
from ..text.printer import print_expr
from .scope import Scope


@dataclass(frozen=True, slots=True)
class _View:
    """``axes`` has the view's dimension for each of the source's; None if this is a reshape."""

    source: Buffer
    mins: tuple[Expr, ...]
    extents: tuple[Expr, ...]
    shape: tuple[Expr, ...]
    axes: tuple[int | None, ...] | None
    strides: tuple[Expr, ...]
    offset: Expr

    def indices(self, where: Sequence[Expr]) -> tuple[Expr, ...]:
        """The index of the source's element."""
        if self.axes is None:
            inside = unravel(ravel(tuple(where), self.shape), self.extents)
            return tuple([add(m, i) for m, i in zip(self.mins, inside, strict=True)])
        return tuple(
            [
                m if axis is None else add(m, where[axis])
                for m, axis in zip(self.mins, self.axes, strict=True)
            ]
        )


class MatchViews:
    """The views in force, by buffer."""

    def __init__(self) -> None:
        self._views: dict[int, _View] = {}

    def resolve(self, buffer: Buffer, where: tuple[Expr, ...]) -> tuple[Buffer, tuple[Expr, ...]]:
        """The buffer in memory, and the index in it, of an element of ``buffer``."""
        while (view := self._views.get(id(buffer))) is not None:
            buffer, where = view.source, view.indices(where)
        return buffer, where

    def box(self, buffer: Buffer) -> tuple[Buffer, tuple[Expr, ...], tuple[int | None, ...]] | None:
        """The buffer in memory that a view is a box of, the box's extents, and the view's dimension
        for each of the buffer's; None for what is no such view of memory itself."""
        view = self._views.get(id(buffer))
        if view is None or view.axes is None or id(view.source) in self._views:
            return None
        return view.source, view.extents, view.axes

    def require_told_layout(self, buffer: Buffer) -> None:
        """Raises CodegenError for a view without strides that is not as compact as a function that
        is called with a pointer to it must believe."""
        view = self._views.get(id(buffer))
        if view is None or buffer.strides or view.axes is None:
            return
        dims = zip(view.strides, _row_major(view.shape), view.shape, strict=True)
        if not all(is_const(n, 1) or are_equal(s, wanted) for s, wanted, n in dims):
            raise CodegenError(
                f"A function is called with a pointer to the match_buffer {buffer.name!r}, which "
                "is not compact and states no strides. Give it strides=[...] (T.int64() variables "
                f"or numbers) and pass them: the strides are {_text(view.strides)}."
            )

    def bind(
        self,
        match: MatchBuffer,
        ranges: Sequence[tuple[Expr, Expr]],
        shape: tuple[Expr, ...],
        layout: tuple[tuple[Expr, ...], Expr],
    ) -> list[tuple[Expr, Expr]]:
        """Take note of a view of the region ``ranges``, each a minimum and an extent; gives the
        strides and the offset that the program states next to what they are.

        Raises CodegenError for what is no view.
        """
        view, source = match.buffer, match.source.buffer
        if view.dtype is not source.dtype:
            raise CodegenError(
                f"match_buffer {view.name} of {source.name} must keep its dtype, {source.dtype}; "
                f"found {view.dtype}."
            )
        mins, extents = tuple([r[0] for r in ranges]), tuple([r[1] for r in ranges])
        strides, offset = self._layout(source)
        for m, stride in zip(mins, strides, strict=True):
            offset = add(offset, mul(m, stride))
        axes = _aligned(extents, shape)
        if axes is None:
            _require_compact(match, mins, extents, shape)
            own = _row_major(shape)
        else:
            own = _strides_of(axes, strides, shape)
        self._views[id(view)] = _View(source, mins, extents, shape, axes, own, offset)
        stated, stated_offset = layout
        # The stride of a dimension of one element may be any; an offset of 0 is none stated.
        pairs = [
            (wanted, found)
            for wanted, found, n in zip(stated, own, shape, strict=False)
            if isinstance(wanted, Var) or not is_const(n, 1)
        ]
        if not is_const(stated_offset, 0):
            pairs.append((stated_offset, offset))
        return pairs

    def _layout(self, buffer: Buffer) -> tuple[tuple[Expr, ...], Expr]:
        view = self._views.get(id(buffer))
        if view is not None:
            return view.strides, view.offset
        return buffer.strides or _row_major(buffer.shape), buffer.elem_offset


def _row_major(shape: Sequence[Expr]) -> tuple[Expr, ...]:
    strides: list[Expr] = []
    step: Expr = IntImm(1)
    for extent in reversed(shape):
        strides.append(step)
        step = mul(step, extent)
    return tuple(reversed(strides))


def _aligned(extents: Sequence[Expr], shape: Sequence[Expr]) -> tuple[int | None, ...] | None:
    """The view's dimension for each of the region's, from the right; None where they differ by
    more than dimensions of one element."""
    axes: list[int | None] = [None] * len(extents)
    d, v = len(extents) - 1, len(shape) - 1
    while d >= 0 or v >= 0:
        if d >= 0 and v >= 0 and _may_match(extents[d], shape[v]):
            axes[d] = v
            d, v = d - 1, v - 1
        elif d >= 0 and is_const(extents[d], 1):
            d -= 1
        elif v >= 0 and is_const(shape[v], 1):
            v -= 1
        else:
            return None
    return tuple(axes)


def _may_match(extent: Expr, size: Expr) -> bool:
    """Whether a dimension of the region can be one of the view. A symbolic extent, such as what a
    tail leaves of a tile, is taken at the program's word."""
    return not isinstance(extent, IntImm) or are_equal(extent, size)


def _strides_of(
    axes: Sequence[int | None], strides: Sequence[Expr], shape: Sequence[Expr]
) -> tuple[Expr, ...]:
    """The stride of each of the view's dimensions; an added one of one element has any."""
    found: list[Expr] = [IntImm(1)] * len(shape)
    for axis, stride in zip(axes, strides, strict=True):
        if axis is not None:
            found[axis] = stride
    return tuple(found)


def _require_compact(
    match: MatchBuffer, mins: Sequence[Expr], extents: Sequence[Expr], shape: Sequence[Expr]
) -> None:
    view, source = match.buffer, match.source.buffer
    lead = next((d for d, n in enumerate(extents) if not is_const(n, 1)), len(extents))
    whole = all(
        is_const(mins[d], 0) and are_equal(extents[d], source.shape[d])
        for d in range(lead + 1, len(extents))
    )
    same = are_equal(_count(extents), _count(shape))
    if not whole or source.strides or not same:
        raise CodegenError(
            f"match_buffer {view.name} of shape {_text(shape)} is no view of the region of shape "
            f"{_text(extents)} of {source.name}. Expected the region's dimensions, perhaps "
            "without those of one element; or, for a reshape, a region without gaps and as many "
            "elements."
        )


def _count(shape: Sequence[Expr]) -> Expr:
    count: Expr = IntImm(1)
    for n in shape:
        count = mul(count, n)
    return count


def are_equal(a: Expr, b: Expr) -> bool:
    """Whether two indices are equal as linear forms."""
    scope = Scope()
    return scope.linear(a).key == scope.linear(b).key


def _text(shape: Sequence[Expr]) -> str:
    return f"({', '.join(map(print_expr, shape))})"
