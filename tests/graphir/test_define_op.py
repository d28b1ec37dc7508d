"""Operators of one's own: types, text, kernels, fusion, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burnish
from burnish import te
from burnish.graphir import define_op as room
from burnish.graphir import op
from burnish.graphir.define_op import define_op
from burnish.graphir.expr import constant
from burnish.graphir.text.parser import parse_module
from burnish.graphir.verify import verify_module
from burnish.support.errors import BurnishError, ComputeError, ParseError, TypeInferenceError

TEXT = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 8)), y: R.Tensor(("n", 8)), z: R.Tensor(("n", 8))):
        with R.dataflow():
            a = R.ewise_fma(x, y, z)
            b = R.relu(a)
            R.output(b)
        return b
"""


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op, "_OPS", op.all_ops())
    monkeypatch.setattr(room, "_OWN", set())

    @define_op
    def ewise_fma(x: te.Tensor, y: te.Tensor, z: te.Tensor) -> te.Tensor:
        """x * y + z"""
        if x.dtype != z.dtype:
            raise ComputeError("one dtype, please")
        return te.compute(x.shape, lambda *i: x(*i) * y(*i) + z(*i), name="fma")


def test_it_has_text_a_type_and_a_kernel_that_fuses() -> None:
    module = verify_module(parse_module(TEXT))
    assert "a = R.ewise_fma(x, y, z)" in module.script()
    burnish.assert_structural_equal(parse_module(module.script()), module)
    assert op.get_op("ewise_fma").doc == "x * y + z"
    built = burnish.build(module)
    assert len(built.program.kernels) == 1
    x = np.random.default_rng(0).standard_normal((5, 8), dtype=np.float32)
    found = burnish.VirtualMachine(built)["main"](x, x, -x).numpy()
    np.testing.assert_allclose(found, np.maximum(x * x - x, 0), rtol=1e-5, atol=1e-6)


def test_attributes_are_keywords_and_results_may_be_several() -> None:
    @define_op(name="scaled_pair")
    def pair(x: te.Tensor, *, by: float, plus: float = 0.0) -> Any:
        return te.compute(x.shape, lambda *i: (x(*i) * by, x(*i) + plus))

    bb = burnish.BlockBuilder()
    x = burnish.graph.Var("x", burnish.graph.tensor_type((4,)))
    with bb.function("main", [x]):
        call = bb.emit(burnish.graph.op("scaled_pair", x, by=3.0))
        bb.emit_func_output(call)
    assert "R.scaled_pair(x, by=3.0)" in bb.get().script()
    data = np.arange(4, dtype=np.float32)
    three, same = burnish.VirtualMachine(burnish.build(bb.get()))["main"](data)
    np.testing.assert_array_equal(three.numpy(), data * 3)
    np.testing.assert_array_equal(same.numpy(), data)
    with pytest.raises(TypeInferenceError, match="attribute 'by' is missing"):
        op.type_of(burnish.graph.op("scaled_pair", x))


def test_constants_are_folded() -> None:
    bb = burnish.BlockBuilder()
    one = constant(np.ones(4, np.float32))
    with bb.function("main", []):
        bb.emit_func_output(bb.emit(burnish.graph.op("ewise_fma", one, one, one)))
    built = burnish.build(bb.get())
    assert not built.program.kernels
    np.testing.assert_array_equal(burnish.VirtualMachine(built)["main"]().numpy(), np.full(4, 2))


def test_it_may_be_defined_again() -> None:
    @define_op
    def ewise_fma(x: te.Tensor, y: te.Tensor) -> te.Tensor:
        return te.compute(x.shape, lambda *i: x(*i) * y(*i))

    assert op.get_op("ewise_fma").params == ("x", "y")
    with pytest.raises(ParseError, match="3 operands were given"):
        parse_module(TEXT)


def _with_default(x: Any, axis: int = 0) -> Any: ...


def _alone() -> Any: ...


@pytest.mark.parametrize(
    ("definition", "name", "message"),
    [
        (_with_default, "", "axis.*is neither an operand"),
        (_alone, "", "has no operand"),
        (_with_default, "relu", "burnish has an operator 'relu'"),
        (_with_default, "a b", "'a b' is no name"),
        (3, "", "takes a function on te Tensors; found int"),
    ],
)
def test_what_is_no_definition_is_refused(
    definition: Callable[..., Any], name: str, message: str
) -> None:
    with pytest.raises(BurnishError, match=message):
        define_op(name=name)(definition)


def test_what_the_definition_refuses_is_an_error_of_the_call() -> None:
    a, b = (burnish.graph.Var("a", burnish.graph.tensor_type((4,), d)) for d in ("float32", "int8"))
    with pytest.raises(TypeInferenceError, match="one dtype, please"):
        op.type_of(burnish.graph.op("ewise_fma", a, a, b))

    @define_op
    def same(x: te.Tensor) -> te.Tensor:
        return x

    with pytest.raises(TypeInferenceError, match=r"gave no te\.compute"):
        op.type_of(burnish.graph.op("same", a))


def test_a_definition_that_reads_beyond_its_operands_is_refused() -> None:
    text = "@R.function\ndef main(x: R.Tensor((4, 3)), y: R.Tensor((2, 3))):\n    return {}"
    module = parse_module(text.format("R.ewise_fma(x, y, x)"))
    with pytest.raises(BurnishError, match="of 'y' runs from 0 to 3; this dimension has 2"):
        burnish.build(module)
