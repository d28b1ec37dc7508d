"""Long sums in blocks: what loops become, and that the numbers are right, and nearly exact."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from burnish import Schedule
from burnish.support.errors import CodegenError
from burnish.support.node import walk
from burnish.support.target import Target
from burnish.tensorir.lowering import lower_func
from burnish.tensorir.stmt import Allocate, annotation
from burnish.tensorir.text.parser import parse_func
from burnish.tests.native import call_native

SKYLAKE = Target("llvm -mcpu=skylake-avx512")
ROWS = """
@T.prim_func
def f(A: T.Buffer((8, "n"), "float32"), S: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, n):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + A[vi, vk]
"""
PLANES = """
@T.prim_func
def f(A: T.Buffer((50, 40, 8), "float32"), S: T.Buffer((8,), "float32")):
    for j, m, i in T.grid(50, 40, 8):
        with T.block("S"):
            vi, vj, vm = T.axis.remap("SRR", [i, j, m])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + A[vj, vm, vi]
"""


def annotated(text: str, loop: int, size: object = 16, key: str = "sum_block") -> Schedule:
    sch = Schedule(parse_func(text))
    sch.annotate(sch.get_loops("S")[loop], key, size)
    return sch


def lowered(sch: Schedule) -> str:
    return lower_func(sch.mod["f"], SKYLAKE).func.script()


def fixed(text: str, n: int) -> str:
    return text.replace('"n"', str(n)).replace("n)", f"{n})")


@pytest.mark.parametrize("n", [16, 64, 1000])
def test_a_loop_of_known_length(n: int, golden: Callable[..., None]) -> None:
    """A block's worth of terms are added as they are, and so are two blocks' worth of blocks."""
    golden(lowered(annotated(fixed(ROWS, n), 1)))


def test_a_loop_of_unknown_length(golden: Callable[..., None]) -> None:
    golden(lowered(annotated(ROWS, 1)))


def test_loops_inside_are_blocked_first(golden: Callable[..., None]) -> None:
    """Sums in memory get partial sums of the same extent; the inner loop has a block for each of
    its iterations over terms."""
    sch = annotated(PLANES, 0)
    sch.decompose_reduction("S", sch.get_loops("S")[0])
    golden(lowered(sch))


LENGTHS = [1, 15, 16, 17, 33, 256, 257, 4113]


@pytest.mark.parametrize(
    ("n", "is_known"), [(0, False), *[(n, known) for known in (False, True) for n in LENGTHS]]
)
def test_every_term_is_added_once(n: int, is_known: bool) -> None:
    x = np.random.default_rng(n).integers(-9, 9, (8, n)).astype("float32")
    found = np.full(8, -77, "float32")
    sch = annotated(fixed(ROWS, n) if is_known else ROWS, 1)
    call_native(sch.mod["f"], x, found, dims=[] if is_known else [n])
    np.testing.assert_array_equal(found, x.sum(1))


def test_planes_are_added_once() -> None:
    x = np.random.default_rng(0).integers(-9, 9, (50, 40, 8)).astype("float32")
    found = np.full(8, -77, "float32")
    sch = annotated(PLANES, 0, 4)
    sch.decompose_reduction("S", sch.get_loops("S")[0])
    call_native(sch.mod["f"], x, found)
    np.testing.assert_array_equal(found, x.sum((0, 1)))


def test_errors_do_not_grow_with_the_length() -> None:
    """In order, a million tenths give 100958.34."""
    x = np.full((8, 1_000_000), 0.1, "float32")
    found = np.zeros(8, "float32")
    call_native(annotated(ROWS, 1).mod["f"], x, found, dims=[1_000_000])
    np.testing.assert_allclose(found, x.astype("float64").sum(1), rtol=5e-7)


@pytest.mark.parametrize(
    "update",
    [
        "S[vi] = T.max(S[vi], A[vi, vk])",
        "S[vi] = S[vi] * A[vi, vk]",
        "S[vi] = S[vi] + A[vi, vk] * S[vi]",
    ],
)
def test_other_updates_stay_as_they_are(update: str) -> None:
    text = fixed(ROWS, 1000).replace("S[vi] = S[vi] + A[vi, vk]", update)
    plain = lowered(annotated(text, 1, key="pragma_of_nobody"))
    assert "for k in " in plain
    assert lowered(annotated(text, 1)) == plain.replace(
        'T.serial(1000, annotations={"pragma_of_nobody": 16})', "range(1000)"
    )


def test_integers_stay_as_they_are() -> None:
    text = fixed(ROWS, 1000).replace("float32", "int32")
    assert "_block" not in lowered(annotated(text, 1)).replace("sum_block", "")


@pytest.mark.parametrize("size", [0, -1, "16", True, 2.0])
def test_a_block_has_at_least_one_term(size: object) -> None:
    with pytest.raises(CodegenError, match="sum_block of loop k is a number of terms"):
        lowered(annotated(fixed(ROWS, 1000), 1, size))


@pytest.mark.parametrize("kind", ["parallel", "vectorized", "unroll"])
def test_blocks_are_for_serial_loops(kind: str) -> None:
    """Nobody would see that an annotation is of no effect."""
    text = PLACES.replace("T.serial(100", f"T.{kind}(100").format(index="j, m")
    with pytest.raises(CodegenError, match=f"is for serial loops.*; loop k is {kind}"):
        lower_func(parse_func(text), SKYLAKE)


NESTED = """
@T.prim_func
def f(A: T.Buffer((100, 40), "float32"), S: T.Buffer((1,), "float32")):
    with T.block("root"):
        S[0] = T.float32(0)
        for k in T.serial(100, annotations={{"sum_block": 16}}):
            for m in T.{kind}(40, annotations={{"sum_block": {size}}}):
                S[0] = S[0] + A[k, m]
