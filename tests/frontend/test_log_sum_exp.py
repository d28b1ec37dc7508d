"""log_sum_exp keeps large and infinite elements apart from NaN."""

from __future__ import annotations

import numpy as np

from burnish.frontend.log_sum_exp import log_sum_exp
from burnish.graphir.expr import Var
from burnish.graphir.type import tensor_type
from burnish.graphir.verify import verify_module
from burnish.tests.frontend.test_normalization import Emitter
from burnish.tests.graphir.reference import run


def test_special_values() -> None:
    emitter = Emitter()
    x = Var("x", tensor_type([5, 2], "float32"))
    with emitter.builder.function("main", [x]):
        with emitter.builder.dataflow():
            out = emitter.builder.emit_output(log_sum_exp(emitter, x, (1,)))
        emitter.builder.emit_func_output(out)
    inf, nan = np.inf, np.nan
    values = np.array([[1000, 1000], [-inf, -inf], [inf, 1], [nan, 1], [-inf, 2]], np.float32)
    found = run(verify_module(emitter.builder.get()), "main", values)
    expected = [1000 + np.log(2), -inf, inf, nan, 2]
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-6)
