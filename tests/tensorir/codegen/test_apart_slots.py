"""Sums in registers that are kept as even and odd elements: which they are, numbers, code."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from burnish.support.host import native_target
from burnish.support.node import walk
from burnish.support.target import Target
from burnish.tensorir import operators as op
from burnish.tensorir.buffer import Buffer
from burnish.tensorir.codegen.apart_slots import plan_apart
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.lowering.scope import Scope
from burnish.tensorir.stmt import Allocate
from burnish.tensorir.te.compute import Tensor, create_prim_func, placeholder
from burnish.tensorir.text.parser import parse_func
from burnish.tests.assembly import innermost_loops, kernel_lines, operations
from burnish.tests.native import call_native
from burnish.tuner.analytic import schedule_analytically

ZEN3 = Target("llvm -mcpu=znver3 -threads=1")
NARROW = 'T.Cast("float32x8", x[T.Ramp({at}, 1, 8)])'
TEXT = """
@T.prim_func
def f(x: T.Buffer((64,), "bfloat16"), z: T.Buffer((64,), "float32"), y: T.Buffer((16,), "float32")):
    s = T.allocate([16], "float32", "register")
    t = T.allocate([16], "float32", "register")
    s[T.Ramp(0, 1, 8)] = T.Broadcast(T.float32(0), 8)
    s[T.Ramp(8, 1, 8)] = T.Broadcast(T.float32(0), 8)
    for i in range(4):
        s[T.Ramp(0, 1, 8)] = s[T.Ramp(0, 1, 8)] + A
        s[T.Ramp(8, 1, 8)] = s[T.Ramp(8, 1, 8)] + B
    t[T.Ramp(0, 1, 8)] = s[T.Ramp(0, 1, 8)] * s[T.Ramp(0, 1, 8)]
    t[T.Ramp(8, 1, 8)] = s[T.Ramp(8, 1, 8)] * s[T.Ramp(8, 1, 8)]
    LAST
    y[T.Ramp(0, 1, 8)] = t[T.Ramp(0, 1, 8)]
    y[T.Ramp(8, 1, 8)] = t[T.Ramp(8, 1, 8)]
