"""Control flow: guards, loop bounds, conditions, lets."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.support.dtype import DType
from burnish.support.errors import CodegenError
from burnish.support.host import native_target
from burnish.tensorir.codegen.object import emit_object
from burnish.tensorir.expr import INDEX, Cast, Var
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.stmt import For
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.visitor import substitute
from burnish.tests.native import call_native, lower


def run(body: str, n: int, size: int = 64) -> list[float]:
    """``A`` of zeros after ``body``, which sees n and A, in both kinds of function."""
    results = []
    for scheduled in (True, False):
        func = parse_func(f"""
@T.prim_func
def f(d: T.handle, A: T.Buffer(({size},), "float32")):
    T.func_attr({{"is_scheduled": {scheduled}}})
    n = T.int64()
    D = T.match_buffer(d, (n,), "float32")
{body}
""")
        a = np.zeros(size, "float32")
        call_native(func, np.zeros(n, "float32"), a, dims=(n,))
        results.append(a.tolist())
    assert results[0] == results[1]
    return results[0]


@pytest.mark.parametrize("n", [0, 1, 7])
def test_a_loop_of_symbolic_extent_may_be_empty(n: int) -> None:
    body = """
    for i in range(n):
        A[i] = A[i] + T.float32(1)
"""
    assert run(body, n) == [1.0] * n + [0.0] * (64 - n)


def test_a_triangular_nest_with_bounds_from_outer_loops() -> None:
    body = """
    for i in range(n):
        for j in range(i, n):
            A[i * 8 + j] = A[i * 8 + j] + T.float32(1)
"""
    expected = np.triu(np.ones((8, 8))).reshape(-1).tolist()
    assert run(body, 8) == expected


def test_values_hoisted_in_front_of_a_guarded_loop_serve_what_follows() -> None:
    body = """
    for i in range(4):
        for j in range(n):
            A[i * n + j] = T.float32(1)
        A[i * n + 40] = T.float32(2)
"""
    expected = np.zeros(64)
    for i in range(4):
        expected[i * 3 : i * 3 + 3] = 1
        expected[i * 3 + 40] = 2
    assert run(body, 3) == expected.tolist()
    assert run(body, 0)[40] == 2.0


def test_if_else_with_loops_inside() -> None:
    body = """
    for i in range(8):
        if i % 2 == 0:
            for j in range(n):
                A[i * 8 + j] = T.float32(1)
        else:
            A[i * 8] = T.float32(5)
        A[i * 8 + 7] = T.cast(i * n, "float32")
"""
    expected = np.zeros((8, 8))
    expected[::2, :3] = 1
    expected[1::2, 0] = 5
    expected[:, 7] = np.arange(8) * 3
    assert run(body, 3) == expected.reshape(-1).tolist()


def test_a_division_by_a_dimension_stays_under_its_guard() -> None:
    body = """
    for i in range(64):
        if n > 0:
            A[i] = T.cast(i // n, "float32")
"""
    assert run(body, 0) == [0.0] * 64
    assert run(body, 5) == [float(i // 5) for i in range(64)]


def test_let_binds_a_value_once() -> None:
    body = """
    for i in range(8):
        with T.LetStmt(T.cast(i * i, "float32")) as x:
            A[i] = x + x
"""
    assert run(body, 1)[:8] == [float(2 * i * i) for i in range(8)]


def test_a_loop_variable_that_is_no_index_is_an_error() -> None:
    func = lower(
        parse_func("""
@T.prim_func
def f(A: T.Buffer((8,), "float32")):
    for i in range(8):
        A[i] = T.float32(1)
""")
    )
    loop = func.func.body
    assert isinstance(loop, For)
    narrow = Var("i", DType("int32"))
    body = substitute(loop.body, {loop.var: Cast(INDEX, narrow)})
    broken = For(narrow, loop.min, loop.extent, loop.kind, body)
    bad = PrimFunc(func.func.params, broken, func.func.attrs, "f")
    lowered = type(func)(bad, func.shared_bytes, func.thread_bytes, func.dims)
    with pytest.raises(CodegenError, match="Loop variable i must be int64, found int32"):
        emit_object([lowered], native_target())
