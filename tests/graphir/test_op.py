"""The operator table and types of values."""

from __future__ import annotations

import pytest

from burnish.graphir import op
from burnish.graphir.builder import call_op
from burnish.graphir.expr import Call, Tuple, TupleGetItem, Var, constant
from burnish.graphir.op import (
    OTHER_NAMES,
    Op,
    all_ops,
    attr,
    get_op,
    infer_type,
    register,
    replace_op,
    type_of,
)
from burnish.graphir.text.printer import format_type
from burnish.graphir.type import Type, tensor_type
from burnish.support.errors import InternalError, TypeInferenceError

X = Var("x", tensor_type((2, 3)))


def test_a_row_is_registered_once() -> None:
    with pytest.raises(InternalError, match="'relu' is registered twice"):
        register(Op("relu", ("x",), lambda call: X.type))
    assert get_op("relu") is all_ops()["relu"]


def test_an_unknown_operator_suggests_the_nearest() -> None:
    with pytest.raises(
        TypeInferenceError, match=r"rleu: there is no such operator\. Did you mean 'relu'\?"
    ):
        get_op("rleu")


def test_names_of_other_compilers_are_told_the_one_here() -> None:
    for name, here in (("nn.relu", "relu"), ("relax.nn.conv2d", "conv"), ("dense", "linear")):
        with pytest.raises(TypeInferenceError, match=f"no such operator. Here it is '{here}'"):
            get_op(name)
    assert set(OTHER_NAMES.values()) <= set(all_ops())


def test_attributes_have_defaults() -> None:
    assert attr(call_op("softmax", X), "axis") == -1
    assert attr(call_op("softmax", X, axis=0), "axis") == 0


def test_arity_and_attributes_are_checked_first() -> None:
    with pytest.raises(
        TypeInferenceError, match=r"linear: 1 operands were given. Expected 2 to 3 \(x, w, bias\)"
    ):
        infer_type(call_op("linear", X))
    words = r"given. What is no operand is given by name \(axis=\). Expected 1 \(x\)"
    with pytest.raises(TypeInferenceError, match=words):
        infer_type(call_op("softmax", X, X))
    with pytest.raises(TypeInferenceError, match="unknown attribute 'axes'"):
        infer_type(call_op("softmax", X, axes=1))


def test_types_of_atoms_and_items() -> None:
    both = Tuple((X, constant(1.0)))
    assert format_type(type_of(both)).startswith("R.Tuple(R.Tensor((2, 3)")
    assert type_of(TupleGetItem(both, 0)) is X.type
    with pytest.raises(TypeInferenceError, match="index 2"):
        type_of(TupleGetItem(both, 2))


def test_the_type_of_a_call_is_inferred_once(monkeypatch: pytest.MonkeyPatch) -> None:
    inferred: list[Call] = []

    def infer(call: Call) -> Type:
        inferred.append(call)
        return X.type

    monkeypatch.setattr(op, "_OPS", all_ops())
    register(Op("like_x", ("x",), infer))
    one, other = Call("like_x", (X,)), Call("like_x", (X,))
    assert type_of(one) is type_of(one)
    assert type_of(other) is X.type
    assert inferred == [one, other]
    replace_op(Op("like_x", ("x",), lambda call: tensor_type((5,))))
    assert format_type(type_of(one)) == format_type(tensor_type((5,)))
