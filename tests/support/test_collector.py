"""support/collector.py: thresholds inside, and as they were afterwards."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from burnish.support.collector import MIDDLE, OLD, YOUNG, rare_collections

MINE = (YOUNG, MIDDLE, OLD)


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_the_thresholds_are_put_back() -> None:
    with rare_collections():
        assert gc.get_threshold() == MINE
        with rare_collections():
            assert gc.get_threshold() == MINE
        assert gc.get_threshold() == MINE
    assert gc.get_threshold() == (700, 10, 10)


def test_an_error_puts_them_back() -> None:
    with pytest.raises(KeyError), rare_collections():
        raise KeyError
    assert gc.get_threshold() == (700, 10, 10)


def test_the_last_of_two_threads_puts_them_back() -> None:
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with rare_collections():
            entered.set()
            leave.wait(60)

    thread = threading.Thread(target=other)
    with rare_collections():
        thread.start()
        assert entered.wait(60)
    assert gc.get_threshold() == MINE
    leave.set()
    thread.join(60)
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("own", [(0, 10, 10), (YOUNG * 2, 5, 5)])
def test_rarer_collections_stay_as_they_are(own: tuple[int, int, int]) -> None:
    gc.set_threshold(*own)
    with rare_collections():
        assert gc.get_threshold() == own
    assert gc.get_threshold() == own


def test_what_somebody_sets_inside_stays() -> None:
    with rare_collections():
        gc.set_threshold(900, 9, 9)
    assert gc.get_threshold() == (900, 9, 9)


def test_a_collector_that_is_off_is_left_alone() -> None:
    gc.disable()
    try:
        with rare_collections():
            assert gc.get_threshold() == (700, 10, 10)
    finally:
        gc.enable()
