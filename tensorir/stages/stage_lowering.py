"""Stage schedules to PrimFuncs: the records of each stage, replayed as schedule primitives.

The order is that of need, whatever the order of the user's calls::

    create_prim_func   one block a definition
    compute_inline     definitions that are inlined vanish
    for each stage, consumers first:
        compute_at     under the loop of its consumer, with one loop an axis
        split, fuse, reorder   of the loops it got
    arguments          a tensor that is an argument and was moved becomes one again
    vectorize, parallel, unroll, bind, pragma
    decompose_reduction    inits go before the outermost reduce loop

There is no second engine: every step is a primitive of ``tensorir.schedule`` and proves its own
preconditions; its error is raised again in the name of the stage and the call that asked for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from ...support.errors import DependenceError, ScheduleError, ScheduleValueError
from ...support.node import replace
from ..analysis.affine import Bounds, loop_bounds
from ..analysis.block_kinds import axis_bindings, binds
from ..analysis.nested_blocks import Nested, blocks_below, map_outer_realizes
from ..analysis.paths import (
    all_buffers,
    all_loops_above,
    find_block,
    fresh_name,
    loops_above,
    realize_of,
)
from ..analysis.preconditions import fail
from ..analysis.region_cover import contains, covers_domain, full_box, whole_boxes
from ..buffer import Buffer
from ..expr import IntImm, Var, is_const
from ..function import Param, PrimFunc
from ..schedule import Schedule
from ..schedule.primitives.decompose_reduction import decompose_reduction
from ..schedule.trace.handles import LoopHandle
from ..stmt import BlockRealize, For, SeqStmt, Stmt, seq
from ..te.create_prim_func import Built, build_prim_func
from ..te.tensor import Tensor
from ..visitor import substitute
from .stage import Fuse, LoopKind, Reorder, Split, Stage, StageAxis
from .stage_schedule import StageSchedule


@dataclass(slots=True)
class LoweredStages:
    """The scheduled function, and what its parts are called in the stages' terms."""

    func: PrimFunc
    loops: dict[Var, str]
    """Loop variable to the name of its axis, such as ``i.outer``."""
    blocks: dict[str, str]
    """Block to the name of its stage."""
    buffers: dict[Buffer, str]
    """Buffer to the name of its tensor."""


def lower_stages(
    schedule: StageSchedule, args: Sequence[Tensor | Var], name: str = "main"
) -> LoweredStages:
    """The PrimFunc over ``args`` that a stage schedule describes.

    Tensors of the schedule that are not among ``args`` are allocated inside. One that is, but is
    inlined, stays a parameter that nothing writes. Raises ScheduleError in the name of the stage
    and call whose primitive refuses, ComputeError for bad arguments.
    """
    return _Replay(schedule, args, name).run()


@contextmanager
def _in_the_name_of(call: str) -> Iterator[None]:
    try:
        yield
    except ScheduleError as error:
        raise type(error)(call, error.found, error.context) from error


