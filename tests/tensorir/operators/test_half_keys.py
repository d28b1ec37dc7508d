"""Keys of half precision: every number comes back, in the order of the numbers, NaN above all; and
maxima of windows that are computed of them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from burnish.support.dtype import DType
from burnish.support.host import native_target
from burnish.support.target import Target
from burnish.tensorir import operators as op
from burnish.tensorir.buffer import Buffer
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.operators.elementwise import elementwise
from burnish.tensorir.operators.half_keys import is_keyed, key_of, number_of
from burnish.tensorir.te.compute import Tensor, create_prim_func, placeholder
from burnish.tests.assembly import kernel_lines, operations
from burnish.tests.native import call_native
from burnish.tuner.analytic import schedule_analytically

HALVES = {"bfloat16": np.dtype(ml_dtypes.bfloat16), "float16": np.dtype("float16")}
PATTERNS = np.arange(1 << 16, dtype=np.uint16)
CPUS = ("znver3", "neoverse-n1")


@pytest.mark.parametrize("dtype", HALVES)
def test_keys_stand_in_the_order_of_numbers_and_come_back(dtype: str) -> None:
    x = placeholder(PATTERNS.shape, dtype, name="x")
    keys = elementwise("keys", key_of, x)
    back = elementwise("back", lambda k: number_of(k, DType(dtype)), keys)
    func = create_prim_func([x, keys, back])
    found, again = np.zeros(PATTERNS.shape, np.int16), np.zeros_like(PATTERNS)
    call_native(schedule_analytically(func, native_target()), PATTERNS, found, again)
    np.testing.assert_array_equal(again, PATTERNS)
    numbers = PATTERNS.view(HALVES[dtype]).astype("float32")
    is_nan = np.isnan(numbers)
    assert found[is_nan].min() > found[~is_nan].max()
    order = np.argsort(found[~is_nan])
    assert (np.diff(numbers[~is_nan][order]) >= 0).all()
    assert len(np.unique(found)) == len(found)


def test_other_types_have_none() -> None:
    assert is_keyed(DType("float16"))
    assert not is_keyed(DType("float32"))
    assert not is_keyed(DType("int16"))


def _pool(
    dtype: str, size: int, kernel: int, stride: int, pad: int, *, last: bool = False
) -> tuple[PrimFunc, PrimFunc]:
    """A maximum of windows of half precision, and that of the same numbers in float32."""
    shape = (2, size, size, 8) if last else (2, 3, size, size)
    made = []
    for kind in (dtype, "float32"):
        x: Tensor = placeholder(shape, kind, name="x")
        y = op.max_pool(
            x, kernel=[kernel] * 2, strides=[stride] * 2, padding=[pad] * 4, dilation=[1, 1],
            channels_last=last,
        )  # fmt: skip
        made.append(create_prim_func([x, y]))
    return made[0], made[1]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "pad", "last"),
    [(40, 3, 1, 1, False), (35, 3, 2, 1, False), (17, 3, 2, 0, False), (9, 2, 2, 0, False),
     (28, 5, 1, 2, False), (12, 3, 1, 1, True), (6, 6, 1, 0, False)],
)  # fmt: skip
def test_maxima_of_windows(
    dtype: str, size: int, kernel: int, stride: int, pad: int, last: bool
) -> None:
    half, single = _pool(dtype, size, kernel, stride, pad, last=last)
    shapes = [[int(str(n)) for n in p.shape] for p in half.params if isinstance(p, Buffer)]
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(shapes[0]) - 2).astype(HALVES[dtype])
    x.flat[5], x.flat[70], x.flat[130] = -np.inf, np.inf, np.nan
    # The NaN that x86 makes of infinities is a negative one.
    x.view(np.uint16).flat[190] = 0xFFFF
    found = np.zeros(shapes[1], np.uint16)
    call_native(schedule_analytically(half, native_target()), x.view(np.uint16), found)
    wanted = np.zeros(shapes[1], np.float32)
    call_native(schedule_analytically(single, native_target()), x.astype("float32"), wanted)
    np.testing.assert_array_equal(found.view(HALVES[dtype]).astype("float32"), wanted)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("stride", [1, 2])
def test_no_number_is_converted_for_its_maximum(dtype: str, cpu: str, stride: int) -> None:
    target = Target(f"llvm -mcpu={cpu} -threads=1")
    func, _ = _pool(dtype, 56, 3, stride, 1)
    found = operations(kernel_lines(schedule_analytically(func, target), target))
    assert {"vpmaxsw", "smax"} & found
    widened = {"vpmovzxwd", "vcvtph2ps", "vcvtps2ph", "fcvtl", "fcvtn", "ushll", "shll"}
    assert not widened & found
