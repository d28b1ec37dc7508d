"""Stage schedules: ``s = create_schedule(C.op)``, ``s[C].split(...)``.

A schedule holds a stage for every definition that its outputs need, in dependency order. It may
define a tensor anew for itself (``cache_read``, ``cache_write``, ``rfactor``): ``definition_of``
tells how it computes a tensor. Stages record, ``stage_lowering`` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...support.errors import NotReductionBlockError, ScheduleValueError
from ..analysis.affine import Bounds
from ..analysis.loop_checks import ceil_div
from ..buffer import SCOPES, is_scope
from ..expr import Expr, IntImm, Var, add, mul
from ..te.create_prim_func import dependency_order
from ..te.tensor import ComputeOp, ReduceAxis, Tensor
from ..visitor import substitute
from .redefine import ReducePart, cached_read, cached_write, factored
from .stage import AxisLike, Fuse, Records, Split, Stage, shown


class StageSchedule:
    """The stages of all definitions that ``outputs`` need, in dependency order.

    ``s[C]`` is the stage of a tensor or of its op. ``burnish.lower(s, args)`` shows what it says,
    ``burnish.build(s, args)`` compiles it.
    """

    def __init__(self, outputs: Sequence[ComputeOp]) -> None:
        self.outputs = tuple(outputs)
        self.redefined: dict[int, ComputeOp] = {}
        """Definitions that took the place of others, by the id of the tensor they define."""
        self.stages = [Stage(self, op) for op in dependency_order(outputs)]
        self.aliases: dict[int, Stage] = {id(s.op): s for s in self.stages}
        """Stages by the id of every definition they ever had."""
        self._definitions: list[ComputeOp] = []

    def __repr__(self) -> str:
        return f"StageSchedule({', '.join([s.name for s in self.stages])})"

    def __getitem__(self, key: Tensor | ComputeOp) -> Stage:
        op = self.definition_of(key) if isinstance(key, Tensor) else key
        stage = self.aliases.get(id(op)) if op is not None else None
        if stage is not None:
            return stage
        known = ", ".join(repr(s.name) for s in self.stages)
        if isinstance(key, Tensor) and op is None:
            raise ScheduleValueError(
                "s[...]",
                f"{key.name!r} is a placeholder, which nothing computes; the stages are {known}.",
            )
        if not isinstance(key, (Tensor, ComputeOp)):
            raise ScheduleValueError(
                "s[...]", f"Expected a tensor or its op; found {type(key).__name__}."
            )
        raise ScheduleValueError(
            "s[...]",
            f"{key.name!r} is not in this schedule, whose stages are {known}; name its op in "
            "create_schedule([...]).",
        )

    def __contains__(self, key: Tensor | ComputeOp) -> bool:
        op = self.definition_of(key) if isinstance(key, Tensor) else key
        return id(op) in self.aliases

    def definition_of(self, t: Tensor) -> ComputeOp | None:
        """How this schedule computes a tensor; None for a placeholder."""
        return self.redefined.get(id(t), t.op)

    def owner_of(self, axis: object) -> Stage | None:
        """The stage whose definition has an axis, or None."""
        return next((s for s in self.stages if s.origin(axis) is not None), None)

    def consumers(self, stage: Stage) -> list[Stage]:
        """The stages that read a stage's tensors."""
        made = {id(t) for t in stage.op.outputs}
        return [s for s in self.stages if any(id(t) in made for t in s.op.inputs)]

    def depends_on(self, op: ComputeOp, producer: ComputeOp) -> bool:
        """Whether a definition reads another's tensors, directly or through others."""
        below = dependency_order([op], self.definition_of)
        return op is not producer and any(o is producer for o in below)

    # -- new definitions ---------------------------------------------------------------------------
    def cache_write(self, tensor: Tensor | Sequence[Tensor], scope: str) -> Tensor | list[Tensor]:
        """Compute ``tensor`` into a copy in ``scope``, and copy that to it afterwards.

        Gives the copy, whose stage computes; the stage of ``tensor`` copies. Of a definition with
        several outputs all are given, and copies of all come back. Do this before other calls on
        the stage.
        """
        given = [tensor] if isinstance(tensor, Tensor) else list(tensor)
        call = f"s.cache_write({', '.join([t.name for t in given])}, {scope!r})"
        stage = self._stage_to_redefine(given[0], call)
        self._require_scope(scope, call)
        if len(given) != stage.op.num_outputs or any(t not in stage.op.outputs for t in given):
            names = ", ".join(repr(t.name) for t in stage.op.outputs)
            raise ScheduleValueError(
                call, f"Expected all outputs of the definition {stage.name!r}: {names}."
            )
        cache, copy = cached_write(stage.op, scope)
        self._insert(stage, cache)
        self._redefine(stage, copy)
        copies = [cache.outputs[stage.op.outputs.index(t)] for t in given]
        return copies[0] if isinstance(tensor, Tensor) else copies

    def cache_read(
        self, tensor: Tensor, scope: str, readers: Sequence[Tensor | ComputeOp]
    ) -> Tensor:
        """A copy of ``tensor`` in ``scope`` that ``readers`` read in its place."""
        call = f"s.cache_read({tensor.name}, {scope!r})"
        self._require_scope(scope, call)
        given = [readers] if isinstance(readers, (Tensor, ComputeOp)) else list(readers)
        stages = [self[r] for r in given]
        if not stages:
            raise ScheduleValueError(call, "Expected at least one reader; found none.")
        for s in stages:
            if tensor not in s.op.inputs:
                names = ", ".join(repr(t.name) for t in s.op.inputs) or "nothing"
                raise ScheduleValueError(
                    call, f"{s.name!r} does not read {tensor.name!r}; it reads {names}."
                )
        cache, changed = cached_read(tensor, scope, [s.op for s in stages])
        self._insert(min(stages, key=self.stages.index), cache)
        for stage, op in zip(stages, changed, strict=True):
            stage.op = op
            self._know(stage, op)
        return cache.outputs[0]

    def rfactor(
        self, tensor: Tensor, axis: AxisLike, factor_axis: int = 0
    ) -> Tensor | tuple[Tensor, ...]:
        """Reduce in two steps: partial results for each value of ``axis``, and then over these.

        ``axis`` is a reduce axis of the stage, perhaps one that split gave; it becomes dimension
        ``factor_axis`` of the tensor of partial results, which is returned and has a stage of its
        own. The stage of ``tensor`` then reduces over ``s[tensor].op.reduce_axis[0]`` alone.
        """
        call = f"s.rfactor({tensor.name}, {shown(axis)})"
        stage = self[tensor]
        leaf = stage.resolve(axis, call)
        if leaf.kind != "reduce":
            raise NotReductionBlockError(
                call, f"The axis {leaf.name!r} of {stage.name!r} is spatial; nothing is to factor."
            )
        ndim = len(stage.op.axis)
        place = factor_axis + ndim + 1 if factor_axis < 0 else factor_axis
        if not 0 <= place <= ndim:
            raise ScheduleValueError(
                call, f"factor_axis must be from {-ndim - 1} to {ndim}; found {factor_axis}."
            )
        self._require_only_reduce_splits(stage, call)
        parts, values, conditions = _reduce_parts(stage)
        part = parts.pop(id(leaf))
        partial, final = factored(stage.op, part, list(parts.values()), values, conditions, place)
        self._insert(stage, partial)
        self._redefine(stage, final)
        return partial.outputs[0] if len(partial.outputs) == 1 else partial.outputs

    def _require_scope(self, scope: str, call: str) -> None:
        if not is_scope(scope):
            raise ScheduleValueError(
                call, f"Expected a storage scope, one of {', '.join(SCOPES)}; found {scope!r}."
            )

    def _stage_to_redefine(self, tensor: Tensor, call: str) -> Stage:
        stage = self[tensor]
        first = stage.records.first_call
        if first:
            raise ScheduleValueError(
                call, f"The stage {stage.name!r} was scheduled already, by {first}; do this first."
            )
        return stage

    def _require_only_reduce_splits(self, stage: Stage, call: str) -> None:
        records = stage.records
        other = [
            t.call
            for t in records.transforms
            if isinstance(t, Fuse) or (isinstance(t, Split) and t.parent.kind != "reduce")
        ]
        other += [k.call for _, k in records.kinds.values()]
        other += [p.call for p in records.pragmas]
        other += [records.attach.call] if records.attach is not None else []
        if other:
            raise ScheduleValueError(
                call,
                f"The stage {stage.name!r} gets another definition, so that {other[0]} would be "
                "lost; before rfactor, split reduce axes only.",
            )

    def _insert(self, before: Stage, op: ComputeOp) -> None:
        stage = Stage(self, op)
        self.stages.insert(self.stages.index(before), stage)
        self.aliases[id(op)] = stage

    def _redefine(self, stage: Stage, op: ComputeOp) -> None:
        stage.records = Records()
        stage.set_op(op)
        self._know(stage, op)

    def _know(self, stage: Stage, op: ComputeOp) -> None:
        self.aliases[id(op)] = stage
        self._definitions.append(op)
        for t in op.outputs:
            self.redefined[id(t)] = op


