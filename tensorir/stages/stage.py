"""A stage: the schedule of one definition, ``s[C]`` of a stage schedule.

A stage only records: which axes it has now, how they came of its own axes, what kind of loop each
becomes, and where the stage is computed. Nothing is rewritten here; ``stage_lowering`` replays the
records as schedule primitives on the PrimFunc, which proves each of them. So calls on different
stages may come in any order; only those on one stage's axes follow each other. What can be known to
be wrong at a call is refused at the call.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from ...support.errors import DependenceError, ScheduleError, ScheduleValueError
from ..buffer import SCOPES, is_scope
from ..expr import Expr
from ..schedule.primitives.loop_kinds import THREAD_AXES
from ..stmt import IterVar
from ..te.tensor import ComputeOp, ReduceAxis

if TYPE_CHECKING:
    from .stage_schedule import StageSchedule


class StageAxis:
    """An axis of a stage: one of its definition's, or one that split, fuse or tile made.

    ``kind`` is ``spatial`` or ``reduce``; ``became`` says what took its place, once it has none.
    """

    __slots__ = ("became", "kind", "name", "stage")

    def __init__(self, name: str, kind: str, stage: Stage) -> None:
        self.name, self.kind, self.stage = name, kind, stage
        self.became = ""

    def __repr__(self) -> str:
        return f"StageAxis({self.name!r})"


AxisLike: TypeAlias = "StageAxis | IterVar | ReduceAxis"


@dataclass(frozen=True, slots=True)
class ThreadAxis:
    """A thread of a device, for ``bind``; ``extent`` is None where the loop's is taken."""

    thread_tag: str
    extent: int | None = None


def thread_axis(
    dom: int | tuple[int, int] | str | None = None, tag: str = "", name: str = ""
) -> ThreadAxis:
    """``thread_axis("threadIdx.x")``; with its extent, ``thread_axis((0, 64), "threadIdx.x")``."""
    if isinstance(dom, str):
        tag = tag or dom
        dom = None
    if tag not in THREAD_AXES:
        raise ScheduleValueError(
            "thread_axis",
            f"Expected a thread axis, one of {', '.join(THREAD_AXES)}; found {tag!r}.",
        )
    if isinstance(dom, tuple):
        if len(dom) != 2 or dom[0] != 0:
            raise ScheduleValueError("thread_axis", f"Expected a domain (0, extent); found {dom}.")
        dom = dom[1]
    return ThreadAxis(tag, dom)


# -- what a stage records --------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Split:
    """``parent`` becomes ``outer`` and ``inner``; one of the factors is None."""

    call: str
    parent: StageAxis
    outer: StageAxis
    inner: StageAxis
    factors: tuple[int | Expr | None, int | Expr | None]


@dataclass(frozen=True, slots=True)
class Fuse:
    """Neighbouring ``parts`` become ``fused``."""

    call: str
    parts: tuple[StageAxis, ...]
    fused: StageAxis


@dataclass(frozen=True, slots=True)
class Reorder:
    """The axes stand in this order, in the places they had."""

    call: str
    axes: tuple[StageAxis, ...]


Transform: TypeAlias = Split | Fuse | Reorder


@dataclass(frozen=True, slots=True)
class LoopKind:
    """An axis becomes a loop of ``kind``; ``thread`` names that of a bound one."""

    call: str
    kind: str
    thread: ThreadAxis | None = None


@dataclass(frozen=True, slots=True)
class Pragma:
    """``key: value`` stands on the loop of an axis."""

    call: str
    axis: StageAxis
    key: str
    value: int | float | str | bool


@dataclass(frozen=True, slots=True)
class Attach:
    """The stage is computed at ``axis`` of ``stage``; ``axis`` is None where it is inlined."""

    call: str
    stage: Stage | None = None
    axis: StageAxis | None = None


@dataclass(slots=True)
class Records:
    """All that was said about one stage; ``transforms`` in the order of the calls."""

    transforms: list[Transform] = field(default_factory=list)
    kinds: dict[int, tuple[StageAxis, LoopKind]] = field(default_factory=dict)
    pragmas: list[Pragma] = field(default_factory=list)
    attach: Attach | None = None
    scope: tuple[str, str] | None = None

    @property
    def first_call(self) -> str:
        """One of the calls that made these records; empty where there was none."""
        calls = [t.call for t in self.transforms] + [k.call for _, k in self.kinds.values()]
        calls += [p.call for p in self.pragmas]
        calls += [self.attach.call] if self.attach is not None else []
        calls += [self.scope[0]] if self.scope is not None else []
        return calls[0] if calls else ""


