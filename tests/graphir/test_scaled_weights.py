"""Integers in words and bytes, and weights as integers with scales."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.graphir.scaled_weights import numbers_of_bytes, quantized, words

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_words_and_bytes_hold_the_same_numbers(bits: int) -> None:
    numbers = RNG.integers(0, 1 << bits, (3, 2, 32)).astype(np.uint8)
    held = words(numbers, bits)
    assert held.shape == (3, 2, bits)
    assert held.dtype == np.uint32
    assert held[0, 0, 0] & ((1 << bits) - 1) == numbers[0, 0, 0]
    found = numbers_of_bytes(held.astype("<u4").view(np.uint8), bits)
    np.testing.assert_array_equal(found, numbers)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_weights_are_off_by_half_a_step_at_most(bits: int) -> None:
    weight = RNG.standard_normal((5, 3, 16)).astype(np.float32)
    numbers, scale = quantized(weight, bits)
    middle = 1 << (bits - 1)
    assert numbers.min() >= 1
    assert numbers.max() <= 2 * middle - 1
    made = (numbers.astype(np.float64) - middle) * scale[..., None]
    assert np.all(np.abs(made - weight) <= 0.5000001 * scale[..., None])
    largest = np.abs(weight).argmax(-1)[..., None]
    at = np.take_along_axis(numbers, largest, -1).astype(int) - middle
    assert np.all(np.abs(at) == middle - 1)


def test_groups_of_zeros_and_of_what_is_no_number() -> None:
    weight = np.array([[0, 0], [np.inf, 1], [np.nan, 1], [1e-45, 0]], np.float32)[:, None]
    numbers, scale = quantized(weight, 8)
    made = (numbers.astype(np.float32) - 128) * scale[..., None]
    np.testing.assert_array_equal(made[0], 0)
    assert np.isnan(scale[1:3]).all()
    assert np.all(np.abs(made[3]) <= 1e-45)