"""


@pytest.mark.parametrize(
    ("kind", "size", "message"),
    [
        ("serial", 0, "sum_block of loop m is a number of terms"),
        ("serial", "'4'", "sum_block of loop m is a number of terms"),
        ("unroll", 4, "is for serial loops.*; loop m is unroll"),
    ],
)
def test_annotations_inside_of_annotated_loops_are_checked(
    kind: str, size: object, message: str
) -> None:
    with pytest.raises(CodegenError, match=message):
        lower_func(parse_func(NESTED.format(kind=kind, size=size)), SKYLAKE)


def test_a_loop_inside_has_blocks_of_its_own_length() -> None:
    func = parse_func(NESTED.format(kind="serial", size=4))
    assert "for m in range(5)" in lower_func(func, SKYLAKE).func.script()
    x = np.random.default_rng(0).integers(-9, 9, (100, 40)).astype("float32")
    found = np.full(1, -77, "float32")
    call_native(func, x, found)
    assert found[0] == x.sum()


PLACES = """
@T.prim_func
def f(A: T.Buffer((100, 8, 3), "float32"), S: T.Buffer((40, 40), "float32")):
    with T.block("root"):
        for k in T.serial(100, annotations={{"sum_block": 16}}):
            for j in range(8):
                for m in range(3):
                    S[{index}] = S[{index}] + A[k, j, m]
"""


@pytest.mark.parametrize(
    ("index", "is_blocked"),
    [
        ("0, j * 3 + m", True),
        ("39 - m * 8 - j, 0", True),
        ("j, m", True),
        ("j + m, j", True),
        ("j * 5 + m * 2, 3", True),
        ("m, 5", True),
        ("0, j + m", False),
        ("0, j * 2 + m", False),
        ("0, j * 4 + m * 2", False),
        ("j + m, j + m", False),
        ("0, j * m", False),
    ],
)
def test_a_total_gets_the_sum_of_a_block_once(index: str, is_blocked: bool) -> None:
    """An element that several iterations of the inner loops add to, as where windows overlap, would
    get the partial sum from each of them."""
    func = parse_func(PLACES.format(index=index))
    assert ("S_block" in lower_func(func, SKYLAKE).func.script()) == is_blocked
    x = np.random.default_rng(0).integers(-9, 9, (100, 8, 3)).astype("float32")
    found, wanted = np.zeros((2, 40, 40), "float32")
    call_native(func, x, found)
    for j, m in np.ndindex(8, 3):
        wanted[eval(index, {"j": j, "m": m})] += x[:, j, m].sum()
    np.testing.assert_array_equal(found, wanted)


LOOKED_UP = """
@T.prim_func
def f(A: T.Buffer((100,), "int64"), B: T.Buffer((100,), "float32"),
      F: T.Buffer((1,), "int64"), S: T.Buffer((2,), "float32")):
    with T.block("root"):
        F[0] = T.int64(1)
        for k in T.serial({extent}, annotations={{"sum_block": 16}}):
            {change}
            {update}
