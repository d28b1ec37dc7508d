"""Products of bytes: exact for every sign, size and CPU; the code of the register tile."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.support.target import Target
from burnish.tensorir import operators as op
from burnish.tensorir.expr import IntImm, Var
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import pack_array, parse_index_map
from burnish.tensorir.te.compute import Tensor, create_prim_func, placeholder
from burnish.tensorir.text.printer import print_func
from burnish.tests import assembly
from burnish.tests.native import call_native
from burnish.tests.tuner.rules.checking import scheduled

RANGES = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767)}
SIGNS = [(a, b) for a in ("int8", "uint8") for b in ("int8", "uint8")] + [("int16", "int16")]
LESSER = ("x86-64", "x86-64-v2", "haswell")
Shape = tuple[int | str, ...]


def product(
    a: Shape, b: Shape, signs: tuple[str, str] = ("uint8", "int8"), *, free: bool = True
) -> PrimFunc:
    """A product with an epilogue; dims that are named are symbolic."""
    known = {d: Var(d) for d in (*a, *b) if isinstance(d, str)}

    def operand(name: str, shape: Shape, dtype: str) -> Tensor:
        return placeholder(tuple([known.get(d, d) for d in shape]), dtype, name=name)  # type: ignore[arg-type]

    x, w = operand("x", a, signs[0]), operand("w", b, signs[1])
    y = op.integer_matmul(x, w)
    func = create_prim_func([x, w, op.add(y, y)])
    return func.with_attr("layout_free", [1]) if free else func


def operands(a: Shape, b: Shape, signs: tuple[str, str], **dims: int) -> list[np.ndarray]:
    """Random bytes; the first row and the first column are the worst there are."""
    rng = np.random.default_rng(0)
    made = []
    for shape, sign in zip((a, b), signs, strict=True):
        low, high = RANGES[sign]
        sizes = [dims.get(str(d), d) for d in shape]
        made.append(rng.integers(low, high + 1, sizes).astype(sign))  # type: ignore[arg-type]
    for x, sign, first in zip(made, signs, ((slice(0, 1),), (..., 0)), strict=True):
        x[first if x.ndim > 1 else ...] = RANGES[sign][sign == "uint8"]
    return made


def check(
    func: PrimFunc, x: np.ndarray, w: np.ndarray, *, target: Target | None = None, **more: int
) -> None:
    """A schedule's numbers, which are exact."""
    expected = (2 * (x.astype("int64") @ w.astype("int64"))).astype("int32")
    found = np.full(expected.shape, -77, "int32")
    packed = w
    for _, text, pad in func.attr("layout_maps") or ():
        packed = pack_array(w, parse_index_map(text), pad, str(w.dtype))
    dims = [] if isinstance(func.buffers[0].shape[0], IntImm) else [x.shape[0]]
    call_native(func, x, packed, found, target=target, dims=dims, **more)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("signs", SIGNS)
@pytest.mark.parametrize("depth", [4, 5, 8, 15, 64])
@pytest.mark.parametrize("columns", [2, 3, 8, 17, 45])
def test_any_depth_columns_and_signs(signs: tuple[str, str], depth: int, columns: int) -> None:
    shapes: tuple[Shape, Shape] = ((7, depth), (depth, columns))
    name, func = scheduled(product(*shapes, signs))
    assert name == "int8"
    check(func, *operands(*shapes, signs))


@pytest.mark.parametrize(
    ("rows", "free"), [(1, True), (2, True), (5, True), (33, True), (33, False)]
)
def test_any_rows(rows: int, free: bool) -> None:
    shapes: tuple[Shape, Shape] = ((rows, 19), (19, 40))
    for sampled, seed in ((False, 0), (True, 1), (True, 2)):
        name, func = scheduled(product(*shapes, free=free), sampled=sampled, seed=seed)
        assert name == "int8"
        assert bool(func.attr("layout_maps")) == free
        check(func, *operands(*shapes, ("uint8", "int8")))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((2, 7, 20), (20, 24)),
        ((3, 5, 20), (3, 20, 24)),
        ((1, 20), (2, 20, 9)),
        ((20,), (20, 9)),
    ],
)
def test_batches_and_vectors(a: Shape, b: Shape) -> None:
    name, func = scheduled(product(a, b))
    assert name == "int8"
    check(func, *operands(a, b, ("uint8", "int8")))


