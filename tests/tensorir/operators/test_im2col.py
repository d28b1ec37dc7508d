"""im2col beside torch.nn.functional.unfold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from burnish import te
from burnish.support.errors import ComputeError
from burnish.tensorir import operators as ops

Run = Callable[..., np.ndarray]
X = np.random.default_rng(0).standard_normal((2, 6, 7, 5)).astype("float32")


@pytest.mark.parametrize(
    ("kernel", "strides", "padding", "dilation"),
    [
        ((3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
        ((2, 3), (2, 1), (0, 0, 2, 2), (1, 2)),
        ((1, 1), (2, 3), (0, 0, 0, 0), (1, 1)),
    ],
)
def test_windows(
    run: Run,
    kernel: tuple[int, int],
    strides: tuple[int, int],
    padding: tuple[int, int, int, int],
    dilation: tuple[int, int],
) -> None:
    attrs: dict[str, Any] = {
        "kernel": kernel,
        "strides": strides,
        "padding": padding,
        "dilation": dilation,
    }
    found = run(lambda x: ops.im2col(x, **attrs), X)  # type: ignore[arg-type]
    first = torch.from_numpy(X).permute(0, 3, 1, 2)
    expected = torch.nn.functional.unfold(
        first, kernel, dilation=dilation, padding=padding[::2], stride=strides
    )
    rows = expected.reshape(2, 5, *kernel, *found.shape[1:3]).permute(0, 4, 5, 2, 3, 1)
    np.testing.assert_array_equal(found, rows.numpy())


def test_padding_is_what_it_is_told(run: Run) -> None:
    bytes_ = np.arange(6, dtype="uint8").reshape(1, 3, 2)
    attrs: dict[str, Any] = {"kernel": (2,), "strides": (1,), "padding": (1, 0), "dilation": (1,)}
    found = run(lambda x: ops.im2col(x, **attrs, pad_value=9.0), bytes_)
    expected = [[[9, 9], [0, 1]], [[0, 1], [2, 3]], [[2, 3], [4, 5]]]
    np.testing.assert_array_equal(found[0], np.array(expected, "uint8"))


def test_errors() -> None:
    x = te.placeholder((1, 4, 4, 2))
    with pytest.raises(ComputeError, match="2 sizes of the kernel"):
        ops.im2col(x, kernel=(2,), strides=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1))
