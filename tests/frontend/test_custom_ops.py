"""What both front ends make of a converter's values."""

from __future__ import annotations

import pytest

from burnish import graph
from burnish.frontend.custom_ops import add_converter, call_converter, emitted
from burnish.frontend.registry import ConverterRegistry
from burnish.graphir.builder import BlockBuilder
from burnish.graphir.expr import CallDPSPacked, Var
from burnish.support.errors import BurnishError


def test_a_tuple_is_taken_apart() -> None:
    x = Var("x", graph.tensor_type((4,)))
    pair = graph.TupleType((graph.tensor_type((4,)), graph.tensor_type((4,))))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        atoms = emitted(bb, [CallDPSPacked("env.f", (x,), pair)])
        assert [type(graph.type_of(a)).__name__ for a in atoms] == ["TensorType", "TensorType"]
        bb.emit_func_output(atoms[1])
    assert "lv[1]" in bb.get().script()


def test_options_that_an_operator_has_not_are_left_out() -> None:
    x = Var("x", graph.tensor_type((4,)))
    (made,) = call_converter("softmax", None, [x, -1], {"axis": -1, "y": 3}, lambda: x.type, "")  # type: ignore[arg-type, return-value]
    assert isinstance(made, graph.Call)
    assert (made.args, made.attrs) == ((x,), (("axis", -1),))


def test_a_users_converter_may_be_replaced() -> None:
    registry = ConverterRegistry("nowhere")
    registry.converts("a")(len)
    registry.refuses("no", "b")
    with pytest.raises(BurnishError, match="override=True replaces it"):
        add_converter(registry, "a", abs, override=False)
    for name in ("a", "b", "b"):
        add_converter(registry, name, abs, override=name == "a")
        assert registry[name] is abs
