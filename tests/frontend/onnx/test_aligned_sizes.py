"""Sizes of data that nothing proves equal: one program, and a refusal where they are not."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.driver.compile import compile
from burnish.driver.compiled_model import CompiledModel
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


ROWS = "a = Compress<axis = 0>(x, m) b = Compress<axis = 0>(y, w) "


def of_rows(body: str, weights: dict[str, np.ndarray] | None = None) -> CompiledModel:
    """Of the rows of two matrices, x of N, that masks choose."""
    made = model(
        ROWS + body,
        "float[N, 3] x, bool[N] m, float[M, 3] y, bool[M] w",
        18,
        weights=weights,
        outputs="float z",
    )
    compiled = compile(made)
    compiled.made = made  # type: ignore[attr-defined]
    return compiled


def rows(a: int, b: int) -> dict[str, np.ndarray]:
    """Of six rows and of seven, so many that are chosen."""
    random = np.random.default_rng(0)
    x, y = [random.standard_normal((n, 3)).astype(np.float32) for n in (6, 7)]
    return {"x": x, "m": np.arange(6) < a, "y": y, "w": np.arange(7) < b}


TURNED = "t = Transpose(a) aa = MatMul(a, t) ba = MatMul(b, t) "


@pytest.mark.parametrize(
    "body",
    [
        "z = Mul(aa, ba)",
        "r = ReduceMax<keepdims = 1>(b, first) z = Add(aa, r)",
        "s = Shape(ba) z = Expand(aa, s)",
        "q = MatMul(b, xt) z = Mul(aa, q)",
        "z = Concat<axis = 0>(aa, ba)",
    ],
)
def test_an_axis_of_the_same_size_that_does_not_meet_stays(body: str) -> None:
    weights = {"first": np.array([1])}
    compiled = of_rows("xt = Transpose(x) " + TURNED + body, weights)
    other = body.count("xt")  # then it is 6 columns that a's meet
    for counts in ((1, 5), (1, 1), (1, 0)) if not other else ((1, 5), (1, 1), (6, 6)):
        compare(compiled, compiled.made, **rows(*counts))  # type: ignore[attr-defined]
    assert compiled.compilations == 1


def test_batches_of_a_product_broadcast() -> None:
    weights = {"one": np.array([1]), "two": np.array([2])}
    compiled = of_rows("p = Unsqueeze(a, one) q = Unsqueeze(b, two) z = MatMul(p, q)", weights)
    for counts in ((1, 5), (5, 1), (3, 3), (0, 1), (1, 0), (0, 0)):
        compare(compiled, compiled.made, **rows(*counts))  # type: ignore[attr-defined]
    assert compiled.compilations == 1
    with pytest.raises(BurnishError, match="size"):
        compiled(rows(2, 3))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "z = Mul(a, b)",
            r"the Mul that makes 'z'.* equal sizes or of one element.* got 2 and 3\.",
        ),
        ("z = Concat<axis = 1>(a, b)", r"the Concat that makes 'z'.* equal sizes where.* 3 and 2"),
    ],
)
def test_a_call_where_they_do_not_fit_hears_which_node_and_which_sizes(
    body: str, said: str
) -> None:
    compiled = of_rows(body)
    with pytest.raises(BurnishError, match=said) as caught:
        compiled(rows(2, 3))
    assert "computed when the model runs: call it with inputs that" in str(caught.value)
