"""Reducers: built-in ones with where and init, and those of the user's, over one or more values."""

from __future__ import annotations

import numpy as np
import pytest

from burnish import te
from burnish.support.errors import ComputeError, DTypeError
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.verify.laws import verify_func
from burnish.tensorir.verify.regions import verify_regions
from burnish.tests.strategies.stages import argmax
from burnish.tests.tensorir.interpreter import run

N = 7
VALUES = np.array([2, 5, 1, 5, 0, 5, -3], "float32")


def scalar(reduction: te.Expr) -> np.ndarray:
    a = next(iter(te.compute((), lambda: reduction, name="R").op.inputs))
    out = np.full((), np.nan, "float32")
    func = te.create_prim_func([a, te.compute((), lambda: reduction, name="R")])
    verify_regions(verify_func(func))
    run(func, VALUES, out)
    return out


def terms() -> tuple[te.Tensor, te.ReduceAxis]:
    return te.placeholder((N,), name="A"), te.reduce_axis((0, N), "k")


def test_where_leaves_terms_out() -> None:
    a, k = terms()
    assert scalar(te.sum(a[k], axis=k, where=a[k] < 5.0)) == 0
    assert scalar(te.max(a[k], axis=k, where=k < 1)) == 2
    assert scalar(te.min(a[k], axis=[k], where=k < 5)) == 0
    assert scalar(te.prod(a[k], axis=k, where=k < 2)) == 10


def test_init_is_what_a_reduction_starts_from() -> None:
    a, k = terms()
    assert scalar(te.sum(a[k], axis=k, init=100.0)) == 115
    assert scalar(te.max(a[k], axis=k, init=9.0)) == 9
    with pytest.raises(ComputeError, match="sum: the reduction is over float32; init is int64"):
        te.sum(a[k], axis=k, init=te.const(1, "int64"))


def test_a_reducer_over_one_value() -> None:
    a, k = terms()
    largest = te.comm_reducer(
        lambda x, y: te.maximum(te.abs(x), te.abs(y)), lambda t: te.const(0, t)
    )
    assert scalar(largest(a[k], axis=k)) == 5
    assert scalar(largest(a[k], axis=k, where=a[k] < 3.0)) == 3


def argmax_func() -> PrimFunc:
    a, k = te.placeholder((2, N), name="A"), te.reduce_axis((0, N), "k")
    place, top = te.compute((2,), lambda i: argmax()((k.var, a[i, k]), axis=k), name="T")
    return te.create_prim_func([a, place, top])


def test_argmax_finds_the_first_of_equal_values() -> None:
    func = argmax_func()
    verify_regions(verify_func(func))
    place, top = np.zeros(2, "int64"), np.zeros(2, "float32")
    run(func, np.stack([VALUES, -VALUES]), place, top)
    assert (place.tolist(), top.tolist()) == ([1, 6], [5.0, 3.0])
    text = func.script()
    assert "T_v0[v_i] = 9223372036854775807" in text
    # All values are made before one is stored.
    assert text.index("v_T_v1: T.float32 =") < text.index("T_v0[v_i] = v_T_v0")


def test_argmax_of_two_inputs() -> None:
    places = te.placeholder((N,), "int32", name="P")
    a, k = terms()
    found = te.compute((), lambda: argmax()((places[k], a[k]), axis=k), name="T")
    func = te.create_prim_func([places, a, *found])
    place, top = np.zeros((), "int32"), np.zeros((), "float32")
    run(func, np.arange(10, 10 + N, dtype="int32"), VALUES, place, top)
    assert (int(place), float(top)) == (11, 5.0)


def test_errors() -> None:
    a, k = terms()
    pair = (k.var, a[k])
    with pytest.raises(ComputeError, match="takes two functions"):
        te.comm_reducer(lambda x, y: x, 0)  # type: ignore[arg-type]
    one = te.comm_reducer(lambda x, y: x[0], lambda t, u: (te.const(0, t), te.const(0, u)), "one")
    with pytest.raises(
        ComputeError, match="one: the reduction is over 2 values, so fcombine must "
    ):
        one(pair, axis=k)
    less = te.comm_reducer(lambda x, y: x, lambda *t: (te.const(0, t[0]),), "less")
    with pytest.raises(ComputeError, match="fidentity must give a tuple of 2; it gave 1 values"):
        less(pair, axis=k)
    two = te.comm_reducer(lambda x, y: (x, y), lambda t: te.const(0, t), "two")
    with pytest.raises(ComputeError, match="two: the reduction is over one value, but fcombine ga"):
        two(a[k], axis=k)
    wide = te.comm_reducer(lambda x, y: (x + y).astype("float64"), lambda t: te.const(0, t), "wide")
    with pytest.raises(
        ComputeError, match="wide: value 0 of the reduction is float32, but fcombin"
    ):
        wide(a[k], axis=k)
    with pytest.raises(ComputeError, match="argmax: expected at least one axis"):
        argmax()(pair, axis=[])
    with pytest.raises(ComputeError, match="argmax: expected axes made by reduce_axis, found Var"):
        argmax()(pair, axis=[te.var("i")])


def test_a_reducer_of_values_alone_combines_them() -> None:
    total = te.comm_reducer(lambda x, y: x + y * 2, lambda t: te.const(0, t), name="total")
    a = te.placeholder((4, 3), name="A")
    b = te.compute((4,), lambda i: total(a[i, 0], a[i, 1], a[i, 2], 1), name="B")
    found = np.zeros(4, "float32")
    given = np.arange(12, dtype="float32").reshape(4, 3)
    run(te.create_prim_func([a, b]), given, found)
    np.testing.assert_array_equal(found, given @ np.float32([1, 2, 2]) + 2)
    with pytest.raises(DTypeError, match="for Add; found float32 and float64"):
        te.compute((4,), lambda i: total(a[i, 0], te.const(1, "float64")))


def test_a_reducer_begins_with_init() -> None:
    a, k = terms()
    largest = te.comm_reducer(te.maximum, te.min_value, name="largest")
    b = te.compute((1,), lambda _: largest(a[k], axis=k, init=20.0), name="B")
    found = np.zeros(1, "float32")
    run(te.create_prim_func([a, b]), VALUES, found)
    assert found[0] == 20.0
    with pytest.raises(ComputeError, match="over one value, but init gave 2"):
        largest(a[k], axis=k, init=(1.0, 2.0))
