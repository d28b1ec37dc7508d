from __future__ import annotations

import gc
import weakref

import pytest

from burnish.support.node import Node, node
from burnish.support.remembered import forget, remembered


@node
class Leaf(Node):
    value: int = 0


def test_each_answer_is_computed_once() -> None:
    asked: list[tuple[int, int]] = []

    @remembered
    def plus(n: Leaf, more: int, times: int = 1) -> int:
        asked.append((n.value, more))
        return n.value + more * times

    one, other = Leaf(1), Leaf(1)
    assert [plus(one, 2), plus(one, 2), plus(one, 3), plus(other, 2)] == [3, 3, 4, 3]
    assert asked == [(1, 2), (1, 3), (1, 2)]
    assert plus(one, 2, times=2) == 5
    assert plus(one, 2, times=2) == 5
    assert len(asked) == 4


def test_none_is_an_answer_and_an_error_is_none() -> None:
    asked: list[int] = []

    @remembered
    def nothing(n: Leaf) -> None:
        asked.append(n.value)
        if n.value:
            raise ValueError("an error")

    zero, one = Leaf(0), Leaf(1)
    assert nothing(zero) is None
    assert nothing(zero) is None
    for _ in range(2):
        with pytest.raises(ValueError, match="an error"):
            nothing(one)
    assert asked == [0, 1, 1]


def test_a_node_that_was_asked_about_is_not_kept() -> None:
    @remembered
    def value(n: Leaf) -> int:
        return n.value

    leaf = Leaf(4)
    assert value(leaf) == 4
    gone = weakref.ref(leaf)
    del leaf
    gc.collect()
    assert gone() is None


def test_what_was_forgotten_is_computed_anew() -> None:
    table = {"one": 1}

    @remembered
    def looked_up(n: Leaf, name: str) -> int:
        return table[name] + n.value

    leaf = Leaf(1)
    assert looked_up(leaf, "one") == 2
    table["one"] = 10
    assert looked_up(leaf, "one") == 2
    forget(looked_up)
    assert looked_up(leaf, "one") == 11