def _reduce_parts(
    stage: Stage,
) -> tuple[dict[int, ReducePart], dict[ReduceAxis, Expr], list[Expr]]:
    """The loops that the reduce axes were split into, each axis in terms of them, and what their
    values must fulfil where sizes do not divide."""
    bounds = Bounds()
    own = [a for a in stage.own_axes if a.kind == "reduce"]
    parts: dict[int, ReducePart] = {}
    values: dict[ReduceAxis, Expr] = {}
    for axis, origin in zip(own, stage.op.reduce_axis, strict=True):
        parts[id(axis)] = ReducePart(Var(axis.name), origin.dom.extent)
        values[origin] = add(origin.dom.min, parts[id(axis)].var)
    conditions: list[Expr] = []
    for t in stage.records.transforms:
        if not isinstance(t, Split):
            continue
        old = parts.pop(id(t.parent))
        given = next(f for f in t.factors if f is not None)
        size = IntImm(given) if isinstance(given, int) else given
        other = ceil_div(old.extent, size, bounds)
        outer, inner = (other, size) if t.factors[0] is None else (size, other)
        made = ReducePart(Var(t.outer.name), outer), ReducePart(Var(t.inner.name), inner)
        parts[id(t.outer)], parts[id(t.inner)] = made
        value = add(mul(made[0].var, inner), made[1].var)
        change = {old.var: value}
        values = {a: substitute(v, change) for a, v in values.items()}
        conditions = [substitute(c, change) for c in conditions]
        if not bounds.proves_equal(mul(outer, inner), old.extent):
            conditions.append(value < old.extent)
    return parts, values, conditions


def create_schedule(ops: ComputeOp | Tensor | Iterable[ComputeOp | Tensor]) -> StageSchedule:
    """The default schedule of definitions and of all they need: each in loops of its own, in order.

    ``ops`` is one op or several, such as ``[C.op]``.
    """
    given = [ops] if isinstance(ops, (ComputeOp, Tensor)) or ops is None else list(ops)
    found: list[ComputeOp] = []
    for item in given:
        op = item.op if isinstance(item, Tensor) else item
        if not isinstance(op, ComputeOp):
            what = "a placeholder's op, None" if op is None else type(op).__name__
            raise ScheduleValueError(
                "create_schedule", f"Expected definitions such as C.op; found {what}."
            )
        found.append(op)
    if not found:
        raise ScheduleValueError("create_schedule", "Expected at least one definition; found none.")
    return StageSchedule(found)
