"""split, fuse, reorder, add_unit_loop: rewrites of the loops around blocks.

They change loops, bindings and predicates; a block's body and regions are written over its iter
vars and stay as they are. Each function checks, then gives the new function and the new loop
variables.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....support.errors import (
    DependenceError,
    LoopKindError,
    NonAffineError,
    NotAncestorError,
    ScheduleValueError,
)
from ....support.node import replace, walk
from ...analysis.affine import Bounds, is_independent, loop_bounds, sum_of, terms_of, undetermined
from ...analysis.certain_writes import covered_within
from ...analysis.hidden_accesses import require_declared
from ...analysis.paths import (
    Nested,
    Path,
    all_loops_above,
    axis_bindings,
    binds,
    blocks_below,
    fail,
    find_inner_block,
    find_loop,
    loop_of,
    map_outer_realizes,
    reads_other_instances,
    rebuild,
    with_body,
)
from ...analysis.region_cover import instances_clash
from ...expr import Expr, IntImm, Var, floordiv, floormod, is_const, mul, sub
from ...function import PrimFunc
from ...printer import print_expr
from ...stmt import BlockRealize, For, Stmt

Factor = int | Expr | None


# -- split -----------------------------------------------------------------------------------------
def split(
    func: PrimFunc,
    var: Var,
    factors: Sequence[Factor],
    *,
    preserve_unit_iters: bool = True,
    disable_predication: bool = False,
) -> tuple[PrimFunc, list[Var]]:
    """Replace a loop by a nest of loops.

    ``for i in range(128)`` with ``[None, 4]`` becomes ``for i_0, i_1 in T.grid(32, 4)``, and ``i``
    becomes ``i_0 * 4 + i_1``. Where the factors' product is not provably the extent, the blocks
    below get the predicate ``i_0 * 4 + i_1 < extent``, unless ``disable_predication``.
    """
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
    bounds |= loop_bounds([s for s in _inner_loops(loop.body)])
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


def ceil_div(extent: Expr, by: Expr, bounds: Bounds) -> Expr:
    """``extent / by`` rounded up, without rounding where ``by`` divides the extent's canonical
    sum."""
    if isinstance(by, IntImm):
        terms, const = terms_of(bounds.simplify(extent))
        c = by.value
        if const % c == 0 and all(k % c == 0 for _, k in terms):
            return sum_of([(atom, k // c) for atom, k in terms], const // c)
    return bounds.simplify(floordiv(extent + sub(by, 1), by))


def render_factors(factors: Sequence[Factor]) -> str:
    """Factors as a list in a message."""
    shown = [
        f.name if isinstance(f, Var) else "expr" if isinstance(f, Expr) else repr(f)
        for f in factors
    ]
    return f"[{', '.join(shown)}]"


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


def _inner_loops(s: Stmt) -> list[For]:
    return [loop for n in blocks_below(s) for loop in n.loops]


# -- fuse ------------------------------------------------------------------------------------------
def _require_iterations(func: PrimFunc, loops: Sequence[For]) -> None:
    """Without iterations of a spatial loop the init does not run, without those of a reduce loop it
    does: a loop that is both cannot say which."""
    empty = [loop for loop in loops if is_const(loop.extent, 0)]
    if not empty:
        return
    for n in blocks_below(loops[0]):
        spatial = axis_bindings(n.realize, ("spatial",))
        reduced = axis_bindings(n.realize, ("reduce",))
        if any(binds(spatial, x.var) for x in loops) and any(binds(reduced, x.var) for x in loops):
            found = (
                f"The loop {empty[0].var.name!r} has no iterations, and {n.block.name!r} runs over "
                "spatial and reduce axes of these loops; fuse each kind by itself."
            )
            raise fail(DependenceError, "fuse", func, [loops[0]], found)


def fuse(
    func: PrimFunc, variables: Sequence[Var], *, preserve_unit_iters: bool = True
) -> tuple[PrimFunc, Var]:
    """Replace directly nested loops by one, ``i_j_fused``; ``i`` becomes ``i_j_fused //
    extent_j`` and ``j`` becomes ``i_j_fused % extent_j``."""
    if not variables:
        raise ScheduleValueError("fuse", "Expected at least one loop; found none.")
    path = find_loop(func, variables[0], "fuse")
    loops = [loop_of(path)]
    for v in variables[1:]:
        inner = loops[-1].body
        if not isinstance(inner, For) or inner.var is not v:
            raise fail(
                NotAncestorError,
                "fuse",
                func,
                [loops[-1]],
                f"The loop {v.name!r} is not the only statement directly below "
                f"{loops[-1].var.name!r}; "
                "fuse takes directly nested loops, outermost first. Reorder them first.",
            )
        loops.append(inner)
    for i, loop in enumerate(loops):
        require_plain_serial(func, loop, "fuse")
        outer = {id(o.var) for o in loops[:i]}
        if any(id(n) in outer for n in walk(loop.extent)):
            found = f"The extent of {loop.var.name!r} depends on a loop it would be fused with."
            raise fail(DependenceError, "fuse", func, [loop], found)
    _require_iterations(func, loops)
    fused = Var("_".join(v.name for v in variables) + "_fused")
    total: Expr = IntImm(1)
    for loop in loops:
        total = mul(total, loop.extent)
    bounds = loop_bounds(all_loops_above(path))
    total = bounds.simplify(total)
    new_loop = For(fused, IntImm(0), total, "serial", loops[-1].body)
    bounds |= loop_bounds([new_loop, *_inner_loops(loops[-1].body)])
    change = _fused_values(fused, loops, preserve_unit_iters)
    change = {v: bounds.simplify(e) for v, e in change.items()}
    body = map_outer_realizes(loops[-1].body, change, bounds, None)
    return with_body(func, rebuild(path, replace(new_loop, body=body))), fused


def _fused_values(fused: Var, loops: Sequence[For], preserve_unit_iters: bool) -> dict[Var, Expr]:
    change: dict[Var, Expr] = {}
    below: Expr = IntImm(1)
    for i in range(len(loops) - 1, -1, -1):
        extent = loops[i].extent
        outermost = all(is_const(o.extent, 1) for o in loops[:i])
        if is_const(extent, 1) and not (len(loops) == 1 and preserve_unit_iters):
            change[loops[i].var] = IntImm(0)
            continue
        value: Expr = floordiv(fused, below)
        if not outermost:
            value = floormod(value, extent)
        change[loops[i].var] = value
        below = mul(below, extent)
    return change


# -- reorder ---------------------------------------------------------------------------------------
def reorder(func: PrimFunc, variables: Sequence[Var], *, checks: bool = True) -> PrimFunc:
    """Permute loops of one chain into the given order; loops not named keep their places.

    The chain must be free of branches from the outermost to the innermost of them. Blocks below
    need spatial and reduce axes only, bound affinely; several blocks may not depend on one another
    across iterations.
    """
    for i, v in enumerate(variables):
        if any(other is v for other in variables[:i]):
            raise ScheduleValueError("reorder", f"The loop {v.name!r} is named twice.")
    if len(variables) < 2:
        for v in variables:
            find_loop(func, v, "reorder")
        return func
    path, chain = _chain(func, variables)
    wanted = {id(v) for v in variables}
    by_var = {id(loop.var): loop for loop in chain}
    order = iter(variables)
    new_chain = [by_var[id(next(order))] if id(loop.var) in wanted else loop for loop in chain]
    if all(a is b for a, b in zip(chain, new_chain, strict=True)):
        return func
    _require_free_domains(func, new_chain)
    body = chain[-1].body
    if checks:
        _require_reorderable(func, path, chain, body)
        _require_same_sums(func, chain, new_chain, body)
    for loop in reversed(new_chain):
        body = replace(loop, body=body)
    return with_body(func, rebuild(path, body))


def _chain(func: PrimFunc, variables: Sequence[Var]) -> tuple[Path, list[For]]:
    """The path to the outermost of the loops, and the loops from there to the innermost."""
    paths = [find_loop(func, v, "reorder") for v in variables]
    deepest = max(paths, key=len)
    shallow = min(paths, key=len)
    for p in paths:
        if len(p) > len(deepest) or deepest[: len(p)] != p:
            raise fail(
                NotAncestorError,
                "reorder",
                func,
                [loop_of(p), loop_of(deepest)],
                f"The loops {loop_of(p).var.name!r} and {loop_of(deepest).var.name!r} are "
                "not on one chain.",
            )
    between = deepest[len(shallow) - 1 :]
    for s in between:
        if not isinstance(s, For):
            what = "a block" if isinstance(s, BlockRealize) else "a branch of several statements"
            found = (
                f"Between {loop_of(shallow).var.name!r} and {loop_of(deepest).var.name!r} stands "
                f"{what}; reorder needs loops nested directly in one another."
            )
            raise fail(NotAncestorError, "reorder", func, [loop_of(shallow)], found)
    return shallow, [s for s in between if isinstance(s, For)]


def _require_free_domains(func: PrimFunc, new_chain: Sequence[For]) -> None:
    for i, loop in enumerate(new_chain):
        inside = {id(o.var) for o in new_chain[i:]}
        if any(id(n) in inside for e in (loop.min, loop.extent) for n in walk(e)):
            found = f"The range of {loop.var.name!r} depends on a loop that would move inside it."
            raise fail(DependenceError, "reorder", func, [loop], found)


def _require_reorderable(func: PrimFunc, path: Path, chain: Sequence[For], body: Stmt) -> None:
    require_declared(func, body, "reorder")
    nested = blocks_below(body)
    outer = all_loops_above(path)
    for n in nested:
        # The loops further out stand still: that they repeat instances, as those around a moved
        # producer do, does not matter.
        require_affine(func, n, [*chain, *n.loops], "reorder")
        if reads_other_instances(n.block):
            found = (
                f"The block {n.block.name!r} reads elements of its own output that other "
                "iterations write, so that their order matters."
            )
            raise fail(DependenceError, "reorder", func, [n.block], found)
        if instances_clash(n.block, [it.var for it in n.block.iter_vars]):
            found = (
                f"Several instances of the block {n.block.name!r} write the same element, so that "
                "their order matters, although its axes are spatial."
            )
            raise fail(DependenceError, "reorder", func, [n.block], found)
    if len(nested) > 1:
        trouble = covered_within(nested, [*outer, *chain])
        if trouble is not None:
            raise fail(
                DependenceError,
                "reorder",
                func,
                [trouble.block],
                f"The block {trouble.block.name!r} reads what another block below these "
                "loops writes in "
                "another iteration, or this cannot be excluded.",
            )


def _require_same_sums(
    func: PrimFunc, chain: Sequence[For], new_chain: Sequence[For], body: Stmt
) -> None:
    """A reduction begins with the init, at the least values of its reduce axes, and adds each term
    once. So a loop that repeats its instances (compute_at makes such) may not change places with a
    reduce loop, nor may two loops over reduce axes where one runs over a spatial axis as well."""
    places = {id(loop.var): i for i, loop in enumerate(new_chain)}
    swapped = [
        (a, b)
        for i, a in enumerate(chain)
        for b in chain[i + 1 :]
        if places[id(a.var)] > places[id(b.var)]
    ]
    for n in blocks_below(body):
        if n.block.init is None:
            continue
        repeats = undetermined(n.realize.iter_values, loop_bounds([*chain, *n.loops])) or []
        spatial, reduced = (axis_bindings(n.realize, (k,)) for k in ("spatial", "reduce"))
        for pair in swapped:
            over_reduce = [loop for loop in pair if binds(reduced, loop.var)]
            mixed = len(over_reduce) == 2 and any(binds(spatial, loop.var) for loop in pair)
            again = any(loop.var is v for v in repeats for loop in pair)
            if mixed or (over_reduce and again):
                names = " and ".join([repr(loop.var.name) for loop in pair])
                why = (
                    "one of them runs over a spatial and a reduce axis at once, so that its init "
                    "would no longer come first"
                    if mixed
                    else "one of them runs it again for the same elements, so that terms would be "
                    "added more than once"
                )
                found = (
                    f"The loops {names} may not change places around the reduction "
                    f"{n.block.name!r}: {why}."
                )
                raise fail(DependenceError, "reorder", func, list(pair), found)


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
            f"The bindings of {block.name!r} are not an affine map of its loops that "
            "gives each iteration "
            "axes of its own."
        )
        raise fail(NonAffineError, primitive, func, [n.realize], found)


# -- unit loops ------------------------------------------------------------------------------------
def add_unit_loop(func: PrimFunc, target: Var | str) -> tuple[PrimFunc, Var]:
    """Put a loop of extent 1, named ``u``, around a loop or a block."""
    if isinstance(target, str):
        path = find_inner_block(func, target, "add_unit_loop")
    else:
        path = find_loop(func, target, "add_unit_loop")
    var = Var("u")
    return with_body(func, rebuild(path, For(var, IntImm(0), IntImm(1), "serial", path[-1]))), var
