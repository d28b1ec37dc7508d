"""What the texts of options become, and which are refused."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable
from typing import Any

import pytest

from burnish.driver.option_types import number, place, precision, sizes, whole_number


@pytest.mark.parametrize(
    ("parse", "text", "found"),
    [
        (whole_number(), "8", 8),
        (whole_number(0, 65535), "0", 0),
        (number(), "0.5", 0.5),
        (number(may_be_zero=True), "0", 0.0),
        (place, "m.onnx", "m.onnx"),
        (sizes, "batch=8, length = 0", {"batch": 8, "length": 0}),
        (precision, "int8", "int8"),
        (
            precision,
            "head=float32,*=int4-weights:128",
            {"head": "float32", "*": "int4-weights:128"},
        ),
    ],
)
def test_what_is_taken(parse: Callable[[str], Any], text: str, found: object) -> None:
    assert parse(text) == found


@pytest.mark.parametrize(
    ("parse", "texts"),
    [
        (whole_number(), ["0", "-1", "1.5", "x", "", "9" * 30]),
        (whole_number(0, 65535), ["65536", "-1"]),
        (number(), ["0", "-1", "nan", "inf", "x", ""]),
        (number(may_be_zero=True), ["-1", "nan", "inf"]),
        (place, [""]),
        (sizes, ["", "batch", "batch=", "=8", "batch=-1", "b=1,b=2", "b=" + "9" * 30, "b=٣"]),
        (precision, ["=int8", "head=", "head=int8,"]),
    ],
)
def test_what_is_refused(parse: Callable[[str], Any], texts: list[str]) -> None:
    for text in texts:
        with pytest.raises(ArgumentTypeError, match=r"found|given twice"):
            parse(text)
