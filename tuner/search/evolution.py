"""Evolutionary search: populations of decisions, ranked by a cost model, a few of them measured.

    measured elite ─┐
    random draws ───┼─> population ──score──> parents ──mutate, cross──> population ... (4 times)
    first choice ───┘                                                        │
    model <── measurements <── batch: the best unmeasured, some at random <──┘

A member is a tuple of draws (``decisions``), its features come from its sketch (``sketch``), and so
most members cost array arithmetic. What does cost a run of the space function, a replay, has a
budget: a new path, a member of a sketch that is not symbolic, and each candidate of the batch,
whose program must be known to be a new one. The search is repeatable: it depends on the seed, on
the candidates known and on what was measured.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from ...support.errors import BurnishError, ScheduleError
from ...support.target import Target
from ...tensorir.function import PrimFunc
from ..candidate import Candidate, SpaceFunction, make_candidate
from ..cost.cost_model import CostModel
from ..cost.features import Floats, Machine, features_of_programs
from ..cost.nest_summary import NestSummary
from .decisions import DecidedSchedule, Draws, draws_of_trace, redraw
from .mutators import cross, mutable, mutate
from .search import SearchStrategy
from .sketch import ControlKey, Individual, Replayed, Replayer, Sketch, features_of_members

_REMEMBERED = 512


@dataclass(frozen=True, kw_only=True)
class EvolutionOptions:
    """How large, how long, how bold."""

    population: int = 256
    generations: int = 4
    elite_share: float = 0.25
    """How much of the first population are measured candidates."""
    crossover: float = 0.15
    control_mutation: float = 0.2
    """How often a control decision is mutated where free ones could be."""
    epsilon: float = 0.1
    """How much of a batch is drawn without asking the model."""
    first_epsilon: float = 0.3
    """As ``epsilon``, while nothing is measured: what is learned first should be varied."""
    first_replays: int = 16
    """Random paths that are looked at before anything is ranked."""
    patience: int = 6
    """Random replays in a row that find no new path, after which no more are tried."""
    replays: int = 2
    """Replays that looking at paths and at members without formulas costs at most, for each
    candidate proposed."""
    fit_replays: int = 1
    """As ``replays``, for the fits of sketches: what they take must not starve the paths that have
    no formulas, and whose members are known by replays alone."""


class EvolutionarySearch(SearchStrategy):
    """Proposes what the cost model ranks highest among many mutations of what was fast."""

    def __init__(
        self,
        func: PrimFunc,
        space: Sequence[SpaceFunction],
        *,
        seed: int,
        target: Target,
        model: CostModel,
        first: Sequence[SpaceFunction] = (),
        seen: Collection[str] = (),
        group: str = "task",
        sizes: Sequence[int] = (),
        options: EvolutionOptions | None = None,
    ) -> None:
        """``model`` learns under the name ``group``, of what a candidate is like where the
        function's symbolic sizes have the values ``sizes``; all else is as in SearchStrategy."""
        super().__init__(func, space, seed=seed, first=first, seen=seen)
        self.machine, self.model, self.group = Machine.of(target), model, group
        self.options = options or EvolutionOptions()
        self.replayer = Replayer(func, self.space, sizes)
        self.scored = 0
        """Members that the model was asked about."""
        self.sketches: dict[ControlKey, Sketch | None] = {}
        self.elite: list[tuple[float, Individual]] = []
        """Measured candidates with their seconds, fastest first."""
        self._proposed: dict[str, tuple[Individual | None, NestSummary]] = {}
        self._taken: set[object] = set()
        self._replayed: OrderedDict[object, Replayed] = OrderedDict()
        """The last members that were replayed: what looked best is often measured."""
        self._budget = self.options.first_replays
        self._fit_budget = self.options.first_replays
        self._error: ScheduleError | None = None

    # -- proposing ---------------------------------------------------------------------------------
    def propose(
        self, count: int, *, attempts: int = 64, deadline: float | None = None
    ) -> list[Candidate]:
        """See SearchStrategy; ``attempts`` bounds how many programs in a row may be known ones."""
        found: list[Candidate] = []
        while self.first and len(found) < count:
            found += self._propose_first(self.first.pop(0))
        self._error, misses = None, 0
        while len(found) < count and misses < attempts and not _is_over(deadline):
            self._budget += self.options.replays * (count - len(found))
            self._fit_budget += self.options.fit_replays * (count - len(found))
            ranked = self._evolve(count - len(found), deadline)
            if not ranked:
                misses += max(1, attempts // 4)
            for individual in ranked:
                if len(found) == count or misses >= attempts or _is_over(deadline):
                    break
                candidate = self._realize(individual)
                if candidate is None:
                    misses += 1
                    continue
                misses = 0
                found.append(candidate)
        self._fail_unless_applied(misses, self._error)
        return found

    def _propose_first(self, apply: SpaceFunction) -> list[Candidate]:
        """A choice that is made already; as a member too, if the space has the same one."""
        decided = DecidedSchedule(self.func, seed=self.rng.randrange(1 << 30))
        try:
            apply(decided)
        except ScheduleError as error:
            self._error = error
            return []
        candidate = make_candidate(decided)
        individual = self._member_like(decided.draws, candidate.hash)
        if not self._is_new(candidate):
            return []
        self._note(candidate, individual)
        return [candidate]

    def _member_like(self, draws: Draws, wanted: str) -> Individual | None:
        """The member of the space with these draws that is the program with the hash, if any."""
        for space in range(len(self.space)):
            found = self._run(space, draws)
            if found is not None and found.candidate().hash == wanted:
                self._sketch_of(found)
                self._taken.add(found.individual.key)
                return found.individual
        return None

    def _realize(self, individual: Individual) -> Candidate | None:
        """The member as a candidate, None where it is no new program."""
        self._taken.add(individual.key)
        found = self._run(individual.space, individual.draws)
        if found is None:
            return None
        candidate = found.candidate()
        if not self._is_new(candidate):
            return None
        self._note(candidate, found.individual)
        return candidate

    def _note(self, candidate: Candidate, individual: Individual | None) -> None:
        self._proposed[candidate.hash] = (individual, self.replayer.summarize(candidate.func))

    def predictions(self, candidates: Sequence[Candidate]) -> dict[str, float]:
        """What the model expects of proposed candidates, by hash: larger is faster."""
        known = [c.hash for c in candidates if c.hash in self._proposed]
        if not known:
            return {}
        summaries = [self._proposed[key][1] for key in known]
        scores = self.model.predict(features_of_programs(summaries, self.machine))
        return {key: float(score) for key, score in zip(known, scores, strict=True)}

    # -- learning ----------------------------------------------------------------------------------
    def observe(self, results: Sequence[tuple[str, float | None]]) -> None:
        """Teach the model the measurements of proposed candidates, and keep the fast ones."""
        super().observe(results)
        summaries: list[NestSummary] = []
        seconds: list[float] = []
        for key, time_ in results:
            known = self._proposed.pop(key, None)
            if known is None:
                continue
            individual, summary = known
            summaries.append(summary)
            seconds.append(math.inf if time_ is None else time_)
            if individual is not None and time_ is not None:
                self.elite.append((time_, individual))
        self.elite.sort(key=lambda e: e[0])
        if summaries:
            rows = features_of_programs(summaries, self.machine)
            self.model.update(self.group, rows, seconds)

    def resume(self, records: Sequence[tuple[str, str, float]]) -> int:
        """Take up earlier measurements (hash, trace as JSON, seconds) as elite; how many of them
        the space still has. The model is taught them separately."""
        count = 0
        for wanted, trace, seconds in records:
            try:
                draws = draws_of_trace(trace)
            except BurnishError:  # a trace of another version: the record is no use here
                continue
            individual = self._member_like(draws, wanted)
            if individual is not None:
                self.elite.append((seconds, individual))
                count += 1
        self.elite.sort(key=lambda e: e[0])
        return count

    # -- one search --------------------------------------------------------------------------------
    def _evolve(self, count: int, deadline: float | None) -> list[Individual]:
        """Unmeasured members in the order in which they should be tried."""
        population = self._first_population()
        best: dict[object, tuple[float, Individual]] = {}
        for generation in range(self.options.generations + 1):
            population, scores = self._score(population)
            if not population:
                break
            for member, score in zip(population, scores, strict=True):
                if member.key not in self._taken:
                    best[member.key] = (float(score), member)
            if generation == self.options.generations or _is_over(deadline):
                break
            population = self._next_population(population, scores)
        ranked = [m for _, m in sorted(best.values(), key=lambda e: -e[0])]
        return self._with_chance(ranked, count)

    def _with_chance(self, ranked: list[Individual], count: int) -> list[Individual]:
        """The ranking with some of the first ``count`` drawn from all: what the model does not
        expect is how it learns. The space functions have equal shares of what is drawn, however
        many members each has, and of the whole ranking before anything is measured."""
        if not self.elite:
            ranked = self._in_turns(ranked)
        places = [i for i in range(min(count, len(ranked))) if i and self._is_bold()]
        for place in places:
            spaces = sorted({m.space for m in ranked[place:]})
            space = self.rng.choice(spaces)
            others = [i for i in range(place, len(ranked)) if ranked[i].space == space]
            ranked.insert(place, ranked.pop(self.rng.choice(others)))
        return ranked

    def _in_turns(self, ranked: list[Individual]) -> list[Individual]:
        """The best of each space function, then the second best of each, and so on."""
        counts: dict[int, int] = {}
        turns = []
        for place, member in enumerate(ranked):
            turn = counts.get(member.space, 0)
            counts[member.space] = turn + 1
            turns.append((turn, place, member))
        return [member for _, _, member in sorted(turns, key=lambda t: t[:2])]

    def _is_bold(self) -> bool:
        options = self.options
        return self.rng.random() < (options.epsilon if self.elite else options.first_epsilon)

    def _first_population(self) -> list[Individual]:
        options = self.options
        members = [m for _, m in self.elite[: int(options.population * options.elite_share)]]
        # A part of the budget is for paths that nobody has taken, the rest for mutations.
        misses = 0
        for _ in range(max(0, self._budget) // (3 if self.elite else 2)):
            if misses == options.patience:
                break
            known_paths = len(self.sketches)
            found = self._spend(self.rng.randrange(len(self.space)), ())
            if found is not None and self._sketch_of(found) is not None:
                members.append(found.individual)
            misses = misses + 1 if len(self.sketches) == known_paths else 0
        known = list(dict.fromkeys([s for s in self.sketches.values() if s is not None]))
        members += [sketch.origin for sketch in known]
        movable = [s for s in known if s.free]
        for _ in range(options.population - len(members)):
            if not movable:
                break
            members.append(self._redrawn(self.rng.choice(movable)))
        return _distinct(members)

    def _redrawn(self, sketch: Sketch) -> Individual:
        """A random member of a sketch."""
        draws = list(sketch.origin.draws)
        for i in sketch.free:
            draws[i] = draws[i].with_decision(redraw(draws[i], self.rng))
        return Individual(sketch.origin.space, tuple(draws))

    def _next_population(
        self, population: Sequence[Individual], scores: Floats
    ) -> list[Individual]:
        """Mutations and crossings of members, the better the more; the best stay."""
        order = np.argsort(-scores, kind="stable")
        ranked = [population[int(i)] for i in order]
        weights = [math.exp(-4.0 * i / len(ranked)) for i in range(len(ranked))]
        children = ranked[: max(1, len(ranked) // 8)]
        parents = self.rng.choices(ranked, weights, k=self.options.population)
        others = self.rng.choices(ranked, weights, k=self.options.population)
        for parent, other in zip(parents, others, strict=True):
            child = self._child(parent, other)
            if child is not None:
                children.append(child)
        return _distinct(children)

    def _child(self, parent: Individual, other: Individual) -> Individual | None:
        rng, options = self.rng, self.options
        sketch = self.sketches.get(parent.control)
        if sketch is None:
            return None
        if rng.random() < options.crossover and parent.space == other.space:
            if parent.control == other.control:
                only = [i for i in sketch.free if i < len(parent.draws)]
                return Individual(parent.space, cross(parent.draws, other.draws, rng, only=only))
            return self._resolve(parent.space, cross(parent.draws, other.draws, rng))
        control = [i for i in mutable(parent.draws) if i not in set(sketch.free)]
        if control and (not sketch.free or rng.random() < options.control_mutation):
            return self._resolve(parent.space, mutate(parent.draws, rng, only=control))
        if not sketch.free:
            return None
        return Individual(parent.space, mutate(parent.draws, rng, only=sketch.free))

    # -- members and sketches ----------------------------------------------------------------------
    def _resolve(self, space: int, draws: Draws) -> Individual | None:
        """The member that these decisions lead to. A path that was taken before is known; another
        costs a replay, and there is none where the budget is spent."""
        wanted = Individual(space, draws)
        # A place that was left out is drawn by the space function: it may be another each time.
        is_known = wanted.control in self.sketches
        if not is_known:
            found = self._spend(space, draws)
            if found is None:
                return None
            sketch = self._sketch_of(found)
            if len(found.individual.draws) == len(draws):
                self.sketches[wanted.control] = sketch
            return found.individual
        sketch = self.sketches[wanted.control]
        if sketch is None:
            return None
        given = {d.key: d.decision for d in draws}
        taken = list(sketch.origin.draws)
        for i in sketch.free:
            taken[i] = taken[i].with_decision(given.get(taken[i].key, taken[i].decision))
        return Individual(space, tuple(taken))

    def _sketch_of(self, found: Replayed) -> Sketch | None:
        """The sketch of a replayed member, made where it is the first on its path."""
        key = found.individual.control
        if key not in self.sketches:
            self.sketches[key] = Sketch(
                self.replayer, found, self.machine, self.rng.randrange(1 << 30)
            )
        return self.sketches[key]

    def _spend(self, space: int, draws: Draws) -> Replayed | None:
        if self._budget <= 0:
            return None
        self._budget -= 1
        return self._run(space, draws)

    def _run(self, space: int, draws: Draws) -> Replayed | None:
        seed = self.rng.randrange(1 << 30)
        known = self._replayed.get(Individual(space, draws).key)
        if known is not None:
            return known
        try:
            found = self.replayer.run(space, draws, seed)
        except ScheduleError as error:
            self._error = error
            return None
        self._ever_applied = True
        self._replayed[found.individual.key] = found
        if len(self._replayed) > _REMEMBERED:
            self._replayed.popitem(last=False)
        return found

    def _can_afford(self, sketch: Sketch, member: Individual) -> bool:
        """Whether a member's features are known, or there is something left of the budgets to pay
        for them. A fit may overdraw its own: without one a sketch is of no use, and later fits are
        fewer."""
        if sketch.fit_cost:
            if self._fit_budget <= 0:
                return sketch.knows(member)
            self._fit_budget -= sketch.fit_cost
        if sketch.needs_replay(member):
            if self._budget <= 0:
                return False
            self._budget -= 1
        return True

    def _score(self, members: Sequence[Individual]) -> tuple[list[Individual], Floats]:
        """The members whose features are to be had within the budget, and their scores."""
        groups: dict[int, tuple[Sketch, list[Individual]]] = {}
        for member in members:
            sketch = self.sketches.get(member.control)
            if sketch is None:
                continue
            if not self._can_afford(sketch, member):
                continue
            groups.setdefault(id(sketch), (sketch, []))[1].append(member)
        if not groups:
            return [], np.zeros(0)
        kept: list[Individual] = []
        for sketch, same in groups.values():
            if not sketch.fit_cost:
                sketch.try_fit()
            kept += same
        features = features_of_members(list(groups.values()), self.machine)
        usable = ~np.isnan(features[:, 0])
        kept = [m for m, is_usable in zip(kept, usable, strict=True) if is_usable]
        if not kept:
            return [], np.zeros(0)
        self.scored += len(kept)
        return kept, self.model.predict(features[usable])


def _distinct(members: Sequence[Individual]) -> list[Individual]:
    return list({m.key: m for m in members}.values())


def _is_over(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline
