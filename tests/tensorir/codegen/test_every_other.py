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
from burnish.tensorir.text.parser import parse_func
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


def test_a_norm_of_rows_keeps_no_vector_in_order_but_for_its_sums() -> None:
    """Its elements are stored a register of float32 at a time: two of them are made one store."""
    x, w = placeholder((64, 512), "bfloat16", name="x"), placeholder((512,), "bfloat16", name="w")
    func = create_prim_func([x, w, op.layer_norm(x, w, w, axes=(-1,))])
    scheduled = schedule_analytically(func, ZEN3)
    stored = [
        operations(loop)
        for loop in innermost_loops(kernel_lines(scheduled, ZEN3))
        if any(line.code.startswith("vmovdqu %ymm") for line in loop)
    ]
    assert stored
    assert not any(names & {"vpmovzxwd", "vpshufb", "vpackusdw"} for names in stored)


NEIGHBOURS = """
@T.prim_func
def f(A: T.Buffer((64,), "bfloat16"), B: T.Buffer((64,), "bfloat16")):
    T.func_attr({"is_scheduled": True})
    B[T.Ramp(0, 1, 8)] = FIRST
    B[T.Ramp(8, 1, 8)] = SECOND
"""


def neighbours(first: str, second: str) -> PrimFunc:
    return parse_func(NEIGHBOURS.replace("FIRST", first).replace("SECOND", second))


A0, A8 = "A[T.Ramp(0, 1, 8)]", "A[T.Ramp(8, 1, 8)]"


@pytest.mark.parametrize(
    ("first", "second", "joined"),
    [
        (f"{A0} + {A0}", f"{A8} + {A8}", True),
        (f"T.tanh({A0})", f"T.tanh({A8})", True),
        (f"T.max({A0}, T.Broadcast(A[63], 8))", f"T.max({A8}, T.Broadcast(A[63], 8))", True),
        (f"T.max({A0}, T.Broadcast(A[63], 8))", f"T.max({A8}, T.Broadcast(A[62], 8))", False),
        (f"{A0} + {A0}", f"{A8} * {A8}", False),
        (f"{A0} + {A0}", f"{A0} + {A0}", False),
        (f"{A0} + {A0}", "B[T.Ramp(0, 1, 8)] + B[T.Ramp(0, 1, 8)]", False),
        ("B[T.Ramp(16, 1, 8)] + B[T.Ramp(1, 1, 8)]", "B[T.Ramp(24, 1, 8)] + B[T.Ramp(9, 1, 8)]",
         False),
    ],
)  # fmt: skip
def test_neighbours_are_one_store_where_they_are_computed_alike(
    first: str, second: str, joined: bool
) -> None:
    func = neighbours(first, second)
    lines = kernel_lines(func, ZEN3)
    assert any(line.code.startswith("vmovdqu %ymm") for line in lines) is joined
    rng = np.random.default_rng(0)
    a, b = [rng.standard_normal(64).astype(ml_dtypes.bfloat16) for _ in "ab"]
    got = b.copy()
    call_native(func, a.view(np.uint16), got.view(np.uint16))
    numbers = {"A": a, "B": b.copy()}
    for at, text in ((0, first), (8, second)):
        numbers["B"][at : at + 8] = _computed(text, numbers)
    np.testing.assert_array_equal(got.astype("float32"), numbers["B"].astype("float32"))


@pytest.mark.parametrize(
    ("second", "end"),
    [
        ("B[T.Ramp(8, 1, 4)] = A[T.Ramp(8, 1, 4)] + A[T.Ramp(8, 1, 4)]", 12),
        (f"B.vstore([T.Ramp(8, 1, 8)], {A8} + {A8}, "
         "predicate=T.Ramp(0, 1, 8) < T.Broadcast(3, 8))", 11),
    ],
)  # fmt: skip
def test_a_shorter_neighbour_and_one_under_a_mask_write_no_more_than_they_say(
    second: str, end: int
) -> None:
    text = NEIGHBOURS.replace("FIRST", f"{A0} + {A0}")
    func = parse_func(text.replace("B[T.Ramp(8, 1, 8)] = SECOND", second))
    a = np.arange(64).astype(ml_dtypes.bfloat16)
    found = np.full(64, -1, ml_dtypes.bfloat16)
    call_native(func, a.view(np.uint16), found.view(np.uint16))
    wanted = [2 * i if i < end else -1 for i in range(64)]
    np.testing.assert_array_equal(found.astype("float32"), wanted)


def _computed(text: str, numbers: dict[str, np.ndarray]) -> np.ndarray:
    """A value of the text above, in NumPy."""

    class T:
        Ramp = staticmethod(lambda base, step, lanes: slice(base, base + lanes))
        Broadcast = staticmethod(lambda value, lanes: value)
        max = staticmethod(np.maximum)
        tanh = staticmethod(lambda x: np.tanh(x.astype("float32")).astype(ml_dtypes.bfloat16))

    return np.asarray(eval(text, {"T": T, **numbers}))
