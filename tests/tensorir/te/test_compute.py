"""Compute definitions and the PrimFuncs made of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from burnish import te
from burnish.support.errors import ComputeError
from burnish.support.node import walk
from burnish.support.structural import assert_structural_equal
from burnish.tensorir.expr import Expr, Let, Reduce, Var
from burnish.tensorir.stmt import Block
from burnish.tensorir.te.compute import ReduceAxis, Tensor, create_prim_func
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.verify.laws import verify_func


def square_matrix(n: int = 4) -> tuple[Tensor, Tensor]:
    a = te.placeholder((n, n), name="A")
    k = te.reduce_axis((0, n), name="k")
    return a, te.compute((n, n), lambda i, j: te.sum(a[i, k] * a[k, j], axis=[k]), name="C")


def test_chain_of_products(golden: Callable[..., None]) -> None:
    m, k, n = 8, 16, 24
    a = te.placeholder((m, k), name="A")
    b = te.placeholder((k, m), name="B")
    rk = te.reduce_axis((0, k), name="rk")
    c = te.compute((m, m), lambda m, c: te.sum(a[m, rk] * b[rk, c], axis=[rk]), name="C")
    d = te.compute((m, m), lambda i, j: te.exp(c[i, j]), name="D")
    x = te.placeholder((m, n), name="E")
    rl = te.reduce_axis((0, m), name="rl")
    f = te.compute((m, n), lambda m, n: te.sum(d[m, rl] * x[rl, n], axis=[rl]), name="F")
    func = te.create_prim_func([a, b, x, f])
    verify_func(func)
    golden(func.script())


def test_parameters_keep_the_given_order_and_intermediates_may_be_among_them() -> None:
    a, c = square_matrix()
    d = te.compute((4, 4), lambda i, j: c[i, j] + 1.0, name="D")
    func = create_prim_func([d, a, c])
    assert [p.name for p in func.params] == ["D", "A", "C"]
    assert func.root.alloc_buffers == ()
    assert [b.name for b in func.written] == ["D", "C"]


def test_nothing_of_the_definitions_is_left_in_the_function() -> None:
    a, c = square_matrix()
    func = create_prim_func([a, c])
    assert not any(isinstance(n, Tensor | ReduceAxis | Reduce) for n in walk(func))
    again = create_prim_func([a, c])
    assert func.params[0] is not again.params[0]
    verify_func(func)
    verify_func(again)


def test_names_are_made_unique() -> None:
    a = te.placeholder((4,), name="x")
    b = te.compute((4,), lambda *i: a[i[0]] + 1.0, name="x")
    c = te.compute((4,), lambda i: b[i] + 1.0, name="x")
    func = create_prim_func([a, c])
    verify_func(func)
    assert [n.name for n in walk(func.body) if isinstance(n, Block)] == ["root", "x", "x_1"]
    assert "v_i0 = T.axis.spatial(4, i0)" in func.script()


@pytest.mark.parametrize(
    ("reducer", "identity", "update"),
    [
        (te.sum, "T.float32(0)", "B[()] + A[v_k]"),
        (te.prod, "T.float32(1)", "B[()] * A[v_k]"),
        (te.max, 'T.float32("-inf")', "T.max(B[()], A[v_k])"),
        (te.min, 'T.float32("inf")', "T.min(B[()], A[v_k])"),
    ],
)
def test_reductions_to_a_scalar(reducer: Callable[..., Expr], identity: str, update: str) -> None:
    a = te.placeholder((5,), name="A")
    k = te.reduce_axis((0, 5), "k")
    b = te.compute((), lambda: reducer(a[k], axis=k), name="B")
    text = create_prim_func([a, b]).script()
    assert f"B[()] = {identity}\n" in text
    assert f"B[()] = {update}\n" in text


def test_an_axis_may_begin_anywhere() -> None:
    a = te.placeholder((9,), name="A")
    k = te.reduce_axis((2, 9), "k")
    func = create_prim_func([a, te.compute((), lambda: te.sum(a[k], axis=k), name="B")])
    assert "for k in range(2, 9):" in func.script()
    assert "v_k = T.axis.reduce((2, 9), k)" in func.script()
    verify_func(parse_func(func.script()))


def test_symbolic_dims_and_scalar_parameters() -> None:
    n, scale = te.var("n"), te.var("scale", "float32")
    a = te.placeholder((n, 4), name="A")
    b = te.compute((n, 4), lambda i, j: a[i, j] * scale, name="B")
    func = create_prim_func([a, scale, b])
    verify_func(func)
    assert func.shape_vars == (n,)
    assert 'scale: T.float32, B: T.Buffer(("n", 4), "float32")' in func.script()


def test_attributes_become_annotations() -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i], name="B", attrs={"layout_free": [0]})
    assert 'T.block_attr({"layout_free": [0]})' in create_prim_func([a, b]).script()


def test_lets_are_renamed_in_each_block() -> None:
    a = te.placeholder((4,), name="A")
    v = Var("v", a.dtype)
    b = te.compute((4,), lambda i: Let(v, a[i], v * v), name="B")
    func = create_prim_func([a, b])
    verify_func(func)
    assert not any(n is v for n in walk(func.body))


def test_max_and_min_of_two_values() -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: te.min(te.max(a[i], 0.0), 6.0), name="B")
    text = create_prim_func([a, b]).script()
    assert "B[v_i] = T.min(T.max(A[v_i], T.float32(0)), T.float32(6))" in text


def test_definitions_know_their_axes_and_inputs() -> None:
    a, c = square_matrix()
    assert c.op is not None
    assert [x.var.name for x in c.op.axis] == ["i", "j"]
    assert [x.name for x in c.op.reduce_axis] == ["k"]
    assert c.op.inputs == (a,)
    assert c.op.output(0) is c
    assert a.op is None
    with pytest.raises(ComputeError, match="one output"):
        c.op.output(1)


def test_a_tensor_is_called_with_any_number_of_indices() -> None:
    a = te.placeholder((4, 5), name="A")
    b = te.compute((4, 5), lambda *i: a(*i) + 1, name="B")
    again = te.compute((4, 5), lambda i, j: a[i, j] + 1, name="B")
    assert_structural_equal(create_prim_func([a, b]), create_prim_func([a, again]))


def test_errors() -> None:
    a, c = square_matrix()
    k = te.reduce_axis((0, 4), "k")
    with pytest.raises(ComputeError, match="The placeholder 'A' is read, but it is not among"):
        create_prim_func([c])
    with pytest.raises(ComputeError, match="the same argument twice"):
        create_prim_func([a, a])
    with pytest.raises(ComputeError, match="placeholders alone"):
        create_prim_func([a])
    with pytest.raises(ComputeError, match="has 2 dimensions; it is indexed with 1"):
        te.compute((4,), lambda i: a[i])
    with pytest.raises(ComputeError, match="The shape has 1 dimensions, but the function takes 2"):
        te.compute((4,), lambda i, j: a[i, j])
    with pytest.raises(ComputeError, match="uses the reduce axis 'k' but does not reduce"):
        te.compute((4,), lambda i: a[i, k])
    with pytest.raises(ComputeError, match="a reduction inside an expression"):
        te.compute((4,), lambda i: te.sum(a[i, k], axis=[k]) + 1.0)
    with pytest.raises(ComputeError, match=r"each dimension; found 'n'\. .* is te\.var\('n'\)"):
        te.placeholder((4, "n"))  # type: ignore[arg-type]
    with pytest.raises(ComputeError, match=r"each dimension; found 2\.5"):
        te.compute(2.5, lambda i: a[i, i])
    with pytest.raises(ComputeError, match="sum: expected axes made by reduce_axis, found int"):
        te.compute((4,), lambda i: te.sum(a[i, i], axis=0))
    with pytest.raises(ComputeError, match="expected axes made by reduce_axis, found Var"):
        te.compute((4,), lambda i: te.sum(a[i, i], axis=[i]))


def test_equality_is_a_condition_of_the_program() -> None:
    a = te.placeholder((8,), name="A")
    k = te.reduce_axis((0, 8), name="k")
    b = te.compute((8,), lambda i: te.if_then_else(te.all(i == 0, i != 3), a[i], 0.0), name="B")
    c = te.compute((8,), lambda i: te.sum(a[k], axis=k, where=k != i), name="C")
    func = create_prim_func([a, b, c])
    assert "T.if_then_else(v_i == 0 and v_i != 3, A[v_i], T.float32(0))" in func.script()
    assert "T.if_then_else(v_k != v_i, A[v_k], T.float32(0))" in func.script()


def test_dims_compare_by_value() -> None:
    a, b = te.placeholder((64, 128), name="A"), te.placeholder((128, 3), name="B")
    assert a.shape[1] == b.shape[0]
    assert a.shape[1] == 128
    assert a.shape == (64, 128)
    assert a.shape[0] != b.shape[0]


def test_a_constant_has_the_dtype_of_its_python_type() -> None:
    assert [str(te.const(v).dtype) for v in (0.0, 0, True)] == ["float32", "int64", "bool"]
    assert te.const(0, "float16").dtype == "float16"


def test_a_tag_is_given_by_its_scope() -> None:
    a = te.placeholder((4,), name="A")
    with te.tag_scope("injective"):
        b = te.compute((4,), lambda i: a[i] + 1.0, name="B")
        with pytest.raises(ComputeError, match="'C' has the tag 'own' inside of tag_scope"):
            te.compute((4,), lambda i: a[i], name="C", tag="own")
        with pytest.raises(ComputeError, match="stands inside of tag_scope"), te.tag_scope("x"):
            pass
    c = te.compute((4,), lambda i: a[i] + 1.0, name="C", tag="own")
    d = te.compute((4,), lambda i: a[i] + 1.0, name="D")
    assert b.op is not None
    assert c.op is not None
    assert d.op is not None
    assert (b.op.tag, c.op.tag, d.op.tag) == ("injective", "own", "")


def test_a_choice_of_python_by_an_axis_is_an_error() -> None:
    """It was decided once, for all elements."""
    a = te.placeholder((8,), name="A")
    for choose in (
        lambda i: a[i] if i == 0 else a[i - 1],
        lambda i: a[i] if i + 1 != 8 else a[0],
        lambda i: a[i] if i % 2 == 0 else a[0],
    ):
        with pytest.raises(TypeError, match=r"no truth value .* use T\.if_then_else"):
            te.compute((8,), choose, name="B")
    n = te.var("n")
    te.compute((8,), lambda i: a[i] if n != 3 else a[0], name="B")  # no axis: as outside
    te.compute((8,), lambda i: te.if_then_else(i == 0, a[i], 0.0), name="B")
    assert not n == 3  # noqa: SIM201
