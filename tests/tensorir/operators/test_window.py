"""What windows share: how many fit, the order of dims, padding."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from burnish import te
from burnish.support.errors import ComputeError
from burnish.tensorir.arith import Analyzer
from burnish.tensorir.expr import IntImm, Var
from burnish.tensorir.operators.window import (
    arranged,
    check_window,
    pad_spatial,
    parts_of,
    static_dim,
    window_extent,
)
from burnish.tensorir.visitor import substitute

Run = Callable[..., np.ndarray]


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("padding", [(0, 0), (1, 0), (2, 1)])
def test_extent_counts_the_windows_that_fit(
    stride: int, dilation: int, padding: tuple[int, int]
) -> None:
    n = Var("n")
    for size in range(7, 12):
        padded = size + sum(padding)
        count = len(range(0, padded - 2 * dilation, stride))
        static = window_extent(IntImm(size), 3, stride, *padding, dilation)
        assert isinstance(static, IntImm)
        assert static.value == count
        symbolic = substitute(
            window_extent(n, IntImm(3), stride, *padding, dilation), {n: IntImm(size)}
        )
        found = Analyzer().simplify(symbolic)
        assert isinstance(found, IntImm)
        assert found.value == count


@pytest.mark.parametrize("last", [False, True])
def test_parts_are_what_was_arranged(last: bool) -> None:
    n, c, h, w = (Var(name) for name in "nchw")
    dims = arranged(n, c, [h, w], last=last)
    assert dims == ((n, h, w, c) if last else (n, c, h, w))
    assert parts_of(dims, last=last) == (n, c, (h, w))


@pytest.mark.parametrize("last", [False, True])
def test_padding_of_spatial_dims(run: Run, last: bool) -> None:
    x = np.random.default_rng(0).random((2, 3, 4, 5))
    pairs = [(0, 0), (0, 0), (1, 2), (0, 3)]
    if last:
        pairs = [(0, 0), (1, 2), (0, 3), (0, 0)]
    found = run(lambda t: pad_spatial(t, (1, 2, 0, 3), -1.0, "padded", last=last), x)
    np.testing.assert_array_equal(found, np.pad(x, pairs, constant_values=-1))


def test_no_padding_is_the_tensor_itself() -> None:
    x = te.placeholder((1, 2, 3))
    assert pad_spatial(x, (0, 0), 0.0, "padded", last=False) is x


def test_errors() -> None:
    check_window("conv", 2, [1, 1], [0, 0, 0, 0], [1, 2])
    with pytest.raises(ComputeError, match="conv: expected 2 strides and dilations and 4 paddings"):
        check_window("conv", 2, [1], [0] * 4, [1, 1])
    with pytest.raises(ComputeError, match="expected strides and dilations of at least 1"):
        check_window("conv", 1, [0], [0, 0], [1])
    with pytest.raises(ComputeError, match="paddings of 0"):
        check_window("conv", 1, [1], [0, -1], [1])
    assert static_dim(IntImm(3)) == 3
    with pytest.raises(ComputeError, match="A kernel must have a static size"):
        static_dim(Var("k"))
