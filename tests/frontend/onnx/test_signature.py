"""What goes into a model and comes out of it."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from burnish.driver.compile import compile
from burnish.frontend.imported import InputTypes
from burnish.frontend.onnx import import_onnx
from burnish.frontend.onnx.signature import Inputs
from burnish.support.errors import FrontendError, ShapeMismatchError
from burnish.tests.frontend.onnx.oracle import model

X = np.ones((2, 3), np.float32)


def unranked() -> object:
    made = model("y = Relu(x)")
    made.graph.input[0].type.tensor_type.ClearField("shape")
    return made


def test_an_input_without_a_shape_has_that_of_the_call() -> None:
    asked = import_onnx(unranked(), ())
    assert asked.question is not None
    assert asked.question.wanted == "types"
    assert asked.flatten_inputs((X,), {}) == [X]
    imported = import_onnx(unranked(), (InputTypes(((2, 3),)),))
    assert imported.question is None
    assert "(2, 3)" in imported.module.script()
    compiled = compile(unranked())
    for x in (X, X[0], X):
        assert np.array_equal(compiled(x), x)
    assert compiled.compilations == 2


def test_dims_that_the_model_states_are_held_against_the_call() -> None:
    made = model("y = Reshape(x, s)", "float[N, 3] x, int64[1] s")
    with pytest.raises(ShapeMismatchError):
        import_onnx(made, (InputTypes(((2, 4), (1,))),))


def test_a_sequence_needs_a_list() -> None:
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
    made = model("y = SequenceLength(x)", outputs="int64 y")
    made.graph.input[0].type.CopyFrom(kind)
    with pytest.raises(FrontendError, match="input 'x': expected a list of tensors"):
        import_onnx(made, (InputTypes(((2,),)),))
    imported = import_onnx(made, (InputTypes(([(2,), (2,)],)),))
    assert imported.input_names == ("x_0", "x_1")
    assert len(imported.flatten_inputs(([X, X],), {})) == 2


def test_absent_outputs_and_lists_come_back_in_their_places() -> None:
    made = model("s = SequenceConstruct(x, x)\no = Optional()", outputs="float s, float o, float x")
    imported = import_onnx(made, (InputTypes(((1, 3, 4),)),))
    assert imported.unflatten_outputs([1, 2, 3]) == ([1, 2], None, 3)
    assert not imported.bare_tuple


def test_an_import_does_not_hold_the_model_that_it_was_read_from() -> None:
    """A message that is a part of another holds all of it."""
    made = model("y = Relu(x)")
    inputs = Inputs(made.graph.input)
    made.graph.input[0].name = "other"
    assert inputs.values[0].name == "x"
