"""Named sizes that data tell."""

from __future__ import annotations

import numpy as np

from burnish.frontend.onnx import import_onnx
from burnish.tests.frontend.onnx.oracle import check_compiled, model, operators_of


def test_the_same_computation_has_one_name() -> None:
    body = "a = NonZero(x)\nb = NonZero(x)\ny = Add(a, b)"
    made = model(body, "float[5] x", outputs="int64 y")
    assert operators_of(import_onnx(made)).count("bind_size") == 1
    check_compiled(made, x=np.array([0, 1, 1, 0, 3], np.float32))
