"""What all rows share: the table is complete, names its operands, and legalises by name."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.graphir.builder import call_op
from burnish.graphir.expr import Tuple, Var, constant
from burnish.graphir.op import all_ops, infer_type
from burnish.graphir.ops.operands import by_operator, operand_name, operator_function
from burnish.graphir.type import tensor_type
from burnish.support.errors import InternalError, TypeInferenceError
from burnish.tensorir import operators
from burnish.tensorir.operators.elementwise import ELEMENTWISE


def test_every_row_is_a_view_or_has_a_kernel() -> None:
    without = [n for n, op in all_ops().items() if op.legalize is None and not op.is_view]
    assert without == ["bind_size", "check_equal"]  # which the program does by itself


def test_every_function_of_tensorir_operators_has_a_row() -> None:
    known = {"cast": "astype", "transpose": "permute_dims"}
    named = {known.get(n, n) for n in operators.__all__}
    assert named <= set(all_ops())
    assert set(all_ops()) - named <= {*ELEMENTWISE, "bind_size", "check_equal"}


def test_a_kernel_is_named_after_the_operator_and_its_operands() -> None:
    x, w = Var("image", tensor_type((2, 3))), Var("weight", tensor_type((4, 3)))
    func = by_operator()(call_op("linear", x, w))
    assert func.name == "linear"
    assert [b.name for b in func.buffers][:2] == ["x", "w"]


def test_a_missing_function_is_a_defect() -> None:
    with pytest.raises(InternalError, match="no function 'frobnicate'"):
        operator_function("frobnicate")


def test_operands_of_a_variadic_operator_are_numbered() -> None:
    x = constant(np.zeros((2, 2), "float32"))
    assert operand_name(call_op("concat", x, x), 1) == "x[1]"


def test_a_tuple_is_no_operand() -> None:
    with pytest.raises(TypeInferenceError, match=r"operand x is a TupleType\. Expected a tensor"):
        infer_type(call_op("relu", Tuple(())))
