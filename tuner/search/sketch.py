"""Sketches: the candidates of one path through a rule, and their features by the thousand.

A *sketch* is a space function with its control decisions fixed (``decisions``); what is left free
are tile factors and categories that only went into primitives. The loop nest of such candidates has
one structure, and the integers in it are products and quotients of the free decisions. So a sketch
is replayed at a few points and each integer is fitted as

    c * x0**e0 * x1**e1 ...        or that, rounded up

over the decisions x, with whole exponents e; the formula must give the integer exactly at every
replayed point, those included that the fit did not need. From then on candidates of the sketch cost
array arithmetic and no replay. Where the structure varies or an integer has no such formula, the
sketch is not symbolic, and each of its candidates is replayed once and remembered.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...support.errors import ScheduleError
from ...tensorir.function import PrimFunc
from ...tensorir.schedule import Schedule
from ..candidate import Candidate, SpaceFunction, make_candidate
from ..cost.features import FEATURE_NAMES, Floats, Machine, features_of_groups, features_of_programs
from ..cost.nest_summary import NestSummary, summarize_at
from .decisions import CATEGORY, DecidedSchedule, Draw, DrawKey, Draws, redraw

FEWEST_POINTS, MOST_POINTS = 8, 40
SPARE_POINTS = 5
"""Points of a fit beyond one for each variable that others do not determine."""
_FEW_CANDIDATES = 12
"""A sketch with fewer candidates than this is not worth fitting."""

ControlKey = tuple[int, tuple[tuple[DrawKey, object], ...]]


@dataclass(frozen=True)
class Individual:
    """A candidate as decisions: the number of the space function, and all it drew."""

    space: int
    draws: Draws

    @cached_property
    def key(self) -> tuple[int, tuple[tuple[DrawKey, object], ...]]:
        return (self.space, tuple([(d.key, d.decision) for d in self.draws]))

    @cached_property
    def control(self) -> ControlKey:
        """What fixes the path: two individuals with the same are of one sketch."""
        return (self.space, tuple([(d.key, d.decision) for d in self.draws if d.is_control]))


@dataclass(frozen=True)
class Replayed:
    """A space function's result and its draws."""

    individual: Individual
    schedule: Schedule

    @property
    def func(self) -> PrimFunc:
        return self.schedule.func

    def candidate(self) -> Candidate:
        return make_candidate(self.schedule)


class Replayer:
    """Runs space functions with given decisions, and counts how often. What they give is summed up
    at ``sizes``, the values of the function's symbolic sizes."""

    def __init__(
        self, func: PrimFunc, functions: Sequence[SpaceFunction], sizes: Sequence[int] = ()
    ) -> None:
        self.func, self.functions, self.sizes = func, list(functions), tuple(sizes)
        self.replays = 0

    def summarize(self, func: PrimFunc) -> NestSummary:
        """The summary of a function that was made of this one."""
        return summarize_at(func, self.sizes)

    def run(self, space: int, given: Draws, seed: int) -> Replayed:
        """Raises ScheduleError where the space function does not apply."""
        self.replays += 1
        sch = DecidedSchedule(self.func, seed=seed, given=given)
        self.functions[space](sch)
        return Replayed(Individual(space, sch.draws), sch)


