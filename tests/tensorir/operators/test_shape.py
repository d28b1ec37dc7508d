"""Operators that move elements, against NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from burnish import te
from burnish.support.errors import ComputeError
from burnish.tensorir import operators as ops

Run = Callable[..., np.ndarray]
X = np.arange(24, dtype="float32").reshape(2, 3, 4)


@pytest.mark.parametrize("shape", [(6, 4), (24,), (4, 3, 2), (2, 3, 2, 2), (-1, 8), (1, 24, 1)])
def test_reshape(run: Run, shape: tuple[int, ...]) -> None:
    np.testing.assert_array_equal(run(lambda x: ops.reshape(x, shape), X), X.reshape(shape))


def test_views(run: Run) -> None:
    np.testing.assert_array_equal(run(lambda x: ops.flatten(x, 1), X), X.reshape(2, 12))
    np.testing.assert_array_equal(run(ops.flatten, np.array(3.0, "float32")), [3])
    wide = X[:, None, :, None]
    np.testing.assert_array_equal(run(ops.squeeze, wide), wide.squeeze())
    np.testing.assert_array_equal(run(lambda x: ops.squeeze(x, -2 + 3), wide), wide.squeeze(1))
    np.testing.assert_array_equal(run(lambda x: ops.expand_dims(x, (0, -1)), X), X[None, ..., None])


def test_a_reshape_reads_kept_dims_by_their_axis() -> None:
    x = te.placeholder((te.var("n"), 784), name="x")
    text = te.create_prim_func([x, ops.reshape(x, (x.shape[0], 28, 28))]).script()
    assert "reshape[v_i0, v_i1, v_i2] = x[v_i0, v_i1 * 28 + v_i2]" in text


@pytest.mark.parametrize("axes", [None, (1, 0, 2), (2, 0, 1), (-1, 1, 0)])
def test_permute_dims(run: Run, axes: tuple[int, ...] | None) -> None:
    np.testing.assert_array_equal(run(lambda x: ops.permute_dims(x, axes), X), X.transpose(axes))


def test_broadcast_to(run: Run) -> None:
    x = X[:, :1]
    found = run(lambda t: ops.broadcast_to(t, (5, 2, 3, 4)), x)
    np.testing.assert_array_equal(found, np.broadcast_to(x, (5, 2, 3, 4)))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat(run: Run, axis: int) -> None:
    parts = [X, X.take([0], axis) * 2, X + 100]
    found = run(lambda *t: ops.concat(t, axis), *parts)
    np.testing.assert_array_equal(found, np.concatenate(parts, axis))


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("shape", [(2, 3, 4), ("n", 3, 4), (2, 3, "n")])
def test_interleave(run: Run, count: int, shape: tuple[int | str, ...]) -> None:
    parts = [X + 100 * n for n in range(count)]
    found = run(lambda *t: ops.interleave(t), *parts, shapes=[shape] * count)
    np.testing.assert_array_equal(found, np.stack(parts, -1).reshape(2, 3, 4 * count))


def test_concat_of_symbolic_dims(run: Run) -> None:
    a, b = X[0], X[1, :2]
    found = run(lambda *t: ops.concat(t, 0), a, b, shapes=[("n", 4), ("m", 4)])
    np.testing.assert_array_equal(found, np.concatenate([a, b], 0))


def test_strided_slice(run: Run) -> None:
    found = run(lambda x: ops.strided_slice(x, (0, 2, 1), (1, -1, 2), (2, 3, 2)), X)
    np.testing.assert_array_equal(found, X[:, ::-1, 1::2])


def test_pad(run: Run) -> None:
    found = run(lambda x: ops.pad(x, (0, 0, 1, 2, 3, 0), -1.0), X)
    np.testing.assert_array_equal(found, np.pad(X, ((0, 0), (1, 2), (3, 0)), constant_values=-1))
    np.testing.assert_array_equal(run(lambda x: ops.pad(x, (0,) * 6), X), X)
    symbolic = run(lambda x: ops.pad(x, (1, 1, 0, 0, 0, 0)), X, shapes=[("n", 3, 4)])
    np.testing.assert_array_equal(symbolic, np.pad(X, ((1, 1), (0, 0), (0, 0))))


def test_errors() -> None:
    x = te.placeholder((2, 3), name="x")
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: ops.reshape(x, (-1, -1)), "at most one dim of -1"),
        (lambda: ops.reshape(x, (5,)), "6 elements do not fill a shape of 5"),
        (lambda: ops.flatten(x, 1, 0), "start_dim=1 is after end_dim=0"),
        (lambda: ops.squeeze(x, 0), "expected dim 0 to be 1"),
        (lambda: ops.permute_dims(x, (0, 0)), "expected a permutation of 2 axes"),
        (lambda: ops.broadcast_to(x, (3,)), "2 dimensions do not broadcast to 1"),
        (lambda: ops.broadcast_to(x, (4, 3)), "a dim of 2 does not broadcast to 4"),
        (lambda: ops.concat([]), "at least one tensor"),
        (lambda: ops.concat([x, te.placeholder((2,))]), "one rank and dtype"),
        (lambda: ops.interleave([]), "at least one tensor"),
        (lambda: ops.interleave([te.placeholder(())]), "with an axis"),
        (lambda: ops.interleave([x, te.placeholder((2,))]), "one rank and dtype"),
        (lambda: ops.strided_slice(x, (0,), (1,), (1,)), "2 entries each"),
        (lambda: ops.pad(x, (1, 1)), "expected 4 widths"),
        (lambda: ops.pad(x, (0, -1, 0, 0)), "expected 4 widths of at least 0"),
    ]
    for build, message in cases:
        with pytest.raises(ComputeError, match=message):
            build()
