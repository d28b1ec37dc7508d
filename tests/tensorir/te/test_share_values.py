"""Values that a definition uses several times: computed once, never where they may not be."""

from __future__ import annotations

import numpy as np
import pytest

from burnish import te
from burnish.support.node import walk
from burnish.tensorir.expr import Call, Expr, Let
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.te.share_values import share_values
from burnish.tests.native import load_native


def step(x: Expr) -> Expr:
    return x * te.sigmoid(x) + te.abs(x)


def chain(steps: int, reduced: bool = False) -> PrimFunc:
    a = te.placeholder((4, 8), name="A", dtype="float64")
    k = te.reduce_axis((0, 8), name="k")

    def value(x: Expr) -> Expr:
        for _ in range(steps):
            x = step(x)
        return x

    if reduced:
        b = te.compute((4,), lambda i: te.sum(value(a[i, k]), axis=k), name="B")
    else:
        b = te.compute((4, 8), lambda i, j: value(a[i, j]), name="B")
    return te.create_prim_func([a, b])


def nodes(func: PrimFunc) -> int:
    return sum(1 for _ in walk(func.body))


@pytest.mark.parametrize("reduced", [False, True])
def test_a_chain_grows_by_the_same_at_every_step(reduced: bool) -> None:
    sizes = [nodes(chain(steps, reduced)) for steps in (10, 11, 12, 40)]
    assert sizes[2] - sizes[1] == sizes[1] - sizes[0] < 20
    assert sizes[3] - sizes[2] == 28 * (sizes[1] - sizes[0])


@pytest.mark.parametrize("reduced", [False, True])
def test_a_shared_chain_is_computed_right(reduced: bool) -> None:
    x = np.random.default_rng(0).normal(size=(4, 8)) / 8
    expected = x
    for _ in range(11):
        expected = expected / (1 + np.exp(-expected)) + abs(expected)
    out = np.zeros((4,) if reduced else (4, 8))
    load_native(chain(11, reduced), x, out)()
    np.testing.assert_allclose(out, expected.sum(1) if reduced else expected, rtol=1e-13)


def test_small_definitions_stay_as_they_are_written() -> None:
    assert not any(isinstance(n, Let) for n in walk(chain(2).body))


def loaded(count: int) -> list[Expr]:
    a = te.placeholder((64,), name="A", dtype="int64")
    i = te.var("i")
    return [a[i + k] for k in range(count)]


def test_what_only_branches_use_stays_in_them() -> None:
    """A value with a division is not put before the condition that guards it."""
    x, y = loaded(2)
    divided = x // y
    taken, other = divided, divided + 1
    for _ in range(9):
        taken, other = taken * taken + 1, other * other - divided
    value = share_values(Call("if_then_else", (y > 0, taken, other), x.dtype))
    assert isinstance(value, Call)
    assert sum(1 for _ in walk(value)) < 300
    assert any(isinstance(n, Let) for n in walk(value.args[1]))
    assert not any(isinstance(n, Let) for n in walk(value.args[0]))


def test_arithmetic_of_indices_is_not_hidden() -> None:
    i = te.var("i")
    value: Expr = i
    for _ in range(8):
        value = value * value + value
    assert share_values(value) is value
