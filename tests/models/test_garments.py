"""Drawn garments: reproducible, of all classes, and told apart by simple means."""

from __future__ import annotations

import numpy as np

from burnish.models.garments import draw_garments


def test_the_same_seed_draws_the_same() -> None:
    images, labels = draw_garments(30, seed=3)
    again, _ = draw_garments(30, seed=3)
    other, _ = draw_garments(30, seed=4)
    assert images.shape == (30, 28, 28)
    assert images.dtype == labels.dtype == np.uint8
    assert labels.tolist() == [*range(10)] * 3
    assert np.array_equal(images, again)
    assert not np.array_equal(images, other)


def test_a_prefix_does_not_depend_on_the_count() -> None:
    assert np.array_equal(draw_garments(5, seed=1)[0], draw_garments(12, seed=1)[0][:5])


def test_every_garment_is_visible_and_leaves_background() -> None:
    images, _ = draw_garments(50)
    lit = (images > 40).mean((1, 2))
    assert lit.min() > 0.05
    assert lit.max() < 0.9


def test_none_can_be_drawn() -> None:
    images, labels = draw_garments(0)
    assert images.shape == (0, 28, 28)
    assert labels.shape == (0,)


def test_the_class_means_classify_most_of_them() -> None:
    images, labels = draw_garments(300, seed=0)
    means = np.stack([images[labels == c].mean(0) for c in range(10)]).reshape(10, -1)
    test_images, test_labels = draw_garments(100, seed=1)
    distance = ((test_images.reshape(100, 1, -1) - means) ** 2).sum(-1)
    assert (distance.argmin(1) == test_labels).mean() > 0.5
