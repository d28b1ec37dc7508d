"""Results larger than the caches go past them: which, by which instructions, with which numbers."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.support.host import resolve
from burnish.support.target import Target
from burnish.tensorir import operators as op
from burnish.tensorir.te.compute import Tensor
from burnish.tensorir.text.parser import parse_func
from burnish.tests.assembly import innermost_loops, kernel_lines, operations
from burnish.tests.native import call_native
from burnish.tests.tuner.rules.checking import Workload, scheduled

SMALL = "-l2=16K -l3=64K"
"""Caches that a small function goes beyond."""


def exp_of_sum(a: Tensor, b: Tensor) -> Tensor:
    return op.exp(op.add(a, b))


def work(rows: int = 256, columns: int = 128) -> Workload:
    shape = (rows, columns)
    return Workload(exp_of_sum, lambda a, b: np.exp(a + b), shape, shape)


def sums(rows: int = 256, columns: int = 128) -> Workload:
    """One vector at a time would do, but for whole lines."""
    return Workload(op.add, np.add, (rows, columns), (rows, columns))


def streams(text: str) -> bool:
    return '"non_temporal": 1' in text


@pytest.mark.parametrize(("rows", "expected"), [(256, True), (64, False)])
def test_large_results_are_streamed(rows: int, expected: bool) -> None:
    _, func = scheduled(work(rows).func, target=Target(f"llvm -mcpu=haswell {SMALL}"))
    assert streams(func.script()) == expected


STEPS = """
@T.prim_func
def f(A: T.Buffer((256, 128), "float32"), B: T.Buffer((256, 128), "float32"), C: T.Buffer((256, 128), "float32")):
    for i, j in T.grid(256, 128):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(256, 128):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] * A[vi, vj]
"""  # noqa: E501


def test_what_is_read_again_is_not() -> None:
    target = Target(f"llvm -mcpu=haswell {SMALL}")
    blocks = scheduled(parse_func(STEPS), target=target)[1].script().split("with T.block(")
    assert {text.split('"')[1] for text in blocks if streams(text)} == {"C"}


def test_unknown_caches_hold_everything() -> None:
    target = Target("llvm -mcpu=haswell -l3=64K")
    assert streams(scheduled(work().func, target=target)[1].script())
    unknown = Target("llvm -mcpu=foo -mtriple=x86_64-linux-gnu -vector-bits=256 -l1=32K")
    assert unknown.l3_bytes == 0
    assert not streams(scheduled(work().func, target=unknown)[1].script())


@pytest.mark.parametrize(
    ("cpu", "store"),
    [("skylake-avx512", "vmovntps"), ("haswell", "vmovntps"), ("x86-64", "movntps")],
)
@pytest.mark.parametrize("case", [work(), sums()], ids=["exp", "add"])
def test_stores_past_the_caches(case: Workload, cpu: str, store: str) -> None:
    target = Target(f"llvm -mcpu={cpu} {SMALL}")
    lines = kernel_lines(scheduled(case.func, target=target)[1], target)
    assert any(store in operations(loop) for loop in innermost_loops(lines))
    assert "sfence" in operations(lines)


def test_rows_that_no_vector_is_aligned_in_are_stored_as_ever() -> None:
    padded = Workload(
        lambda a: op.pad(a, (0, 0, 3, 4)),
        lambda a: np.pad(a, ((0, 0), (3, 4))),
        (300, 120),
    )
    target = Target(f"llvm -mcpu=haswell {SMALL}")
    _, func = scheduled(padded.func, target=target)
    assert streams(func.script())
    assert not {o for o in operations(kernel_lines(func, target)) if "movnt" in o}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("offset", [0, 1, 16])
def test_numbers_wherever_results_stand(offset: int, threads: int) -> None:
    """Aligned memory is streamed to; any other takes the other way."""
    case = work()
    func = scheduled(case.func, target=resolve(Target(f"native {SMALL}")))[1]
    a, b = case.arguments()
    raw = np.zeros(a.size + 32, "float32")
    start = -(raw.ctypes.data // 4) % 16 + offset
    found = raw[start : start + a.size].reshape(a.shape)
    call_native(func, a, b, found, threads=threads)
    np.testing.assert_allclose(found, np.exp(a.astype("float64") + b), rtol=1e-6)
    assert not raw[:start].any()
    assert not raw[start + a.size :].any()