class _Replay:
    """One lowering; ``loops`` has the loop variable of each axis that has a loop now."""

    def __init__(self, schedule: StageSchedule, args: Sequence[Tensor | Var], name: str) -> None:
        self.schedule, self.args = schedule, list(args)
        self._check_args()
        stored = [a for a in self.args if not self._is_inlined(a)]
        fixed = [a for a in stored if not self._is_attached(a)]
        self.built: Built = build_prim_func(
            fixed,
            [s.op for s in schedule.stages],
            name=name,
            definition_of=schedule.definition_of,
        )
        self.sch = Schedule(self.built.func, seed=0)
        self.loops: dict[int, Var] = {}
        self.touched = any(s.records.first_call for s in schedule.stages)

    def _check_args(self) -> None:
        for a in self.args:
            op = self.schedule.definition_of(a) if isinstance(a, Tensor) else None
            if op is not None and op not in [s.op for s in self.schedule.stages]:
                known = ", ".join(repr(s.name) for s in self.schedule.stages)
                raise ScheduleValueError(
                    "lower",
                    f"The argument {a.name!r} is not computed by this schedule, whose stages are "
                    f"{known}; name its op in create_schedule([...]).",
                )

    def _stage_of(self, a: Tensor | Var) -> Stage | None:
        if not isinstance(a, Tensor) or self.schedule.definition_of(a) is None:
            return None
        return self.schedule[a]

    def _is_inlined(self, a: Tensor | Var) -> bool:
        stage = self._stage_of(a)
        attach = stage.records.attach if stage is not None else None
        return attach is not None and attach.axis is None

    def _is_attached(self, a: Tensor | Var) -> bool:
        stage = self._stage_of(a)
        attach = stage.records.attach if stage is not None else None
        return attach is not None and attach.axis is not None

    def block(self, stage: Stage) -> str:
        return self.built.blocks[id(stage.op)]

    def handle(self, axis: StageAxis) -> LoopHandle:
        return LoopHandle(self.loops[id(axis)], self.built.func.name)

    # -- the steps ---------------------------------------------------------------------------------
    def run(self) -> LoweredStages:
        live = self._inline()
        for stage in reversed(live):
            self._place(stage)
            for t in stage.records.transforms:
                self._transform(stage, t)
            self._name_loops(stage)
        for stage in live:
            self._scope(stage)
        func = self.sch.func
        buffers = self._buffers(func)
        func = self._with_arguments(func, buffers)
        self.sch = Schedule(func, seed=0)
        for stage in live:
            self._kinds(stage)
        func, loops, blocks = self._decompose(self.sch.func, live)
        if self.touched:
            func = func.with_attr("is_scheduled", True)
        func = _without_unit_loops(func)
        shown = {self.loops[id(a)]: a.name for s in live for a in s.leaf_axes} | loops
        return LoweredStages(func, shown, blocks, {b: t.name for t, b in buffers})

    def _name_loops(self, stage: Stage) -> None:
        """Calls the loops of a stage after its axes, also in errors from here on."""
        names = {self.loops[id(a)]: a.name for a in stage.leaf_axes}
        func, renamed = _rename_loops(self.sch.func, names)
        self.loops = {key: renamed.get(v, v) for key, v in self.loops.items()}
        self.sch = Schedule(func, seed=0)

    def _inline(self) -> list[Stage]:
        """Inlines; gives the stages that are left."""
        live: list[Stage] = []
        for stage in self.schedule.stages:
            attach = stage.records.attach
            if attach is None or attach.axis is not None:
                live.append(stage)
                continue
            with _in_the_name_of(attach.call):
                block = self.block(stage)
                if not self.sch.get_consumers(block):
                    found = f"Nothing reads what {stage.name!r} writes."
                    raise ScheduleValueError("compute_inline", found)
                self.sch.compute_inline(block)
        return live

    def _scope(self, stage: Stage) -> None:
        if stage.records.scope is not None:
            call, scope = stage.records.scope
            for i in range(stage.op.num_outputs):
                with _in_the_name_of(call):
                    self.sch.set_scope(self.block(stage), i, scope)

    def _place(self, stage: Stage) -> None:
        attach = stage.records.attach
        block = self.block(stage)
        if attach is not None:
            assert attach.stage is not None
            assert attach.axis is not None
            axis = attach.axis
            if axis.became:
                raise ScheduleValueError(
                    attach.call,
                    f"The axis {axis.name!r} of stage {attach.stage.name!r} is gone: {axis.became}."
                    " Name one of those.",
                )
            if id(axis) not in self.loops:
                raise ScheduleValueError(
                    attach.call, f"The stage {attach.stage.name!r} is inlined; it has no loops."
                )
            with _in_the_name_of(attach.call):
                self.sch.compute_at(block, self.handle(axis), preserve_unit_loops=True)
        own = self.sch.get_loops(block)[-len(stage.own_axes) :] if stage.own_axes else []
        for own_axis, loop in zip(stage.own_axes, own, strict=True):
            self.loops[id(own_axis)] = loop.var

    def _transform(self, stage: Stage, t: Split | Fuse | Reorder) -> None:
        with _in_the_name_of(t.call):
            match t:
                case Split():
                    outer, inner = self.sch.split(self.handle(t.parent), factors=list(t.factors))
                    self.loops[id(t.outer)], self.loops[id(t.inner)] = outer.var, inner.var
                case Fuse():
                    fused = self.sch.fuse(*[self.handle(a) for a in t.parts])
                    self.loops[id(t.fused)] = fused.var
                case Reorder():
                    with self._by_construction():
                        self.sch.reorder(*[self.handle(a) for a in t.axes])

    @contextmanager
    def _by_construction(self) -> Iterator[None]:
        """Leaves out proofs about the loops of one stage with nothing but its block below them.

        These loops are its definition's axes, split and fused within one kind, so that whatever
        their extents they run each instance once, none is spatial and reduce at once, and spatial
        ones write apart. With symbolic factors the primitives could not prove that again.
        """
        self.sch.enable_checks = False
        try:
            yield
        finally:
            self.sch.enable_checks = True

    def _kinds(self, stage: Stage) -> None:
        for p in stage.records.pragmas:
            with _in_the_name_of(p.call):
                self.sch.annotate(self.handle(p.axis), p.key, p.value)
        for axis, kind in stage.records.kinds.values():
            if axis.became:
                continue
            loop = self.handle(axis)
            alone = axis.kind == "spatial" and len(blocks_below(self.sch.get(loop))) == 1
            with _in_the_name_of(kind.call), self._by_construction() if alone else nullcontext():
                self._kind(loop, kind)

    def _kind(self, loop: LoopHandle, kind: LoopKind) -> None:
        plain: Mapping[str, Callable[[LoopHandle], None]] = {
            "parallel": self.sch.parallel,
            "vectorize": self.sch.vectorize,
            "unroll": self.sch.unroll,
        }
        if kind.thread is None:
            plain[kind.kind](loop)
            return
        extent = self.sch.get(loop).extent
        wanted = kind.thread.extent
        if wanted is not None and isinstance(extent, IntImm) and extent.value != wanted:
            raise ScheduleValueError(
                "bind",
                f"The thread axis {kind.thread.thread_tag} has {wanted} iterations, the loop "
                f"{loop.var.name!r} has {extent.value}.",
            )
        self.sch.bind(loop, kind.thread.thread_tag)

    # -- arguments ---------------------------------------------------------------------------------
    def _buffers(self, func: PrimFunc) -> list[tuple[Tensor, Buffer]]:
        """Every tensor that has a buffer, with the one it has now (set_scope makes new ones)."""
        now = {b.name: b for b in all_buffers(func)}
        tensors = {id(t): t for s in self.schedule.stages for t in (*s.op.inputs, *s.op.outputs)}
        tensors |= {id(a): a for a in self.args if isinstance(a, Tensor)}
        return [
            (t, now[self.built.buffers[key].name])
            for key, t in tensors.items()
            if key in self.built.buffers and self.built.buffers[key].name in now
        ]

    def _with_arguments(self, func: PrimFunc, buffers: list[tuple[Tensor, Buffer]]) -> PrimFunc:
        """The function with all arguments as parameters: tensors of moved stages leave the root
        block, inlined ones come as parameters that are not used."""
        by_tensor = {id(t): b for t, b in buffers}
        taken = {b.name for b in all_buffers(func)} | {a.name for a in self.args}
        fixed = iter(func.params)
        params: list[Param] = []
        promoted: list[Buffer] = []
        for a in self.args:
            if isinstance(a, Tensor) and self._is_inlined(a):
                unused = Buffer(fresh_name(taken - {a.name}, a.name), a.shape, a.dtype)
                buffers.append((a, unused))
                params.append(unused)
            elif isinstance(a, Tensor) and self._is_attached(a):
                moved = by_tensor[id(a)]
                self._require_whole(func, a, moved)
                promoted.append(moved)
                params.append(moved)
            else:
                params.append(next(fixed))
        root = func.root
        kept = tuple([b for b in root.alloc_buffers if not any(b is p for p in promoted)])
        body = replace(func.body, block=replace(root, alloc_buffers=kept))
        return replace(func, params=tuple(params), body=body)

    def _require_whole(self, func: PrimFunc, tensor: Tensor, buffer: Buffer) -> None:
        """An argument is written all over, also where a stage is computed by need."""
        stage = self.schedule[tensor]
        path = find_block(func, self.block(stage), "compute_at")
        realize = realize_of(path)
        loops = all_loops_above(path)
        bounds = loop_bounds(loops)
        written = [w for w in whole_boxes(path) if w.written and w.buffer is buffer]
        whole = covers_domain(Nested(realize, loops, []), bounds) and any(
            w.box.exact and contains(w.box, full_box(buffer), bounds) for w in written
        )
        if not whole:
            attach = stage.records.attach
            assert attach is not None
            found = (
                f"{tensor.name!r} is an argument, and it cannot be proved that what is computed "
                "there is all of it. Leave it out of the arguments, or compute it at the root."
            )
            raise fail(DependenceError, attach.call, func, [realize.block], found)

    # -- reductions --------------------------------------------------------------------------------
    def _decompose(
        self, func: PrimFunc, live: Sequence[Stage]
    ) -> tuple[PrimFunc, dict[Var, str], dict[str, str]]:
        """The function with the init of each reduction in front of its outermost reduce loop."""
        blocks: dict[str, str] = {}
        loops: dict[Var, str] = {}
        axes = {self.loops[id(a)]: a.name for s in live for a in s.leaf_axes}
        for stage in live:
            block = self.block(stage)
            blocks[block] = stage.name
            if not stage.is_reduction:
                continue
            path = find_block(func, block, "decompose_reduction")
            reduced = axis_bindings(realize_of(path), ("reduce",))
            around = loops_above(path)
            at = next(i for i, loop in enumerate(around) if binds(reduced, loop.var))
            # The loops from here on are the stage's own: see _by_construction.
            with _in_the_name_of(f"s[{stage.name}] (placing its init)"):
                done = decompose_reduction(func, block, around[at].var, checks=False)
            func = done.func
            blocks[done.init] = blocks[done.update] = stage.name
            made = loops_above(find_block(func, done.init, "decompose_reduction"))[at:]
            spatial = axis_bindings(realize_of(path), ("spatial",))
            copied = [loop.var for loop in around[at:] if binds(spatial, loop.var)]
            for old, new in zip(copied, made, strict=True):
                loops[new.var] = f"{axes[old]}.init"
        return func, loops, blocks


