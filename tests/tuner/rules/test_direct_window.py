"""Windows without padded copies: which they are, their numbers, and their code."""

from __future__ import annotations

import re
from typing import Any

import pytest

from burnish.support.target import Target
from burnish.tensorir import operators as op
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.te.compute import create_prim_func, placeholder
from burnish.tests.assembly import (
    innermost_loops,
    kernel_lines,
    multiply_adds,
    stack_stores,
    vector_spills,
)
from burnish.tests.tuner.rules.checking import SKYLAKE, Workload, assembly_of, scheduled
from burnish.tests.tuner.rules.test_depthwise import depthwise
from burnish.tuner.rules.direct_window import column_of, direct_window
from burnish.tuner.tiling.window_match import match_window
from burnish.tuner.workload import block_named


def function(x: tuple[int, ...], *, stride: int = 1, pad: int = 1, kernel: int = 3) -> PrimFunc:
    n, channels = len(x) - 2, x[-1]
    image = placeholder(x, name="x")
    w = placeholder((channels, 1, *[kernel] * n), name="w")
    options: dict[str, Any] = {
        "strides": [stride] * n, "padding": [pad] * (2 * n), "dilation": [1] * n,
    }  # fmt: skip
    y = op.conv(image, w, groups=channels, channels_last=True, **options)
    return create_prim_func([image, w, y]).with_attr("layout_free", [1])


def is_direct(func: PrimFunc) -> bool:
    window = match_window(func)
    assert window is not None
    return direct_window(func, window) is not None


def test_windows_of_known_images_are_read_in_place() -> None:
    assert is_direct(function((1, 9, 9, 16)))
    assert is_direct(function((1, 9, 9, 16), pad=0))
    assert is_direct(function((1, 9, 16), stride=2))
    assert not is_direct(function((1, 5, 5, 5, 16)))  # too many borders
    assert not is_direct(depthwise((1, "h", 8, 16), (3, 3), pad=1).func)
    assert is_direct(depthwise(("n", 8, 8, 16), (3, 3), pad=1).func)


def test_no_copy_is_made() -> None:
    _, func = scheduled(function((1, 12, 12, 32)), target=SKYLAKE)
    assert "conv_pad" not in str(func)


@pytest.mark.parametrize(
    ("threads", "images", "width", "shared"),
    [
        (1, 1, 24, None),
        (1, 4, 24, None),
        (2, 1, 24, 2),  # channels of one image
        (3, 1, 24, 3),
        (4, 1, 24, 6),
        (2, 1, 112, 26),  # rows of a large one but for those at borders
        (2, 4, 24, 4),  # images
    ],
)
def test_what_threads_share(threads: int, images: int, width: int, shared: int | None) -> None:
    target = Target(f"llvm -mcpu=skylake-avx512 -threads={threads}")
    name, func = scheduled(function((images, width, width, 96)), target=target)
    assert name == "window"
    found = re.findall(r"in T.parallel\((\d+)\)", str(func))
    assert found == ([] if shared is None else [str(shared)])


@pytest.mark.parametrize(
    "workload",
    [
        depthwise((1, 13, 30, 32), (3, 3), pad=1),
        depthwise((3, 8, 3, 16), (5, 5), pad=2),
        depthwise((1, 4, 4, 16), (3, 3), pad=3),
        depthwise((1, 10, 10, 16), (2, 2), stride=3),
        depthwise((1, 1, 9, 16), (1, 3), pad=1),
    ],
    ids=range(5),
)
def test_borders(workload: Workload) -> None:
    name, func = scheduled(workload.func)
    assert name == "window"
    assert "conv_pad" not in str(func)
    workload.check(func)


@pytest.mark.parametrize(("stride", "products"), [(1, 9 * 6), (2, 9 * 4)])
def test_products_that_are_not_fused_have_registers(stride: int, products: int) -> None:
    func = function((1, 56, 56, 64), stride=stride)
    target = Target("llvm -mcpu=x86-64 -threads=1")
    found = scheduled(func, target=target)[1]
    loops = innermost_loops(kernel_lines(found, target))
    assert max(multiply_adds(loop) for loop in loops) == products
    assert not any(stack_stores(loop) for loop in loops)


