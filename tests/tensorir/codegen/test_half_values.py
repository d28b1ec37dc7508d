"""What is known of values that become bfloat16, and that no rounding is emitted where it is not
needed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from burnish.support.dtype import DType
from burnish.support.host import native_target
from burnish.support.node import walk
from burnish.support.target import Target
from burnish.tensorir import operators as op
from burnish.tensorir.buffer import Buffer
from burnish.tensorir.codegen.half_values import Kept, kept_of
from burnish.tensorir.expr import (
    FLOAT32,
    BufferLoad,
    Cast,
    Expr,
    FloatImm,
    IntImm,
    Var,
    maximum,
)
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.intrinsics import call_intrin
from burnish.tensorir.operators.elementwise import elementwise
from burnish.tensorir.stmt import Allocate, Stmt
from burnish.tensorir.te.compute import Tensor, create_prim_func, placeholder
from burnish.tensorir.text.parser import parse_func
from burnish.tests.assembly import foreign_calls, innermost_loops, kernel_lines, operations, spills
from burnish.tests.native import call_native
from burnish.tuner.analytic import schedule_analytically

ZEN = Target("llvm -mcpu=znver3 -threads=1")
BFLOAT = Cast(FLOAT32, Var("x", DType("bfloat16")))
HALF = Cast(FLOAT32, Var("x", DType("float16")))
SINGLE = Var("x", FLOAT32)


@pytest.mark.parametrize(
    ("value", "fits", "plain"),
    [
        (BFLOAT, True, True),
        (HALF, False, False),
        (SINGLE, False, False),
        (Cast(FLOAT32, Var("x", DType("int8"))), True, True),
        (Cast(FLOAT32, Var("x", DType("int32"))), False, True),
        (FloatImm(1.5), True, True),
        (FloatImm(0.1), False, True),
        (FloatImm(float("-inf")), True, True),
        (FloatImm(float("nan")), False, True),
        (maximum(BFLOAT, FloatImm(0.0)), True, True),
        (maximum(BFLOAT, FloatImm(0.1)), False, True),
        (maximum(BFLOAT, SINGLE), False, False),
        (call_intrin("floor", BFLOAT), True, True),
        (call_intrin("abs", BFLOAT), True, True),
        (call_intrin("sqrt", BFLOAT), False, True),
        (call_intrin("exp", BFLOAT), False, True),
        (call_intrin("exp", SINGLE), False, False),
        (call_intrin("sinh", BFLOAT), False, False),
        (BFLOAT * BFLOAT + FloatImm(0.1), False, True),
        (BFLOAT * SINGLE, False, False),
    ],
    ids=str,
)
def test_what_is_known(value: Expr, fits: bool, plain: bool) -> None:
    assert Kept().has_fitting(value) is fits
    assert Kept().has_plain_nan(value) is plain


def test_buffers_are_known_by_all_that_is_stored_there() -> None:
    func = parse_func("""
@T.prim_func
def f(x: T.Buffer((8,), "bfloat16"), s: T.Buffer((8,), "float32"), y: T.Buffer((8,), "bfloat16")):
    most = T.allocate([1], "float32", "register")
    total = T.allocate([1], "float32", "register")
    other = T.allocate([1], "float32", "register")
    most[0] = T.float32("-inf")
    total[0] = T.float32(0)
    for i in range(8):
        most[0] = T.max(most[0], T.Cast("float32", x[i]))
        total[0] = total[0] + most[0]
        other[0] = total[0] + s[i]
    y[0] = T.Cast("bfloat16", most[0])
