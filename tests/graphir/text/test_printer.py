"""The text of modules: golden examples, names, constants."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra import numpy as hnp

from burnish.graphir.builder import BlockBuilder, call_op
from burnish.graphir.expr import Function, GlobalVar, Var, constant
from burnish.graphir.module import IRModule
from burnish.graphir.text.parser import parse_module
from burnish.graphir.text.printer import format_type, format_value
from burnish.graphir.type import ShapeType, TupleType, tensor_type
from burnish.support.structural import assert_structural_equal, structural_equal
from burnish.tensorir.expr import Var as DimVar

SHOWCASE = """
@I.ir_module
class Module:
    I.module_attrs({"version": 2})
    @T.prim_func
    def copy(X: T.Buffer((2,), "float32"), Y: T.Buffer((2,), "float32")):
        for i in range(2):
            with T.block("Y"):
                vi = T.axis.spatial(2, i)
                Y[vi] = X[vi]
    @R.function
    def main(x: R.Tensor(("m", 3)), c: R.Tensor((), "bool"), v: R.Tensor((2,))) -> R.Tuple(
            R.Tensor(("m * 3",)), R.Tensor((2,))):
        R.func_attr({"num_input": 3})
        with R.dataflow():
            a = R.call_dps(cls.copy, (v,), R.Tensor((2,)))
            b = R.call_dps_packed("env.copy", (a, R.const([1.0, 2.0])), R.Tensor((2,)))
            s = R.sum(R.add(x, R.const(1.5)), axis=-1, keepdims=True)
            z = R.reshape(x, R.shape(["m * 3"]))
            R.output(b, z)
        if c:
            y = b
        else:
            d = R.exp(b)
            y = d
        t = (z, y)
        u = t[1]
        w = cls.helper(u)
        return (z, w)
    @R.function
    def helper(x: R.Tensor((2,))):
        return R.relu(x)
"""


def test_everything_there_is(golden) -> None:  # type: ignore[no-untyped-def]
    module = parse_module(SHOWCASE)
    text = module.script()
    golden(text)
    assert_structural_equal(parse_module(text), module)
    assert parse_module(text).script() == text


def test_names_are_made_unique_identifiers() -> None:
    x, y = Var("layer.0", tensor_type((2,))), Var("layer.0", tensor_type((2,)))
    bb = BlockBuilder()
    with bb.function("main", [x, y]):
        bb.emit_func_output(bb.emit(call_op("add", x, y), "lambda"))
    text = bb.get().script()
    assert "layer_0: R.Tensor" in text
    assert "layer_0_1: R.Tensor" in text
    assert "lambda_1 = R.add(layer_0, layer_0_1)" in text


def test_two_symbolic_vars_of_one_name_stay_two() -> None:
    a, b = DimVar("m"), DimVar("m")
    bb = BlockBuilder()
    x, y = Var("x", tensor_type((a,))), Var("y", tensor_type((b,)))
    with bb.function("main", [x, y]):
        from_x = bb.emit(call_op("relu", x))
        bb.emit_func_output((from_x, y))
    back = parse_module(bb.get().script())
    assert_structural_equal(back, bb.get())
    assert '"m_1"' in back.script()


SCALARS = hnp.scalar_dtypes().filter(
    lambda d: d.kind in "fiub" and d.itemsize <= 8 and d.byteorder in "=|<"
)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(hnp.arrays(SCALARS, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)))
def test_constants_round_trip(data: np.ndarray) -> None:
    bb = BlockBuilder()
    with bb.function("main", []):
        bb.emit_func_output(constant(data))
    module = bb.get()
    assert_structural_equal(parse_module(module.script(), constants=module.constants), module)


def test_types_as_text() -> None:
    kind = TupleType(
        (tensor_type((DimVar("n"), 1), "int8"), tensor_type(()), ShapeType((DimVar("k"),)))
    )
    assert format_type(kind) == (
        'R.Tuple(R.Tensor(("n", 1), dtype="int8"), R.Tensor((), dtype="float32"), R.Shape(["k"]))'
    )


def test_one_operation_as_text() -> None:
    x = Var("x", tensor_type((2,)))
    assert format_value(call_op("softmax", x, axis=-1)) == "R.softmax(x, axis=-1)"


def test_show_writes_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    module = IRModule.from_expr(parse_module(SHOWCASE)["helper"])
    module.show()
    assert capsys.readouterr().out == module.script() == str(module)


def test_what_a_prompt_shows_of_a_value_is_its_text() -> None:
    x = Var("x", tensor_type((2, DimVar("n"))))
    assert repr(x.type) == 'R.Tensor((2, "n"), dtype="float32")'
    assert repr(call_op("relu", x)) == "R.relu(x)"
    assert repr(constant(np.array([1.0], "float32"))) == 'R.const([1.0], "float32")'


def test_parts_of_a_function_are_shown_as_their_lines() -> None:
    module = parse_module(
        "@R.function\ndef main(x: R.Tensor((4,), 'float32')):\n"
        "    with R.dataflow():\n        y = R.exp(x)\n        z = R.relu(y)\n"
        "        R.output(z)\n    return z\n"
    )
    func = module["main"]
    assert isinstance(func, Function)
    (block,) = func.body.blocks
    assert repr(block.bindings[0]) == "y = R.exp(x)"
    assert repr(block) == "with R.dataflow():\n    y = R.exp(x)\n    z = R.relu(y)"
    assert repr(func.body).endswith("    R.output(z)\nz")
    assert func.script().startswith("# from burnish.script import R\n\n@R.function\ndef main(x")
    assert structural_equal(parse_module(func.script()), module)


def test_a_function_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    module = parse_module("@R.function\ndef main(x: R.Tensor((4,))):\n    return R.relu(x)\n")
    func = module["main"]
    assert isinstance(func, Function)
    func.show()
    assert "def main(x: R.Tensor((4,)" in capsys.readouterr().out
    assert "main" in func._repr_html_()


def test_names_of_other_compilers_are_told() -> None:
    x = Var("x", tensor_type((4,)))
    for value, name, here in (
        (x, "name_hint", "name"),
        (x, "struct_info", "type"),
        (call_op("relu", x), "struct_info", "burnish.graph.type_of"),
        (GlobalVar("f"), "name_hint", "name"),
    ):
        with pytest.raises(AttributeError, match=f"{name!r}; here it is {here}"):
            getattr(value, name)
