"""Padding with a tensor's own elements, against NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from burnish import te
from burnish.support.errors import ComputeError
from burnish.tensorir import operators as ops

Run = Callable[..., np.ndarray]
X = np.random.default_rng(0).random((2, 4, 5))
MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
WIDTHS = [(0, 0, 1, 2, 3, 1), (0, 0, 3, 0, 0, 4), (1, 1, 0, 0, 0, 0), (0,) * 6]


@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("mode", MODES)
def test_as_numpy(run: Run, mode: str, widths: tuple[int, ...]) -> None:
    pairs = np.reshape(widths, (-1, 2))
    found = run(lambda x: ops.pad_edges(x, widths, mode), X)
    np.testing.assert_array_equal(found, np.pad(X, pairs, mode=MODES[mode]))  # type: ignore[call-overload]


@pytest.mark.parametrize("mode", MODES)
def test_symbolic_sizes(run: Run, mode: str) -> None:
    found = run(lambda x: ops.pad_edges(x, (0, 0, 2, 1, 1, 3), mode), X, shapes=[("a", "b", "c")])
    expected = np.pad(X, ((0, 0), (2, 1), (1, 3)), mode=MODES[mode])  # type: ignore[call-overload]
    np.testing.assert_array_equal(found, expected)


def test_one_element_is_repeated_any_number_of_times(run: Run) -> None:
    found = run(lambda x: ops.pad_edges(x, (3, 5), "replicate"), np.array([7.0]))
    np.testing.assert_array_equal(found, np.full(9, 7.0))


def test_errors() -> None:
    x = te.placeholder((3,))
    with pytest.raises(ComputeError, match="expected mode reflect, replicate, circular, found 'a'"):
        ops.pad_edges(x, (1, 1), "a")
    with pytest.raises(ComputeError, match="expected 2 widths of at least 0"):
        ops.pad_edges(x, (1, -1), "reflect")
    with pytest.raises(ComputeError, match="3 elements, and reflect padding of 3 needs 4"):
        ops.pad_edges(x, (3, 0), "reflect")
    with pytest.raises(ComputeError, match="circular padding of 4 needs 4"):
        ops.pad_edges(x, (0, 4), "circular")
    with pytest.raises(ComputeError, match="replicate padding of 1 needs 1"):
        ops.pad_edges(te.placeholder((0,)), (0, 1), "replicate")