""")
    kept = kept_of(func.body)
    names = {"most": (True, True), "total": (False, True), "other": (False, False)}
    found = {}
    for buffer in _allocated(func.body):
        load = BufferLoad(buffer, (IntImm(0),))
        found[buffer.name] = (kept.has_fitting(load), kept.has_plain_nan(load))
    assert found == names


def _allocated(body: Stmt) -> list[Buffer]:
    return [n.buffer for n in walk(body) if isinstance(n, Allocate)]


def _kernel(build: Callable[..., Tensor], shape: tuple[int, ...], dtype: str) -> PrimFunc:
    count = len(inspect.signature(build).parameters)
    tensors = [placeholder(shape, dtype, name="abc"[n]) for n in range(count)]
    return create_prim_func([*tensors, build(*tensors)])


PLANE = (64, 512)
CHOICES = {
    "relu": (lambda x: op.relu(x), PLANE),
    "relu6": (lambda x: op.clip(x, 0.0, 6.0), PLANE),
    "maximum": (lambda x, y: op.maximum(x, y), PLANE),
    "floor": (lambda x: op.floor(x), PLANE),
    "largest of a row": (lambda x: op.max(x, -1), PLANE),
}


@pytest.mark.parametrize("name", CHOICES)
def test_what_is_chosen_is_not_rounded(name: str) -> None:
    build, shape = CHOICES[name]
    lines = kernel_lines(schedule_analytically(_kernel(build, shape, "bfloat16"), ZEN), ZEN)
    assert operations(lines) & {"vpmovzxwd", "vpslld"}
    assert "vpaddd" not in operations(lines)


@pytest.mark.parametrize("name", CHOICES)
def test_float16_is_computed_in_float32_with_conversions_at_either_end_alone(name: str) -> None:
    """LLVM would make a comparison of halves of it, whose mask it packs, or go lane by lane."""
    build, shape = CHOICES[name]
    lines = kernel_lines(schedule_analytically(_kernel(build, shape, "float16"), ZEN), ZEN)
    found = operations(lines)
    assert {"vcvtph2ps", "vcvtps2ph"} <= found
    assert not found & {"vpackssdw", "vpblendvb", "vroundss"}
    assert foreign_calls(lines) == []


def test_arithmetic_of_bfloat16_needs_no_care_of_nan() -> None:
    func = _kernel(lambda x, y: op.add(x, y), PLANE, "bfloat16")
    lines = kernel_lines(schedule_analytically(func, ZEN), ZEN)
    assert "vcmpunordps" not in operations(lines)
    (loop,) = innermost_loops(lines)
    assert spills(loop) == []


def test_operations_in_a_row_stay_in_float32() -> None:
    """Each is rounded, and none but the last made narrow."""
    func = _kernel(lambda x, y: op.multiply(op.add(x, y), x), PLANE, "bfloat16")
    target = Target("llvm -mcpu=znver3 -threads=1")
    (loop,) = innermost_loops(kernel_lines(schedule_analytically(func, target), target))
    names = [line.operation for line in loop]
    # Two operands of two registers.
    assert names.count("vpmovzxwd") <= 4


BITS = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)


@pytest.mark.parametrize(
    ("build", "wanted"),
    [
        (lambda x: op.relu(x), lambda x: np.maximum(x, np.float32(0))),
        (lambda x: op.clip(x, -1.0, 1.0), lambda x: np.clip(x, -1, 1)),
        (lambda x: op.floor(x), np.floor),
        (lambda x: op.add(x, x), lambda x: x + x),
        (lambda x: op.multiply(op.add(x, x), x), None),
    ],
    ids=["relu", "clip", "floor", "add", "two in a row"],
)
def test_every_bfloat16(build: Callable[..., Tensor], wanted: Callable[..., Any] | None) -> None:
    """Infinities, NaN of every payload and denormal numbers included."""
    x = BITS.view(ml_dtypes.bfloat16)
    func = schedule_analytically(_kernel(build, x.shape, "bfloat16"), native_target())
    found = np.zeros_like(BITS)
    call_native(func, BITS, found)
    with np.errstate(all="ignore"):
        single = x.astype("float32")
        if wanted is None:
            once = (single + single).astype(ml_dtypes.bfloat16).astype("float32")
            exact = (once * single).astype(ml_dtypes.bfloat16)
        else:
            exact = wanted(single).astype(ml_dtypes.bfloat16)
    got = found.view(ml_dtypes.bfloat16).astype("float32")
    np.testing.assert_array_equal(got, exact.astype("float32"))


def test_every_nan_of_float32_stays_one() -> None:
    """Of some payloads, among them those that a carry would make zeros and infinities."""
    low = [0x1, 0x7FFF, 0x8000, 0x8001, 0xFFFF]
    bits = [s | 0x7F800000 | h << 16 | v for s in (0, 1 << 31) for h in range(128) for v in low]
    x = np.array(bits, np.uint32).view(np.float32)
    func = _kernel(lambda x: op.cast(x, "bfloat16"), x.shape, "float32")
    found = np.zeros(x.shape, np.uint16)
    call_native(schedule_analytically(func, native_target()), x, found)
    assert np.isnan(found.view(ml_dtypes.bfloat16).astype("float32")).all()


PLAIN = np.array([s << 15 | 0x7F80 | m for s in (0, 1) for m in range(1, 128)], np.uint32) << 16
FUNCTIONS = (
    "exp", "exp_negative", "exp2", "expm1", "sigmoid", "log", "log2", "log10", "log1p", "tanh",
    "erf", "gelu", "atan", "sqrt", "rsqrt",
)  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_plain_nan_and_of_numbers_have_no_other(name: str) -> None:
    assert Kept().has_plain_nan(call_intrin(name, BFLOAT))
    numbers = np.random.default_rng(0).integers(0, 1 << 32, 20_000, dtype=np.uint32)
    numbers = numbers[~np.isnan(numbers.view("float32"))]
    bits = np.concatenate([PLAIN, numbers, PLAIN[:3]])
    x = placeholder(bits.shape, "float32", name="x")
    func = create_prim_func([x, elementwise("y", lambda v: call_intrin(name, v), x)])
    found = np.zeros(bits.shape, np.float32)
    call_native(schedule_analytically(func, native_target()), bits.view("float32"), found)
    assert np.isnan(found[: len(PLAIN)]).all()
    assert not (found[np.isnan(found)].view(np.uint32) & 0xFFFF).any()


@pytest.mark.parametrize("name", ["exp", "sigmoid", "gelu"])
def test_functions_of_bfloat16_take_no_care_of_nan(name: str) -> None:
    x = placeholder(PLANE, "bfloat16", name="x")
    func = create_prim_func([x, elementwise("y", lambda v: call_intrin(name, v), x)])
    lines = kernel_lines(schedule_analytically(func, ZEN), ZEN)
    assert "vcmpunordps" not in operations(lines)
