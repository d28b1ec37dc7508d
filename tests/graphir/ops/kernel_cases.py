"""How a row of the operator table is tested: its kernel against NumPy, its errors as text."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.graphir.module import IRModule
from burnish.graphir.passes.legalize import LegalizeOps
from burnish.graphir.text.parser import parse_module
from burnish.graphir.verify import verify_module
from burnish.support.errors import ParseError
from burnish.tests.graphir.reference import run

X, Y = 'R.Tensor((2, 3), "float32")', 'R.Tensor(("m", 3), "float32")'
B = 'R.Tensor((2, 3), "bool")'
N = 'R.Tensor((2, 3), "int32")'


def module_of(expression: str, **params: str) -> IRModule:
    listed = ", ".join(f"{name}: {kind}" for name, kind in params.items())
    return parse_module(
        f"@R.function\ndef main({listed}):\n    with R.dataflow():\n"
        f"        y = {expression}\n        R.output(y)\n    return y\n"
    )


def values_of(module: IRModule, sizes: int = 2) -> list[np.ndarray]:
    """Positive distinct floats, small integers, alternating bools; every symbolic dim is
    ``sizes``."""
    rng = np.random.default_rng(0)
    arrays = []
    for param in module["main"].params:  # type: ignore[union-attr]
        shape = [getattr(d, "value", sizes) for d in param.type.shape]  # type: ignore[union-attr]
        dtype = param.type.dtype.to_numpy()  # type: ignore[union-attr]
        if dtype.kind == "f":
            arrays.append(rng.uniform(0.2, 0.9, shape).astype(dtype))
        else:
            arrays.append(
                rng.integers(1, 9, shape).astype(dtype)
                if dtype.kind in "iu"
                else rng.random(shape) > 0.5
            )
    return arrays


def check_kernel(expression: str, params: dict[str, str]) -> None:
    """The legalised module computes what the reference says, with the same shape and dtype."""
    module = verify_module(module_of(expression, **params))
    inputs = values_of(module)
    expected = run(module, "main", *inputs)
    legal = verify_module(LegalizeOps()(module))
    found = run(legal, "main", *inputs)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)


def check_error(expression: str, params: dict[str, str], message: str) -> None:
    """The text is refused with a message that holds ``message``, and a caret."""
    with pytest.raises(ParseError) as caught:
        module_of(expression, **params)
    assert message in str(caught.value)
    assert "^" in str(caught.value)
