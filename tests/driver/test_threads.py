"""How many threads a call gets."""

from __future__ import annotations

import pytest

from burnish import errors
from burnish.driver.threads import check_threads, runtime, thread_count
from burnish.support.target import Target
from burnish.vm import parallel
from burnish.vm.binding import Runtime


def test_the_least_of_all_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "default_threads", lambda: 8)
    free, bound = Target("native"), Target("native -threads=3")
    assert thread_count(free, None) == 8
    assert thread_count(free, 5) == 5
    assert thread_count(free, 50) == 8
    assert thread_count(bound, None) == 3
    assert thread_count(bound, 2) == 2
    assert thread_count(bound, 4) == 3


@pytest.mark.parametrize("variable", ["BURNISH_NUM_THREADS", "OMP_NUM_THREADS"])
def test_the_environment_limits_too(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "1")
    assert thread_count(Target("native"), None) == 1


@pytest.mark.parametrize("threads", [0, -3, 1.0, "2", True])
def test_what_is_no_number_of_threads(threads: object) -> None:
    with pytest.raises(errors.ArgumentError, match="expected a whole number of at least 1"):
        check_threads(threads)  # type: ignore[arg-type]


def test_records_are_shared() -> None:
    assert runtime(2) == runtime(2)
    assert Runtime.from_address(runtime(2)).threads == 2
    assert Runtime.from_address(runtime(1)).threads == 1
