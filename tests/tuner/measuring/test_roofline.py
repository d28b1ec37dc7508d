"""The roofline: what a function moves, which of its two bounds holds, and real measurements."""

from __future__ import annotations

import pytest

from burnish.support.target import Target
from burnish.tensorir.expr import Var
from burnish.tensorir.text.parser import parse_func
from burnish.tests.tuner.programs import matmul
from burnish.tests.tuner.rules.checking import assembly_of
from burnish.tuner.measuring.roofline import (
    Peaks,
    bytes_of,
    measure_peaks,
    peak_product,
    rate_of,
    roofline_seconds,
)
from burnish.tuner.task import TuneTask

TARGET = Target("native -threads=1")
PEAKS = Peaks(1e9, ((1000, 4e9), (100_000, 2e9)))


def test_bytes_are_those_of_the_parameters() -> None:
    assert bytes_of(matmul(32)) == 3 * 32 * 32 * 4
    assert bytes_of(matmul(8, "float64")) == 3 * 8 * 8 * 8
    assert bytes_of(matmul(Var("n"))) == 0


def test_of_a_table_the_rows_that_are_looked_up_count() -> None:
    func = parse_func("""
@T.prim_func
def take(t: T.Buffer((1000, 8), "float32"), i: T.Buffer((3,), "int64"),
         z: T.Buffer((3, 8), "float32")):
    for a, b in T.grid(3, 8):
        with T.block("z"):
            va, vb = T.axis.remap("SS", [a, b])
            z[va, vb] = t[i[va], vb]
""")
    assert bytes_of(func) == 4 * 3 * 8 * 2 + 8 * 3


def test_the_bandwidth_is_that_of_the_level_that_holds_the_bytes() -> None:
    rates = [PEAKS.bandwidth(n) for n in (1000, 1001, 100_000, 10**9)]
    assert rates == [4e9, 2e9, 2e9, 2e9]


def test_the_slower_bound_holds() -> None:
    product = TuneTask("main", matmul(64), TARGET)
    assert roofline_seconds(product, PEAKS) == pytest.approx(2 * 64**3 / 1e9)
    assert roofline_seconds(product, Peaks(1e15, PEAKS.memory)) == pytest.approx(
        3 * 64**2 * 4 / 2e9
    )
    double = TuneTask("main", matmul(64, "float64"), TARGET)
    assert roofline_seconds(double, PEAKS) == pytest.approx(4 * 64**3 / 1e9)


@pytest.mark.parametrize(
    ("cpu", "widest", "operands", "rate"),
    [
        ("znver4", 32, (), 1.0),
        ("znver4", 64, (), 0.5),
        ("znver4", 32, ("bfloat16", "bfloat16"), 2.0),
        ("znver4", 32, ("int8", "int8"), 4.0),
        ("sapphirerapids", 32, ("uint8", "int8"), 32.0),
        ("haswell", 32, ("bfloat16", "bfloat16"), 1.0),
    ],
)
def test_narrow_products_have_the_rate_of_their_instructions(
    cpu: str, widest: int, operands: tuple[str, ...], rate: float
) -> None:
    assert rate_of(widest, operands, Target(f"llvm -mcpu={cpu}")) == rate


@pytest.mark.parametrize("cpu", ["haswell", "skylake-avx512", "x86-64-v3"])
def test_the_sums_of_the_peak_stay_in_registers(cpu: str) -> None:
    """Sums that are spilled make half of the peak, which kernels then exceed."""
    target = Target(f"llvm -mcpu={cpu} -threads=1 -cores=1")
    func, _ = peak_product(target)
    text = assembly_of(func, target)
    assert "vfmadd" in text
    assert not [s for s in text.splitlines() if "mm" in s and "(%rsp)" in s]


def test_the_peaks_of_this_machine() -> None:
    target = TuneTask("main", matmul(8), TARGET).target
    peaks = measure_peaks(target)
    assert measure_peaks(target) is peaks
    better = measure_peaks(target, again=True)
    assert better.flops >= peaks.flops
    assert all(a[1] >= b[1] for a, b in zip(better.memory, peaks.memory, strict=True))
    assert measure_peaks(target) is better
    assert 1e9 < peaks.flops < 1e13
    sizes = [size for size, _ in peaks.memory]
    assert sizes == sorted(sizes)
    assert all(1e8 < rate < 1e13 for _, rate in peaks.memory)
