from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.support.errors import ParseError, VMError
from burnish.vm.shape_text import (
    compile_shape,
    compile_shapes,
    names_in,
    parse_shape,
    python_source,
    static_value,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("784", 784),
        ("m", 5),
        ("(m + 7) // 8 * 8", 8),
        ("m * n - 1", 14),
        ("-m % 4", 3),
        ("min(m, n, 4)", 3),
        ("max(m, 2)", 5),
        ("m == n + 2", True),
        ("1 <= n < m", True),
    ],
)
def test_values(text: str, value: int) -> None:
    assert compile_shape(text, ("m", "n"))((5, 3)) == value


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "m.real",
        "m / 2",
        "2 ** m",
        "m if m else 1",
        "[m]",
        "True",
        "1.5",
        "min(m)",
        "abs(m)",
        "min(m, key=n)",
        "(lambda: m)()",
        "",
        "m +",
    ],
)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        compile_shape(text, ("m", "n"))


def test_an_unknown_name_is_underlined() -> None:
    with pytest.raises(ParseError) as error:
        parse_shape("m * batc + 1", ("m", "batch"))
    assert str(error.value) == (
        "unknown dimension 'batc'; known here: batch, m. Did you mean 'batch'?\n"
        "  --> <shape>:1:5\n"
        "  |\n"
        "1 | m * batc + 1\n"
        "  |     ^^^^"
    )


def test_division_by_zero_says_which_dims() -> None:
    with pytest.raises(VMError, match=r"'m // n' divides by zero with m = 5, n = 0"):
        compile_shape("m // n", ("m", "n"))((5, 0))
    with pytest.raises(VMError, match="divides by zero"):
        compile_shapes(("m", "m % n"), ("m", "n"))((5, 0))


def test_several_at_once() -> None:
    assert compile_shapes(("m", "4", "m * n"), ("m", "n"))((2, 3)) == (2, 4, 6)
    assert compile_shapes((), ())(()) == ()
    assert compile_shapes(("2", "3 * 4"), ("m",))((9,)) == (2, 12)


def test_static_values_and_names() -> None:
    assert static_value("12") == 12
    assert static_value("3 * 4 + min(1, 2)") == 13
    assert static_value("m * 4") is None
    assert names_in("n + min(m, n)") == ("n", "m")
    with pytest.raises(ParseError):
        names_in("m +")


def test_source_keeps_precedence() -> None:
    assert python_source("m * 2", {"m": "a + b"}) == "(a + b) * 2"


shapes = st.recursive(
    st.sampled_from(["m", "n", "3", "16"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        st.tuples(inner, st.sampled_from(["//", "%"]), st.integers(1, 64)).map(
            lambda t: f"{t[0]} {t[1]} {t[2]}"
        ),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(
            lambda t: f"{t[0]}({t[1]}, {t[2]})"
        ),
    ),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(shapes, st.integers(0, 100), st.integers(0, 100))
def test_agrees_with_python(text: str, m: int, n: int) -> None:
    expected = eval(text, {"m": m, "n": n, "min": min, "max": max})
    assert compile_shape(text, ("m", "n"))((m, n)) == expected
