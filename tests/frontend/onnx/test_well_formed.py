"""Models that break ONNX's rules are refused before any work, whether sizes are named or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, helper

import burnish
from burnish.support.errors import BurnishError, FrontendError

node = helper.make_node


def info(name: str, shape: Any = None, dtype: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, dtype, shape)


def model(
    nodes: Sequence[NodeProto],
    inputs: Sequence[Any] = (info("x", ["n"]),),
    functions: Sequence[FunctionProto] = (),
) -> ModelProto:
    graph = helper.make_graph(nodes, "g", list(inputs), [info("o")])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("my", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=9)


def part(nodes: Sequence[NodeProto], inputs: Sequence[str], outputs: Sequence[str]) -> GraphProto:
    kinds = {"i": ([], TensorProto.INT64), "c0": ([], TensorProto.BOOL)}
    given = [info(n, *kinds.get(n, (None,))) for n in inputs]
    return helper.make_graph(nodes, "part", given, [info(n) for n in outputs])


def function(name: str, called: str) -> FunctionProto:
    opsets = [helper.make_opsetid("my", 1)]
    return helper.make_function(
        "my", name, ["a"], ["b"], [node(called, ["a"], ["b"], domain="my")], opsets
    )


RELU = node("Relu", ["x"], ["a"])
CONDITION = (info("x", ["n"]), info("c", [], TensorProto.BOOL), info("m", [], TensorProto.INT64))


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("Relu", ["z"], ["o"])], "the Relu that makes 'o' reads 'z', which is no input, no"),
        ([RELU], "the model's output reads 'o', which is no input"),
        (
            [node("Neg", ["a"], ["o"]), RELU],
            "reads 'a', which is no input, no initializer and no result of a node before it. the "
            "Relu that makes 'a' makes it: nodes have to stand behind",
        ),
        ([node("Add", ["x", "o"], ["o"])], "and none may need its own"),
        ([node("Relu", ["x"], ["o"], alpha=1.0)], "has no attribute 'alpha' in this version"),
        ([node("ReduceSum", ["x"], ["o"], axes=[0])], "has no attribute 'axes' in this version"),
        ([RELU, node("Neg", ["x"], ["a"])], "the Neg that makes 'a': 'a' is made twice"),
        ([node("Relu", ["x"], ["x"])], "'x' is made twice, or is an input"),
        ([node("Add", ["x"], ["o"])], "expected 2 inputs or more, found no 'B' among ['x']"),
        ([node("Relu", ["x", "x"], ["o"])], "expected 1 at most inputs, found 2."),
        ([node("Relu", ["x"], ["o", "p"])], "expected 1 at most results, found 2."),
        ([node("Concat", ["x", "x"], ["o"])], "the attribute 'axis' is missing."),
        ([node("Concat", ["x"], ["o"], axis="a")], "the attribute 'axis' is STRING; expected INT."),
    ],
)
@pytest.mark.parametrize("size", [3, "n"])
def test_names_counts_and_attributes(nodes: list[NodeProto], message: str, size: Any) -> None:
    with pytest.raises(FrontendError) as caught:
        burnish.compile(model(nodes, [info("x", [size])]))
    assert message in str(caught.value)


def test_dtypes_that_do_not_fit_need_no_sizes() -> None:
    cast = node("Cast", ["x"], ["i"], to=TensorProto.INT64)
    with pytest.raises(BurnishError, match=r"different dtypes.*put a Cast in front of the node"):
        burnish.compile(model([cast, node("Add", ["x", "i"], ["o"])]))


def test_two_inputs_of_one_name() -> None:
    with pytest.raises(FrontendError, match="two inputs of the model are called 'x'"):
        burnish.compile(model([node("Relu", ["x"], ["o"])], [info("x", [3]), info("x", [3])]))


def test_graphs_of_control_flow() -> None:
    one, two = part([RELU], [], ["a"]), part([RELU], [], ["a", "x"])
    unknown = part([node("Relu", ["z"], ["a"])], [], ["a"])
    keeps = part([node("Identity", ["c0"], ["c1"])], ["i", "c0"], ["c1"])
    cases = {
        "its branches give 1 and 2 results": node(
            "If", ["c"], ["o"], then_branch=one, else_branch=two
        ),
        "expected the graphs": node("If", ["c"], ["o"], then_branch=one),
        "reads 'z'": node("If", ["c"], ["o"], then_branch=one, else_branch=unknown),
        "its body takes 2 values and gives 1": node("Loop", ["m", "", "x"], ["o"], body=keeps),
    }
    for message, control in cases.items():
        with pytest.raises(FrontendError, match=message):
            burnish.compile(model([control], CONDITION))


def test_functions_do_not_call_themselves() -> None:
    call = [node("A", ["x"], ["o"], domain="my")]
    for functions in ([function("A", "A")], [function("A", "B"), function("B", "A")]):
        with pytest.raises(FrontendError, match="the function 'A' calls itself"):
            burnish.compile(model(call, functions=functions))


def test_names_of_branches_are_their_own() -> None:
    """Both branches may make the same name, and read what was made around them."""
    branches = [part([node(op, ["a"], ["b"])], [], ["b"]) for op in ("Neg", "Exp")]
    control = node("If", ["c"], ["o"], then_branch=branches[0], else_branch=branches[1])
    compiled = burnish.compile(model([RELU, control], CONDITION[:2]))
    x = np.array([-1.0, 2.0], "float32")
    for flag, expected in ((True, -np.maximum(x, 0)), (False, np.exp(np.maximum(x, 0)))):
        found = compiled({"x": x, "c": np.array(flag)})
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_two_initializers_of_one_name() -> None:
    broken = model([node("Add", ["x", "w"], ["o"])])
    for value in (1.0, 2.0):
        broken.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, [1], [value]))
    with pytest.raises(FrontendError, match="two initializers of the model are called 'w'"):
        burnish.compile(broken)
