"""Plots as SVG text: steps and points over labelled axes, nothing else.

Written here because a plot of a tuning run must not need a plotting library; where more is wanted
the numbers are in the database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import ceil, floor, log10

Points = Sequence[tuple[float, float]]

_WIDTH, _HEIGHT = 640, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 170, 40, 50
_COLORS = (
    "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f",
)  # fmt: skip


def plot(
    series: Mapping[str, Points],
    *,
    title: str,
    x_label: str,
    y_label: str,
    kind: str = "steps",
    log_y: bool = False,
) -> str:
    """An SVG document of some series by name: ``steps`` hold each value until the next, ``points``
    stand alone. ``log_y`` spaces the vertical axis by powers of ten (all values positive)."""
    points = [p for values in series.values() for p in values]
    frame = _Frame(points, log_y)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        _text(_WIDTH / 2, 22, title, "middle", size=15),
        *frame.axes(x_label, y_label),
    ]
    for i, (name, values) in enumerate(series.items()):
        color = _COLORS[i % len(_COLORS)]
        parts += _steps(frame, values, color) if kind == "steps" else _points(frame, values, color)
        y = _TOP + 16 * i
        parts.append(f'<rect x="{_WIDTH - _RIGHT + 12}" y="{y}" width="10" height="10" '
                     f'fill="{color}"/>')  # fmt: skip
        parts.append(_text(_WIDTH - _RIGHT + 28, y + 9, name, "start"))
    return "\n".join([*parts, "</svg>"]) + "\n"


class _Frame:
    """From values to places on the page."""

    def __init__(self, points: Points, log_y: bool) -> None:
        self.log_y = log_y
        xs, ys = [x for x, _ in points] or [0.0], [self.scale(y) for _, y in points] or [0.0]
        self.x_ticks = _ticks(min(0.0, *xs), max(xs))
        low = min(ys) if log_y else min(0.0, *ys)
        self.y_ticks = _ticks(floor(low), ceil(max(ys))) if log_y else _ticks(low, max(ys))

    def scale(self, y: float) -> float:
        return log10(y) if self.log_y else y

    def x(self, value: float) -> float:
        low, high = self.x_ticks[0], self.x_ticks[-1]
        return _LEFT + (value - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return self._place(self.scale(value))

    def _place(self, scaled: float) -> float:
        low, high = self.y_ticks[0], self.y_ticks[-1]
        return _HEIGHT - _BOTTOM - (scaled - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    def axes(self, x_label: str, y_label: str) -> list[str]:
        right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
        parts = []
        for tick in self.x_ticks:
            x = self.x(tick)
            parts.append(_line(x, _TOP, x, bottom))
            parts.append(_text(x, bottom + 16, f"{tick:g}", "middle"))
        for tick in self.y_ticks:
            y = self._place(tick)
            shown = 10.0**tick if self.log_y else tick
            parts.append(_line(_LEFT, y, right, y))
            parts.append(_text(_LEFT - 6, y + 4, f"{shown:.4g}", "end"))
        middle = (_TOP + bottom) / 2
        parts.append(_text((_LEFT + right) / 2, _HEIGHT - 12, x_label, "middle"))
        parts.append(
            f'<text x="16" y="{middle:.1f}" text-anchor="middle" '
            f'transform="rotate(-90 16 {middle:.1f})">{escape(y_label)}</text>'
        )
        return parts


def _ticks(low: float, high: float) -> list[float]:
    """Four to nine round numbers around a range."""
    if high <= low:
        high = low + 1.0
    raw = (high - low) / 5
    unit = 10.0 ** floor(log10(raw))
    step = next(unit * m for m in (1, 2, 5, 10) if unit * m >= raw * 0.999)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [i * step for i in range(first, last + 1)]


def _steps(frame: _Frame, values: Points, color: str) -> list[str]:
    if not values:
        return []
    places = [f"M{frame.x(values[0][0]):.1f} {frame.y(values[0][1]):.1f}"]
    for x, y in values[1:]:
        places.append(f"H{frame.x(x):.1f} V{frame.y(y):.1f}")
    return [f'<path d="{" ".join(places)}" fill="none" stroke="{color}" stroke-width="2"/>']


def _points(frame: _Frame, values: Points, color: str) -> list[str]:
    return [
        f'<circle cx="{frame.x(x):.1f}" cy="{frame.y(y):.1f}" r="3" fill="{color}" '
        'fill-opacity="0.6"/>'
        for x, y in values
    ]


def _line(x0: float, y0: float, x1: float, y1: float) -> str:
    return f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" stroke="#ddd"/>'


def _text(x: float, y: float, text: str, anchor: str, *, size: int = 12) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">'
        f"{escape(text)}</text>"
    )
