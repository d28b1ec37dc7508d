"""Literals: what stands in the text, and that it comes back bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.graphir.expr import constant
from burnish.graphir.text.literal import SMALL, is_literal, print_literal, readable
from burnish.support.dtype import DType

F32, BF16 = DType("float32"), DType("bfloat16")


@pytest.mark.parametrize(
    ("data", "dtype", "text"),
    [
        (0.1, "float32", "0.1"),
        ([float("inf"), -0.0], "float64", "[inf, -0.0]"),
        ([[1], [2]], "int8", "[[1], [2]]"),
        ([True, False], "bool", "[True, False]"),
        (16777217.0, "float64", "16777217.0"),
        ([], "float32", "[]"),
        ([0.5, float("nan")], "bfloat16", "[0.5, nan]"),
        (1 / 3, "bfloat16", "0.33398438"),
    ],
)
def test_texts(data: object, dtype: str, text: str) -> None:
    made = constant(data, dtype)
    assert is_literal(made.values(), made.type.dtype)
    assert print_literal(made.values(), made.type.dtype) == text


def test_what_stands_in_the_text_and_what_does_not() -> None:
    assert is_literal(np.zeros(SMALL, np.float32), F32)
    assert not is_literal(np.zeros(SMALL + 1, np.float32), F32)
    payload = np.array([0x7FC00001, 0], np.uint32).view(np.float32)
    assert not is_literal(payload, F32)
    assert is_literal(payload[1:], F32)
    assert not is_literal(np.array(0x7FC1, np.uint16), BF16)


def test_every_bfloat16_reads_back() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    bits = bits[~np.isnan(readable(bits, BF16))]
    again = [float(print_literal(b, BF16)) for b in bits[::257]]
    assert constant(np.array(again), "bfloat16").values().tolist() == bits[::257].tolist()
