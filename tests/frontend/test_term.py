"""Formulas over values of the graph."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.frontend.onnx.registry import Context
from burnish.frontend.onnx.term import Term
from burnish.frontend.term import join, stack
from burnish.graphir.builder import BlockBuilder
from burnish.graphir.expr import Var
from burnish.graphir.type import tensor_type
from burnish.support.errors import FrontendError
from burnish.tensorir.expr import Var as DimVar
from burnish.tests.graphir.reference import run

X = np.linspace(-2, 3, 12, dtype=np.float32).reshape(3, 4)


def of(formula: object) -> np.ndarray:
    """A formula of X by the interpreter of the graph."""
    builder, x = BlockBuilder(), Var("x", tensor_type((3, 4)))
    context = Context(builder, {"": 17})
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(formula(Term(context, x)).atom)  # type: ignore[operator]
        builder.emit_func_output(result)
    return np.asarray(run(builder.get(), "main", X))


@pytest.mark.parametrize(
    "formula",
    [
        lambda x: 2.0 * x + 1.0,
        lambda x: 1.0 - x / 4.0,
        lambda x: -x * x,
        lambda x: (x > 0.5) & (x <= 2.0) | (x < -1.0),
    ],
)
def test_operators_are_those_of_numpy(formula: object) -> None:
    numpy_formula = formula
    found = of(formula)
    expected = numpy_formula(X)  # type: ignore[operator]
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_shapes_are_cut_joined_and_turned() -> None:
    assert np.array_equal(of(lambda x: join(x.parts(1, 2)[::-1], 1)), np.roll(X, 2, 1))
    assert np.array_equal(of(lambda x: stack([x.at(0, 0), x.at(0, -1)], 1)), X[[0, 2]].T)
    assert np.array_equal(of(lambda x: x.swap().reshape(2, 6)), X.T.reshape(2, 6))
    assert np.array_equal(of(lambda x: (x > 0.0).where(x, 0.0)), np.maximum(X, 0))
    assert np.array_equal(of(lambda x: x.sum(0).expand(2, 4)), np.tile(X.sum(0), (2, 1)))


def test_integers_divide_downwards() -> None:
    whole = (X * 3).astype(np.int64)
    assert np.array_equal(of(lambda x: (x * 3.0).cast("int64").floor_divide(2)), whole // 2)
    assert np.array_equal(of(lambda x: (x * 3.0).cast("int64").modulo(5)), whole % 5)


def test_symbolic_sizes_are_refused_where_they_are_needed() -> None:
    builder = BlockBuilder()
    x = Term(Context(builder, {"": 17}), Var("x", tensor_type((DimVar("n"), 4))))
    with pytest.raises(FrontendError, match="a sum needs static sizes; make the dims static"):
        x.sizes("a sum")


def test_channels_first_and_last() -> None:
    def moved(x: Term) -> Term:
        return x.reshape(1, 3, 2, 2).channels_last()

    np.testing.assert_array_equal(of(moved), X.reshape(1, 3, 2, 2).transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(of(lambda x: moved(x).channels_first()), X.reshape(1, 3, 2, 2))
