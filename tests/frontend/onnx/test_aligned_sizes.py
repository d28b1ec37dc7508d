"""Sizes of data that nothing proves equal: one program, and a refusal where they are not."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.driver.compile import CompiledModel, compile
from burnish.support.errors import BurnishError
from burnish.tests.frontend.onnx.oracle import compare, model

FIRST = "a = NonZero(x) b = NonZero(y) p = Squeeze(a, zero) q = Squeeze(b, zero) "


def of(body: str, outputs: str = "int64 z") -> CompiledModel:
    """Of the places where two vectors are not zero."""
    made = model(
        FIRST + body, "float[N] x, float[M] y", weights={"zero": np.array([0])}, outputs=outputs
    )
    compiled = compile(made)
    compiled.made = made  # type: ignore[attr-defined]
    return compiled


def vectors(*counts: int) -> dict[str, np.ndarray]:
    """Of seven elements, so many of which are not zero."""
    pairs = zip("xy", counts, strict=True)
    return {name: (np.arange(7) < count).astype(np.float32) for name, count in pairs}


@pytest.mark.parametrize(
    "body", ["z = Add(p, q)", "z = Mul(a, b)", "c = Equal(p, q) z = Where(c, p, q)"]
)
def test_elements_that_meet_broadcast_as_they_do_in_onnx(body: str) -> None:
    compiled = of(body)
    for counts in ((3, 3), (1, 4), (5, 1), (0, 0), (1, 0)):
        compare(compiled, compiled.made, **vectors(*counts))  # type: ignore[attr-defined]
    assert compiled.compilations == 1
    with pytest.raises(BurnishError, match="size"):
        compiled(vectors(2, 3))


@pytest.mark.parametrize(
    "body", ["z = Concat<axis = 0>(a, b)", "c = Transpose(b) z = MatMul(a, c)"]
)
def test_other_operators_take_equal_sizes_alone(body: str) -> None:
    compiled = of(body)
    for counts in ((3, 3), (0, 0)):
        compare(compiled, compiled.made, **vectors(*counts))  # type: ignore[attr-defined]
    assert compiled.compilations == 1
    with pytest.raises(BurnishError, match="size"):
        compiled(vectors(1, 3))
