"""BlockBuilder: modules by hand, with types inferred and mistakes refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnish import te
from burnish.graphir.builder import BlockBuilder, call_op
from burnish.graphir.expr import (
    Binding,
    CallFunction,
    Function,
    GlobalVar,
    If,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    constant,
)
from burnish.graphir.text.parser import parse_module
from burnish.graphir.type import TupleType, tensor_type
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


# -- normal form -----------------------------------------------------------------------------------
def test_operations_among_the_arguments_are_bound_first() -> None:
    bb = BlockBuilder()
    x = Var("x", tensor_type((1, 784)))
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(call_op("relu", call_op("exp", x)))
        bb.emit_func_output([out, call_op("tanh", out)])
    assert_structural_equal(verify_module(bb.get()), parse_module(TEXT))


def test_an_operation_may_be_the_result() -> None:
    bb = BlockBuilder()
    x = Var("x", tensor_type((2,)))
    with bb.function("main", [x]):
        bb.emit_func_output(call_op("relu", x))
    assert "gv = R.relu(x)\n        return gv" in verify_module(bb.get()).script()


def test_tuples_are_taken_apart_and_put_together() -> None:
    bb = BlockBuilder()
    pair = Var("pair", TupleType((tensor_type((2,)), tensor_type((3,)))))
    with bb.function("main", [pair]):
        second = bb.emit(TupleGetItem(pair, 1))
        both = bb.emit(Tuple((second, call_op("exp", second))))  # type: ignore[arg-type]
        bb.emit_func_output(both)
    text = verify_module(bb.get()).script()
    assert "lv_1 = R.exp(lv)" in text
    assert "lv_2 = (lv, lv_1)" in text


def test_operands_may_be_shapes_arrays_and_lists() -> None:
    x = Var("x", tensor_type((4, 2)))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        y = bb.emit(call_op("reshape", x, (2, -1)))
        y = bb.emit(call_op("concat", [y, call_op("relu", y)], axis=0))
        y = bb.emit(call_op("add", y, np.ones((4, 1), "float32")))
        bb.emit_func_output(output=call_op("multiply", y, np.float32(2)))
    text = verify_module(bb.get()).script()
    assert "R.reshape(x, R.shape([2, -1]))" in text
    assert "R.concat(lv, lv_1, axis=0)" in text
    assert "R.add(lv_2, R.const([[1.0], [1.0], [1.0], [1.0]]" in text
    assert 'R.multiply(lv_3, R.const(2.0, "float32"))' in text


def test_a_value_that_is_not_normalised_yet_is_shown() -> None:
    x = Var("x", tensor_type((4,)))
    assert repr(call_op("exp", call_op("add", x, 1.0))) == (
        'R.exp(R.add(x, R.const(1.0, "float32")))'
    )


def test_functions_are_updated_by_name_or_reference() -> None:
    bb = BlockBuilder()
    with bb.function("main", [X]):
        bb.emit_func_output(bb.emit_te(lambda t: te.compute(t.shape, lambda *i: t(*i) * 2), X))
    name = next(iter(bb.get().prim_funcs))
    func = bb.get()[name].with_attr("note", 1)
    bb.update_func(GlobalVar(name), func)
    assert bb.get()[name].attr("note") == 1


def test_numbers_take_the_dtype_of_the_first_tensor() -> None:
    flags, z = Var("c", tensor_type((2,), "bool")), Var("z", tensor_type((2,)))
    assert str(call_op("where", flags, 0.0, z).args[1].type.dtype) == "float32"  # type: ignore[union-attr]
    x = Var("x", tensor_type((2,), "int32"))
    assert str(call_op("add", x, 3).args[1].type.dtype) == "int32"  # type: ignore[union-attr]
    assert str(call_op("add", 1, x).args[0].type.dtype) == "int32"  # type: ignore[union-attr]
    with pytest.raises(BurnishError, match=r"add: 2.5 is no int32; cast the tensor operand first"):
        call_op("add", x, 2.5)
    with pytest.raises(BurnishError, match="add: the number 1 takes its dtype from a tensor"):
        call_op("add", 1, 2)


def test_what_a_variable_is_bound_to() -> None:
    bb = BlockBuilder()
    x = Var("x", tensor_type((2,)))
    with bb.function("main", [x]):
        call = call_op("exp", x)
        y = bb.emit(call)
        assert bb.lookup_binding(y) is call
        assert bb.lookup_binding(x) is None
        assert bb.lookup_binding(constant(1.0)) is None
        bb.emit_func_output(y)


def test_parameters_may_come_last() -> None:
    bb = BlockBuilder()
    x, y = Var("x", tensor_type((2,))), Var("y", tensor_type((2,)))
    with bb.function("main"):
        bb.emit_func_output(bb.emit(call_op("add", x, y)), [x, y])
    assert [p.name for p in verify_module(bb.get()).graph_functions["main"].params] == ["x", "y"]


def test_branches_see_what_is_bound_around_them() -> None:
    bb = BlockBuilder()
    x, c = Var("x", tensor_type((2,))), Var("c", tensor_type((), "bool"))
    with bb.function("main", [x, c]):
        with bb.sequence() as blocks:
            inner = bb.emit(call_op("exp", x))
        taken = SeqExpr(tuple(blocks), inner)
        y = bb.emit(If(c, taken, SeqExpr((), x)))
        with pytest.raises(BurnishError, match=f"uses the variable {inner.name!r}"):
            bb.emit(call_op("relu", inner))
        bb.emit_func_output(y)
    verify_module(bb.get())


# -- mistakes --------------------------------------------------------------------------------------
X = Var("x", tensor_type((2,)))


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda bb: bb.emit(call_op("exp", X)), "emit: no function is open; write it in: with bb"),
        (lambda bb: bb.emit_te(lambda t: t, X), "emit_te: no function is open"),
        (lambda bb: bb.emit_output(X), "emit_output: no function is open"),
        (lambda bb: bb.emit_func_output(X), "emit_func_output: no function is open"),
        (lambda bb: bb.dataflow().__enter__(), "dataflow: no function is open"),
        (lambda bb: bb.update_func("f", X), "'f' would be a Var; a module holds PrimFuncs and"),
    ],
)
def test_nothing_is_emitted_outside_of_a_function(
    act: Callable[[BlockBuilder], object], message: str
) -> None:
    with pytest.raises(BurnishError, match=message):
        act(BlockBuilder())


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda bb: bb.emit_output(X), "emit_output: no dataflow block is open; outside of one ev"),
        (lambda bb: bb.get(), "get: function 'main' is still open; leave its with block first"),
        (lambda bb: bb.emit(3.0), "A graph value is a variable, a constant, .* found float 3.0. F"),
        (lambda bb: bb.emit(np.zeros((9, 9))), "a tuple of these; found a ndarray. For numbers"),
        (lambda bb: bb.emit(call_op("exp", "x")), "exp: an operand is .* found str 'x'. Attrib"),
        (lambda bb: bb.emit(Tuple((X, None))), "found NoneType None"),
        (lambda bb: bb.emit(call_op("exp", Var("y", X.type))), "uses the variable 'y', which is n"),
        (lambda bb: bb.emit(Tuple((X, Var("z", X.type)))), "uses the variable 'z'"),
        (lambda bb: bb.emit_func_output(Var("y", X.type)), "function 'main' uses the variable 'y'"),
        (
            lambda bb: bb.emit_func_output(X, [X]),
            "was opened with its parameters; emit_func_output",
        ),
    ],
)
def test_mistakes_inside_of_a_function(act: Callable[[BlockBuilder], object], message: str) -> None:
    bb = BlockBuilder()
    with pytest.raises(BurnishError, match=message), bb.function("main", [X]):
        act(bb)
    assert list(bb.get()) == []


def test_a_function_has_one_output() -> None:
    bb = BlockBuilder()
    with bb.function("main", [X]):
        bb.emit_func_output(X)
        with pytest.raises(BurnishError, match="'main' has its output already"):
            bb.emit_func_output(X)


def test_parameters_that_come_last_must_be_all() -> None:
    bb = BlockBuilder()
    y = Var("y", tensor_type((2,)))
    with pytest.raises(BurnishError, match="uses the variable 'y'"), bb.function("main"):
        bb.emit_func_output(bb.emit(call_op("add", X, y)), [X])


@pytest.mark.parametrize("params", [["x"], [tensor_type((2,))]])
def test_parameters_are_variables(params: Any) -> None:
    with (
        pytest.raises(
            BurnishError, match=r"function\('main'\): a parameter is a graph variable, as"
        ),
        BlockBuilder().function("main", params),
    ):
        pass


def test_a_variable_of_another_builder_is_refused() -> None:
    first, second = BlockBuilder(), BlockBuilder()
    with first.function("main", [X]):
        y = first.emit(call_op("exp", X), "y")
        with pytest.raises(BurnishError, match="It may belong to another function or builder"):  # noqa: SIM117
            with second.function("main", [X]):
                second.emit(call_op("relu", y))
        first.emit_func_output(y)
    verify_module(first.get())


def test_a_function_calls_another() -> None:
    bb = BlockBuilder()
    with bb.function("inner", [X]):
        bb.emit_func_output(bb.emit(call_op("exp", X)))
    y = Var("y", tensor_type((2,)))
    with bb.function("main", [y]):
        bb.emit_func_output(bb.emit(CallFunction(GlobalVar("inner"), (y,), y.type)))
    assert "cls.inner(y)" in verify_module(bb.get()).script()


def test_a_finished_binding_is_visible() -> None:
    bb = BlockBuilder()
    with bb.function("main", [X]):
        y = bb.emit_binding(Binding(Var("y", X.type), call_op("exp", X)))
        bb.emit_func_output(bb.emit(call_op("relu", y)))
    assert "y = R.exp(x)" in verify_module(bb.get()).script()


def test_a_function_beside_the_open_one() -> None:
    """Its parameters are known to the end of its sequence."""
    bb = BlockBuilder()
    x, a = Var("x", tensor_type((2,))), Var("a", tensor_type((2,)))
    with bb.function("main", [x]):
        with bb.sequence() as blocks:
            bb.declare(a)
            made = bb.emit(call_op("relu", a))
        bb.update_func("inner", Function((a,), SeqExpr(tuple(blocks), made), a.type, (), "inner"))
        with pytest.raises(BurnishError, match="uses the variable 'a'"):
            bb.emit(call_op("relu", a))
        bb.emit_func_output(bb.emit(CallFunction(GlobalVar("inner"), (x,), a.type)))
    verify_module(bb.get())
