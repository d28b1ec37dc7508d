"""Products of bfloat16 in pairs: within the bound of float32 sums for every size and CPU."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.support.dtype import bfloat16_bits
from burnish.support.host import native_target, resolve
from burnish.support.target import Target
from burnish.tensorir import operators as op
from burnish.tensorir.expr import IntImm, Var
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import pack_array, parse_index_map
from burnish.tensorir.te.compute import Tensor, create_prim_func, placeholder
from burnish.tensorir.text.printer import print_func
from burnish.tests import assembly
from burnish.tests.native import call_native
from burnish.tests.tuner.rules.checking import rules_of, scheduled

ZEN = Target("llvm -mcpu=znver4")
"""Schedules are those for this CPU; their code is emitted for the one that runs the tests, which
does the pairs with what it has."""
Shape = tuple[int | str, ...]


def product(a: Shape, b: Shape, *, free: bool = True) -> PrimFunc:
    """A product whose epilogue writes float32, without a rounding."""
    known = {d: Var(d) for d in (*a, *b) if isinstance(d, str)}

    def operand(name: str, shape: Shape) -> Tensor:
        return placeholder(tuple([known.get(d, d) for d in shape]), "bfloat16", name=name)  # type: ignore[arg-type]

    x, w = operand("x", a), operand("w", b)
    y = op.matmul(x, w, out_dtype="float32")
    func = create_prim_func([x, w, op.add(y, y)])
    return func.with_attr("layout_free", [1]) if free else func


def values(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def without_pairs() -> Target:
    target = resolve(native_target())
    kept = [f for f in target.features if f not in ("+avx512bf16", "+bf16")]
    return target.with_options(features=(*kept, "-avx512bf16" if target.is_x86 else "-bf16"))


def check(func: PrimFunc, a: Shape, b: Shape, *, m: int = 0, threads: int = 1) -> None:
    """A schedule's numbers against float64, with the instruction where there is one and without."""
    rng = np.random.default_rng(0)
    x, w = (
        bfloat16_bits(rng.standard_normal([m if d == "m" else d for d in s]).astype("float32"))  # type: ignore[misc]
        for s in (a, b)
    )
    expected = 2 * (values(x) @ values(w))
    bound = 2 * (x.shape[-1] + 1) * 2.0**-24 * (np.abs(values(x)) @ np.abs(values(w)))
    packed = w
    for _, text, pad in func.attr("layout_maps") or ():
        packed = pack_array(w, parse_index_map(text), pad, "bfloat16")
    dims = [] if isinstance(func.buffers[0].shape[0], IntImm) else [m]
    for target in (native_target(), without_pairs()):
        found = np.full(expected.shape, -77, "float32")
        call_native(func, x, packed, found, target=target, dims=dims, threads=threads)
        assert np.all(np.abs(found - expected) <= bound)


@pytest.mark.parametrize("depth", [2, 3, 8, 15, 64])
@pytest.mark.parametrize("columns", [2, 3, 17, 45])
def test_any_depth_and_columns(depth: int, columns: int) -> None:
    name, func = scheduled(product((7, depth), (depth, columns)), target=ZEN)
    assert name == "bfloat16"
    check(func, (7, depth), (depth, columns))


@pytest.mark.parametrize(("rows", "free"), [(1, True), (5, True), (33, True), (33, False)])
def test_any_rows_and_decisions(rows: int, free: bool) -> None:
    for sampled, seed in ((False, 0), (True, 1), (True, 2)):
        name, func = scheduled(
            product((rows, 19), (19, 140), free=free), sampled=sampled, seed=seed, target=ZEN
        )
        assert name == "bfloat16"
        check(func, (rows, 19), (19, 140))


@pytest.mark.parametrize(
    ("a", "b"),
    [((2, 7, 20), (20, 24)), ((3, 5, 20), (3, 20, 24)), ((1, 20), (2, 20, 9)), ((20,), (20, 9))],
)
def test_batches_and_vectors(a: Shape, b: Shape) -> None:
    name, func = scheduled(product(a, b), target=ZEN)
    assert name == "bfloat16"
    check(func, a, b)


def test_a_symbolic_number_of_rows() -> None:
    name, func = scheduled(product(("m", 19), (19, 40)), target=ZEN)
    assert name == "bfloat16"
    for m in (0, 1, 4, 11, 30):
        check(func, ("m", 19), (19, 40), m=m)


def test_threads_change_nothing() -> None:
    _, func = scheduled(product((100, 40), (40, 100)), target=ZEN)
    check(func, (100, 40), (40, 100), threads=3)


def test_columns_that_do_not_stay_in_a_cache_are_the_outer_loop() -> None:
    """Groups of panels, each read by all rows before the next."""
    _, func = scheduled(product((512, 2048), (2048, 2048)), target=ZEN)
    loops = print_func(func).split("dot2_bf16")[0]
    panels, rows = loops.index("i1_0 in"), loops.index("i0_p0_0")
    assert panels < rows


def test_the_inner_loop() -> None:
    _, func = scheduled(product((256, 256), (256, 256)), target=ZEN)
    loops = assembly.innermost_loops(assembly.kernel_lines(func, ZEN))
    counts = [[x.operation for x in loop].count("vdpbf16ps") for loop in loops]
    assert max(counts) >= 16
    for loop, count in zip(loops, counts, strict=True):
        if count:
            assert assembly.spills(loop) == []


@pytest.mark.parametrize(
    "cpu", ["haswell", "sapphirerapids -mattr=-amx-tile", "znver4 -mattr=-avx512bf16"]
)
def test_cpus_where_pairs_gain_nothing_multiply_float32(cpu: str) -> None:
    rules = rules_of(product((64, 64), (64, 64)), Target(f"llvm -mcpu={cpu}"))
    assert "bfloat16" not in rules
    assert rules[0] == "matmul"
