"""Models whose program depends on values of their inputs."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

import burnish
from burnish.driver import questions
from burnish.driver.compile import CompiledModel
from burnish.support.errors import ArityError, VMError

X = np.arange(6, dtype=np.float32)


def reshaping() -> CompiledModel:
    return burnish.compile(
        parser.parse_model(
            '<ir_version: 8, opset_import: ["" : 17]> '
            "g (float[6] x, int64[2] shape) => (float y) { y = Reshape(x, shape) }"
        )
    )


def test_a_shape_that_is_an_input_makes_a_program_for_each_value() -> None:
    model = reshaping()
    for shape in ([2, 3], [3, 2], [2, 3], [-1, 6]):
        found = model(X, np.array(shape))
        assert np.array_equal(found, X.reshape(shape))
    assert model.compilations == 3


def test_calls_are_checked_before_anything_is_asked() -> None:
    with pytest.raises(ArityError, match="the model takes 2 inputs"):
        reshaping()(X)


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
            "g (float[1] x, int64[1] n) => (float y) { y = Expand(x, n) }"
        )
    )
    for n in range(3):
        model(X[1:2], np.array([n + 1]))
    with pytest.warns(UserWarning, match="for the fourth time: its program depends on values"):
        model(X[1:2], np.array([4]))
    monkeypatch.setattr(questions, "MOST_PROGRAMS", 4)
    with pytest.raises(VMError, match="and was compiled for 4 of them; the next one is refused"):
        model(X[1:2], np.array([5]))
    assert model(X[1:2], np.array([4])).tolist() == [1.0] * 4


def test_a_tuned_program_takes_the_place_of_the_first() -> None:
    model = reshaping()
    model(X, np.array([2, 3]))
    old = model._current
    assert old is not None
    new = questions.CompiledSignature(old.imported, old.executable, 1)
    assert model._replace(old, new)
    model(X, np.array([2, 3]))
    assert model._current is new
