"""BlockBuilder: modules by hand, with types inferred and mistakes refused."""

from __future__ import annotations

import pytest

from burnish.graphir.builder import BlockBuilder, call_op
from burnish.graphir.expr import Function, Tuple, Var
from burnish.graphir.parser import parse_module
from burnish.graphir.type import tensor_type
from burnish.graphir.verify import verify_module
from burnish.support.errors import BurnishError, TypeInferenceError
from burnish.support.structural import assert_structural_equal

TEXT = """
@R.function
def main(x: R.Tensor((1, 784), "float32")):
    with R.dataflow():
        lv = R.exp(x)
        gv = R.relu(lv)
        R.output(gv)
    lv_1 = R.tanh(gv)
    return (gv, lv_1)
"""
KERNEL = parse_module(
    '@T.prim_func\ndef f(X: T.Buffer((2,), "float32"), Y: T.Buffer((2,), "float32")):\n'
    "    for i in range(2):\n        with T.block('Y'):\n"
    "            vi = T.axis.spatial(2, i)\n            Y[vi] = X[vi]\n"
).prim_funcs["f"]


def test_a_module_by_hand() -> None:
    bb = BlockBuilder()
    x = Var("x", tensor_type((1, 784)))
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(call_op("relu", bb.emit(call_op("exp", x))))
        last = bb.emit(call_op("tanh", out))
        bb.emit_func_output([out, last])
    assert_structural_equal(verify_module(bb.get()), parse_module(TEXT))
    assert bb.get().script() == parse_module(TEXT).script()


def test_types_are_inferred_as_values_are_emitted() -> None:
    bb = BlockBuilder()
    with bb.function("main", [x := Var("x", tensor_type((2,), "int32"))]):
        with pytest.raises(TypeInferenceError, match="exp: this operator needs float operands"):
            bb.emit(call_op("exp", x))
        bb.emit_func_output(Tuple((x,)))


def test_kernels_are_added_under_unique_names() -> None:
    bb = BlockBuilder()
    x = Var("x", tensor_type((2,)))
    with bb.function("main", [x]):
        y = bb.call_prim_func(KERNEL, [x], tensor_type((2,)))
        bb.emit_func_output(bb.call_prim_func(KERNEL, [y], tensor_type((2,)), "g"))
    module = verify_module(bb.get())
    assert set(module) == {"f", "g", "main"}
    assert bb.add_func(KERNEL).name == "f_1"
    assert bb.unique_function_name("g") == "g_1"
    assert bb.get()["f_1"].attr("global_symbol") == "f_1"


def test_functions_do_not_nest() -> None:
    bb = BlockBuilder()
    with (
        pytest.raises(BurnishError, match="function 'a' is still open"),
        bb.function("a"),
        bb.function("b"),
    ):
        pass


def test_a_function_needs_an_output() -> None:
    bb = BlockBuilder()
    with pytest.raises(BurnishError, match="function 'a' has no output"), bb.function("a"):
        pass
    with bb.function("b"):
        bb.emit_func_output(Tuple(()))
    assert list(bb.get()) == ["b"]


def test_the_given_module_is_not_changed() -> None:
    module = parse_module(TEXT)
    bb = BlockBuilder(module)
    bb.add_func(KERNEL)
    assert list(module) == ["main"]


def test_ordinary_blocks_that_follow_each_other_are_one() -> None:
    x = Var("x", tensor_type((2,)))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        y = bb.emit(call_op("exp", x))
        with bb.dataflow():
            pass
        y = bb.emit(call_op("exp", y))
        for _ in range(2):
            with bb.dataflow():
                y = bb.emit(call_op("relu", y))
        bb.emit_func_output(y)
    func = bb.get()["main"]
    assert isinstance(func, Function)
    found = [(len(b.bindings), b.is_dataflow) for b in func.body.blocks]
    assert found == [(2, False), (1, True), (1, True)]
