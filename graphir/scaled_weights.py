"""The integers of ``scaled_linear`` and their words, as arrays.

    numbers (n, k), unsigned ones of a few bits      ── words ──>  (n, k * bits / 32) of uint32
    bytes of a file, each with some numbers          ── numbers_of_bytes ──>  the numbers
    weights (n, groups, depth) of floats             ── quantized ──>  numbers and scales

Low bits come first.
"""

from __future__ import annotations

import numpy as np


def words(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Numbers, whole words of them in the last axis, as words."""
    per = 32 // bits
    parts = numbers.reshape(*numbers.shape[:-1], -1, per)
    made = np.zeros(parts.shape[:-1], np.uint32)
    for place in range(per):
        made |= parts[..., place].astype(np.uint32) << np.uint32(place * bits)
    return made


def numbers_of_bytes(packed: np.ndarray, bits: int) -> np.ndarray:
    """The numbers that stand in bytes (rows, bytes): (rows, bytes * 8 / bits) of uint8."""
    if bits == 8:
        return packed
    places = np.arange(0, 8, bits, dtype=np.uint8)
    made = packed[..., None] >> places & np.uint8((1 << bits) - 1)
    return made.reshape(*packed.shape[:-1], -1)


def quantized(weight: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights (n, groups, depth) as numbers about the middle of their range, symmetric, and a
    scale for each group: ``weight`` is about ``(numbers - middle) * scale``.

    The scale is the least with which the largest weight of the group is the largest number, so
    that no weight is off by more than half of it. Groups of zeros have scale 0, those with
    infinities or NaN a scale that makes all of the group NaN.
    """
    most = (1 << (bits - 1)) - 1
    scale = np.abs(weight).max(axis=-1) / np.float32(most)
    usable = np.isfinite(scale) & (scale > 0)
    scale = np.where(np.isfinite(scale), scale, np.float32(np.nan)).astype(np.float32)
    steps = weight / np.where(usable, scale, np.float32(1))[..., None]
    steps = np.where(usable[..., None], np.rint(steps), np.float32(0))
    return (np.clip(steps, -most, most) + (most + 1)).astype(np.uint8), scale
