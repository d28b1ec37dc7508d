"""Draws labelled 28 x 28 garments: a stand-in for Fashion-MNIST where there is neither file nor
network.

Each class is a few polygons and ellipses whose corners, size, place, shade and texture vary by a
seeded generator. Easy to tell apart in most cases, not in all: shirts, coats and pullovers share
outlines.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_ROWS, _COLUMNS = np.mgrid[0:28, 0:28].astype(np.float64)
Point = tuple[float, float]

_SLEEVED: list[Point] = [
    (9, 4), (19, 4), (26, 9), (24, 22), (20, 21), (19.5, 11), (19, 25), (9, 25), (8.5, 11), (8, 21),
    (4, 22), (2, 9),
]  # fmt: skip
_OUTLINES: tuple[tuple[list[Point], ...], ...] = (
    # T-shirt, trouser, pullover, dress, coat
    ([(9, 4), (19, 4), (26, 8), (23, 13), (19.5, 11), (19, 25), (9, 25), (8.5, 11), (5, 13),
      (2, 8)],),
    ([(9, 2), (19, 2), (20, 26), (15.5, 26), (14, 9), (12.5, 26), (8, 26)],),
    (_SLEEVED, [(11, 3), (17, 3), (17, 5), (11, 5)]),
    ([(11, 2), (17, 2), (16.5, 10), (20, 26), (8, 26), (11.5, 10)],),
    (_SLEEVED, [(8, 24), (20, 24), (20.5, 27), (7.5, 27)]),
    # sandal, shirt, sneaker, bag, ankle boot
    (
        [(2, 20), (26, 16), (26, 18), (2, 23)],
        [(6, 20), (12, 12), (14, 12), (9, 20)],
        [(18, 18), (22, 9), (24, 9), (22, 18)],
    ),
    (_SLEEVED,),
    (
        [(2, 17), (9, 15), (14, 10), (19, 12), (26, 14), (26, 20), (2, 20)],
        [(1, 20), (27, 20), (27, 22), (1, 22)],
    ),
    ([(4, 11), (24, 11), (26, 25), (2, 25)],),
    (
        [(2, 18), (10, 16), (13, 4), (22, 4), (24, 20), (2, 20)],
        [(1, 20), (25, 20), (25, 23), (1, 23)],
    ),
)  # fmt: skip
"""The polygons of each class, by its label in Fashion-MNIST; x to the right, y down."""


def _fill(corners: Sequence[Point]) -> np.ndarray:
    """The pixels inside a polygon, by the even-odd rule."""
    inside = np.zeros((28, 28), bool)
    previous = corners[-1]
    for x, y in corners:
        px, py = previous
        crosses = (y > _ROWS) != (py > _ROWS)
        slope = (px - x) / (py - y) if py != y else 0.0
        inside ^= crosses & (x + (_ROWS - y) * slope > _COLUMNS)
        previous = (x, y)
    return inside


def _draw(label: int, rng: np.random.Generator) -> np.ndarray:
    """One garment, uint8 [28, 28]."""
    scale = rng.uniform(0.85, 1.08, 2)
    shift = rng.uniform(-1.6, 1.6, 2)
    shade = rng.uniform(0.45, 1.0)
    picture = np.zeros((28, 28))
    for outline in _OUTLINES[label]:
        corners = [
            (
                (x - 14) * scale[0] + 14 + shift[0] + rng.normal(0, 0.6),
                (y - 14) * scale[1] + 14 + shift[1] + rng.normal(0, 0.6),
            )
            for x, y in outline
        ]
        picture[_fill(corners)] = shade
    body = picture > 0
    if label == 6 or (label == 4 and rng.random() < 0.7):  # a button line: shirts, most coats
        picture[body & (np.abs(_COLUMNS - 14 - shift[0]) < 0.8)] *= 0.35
    if label == 8:  # a handle
        ring = (
            np.abs(np.hypot((_COLUMNS - 14 - shift[0]) / 6, (_ROWS - 11 - shift[1]) / 6) - 1) < 0.2
        )
        picture[ring & ~body & (12 + shift[1] > _ROWS)] = shade
    if rng.random() < 0.3:  # stripes
        period = rng.uniform(2.5, 5)
        picture *= 1 - 0.35 * (np.sin(2 * np.pi * _ROWS / period) > 0.3)
    picture += rng.normal(0, 0.06, (28, 28)) * body
    return np.asarray(np.clip(picture, 0, 1) * 255, np.uint8)


def draw_garments(count: int, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """``count`` images uint8 [count, 28, 28] and labels uint8 [count], classes in turn."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count, dtype=np.uint8) % 10
    images = np.zeros((count, 28, 28), np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[...] = _draw(int(label), rng)
    return images, labels
