"""Sequences and optionals."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from burnish.driver.compile import compile
from burnish.tests.frontend.onnx.oracle import check_compiled, model, refusal

X = np.arange(12, dtype=np.float32).reshape(4, 3)


def test_a_sequence_is_made_changed_and_joined() -> None:
    body = """
        s = SequenceConstruct(x, x)
        t = SequenceInsert(s, z, one)
        u = SequenceErase(t, last)
        y = ConcatFromSequence<axis = 1>(u)
        n = SequenceLength(t)
        e = SequenceAt(t, one)
    """
    weights = {"one": np.int64(1), "last": np.int64(-1)}
    made = model(body, "float[4, 3] x, float[4, 2] z", weights=weights,
                 outputs="float y, int64 n, float e")  # fmt: skip
    check_compiled(made, x=X, z=X[:, :2])


def test_a_tensor_is_split_by_sizes_into_parts_and_into_rows() -> None:
    body = """
        a = SplitToSequence(x, sizes)
        b = SplitToSequence(x, three)
        c = SplitToSequence<keepdims = 0>(x)
        p = SequenceAt(a, zero)
        q = SequenceAt(b, one)
        r = SequenceAt(c, one)
    """
    weights = {"sizes": np.array([1, 3]), "three": np.int64(3), "zero": np.int64(0),
               "one": np.int64(1)}  # fmt: skip
    made = model(body, "float[4, 3] x", weights=weights, outputs="float p, float q, float r")
    p, q, r = compile(made)(X)
    assert np.array_equal(p, X[:1])
    assert np.array_equal(q, X[3:])
    assert np.array_equal(r, X[1])


def sequence_model(operator: str, **attributes: int) -> object:
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    kind = helper.make_sequence_type_proto(tensor)
    graph = helper.make_graph(
        [
            helper.make_node("SequenceInsert", ["s", "x"], ["t"]),
            helper.make_node(operator, ["t"], ["y"], **attributes),
        ],
        "g",
        [helper.make_value_info("s", kind),
         helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
        [helper.make_value_info("y", kind if operator == "Identity" else tensor)],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_sequences_go_in_and_come_out() -> None:
    compiled = compile(sequence_model("Identity"))
    found = compiled([X[:1], X], X[2:])
    assert [f.tolist() for f in found] == [X[:1].tolist(), X.tolist(), X[2:].tolist()]
    assert [f.tolist() for f in compiled([], X)] == [X.tolist()]
    joined = compile(sequence_model("ConcatFromSequence", axis=0))([X[:1], X], X[2:])
    assert np.array_equal(joined, np.concatenate([X[:1], X, X[2:]]))


def test_optionals_are_there_or_not() -> None:
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    kind = helper.make_optional_type_proto(tensor)
    graph = helper.make_graph(
        [helper.make_node("OptionalHasElement", ["o"], ["y"])],
        "g",
        [helper.make_value_info("o", kind)],
        [helper.make_tensor_value_info("y", TensorProto.BOOL, [])],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    compiled = compile(made)
    assert bool(np.asarray(compiled(np.ones(2, np.float32))))
    assert not bool(np.asarray(compiled.run([None])))


def test_positions_outside_and_tensors_in_place_of_sequences_are_refused() -> None:
    weights = {"five": np.int64(5)}
    made = model("s = SequenceConstruct(x)\ny = SequenceAt(s, five)", weights=weights)
    assert "position 5 of 1 elements" in refusal(made)
    assert "its first input is no sequence" in refusal(model("y = SequenceLength(x)"))
    assert "expected a tensor, found a sequence" in refusal(
        model("s = SequenceConstruct(x)\ny = Relu(s)")
    )
