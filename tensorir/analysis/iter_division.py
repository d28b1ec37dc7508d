"""Subspace division: the bindings of a block as what outer loops give plus what inner loops give.

With ``i = i_0 * 16 + i_1`` and ``i_1`` inner, ``outer * inner_extent + inner`` has the outer part
``i_0``, the inner part ``i_1`` and the inner extent 16: for each value of the outer part the inner
loops run through a whole tile. This is what lets a block be cut into an outer and an inner one
(``blockize``). A division is proved or refused; nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...support.errors import NonAffineError
from ...support.node import walk
from ..arith import detect_iter_map, expr_key
from ..arith.linear import ZERO, Linear, render
from ..expr import Expr, IntImm, Var, add, floordiv, is_const, mul, sub
from ..function import PrimFunc
from ..stmt import For
from .affine import Bounds, loop_bounds, mentions
from .conditions import conjunction, conjuncts
from .loop_checks import ceil_div
from .nested_blocks import Nested
from .preconditions import fail


@dataclass(slots=True)
class AxisDivision:
    """``outer * inner_extent + inner`` of one axis; ``outer`` lies in ``[0, outer_extent)``."""

    outer: Expr
    outer_extent: Expr
    inner: Expr
    inner_extent: Expr


@dataclass(slots=True)
class Division:
    """The division of a block's bindings, and of its predicate into the conditions on outer loops
    alone, on inner loops alone, and on both. ``is_injective`` says that the inner loops run each
    instance once."""

    axes: list[AxisDivision]
    outer_conditions: list[Expr]
    inner_conditions: list[Expr]
    mixed_conditions: list[Expr]
    is_injective: bool


def divide(
    func: PrimFunc, nested: Nested, outer_loops: Sequence[For], above: Bounds, primitive: str
) -> Division:
    """Divide the bindings of a block between ``outer_loops`` and the loops of ``nested``.

    ``above`` are the ranges of what is in scope further out. Raises NonAffineError where an axis
    cannot be divided.
    """
    realize, inner_loops = nested.realize, nested.loops
    outer, inner = loop_bounds(outer_loops), loop_bounds(inner_loops)
    every = above | outer | inner
    division = Division([], [], [], [], is_injective=False)
    for c in conjuncts(realize.predicate):
        of_outer, of_inner = mentions(c, outer), mentions(c, inner)
        if of_outer and of_inner:
            division.mixed_conditions.append(c)
        elif of_inner:
            division.inner_conditions.append(c)
        else:
            division.outer_conditions.append(c)
    parts = [_parts(func, nested, value, inner, every, primitive) for value in realize.iter_values]
    extents = _inner_extents(func, nested, [p for _, p in parts], division, every, primitive)
    bounds = above | outer
    outside = conjunction(division.outer_conditions)
    for it, (base, own), extent in zip(realize.block.iter_vars, parts, extents, strict=True):
        axis = _divided(base, own, extent, it.dom.extent, bounds, outside)
        if axis is None or not is_const(it.dom.min, 0):
            shown = extent.value if isinstance(extent, IntImm) else "a symbolic number"
            found = (
                f"The axis {it.var.name!r} of {realize.block.name!r} does not fall into whole "
                f"tiles: for each iteration of the outer loops the inner ones take {shown} values "
                "of it, and the outer part of its binding is no multiple of that, or leaves its "
                "domain. Split the loops so that the tile divides them."
            )
            raise fail(NonAffineError, primitive, func, [realize], found)
        division.axes.append(axis)
    return division


def _parts(
    func: PrimFunc, nested: Nested, value: Expr, inner: Bounds, every: Bounds, primitive: str
) -> tuple[Expr, Expr]:
    """The terms of a binding without and with inner loops; the constant goes to the former."""
    outer = [v for v in every.ranges if v not in inner]
    form = every.linear(value)
    own: dict[Expr, int] = {}
    for atom, k in form.terms.items():
        if not mentions(atom, inner):
            continue
        if any(n is v for n in walk(atom) if isinstance(n, Var) for v in outer):
            found = (
                f"A binding of {nested.block.name!r} mixes outer and inner loops in one term, so "
                "that it cannot be divided between them. Blockize before fusing these loops."
            )
            raise fail(NonAffineError, primitive, func, [nested.realize], found)
        own[atom] = k
    moving = Linear(own)
    return render(form - moving), render(moving)


def _inner_extents(
    func: PrimFunc,
    nested: Nested,
    parts: Sequence[Expr],
    division: Division,
    every: Bounds,
    primitive: str,
) -> list[Expr]:
    """How many values each inner part takes; all combinations of them must be taken."""
    loops = {loop.var: loop.extent for loop in nested.loops}
    found = None
    if all(is_const(loop.min, 0) for loop in nested.loops):
        known = [c for c in division.inner_conditions if not every.proves(c)]
        predicate = conjunction(known) if known else None
        found = detect_iter_map(parts, loops, predicate, every.prover)
    whole = found is not None and found.is_surjective
    if found is None or not (
        whole
        and all(t.extent is not None and t.is_unit and t.base.key == ZERO.key for t in found.sums)
    ):
        raise fail(
            NonAffineError,
            primitive,
            func,
            [nested.realize],
            f"The inner loops of {nested.block.name!r} do not run through a whole tile of its "
            "iteration space: its bindings are not an affine map of them onto a box.",
        )
    division.is_injective = found.is_injective
    extents = []
    for t in found.sums:
        assert t.extent is not None
        extents.append(every.simplify(render(t.extent)))
    return extents


def _divided(
    base: Expr, own: Expr, extent: Expr, size: Expr, bounds: Bounds, outside: Expr
) -> AxisDivision | None:
    if is_const(base, 0):
        return AxisDivision(IntImm(0), IntImm(1), own, extent)
    if is_const(extent, 1) and expr_key(base) == expr_key(own):
        return None
    if is_const(extent, 1) and is_const(own, 0):
        # The axis keeps its binding, which lies in its domain already, whether that can be proved
        # again or not.
        return AxisDivision(base, size, own, extent)
    outer = base if is_const(extent, 1) else bounds.simplify(floordiv(base, extent))
    if not bounds.proves_equal(mul(outer, extent), base):
        return None
    count = ceil_div(size, extent, bounds)
    with bounds.prover.constraint(outside):
        low = bounds.proves_le(IntImm(0), outer)
        high = bounds.proves_le(add(outer, 1), count)
    return AxisDivision(outer, count, own, extent) if low and high else None


def same_axis(a: AxisDivision, b: AxisDivision, bounds: Bounds) -> bool:
    """Whether two blocks' axes have the same outer part, and so may share an outer axis."""
    return is_const(bounds.prover.simplify(sub(a.outer, b.outer)), 0) and bounds.proves_equal(
        a.outer_extent, b.outer_extent
    )
