"""What a database holds, counted, and workloads found by name or hash."""

from __future__ import annotations

from dataclasses import replace

import pytest

from burnish.support.errors import TuningError
from burnish.tuner.records.database import TuningDatabase, TuningRecord
from burnish.tuner.records.stats import database_stats, failure_reasons, find_workload


@pytest.fixture
def database() -> TuningDatabase:
    db = TuningDatabase()
    one = db.add_workload("abcd1", "main", 'def main(A: T.Buffer((8,), "int8")):', 2e9)
    two = db.add_workload("abcd2", "main", "def main(): 2", 0.0)
    made = TuningRecord("abcd1", "t", "a", one, "[]")
    for n, r in enumerate(
        (
            replace(made, seconds=(4.0,)),
            replace(made, candidate="b", error="wrong result: 3\nmore"),
            replace(made, candidate="c", seconds=(2.0, 3.0)),
            replace(made, candidate="d", target="u", error="wrong result: 3"),
            replace(made, workload="abcd2", source=two, error="hung"),
        )
    ):
        db.add(replace(r, created=float(n + 1)))
    return db


def test_a_row_for_each_workload_and_target(database: TuningDatabase) -> None:
    first, other, second = database_stats(database)
    assert (first.workload, first.target, first.signature) == ("abcd1", "t", "main(A: int8[8])")
    assert (first.measured, first.failed, first.first, first.best) == (2, 1, 4.0, 2.0)
    assert (first.gflops, first.kept) == (1.0, 3.0)
    assert (other.target, other.measured, other.failed, other.best) == ("u", 0, 1, None)
    assert (second.workload, second.gflops) == ("abcd2", 0.0)
    assert database_stats(TuningDatabase()) == []


def test_reasons_are_counted_by_their_first_line(database: TuningDatabase) -> None:
    assert failure_reasons(database) == [("wrong result: 3", 2), ("hung", 1)]
    assert failure_reasons(database, 1) == [("wrong result: 3", 2)]


def test_a_workload_is_found_by_name_or_by_the_beginning_of_its_hash() -> None:
    with TuningDatabase() as db:
        with pytest.raises(TuningError, match=r"has no workload for any; .*\n  none"):
            find_workload(db, None)
        db.add_workload("abcd1", "main", "def main(): 1", 1.0)
        assert find_workload(db, None) == "abcd1"
        db.add_workload("abcd2", "other", "def other(): 1", 1.0)
        assert find_workload(db, "other") == find_workload(db, "abcd2") == "abcd2"
        for wanted, which in (("abcd", "2 workloads"), ("abc", "no workload"), (None, "2 work")):
            with pytest.raises(
                TuningError, match=rf"has {which}.*\n  abcd1 main\(.*\n  abcd2 other\("
            ):
                find_workload(db, wanted)
        db.add_workload("abef3", "main", 'def main(A: T.Buffer((8,), "int8")):', 1.0)
        with pytest.raises(
            TuningError, match="has 2 workloads for 'main'; give the first"
        ) as caught:
            find_workload(db, "main")
        listed = caught.value.message.splitlines()[1:]
        assert listed == ["  abcd1 main(): 1", "  abef3 main(A: int8[8])"]
