"""Tensors and definitions: indexing, outputs, what a definition reads."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from burnish import te
from burnish.support.dtype import DType
from burnish.support.errors import ComputeError
from burnish.support.structural import assert_structural_equal
from burnish.tensorir.buffer import Buffer
from burnish.tensorir.expr import Cast, as_expr
from burnish.tensorir.te.tensor import is_reduction_expr


def test_indices_are_widened_and_must_be_integers() -> None:
    a = te.placeholder((4,), name="A")
    places = te.placeholder((4,), "int32", name="P")
    b = te.compute((4,), lambda i: a[places[i]], name="B")
    assert b.op is not None
    assert isinstance(b.op.body.indices[0], Cast)
    with pytest.raises(ComputeError, match="An index of 'A' must be an integer; found float32"):
        te.compute((4,), lambda i: a[a[i]])


def test_a_definition_knows_its_outputs_and_what_it_reads() -> None:
    a = te.placeholder((4,), name="A")
    first, second = te.compute((4,), lambda i: (a[i] + 1.0, a[i] * 2.0), name="B")
    op = first.op
    assert op is not None
    assert op is second.op
    assert (op.num_outputs, op.inputs, op.reduce_axis) == (2, (a,), ())
    assert [op.output(i) for i in range(2)] == [first, second]
    assert (second.value_index, second.name, repr(second)) == (1, "B_v1", "Tensor('B_v1')")
    with pytest.raises(ComputeError, match="has 2 outputs, from 0 to 1; asked for 2"):
        op.output(2)


def test_reductions_are_known() -> None:
    a = te.placeholder((4,), name="A")
    k = te.reduce_axis((0, 4), "k")
    b = te.compute((), lambda: te.sum(a[k], axis=k))
    assert b.op is not None
    assert is_reduction_expr(b.op.body)
    assert not is_reduction_expr(a[k])


def test_fewer_indices_give_a_slice() -> None:
    a = te.placeholder((4, 3, 2), name="A")
    b = te.compute((4, 3, 2), lambda i, j, k: a[i][j][k] + a[i, j][k] + a[i][j, k], name="B")
    c = te.compute((4, 3, 2), lambda i, j, k: a[i, j, k] + a(i, j, k) + a[i, j, k], name="B")
    assert_structural_equal(te.create_prim_func([a, b]), te.create_prim_func([a, c]))
    assert repr(a[0][1]) == "Tensor('A')[2 of 3 indices]"
    assert a[0].dtype == "float32"
    with pytest.raises(ComputeError, match="'A' has 3 dimensions; it is indexed with 4"):
        a[0][1][2, 3]
    with pytest.raises(ComputeError, match="'A' has 3 dimensions; it is indexed with 1"):
        a(0)
    for use in (lambda i: a[i] + 1.0, lambda i: 2.0 * a[i], lambda i: te.exp(a[i]), lambda i: a[i]):
        with pytest.raises(ComputeError, match="'A' has 3 dimensions; it is indexed with 1"):
            te.compute((4,), use)


def test_input_tensors_are_each_named_once() -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((4,), lambda i: b[i] * a[i] + b[i], name="C")
    assert c.op is not None
    assert c.op.input_tensors == [b, a]


@pytest.mark.parametrize("use", [list, sum, max, lambda a: 1.0 in a])
def test_no_python_loop_runs_through_a_tensor(use: Callable[[object], object]) -> None:
    a = te.placeholder((4, 4), name="A")
    for given in (a, a[0]):
        with pytest.raises(ComputeError, match="'A' is a definition, which no Python loop"):
            use(given)
    with pytest.raises(TypeError, match=r"through 'B'|'Buffer' is not iterable"):
        use(Buffer("B", (as_expr(4),), DType("float32")))
