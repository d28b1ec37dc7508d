"""What ``model.verify`` found: each value beside that of the reference, and who is to blame."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from html import escape

import numpy as np

from ..support.errors import VerificationError
from .console import table_lines
from .precision import Precision, words_of

TOLERANCES = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
"""The error that one operator may have, by the dtype of its result, relative to the largest element
of it. Those of integers and truth values are equal."""
OF_WHOLE = 10
"""How many times the error of an operator that of a whole model may be."""
OF_PRECISION = {
    "bfloat16": 5e-2,
    "float16": 1e-2,
    "int8": 0.1,
    "int8-weights": 5e-2,
    "int4-weights": 0.5,
}
"""What the outputs of a model may differ by that is compiled for a narrower precision."""
BESIDE_EAGER = 4
"""How many times as far from float64 as eager's a value may be, whatever its error is."""
_ROWS = 12


@dataclass(frozen=True)
class ValueCheck:
    """One value: ``name`` and ``where`` are those of the foreign model, ``error`` the largest
    difference relative to the largest element (integers: the share of elements that differ).
    ``eager_error`` is eager's own, where both are compared with float64."""

    name: str
    operator: str
    where: str
    dtype: str
    shape: tuple[int, ...]
    error: float
    tolerance: float
    eager_error: float | None = None

    @property
    def agrees(self) -> bool:
        """Whether the error is within the tolerance, or near eager's own."""
        own = 0.0 if self.eager_error is None else BESIDE_EAGER * self.eager_error
        return self.error <= max(self.tolerance, own)

    def __str__(self) -> str:
        kind = f"{self.dtype}{list(self.shape)}"
        error = f"error {self.error:.2g}, tolerance {self.tolerance:.2g}"
        return f"{self.operator} ({self.name}, {kind}): {error}"


@dataclass(frozen=True)
class Verification:
    """``print(verification)`` tells all; it is true where everything agrees.

    ``outputs`` are compared as the model gives them, ``values`` one operator at a time: each is
    computed of the reference's inputs (with ``float64`` of its own inputs, all beside float64).
    ``first`` is the first operator that differs, ``blame`` the step of the compilation that the
    outputs differ from on: a pass, or a kernel and its schedule.
    """

    name: str
    reference: str
    outputs: tuple[ValueCheck, ...]
    values: tuple[ValueCheck, ...]
    blame: str = ""
    notes: tuple[str, ...] = ()

    @property
    def first(self) -> ValueCheck | None:
        """The first operator whose result differs."""
        return next((v for v in self.values if not v.agrees), None)

    def __bool__(self) -> bool:
        return all(v.agrees for v in (*self.outputs, *self.values))

    def check(self) -> Verification:
        """This verification. Raises VerificationError where something differs."""
        if not self:
            raise VerificationError(str(self))
        return self

    def __str__(self) -> str:
        return self.text()

    def text(self, *, full: bool = False) -> str:
        """What ``print`` shows, whose table fits the terminal (120 columns where there is none);
        with ``full`` names and places are whole."""
        width = None if full else shutil.get_terminal_size((120, 24)).columns
        lines = [f"{self.name} {'agrees' if self else 'DIFFERS'}, beside {self.reference}"]
        lines += [f"  output {i}: {_told(v)}" for i, v in enumerate(self.outputs)]
        wrong = [v for v in self.values if not v.agrees]
        if self.values:
            count = f"{len(self.values)} values on the way"
            said = f"{len(wrong)} of {count} differ" if wrong else f"{count} agree"
            lines.append(f"  {said}")
        if self.first is not None:
            lines.append(f"  the first: {self.first}{_at(self.first)}")
        if self.blame:
            lines.append(f"  from: {self.blame}")
        lines += [f"  note: {n}" for n in self.notes]
        shown = wrong[:_ROWS] or sorted(self.values, key=lambda v: -v.error)[:_ROWS]
        if shown:
            title = "Differences, in order" if wrong else "The largest errors"
            lines += table_lines(title, _COLUMNS, [_row(v) for v in shown], width=width)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


_COLUMNS = ("value", "operator", "result", "error", "eager's", "tolerance", "from")


def _row(value: ValueCheck) -> tuple[str, ...]:
    eager = "" if value.eager_error is None else f"{value.eager_error:.1e}"
    kind = f"{value.dtype}{list(value.shape)}"
    numbers = (f"{value.error:.1e}", eager, f"{value.tolerance:.1e}")
    place = value.where.splitlines()[0] if value.where else ""
    return (value.name, value.operator, kind, *numbers, place)


def _told(value: ValueCheck) -> str:
    verdict = "agrees" if value.agrees else "differs"
    eager = "" if value.eager_error is None else f" (eager's {value.eager_error:.2g})"
    kind = f"{value.dtype}{list(value.shape)}"
    return f"{verdict}, error {value.error:.2g}{eager}, tolerance {value.tolerance:.2g}, {kind}"


def _at(value: ValueCheck) -> str:
    return f" at {value.where}" if value.where else ""


def difference(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference relative to the largest finite element of what is expected; of
    integers and truth values the share of elements that differ. Infinite where shapes differ, or
    where one is NaN or infinite and the other is not, or another infinity."""
    if found.shape != expected.shape:
        return np.inf
    if not expected.size:
        return 0.0
    if expected.dtype.kind not in "fc" or found.dtype.kind not in "fc":
        return float(np.mean(found != expected))
    wide = np.complex128 if "c" in (found.dtype.kind, expected.dtype.kind) else np.float64
    a, b = found.astype(wide), expected.astype(wide)
    finite = np.isfinite(a) & np.isfinite(b)
    rest = ~finite
    same = (a[rest] == b[rest]) | (np.isnan(a[rest]) & np.isnan(b[rest]))
    if not same.all():
        return np.inf
    if not finite.any():
        return 0.0
    gap = float(np.abs(a[finite] - b[finite]).max())
    largest = float(np.abs(b[finite]).max())
    return gap if gap == 0.0 else gap / largest if largest else np.inf


def tolerance_of(
    dtype: str, precision: Precision, *, whole: bool, is_quantized: bool = False
) -> float:
    """What the error of a value may be that nobody stated a tolerance for; 0 for integers. A model
    that was quantised has rounded bytes, whatever its precision."""
    of_operator = TOLERANCES.get(dtype, 0.0)
    if not whole or not of_operator:
        return of_operator
    words = [w.partition(":")[0] for w in words_of(precision)] + ["int8"] * is_quantized
    return max([OF_WHOLE * of_operator, *[OF_PRECISION.get(w, 0.0) for w in words]])
