"""Named sizes that data tell."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.frontend.onnx import import_onnx
from burnish.support.errors import BurnishError
from burnish.tests.frontend.onnx.oracle import check_compiled, compare, model, operators_of


def test_the_same_computation_has_one_name() -> None:
    body = "a = NonZero(x)\nb = NonZero(x)\ny = Add(a, b)"
    made = model(body, "float[5] x", outputs="int64 y")
    assert operators_of(import_onnx(made)).count("bind_size") == 1
    check_compiled(made, x=np.array([0, 1, 1, 0, 3], np.float32))


def test_a_shape_that_is_an_input_has_named_sizes() -> None:
    made = model("y = ConstantOfShape(s)", "int64[2] s")
    compiled = check_compiled(made, s=np.array([2, 3]))
    for shape in ([0, 4], [5, 1]):
        compare(compiled, made, s=np.array(shape))
    assert compiled.compilations == 1
    with pytest.raises(BurnishError, match="from 0 up"):
        compiled(np.array([2, -1]))
