"""What a builder hands over survives JSON."""

from __future__ import annotations

import json

from burnish.tuner.measuring.built import Built, built_from_json
from burnish.vm.program import Kernel, Param, TensorSpec


def test_a_built_candidate_travels_as_json() -> None:
    params = (Param("A", TensorSpec(("2", "3"), "float32")), Param("B", TensorSpec((), "int8")))
    kernel = Kernel("f", "f_symbol", params, (1,), (), "64", "128", True)
    built = Built(kernel, b"\x7fELF\x00\xff", ((0, "lambda i: (i,)", 0.0),))
    assert built_from_json(json.loads(json.dumps(built.as_json()))) == built