@pytest.mark.parametrize(
    ("cpu", "threads", "size", "results"),
    [
        ("haswell", 1, 28, 7),
        ("haswell", 1, 112, 5),  # rows that two tiles read would not stay in the cache
        ("haswell", 2, 112, 5),  # threads share rows, but for those at borders
        ("haswell", 2, 24, 7),  # threads share channels
        ("haswell", 1, 5, 5),
    ],
)
def test_tiles_are_columns_that_leave_registers(
    cpu: str, threads: int, size: int, results: int
) -> None:
    target = Target(f"llvm -mcpu={cpu} -threads={threads}")
    found = scheduled(function((1, size, size, 96)), target=target)[1]
    loops = innermost_loops(kernel_lines(found, target))
    assert max(multiply_adds(loop) for loop in loops) == 9 * results
    for loop in loops:
        assert stack_stores(loop) == []
        assert vector_spills(loop) == []


@pytest.mark.parametrize(
    "func",
    [
        function((1, 28, 28, 32), kernel=5, pad=2),  # too many products
        function((1, 28, 28, 32), stride=2),
        function((1, 4, 28, 32)),  # too few rows
        function((1, 28, 32)),
    ],
    ids=["large", "stride", "low", "line"],
)
def test_other_tiles_go_row_by_row_of_the_window(func: PrimFunc) -> None:
    assert column(func, "haswell") is None


@pytest.mark.parametrize("cpu", ["x86-64", "skylake-avx512", "generic"])
def test_columns_are_for_few_registers_and_fused_products(cpu: str) -> None:
    func = function((1, 28, 28, 32))
    assert column(func, "haswell") == 7
    assert column(func, cpu) is None


def column(func: PrimFunc, cpu: str) -> int | None:
    window = match_window(func)
    assert window is not None
    direct = direct_window(func, window)
    assert direct is not None
    block = block_named(func, window.block)
    return column_of(direct, block, Target(f"llvm -mcpu={cpu} -threads=1"), 1)


@pytest.mark.parametrize("size", [5, 6, 7, 8, 15])
@pytest.mark.parametrize("kernel", [(3, 3), (1, 3), (3, 1), (2, 2)])
def test_the_numbers_of_columns(size: int, kernel: tuple[int, int]) -> None:
    workload = depthwise((2, size, size + 1, 20), kernel, pad=1)
    workload.check(scheduled(workload.func, target=Target("llvm -mcpu=haswell"))[1])
    workload.check(scheduled(workload.func)[1])


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [1, 2, 5, 14])
def test_the_numbers_of_low_tiles(size: int, stride: int) -> None:
    workload = depthwise((2, size, size + 1, 12), (3, 3), pad=1, stride=stride)
    workload.check(scheduled(workload.func, target=Target("llvm -mcpu=x86-64"))[1])


def test_interior_tiles_have_no_conditions() -> None:
    func = function((1, 56, 56, 64))
    target = Target("llvm -mcpu=skylake-avx512 -threads=1")
    text = assembly_of(scheduled(func, target=target)[1], target)
    bodies = [b for b in re.split(r"(?m)^\.L\w+:", text) if "vfmadd" in b]
    assert len(bodies) == 9
    inner = max(bodies, key=lambda b: len(re.findall(r"vfmadd|vmulps", b)))
    assert len(re.findall(r"(?:vfmadd|vmulps)\w*\s.*%zmm", inner)) == 9 * 8
    for body in bodies:
        assert not re.search(r"%rsp|vblend|%k[1-7]", body)
        assert len(re.findall(r"(?m)^\s+j\w+", body)) <= 4


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kernel", [3, 5])
def test_rows_of_pooling_are_combined_once(kernel: int, threads: int) -> None:
    x = placeholder((1, 56, 56, 64), name="x")
    y = op.max_pool(
        x, kernel=[kernel] * 2, strides=[1, 1], padding=[kernel // 2] * 4, dilation=[1, 1],
        channels_last=True,
    )  # fmt: skip
    target = Target(f"llvm -mcpu=skylake-avx512 -threads={threads}")
    rule, func = scheduled(create_prim_func([x, y]), target=target)
    assert rule == "window"
    text = assembly_of(func, target)
    bodies = [b for b in re.split(r"(?m)^\.L\w+:", text) if "vmaxps" in b]
    rows = 4 + kernel - 1  # of a tile of four results
    expected = (rows + 4) * (kernel - 1)
    assert max([len(re.findall(r"vmaxps\s.*%zmm", b)) for b in bodies]) == expected