class Sketch:
    """One path; made from a candidate on it, which is replayed already."""

    def __init__(self, replayer: Replayer, found: Replayed, machine: Machine, seed: int) -> None:
        self.replayer, self.machine, self.seed = replayer, machine, seed
        self.origin = found.individual
        self.free = [
            i
            for i, d in enumerate(self.origin.draws)
            if not d.is_control and not d.is_fixed and is_movable(d)
        ]
        self.summary = replayer.summarize(found.func)
        self._known: dict[object, NestSummary | None] = {found.individual.key: self.summary}
        """What was replayed; None where the space function did not apply."""
        self.rows: dict[object, Floats] = {}
        """Features of what was replayed, where somebody asked for them."""
        self._fit: _Fit | None = None
        self._is_tried = False
        self.fit_cost = self._count_points()
        """Replays that fitting takes; 0 once that was done, or is not worth while."""

    @property
    def is_symbolic(self) -> bool:
        """Whether features of its candidates are formulas (fitted at the first question)."""
        self.try_fit()
        return self._fit is not None

    @property
    def is_fitted(self) -> bool:
        """Whether a fit was tried and has given formulas."""
        return self._fit is not None

    def features(self, individuals: Sequence[Individual]) -> Floats:
        """[n, FEATURE_NAMES]; rows of NaN for those to which the space function does not apply."""
        self.try_fit()
        return features_of_members([(self, individuals)], self.machine)

    def leaves_of(self, individuals: Sequence[Individual]) -> Floats:
        """[n, leaf] of members, by the fitted formulas; raises ValueError where there are none."""
        if self._fit is None:
            raise ValueError("this sketch has no formulas; see is_fitted")
        return self._fit.leaves(np.stack([self._variables(i.draws) for i in individuals]))

    def summary_of(self, individual: Individual) -> NestSummary | None:
        """What an individual does in its loops, by a replay where it is not known."""
        key = individual.key
        if key not in self._known:
            self._known[key] = self._replay(individual)
        return self._known[key]

    def knows(self, individual: Individual) -> bool:
        """Whether the individual was replayed already."""
        return individual.key in self._known

    def needs_replay(self, individual: Individual) -> bool:
        """Whether the individual's features cost a replay."""
        return not self.is_symbolic and not self.knows(individual)

    def _replay(self, individual: Individual) -> NestSummary | None:
        try:
            found = self.replayer.run(individual.space, individual.draws, self.seed)
        except ScheduleError:
            return None
        return self.replayer.summarize(found.func)

    def _variables(self, draws: Draws) -> Floats:
        values: list[float] = []
        for i in self.free:
            draw = draws[i]
            if draw.kind == CATEGORY:
                values.append(float(draw.domain[int(draw.decision)]))  # type: ignore[arg-type]
            else:
                values += [float(f) for f in draw.decision]  # type: ignore[union-attr]
        return np.array(values)

    def _count_points(self) -> int:
        """How many candidates a fit replays: more than a formula has exponents, so that some were
        not needed to find it."""
        if count_choices([self.origin.draws[i] for i in self.free]) < _FEW_CANDIDATES:
            return 0
        free = [self.origin.draws[i] for i in self.free]
        # The factors of a tile have a product that is known.
        variables = sum([1 if d.kind == CATEGORY else int(d.domain[1]) - 1 for d in free])
        return min(MOST_POINTS, max(FEWEST_POINTS, variables + SPARE_POINTS)) - 1

    def try_fit(self) -> None:
        """Find the formulas, if there are any; the first time only."""
        if self._is_tried:
            return
        self._is_tried = True
        count, self.fit_cost = self.fit_cost, 0
        if not count:
            return
        points, summaries = [self._variables(self.origin.draws)], [self.summary]
        rng = random.Random(self.seed)
        keys = [d.key for d in self.origin.draws]
        for _ in range(count):
            draws = list(self.origin.draws)
            for i in self.free:
                draws[i] = draws[i].with_decision(redraw(draws[i], rng))
            try:
                found = self.replayer.run(self.origin.space, tuple(draws), self.seed)
            except ScheduleError:
                continue
            summary = self.replayer.summarize(found.func)
            same = [d.key for d in found.individual.draws] == keys
            self._known.setdefault(found.individual.key, summary)
            if not same or summary.structure != self.summary.structure:
                return
            points.append(self._variables(found.individual.draws))
            summaries.append(summary)
        self._fit = fit_leaves(np.stack(points), summaries)


def features_of_members(
    groups: Sequence[tuple[Sketch, Sequence[Individual]]], machine: Machine
) -> Floats:
    """[n, FEATURE_NAMES] of members of several sketches, one after another: by formula where a
    sketch has been fitted. What was replayed is worked out for all sketches together; rows of NaN
    for members to which the space function does not apply."""
    missing: list[tuple[Sketch, object, NestSummary]] = []
    for sketch, members in groups:
        if sketch.is_fitted:
            continue
        for key, member in {m.key: m for m in members if m.key not in sketch.rows}.items():
            summary = sketch.summary_of(member)
            if summary is not None:
                missing.append((sketch, key, summary))
    rows = features_of_programs([summary for _, _, summary in missing], machine)
    for (sketch, known, _), row in zip(missing, rows, strict=True):
        sketch.rows[known] = row
    fitted = [(s, members) for s, members in groups if s.is_fitted]
    by_formula = features_of_groups(
        [(s.summary.structure, s.leaves_of(members)) for s, members in fitted], machine
    )
    unknown = np.full(len(FEATURE_NAMES), np.nan)
    found, at = [], 0
    for sketch, members in groups:
        if sketch.is_fitted:
            found.append(by_formula[at : at + len(members)])
            at += len(members)
        else:
            found.append(np.stack([sketch.rows.get(m.key, unknown) for m in members]))
    return np.concatenate(found)


