"""Tensors and definitions: indexing, outputs, what a definition reads."""

from __future__ import annotations

import pytest

from burnish import te
from burnish.support.errors import ComputeError
from burnish.tensorir.expr import Cast
from burnish.tensorir.tensor import is_reduction_expr


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
