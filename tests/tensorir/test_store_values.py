from __future__ import annotations

import pytest

from burnish.support.dtype import DType
from burnish.tensorir.store_values import converts, refused_store


@pytest.mark.parametrize(
    ("value", "buffer", "expected"),
    [
        ("int64", "int8", True),
        ("int8", "uint32", True),
        ("int64", "float16", True),
        ("float64", "bfloat16", True),
        ("float32", "int32", False),
        ("bfloat16", "uint8", False),
        ("bool", "int32", False),
        ("bool", "float32", False),
        ("float32", "bool", False),
        ("int32", "bool", False),
    ],
)
def test_what_a_store_converts(value: str, buffer: str, expected: bool) -> None:
    assert converts(DType(value), DType(buffer)) is expected


@pytest.mark.parametrize(
    ("wanted", "found", "advice"),
    [
        ("int32", "float32", "which rounds towards zero, or T.floordiv(a, b)"),
        ("float32", "bool", 'write T.Cast("float32", x).'),
        ("float32x4", "float32", "T.Broadcast(x, 4)"),
        ("float32", "float32x4", "at as many indices: T.Ramp(i, 1, 4)."),
        ("float32x8", "float32x4", "at as many indices: T.Ramp(i, 1, 4)."),
    ],
)
def test_a_refusal_says_what_to_write(wanted: str, found: str, advice: str) -> None:
    text = refused_store("A", DType(wanted), DType(found))
    assert f"{wanted}, as the buffer 'A' has; found {found}." in text
    assert advice in text


def test_a_number_is_no_quotient() -> None:
    text = refused_store("J", DType("int32"), DType("float32"), is_literal=True)
    assert text.endswith('T.Cast("int32", x), which rounds towards zero.')
