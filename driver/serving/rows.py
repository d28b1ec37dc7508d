"""Whether the rows of a model depend on each other, found by running it.

Requests may only be joined where a row's outputs are the same whatever stands beside it: not where
the model normalizes, sorts or sums along the batch, counts its rows, or numbers them. Three rows of
random numbers are run together, then with other rows beside one of them, which may not change a bit
of it, then in the opposite order, and each alone. A dependence that random inputs do not show (one
that begins at some threshold, say) is not found: this is a probe, no proof.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...support.errors import BurnishError
from .protocol import TensorForm

Arrays = tuple[np.ndarray, ...]

_ROWS = 3
_SIZES = (8, 16, 4, 2, 32, 64, 128)
"""What sizes with other names are tried as: a model may refuse some."""

_TOLERANCE = 1e-2
"""Of the largest output: kernels of other sizes may sum in another order."""


def row_dependence(
    run: Callable[[Arrays], Arrays], inputs: Sequence[TensorForm], outputs: Sequence[TensorForm]
) -> str | None:
    """Why requests must not be joined along the first dim of all inputs and outputs; None where
    nothing speaks against it."""
    failure: BurnishError | None = None
    for size in _SIZES:
        try:
            return _probe(run, inputs, outputs, size)
        except BurnishError as error:
            failure = failure or error
    return f"it could not be probed with random inputs: {failure}"


def _probe(
    run: Callable[[Arrays], Arrays],
    inputs: Sequence[TensorForm],
    outputs: Sequence[TensorForm],
    size: int,
) -> str | None:
    rng = np.random.default_rng(0)
    base = tuple([_drawn(form, size, rng) for form in inputs])
    known = run(base)
    for values, form in zip(known, outputs, strict=True):
        if values.shape[:1] != (_ROWS,):
            return f"{form.name} has {values.shape} for {_ROWS} rows"
    # Once of the same kind and once far larger, as maxima and norms along the rows notice.
    for scale in (1.0, 30.0):
        other = tuple([_drawn(form, size, rng, scale) for form in inputs])
        for row in (0, _ROWS - 1):
            mixed = run(tuple([_with_row(o, b, row) for o, b in zip(other, base, strict=True)]))
            for form, found, wanted in zip(outputs, mixed, known, strict=True):
                if found[row].tobytes() != wanted[row].tobytes():
                    return f"a row of {form.name} changes with the inputs of another row"
    turned = run(tuple([np.ascontiguousarray(b[::-1]) for b in base]))
    if name := _differing(outputs, tuple([t[::-1] for t in turned]), known):
        return f"a row of {name} depends on its place in the batch"
    alone = [run(tuple([b[row : row + 1] for b in base])) for row in range(_ROWS)]
    joined = tuple([np.concatenate(parts) for parts in zip(*alone, strict=True)])
    if name := _differing(outputs, joined, known):
        return f"a row of {name} depends on how many rows there are"
    told = [form.numbers(v) for form, v in zip(outputs, known, strict=True)]
    if not any(v.dtype.kind != "f" or np.isfinite(v).any() for v in told):
        return "its outputs for random inputs are not finite, so that nothing could be told"
    return None


def _differing(forms: Sequence[TensorForm], found: Arrays, known: Arrays) -> str | None:
    """The first output whose values are others."""
    for form, one, other in zip(forms, found, known, strict=True):
        if not _is_close(form.numbers(one), form.numbers(other)):
            return form.name
    return None


def _drawn(form: TensorForm, size: int, rng: np.random.Generator, scale: float = 1.0) -> np.ndarray:
    """Random values; integers are 0 or 1, which are indices wherever there are any."""
    shape = (_ROWS, *[int(t) if t.isdecimal() else size for t in form.shape[1:]])
    if "float" in form.dtype:
        return form.stored(rng.standard_normal(shape) * scale)
    return rng.integers(0, 2, shape).astype(form.storage)


def _with_row(into: np.ndarray, of: np.ndarray, row: int) -> np.ndarray:
    mixed = into.copy()
    mixed[row] = of[row]
    return mixed


def _is_close(found: np.ndarray, known: np.ndarray) -> bool:
    if found.dtype.kind != "f":
        return bool(np.array_equal(found, known))
    finite = np.isfinite(known)
    if found.shape != known.shape or not np.array_equal(finite, np.isfinite(found)):
        return False
    if not finite.any():
        return True
    far = np.abs(found[finite].astype(np.float64) - known[finite].astype(np.float64)).max()
    return bool(far <= _TOLERANCE * np.abs(known[finite].astype(np.float64)).max())


__all__ = ["row_dependence"]
