"""Linear layers of integers with scales: within the bound of float32 sums for every size, width and
CPU; the code of the inner loop."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.support.target import Target
from burnish.tensorir import operators as op
from burnish.tensorir.expr import Expr, Var
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import pack_array, parse_index_map
from burnish.tensorir.te.compute import create_prim_func, placeholder
from burnish.tensorir.text.printer import print_func
from burnish.tests import assembly
from burnish.tests.native import call_native, lower
from burnish.tests.tensorir.operators.test_scaled_linear import bound, case
from burnish.tests.tuner.rules.checking import rules_of, scheduled

LESSER = ("x86-64", "x86-64-v2", "haswell")
ZEN = Target("llvm -mcpu=znver4")


def layer(
    rows: int | str, n: int, groups: int, depth: int, bits: int, zero: str = "", free: bool = True
) -> PrimFunc:
    """relu of a layer; rows that are named are symbolic."""
    count: int | Expr = Var(rows) if isinstance(rows, str) else rows
    words = depth * bits // 32
    operands = [
        placeholder((count, groups * depth), name="x"),
        placeholder((n, groups, words), "uint32", name="w"),
        placeholder((n, groups), name="scale"),
    ]
    if zero:
        operands.append(placeholder((n, groups), zero, name="zero"))
    made = op.relu(op.scaled_linear(*operands, bits=bits))
    func = create_prim_func([*operands, made])
    return func.with_attr("layout_free", [*range(1, len(operands))]) if free else func


def check(
    func: PrimFunc,
    rows: int,
    n: int,
    groups: int,
    depth: int,
    bits: int,
    zero: str = "",
    *,
    target: Target | None = None,
    threads: int = 1,
) -> np.ndarray:
    """A schedule's numbers against float64; they are returned."""
    operands, exact, magnitude = case((rows,), n, groups, depth, bits, zero)
    for index, text, pad in func.attr("layout_maps") or ():
        array = operands[index]
        operands[index] = pack_array(array, parse_index_map(text), pad, str(array.dtype))
    found = np.full(exact.shape, -77, "float32")
    dims = [rows] if func.shape_vars else []
    call_native(func, *operands, found, dims=dims, target=target, threads=threads)
    assert np.all(np.abs(found - np.maximum(exact, 0)) <= bound(groups * depth) * magnitude)
    return found


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("columns", [1, 2, 10, 16, 45, 96])
@pytest.mark.parametrize("rows", [1, 3, 5])
def test_any_rows_columns_and_widths(rows: int, columns: int, bits: int) -> None:
    shape = (rows, columns, 2, 16, bits)
    name, func = scheduled(layer(*shape))
    assert name == "scaled"
    check(func, *shape)


@pytest.mark.parametrize("zero", ["", "uint8", "float16"])
@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_any_decisions_and_zero_points(seed: int | None, zero: str) -> None:
    shape = (5, 40, 3, 32, 4, zero)
    name, func = scheduled(layer(*shape), sampled=seed is not None, seed=seed or 0)
    assert name == "scaled"
    check(func, *shape)


@pytest.mark.parametrize("columns", [10, 48])
def test_a_symbolic_number_of_rows(columns: int) -> None:
    name, func = scheduled(layer("m", columns, 2, 16, 4))
    assert name == "scaled"
    for m in (0, 1, 5, 14):
        check(func, m, columns, 2, 16, 4)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("columns", [1, 2, 10, 45, 96])
@pytest.mark.parametrize("rows", [16, 37])
def test_of_many_rows_weights_are_taken_out_once(rows: int, columns: int, bits: int) -> None:
    shape = (rows, columns, 2, 16, bits)
    name, func = scheduled(layer(*shape))
    assert name == ("dot" if columns == 1 else "matmul")
    check(func, *shape)


def test_a_number_of_panels_that_nothing_divides_has_groups_of_several() -> None:
    """67 panels of 16 columns and 64 terms: the last of 17 groups of four has one of zeros."""
    haswell = Target("llvm -mcpu=haswell")
    shape = (40, 67 * 16 - 15, 2, 32, 8)
    name, func = scheduled(layer(*shape), target=haswell)
    assert name == "matmul"
    lines = print_func(lower(func, haswell).func).splitlines()
    (made,) = [line for line in lines if "weights_global = T.allocate" in line]
    assert f"[{4 * 16 * 64}]" in made
    check(func, *shape)


@pytest.mark.parametrize("zero", ["", "uint8", "float16"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_any_decisions_of_many_rows(seed: int, zero: str) -> None:
    shape = (33, 48, 3, 32, 4, zero)
    name, func = scheduled(layer(*shape), sampled=True, seed=seed)
    assert name == "matmul"
    check(func, *shape)


@pytest.mark.parametrize("columns", [96, 250])
def test_panels_of_words_stand_under_the_loop_that_reads_them(columns: int) -> None:
    """A panel is used before the next is made, and words are read in vectors, each once."""
    target = Target("llvm -mcpu=haswell")
    _, func = scheduled(layer(64, columns, 32, 128, 8), target=target)
    lines = print_func(lower(func, target).func).splitlines()
    (made,) = [line for line in lines if "weights_global = T.allocate" in line]
    assert f"[{4096 * 16}]" in made
    code = assembly.kernel_lines(func, target)
    assert [line for line in code if "gather" in line.operation] == []
    loops = assembly.innermost_loops(code)
    unpacking = next(x for x in loops if "vpsrld" in [line.operation for line in x])
    assert [line.operation for line in unpacking].count("vpsrld") == 2


@pytest.mark.parametrize("cpu", LESSER)
@pytest.mark.parametrize(("bits", "zero"), [(4, ""), (8, "uint8")])
def test_lesser_cpus(cpu: str, bits: int, zero: str) -> None:
    target = Target(f"llvm -mcpu={cpu}")
    shape = (5, 45, 2, 32, bits, zero)
    name, func = scheduled(layer(*shape), target=target)
    assert name == "scaled"
    check(func, *shape, target=target)


@pytest.mark.parametrize(("rows", "free"), [(3, False), ("m", False)])
def test_weights_that_are_no_constants_are_left_to_other_rules(rows: int | str, free: bool) -> None:
    func = layer(rows, 20, 2, 16, 4, free=free)
    assert "scaled" not in rules_of(func, ZEN)
    _, made = scheduled(func)
    check(made, 3, 20, 2, 16, 4)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_nothing(threads: int) -> None:
    shape = (5, 200, 2, 64, 4)
    _, func = scheduled(layer(*shape))
    assert "T.parallel" in print_func(func)
    np.testing.assert_array_equal(check(func, *shape, threads=threads), check(func, *shape))


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_the_inner_loop_takes_numbers_out_by_three_instructions(bits: int) -> None:
    """Of a row of many columns: bits put into a float, a difference, a multiply-add. Shifts serve
    several numbers, words are loaded once."""
    _, func = scheduled(layer(1, 256, 2, 128, bits), target=ZEN)
    loops = assembly.innermost_loops(assembly.kernel_lines(func, ZEN))
    inner = max(loops, key=len)
    found = [line.operation for line in inner]
    per, together = 32 // bits, 23 // bits
    vectors = found.count("vfmadd213ps") + found.count("vfmadd231ps")
    words = vectors // per
    assert words == 8
    assert found.count("vpternlogd") == found.count("vaddps") == vectors
    assert found.count("vpsrld") <= words * (-(-per // together) - 1)
    assert "vcvtdq2ps" not in found
    assert [line for line in assembly.spills(inner) if "zmm" in str(line)] == []
