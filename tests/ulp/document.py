"""The tables of docs/math.md, and the measured maxima that tests write into them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "math.md"


def rows() -> dict[str, list[str]]:
    """The cells of each row of the document's tables."""
    found = re.findall(r"^\| `(\w+)` \|(.*)\|$", DOCUMENT.read_text(encoding="utf-8"), re.M)
    return {name: cells.split("|") for name, cells in found}


def bounds() -> dict[str, list[float]]:
    """(float32 largest, float32 bound, float64 measured, float64 bound) of each function that has
    machine code of its own; only the first two of those written with others."""
    known = rows().items()
    return {n: [float(c) for c in cells[: 4 if len(cells) > 4 else 2]] for n, cells in known}


def record(name: str, column: int, value: float) -> None:
    """Write a measured maximum into the document, rounded up to hundredths."""
    text = DOCUMENT.read_text(encoding="utf-8")
    row = re.search(rf"^\| `{name}` \|.*$", text, re.M)
    assert row is not None, f"docs/math.md has no row for {name}"
    cells = row.group().split("|")
    cells[2 + column] = f" {np.ceil(value * 100) / 100:.2f} "
    DOCUMENT.write_text(text.replace(row.group(), "|".join(cells)), encoding="utf-8")
