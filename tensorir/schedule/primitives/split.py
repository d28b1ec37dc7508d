"""split: a nest of loops in place of one.

Bindings and predicates change; a block's body and regions are written over its iter vars and stay
as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....support.errors import ScheduleValueError
from ...analysis.affine import Bounds, loop_bounds
from ...analysis.loop_checks import ceil_div, inner_loops, require_plain_serial
from ...analysis.nested_blocks import map_outer_realizes
from ...analysis.paths import all_loops_above, find_loop, loop_of, rebuild, with_body
from ...analysis.preconditions import fail
from ...expr import INDEX, Expr, IntImm, Var, int_limits, is_const, mul
from ...function import PrimFunc
from ...stmt import For
from ...text.printer import print_expr
from ..primitive import ATTR, INPUT, LOOP, LOOPS, primitive
from ..state import IntLike, ScheduleState
from ..trace.handles import LoopHandle, LoopRV

Factor = int | Expr | None


class Split(ScheduleState):
    @primitive(LOOPS, loop=LOOP, factors=INPUT, preserve_unit_iters=ATTR, disable_predication=ATTR)
    def split(
        self,
        loop: LoopRV,
        factors: Sequence[IntLike | None],
        preserve_unit_iters: bool = True,
        disable_predication: bool = False,
    ) -> list[LoopRV]:
        """Replace a loop by a nest of loops, whose handles are returned, outermost first.

        ``factors`` are the extents of the new loops: ints, sampled values, or expressions; one of
        them may be None (or -1), and is then the extent divided by the others, rounded up. Where
        their product is not provably the extent, the blocks below get a predicate, unless
        ``disable_predication`` says that the overshoot is harmless. With
        ``preserve_unit_iters=False`` loops of extent 1 do not appear in the bindings.

        Requires:

        - a plain serial loop (LoopKindError);
        - positive factors, at most one of them None (ScheduleValueError);
        - a product that reaches the extent (ScheduleValueError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((30,), "float32"), B: T.Buffer((30,), "float32")):
                for i in range(30):
                    with T.block("B"):
                        vi = T.axis.spatial(30, i)
                        B[vi] = A[vi] + T.float32(1)

        Schedule::

            (i,) = sch.get_loops("B")
            outer, inner = sch.split(i, factors=[None, 8])

        After::

            @T.prim_func
            def main(A: T.Buffer((30,), "float32"), B: T.Buffer((30,), "float32")):
                for i_0, i_1 in T.grid(4, 8):
                    with T.block("B"):
                        vi = T.axis.spatial(30, i_0 * 8 + i_1)
                        T.where(i_0 * 8 + i_1 < 30)
                        B[vi] = A[vi] + T.float32(1)
        """
        given = self._factors(factors, "split")
        func, variables = split(
            self._functions[loop.func_name],
            loop.var,
            [None if f == -1 else f for f in given],
            preserve_unit_iters=preserve_unit_iters,
            disable_predication=disable_predication,
        )
        self._commit(loop.func_name, func)
        return [LoopHandle(v, loop.func_name) for v in variables]


def split(
    func: PrimFunc,
    var: Var,
    factors: Sequence[Factor],
    *,
    preserve_unit_iters: bool = True,
    disable_predication: bool = False,
) -> tuple[PrimFunc, list[Var]]:
    """Replace a loop by a nest of loops."""
    path = find_loop(func, var, "split")
    loop = loop_of(path)
    require_plain_serial(func, loop, "split")
    bounds = loop_bounds(all_loops_above(path))
    extents = _split_extents(func, loop, factors, bounds)
    names = [f"{var.name}_{i}" for i in range(len(extents))]
    new_vars = [Var(name) for name in names]
    product: Expr = IntImm(1)
    value: Expr | None = None
    for v, extent in zip(new_vars, extents, strict=True):
        unit = is_const(extent, 1) and not preserve_unit_iters
        term: Expr = IntImm(0) if unit else v
        value = term if value is None else value * extent + term
        product = mul(product, extent)
    assert value is not None
    new_loops = [
        For(v, IntImm(0), e, "serial", loop.body) for v, e in zip(new_vars, extents, strict=True)
    ]
    bounds |= loop_bounds(new_loops)
    value = bounds.simplify(value)
    guard: Expr | None = None
    if not disable_predication and not bounds.proves_equal(product, loop.extent):
        guard = value < loop.extent
        if bounds.proves(guard):
            guard = None
    bounds |= loop_bounds([s for s in inner_loops(loop.body)])
    body = map_outer_realizes(loop.body, {var: value}, bounds, guard)
    for new in reversed(new_loops):
        body = For(new.var, new.min, new.extent, "serial", body)
    return with_body(func, rebuild(path, body)), new_vars


def _split_extents(
    func: PrimFunc, loop: For, factors: Sequence[Factor], bounds: Bounds
) -> list[Expr]:
    if not factors:
        raise ScheduleValueError(
            "split", f"Expected at least one factor for {loop.var.name!r}; found none."
        )
    missing = [i for i, f in enumerate(factors) if f is None]
    if len(missing) > 1:
        raise ScheduleValueError(
            "split",
            f"At most one factor may be None; found {len(missing)} in {render_factors(factors)}.",
        )
    known: Expr = IntImm(1)
    extents: list[Expr] = []
    for f in factors:
        e = IntImm(1) if f is None else f if isinstance(f, Expr) else IntImm(int(f))
        if isinstance(e, IntImm) and e.value < 1:
            raise ScheduleValueError(
                "split", f"Factors must be positive; found {render_factors(factors)}."
            )
        known = mul(known, e)
        extents.append(e)
    if isinstance(known, IntImm) and known.value > int_limits(INDEX)[1]:
        raise ScheduleValueError(
            "split", f"The product of the factors {render_factors(factors)} is no int64."
        )
    if missing:
        extents[missing[0]] = ceil_div(loop.extent, known, bounds)
        return extents
    if not bounds.proves_le(loop.extent, known):
        raise fail(
            ScheduleValueError,
            "split",
            func,
            [loop],
            f"The product of the factors {render_factors(factors)} "
            + _too_small(known, loop.extent, loop.var.name)
            + "; use None for one of them.",
        )
    return extents


def _too_small(product: Expr, extent: Expr, name: str) -> str:
    if isinstance(product, IntImm) and isinstance(extent, IntImm):
        return f"is {product.value}, less than {extent.value}, the extent of the loop {name!r}"
    return f"cannot be proved to reach {print_expr(extent)}, the extent of the loop {name!r}"


def render_factors(factors: Sequence[Factor]) -> str:
    """Factors as a list in a message."""
    shown = [
        f.name if isinstance(f, Var) else "expr" if isinstance(f, Expr) else repr(f)
        for f in factors
    ]
    return f"[{', '.join(shown)}]"
