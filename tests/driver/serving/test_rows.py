"""Rows that depend on each other are found, in every way they can; others are not suspected."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from burnish.driver.serving.protocol import TensorForm
from burnish.driver.serving.rows import row_dependence
from burnish.support.errors import ArgumentError

X = TensorForm("x", "float32", ("batch", "seq"))
N = TensorForm("n", "int64", ("batch", "seq"))
Y = TensorForm("y", "float32", ("batch", "seq"))

Function = Callable[[np.ndarray], np.ndarray]


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


INDEPENDENT: dict[str, Function] = {
    "elementwise": np.tanh,
    "softmax of a row": lambda x: softmax(x, 1),
    "sorted rows": lambda x: np.sort(x, 1),
    "constant": lambda x: np.zeros_like(x),
    "infinite for some": lambda x: np.where(x > 0, np.inf, x).astype(np.float32),
}
DEPENDENT: dict[str, tuple[Function, str]] = {
    "batch statistics": (lambda x: (x - x.mean(0)) / x.std(0), "inputs of another row"),
    "softmax over the batch": (lambda x: softmax(x, 0), "inputs of another row"),
    "sum": (lambda x: x - x.sum(0), "inputs of another row"),
    "largest": (lambda x: x / np.abs(x).max(), "inputs of another row"),
    "large only": (lambda x: x + (np.abs(x).max() > 20), "inputs of another row"),
    "running sum": (lambda x: np.cumsum(x, 0), "inputs of another row"),
    "shifted": (lambda x: np.roll(x, 1, 0), "inputs of another row"),
    "sorted": (lambda x: np.sort(x, 0), "inputs of another row"),
    "numbered": (lambda x: x + np.arange(len(x))[:, None], "its place in the batch"),
    "counted": (lambda x: x / len(x), "how many rows there are"),
    "not finite": (lambda x: x * np.nan, "not finite"),
    "other rows": (lambda x: np.concatenate([x, x]), "y has"),
}


@pytest.mark.parametrize("name", INDEPENDENT)
def test_rows_that_are_independent(name: str) -> None:
    function = INDEPENDENT[name]
    assert row_dependence(lambda a: (function(a[0]),), [X], [Y]) is None


@pytest.mark.parametrize("name", DEPENDENT)
def test_rows_that_depend_on_each_other(name: str) -> None:
    function, why = DEPENDENT[name]
    assert why in str(row_dependence(lambda a: (function(a[0]).astype(np.float32),), [X], [Y]))


def test_rows_of_bfloat16() -> None:
    """Held as bits, compared as numbers."""
    form = TensorForm("h", "bfloat16", ("batch", "seq"))

    def through(function: Function) -> Callable[..., tuple[np.ndarray, ...]]:
        return lambda a: (form.stored(function(form.numbers(a[0]))),)

    assert row_dependence(through(np.tanh), [form], [form]) is None
    found = row_dependence(through(lambda x: x - x.mean(0)), [form], [form])
    assert "inputs of another row" in str(found)
    found = row_dependence(through(lambda x: x * np.nan), [form], [form])
    assert "not finite" in str(found)


def test_integers_are_indices_and_sizes_are_tried() -> None:
    table = np.arange(2, dtype=np.float32)

    def run(arrays: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        if arrays[0].shape[1] > 2:
            raise ArgumentError("seq is at most 2")
        return (table[arrays[0]],)

    assert row_dependence(run, [N], [Y]) is None

    def refuse(arrays: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        raise ArgumentError("seq is 5")

    assert row_dependence(refuse, [N], [Y]) == (
        "it could not be probed with random inputs: seq is 5"
    )
