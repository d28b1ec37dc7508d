"""What a verification says: errors, tolerances, the first that differs, the text."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.driver.verification import (
    ValueCheck,
    Verification,
    difference,
    tolerance_of,
)
from burnish.support.errors import VerificationError

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("found", "expected", "error"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 2.2], [1.0, 2.0], 0.1),
        ([NAN, INF, 1.0], [NAN, INF, 1.0], 0.0),
        ([NAN], [1.0], INF),
        ([INF], [-INF], INF),
        ([0.0], [0.0], 0.0),
        ([1e-9], [0.0], INF),
        ([NAN], [NAN], 0.0),
        ([[1.0]], [1.0], INF),
        ([], [], 0.0),
    ],
)
def test_difference_of_floats(found: list[float], expected: list[float], error: float) -> None:
    assert difference(np.array(found), np.array(expected)) == pytest.approx(error)


def test_difference_of_integers_is_the_share_that_differs() -> None:
    assert difference(np.array([1, 2, 3, 4]), np.array([1, 2, 3, 5])) == 0.25
    assert difference(np.array([True]), np.array([True])) == 0


def test_tolerances() -> None:
    assert tolerance_of("float32", "fast", whole=False) == 1e-4
    assert tolerance_of("float32", "fast", whole=True) == pytest.approx(1e-3)
    assert tolerance_of("float32", "bfloat16", whole=True) == 5e-2
    assert tolerance_of("float32", "bfloat16", whole=False) == 1e-4
    assert tolerance_of("int64", "bfloat16", whole=True) == 0
    assert tolerance_of("float32", {"a": "bfloat16", "*": "float32"}, whole=True) == 5e-2
    assert tolerance_of("float32", {}, whole=True) == pytest.approx(1e-3)


def _value(name: str, error: float, **more: float) -> ValueCheck:
    return ValueCheck(name, "aten.f", f"net.py:{name}", "float32", (2,), error, 1e-4, **more)


def test_the_text_names_the_first_and_the_blame() -> None:
    good, bad = _value("1", 1e-6), _value("2", 0.5)
    found = Verification("torch Net", "eager", (bad,), (good, bad, bad), "graph pass x")
    assert not found
    assert found.first is bad
    text = str(found)
    assert "torch Net DIFFERS, beside eager" in text
    assert "2 of 3 values on the way differ" in text
    assert "the first: aten.f (2, float32[2]): error 0.5, tolerance 0.0001 at net.py:2" in text
    assert "from: graph pass x" in text
    assert "<pre>" in found._repr_html_()
    with pytest.raises(VerificationError, match="DIFFERS"):
        found.check()


def test_the_table_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "encoder.layer.11.attention.self.query.weight"
    place = (
        "/usr/lib/python3/site-packages/transformers/models/bert/modeling_bert.py:123 in forward"
    )
    value = ValueCheck(name, "aten.linear.default", place, "float32", (2, 8), 1e-6, 1e-4)
    found = Verification("torch Net", "eager", (), (value,))
    monkeypatch.setenv("COLUMNS", "100")
    lines = str(found).splitlines()
    assert max(map(len, lines)) == 100
    assert name not in str(found)
    assert "in forward" in str(found)
    assert name in found.text(full=True)
    assert place in found.text(full=True)


def test_what_is_as_far_from_float64_as_eager_agrees() -> None:
    assert _value("1", 3e-3, eager_error=1e-3).agrees
    assert not _value("1", 5e-3, eager_error=1e-3).agrees
    assert Verification("m", "eager", (), (_value("1", 0.0),)).check()
