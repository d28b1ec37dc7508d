"""Types of graph values: equality by proof, substitution, flattening."""

from __future__ import annotations

import pytest

from burnish.graphir.type import (
    ShapeType,
    TupleType,
    dims_of,
    substitute_type,
    tensor_type,
    tensors_of,
    types_equal,
)
from burnish.support.errors import DTypeError
from burnish.tensorir.expr import Var, as_expr

M, N = Var("m"), Var("n")
NESTED = TupleType((tensor_type((M, 2)), TupleType((tensor_type((N,), "int8"), ShapeType((M,))))))


def test_equal_types() -> None:
    assert types_equal(tensor_type((M * 28 * 28,)), tensor_type((M * 784,)))
    assert types_equal(NESTED, NESTED)
    assert not types_equal(tensor_type((M,)), tensor_type((N,)))
    assert not types_equal(tensor_type((2,)), tensor_type((2,), "int8"))
    assert not types_equal(tensor_type((2,)), TupleType((tensor_type((2,)),)))
    assert types_equal(ShapeType((M, as_expr(1))), ShapeType((M, as_expr(1))))


def test_substitution_reaches_every_dim() -> None:
    made = substitute_type(NESTED, {M: as_expr(5), N: M})
    assert types_equal(
        made,
        TupleType(
            (tensor_type((5, 2)), TupleType((tensor_type((M,), "int8"), ShapeType((as_expr(5),)))))
        ),
    )


def test_dims_and_tensors_are_listed_left_to_right() -> None:
    assert [d for d in dims_of(NESTED) if isinstance(d, Var)] == [M, N, M]
    assert [t.dtype for t in tensors_of(NESTED)] == ["float32", "int8"]
    assert tensors_of(ShapeType((M,))) == []


@pytest.mark.parametrize("shape", ["a", (1, "n"), (True,), (1.5,)])
def test_a_dim_is_an_int_or_an_expression(shape: tuple[int, ...]) -> None:
    with pytest.raises(DTypeError, match=r"for a (tensor's|dim of a tensor's) shape"):
        tensor_type(shape)