@dataclass(frozen=True)
class _Fit:
    """The formulas of a sketch's leaves: ``constant`` ones are numbers, the others take
    ``scale * exp(exponents @ log x)``, rounded up where ``rounds`` says so."""

    constants: Floats
    copies: list[tuple[int, int]]
    """Leaves that are a variable as it stands (which may be 0), and which one."""
    varying: np.ndarray[tuple[int], np.dtype[np.int64]]
    scale: Floats
    exponents: Floats
    rounds: np.ndarray[tuple[int], np.dtype[np.bool_]]

    def leaves(self, x: Floats) -> Floats:
        """[n, leaf] of [n, variable]."""
        result = np.repeat(self.constants[None, :], x.shape[0], axis=0)
        for leaf, variable in self.copies:
            result[:, leaf] = x[:, variable]
        if len(self.varying):
            powers = np.exp(np.log(np.maximum(x, 1.0)) @ self.exponents.T) * self.scale
            result[:, self.varying] = np.where(
                self.rounds, np.sign(self.scale) * np.ceil(np.abs(powers) - 1e-6), np.rint(powers)
            )
        return result


def fit_leaves(x: Floats, summaries: Sequence[NestSummary]) -> _Fit | None:
    """Formulas that give every leaf at every point exactly, or None where a leaf has none."""
    values = np.stack([s.leaves for s in summaries]).astype(np.float64)
    # What a loop of one iteration does to an index is not in the program.
    valid = np.stack([s.relevance for s in summaries]) > 1
    constants = values[0].copy()
    varying, scales, exponents, rounds = [], [], [], []
    copies: list[tuple[int, int]] = []
    known: dict[bytes, tuple[float, Floats, bool] | None] = {}
    logs = np.log(np.maximum(x, 1.0))
    for leaf in range(values.shape[1]):
        rows = valid[:, leaf]
        y = values[rows, leaf]
        if not len(y):
            continue
        constants[leaf] = y[0]
        if (y == y[0]).all():
            continue
        copied = np.flatnonzero((x[rows] == y[:, None]).all(axis=0))
        if len(copied):
            copies.append((leaf, int(copied[0])))
            continue
        key = rows.tobytes() + y.tobytes()
        if key not in known:
            known[key] = _fit_one(logs[rows], y)
        formula = known[key]
        if formula is None:
            return None
        varying.append(leaf)
        scales.append(formula[0])
        exponents.append(formula[1])
        rounds.append(formula[2])
    return _Fit(
        constants,
        copies,
        np.array(varying, dtype=np.int64),
        np.array(scales),
        np.array(exponents).reshape(len(varying), x.shape[1]),
        np.array(rounds, dtype=np.bool_),
    )


def _fit_one(logs: Floats, y: Floats) -> tuple[float, Floats, bool] | None:
    """Scale, exponents, and whether to round up; None where there is no such formula."""
    sign = 1.0 if y[0] > 0 else -1.0
    if not (y * sign > 0).all():
        return None
    target = np.log(y * sign)
    for use in _variable_sets(logs):
        design = np.concatenate([logs[:, use], np.ones((len(y), 1))], axis=1)
        solution = np.linalg.lstsq(design, target, rcond=None)[0]
        exponents = np.zeros(logs.shape[1])
        exponents[use] = np.rint(solution[:-1])
        powers = np.exp(logs @ exponents)
        scale = float(np.exp(np.median(target - logs @ exponents)))
        if (np.rint(scale * powers) == y * sign).all():
            return sign * scale, exponents, False
        # ceil(c * powers) == y for every c between these bounds, if there is one.
        low, high = float(((y * sign - 1) / powers).max()), float((y * sign / powers).min())
        c = float(np.floor(high + 1e-9))
        if c > low + 1e-9 and (np.ceil(c * powers - 1e-6) == y * sign).all():
            return sign * c, exponents, True
    return None


def _variable_sets(logs: Floats) -> list[list[int]]:
    """Sets of variables to fit with: single ones, then all of a basis. The factors of a tile are
    dependent (their product is the extent): one that others determine is left out."""
    moving = [i for i in range(logs.shape[1]) if np.ptp(logs[:, i]) > 0]
    basis: list[int] = []
    columns = np.ones((logs.shape[0], 1))
    for i in reversed(moving):
        wider = np.concatenate([columns, logs[:, [i]]], axis=1)
        if np.linalg.matrix_rank(wider, tol=1e-6) > columns.shape[1]:
            columns, basis = wider, [i, *basis]
    return [*[[i] for i in moving], basis]


def is_movable(draw: Draw) -> bool:
    """Whether a draw has another decision to take."""
    if draw.kind == CATEGORY:
        return len(draw.domain) > 1
    return draw.kind == "tile" and int(draw.domain[0]) > 1 and int(draw.domain[1]) > 1


def count_choices(draws: Sequence[Draw]) -> int:
    """About how many combinations of decisions there are (places of prime factors in tiles)."""
    total = 1
    for draw in draws:
        if draw.kind == CATEGORY:
            total *= len(draw.domain)
        else:
            total *= int(draw.domain[1]) ** max(1, int(draw.domain[0]).bit_length() // 2)
    return total
