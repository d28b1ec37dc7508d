"""Constants and attributes of graph nodes."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.graphir.builder import call_op
from burnish.graphir.expr import (
    Call,
    CallDPS,
    CallDPSPacked,
    CallFunction,
    GlobalVar,
    Tuple,
    Var,
    constant,
)
from burnish.graphir.text.parser import parse_module
from burnish.graphir.text.printer import format_type
from burnish.graphir.type import tensor_type
from burnish.support.errors import BurnishError, DTypeError


def test_a_python_float_is_float32() -> None:
    assert str(constant(1.5).type.dtype) == "float32"
    assert str(constant(np.float64(1.5)).type.dtype) == "float64"
    assert str(constant(1.5, "float16").type.dtype) == "float16"


def test_a_constant_is_a_read_only_copy() -> None:
    data = np.zeros((2, 3), "float32")
    made = constant(data.T)
    data[:] = 1
    assert made.values().flags.c_contiguous
    assert not made.values().flags.writeable
    assert made.values().sum() == 0
    assert format_type(made.type) == 'R.Tensor((3, 2), dtype="float32")'


def test_a_constant_takes_a_dtype() -> None:
    assert constant([1, 2], "float16").type.dtype == "float16"
    assert constant(np.zeros(2, "uint16"), "bfloat16").type.dtype == "bfloat16"
    with pytest.raises(DTypeError, match="a constant"):
        constant(["a"])


def test_attributes_are_read_and_replaced() -> None:
    call = call_op("softmax", Var("x", tensor_type((2,))), axis=0)
    assert call.attr("axis") == 0
    assert call.attr("other", 7) == 7
    func = parse_module(
        "@R.function\ndef main(x: R.Tensor((2,))):\n    return x\n"
    ).graph_functions["main"]
    changed = func.with_attr("num_input", 1).with_attr("num_input", 2)
    assert changed.attr("num_input") == 2
    assert func.attr("num_input") is None
    assert changed.with_attr({"num_input": 3, "a": 4}).attrs[-2:] == (("num_input", 3), ("a", 4))


def test_a_bfloat16_constant_is_rounded_from_numbers() -> None:
    assert constant(0, "bfloat16").values().tolist() == 0
    assert constant([1.0, -2.5, 1 / 3], "bfloat16").values().tolist() == [0x3F80, 0xC020, 0x3EAB]
    assert constant(True, "bfloat16").values().dtype == np.uint16
    assert constant(np.array([7], np.uint16), "bfloat16").values().tolist() == [7]


def test_lists_become_tuples() -> None:
    a, b = Var("a", tensor_type((2,))), Var("b", tensor_type((2,)))
    assert Call("subtract", [a, b]).args == (a, b)  # type: ignore[arg-type]
    assert Tuple([a, b]).fields == (a, b)  # type: ignore[arg-type]
    assert CallDPS(GlobalVar("f"), [a], a.type).args == (a,)  # type: ignore[arg-type]
    assert CallDPSPacked("f", [a], a.type).args == (a,)  # type: ignore[arg-type]
    assert CallFunction(GlobalVar("f"), [a], a.type).args == (a,)  # type: ignore[arg-type]


def test_a_call_names_its_operator() -> None:
    with pytest.raises(BurnishError, match=r"by its name.*found GlobalVar.*CallDPS"):
        Call(GlobalVar("f"), ())  # type: ignore[arg-type]


def test_a_variable_is_a_name_and_a_type() -> None:
    kind = tensor_type((2,))
    for name, given in ((kind, "x"), ("x", "float32")):
        with pytest.raises(BurnishError, match="Var takes a name and a type"):
            Var(name, given)  # type: ignore[arg-type]


def test_a_constant_is_held_against_its_type() -> None:
    made = constant([[1, 2]], tensor_type((1, 2), "float64"))
    assert made.type.dtype == "float64"
    with pytest.raises(BurnishError, match=r"shape \(2,\), the type \(3,\)"):
        constant([1, 2], tensor_type((3,)))
