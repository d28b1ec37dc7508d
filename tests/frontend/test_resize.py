"""Coordinates, weights and errors of interpolation; values are tested in both front ends."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from burnish.frontend.resize import COORDINATES, ROUNDINGS, Interpolation, coordinates, taps


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("exclude", [False, True])
def test_weights_sum_to_one_and_places_are_inside(mode: str, exclude: bool) -> None:
    how = Interpolation(mode, exclude_outside=exclude and mode == "cubic")
    for size, out in [(5, 9), (5, 3), (1, 4), (6, 1)]:
        found = taps(how, coordinates(how, size, out, out / size), size)
        np.testing.assert_allclose(np.sum([w for _, w in found], axis=0), np.ones(out))
        assert all(((at >= 0) & (at < size)).all() for at, _ in found)


@pytest.mark.parametrize("coordinate", COORDINATES)
def test_the_same_size_is_the_same_place(coordinate: str) -> None:
    how = Interpolation("linear", coordinate)
    np.testing.assert_allclose(coordinates(how, 6, 6, 1.0), np.arange(6), atol=1e-12)


def test_corners_are_aligned() -> None:
    how = Interpolation("linear", "align_corners")
    found = coordinates(how, 4, 9, 9 / 4)
    assert (found[0], found[-1]) == (0, 3)
    assert coordinates(how, 4, 1, 0.25).tolist() == [0]


def test_roundings_of_a_half() -> None:
    half = np.array([0.5, 1.5])
    found = {name: function(half).tolist() for name, function in ROUNDINGS.items()}
    assert found == {
        "floor": [0, 1], "ceil": [1, 2], "round_prefer_floor": [0, 1],
        "round_prefer_ceil": [1, 2],
    }  # fmt: skip


def test_single_precision_decides_which_is_nearest() -> None:
    how = Interpolation("nearest", "asymmetric", single_precision=True)
    wide = dataclasses.replace(how, single_precision=False)
    assert coordinates(how, 10, 30, 3.0).dtype == np.float32
    assert coordinates(wide, 10, 30, 3.0).dtype == np.float64
