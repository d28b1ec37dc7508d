"""What elementary functions should give: references in float64, and errors in units of a format.

The references are NumPy's and SciPy's functions of float64, which are right to a few units of that
format (10**-8 of a unit of float32); the worst points found with them are computed again with
mpmath (``exact_error``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp
import numpy as np
import scipy.special


def _rsqrt(x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    root = np.sqrt(x, out=out)
    return np.divide(1.0, root, out=root)


def _exp10(x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    return np.power(10.0, x, out=out)


REFERENCES: dict[str, Callable[..., np.ndarray]] = {
    "exp": np.exp,
    "exp_negative": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "sigmoid": scipy.special.expit,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "erf": scipy.special.erf,
    "erfc": scipy.special.erfc,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "atan": np.arctan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan2": np.arctan2,
    "pow": np.power,
    "rsqrt": _rsqrt,
    "fmod": np.fmod,
    "exp10": _exp10,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
}
"""Of float64 arrays, with ``out=``."""

EXACT: dict[str, Callable[..., mp.mpf]] = {
    "exp_negative": mp.exp,
    "exp2": lambda x: mp.mpf(2) ** x,
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "log2": lambda x: mp.log(x, 2),
    "pow": mp.power,
    "rsqrt": lambda x: 1 / mp.sqrt(x),
    "fmod": lambda x, y: mp.mpf(float(np.fmod(float(x), float(y)))),
    "exp10": lambda x: mp.mpf(10) ** x,
}
"""Of mpmath's numbers; those that mpmath has under the same name are not here."""

LONG_ARGUMENTS = frozenset({"sin", "cos", "tan", "fmod"})
"""Functions whose large arguments take as many digits as they have."""


@dataclass(frozen=True, slots=True)
class Format:
    """A binary float format: bits of the mantissa that are stored, exponents of the largest and
    the smallest normal number."""

    mantissa: int
    highest: int
    lowest: int

    @property
    def limit(self) -> float:
        """Where infinity would stand if exponents went on."""
        return 2.0 ** (self.highest + 1)


FLOAT32 = Format(23, 127, -126)
FLOAT16 = Format(10, 15, -14)
BFLOAT16 = Format(7, 127, -126)


def errors_in_ulp(exact: np.ndarray, got: np.ndarray, format: Format = FLOAT32) -> np.ndarray:
    """``|got - exact|`` in units in the last place of ``exact``, which has one binade more than the
    format: infinity counts as the first power of two beyond. 0 where both are NaN, infinity where
    one is. ``exact`` is float64, ``got`` any float."""
    with np.errstate(all="ignore"):
        exact = np.clip(exact, -format.limit, format.limit)
        wide = np.clip(got.astype(np.float64), -format.limit, format.limit)
        exponent = np.where(exact == 0, format.lowest, np.frexp(exact)[1] - 1)
        exponent = np.clip(exponent, format.lowest, format.highest)
        error = abs(wide - exact) / np.ldexp(1.0, exponent - format.mantissa)
        nan = np.isnan(exact), np.isnan(wide)
        return np.where(nan[0] | nan[1], np.where(nan[0] & nan[1], 0.0, np.inf), error)


def exact_error(name: str, args: tuple[float, ...], got: float) -> float:
    """As ``errors_in_ulp`` for one float32 result, with the function computed in 60 digits (in 1300
    bits where arguments are long)."""
    with mp.workprec(1300 if name in LONG_ARGUMENTS else 200):
        function = EXACT.get(name) or getattr(mp, name)
        exact = function(*[mp.mpf(a) for a in args])
        exponent = mp.frexp(exact)[1] - 1 if exact else FLOAT32.lowest
        exponent = min(max(int(exponent), FLOAT32.lowest), FLOAT32.highest)
        limit = mp.mpf(FLOAT32.limit)
        difference = min(max(mp.mpf(got), -limit), limit) - min(max(exact, -limit), limit)
        return float(abs(difference) * mp.mpf(2) ** (FLOAT32.mantissa - exponent))