class Stage:
    """The schedule of one definition; ``s[C]`` gives it. See the module."""

    def __init__(self, schedule: StageSchedule, op: ComputeOp) -> None:
        self.schedule, self.op = schedule, op
        self.name = op.name
        self.records = Records()
        self.set_op(op)

    def set_op(self, op: ComputeOp) -> None:
        """Schedule another definition of the same tensors from the beginning."""
        self.op = op
        spatial = [(a, StageAxis(a.var.name, "spatial", self)) for a in op.axis]
        reduced = [(a, StageAxis(a.name, "reduce", self)) for a in op.reduce_axis]
        own: list[tuple[IterVar | ReduceAxis, StageAxis]] = [*spatial, *reduced]
        self.own_axes = [axis for _, axis in own]
        self._by_origin = {id(origin): axis for origin, axis in own}
        self.leaf_axes = list(self.own_axes)

    def __repr__(self) -> str:
        return f"Stage({self.name!r})"

    @property
    def is_reduction(self) -> bool:
        """Whether the definition is a reduction."""
        return bool(self.op.reduce_axis)

    # -- axes --------------------------------------------------------------------------------------
    def call(self, method: str, *args: object) -> str:
        """A call on this stage as text, for messages."""
        return f"s[{self.name}].{method}({', '.join([shown(a) for a in args])})"

    def origin(self, axis: object) -> StageAxis | None:
        """The stage's axis that an axis of its definition is, or None."""
        return self._by_origin.get(id(axis))

    def resolve(self, axis: AxisLike, call: str) -> StageAxis:
        """The axis as one that this stage has now; raises ScheduleValueError."""
        found = axis if isinstance(axis, StageAxis) else self.origin(axis)
        if not isinstance(axis, (StageAxis, IterVar, ReduceAxis)):
            what = f"found {type(axis).__name__}"
            raise self._bad_axis(call, f"Expected an axis such as {self.name}.op.axis[0]; {what}.")
        if found is None or found.stage is not self:
            owner = found.stage if found is not None else self.schedule.owner_of(axis)
            of = f"of stage {owner.name!r}" if owner is not None else "of no stage of this schedule"
            raise self._bad_axis(call, f"The axis {shown(axis)!r} is {of}, not of {self.name!r}.")
        if found.became:
            raise self._bad_axis(
                call, f"The axis {found.name!r} of stage {self.name!r} is gone: {found.became}."
            )
        return found

    def _bad_axis(self, call: str, found: str) -> ScheduleValueError:
        names = ", ".join(repr(a.name) for a in self.leaf_axes) or "none"
        return ScheduleValueError(call, f"{found} The axes of {self.name!r} are {names}.")

    def _require_loops(self, call: str) -> None:
        if self.records.attach is not None and self.records.attach.axis is None:
            raise ScheduleValueError(
                call, f"The stage {self.name!r} is inlined; it has no loops to change."
            )

    # -- loops -------------------------------------------------------------------------------------
    def split(
        self,
        parent: AxisLike,
        factor: int | Expr | None = None,
        nparts: int | Expr | None = None,
    ) -> tuple[StageAxis, StageAxis]:
        """Cut an axis in two: the inner one has ``factor`` iterations, or the outer one ``nparts``.

        Gives the outer and the inner axis. Where the sizes do not divide, iterations beyond the end
        are left out by a condition.
        """
        given = f"factor={shown(factor)}" if nparts is None else f"nparts={shown(nparts)}"
        call = self.call("split", parent, _Text(given))
        self._require_loops(call)
        axis = self.resolve(parent, call)
        if (factor is None) == (nparts is None):
            found = "both" if factor is not None else "neither"
            raise ScheduleValueError(
                call, f"Expected factor= or nparts=, one of them; got {found}."
            )
        size = factor if nparts is None else nparts
        if isinstance(size, bool) or not isinstance(size, (int, Expr)):
            raise ScheduleValueError(
                call, f"Expected an integer or an expression; found {type(size).__name__}."
            )
        if isinstance(size, int) and size < 1:
            raise ScheduleValueError(call, f"Expected a size of at least 1; found {size}.")
        self._require_serial(axis, call)
        outer = StageAxis(f"{axis.name}.outer", axis.kind, self)
        inner = StageAxis(f"{axis.name}.inner", axis.kind, self)
        axis.became = f"it was split into {outer.name!r} and {inner.name!r}"
        at = self.leaf_axes.index(axis)
        self.leaf_axes[at : at + 1] = [outer, inner]
        factors = (None, size) if nparts is None else (size, None)
        self.records.transforms.append(Split(call, axis, outer, inner, factors))
        return outer, inner

    def tile(
        self, x_parent: AxisLike, y_parent: AxisLike, x_factor: int | Expr, y_factor: int | Expr
    ) -> tuple[StageAxis, StageAxis, StageAxis, StageAxis]:
        """Split two axes and put the outer ones outside: gives ``x.outer, y.outer, x.inner,
        y.inner``."""
        call = self.call("tile", x_parent, y_parent, x_factor, y_factor)
        if self.resolve(x_parent, call) is self.resolve(y_parent, call):
            raise ScheduleValueError(call, "Expected two different axes; found one twice.")
        x_outer, x_inner = self.split(x_parent, factor=x_factor)
        y_outer, y_inner = self.split(y_parent, factor=y_factor)
        self.reorder(x_outer, y_outer, x_inner, y_inner)
        return x_outer, y_outer, x_inner, y_inner

    def fuse(self, *axes: AxisLike) -> StageAxis:
        """Make one axis of neighbouring ones, given outermost first."""
        call = self.call("fuse", *axes)
        self._require_loops(call)
        parts = [self.resolve(a, call) for a in axes]
        if not parts:
            raise ScheduleValueError(call, "Expected at least one axis; found none.")
        at = self.leaf_axes.index(parts[0])
        if self.leaf_axes[at : at + len(parts)] != parts:
            names = ", ".join(repr(a.name) for a in self.leaf_axes)
            raise ScheduleValueError(
                call,
                "fuse takes axes that directly follow each other, outermost first; the order of "
                f"{self.name!r} is {names}. Reorder them first.",
            )
        if len({a.kind for a in parts}) > 1:
            raise ScheduleValueError(
                call, "A spatial and a reduce axis cannot be one: only the reduce axis adds up."
            )
        for a in parts:
            self._require_serial(a, call)
        if len(parts) == 1:
            return parts[0]
        fused = StageAxis(".".join([a.name for a in parts]) + ".fused", parts[0].kind, self)
        for a in parts:
            a.became = f"it was fused into {fused.name!r}"
        self.leaf_axes[at : at + len(parts)] = [fused]
        self.records.transforms.append(Fuse(call, tuple(parts), fused))
        return fused

    def reorder(self, *axes: AxisLike) -> None:
        """Put axes into this order, in the places they have now; the others stay."""
        call = self.call("reorder", *axes)
        self._require_loops(call)
        order = [self.resolve(a, call) for a in axes]
        for i, a in enumerate(order):
            if a in order[:i]:
                raise ScheduleValueError(call, f"The axis {a.name!r} is named twice.")
        places = sorted(self.leaf_axes.index(a) for a in order)
        for place, a in zip(places, order, strict=True):
            self.leaf_axes[place] = a
        self.records.transforms.append(Reorder(call, tuple(order)))

    # -- kinds -------------------------------------------------------------------------------------
    def parallel(self, var: AxisLike) -> None:
        """Run the iterations of an axis on several threads."""
        self._set_kind("parallel", var)

    def vectorize(self, var: AxisLike) -> None:
        """Run the iterations of an axis as the lanes of vectors."""
        self._set_kind("vectorize", var)

    def unroll(self, var: AxisLike) -> None:
        """Repeat the code for each iteration of an axis."""
        self._set_kind("unroll", var)

    def bind(self, ivar: AxisLike, thread_ivar: ThreadAxis) -> None:
        """Bind an axis to a thread of ``thread_axis``; a CPU runs it as a plain loop."""
        call = self.call("bind", ivar, thread_ivar)
        if not isinstance(thread_ivar, ThreadAxis):
            raise ScheduleValueError(
                call,
                f'Expected thread_axis("threadIdx.x") or the like; found '
                f"{type(thread_ivar).__name__}.",
            )
        self._set_kind("bind", ivar, thread_ivar)

    def _set_kind(self, kind: str, axis: AxisLike, thread: ThreadAxis | None = None) -> None:
        call = self.call(kind, *([axis] if thread is None else [axis, thread]))
        self._require_loops(call)
        resolved = self.resolve(axis, call)
        self._require_serial(resolved, call)
        self.records.kinds[id(resolved)] = (resolved, LoopKind(call, kind, thread))

    def _require_serial(self, axis: StageAxis, call: str) -> None:
        known = self.records.kinds.get(id(axis))
        if known is not None:
            raise ScheduleValueError(
                call,
                f"The axis {axis.name!r} has its kind already, by {known[1].call}; change the "
                "loops first, then their kinds.",
            )
        for p in self.records.pragmas:
            if p.axis is axis and not call.startswith(
                tuple([f"s[{self.name}].{k}(" for k in ("parallel", "vectorize", "unroll", "bind")])
            ):
                raise ScheduleValueError(
                    call, f"The axis {axis.name!r} has a pragma, by {p.call}, which would be lost."
                )

    def pragma(
        self, var: AxisLike, pragma_type: str, pragma_value: int | float | str | None = None
    ) -> None:
        """Annotate the loop of an axis, for example ``("auto_unroll_max_step", 16)``."""
        call = self.call("pragma", var, pragma_type)
        self._require_loops(call)
        if not isinstance(pragma_type, str) or not pragma_type:
            raise ScheduleValueError(call, "Expected the name of a pragma, a string.")
        value = True if pragma_value is None else pragma_value
        axis = self.resolve(var, call)
        self.records.pragmas.append(Pragma(call, axis, f"pragma_{pragma_type}", value))

    # -- places ------------------------------------------------------------------------------------
    def compute_at(self, parent: Stage, scope: AxisLike) -> None:
        """Compute the stage inside the loop ``scope`` of ``parent``, as much as is needed there."""
        call = self.call("compute_at", parent, scope)
        if not isinstance(parent, Stage):
            raise ScheduleValueError(
                call, f"Expected a stage such as s[C]; found {type(parent).__name__}."
            )
        if parent.schedule is not self.schedule:
            raise ScheduleValueError(call, f"{parent.name!r} is a stage of another schedule.")
        axis = parent.resolve(scope, call)
        if parent is self or not self.schedule.depends_on(parent.op, self.op):
            users = ", ".join(repr(s.name) for s in self.schedule.consumers(self)) or "nobody"
            raise DependenceError(
                call,
                f"{parent.name!r} does not read {self.name!r}, so nothing of it is needed there; "
                f"{self.name!r} is read by {users}.",
            )
        self.records.attach = Attach(call, parent, axis)

    def compute_inline(self) -> None:
        """Put the definition's value wherever it is read; the tensor is never stored."""
        call = self.call("compute_inline")
        if self.is_reduction:
            raise ScheduleError(
                call,
                f"The stage {self.name!r} is a reduction over "
                f"{', '.join(repr(a.name) for a in self.op.reduce_axis)}, whose value is not one "
                "expression; use compute_at to compute it where it is read.",
            )
        if self.op.num_outputs > 1:
            raise ScheduleError(
                call,
                f"The stage {self.name!r} has {self.op.num_outputs} outputs; only a definition of "
                "one tensor can be inlined.",
            )
        if self.records.first_call and self.records.attach is None:
            raise ScheduleError(
                call,
                f"The stage {self.name!r} was scheduled already, by {self.records.first_call}; "
                "inlined, it would have no loops.",
            )
        self.records.attach = Attach(call)

    def compute_root(self) -> None:
        """Compute the stage in loops of its own before its readers: undoes compute_at and
        compute_inline."""
        self.records.attach = None

    def set_scope(self, scope: str) -> None:
        """Keep the stage's tensor in another storage scope, for example ``local``."""
        call = self.call("set_scope", scope)
        if not is_scope(scope):
            raise ScheduleValueError(
                call, f"Expected a storage scope, one of {', '.join(SCOPES)}; found {scope!r}."
            )
        self.records.scope = (call, scope)


class _Text(str):
    """A text that ``shown`` leaves as it is."""

    __slots__ = ()


def shown(x: object) -> str:
    match x:
        case _Text():
            return str(x)
        case StageAxis() | ReduceAxis():
            return x.name
        case IterVar():
            return x.var.name
        case Stage():
            return f"s[{x.name}]"
        case ThreadAxis():
            return x.thread_tag
        case Expr():
            return getattr(x, "name", "...")
        case _:
            return repr(x)
