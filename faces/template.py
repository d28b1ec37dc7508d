"""Templates: design spaces with named knobs, written by hand.

    @autotvm.template("matmul")
    def tiled(sch, cfg):
        i, j, k = sch.get_loops("C")
        cfg.define_split("tile_i", i, num_outputs=2)
        cfg.define_knob("unroll", [False, True])
        i0, i1 = cfg["tile_i"].apply(sch, i)

A template is a space function like any other (``tune_tir(mod, space=tiled)``). Each knob is a
sampling instruction of the trace, so that records replay without the template; the template gives
the decisions of a record their names back, and takes decisions by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from math import comb, factorial, prod
from typing import Any

from ..support.errors import TuningError, nearest
from ..tensorir.expr import IntImm
from ..tensorir.function import PrimFunc
from ..tensorir.schedule import LoopHandle, Schedule, Trace
from ..tensorir.schedule.primitives.sample_perfect_tile import prime_factors

TemplateFunction = Callable[[Schedule, "Config"], object]

_ANNOTATIONS = {
    "none": ("none",),
    "try_unroll": ("none", "unroll"),
    "try_vec": ("none", "vectorize"),
    "try_unroll_vec": ("none", "unroll", "vectorize"),
}
_MOST_ORDERS = 720


@dataclass(frozen=True)
class SplitEntity:
    """The factors of a split: ``size`` as numbers; ``apply`` splits a loop by them."""

    size: tuple[int, ...]
    factors: tuple[Any, ...]

    def apply(self, sch: Schedule, axis: LoopHandle) -> list[LoopHandle]:
        return sch.split(axis, list(self.factors))

    @property
    def value(self) -> list[int]:
        return list(self.size)


@dataclass(frozen=True)
class ReorderEntity:
    """An order of axes by their positions in the definition; ``apply`` reorders loops by it."""

    perm: tuple[int, ...]

    def apply(self, sch: Schedule, axes: Sequence[LoopHandle]) -> list[LoopHandle]:
        ordered = [axes[p] for p in self.perm]
        if len(ordered) > 1:
            sch.reorder(*ordered)
        return ordered

    @property
    def value(self) -> list[int]:
        return list(self.perm)


@dataclass(frozen=True)
class AnnotateEntity:
    """What is done with each of some loops: nothing, ``unroll`` or ``vectorize``."""

    anns: tuple[str, ...]

    def apply(self, sch: Schedule, axes: Sequence[LoopHandle]) -> list[LoopHandle]:
        for axis, what in zip(axes, self.anns, strict=True):
            if what != "none":
                getattr(sch, what)(axis)
        return list(axes)

    @property
    def value(self) -> list[str]:
        return list(self.anns)


@dataclass(frozen=True)
class KnobEntity:
    """One of the candidates of a knob."""

    val: Any

    @property
    def value(self) -> Any:
        return self.val


Entity = SplitEntity | ReorderEntity | AnnotateEntity | KnobEntity


@dataclass(frozen=True)
class Knob:
    """A row of a template's space: ``size`` is how many values the knob has."""

    name: str
    kind: str
    size: int


