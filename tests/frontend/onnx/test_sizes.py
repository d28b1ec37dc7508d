"""Arithmetic on shape values: exact for every size, or refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from burnish.driver.compile import compile
from burnish.frontend.onnx.registry import ShapeValue
from burnish.frontend.onnx.sizes import choose, size_arithmetic
from burnish.graphir.dim import is_nonnegative, print_shape
from burnish.graphir.expr import Constant
from burnish.support.errors import FrontendError
from burnish.tensorir.expr import Expr, IntImm, Var, as_expr, maximum
from burnish.tensorir.text.dim_text import print_dim
from burnish.tests.frontend.onnx.oracle import model

N = Var("n")


def sizes(*dims: Expr | int, scalar: bool = False) -> ShapeValue:
    return ShapeValue(tuple([as_expr(d) for d in dims]), scalar)


def compute(operator: str, a: ShapeValue, b: ShapeValue) -> ShapeValue | Constant | None:
    return size_arithmetic(helper.make_node(operator, ["a", "b"], ["y"]), a, b)


@pytest.mark.parametrize(
    ("operator", "a", "b", "text"),
    [
        ("Add", N, 2, "n + 2"),
        ("Sub", N, 1, "n - 1"),
        ("Mul", N, 3, "n * 3"),
        ("Div", N * 12, 4, "n * 12 // 4"),
        ("Div", N * 4, 4, "n"),
        ("Mod", N, 4, "n % 4"),
        ("Mod", N * 4, 2, "0"),
        ("Max", N, 1, "max(n, 1)"),
        ("Min", N, N, "n"),
        ("Div", -7, 2, "-3"),
    ],
)
def test_arithmetic(operator: str, a: Expr, b: int, text: str) -> None:
    found = compute(operator, sizes(a, scalar=True), sizes(b, scalar=True))
    assert isinstance(found, ShapeValue)
    assert found.scalar
    assert print_dim(found.dims[0]) == text


def test_lengths_broadcast() -> None:
    found = compute("Mul", sizes(N, 2, 3), sizes(2))
    assert isinstance(found, ShapeValue)
    assert print_shape(found.dims) == "(n * 2, 4, 6)"
    with pytest.raises(FrontendError, match="sizes of the different lengths 3 and 2"):
        compute("Add", sizes(N, 2, 3), sizes(1, 2))


def test_other_operators_are_not_for_sizes() -> None:
    assert compute("Pow", sizes(2), sizes(3)) is None


@pytest.mark.parametrize(
    ("operator", "a", "b"),
    [("Div", N - 5, 2), ("Div", N, 0), ("Div", 3, N), ("Mod", N - 1, 2), ("Mod", N, -2)],
)
def test_results_that_are_not_known_for_every_size(operator: str, a: Expr, b: Expr) -> None:
    assert compute(operator, sizes(a), sizes(b)) is None


@pytest.mark.parametrize(
    ("operator", "a", "b", "expected"),
    [
        ("Equal", N, N + 0, True),
        ("Equal", N, -1, False),
        ("Equal", 3, 4, False),
        ("Greater", N, -1, True),
        ("Less", N, -1, False),
        ("Less", -1, N, True),
        ("GreaterOrEqual", N, N, True),
        ("Greater", N, N, False),
        ("LessOrEqual", 2, 2, True),
    ],
)
def test_comparisons_that_are_decided(operator: str, a: Expr, b: Expr, expected: bool) -> None:
    found = compute(operator, sizes(a), sizes(b))
    assert isinstance(found, Constant)
    assert found.values().tolist() == [expected]


def test_comparisons_that_depend_on_the_size_are_not_decided() -> None:
    assert compute("Equal", sizes(N), sizes(1)) is None


@pytest.mark.parametrize("n", [1, 3, 8])
def test_what_is_not_known_for_every_size_is_computed_when_the_model_runs(n: int) -> None:
    made = model(
        "s = Shape(x) n, m = Split(s) q = Div(m, n) q0 = Squeeze(q) f = Cast<to: int = 7>(q0)"
        " zero = Constant<value: tensor = int64 {0}>() one = Constant<value: tensor = int64 {1}>()"
        " y = Range(zero, f, one) z = Greater(n, two)",
        "float[N, M] x", weights={"two": np.array([2])}, outputs="int64 y, bool z",
    )  # fmt: skip
    compiled = compile(made)
    for m in (n, 7, 24):
        y, z = compiled(np.zeros((n, m), np.float32))
        assert y.tolist() == list(range(m // n))
        assert z.tolist() == [n > 2]
    assert compiled.compilations == 1


def test_choices() -> None:
    found = choose(np.array([True, False]), sizes(N, 2), sizes(-1))
    assert print_shape(found.dims) == "(n, -1)"
    assert not found.scalar
    assert choose(np.array(True), sizes(N, scalar=True), sizes(1, scalar=True)).scalar


def test_signs() -> None:
    assert is_nonnegative(maximum(N - 3, 0))
    assert is_nonnegative(N * 2 + 1)
    assert not is_nonnegative(N - 1)
    assert not is_nonnegative(IntImm(-1))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.sampled_from(["Add", "Sub", "Mul", "Div"]), st.integers(-20, 20), st.integers(-9, 9))
def test_constants_are_computed_as_onnx_does(operator: str, a: int, b: int) -> None:
    if operator == "Div" and b == 0:
        return
    found = compute(operator, sizes(a, scalar=True), sizes(b, scalar=True))
    assert isinstance(found, ShapeValue)
    table = {"Add": a + b, "Sub": a - b, "Mul": a * b, "Div": int(a / b) if b else 0}
    assert print_dim(found.dims[0]) == str(table[operator])
