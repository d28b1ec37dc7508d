"""Stores of bfloat16 in even and odd elements: the numbers, the code, and where it is not done."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from burnish.support.host import native_target
from burnish.support.target import Target
from burnish.tensorir import operators as op
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.te.compute import Tensor, create_prim_func, placeholder
from burnish.tests.assembly import innermost_loops, kernel_lines, operations, spills
from burnish.tests.native import call_native
from burnish.tuner.analytic import schedule_analytically

HASWELL, ZEN3, ZEN4, NEON = [
    Target(f"llvm -mcpu={cpu} -threads=1") for cpu in ("haswell", "znver3", "znver4", "neoverse-n1")
]
BUILDS: dict[str, Callable[..., Tensor]] = {
    "add": lambda x, y: op.add(x, y),
    "where": lambda x, y: op.where(op.less(x, y), op.multiply(x, y), op.negative(x)),
    "clip": lambda x: op.clip(x, -0.5, 0.5),
    "tanh": lambda x: op.tanh(x),
    "gelu": lambda x: op.gelu(x),
    "square twice": lambda x: op.multiply(op.multiply(x, x), x),
    "isnan": lambda x: op.where(op.isnan(x), op.floor(x), op.abs(x)),
}


def kernel(name: str, shape: tuple[int, ...], dtype: str = "bfloat16") -> PrimFunc:
    build = BUILDS[name]
    count = len(inspect.signature(build).parameters)
    tensors = [placeholder(shape, dtype, name="xy"[n]) for n in range(count)]
    return create_prim_func([*tensors, build(*tensors)])


@pytest.mark.parametrize("shape", [(64,), (4, 48), (333,)])
@pytest.mark.parametrize("name", BUILDS)
def test_elements_stay_in_their_places(name: str, shape: tuple[int, ...]) -> None:
    """As the definition computes them, loop by loop, to the last bit."""
    func = kernel(name, shape)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for _ in func.params[:-1]]
    for x in inputs:
        x.flat[3], x.flat[8], x.flat[12] = np.nan, np.inf, -0.0
    arrays = [x.view(np.uint16) for x in inputs]
    found, plain = np.zeros(shape, np.uint16), np.zeros(shape, np.uint16)
    call_native(schedule_analytically(func, native_target()), *arrays, found)
    call_native(func, *arrays, plain)
    numbers = [x.view(ml_dtypes.bfloat16).astype("float32") for x in (found, plain)]
    np.testing.assert_array_equal(*numbers)


@pytest.mark.parametrize("target", [HASWELL, ZEN3, ZEN4], ids=str)
@pytest.mark.parametrize("name", ["add", "clip", "square twice"])
def test_no_vector_is_unpacked_or_packed(name: str, target: Target) -> None:
    lines = kernel_lines(schedule_analytically(kernel(name, (64, 512)), target), target)
    (loop,) = innermost_loops(lines)
    found = operations(loop)
    assert not found & {"vpmovzxwd", "vpshufb", "vpermq", "vpackusdw", "vpmovdw"}
    assert "vpslld" in found
    assert spills(loop) == []


def test_what_is_no_bfloat16_alone_is_stored_in_order() -> None:
    x, w = placeholder((64, 512), "bfloat16", name="x"), placeholder((512,), "float32", name="w")
    func = create_prim_func([x, w, op.cast(op.multiply(op.cast(x, "float32"), w), "bfloat16")])
    assert "vpmovzxwd" in operations(kernel_lines(schedule_analytically(func, ZEN3), ZEN3))


def test_of_a_cpu_that_unpacks_and_packs_in_one_instruction_nothing_is_asked() -> None:
    func = schedule_analytically(kernel("add", (64, 512)), NEON)
    assert {"shll", "ushll"} & operations(kernel_lines(func, NEON))