"""
FIRST, SECOND = NARROW.format(at="i * 16"), NARROW.format(at="i * 16 + 8")


def program(a: str, b: str, last: str = "") -> PrimFunc:
    return parse_func(TEXT.replace("A\n", a + "\n").replace("B\n", b + "\n").replace("LAST", last))


@pytest.mark.parametrize(
    ("a", "b", "last", "apart"),
    [
        (FIRST, SECOND, "", ["s", "t"]),
        (FIRST, FIRST, "", []),
        ("z[T.Ramp(i * 16, 1, 8)]", "z[T.Ramp(i * 16 + 8, 1, 8)]", "", []),
        (FIRST, SECOND, "t[3] = T.float32(1)", ["s"]),
        (FIRST, SECOND, "t[T.Ramp(0, 1, 8)] = T.Broadcast(T.float32(1), 8)", ["s", "t"]),
        (FIRST, SECOND, "s[T.Ramp(8, 1, 8)] = z[T.Ramp(0, 1, 8)]", []),
    ],
    ids=str,
)
def test_which_are_kept_apart(a: str, b: str, last: str, apart: list[str]) -> None:
    func = program(a, b, last)
    buffers = [n.buffer for n in walk(func.body) if isinstance(n, Allocate)]
    slots = {id(x): {0, 8} for x in buffers}
    found = plan_apart(func.body, slots, 8, Scope().linear)
    names = {id(x): x.name for x in buffers}
    assert {names[k] for k, _ in found} == set(apart)
    assert {first for _, first in found} <= {0}


@pytest.mark.parametrize(
    "last",
    ["", "t[T.Ramp(0, 1, 8)] = T.Broadcast(t[9], 8)", "t[T.Ramp(8, 1, 8)] = t[T.Ramp(0, 1, 8)]"],
)
def test_elements_are_found_in_their_order(last: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(64).astype(ml_dtypes.bfloat16)
    found = np.zeros(16, np.float32)
    call_native(program(FIRST, SECOND, last), x.view(np.uint16), np.zeros(64, "float32"), found)
    wanted = np.zeros(16, np.float32)
    for row in x.astype("float32").reshape(4, 16):
        wanted += row
    wanted *= wanted
    if "t[9]" in last:
        wanted[:8] = wanted[9]
    elif last:
        wanted[8:] = wanted[:8]
    np.testing.assert_array_equal(found, wanted)


def _mean_pool(kernel: int, stride: int, pad: int) -> Callable[[Tensor], Tensor]:
    return lambda x: op.avg_pool(x, kernel=[kernel] * 2, strides=[stride] * 2, padding=[pad] * 4)


ROWS, IMAGE = (48, 512), (2, 3, 40, 40)
REDUCED: dict[str, tuple[Callable[..., Tensor], tuple[int, ...]]] = {
    "sum of rows": (lambda x: op.sum(x, -1), ROWS),
    "sum of columns": (lambda x: op.sum(x, 0), ROWS),
    "mean": (lambda x: op.mean(x, -1), ROWS),
    "layer_norm": (lambda x, w: op.layer_norm(x, w, w, axes=(-1,)), ROWS),
    "mean of 3 x 3": (_mean_pool(3, 1, 1), IMAGE),
    "mean of 2 x 2": (_mean_pool(2, 2, 0), IMAGE),
    "mean of 5 x 5, at every other": (_mean_pool(5, 2, 2), IMAGE),
}


def kernel(name: str, dtype: str = "bfloat16") -> PrimFunc:
    build, shape = REDUCED[name]
    count = len(inspect.signature(build).parameters)
    shapes = [shape, shape[-1:]][:count]
    tensors = [placeholder(s, dtype, name="xw"[n]) for n, s in enumerate(shapes)]
    return create_prim_func([*tensors, build(*tensors)])


@pytest.mark.parametrize("name", REDUCED)
def test_reductions_are_those_of_float64_but_for_their_last_rounding(name: str) -> None:
    half, double = kernel(name), kernel(name, "float64")
    rng = np.random.default_rng(0)
    shapes = [[int(str(n)) for n in p.shape] for p in half.params if isinstance(p, Buffer)]
    inputs = [rng.standard_normal(s).astype(ml_dtypes.bfloat16) for s in shapes[:-1]]
    found, wanted = np.zeros(shapes[-1], np.uint16), np.zeros(shapes[-1])
    call_native(
        schedule_analytically(half, native_target()), *[x.view(np.uint16) for x in inputs], found
    )
    call_native(
        schedule_analytically(double, native_target()),
        *[x.astype("float64") for x in inputs],
        wanted,
    )
    numbers = found.view(ml_dtypes.bfloat16).astype("float64")
    np.testing.assert_allclose(numbers, wanted, rtol=2.0**-8, atol=2.0**-14)


@pytest.mark.parametrize("name", ["sum of rows", "mean", "layer_norm"])
def test_no_vector_is_unpacked_where_rows_are_summed(name: str) -> None:
    lines = kernel_lines(schedule_analytically(kernel(name), ZEN3), ZEN3)
    loops = [operations(loop) for loop in innermost_loops(lines)]
    reading = [names for names in loops if "vpslld" in names]
    assert reading
    assert not any("vpmovzxwd" in names for names in reading)


def test_elements_of_windows_in_a_row_are_widened_once() -> None:
    """A row of 32 of a window of three is 6 vectors of sums; their elements are 8 shifts and masks
    at most, where each of the window's three vectors would be widened by itself in 12."""
    image, x = (1, 1, 8, 40), "bfloat16"
    tensor = placeholder(image, x, name="x")
    func = create_prim_func([tensor, _mean_pool(3, 1, 0)(tensor)])
    lines = kernel_lines(schedule_analytically(func, ZEN3), ZEN3)
    names = [line.operation for line in lines]
    assert names.count("vpslld") * 2 <= names.count("vaddps")
