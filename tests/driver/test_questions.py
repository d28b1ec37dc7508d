"""Models whose program depends on values of their inputs."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import numpy_helper, parser

import burnish
from burnish.driver import questions
from burnish.driver.compiled_model import CompiledModel
from burnish.support.errors import (
    ArityError,
    BurnishError,
    DTypeMismatchError,
    ShapeMismatchError,
    VMError,
)

X = np.arange(6, dtype=np.float32)


def unsqueezing() -> CompiledModel:
    return burnish.compile(
        parser.parse_model(
            '<ir_version: 8, opset_import: ["" : 17]> '
            "g (float[6] x, int64[2] axes) => (float y) { y = Unsqueeze(x, axes) }"
        )
    )


def test_axes_that_are_an_input_make_a_program_for_each_value() -> None:
    model = unsqueezing()
    for axes in ([0, 1], [1, 2], [0, 1], [0, -1]):
        found = model(X, np.array(axes))
        assert np.array_equal(found, np.expand_dims(X, axes))
    assert model.compilations == 3


def test_inputs_are_listed_before_anything_is_asked() -> None:
    assert unsqueezing().inputs == (("x", ("6",), "float32"), ("axes", ("2",), "int64"))


def test_inputs_are_listed_where_the_first_call_tells_the_shapes() -> None:
    """Three rows are written into a Reshape of any number of columns."""
    model = burnish.compile(
        parser.parse_model(
            '<ir_version: 8, opset_import: ["" : 17]> '
            "g (float[B, N] x) => (float y) <int64[3] s = {3, -1, 2}> "
            "{ t = Transpose(x) r = Reshape(t, s) y = Add(r, x) }"
        )
    )
    assert model.inputs == (("x", ("B", "N"), "float32"),)
    with pytest.raises(BurnishError):
        model(X.reshape(2, 3))


def test_calls_are_checked_before_anything_is_asked() -> None:
    with pytest.raises(ArityError, match="the model takes 2 inputs"):
        unsqueezing()(X)


def test_how_many_elements_are_not_zero_is_computed() -> None:
    model = burnish.compile(
        parser.parse_model(
            '<ir_version: 8, opset_import: ["" : 17]> '
            "g (float[N] x) => (int64 y) { y = NonZero(x) }"
        )
    )
    for x in (X, X[:3], np.zeros(2, np.float32)):
        assert np.array_equal(model(x), np.stack(np.nonzero(x)))


def test_there_is_a_note_and_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    model = burnish.compile(
        parser.parse_model(
            '<ir_version: 8, opset_import: ["" : 17]> '
            "g (float[1, 1, 1, 1] x, int64[1] n) => (float y) { y = Unsqueeze(x, n) }"
        )
    )
    x = np.ones((1, 1, 1, 1), np.float32)
    for n in range(3):
        model(x, np.array([n]))
    with pytest.warns(UserWarning, match="for the fourth time: its program depends on values"):
        model(x, np.array([3]))
    monkeypatch.setattr(questions, "MOST_PROGRAMS", 4)
    with pytest.raises(VMError, match="and was compiled for 4 of them; the next one is refused"):
        model(x, np.array([4]))
    assert model(x, np.array([3])).tolist() == [[[[[1.0]]]]]


def test_a_tuned_program_takes_the_place_of_the_first() -> None:
    model = unsqueezing()
    model(X, np.array([0, 1]))
    old = model._current
    assert old is not None
    new = questions.CompiledSignature(old.imported, old.executable, 1)
    assert model._replace(old, new)
    model(X, np.array([0, 1]))
    assert model._current is new


def test_a_call_that_does_not_fit_is_refused_before_anything_is_compiled() -> None:
    model = unsqueezing()
    with pytest.raises(DTypeMismatchError, match="axes"):
        model(X, np.array([0.0, 1.0]))
    with pytest.raises(ShapeMismatchError, match="axes"):
        model(X, np.array([0, 1, 2]))
    with pytest.raises(DTypeMismatchError, match="x"):
        model(X.astype(np.int32), np.array([0, 1]))
    assert model.compilations == 0
    assert model._asking is not None
    assert not model._asking._root.after


def test_dtypes_are_checked_where_shapes_are_those_of_the_call() -> None:
    made = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float y) { y = Relu(x) }'
    )
    made.graph.input[0].type.tensor_type.ClearField("shape")
    model = burnish.compile(made)
    with pytest.raises(DTypeMismatchError, match="x"):
        model(X.astype(np.int32))
    assert model.compilations == 0
    assert np.array_equal(model(X), X)


def test_a_refused_call_is_not_imported_and_nothing_of_it_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = unsqueezing()
    model(X, np.array([0, 1]))
    asking = model._asking
    assert asking is not None
    monkeypatch.setattr(questions, "MOST_PROGRAMS", 1)
    monkeypatch.setattr(asking, "_again", lambda answers: pytest.fail("imported"))
    with pytest.raises(VMError, match="compiled for 1 of them"):
        model(X, np.array([1, 2]))
    assert len(asking._root.after) == 1


def test_no_module_is_held_behind_its_compilation() -> None:
    made = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float y) { '
        "a = NonZero(x)\nb = Cast<to=1>(a)\naxes = Constant<value_ints=[0]>()\n"
        "c = Unsqueeze(b, axes)\n"
        'y = AveragePool<kernel_shape=[3], strides=[2], auto_pad="SAME_UPPER">(c) }'
    )
    x = np.array([1, 0, 0, 2], np.float32)
    for model, given in ((unsqueezing(), (X, np.array([0, 1]))), (burnish.compile(made), (x,))):
        model(*given)
        assert model._asking is not None
        step = model._asking._root
        while True:
            assert not step.imported.module.functions
            if not step.after:
                break
            (step,) = step.after.values()


def test_programs_share_the_weights_of_the_model() -> None:
    made = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2, 64] x, int64[2] axes) => (float y) '
        "{ a = MatMul(x, w)\ny = Unsqueeze(a, axes) }"
    )
    w = np.random.default_rng(0).random((64, 64), np.float32)
    made.graph.initializer.append(numpy_helper.from_array(w, "w"))
    model, x, held = burnish.compile(made), np.ones((2, 64), np.float32), []
    for axes in ([0, 1], [1, 2]):
        expected = np.expand_dims(x @ w, axes)
        np.testing.assert_allclose(model(x, np.array(axes)), expected, rtol=1e-5)
        constants = model.executable.program.constants
        held.append([c.pointer for c in constants if getattr(c, "nbytes", 0) >= w.nbytes])
    assert len(held[0]) == 1
    assert held[0] == held[1]


def test_the_report_says_why_there_is_a_program_for_each_answer() -> None:
    made = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[N, 3] x, int64[1] s) => (float y) '
        "{ y = Unsqueeze(x, s) }"
    )
    made.graph.input[0].type.tensor_type.ClearField("shape")
    model = burnish.compile(made)
    model(X, np.array([1]))
    assert model.report.notes == [
        "the program is for these shapes of the inputs alone: an input has no shape of its own.",
        "the program is for these values of the inputs alone: the Unsqueeze that makes 'y': input "
        "1 ('s').",
    ]