"""


@pytest.mark.parametrize(
    ("extent", "change", "update"),
    [
        ("100", "F[0] = A[k]", "S[F[0]] = S[F[0]] + B[k]"),
        ("100", "F[0] = A[k]", "if F[0] > 0: S[0] = S[0] + B[k]"),
        ("100", "F[0] = A[k]", "for j in range(T.max(T.min(F[0], 1), 0), 2): S[j] = S[j] + B[k]"),
        ("F[0] * 100", "F[0] = A[k]", "S[0] = S[0] + B[k]"),
    ],
)
def test_what_the_loop_changes_tells_no_place(extent: str, change: str, update: str) -> None:
    """Partial sums are cleared and added at other times than their terms."""
    text = LOOKED_UP.format(extent=extent, change=change, update=update)
    assert "S_block" not in lower_func(parse_func(text), SKYLAKE).func.script()


LOCAL = """
@T.prim_func
def f(A: T.Buffer((100,), "int64"), B: T.Buffer((100,), "float32"), S: T.Buffer((2,), "float32")):
    with T.block("root"):
        F = T.alloc_buffer((1,), "int64")
        for k in T.serial(100, annotations={"sum_block": 16}):
            F[0] = A[k]
            if F[0] > 0:
                S[F[0]] = S[F[0]] + B[k]
"""


def test_what_is_allocated_in_the_loop_tells_no_place() -> None:
    a = np.random.default_rng(0).integers(0, 2, 100)
    b = np.random.default_rng(1).integers(-9, 9, 100).astype("float32")
    found = np.zeros(2, "float32")
    call_native(parse_func(LOCAL), a, b, found)
    np.testing.assert_array_equal(found, [0, b[a > 0].sum()])


def test_what_the_loop_only_reads_tells_a_place() -> None:
    text = LOOKED_UP.format(
        extent="100", change="S[0] = S[0] + B[k]", update="S[F[0]] = S[F[0]] + B[k]"
    )
    func = parse_func(text)
    assert "S_block" in lower_func(func, SKYLAKE).func.script()
    b = np.random.default_rng(1).integers(-9, 9, 100).astype("float32")
    found = np.zeros(2, "float32")
    call_native(func, np.zeros(100, "int64"), b, np.zeros(1, "int64"), found)
    np.testing.assert_array_equal(found, [b.sum(), b.sum()])


TILE = """
@T.prim_func
def f(A: T.Buffer((1000, {width}), "float32"), B: T.Buffer(({width},), "float32")):
    with T.block("root"):
        R = T.alloc_buffer(({width},), scope="register")
        for v in T.unroll({width} // 16):
            for j in T.vectorized(16):
                R[v * 16 + j] = T.float32(3)
        for k in T.serial(1000, annotations={{"sum_block": 10}}):
            for v in T.unroll({width} // 16):
                for j in T.vectorized(16):
                    R[v * 16 + j] = R[v * 16 + j] + A[k, v * 16 + j]
        for v in T.unroll({width} // 16):
            for j in T.vectorized(16):
                B[v * 16 + j] = R[v * 16 + j]
"""


@pytest.mark.parametrize(
    ("vectors", "storage"),
    [
        (4, ["register", "register", "register"]),
        (28, ["shared", "shared", "register"]),
    ],
)
def test_a_total_makes_room_for_its_partial_sums(vectors: int, storage: list[str]) -> None:
    """Of 32 registers a tile has 28: one level of sums is there, the others in memory."""
    func = parse_func(TILE.format(width=vectors * 16))
    made = lower_func(func, SKYLAKE).func
    assert [annotation(n, "storage") for n in walk(made) if isinstance(n, Allocate)] == storage
    a = np.random.default_rng(0).uniform(0, 1, (1000, vectors * 16)).astype(np.float32)
    result = np.empty(vectors * 16, np.float32)
    call_native(func, a, result)
    np.testing.assert_allclose(result, a.astype(np.float64).sum(0) + 3, rtol=3e-7)


LANES = """
@T.prim_func
def main(A: T.Buffer((20000, 17), "float32"), B: T.Buffer((17,), "float32")):
    T.func_attr({"is_scheduled": True})
    for j in range(17):
        with T.block("zero"):
            vj = T.axis.spatial(17, j)
            B[vj] = T.float32(0)
    for k in T.serial(20000, annotations={"sum_block": 16}):
        for j in T.vectorized(16):
            with T.block("B"):
                vk = T.axis.reduce(20000, k)
                vj = T.axis.spatial(17, 16 + j)
                T.where(j < 1)
                B[vj] = B[vj] + A[vk, vj]
"""


def test_one_lane_of_a_vector_is_no_loop_over_terms() -> None:
    """The column behind a whole number of vectors, whose number no index has any more."""
    func = lower_func(parse_func(LANES), Target("llvm -mcpu=haswell")).func
    assert [n for n in walk(func.body) if isinstance(n, Allocate)]
    a = np.full((20000, 17), 0.1, np.float32)
    b = np.zeros(17, np.float32)
    call_native(parse_func(LANES), a, b)
    assert abs(b[16] - a[:, 16].astype(np.float64).sum()) < 2e-6 * b[16]
