"""bind_sizes: named sizes become numbers, everywhere, and the function computes the same."""

from __future__ import annotations

import numpy as np
import pytest

import burnish
from burnish import te
from burnish.support.structural import structural_equal
from burnish.tensorir.bind_sizes import bind_sizes
from burnish.tensorir.expr import IntImm, Var
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.text.parser import parse_func
from burnish.tests.tuner.programs import matmul

TWICE = """
@T.prim_func
def f(a: T.handle, b: T.handle):
    n, m = T.int64(), T.int64()
    A = T.match_buffer(a, (n, m * 2))
    B = T.match_buffer(b, (m * 2,))
    S = T.alloc_buffer((m * 2, n))
    for i, j in T.grid(n, m * 2):
        with T.block("S"):
            u, v = T.axis.remap("SS", [i, j])
            S[v, u] = A[u, v] + T.Cast("float32", n)
    for j, i in T.grid(m * 2, n):
        with T.block("B"):
            v, u = T.axis.remap("SR", [j, i])
            with T.init():
                B[v] = T.float32(0)
            B[v] = B[v] + S[v, u]
"""


def bound(func: PrimFunc, *values: int) -> PrimFunc:
    return bind_sizes(func, dict(zip(func.shape_vars, values, strict=True)))


def test_every_shape_is_a_number_and_the_text_says_so() -> None:
    func = bound(parse_func(TWICE), 3, 4)
    assert not func.shape_vars
    assert [[d.value for d in b.shape if isinstance(d, IntImm)] for b in func.buffers] == [
        [3, 8],
        [8],
    ]
    assert "m * 2" not in func.script()
    assert structural_equal(parse_func(func.script()), func)


def test_a_bound_function_is_that_of_these_sizes() -> None:
    n = te.var("n")
    assert structural_equal(bound(matmul(n), 16), matmul(16))


def test_without_sizes_it_is_the_same_object() -> None:
    func = matmul(8)
    assert bind_sizes(func, {}) is func
    assert bind_sizes(func, {Var("n", matmul(te.var("n")).shape_vars[0].dtype): 3}) is func


@pytest.mark.parametrize("sizes", [(3, 4), (1, 1), (17, 5)])
def test_it_computes_what_the_general_one_does(sizes: tuple[int, int]) -> None:
    func = parse_func(TWICE)
    n, m = sizes
    x = np.random.default_rng(0).random((n, 2 * m), dtype=np.float32)
    found, wanted = np.zeros(2 * m, np.float32), np.zeros(2 * m, np.float32)
    burnish.build(bound(func, *sizes))["f"](x, found)
    burnish.build(func)["f"](x, wanted)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_allclose(found, (x + n).sum(0), rtol=1e-5)


def test_a_scheduled_function_can_be_bound() -> None:
    sch = Schedule(matmul(te.var("n")), seed=0)
    i, _, _ = sch.get_loops("C")
    sch.split(i, [None, 8])
    func = bound(sch.func, 20)
    assert not func.shape_vars
    a = np.random.default_rng(0).random((20, 20), dtype=np.float32)
    c = np.zeros((20, 20), np.float32)
    burnish.build(func)["main"](a, a, c)
    np.testing.assert_allclose(c, a @ a, rtol=1e-5)