@pytest.mark.parametrize("free", [False, True])
def test_a_symbolic_number_of_rows(free: bool) -> None:
    shapes: tuple[Shape, Shape] = (("m", 19), (19, 40))
    name, func = scheduled(product(*shapes, free=free))
    assert name == "int8"
    for m in (0, 1, 4, 11, 30):
        check(func, *operands(*shapes, ("uint8", "int8"), m=m))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((7, 3), (3, 8)),
        ((7, "k"), ("k", 8)),
        ((7, 8), (8, "n")),
        ((7, 8), (8, 1)),
        ((9, 20), (20,)),
    ],
)
def test_what_is_left_to_other_rules(a: Shape, b: Shape) -> None:
    assert scheduled(product(a, b))[0] != "int8"


def test_few_rows_do_not_pay_for_a_copy_of_the_weight() -> None:
    shapes: tuple[Shape, Shape] = ((5, 20), (20, 24))
    name, func = scheduled(product(*shapes, free=False))
    assert name != "int8"
    check(func, *operands(*shapes, ("uint8", "int8")))


@pytest.mark.parametrize("signs", SIGNS)
@pytest.mark.parametrize("cpu", LESSER)
def test_code_for_lesser_cpus_gives_the_same(signs: tuple[str, str], cpu: str) -> None:
    target = Target(f"llvm -mcpu={cpu}")
    shapes: tuple[Shape, Shape] = ((13, 22), (22, 37))
    _, func = scheduled(product(*shapes, signs), target=target)
    check(func, *operands(*shapes, signs), target=target)


@pytest.mark.parametrize(
    ("cpu", "kind", "word", "each"),
    [
        ("cascadelake", "u8i8", "vpdpbusd", 1),
        ("cascadelake", "i16", "vpdpwssd", 1),
        ("skylake-avx512", "u8i8", "vpmaddwd", 2),
        ("skylake-avx512", "i16", "vpmaddwd", 1),
        ("haswell", "u8i8", "vpmaddwd", 2),
        ("haswell", "i16", "vpmaddwd", 1),
        ("x86-64", "u8i8", "pmaddwd", 2),
        ("x86-64", "i16", "pmaddwd", 1),
        ("generic -mattr=+dotprod,+i8mm", "u8i8", "usdot", 1),
        ("generic", "u8i8", "sadalp", 2),
    ],
)
def test_the_inner_loop(cpu: str, kind: str, word: str, each: int) -> None:
    target = Target(f"llvm -mcpu={cpu}")
    signs = ("uint8", "int8") if kind == "u8i8" else ("int16", "int16")
    _, func = scheduled(product((256, 256), (256, 256), signs), target=target)
    text = print_func(func)
    # The loop over groups of k, its rows and its vectors.
    name, steps = (f"T.dot4_{kind}", 64) if kind == "u8i8" else (f"T.dot2_{kind}", 128)
    tile = text.split(name)[0].rsplit(f"range({steps})", 1)[1]
    sums = 1
    for part in tile.split("T.unroll(")[1:]:
        sums *= int(part.split(")")[0])
    assert sums >= 6
    loops = assembly.innermost_loops(assembly.kernel_lines(func, target))
    found = [[x.operation for x in loop].count(word) for loop in loops]
    assert max(found) == sums * each
    for loop, count in zip(loops, found, strict=True):
        if count:
            assert assembly.spills(loop) == []


def test_pairs_of_16_bits_have_as_many_sums_as_registers_hold() -> None:
    """Twelve sums, two vectors of weights, a pair of a row and a product; nothing is shifted."""
    haswell = Target("llvm -mcpu=haswell")
    _, func = scheduled(product((256, 256), (256, 256), ("int16", "int16")), target=haswell)
    loops = assembly.innermost_loops(assembly.kernel_lines(func, haswell))
    words = [[x.operation for x in loop] for loop in loops]
    tile = max(words, key=lambda w: w.count("vpmaddwd"))
    assert tile.count("vpmaddwd") == tile.count("vpaddd") == 12
    assert tile.count("vpbroadcastd") == 6
    assert not [w for w in tile if w.startswith(("vpsra", "vpsrl", "vpsll", "vpand"))]


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_nothing(threads: int) -> None:
    shapes: tuple[Shape, Shape] = ((100, 40), (40, 100))
    _, func = scheduled(product(*shapes))
    assert "T.parallel" in print_func(func)
    check(func, *operands(*shapes, ("uint8", "int8")), threads=threads)
