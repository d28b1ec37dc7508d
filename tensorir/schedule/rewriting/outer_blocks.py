"""Cutting blocks into an outer and an inner one, as blockize does.

The outer block declares the regions of its whole tile, so that whoever schedules around it need not
look inside. Nothing is executed in another order; what has to be proved is that the declared axes
are true: each iteration of the outer loops runs whole tiles (``iter_division``), the init covers
exactly what the tile updates, and blocks that share an outer block pass values only within it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....support.errors import DependenceError, NonAffineError, ScheduleValueError
from ....support.node import replace, walk
from ...analysis.affine import Bounds, loop_bounds
from ...analysis.block_kinds import as_update, binds, domain_bounds
from ...analysis.certain_writes import writes_whole
from ...analysis.conditions import conjunction
from ...analysis.iter_division import AxisDivision, Division, divide, same_axis
from ...analysis.nested_blocks import Nested, blocks_below
from ...analysis.paths import Path, fresh_name, rebuild, with_body
from ...analysis.preconditions import fail
from ...analysis.region_cover import says_domain, touched
from ...arith import Analyzer, clip_region, infer_regions, region_covers, region_union, relax_region
from ...buffer import Buffer, BufferRegion, Range
from ...expr import Expr, IntImm, Var, add, is_const, mul
from ...function import PrimFunc
from ...reduction_form import combines_in_place
from ...stmt import Block, BlockRealize, For, IfThenElse, IterVar, SeqStmt, Stmt, seq
from ...visitor import substitute


@dataclass(slots=True)
class Blockized:
    """The new function, and the name of the outer block."""

    func: PrimFunc
    outer: str


class OuterBlock:
    """One application: ``subtree`` (below ``path``'s last statement, or it) gets its block."""

    def __init__(
        self,
        func: PrimFunc,
        path: Path,
        subtree: Stmt,
        rest: tuple[tuple[Stmt, ...], tuple[Stmt, ...]] | None,
        preserve_unit_iters: bool,
        primitive: str,
    ) -> None:
        self.func, self.path, self.subtree, self.rest = func, path, subtree, rest
        self.keep_units = preserve_unit_iters
        self.primitive = primitive
        self.nested = blocks_below(subtree)
        scope = max(i for i, s in enumerate(path[:-1]) if isinstance(s, Block))
        self.loops = [s for s in path[scope:-1] if isinstance(s, For)]
        self.outer = loop_bounds(self.loops)
        self.above = Bounds()
        for s in path[: scope + 1]:
            if isinstance(s, For):
                self.above |= loop_bounds([s])
            elif isinstance(s, Block):
                self.above |= domain_bounds(s)
        self.names = {n.block.name for n in walk(func.body) if isinstance(n, BlockRealize)}
        self.axes: list[tuple[AxisDivision, IterVar]] = []
        self.conditions: list[Expr] = []
        self.to_axes: dict[Var, Expr] = {}
        self.new_realizes: dict[int, BlockRealize] = {}
        self.reads: dict[Buffer, BufferRegion] = {}
        self.writes: dict[Buffer, BufferRegion] = {}
        self.certain: dict[Buffer, BufferRegion] = {}
        self.init: Stmt | None = None

    def run(self) -> Blockized:
        self._require_blocks_only(self.subtree)
        single = len(self.nested) == 1
        divisions = [
            divide(self.func, n, self.loops, self.above, self.primitive) for n in self.nested
        ]
        shares = [
            self._outer_axes(n, d, single) for n, d in zip(self.nested, divisions, strict=True)
        ]
        for axis, it in self.axes:
            if isinstance(axis.outer, Var):
                self.to_axes.setdefault(axis.outer, it.var)
        for n, d, own in zip(self.nested, divisions, shares, strict=True):
            self._inner_block(n, d, own, single)
        if not single:
            self._require_values_stay()
        body = self._rewrite(self.subtree)
        label = "_".join([n.block.name for n in self.nested])
        name = fresh_name(self.names, f"{label}_o")
        block = Block(
            name,
            tuple([it for _, it in self.axes]),
            tuple(self.reads.values()),
            tuple(self.writes.values()),
            body,
            init=self.init,
        )
        new: Stmt = BlockRealize(
            tuple([axis.outer for axis, _ in self.axes]), conjunction(self.conditions), block
        )
        if self.rest is not None:
            new = seq(*self.rest[0], new, *self.rest[1])
        return Blockized(with_body(self.func, rebuild(self.path, new)), name)

    # -- axes --------------------------------------------------------------------------------------
    def _outer_axes(self, n: Nested, d: Division, single: bool) -> list[Expr]:
        """The outer axis of each axis of a block, as an expression; 0 where it needs none."""
        for c in d.outer_conditions:
            if not single and not self.outer.proves(c):
                found = (
                    f"The predicate of {n.block.name!r} says for which outer iterations it runs; "
                    "an outer block of several blocks has no such predicate for one of them."
                )
                raise fail(NonAffineError, self.primitive, self.func, [n.realize], found)
        self.conditions += d.outer_conditions if single else []
        result: list[Expr] = []
        bounds = self.above | self.outer
        for axis, it in zip(d.axes, n.block.iter_vars, strict=True):
            is_unit = is_const(axis.outer_extent, 1)
            if is_unit and not (single and self.keep_units):
                result.append(IntImm(0))
                continue
            known = next(
                (o for a, o in self.axes if not single and same_axis(a, axis, bounds)), None
            )
            if known is not None and known.kind != it.kind:
                found = (
                    f"The axis {it.var.name!r} of {n.block.name!r} is {it.kind} and runs with the "
                    f"outer loops that are {known.kind} for another block: an outer axis is one "
                    "or the other."
                )
                raise fail(DependenceError, self.primitive, self.func, [n.realize], found)
            if known is None:
                known = IterVar(
                    Var(f"{it.var.name}_o"), Range(IntImm(0), axis.outer_extent), it.kind
                )
                self.axes.append((axis, known))
            result.append(known.var)
        return result

    def _inner_block(self, n: Nested, d: Division, outer: Sequence[Expr], single: bool) -> None:
        block = n.block
        axes: list[IterVar] = []
        values: list[Expr] = []
        change: dict[Var, Expr] = {}
        starts: dict[Var, Expr] = {}
        for it, axis, base in zip(block.iter_vars, d.axes, outer, strict=True):
            start = mul(base, axis.inner_extent)
            starts[it.var] = start
            if is_const(axis.inner_extent, 1) and not self.keep_units:
                change[it.var] = start
                continue
            var = Var(f"{it.var.name}_i")
            axes.append(IterVar(var, Range(IntImm(0), axis.inner_extent), it.kind))
            values.append(axis.inner)
            change[it.var] = add(start, var)
        mixed = [self._mapped(c) for c in d.mixed_conditions]
        lifted = block.init is not None and single
        if block.init is not None:
            self._require_separable(n, d, lifted)
        if lifted:
            self.init = self._init_nest(n, d, starts)
            block = as_update(block)
        inner = replace(substitute(replace(block, iter_vars=()), change), iter_vars=tuple(axes))
        self.new_realizes[id(n.realize)] = BlockRealize(
            tuple(values), conjunction([*d.inner_conditions, *mixed]), inner
        )
        self._require_written(n, d, self.new_realizes[id(n.realize)])
        before = self.certain if not single else {}
        # A reduction whose init is the outer block's starts by writing: it reads no earlier value.
        for r in n.block.reads:
            region = self._relaxed(substitute(r, change), axes, n.loops)
            if not self._covered(region, before):
                self._note(self.reads, region)
        for r, own in zip(n.block.writes, inner.writes, strict=True):
            region = self._relaxed(substitute(r, change), axes, n.loops)
            self._note(self.writes, region)
            if self._is_certain(n, inner, own):
                known = self.certain.get(r.buffer)
                if known is None or region_covers(region, known, self._analyzer()):
                    self.certain[r.buffer] = region

    def _is_certain(self, n: Nested, inner: Block, region: BufferRegion) -> bool:
        """Whether all of a region is written for certain whenever the outer block runs."""
        always = is_const(self.new_realizes[id(n.realize)].predicate, 1) and not n.conditions
        return always and writes_whole(inner, region)

    def _require_written(self, n: Nested, d: Division, inner: BlockRealize) -> None:
        """The outer block says that it writes a box, so all of the box must be written."""
        bounds = self.above | Bounds({it.var: it.dom for _, it in self.axes})
        bounds |= loop_bounds(n.loops)
        whole = Nested(inner, n.loops, n.conditions)
        every = self.above | self.outer | loop_bounds(n.loops)
        if all(touched(w, whole, n.loops, bounds).exact for w in inner.block.writes) and all(
            says_domain(c, n.realize, every) for c in d.mixed_conditions
        ):
            return
        found = (
            f"{n.block.name!r} does not write each element of the box that it would be said to "
            "write below the outer loops: under a condition, or at some indices only."
        )
        raise fail(DependenceError, self.primitive, self.func, [n.realize], found)

    def _analyzer(self, *, units: bool = True) -> Analyzer:
        """What is known inside of the outer block. Without ``units`` axes of one value have no
        range, so that they stay visible in what is simplified."""
        analyzer = Analyzer()
        ranges = self.above.ranges | {it.var: it.dom for _, it in self.axes}
        for v, r in ranges.items():
            if units or not is_const(r.extent, 1):
                analyzer.bind(v, r)
        return analyzer

    def _relaxed(
        self, region: BufferRegion, axes: Sequence[IterVar], loops: Sequence[For]
    ) -> BufferRegion:
        """What the whole tile touches, inside of the buffer. A block may also name its loops
        themselves, as one without axes does."""
        loose = self._analyzer(units=False)
        inner = [(loop.var, Range(loop.min, loop.extent)) for loop in loops]
        relaxed = relax_region(region, [*inner, *[(it.var, it.dom) for it in axes]], loose)
        inside = clip_region(relaxed, self._analyzer())
        if inside is relaxed:
            return relaxed
        clipped = clip_region(relaxed, loose)
        ranges = [
            own if proved is own else cut
            for own, proved, cut in zip(relaxed.region, inside.region, clipped.region, strict=True)
        ]
        return BufferRegion(relaxed.buffer, tuple(ranges))

    def _note(self, table: dict[Buffer, BufferRegion], region: BufferRegion) -> None:
        known = table.get(region.buffer)
        table[region.buffer] = (
            region if known is None else region_union(known, region, self._analyzer(units=False))
        )

    def _covered(self, region: BufferRegion, before: Mapping[Buffer, BufferRegion]) -> bool:
        """Whether the outer block has written a region before this block reads it."""
        known = before.get(region.buffer)
        return known is not None and region_covers(known, region, self._analyzer())

    # -- the init ----------------------------------------------------------------------------------
    def _require_separable(self, n: Nested, d: Division, lifted: bool) -> None:
        """What the init of a block needs, whether it goes to the outer block or stays."""
        block = n.block
        if not lifted:
            for it, axis in zip(block.iter_vars, d.axes, strict=True):
                if it.kind == "reduce" and not is_const(axis.outer, 0):
                    found = (
                        f"The reduction {block.name!r} runs over outer loops, so its init would "
                        "belong to the outer block, which holds other blocks too. Use "
                        "decompose_reduction first."
                    )
                    raise fail(DependenceError, self.primitive, self.func, [n.realize], found)
            return
        found = ""
        if not combines_in_place(block):
            found = f"{block.name!r} updates other elements than its init begins."
        elif n.conditions:
            found = f"{block.name!r} stands under a condition, and its init would not."
        elif not d.is_injective:
            found = (
                f"The inner loops repeat instances of {block.name!r}: its terms would be added "
                "more than once after one init."
            )
        else:
            spatial, reduce = self._inner_values(n, d)
            both = [x for x in n.loops if binds(spatial, x.var) and binds(reduce, x.var)]
            if both:
                found = (
                    f"The loop {both[0].var.name!r} runs over a spatial and a reduce axis of "
                    f"{block.name!r} at once; split them apart first."
                )
            elif any(c is None for c in self._init_conditions(n, d)):
                found = f"A predicate of {block.name!r} joins spatial and reduce loops."
        if found:
            raise fail(DependenceError, self.primitive, self.func, [n.realize], found)

    def _inner_values(self, n: Nested, d: Division) -> tuple[list[Expr], list[Expr]]:
        pairs = list(zip(n.block.iter_vars, d.axes, strict=True))
        return (
            [a.inner for it, a in pairs if it.kind != "reduce"],
            [a.inner for it, a in pairs if it.kind == "reduce"],
        )

    def _init_conditions(self, n: Nested, d: Division) -> list[Expr | None]:
        """The conditions the init has of its own; None for one that no init could have."""
        _, reduce = self._inner_values(n, d)
        at_start: dict[Var, Expr] = {x.var: x.min for x in n.loops if binds(reduce, x.var)}
        of_axes = {
            loop.var: loop.min
            for loop in self.loops
            if any(
                it.kind == "reduce" and binds([a.outer], loop.var)
                for it, a in zip(n.block.iter_vars, d.axes, strict=True)
            )
        }
        bounds = self.above | self.outer | loop_bounds(n.loops)
        result: list[Expr | None] = []
        for c in [*d.inner_conditions, *d.mixed_conditions]:
            if not any(binds([c], v) for v in at_start):
                result.append(self._mapped(c))
            elif not bounds.proves(substitute(c, {**at_start, **of_axes})):
                result.append(None)
        return result

    def _init_nest(self, n: Nested, d: Division, starts: Mapping[Var, Expr]) -> Stmt:
        block = n.block
        assert block.init is not None
        spatial, _ = self._inner_values(n, d)
        conditions = conjunction([c for c in self._init_conditions(n, d) if c is not None])
        loops = [x for x in n.loops if binds([*spatial, conditions], x.var)]
        fresh = {x.var: Var(f"{x.var.name}_init") for x in loops}
        axes: list[IterVar] = []
        values: list[Expr] = []
        change: dict[Var, Expr] = {}
        for it, axis in zip(block.iter_vars, d.axes, strict=True):
            if it.kind == "reduce":
                continue
            start = starts[it.var]
            if is_const(axis.inner_extent, 1) and not self.keep_units:
                change[it.var] = start
                continue
            var = Var(f"{it.var.name}_i_init")
            axes.append(IterVar(var, Range(IntImm(0), axis.inner_extent), it.kind))
            values.append(substitute(axis.inner, fresh))
            change[it.var] = add(start, var)
        name = fresh_name(self.names, f"{block.name}_init")
        self.names.add(name)
        body = substitute(block.init, change)
        reads, _ = infer_regions(body, None, axes)  # of a bias, where the sum begins with one
        init = Block(
            name, tuple(axes), reads, tuple([substitute(w, change) for w in block.writes]), body
        )
        nest: Stmt = BlockRealize(tuple(values), substitute(conditions, fresh), init)
        for x in reversed(loops):
            nest = replace(substitute(replace(x, body=nest), self.to_axes), var=fresh[x.var])
        self._require_closed([nest])
        return nest

    # -- the rest of the subtree -------------------------------------------------------------------
    def _require_blocks_only(self, s: Stmt) -> None:
        match s:
            case For():
                self._require_blocks_only(s.body)
            case SeqStmt():
                for child in s.stmts:
                    self._require_blocks_only(child)
            case IfThenElse():
                self._require_blocks_only(s.then_case)
                if s.else_case is not None:
                    self._require_blocks_only(s.else_case)
            case BlockRealize():
                return
            case _:
                found = f"A {type(s).__name__} stands in no block; only blocks are blockized."
                raise fail(ScheduleValueError, self.primitive, self.func, [s], found)

    def _mapped(self, e: Expr) -> Expr:
        """An expression inside the outer block: outer loops become its axes."""
        changed = substitute(e, self.to_axes)
        self._require_closed([changed])
        return changed

    def _require_closed(self, parts: Sequence[Expr | Stmt]) -> None:
        for e in parts:
            for v in walk(e):
                if isinstance(v, Var) and v in self.outer:
                    found = (
                        f"The loop {v.name!r} appears below the outer block in something other "
                        "than a binding (a range or a condition), and no axis stands for it."
                    )
                    raise fail(NonAffineError, self.primitive, self.func, [self.subtree], found)

    def _rewrite(self, s: Stmt) -> Stmt:
        match s:
            case BlockRealize():
                return self.new_realizes[id(s)]
            case For():
                return replace(
                    s,
                    min=self._mapped(s.min),
                    extent=self._mapped(s.extent),
                    body=self._rewrite(s.body),
                )
            case SeqStmt():
                return SeqStmt(tuple([self._rewrite(c) for c in s.stmts]))
            case IfThenElse():
                other = s.else_case
                return IfThenElse(
                    self._mapped(s.condition),
                    self._rewrite(s.then_case),
                    None if other is None else self._rewrite(other),
                )
            case _:
                return s

    def _require_values_stay(self) -> None:
        """Blocks of one outer block may pass values only from earlier to later ones of the same
        instance: its axes say that instances are independent."""
        writers: dict[Buffer, BufferRegion] = {}
        last_reader: dict[Buffer, Nested] = {}
        for n in self.nested:
            realize = self.new_realizes[id(n.realize)]
            axes = realize.block.iter_vars
            for w in realize.block.writes:
                if w.buffer in last_reader and last_reader[w.buffer] is not n:
                    self._refuse_flow(last_reader[w.buffer], w.buffer)
            for r in realize.block.reads:
                own = any(w.buffer is r.buffer for w in realize.block.writes)
                written = any(
                    w.buffer is r.buffer for m in self.nested if m is not n for w in m.block.writes
                )
                if written and not (
                    r.buffer in writers and self._covered(self._relaxed(r, axes, n.loops), writers)
                ):
                    self._refuse_flow(n, r.buffer)
                if not own:
                    last_reader[r.buffer] = n
            for w in realize.block.writes:
                region = self._relaxed(w, axes, n.loops)
                known = writers.get(w.buffer)
                if not self._is_certain(n, realize.block, w):
                    continue
                if known is None or self._covered(known, {w.buffer: region}):
                    writers[w.buffer] = region

    def _refuse_flow(self, n: Nested, buffer: Buffer) -> None:
        found = (
            f"{n.block.name!r} reads elements of {buffer.name!r} that another block of the outer "
            "block writes in another instance of it, or this cannot be excluded."
        )
        raise fail(DependenceError, self.primitive, self.func, [n.realize], found)
