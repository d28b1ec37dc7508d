"""Evolutionary search: repeatable, inside the space, frugal with replays, better than chance."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest

from burnish.support.errors import TuningError
from burnish.support.host import resolve
from burnish.support.structural import structural_hash
from burnish.support.target import Target
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule, Trace
from burnish.tests.tuner.programs import matmul, tiled
from burnish.tests.tuner.spaces import doubled, four_levels, known_cost, steered
from burnish.tuner.candidate import Candidate, SpaceFunction, make_candidate
from burnish.tuner.cost.cost_model import LearnedModel, RandomModel
from burnish.tuner.search.evolution import EvolutionarySearch, EvolutionOptions
from burnish.tuner.search.search import RandomSearch, SearchStrategy
from burnish.tuner.search.space import analytic_choices, default_space

TARGET = resolve(Target("native -threads=1"))
SMALL = EvolutionOptions(population=64, generations=3, first_replays=8, replays=2)


def search(
    func: PrimFunc | None = None, space: Sequence[SpaceFunction] = (four_levels,), **options: Any
) -> EvolutionarySearch:
    settings: dict[str, Any] = {"seed": 0, "target": TARGET, "options": SMALL}
    settings["model"] = LearnedModel(enough=8)
    return EvolutionarySearch(func or doubled(), space, **settings | options)


def measure(found: SearchStrategy, batches: int, size: int) -> list[float]:
    """The costs of what a search proposes, which it is told."""
    costs: list[float] = []
    for _ in range(batches):
        batch = found.propose(size)
        found.observe([(c.hash, known_cost(c)) for c in batch])
        costs += [known_cost(c) for c in batch]
    return costs


def test_candidates_are_distinct_and_replay() -> None:
    found = search(matmul(32), [tiled]).propose(8)
    assert len({c.hash for c in found}) == 8
    for c in found:
        sch = Schedule(matmul(32), seed=99)
        Trace.from_json(c.trace).apply_to(sch)
        assert structural_hash(sch.func) == c.hash == structural_hash(c.func)


def test_the_same_seed_and_measurements_give_the_same_candidates() -> None:
    assert measure(search(), 3, 6) == measure(search(), 3, 6)
    assert measure(search(), 2, 6) != measure(search(seed=1), 2, 6)


def test_known_candidates_are_not_proposed_again() -> None:
    known = {c.hash for c in search().propose(8)}
    again = search(seen=known)
    assert not known & {c.hash for c in again.propose(8)}
    batch = {c.hash for c in again.propose(8)}
    assert not known & batch


def test_an_exhausted_space_gives_fewer_and_then_none() -> None:
    found = search(matmul(8), [tiled])
    assert len(found.propose(1000)) == 16  # 4 x 4 tiles of 8 x 8
    assert found.propose(10) == []


def test_it_beats_random_search() -> None:
    wins, total = 0, 0.0
    for seed in range(3):
        evolved = min(measure(search(seed=seed), 5, 8))
        drawn = min(measure(RandomSearch(doubled(), [four_levels], seed=seed), 5, 8))
        wins += evolved < drawn
        total += drawn / evolved
    assert wins >= 2
    assert total / 3 > 1.3


def test_scores_are_cheap() -> None:
    found = search(options=EvolutionOptions(population=400, generations=3))
    found.propose(8)
    assert found.scored >= 1000
    # 8 programs of the batch, a fit, and a few looks for paths: not one a member.
    assert found.replayer.replays * 1000 / found.scored < 60


def test_replays_have_a_budget_where_nothing_is_symbolic() -> None:
    options = EvolutionOptions(population=200, first_replays=10, replays=2)
    found = search(matmul(64), default_space(matmul(64), TARGET)[:1], options=options)
    assert len(found.propose(4)) == 4
    assert found.replayer.replays <= 10 + 2 * 4 + 4


def test_the_first_choice_is_proposed_first_and_is_a_member() -> None:
    func = matmul(64)
    found = search(func, default_space(func, TARGET), first=analytic_choices(func, TARGET))
    sch = Schedule(func, seed=0)
    analytic_choices(func, TARGET)[0](sch)
    (candidate,) = found.propose(1)
    assert candidate.hash == make_candidate(sch).hash
    found.observe([(candidate.hash, 1e-3)])
    assert [seconds for seconds, _ in found.elite] == [1e-3]


def test_paths_of_a_steered_space_are_all_found() -> None:
    found = search(space=[steered])
    batch = found.propose(24)
    ways = {next(iter(Trace.from_json(c.trace).decisions.values())) for c in batch}
    assert len(ways) > 1
    assert len([s for s in set(found.sketches.values()) if s is not None]) == 3


def test_failed_candidates_are_no_elite_and_never_again() -> None:
    found = search()
    batch = found.propose(8)
    found.observe([(c.hash, None) for c in batch])
    assert found.elite == []
    assert not {c.hash for c in batch} & {c.hash for c in found.propose(8)}


def test_a_resumed_search_starts_from_the_records() -> None:
    first = search()
    batch = first.propose(12)
    records = [(c.hash, c.trace, known_cost(c)) for c in batch]
    again = search(seen={c.hash for c in batch})
    other: Candidate = make_candidate(_scheduled(tiled, matmul(8)))
    unknown = [(other.hash, other.trace, 1.0), ("no hash", "[3]", 1.0), ("torn", "[[", 1.0)]
    assert again.resume(records + unknown) == 12
    assert again.elite[0][0] == min(s for _, _, s in records)
    assert not {c.hash for c in batch} & {c.hash for c in again.propose(6)}


def _scheduled(space: SpaceFunction, func: PrimFunc) -> Schedule:
    sch = Schedule(func, seed=0)
    space(sch)
    return sch


def test_a_space_that_never_applies_says_why() -> None:
    def broken(sch: Schedule) -> None:
        sch.split(sch.get_loops("B")[0], [3, 2])

    with pytest.raises(TuningError, match=r"applies to no state of 'main'; .* split:"):
        search(space=[broken]).propose(4, attempts=3)


def test_a_space_that_applies_sometimes_is_used() -> None:
    def sometimes(sch: Schedule) -> None:
        four_levels(sch)
        if sch.get(sch.sample_categorical([0, 1], [1, 1])):
            sch.get_block("nothing")

    assert len(search(space=[sometimes]).propose(6)) == 6


def test_a_mistake_in_a_space_function_is_not_hidden() -> None:
    def mistaken(_: Schedule) -> None:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        search(space=[mistaken]).propose(1)


def test_a_deadline_ends_the_proposals() -> None:
    assert search().propose(4, deadline=time.monotonic()) == []


def test_any_model_ranks() -> None:
    assert len(search(model=RandomModel(0)).propose(4)) == 4