@dataclass
class Config:
    """The knobs of one application of a template. ``define_*`` declares a knob and decides it:
    ``given`` decisions by name, those of ``decisions`` in order, or drawn by the schedule.

    Raises TuningError for a knob that is defined twice or not at all, or has no candidates.
    """

    sch: Schedule
    given: Mapping[str, Any] = field(default_factory=dict)
    decisions: list[Any] | None = None
    entities: dict[str, Entity] = field(default_factory=dict)
    knobs: list[Knob] = field(default_factory=list)

    def __getitem__(self, name: str) -> Any:
        if name not in self.entities:
            raise TuningError(
                f"The template defines no knob {name!r} before it uses it."
                f"{nearest(name, self.entities)} Call cfg.define_split, define_knob, "
                "define_reorder or define_annotate first."
            )
        return self.entities[name]

    def define_knob(self, name: str, candidate: Sequence[Any]) -> None:
        """One of some values: ``cfg[name].val``."""
        values = list(candidate)
        index = self._pick(name, "knob", values)
        self.entities[name] = KnobEntity(values[index])

    def define_split(
        self,
        name: str,
        axis: LoopHandle,
        num_outputs: int = 2,
        *,
        policy: str = "factors",
        max_factor: int | None = None,
        filter: Callable[[SplitEntity], bool] | None = None,
        candidate: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """Factors of a loop, outermost first, with its extent as product.

        ``policy`` is "factors" (all), "power2" (inner factors are powers of two) or "candidate"
        (those of ``candidate``); ``max_factor`` bounds the inner factors, ``filter`` is asked about
        each.
        """
        extent = self._extent(name, axis)
        if num_outputs < 1:
            raise TuningError(f"{name!r}: a split has at least 1 output; found {num_outputs}.")
        if policy not in ("factors", "power2", "candidate"):
            raise TuningError(
                f"{name!r}: the policies of a split are 'factors', 'power2' and 'candidate'; found "
                f"{policy!r}."
            )
        if (policy == "candidate") != (candidate is not None):
            raise TuningError(f"{name!r}: policy='candidate' and candidate= go together.")
        if policy == "factors" and max_factor is None and filter is None:
            self._any_split(name, axis, extent, num_outputs)
            return
        sizes = [tuple(c) for c in candidate or _factorizations(extent, num_outputs)]
        for size in sizes:
            if len(size) != num_outputs or prod(size) != extent or min(size) < 1:
                raise TuningError(
                    f"{name!r}: expected {num_outputs} factors with the product {extent}; found "
                    f"{list(size)}."
                )
        if max_factor is not None:
            sizes = [s for s in sizes if all(f <= max_factor for f in s[1:])]
        if policy == "power2":
            sizes = [s for s in sizes if all(f & (f - 1) == 0 for f in s[1:])]
        if filter is not None:
            sizes = [s for s in sizes if filter(SplitEntity(s, s))]
        size = sizes[self._pick(name, f"split of {extent}", sizes)]
        self.entities[name] = SplitEntity(size, size)

    def define_reorder(
        self,
        name: str,
        axes: Sequence[Any],
        policy: str = "all",
        candidate: Sequence[Sequence[Any]] | None = None,
    ) -> None:
        """An order of loops: any (``policy="all"``), or one of ``candidate``, lists of the axes or
        of their positions."""
        count = len(axes)
        if (policy, candidate is None) not in (("all", True), ("candidate", False)):
            raise TuningError(
                f"{name!r}: the policies of a reorder are 'all' (without candidate=) and "
                f"'candidate' (with it); found {policy!r}."
            )
        if candidate is None:
            if factorial(count) > _MOST_ORDERS:
                raise TuningError(
                    f"{name!r}: {count} axes have {factorial(count)} orders; name those worth "
                    "trying with policy='candidate'."
                )
            perms = list(permutations(range(count)))
        else:
            perms = [tuple(_position(name, a, axes) for a in order) for order in candidate]
        for perm in perms:
            if sorted(perm) != list(range(count)):
                raise TuningError(
                    f"{name!r}: an order names each of the {count} axes once; found {list(perm)}."
                )
        self.entities[name] = ReorderEntity(perms[self._pick(name, "reorder", perms)])

    def define_annotate(self, name: str, axes: Sequence[Any], policy: str = "try_unroll") -> None:
        """What is done with each of some loops: nothing, or what the policy (try_unroll, try_vec,
        try_unroll_vec) tries; only the last one may be vectorized."""
        if policy not in _ANNOTATIONS:
            raise TuningError(
                f"{name!r}: the policies of an annotation are {', '.join(_ANNOTATIONS)}; found "
                f"{policy!r}."
            )
        choices: list[tuple[str, ...]] = [()]
        for i, _ in enumerate(axes):
            allowed = [a for a in _ANNOTATIONS[policy] if a != "vectorize" or i == len(axes) - 1]
            choices = [(*c, a) for c in choices for a in allowed]
        self.entities[name] = AnnotateEntity(choices[self._pick(name, "annotate", choices)])

    def _any_split(self, name: str, axis: LoopHandle, extent: int, outputs: int) -> None:
        self._declare(name, f"split of {extent}", _count_factorizations(extent, outputs))
        decision = self._decision(name)
        if decision is not None and name in self.given:
            decision = list(decision)
        factors = self.sch.sample_perfect_tile(axis, outputs, extent, decision)
        size = tuple([int(self.sch.get(f)) for f in factors])
        self.entities[name] = SplitEntity(size, tuple(factors))

    def _pick(self, name: str, kind: str, values: Sequence[Any]) -> int:
        """The index of the value that a knob gets, as a sampling of the schedule."""
        self._declare(name, kind, len(values))
        decision = self._decision(name)
        if name in self.given:
            plain = [_plain(v) for v in values]
            if _plain(decision) not in plain:
                raise TuningError(
                    f"{name!r} has no value {decision!r}; it has {', '.join(map(repr, plain))}."
                )
            decision = plain.index(_plain(decision))
        probs = [1.0 / len(values)] * len(values)
        drawn = self.sch.sample_categorical(list(range(len(values))), probs, decision=decision)
        return int(self.sch.get(drawn))

    def _declare(self, name: str, kind: str, size: int) -> None:
        if name in self.entities:
            raise TuningError(f"The template defines the knob {name!r} twice.")
        if size == 0:
            raise TuningError(f"The knob {name!r} has no candidates left.")
        self.knobs.append(Knob(name, kind, size))

    def _decision(self, name: str) -> Any:
        if name in self.given:
            return self.given[name]
        return self.decisions.pop(0) if self.decisions else None

    def _extent(self, name: str, axis: LoopHandle) -> int:
        extent = self.sch.get(axis).extent
        if not isinstance(extent, IntImm):
            raise TuningError(f"{name!r}: the loop's extent is symbolic; a split needs a number.")
        return extent.value


@dataclass(frozen=True)
class Template:
    """A design space with named knobs. Called with a schedule it draws every knob; see
    ``template``."""

    name: str
    func: TemplateFunction

    def __call__(self, sch: Schedule) -> None:
        self.func(sch, Config(sch))

    def apply(self, sch: Schedule, config: Mapping[str, Any]) -> dict[str, Any]:
        """Apply the template with some knobs given by value; the others are drawn. All values.

        Raises TuningError for a name that is no knob and a value that a knob cannot have.
        """
        cfg = Config(sch, config)
        self.func(sch, cfg)
        for name in config:
            if name not in cfg.entities:
                raise TuningError(
                    f"The template {self.name!r} has no knob {name!r}.{nearest(name, cfg.entities)}"
                )
        return {name: entity.value for name, entity in cfg.entities.items()}

    def knobs(self, func: PrimFunc) -> list[Knob]:
        """The knobs that the template defines for a function."""
        cfg = Config(Schedule(func, seed=0))
        self.func(cfg.sch, cfg)
        return cfg.knobs

    def describe(self, func: PrimFunc) -> str:
        """The space as text: a line a knob, and how many configurations there are."""
        knobs = self.knobs(func)
        size = prod([k.size for k in knobs])
        width = max((len(k.name) for k in knobs), default=0)
        lines = [f"{self.name}: {size} configurations of {len(knobs)} knobs"]
        lines += [f"  {k.name:{width}}  {k.kind}, {k.size} values" for k in knobs]
        return "\n".join(lines)

    def config_of(self, trace: Trace | str, func: PrimFunc) -> dict[str, Any]:
        """The values of the knobs that a trace of this template, recorded on ``func``, stands
        for."""
        made = Trace.from_json(trace) if isinstance(trace, str) else trace
        cfg = Config(Schedule(func, seed=0), decisions=list(made.decisions.values()))
        self.func(cfg.sch, cfg)
        return {name: entity.value for name, entity in cfg.entities.items()}


_registered: dict[str, Template] = {}


def template(name: str) -> Callable[[TemplateFunction], Template]:
    """Make a function of (schedule, config) a template: ``@template("matmul")``. The last one of a
    name is what ``get_template`` gives."""
    if not isinstance(name, str):
        raise TuningError('A template has a name: write @autotvm.template("name").')

    def decorate(func: TemplateFunction) -> Template:
        _registered[name] = Template(name, func)
        return _registered[name]

    return decorate


def get_template(name: str) -> Template:
    """The template of a name; TuningError with the nearest one where there is none."""
    if name not in _registered:
        raise TuningError(f"There is no template {name!r}.{nearest(name, _registered)}")
    return _registered[name]


def _factorizations(extent: int, outputs: int) -> list[tuple[int, ...]]:
    """All ways to write ``extent`` as a product of so many factors, in order."""
    if outputs == 1:
        return [(extent,)]
    divisors = [d for d in range(1, extent + 1) if extent % d == 0]
    return [(d, *rest) for d in divisors for rest in _factorizations(extent // d, outputs - 1)]


def _count_factorizations(extent: int, outputs: int) -> int:
    """How many there are: each prime's copies are put into the places."""
    primes = prime_factors(extent)
    counts = [primes.count(p) for p in set(primes)]
    return prod([comb(n + outputs - 1, outputs - 1) for n in counts])


def _position(name: str, axis: Any, axes: Sequence[Any]) -> int:
    if isinstance(axis, int):
        return axis
    found = [i for i, a in enumerate(axes) if a is axis]
    if not found:
        raise TuningError(f"{name!r}: a candidate names {axis!r}, which is none of the axes.")
    return found[0]


def _plain(value: Any) -> Any:
    """Tuples and lists are one for whoever names a value."""
    return list(value) if isinstance(value, (list, tuple)) else value


__all__ = [
    "AnnotateEntity",
    "Config",
    "KnobEntity",
    "ReorderEntity",
    "SplitEntity",
    "Template",
    "get_template",
    "template",
]
