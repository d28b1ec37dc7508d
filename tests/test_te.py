"""The names of ``te``: that they are there, and that they build what they say."""

from __future__ import annotations

import numpy as np
import pytest

import burnish
from burnish import te
from burnish.tensorir.expr import Call, Cast, Expr, Select
from burnish.tensorir.intrinsics import INTRINSICS
from burnish.tensorir.text.printer import print_expr


def test_every_name_is_there() -> None:
    for name in te.__all__:
        assert getattr(te, name) is not None


@pytest.mark.parametrize(
    "name", ["exp", "log", "tanh", "sqrt", "sigmoid", "erf", "floor", "isnan", "abs"]
)
def test_functions_are_intrinsics(name: str) -> None:
    made = getattr(te, name)(te.var("x", "float32"))
    assert isinstance(made, Call)
    assert made.op == name
    assert INTRINSICS[name].doc in getattr(te, name).__doc__


def test_conditions_and_casts() -> None:
    x, p = te.var("x", "float32"), te.var("p", "bool")
    assert print_expr(te.if_then_else(p, x, 0)) == "T.if_then_else(p, x, T.float32(0))"
    assert isinstance(te.select(p, x, -x), Select)
    assert isinstance(te.cast(x, "int32"), Cast)
    assert print_expr(te.power(x, 2.0)) == "T.pow(x, T.float32(2))"


def test_symbolic_dims() -> None:
    n = te.size_var("n")
    a = te.placeholder((n, 2 * n), name="A")
    assert a.shape[0] is n
    assert isinstance(a.shape[1], Expr)
    assert te.placeholder(4).shape[0].dtype == "int64"


def test_conditions_of_several() -> None:
    i = te.var("i")
    assert print_expr(te.all(i > 1, i < 5)) == "i > 1 and i < 5"
    assert print_expr(te.any(i > 1, i < 5)) == "i > 1 or i < 5"
    assert print_expr(te.any()) == "T.bool(False)"
    assert print_expr(te.all()) == "T.bool(True)"


def test_limits_of_dtypes() -> None:
    assert print_expr(te.min_value("float32")) == 'T.float32("-inf")'
    assert print_expr(te.max_value("int32")) == "T.int32(2147483647)"
    assert print_expr(te.const(3, "float32")) == "T.float32(3)"


def test_a_schedule_is_one_of_stages() -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1.0, name="B")
    s: te.Schedule = te.create_schedule(b.op)
    assert isinstance(s, te.StageSchedule)
    assert isinstance(s[b], te.Stage)
    assert isinstance(s[b].split(b.op.axis[0], 2)[0], te.StageAxis)
    assert isinstance(te.thread_axis("threadIdx.x"), te.ThreadAxis)


def test_names_that_are_none_here_say_what_does_it() -> None:
    for name in ("extern", "scan", "hybrid", "decl_tensor_intrin"):
        with pytest.raises(AttributeError, match=rf"{name}'; here it is .*from_tvm\.md"):
            getattr(te, name)
    with pytest.raises(AttributeError, match=r"no attribute 'nonsense'$"):
        te.nonsense  # noqa: B018
    assert not set(te._ELSEWHERE) & set(te.__all__)


def test_a_function_of_c_is_a_value_of_scalars() -> None:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: te.call_extern("float32", "twice", a[i]) + 1.0, name="B")
    s = te.create_schedule(b.op)
    text = "define float @twice(float %x) { %y = fadd float %x, %x ret float %y }"
    s[b].pragma(b.op.axis[0], "import_llvm", text)
    assert "twice(A[i]) + 1" in str(burnish.lower(s, [a, b], simple_mode=True))
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    burnish.build(s, [a, b], target="llvm")["main"](x, y)
    np.testing.assert_array_equal(y, 2 * x + 1)
    func = te.create_prim_func([a, b])
    burnish.build(func, objects=[text])["main"](x, y)
    np.testing.assert_array_equal(y, 2 * x + 1)


def test_functions_of_the_table_of_intrinsics() -> None:
    x = np.array([0.25, 0.5, 0.9], np.float32)
    a = te.placeholder((3,), name="A")
    for name in ("asin", "acos", "sinh", "cosh", "asinh", "atanh", "log10", "nearbyint"):
        function = getattr(te, name)
        b = te.compute((3,), lambda i: function(a[i]), name="B")  # noqa: B023 - called here
        y = np.zeros(3, np.float32)
        burnish.build(te.create_prim_func([a, b]))["main"](x, y)
        like = {"asin": "arcsin", "acos": "arccos", "asinh": "arcsinh", "atanh": "arctanh"}
        np.testing.assert_allclose(
            y, getattr(np, like.get(name, name.replace("nearbyint", "rint")))(x), rtol=1e-6
        )


def test_quotients_of_integers() -> None:
    x, y = np.array([-7, 7, 8], np.int32), np.zeros(3, np.int32)
    a = te.placeholder((3,), "int32", name="A")
    for function, expected in (
        (te.truncdiv, [-3, 3, 4]),
        (te.div, [-3, 3, 4]),
        (te.truncmod, [-1, 1, 0]),
        (te.indexdiv, [-4, 3, 4]),
        (te.indexmod, [1, 1, 0]),
    ):
        b = te.compute((3,), lambda i: function(a[i], 2), name="B")  # noqa: B023 - called here
        burnish.build(te.create_prim_func([a, b]))["main"](x, y)
        assert y.tolist() == expected