def _rename_loops(func: PrimFunc, names: Mapping[Var, str]) -> tuple[PrimFunc, dict[Var, Var]]:
    """The function with its loop variables called after their axes."""
    fresh = {v: Var(name.replace(".", "_"), v.dtype) for v, name in names.items()}
    return replace(func, body=substitute(func.body, fresh)), fresh


def _without_unit_loops(func: PrimFunc) -> PrimFunc:
    """The function without plain loops of one iteration, which compute_at leaves."""

    def visit(s: Stmt, outer: Bounds) -> Stmt:
        match s:
            case For():
                if s.kind == "serial" and is_const(s.extent, 1) and not s.annotations:
                    inner = [loop for n in blocks_below(s.body) for loop in n.loops]
                    known = outer | loop_bounds(inner)
                    return visit(map_outer_realizes(s.body, {s.var: s.min}, known, None), outer)
                return replace(s, body=visit(s.body, outer | loop_bounds([s])))
            case SeqStmt(stmts):
                new = tuple([visit(c, outer) for c in stmts])
                return s if all(a is b for a, b in zip(new, stmts, strict=True)) else seq(*new)
            case BlockRealize(_, _, block) if not block.iter_vars:
                return replace(s, block=replace(block, body=visit(block.body, outer)))
            case _:
                return s

    return replace(func, body=visit(func.body, Bounds()))
