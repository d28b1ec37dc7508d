"""Plots: well-formed, inside their frame, and in the right places."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from burnish.driver.svg_plot import _ticks, plot

SVG = "{http://www.w3.org/2000/svg}"


def draw(series: dict[str, list[tuple[float, float]]], **options: object) -> ElementTree.Element:
    text = plot(series, title="a < b", x_label="trials", y_label="us", **options)  # type: ignore[arg-type]
    return ElementTree.fromstring(text)


def test_steps_hold_a_value_until_the_next() -> None:
    root = draw({"one": [(0, 10), (5, 4)], "two": [(0, 0), (10, 0)]})
    paths = [p.attrib["d"] for p in root.iter(f"{SVG}path")]
    assert paths == ["M70.0 40.0 H270.0 V226.0", "M70.0 350.0 H470.0 V350.0"]
    texts = [t.text for t in root.iter(f"{SVG}text")]
    assert {"a < b", "trials", "us", "one", "two", "10", "0"} <= set(texts)


def test_points_stand_alone() -> None:
    root = draw({"t": [(1, 1), (2, 3)]}, kind="points")
    assert len(list(root.iter(f"{SVG}circle"))) == 2


def test_a_logarithmic_axis_has_powers_of_ten() -> None:
    root = draw({"t": [(0, 1.0), (1, 100.0)]}, log_y=True, kind="points")
    low, high = (float(c.attrib["cy"]) for c in root.iter(f"{SVG}circle"))
    assert (low, high) == (350.0, 40.0)
    assert "100" in [t.text for t in root.iter(f"{SVG}text")]


@pytest.mark.parametrize("series", [{}, {"t": []}, {"t": [(0.0, 0.0)]}, {"t": [(3.0, 7.0)]}])
def test_little_is_drawn_too(series: dict[str, list[tuple[float, float]]]) -> None:
    text = ElementTree.tostring(draw(series), encoding="unicode")
    assert "nan" not in text


def test_everything_is_inside_the_frame() -> None:
    series = {f"s{i}": [(x * 13.7, 0.3 * i * x**2) for x in range(9)] for i in range(3)}
    numbers = [
        float(n)
        for p in draw(series).iter(f"{SVG}path")
        for n in re.findall(r"[\d.]+", p.attrib["d"])
    ]
    assert all(0 <= n <= 640 for n in numbers)


def test_ticks_are_round() -> None:
    assert _ticks(0, 10) == [0, 2, 4, 6, 8, 10]
    assert _ticks(0, 0.7) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8])
    assert _ticks(3, 3)[0] == 3
