"""What primitives ask of the loops they take: serial, affinely bound, each instance run once."""

from __future__ import annotations

from collections.abc import Sequence

from ...support.errors import DependenceError, LoopKindError, NonAffineError
from ..arith.linear import render
from ..expr import Expr, IntImm, floordiv, is_const, sub
from ..function import PrimFunc
from ..stmt import BlockRealize, For, Stmt
from .affine import Bounds, is_independent, loop_bounds, undetermined
from .nested_blocks import Nested, blocks_below
from .paths import Path
from .preconditions import fail


def require_plain_serial(func: PrimFunc, loop: For, primitive: str) -> None:
    """Raises LoopKindError unless the loop is serial, without annotations, and begins at 0."""
    name = loop.var.name
    if loop.kind != "serial":
        found = (
            f"Expected a serial loop; {name!r} is {loop.kind}. Do this before changing its kind."
        )
    elif loop.annotations:
        keys = ", ".join(repr(k) for k, _ in loop.annotations)
        found = f"Expected a loop without annotations; {name!r} has {keys}, which would be lost."
    elif not is_const(loop.min, 0):
        found = f"Expected a loop that begins at 0; {name!r} does not."
    else:
        return
    raise fail(LoopKindError, primitive, func, [loop], found)


def require_affine(func: PrimFunc, n: Nested, loops: Sequence[For], primitive: str) -> None:
    """Raises NonAffineError unless axes are spatial or reduce and bound injectively and
    affinely."""
    block = n.block
    for it in block.iter_vars:
        if it.kind not in ("spatial", "reduce"):
            found = (
                f"Expected spatial and reduce axes; the axis {it.var.name!r} of "
                f"{block.name!r} is {it.kind}."
            )
            raise fail(NonAffineError, primitive, func, [block], found)
    bounds = loop_bounds(loops)
    if not block.iter_vars and loops:
        found = f"The block {block.name!r} has no axes, so nothing is known of its iterations."
        raise fail(NonAffineError, primitive, func, [block], found)
    if not is_independent(n.realize.iter_values, bounds):
        found = (
            f"The bindings of {block.name!r} are not an affine map of its loops that gives each "
            "iteration axes of its own."
        )
        raise fail(NonAffineError, primitive, func, [n.realize], found)


def inner_loops(s: Stmt) -> list[For]:
    return [loop for n in blocks_below(s) for loop in n.loops]


def ceil_div(extent: Expr, by: Expr, bounds: Bounds) -> Expr:
    """``extent / by`` rounded up, without rounding where ``by`` divides the extent's canonical
    sum."""
    if isinstance(by, IntImm):
        form = bounds.linear(extent)
        if not any(k % by.value for k in (*form.terms.values(), form.const)):
            return render(form.divide(by.value))
    return bounds.simplify(floordiv(extent + sub(by, 1), by))


def require_once(
    func: PrimFunc, realize: BlockRealize, loops: Sequence[For], primitive: str
) -> None:
    """Raises DependenceError where the loops might run an instance of the block more than once."""
    name = realize.block.name
    repeated = undetermined(realize.iter_values, loop_bounds(loops))
    if repeated is None:
        found = (
            f"It cannot be proved that the loops run each instance of {name!r} once: its bindings "
            "are not an affine map of them."
        )
        raise fail(DependenceError, primitive, func, [realize], found)
    for loop in loops:
        if any(v is loop.var for v in repeated):
            found = (
                f"The loop {loop.var.name!r} runs {name!r} several times for the same elements, "
                "as compute_at made it: terms would be added more than once. Do this before "
                "compute_at, or name a loop further in."
            )
            raise fail(DependenceError, primitive, func, [loop], found)


def own_nest(path: Path) -> Path:
    """The path to the outermost loop that holds nothing but the block."""
    end = len(path) - 1
    while isinstance(path[end - 1], For):
        end -= 1
    return path[: end + 1]
