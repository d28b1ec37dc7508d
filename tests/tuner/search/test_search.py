"""The random search: distinct candidates, repeatable, and honest about what it cannot do."""

from __future__ import annotations

import json
import time

import pytest

from burnish.support.errors import TuningError
from burnish.support.structural import structural_hash
from burnish.tensorir.schedule import Schedule, Trace
from burnish.tests.tuner.programs import matmul, tiled
from burnish.tuner.candidate import make_candidate
from burnish.tuner.search.search import RandomSearch, ReplayTraceSearch


def search(seed: int = 0, seen: set[str] | None = None, **options: object) -> RandomSearch:
    return RandomSearch(matmul(8), [tiled], seed=seed, seen=seen or set(), **options)  # type: ignore[arg-type]


def hashes(found: RandomSearch, count: int) -> list[str]:
    return [c.hash for c in found.propose(count)]


def vectorized(sch: Schedule) -> None:
    sch.vectorize(sch.get_loops("C")[1])


def broken(sch: Schedule) -> None:
    sch.split(sch.get_loops("C")[0], [3, 2])


def test_candidates_are_distinct_and_replay() -> None:
    found = search().propose(6)
    assert len({c.hash for c in found}) == 6
    for c in found:
        assert isinstance(json.loads(c.trace), list)
        sch = Schedule(matmul(8), seed=99)
        Trace.from_json(c.trace).apply_to(sch)
        assert structural_hash(sch.func) == c.hash == structural_hash(c.func)


def test_the_same_seed_and_records_give_the_same_candidates() -> None:
    assert hashes(search(3), 6) == hashes(search(3), 6)
    assert hashes(search(3), 6) != hashes(search(4), 6)
    one = search(3)
    assert hashes(one, 2) + hashes(one, 4) == hashes(search(3), 6)
    known = set(hashes(search(3), 4))
    assert hashes(search(3, known), 4) == hashes(search(3, known), 4)


def test_known_candidates_are_not_proposed_again() -> None:
    known = set(hashes(search(), 6))
    assert not known & set(hashes(search(0, known), 6))


def test_an_exhausted_space_gives_fewer_and_then_none() -> None:
    all_of_them = search()
    assert len(all_of_them.propose(1000, attempts=200)) == 16  # 4 x 4 tiles of 8 x 8
    assert all_of_them.propose(10) == []
    assert search(0, all_of_them.seen).propose(10) == []


def test_a_resumed_search_goes_on_where_many_are_known() -> None:
    func = matmul(720)
    first = RandomSearch(func, [tiled], seed=0)
    known = {c.hash for c in first.propose(20)}
    again = RandomSearch(func, [tiled], seed=0, seen=known)
    # The first draws of the same seed are all known; with 5 misses allowed they would end it.
    assert len(again.propose(2, attempts=5)) == 2


def test_choices_that_are_made_come_first() -> None:
    sch = Schedule(matmul(8), seed=0)
    vectorized(sch)
    first = search(first=[vectorized]).propose(3)[0]
    assert first.hash == make_candidate(sch).hash


def test_spaces_are_drawn_from_all() -> None:
    found = RandomSearch(matmul(8), [tiled, vectorized], seed=0).propose(8)
    kinds = {len(json.loads(c.trace)) for c in found}
    assert len(kinds) == 2


def test_a_space_that_applies_sometimes_is_used() -> None:
    found = RandomSearch(matmul(8), [broken, tiled], seed=0, first=[broken]).propose(4)
    assert len(found) == 4


def test_a_space_that_never_applies_says_why() -> None:
    with pytest.raises(TuningError) as caught:
        RandomSearch(matmul(8), [broken], seed=0, seen={"something"}).propose(4, attempts=3)
    assert "applies to no state of 'main'; in the last of 3 attempts: split:" in str(caught.value)


def test_a_mistake_in_a_space_function_is_not_hidden() -> None:
    def mistaken(_: Schedule) -> None:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        RandomSearch(matmul(8), [mistaken], seed=0).propose(1)


def test_a_deadline_ends_the_proposals() -> None:
    assert search().propose(4, deadline=time.monotonic()) == []
    assert len(search().propose(4, deadline=time.monotonic() + 60)) == 4


def test_traces_are_replayed_with_other_decisions() -> None:
    found = ReplayTraceSearch(matmul(16), [tiled], seed=0)
    batch = found.propose(8)
    assert len({c.hash for c in batch}) == 8
    again = ReplayTraceSearch(matmul(16), [tiled], seed=0)
    assert [c.hash for c in again.propose(8)] == [c.hash for c in batch]
    assert found.propose(1, attempts=0) == []


def test_traces_keep_what_steered_their_space_function() -> None:
    def steered(sch: Schedule) -> None:
        rows = sch.get(sch.sample_categorical([1, 2, 4], [1, 1, 1]))
        i, j, _ = sch.get_loops("C")
        sch.split(i, [None, rows])
        sch.split(j, sch.sample_perfect_tile(j, 2, 16))

    for c in ReplayTraceSearch(matmul(16), [steered], seed=1).propose(6):
        rows, _ = Trace.from_json(c.trace).decisions.values()
        split = next(i for i in Trace.from_json(c.trace) if i.kind == "split")
        assert dict((*split.inputs, *split.attrs))["factors"][1] == [1, 2, 4][rows]


def test_a_trace_without_free_decisions_is_not_replayed() -> None:
    found = ReplayTraceSearch(matmul(8), [vectorized], seed=0)
    assert len(found.propose(4, attempts=8)) == 1
