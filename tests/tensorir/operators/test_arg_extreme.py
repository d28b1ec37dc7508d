"""argmax and argmin against torch: ties, NaN, every axis."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
import torch

from burnish import te
from burnish.support.errors import ComputeError
from burnish.support.host import native_target
from burnish.support.target import Target
from burnish.tensorir import operators as ops
from burnish.tensorir.expr import Var
from burnish.tensorir.te.compute import create_prim_func
from burnish.tests.assembly import innermost_loops, kernel_lines, operations
from burnish.tests.native import call_native
from burnish.tuner.analytic import schedule_analytically

Run = Callable[..., np.ndarray]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64", "uint8"])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_first_of_equal_ones(
    run: Run, name: str, dtype: str, axis: int, keepdims: bool
) -> None:
    x = np.random.default_rng(0).integers(0, 4, (3, 17, 5)).astype(dtype)
    found = run(lambda t: getattr(ops, name)(t, axis, keepdims=keepdims), x)
    np.testing.assert_array_equal(found, getattr(np, name)(x, axis, keepdims=keepdims))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_special_values(run: Run, name: str) -> None:
    nan, inf = np.nan, np.inf
    x = np.array(
        [[1, nan, 2, nan], [inf, -inf, inf, -inf], [nan, nan, nan, nan], [-0.0, 0.0, -0.0, 0.0]]
    )
    found = run(lambda t: getattr(ops, name)(t, 1), x)
    np.testing.assert_array_equal(found, getattr(torch, name)(torch.tensor(x), 1).numpy())


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("length", [1, 5, 16, 63, 64, 65, 200, 1000])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int32", "int64"])
def test_long_axes(run: Run, dtype: str, length: int, axis: int) -> None:
    """Scheduled as they are compiled: vectors of a row, groups of rows."""
    x = np.random.default_rng(0).integers(0, 100, (length, 70)).astype(dtype)
    x = np.ascontiguousarray(x if axis == 0 else x.T)
    if dtype.startswith("float"):
        x[:, x.shape[1] // 2] = x[-1, :] = np.nan
        x[0, :] = np.inf
    for name in ("argmax", "argmin"):
        a = te.placeholder(x.shape, dtype)
        func = schedule_analytically(
            create_prim_func([a, getattr(ops, name)(a, axis)]), native_target()
        )
        found = [np.zeros(x.shape[1 - axis], np.int64) for _ in range(2)]
        for threads, out in enumerate(found, 1):
            call_native(func, x, out, threads=threads)
        expected = getattr(torch, name)(torch.tensor(x), axis).numpy()
        np.testing.assert_array_equal(found[0], expected)
        np.testing.assert_array_equal(found[1], expected)


def test_indices_have_as_many_lanes_as_elements() -> None:
    def counted(shape: tuple[object, ...], dtype: str) -> str:
        x = te.placeholder(shape, dtype)  # type: ignore[arg-type]
        found = ops.argmax(x, 1)
        assert found.dtype == "int64"
        return create_prim_func([x, found]).script()

    narrow = 'T.alloc_buffer((3,), "int32")'
    assert narrow.replace("32", "16") in counted((3, 100), "float16")
    assert narrow in counted((3, 1 << 15), "float16")
    for dtype in ("float32", "int8"):
        assert narrow in counted((3, 100), dtype)
        assert narrow in counted((3, 2**31 - 1), dtype)
        assert narrow not in counted((3, 2**31), dtype)
        assert narrow not in counted((3, Var("n")), dtype)
    assert narrow not in counted((3, 100), "float64")


def test_the_last_of_equal_ones(run: Run) -> None:
    x = np.array([[1.0, 3, 3, 0], [np.nan, 1, np.nan, 2]])
    np.testing.assert_array_equal(run(lambda t: ops.argmax(t, 1, last=True), x), [2, 2])
    np.testing.assert_array_equal(run(lambda t: ops.argmin(t, 1, last=True), x), [3, 2])


def test_integer_extremes_bools_and_single_elements(run: Run) -> None:
    x = np.array([[-(2**63), 2**63 - 1, 0]])
    np.testing.assert_array_equal(run(lambda t: ops.argmax(t, 1), x), [1])
    np.testing.assert_array_equal(run(lambda t: ops.argmin(t, 1), x), [0])
    lowest = np.full((1, 3), -(2**63))
    np.testing.assert_array_equal(run(lambda t: ops.argmax(t, 1), lowest), [0])
    bools = np.array([[False, True, True], [False, False, False]])
    np.testing.assert_array_equal(run(lambda t: ops.argmax(t, 1), bools), [1, 0])
    np.testing.assert_array_equal(run(lambda t: ops.argmin(t, 0), np.ones((1, 2))), [0, 0])


def test_symbolic_sizes(run: Run) -> None:
    x = np.random.default_rng(0).random((3, 9))
    found = run(lambda t: ops.argmax(t, 1), x, shapes=[("m", "n")])
    np.testing.assert_array_equal(found, x.argmax(1))


def test_errors() -> None:
    with pytest.raises(ComputeError, match="argmax: axis 1 is empty"):
        ops.argmax(te.placeholder((3, 0)), 1)


NEIGHBOURS = [
    [0.0, -0.0, -1e-45, -1.0],
    [-1e-45, -0.0, 0.0, -0.0],
    [1e-45, 0.0, 2e-45, 1e-45],
    [-np.inf, -np.inf, -np.inf, -np.inf],
    [-np.inf, -3.4028235e38, -np.inf, -np.inf],
    [3.4028235e38, np.inf, np.inf, np.nan],
    [np.inf, -np.nan, np.nan, -np.inf],
    [1.0, 1.0000001, 0.99999994, 1.0000001],
]
"""Rows whose elements are next to one another, to zeros of both signs and to infinities."""


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_an_extreme_is_told_from_its_neighbours(name: str, dtype: str) -> None:
    tensor = torch.tensor(NEIGHBOURS + [[-v for v in row] for row in NEIGHBOURS])
    tensor = tensor.to(getattr(torch, dtype))
    for given in (tensor, tensor.repeat(1, 20)):
        x = te.placeholder(tuple(given.shape), dtype)
        func = create_prim_func([x, getattr(ops, name)(x, 1)])
        held = given.view(torch.int16) if dtype == "bfloat16" else given
        out = np.zeros(len(given), np.int64)
        call_native(schedule_analytically(func, native_target()), held.numpy().copy(), out)
        np.testing.assert_array_equal(out, getattr(torch, name)(given, 1).numpy())


@pytest.mark.parametrize("length", [4, 70, 40_000])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_half_precision_by_its_keys(name: str, dtype: str, axis: int, length: int) -> None:
    """NaN of any sign and bits are equal, as zeros are; indices of many bits are counted in 32."""
    kind = np.dtype("float16") if dtype == "float16" else np.dtype(ml_dtypes.bfloat16)
    shape = (length, 24) if axis == 0 else (24, length)
    rng = np.random.default_rng(0)
    x = np.moveaxis(rng.integers(-9, 10, shape).astype(kind), axis, 0)
    bits = x.view(np.uint16)
    bits[1:3, 1], bits[1:3, 2], bits[2:4, 3] = (0x7FFF, 0x7FC1), (0xFFC1, 0x7FFF), 0xFFFF
    x[1:3, 4], x[1:3, 5], x[:, 6] = np.inf, -np.inf, 0
    x[:, 7], bits[2, 7] = 0, 0x8000
    x[:, 8], bits[0, 8] = 0, 0x8000
    x[:, 9], x[:, 10] = -np.inf, np.inf
    x[1, 4] = -np.inf
    whole = np.ascontiguousarray(np.moveaxis(x, 0, axis))
    a = te.placeholder(shape, dtype)
    func = create_prim_func([a, getattr(ops, name)(a, axis)])
    found = np.zeros(24, np.int64)
    call_native(schedule_analytically(func, native_target()), whole.view(np.uint16), found)
    numbers = torch.tensor(whole.astype("float32"))
    np.testing.assert_array_equal(found, getattr(torch, name)(numbers, axis).numpy())


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_not_converted(dtype: str, axis: int) -> None:
    target = Target("llvm -mcpu=znver3 -threads=1")
    a = te.placeholder((96, 512), dtype)
    func = schedule_analytically(create_prim_func([a, ops.argmax(a, axis)]), target)
    loops = [operations(loop) for loop in innermost_loops(kernel_lines(func, target))]
    assert any("vpmaxsw" in names for names in loops)
    widened = {"vpmovzxwd", "vpmovsxwd", "vcvtph2ps", "vpslld", "vcvtps2ph"}
    assert not any(widened & names for names in loops if {"vpmaxsw", "vpminsw"} & names)
