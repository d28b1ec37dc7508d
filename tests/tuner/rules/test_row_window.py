"""Pooling with channels first: its numbers, and its code."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from burnish.support.host import native_target
from burnish.support.target import Target
from burnish.tensorir import operators as op
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.te.compute import Tensor, create_prim_func, placeholder
from burnish.tests.assembly import innermost_loops, kernel_lines, operations, spills
from burnish.tests.native import call_native
from burnish.tests.tuner.rules.checking import HASWELL, SKYLAKE, Workload, scheduled
from burnish.tuner.analytic import schedule_analytically
from burnish.tuner.rules.row_window import fits_row_window
from burnish.tuner.tiling.window_match import match_row_window

AVX512 = Target("llvm -mcpu=skylake-avx512 -threads=1")
SSE2 = Target("llvm -mcpu=x86-64 -threads=1")

Shape = tuple[int | str, ...]


def pool(kind: str, shape: Shape, dtype: str = "float32", **options: Any) -> PrimFunc:
    n = len(shape) - 2
    x = placeholder(shape, dtype, name="x")
    return create_prim_func([x, pooled(kind, x, n, **options)])


def pooled(
    kind: str,
    x: Tensor,
    n: int,
    *,
    kernel: int | tuple[int, ...],
    stride: int | tuple[int, ...] = 1,
    pad: int | tuple[int, ...] = 0,
    dilation: int = 1,
    ceil: bool = False,
    counted: bool = True,
) -> Tensor:
    own: dict[str, Any] = {
        "kernel": each(kernel, n), "strides": each(stride, n), "ceil_mode": ceil,
        "padding": [p for p in each(pad, n) for _ in "ab"],
    }  # fmt: skip
    if kind == "max":
        return op.max_pool(x, dilation=[dilation] * n, **own)
    return op.avg_pool(x, count_include_pad=counted, **own)


def each(value: int | tuple[int, ...], n: int) -> list[int]:
    return list(value) if isinstance(value, tuple) else [value] * n


def wanted(kind: str, x: np.ndarray, **options: Any) -> np.ndarray:
    """Torch's, in float64."""
    names = {"stride": 1, "pad": 0, "ceil": False}
    stride, pad, ceil = [options.get(k, v) for k, v in names.items()]
    arguments: dict[str, Any] = {"stride": stride, "padding": pad, "ceil_mode": ceil}
    if kind == "max":
        arguments["dilation"] = options.get("dilation", 1)
    else:
        arguments["count_include_pad"] = options.get("counted", True)
    function = getattr(F, f"{kind}_pool{x.ndim - 2}d")
    found = function(torch.tensor(x.astype("float64")), options["kernel"], **arguments)
    return np.asarray(found.numpy())


CASES: list[tuple[Shape, dict[str, Any]]] = [
    ((1, 3, 8, 64), {"kernel": 2, "stride": 2}),
    ((2, 2, 9, 33), {"kernel": 2, "stride": 2}),  # rows and a column are left over
    ((1, 2, 13, 40), {"kernel": 3, "pad": 1}),
    ((2, 2, 14, 67), {"kernel": 3, "stride": 2, "pad": 1}),
    ((1, 2, 9, 50), {"kernel": 3, "stride": 2, "ceil": True}),
    ((1, 2, 10, 40), {"kernel": 3, "stride": 2, "pad": 1, "ceil": True}),
    ((1, 2, 11, 39), {"kernel": 5, "stride": 3, "pad": 2}),
    ((1, 1, 16, 64), {"kernel": 4, "stride": 4}),
    ((1, 17, 21, 31), {"kernel": (3, 2), "stride": (1, 3), "pad": (1, 0)}),  # columns left out
    ((1, 2, 9, 21), {"kernel": 7, "pad": 3}),  # rows of a window in a loop
    ((1, 2, 12, 37), {"kernel": 7, "stride": 2, "pad": 3}),
    ((1, 2, 5, 7), {"kernel": 3, "pad": 1}),  # less than a vector
    ((2, 3, 2, 6), {"kernel": 2, "stride": 2}),
    ((1, 1, 1, 19), {"kernel": (1, 3), "stride": (1, 2), "pad": (0, 1)}),
    ((1, 2, 20, 18), {"kernel": (3, 1), "stride": (2, 1), "pad": (1, 0)}),
    ((2, 3, 70), {"kernel": 3, "stride": 2, "pad": 1}),
    ((1, 3, 41), {"kernel": 2}),
    ((2, 3, 34), {"kernel": 1, "stride": 2}),  # a rest that reads a single element
    ((2, 3, 66), {"kernel": 1, "stride": 2}),
    ((2, 3, 50), {"kernel": 1, "stride": 3}),
    ((1, 2, 5, 7, 36), {"kernel": 2, "stride": 2}),
    ((1, 2, 6, 5, 35), {"kernel": 3, "stride": 2, "pad": 1}),
]


@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize(("shape", "options"), CASES, ids=range(len(CASES)))
def test_numbers(kind: str, shape: tuple[int, ...], options: dict[str, Any]) -> None:
    func = pool(kind, shape, **options)
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    if kind == "max":
        x.flat[:: x.size // 5] = np.nan
        x.flat[1], x.flat[x.size // 2] = -np.inf, np.inf
    expected = wanted(kind, x, **options)
    variants = [scheduled(func), scheduled(func, sampled=True, seed=1)]
    for (rule, variant), threads in zip(variants, (1, 2), strict=True):
        assert rule == "row_window"
        found = np.full(expected.shape, -77, "float32")
        call_native(variant, x, found, threads=threads)
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize(
    "options", [{"kernel": 3, "pad": 1}, {"kernel": 2, "pad": 1, "ceil": True}]
)
@pytest.mark.parametrize("stride", [1, 2])
def test_padding_may_not_count(options: dict[str, Any], stride: int) -> None:
    x = np.random.default_rng(0).standard_normal((1, 2, 9, 45)).astype("float32")
    expected = wanted("avg", x, **options, stride=stride, counted=False)
    rule, func = scheduled(pool("avg", x.shape, **options, stride=stride, counted=False))
    assert rule == "row_window"
    found = np.zeros(expected.shape, "float32")
    call_native(func, x, found)
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("stride", [1, 2])
def test_dilation(stride: int) -> None:
    options = {"kernel": 3, "pad": 1, "dilation": 2, "stride": stride}
    x = np.random.default_rng(0).standard_normal((1, 2, 11, 47)).astype("float32")
    _, func = scheduled(pool("max", x.shape, **options))
    expected = wanted("max", x, **options)
    found = np.zeros(expected.shape, "float32")
    call_native(func, x, found)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "int32"])
@pytest.mark.parametrize("stride", [1, 2])
def test_dtypes(dtype: str, stride: int) -> None:
    x = (np.random.default_rng(0).standard_normal((1, 2, 9, 141)) * 30).astype(dtype)
    for kind in ("max", "avg") if dtype.startswith("float") else ("max",):
        rule, func = scheduled(pool(kind, x.shape, dtype, kernel=3, stride=stride, pad=1))
        assert rule == "row_window"
        expected = wanted(kind, x, kernel=3, stride=stride, pad=1)
        found = np.zeros(expected.shape, dtype)
        call_native(func, x, found)
        np.testing.assert_allclose(found, expected, rtol=1e-3 if dtype == "float16" else 1e-6)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("pad", [0, 1])
def test_what_stands_before_and_behind_is_computed_with_it(stride: int, pad: int) -> None:
    options: dict[str, Any] = {"kernel": 3, "stride": stride, "pad": pad}
    workload = Workload(
        lambda a: op.tanh(pooled("avg", op.exp(op.relu(a)), 2, **options)),
        lambda a: np.tanh(wanted("avg", np.exp(np.maximum(a, 0)), **options)),
        (1, 3, 12, 40),
    )
    rule, func = scheduled(workload.func)
    assert rule == "row_window"
    workload.check(func)


def test_a_symbolic_batch_and_height() -> None:
    options: dict[str, Any] = {"kernel": 3, "stride": 2, "pad": 1}
    workload = Workload(
        lambda a: pooled("avg", a, 2, **options),
        lambda a: wanted("avg", a, **options),
        ("n", 2, "h", 40),
    )
    rule, func = scheduled(workload.func)
    assert rule == "row_window"
    for n, h in ((1, 1), (2, 7), (3, 8)):
        workload.check(func, n=n, h=h)


def test_what_does_not_fit() -> None:
    def fits(shape: Shape, **options: Any) -> bool:
        func = pool("max", shape, **options)
        assert match_row_window(func) is not None
        return fits_row_window(func, SKYLAKE)

    assert fits((1, 4, 12, 12), kernel=2, stride=2)
    assert not fits((1, 4, 12, 4), kernel=2, stride=2)  # two results in a row
    assert not fits((1, 4, 9, 200), kernel=(1, 40))  # a row of a window is too long
    assert not fits((1, 4, 9, 200), kernel=2, stride=17)


# -- code ------------------------------------------------------------------------------------------
def main_loop(func: PrimFunc, target: Target) -> list[Any]:
    rule, result = scheduled(func, target=target)
    assert rule == "row_window"
    lines = kernel_lines(result, target)
    for loop in innermost_loops(lines):
        assert not spills(loop)
    assert not any("gather" in line.operation for line in lines)
    return max(innermost_loops(lines), key=lambda loop: sum([line.is_wide for line in loop]))


@pytest.mark.parametrize("target", [AVX512, HASWELL, SSE2], ids=str)
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_pairs_are_read_in_whole_vectors(kind: str, target: Target) -> None:
    loop = main_loop(pool(kind, (1, 8, 128, 128), kernel=2, stride=2), target)
    reads = [x for x in loop if re.match(r"v?movups .*\(.*\), %[xyz]mm", x.code)]
    assert len(reads) == 4
    assert not any(re.match(r"v?(?:mov|max|add|insert)\w*s[sd]$", x.operation) for x in loop)
    assert not any(x.operation.startswith(("vpinsr", "vextract")) for x in loop)


@pytest.mark.parametrize("stride", [1, 2])
def test_inside_of_an_image_nothing_is_tested(stride: int) -> None:
    loop = main_loop(pool("avg", (1, 8, 112, 112), kernel=3, stride=stride, pad=1), AVX512)
    found = operations(loop)
    assert not any(re.match(r"v(?:blend|cmp|pcmp|max)", name) for name in found)
    assert sum([name.startswith("j") for name in found]) == 1
    # Each row of the tile is read once.
    rows = 6 if stride == 1 else 5
    reads = [x for x in loop if re.search(r"\(%r\w+(?:,%r\w+)?(?:,\d)?\), %zmm", x.code)]
    assert len(reads) <= rows * 3


def maxima(text: str) -> int:
    return len(re.findall(r"vmaxps\s.*%zmm", text))


def test_rows_of_windows_are_combined_once() -> None:
    func = pool("max", (1, 8, 66, 66), kernel=3)
    text = "\n".join([line.code for line in main_loop(func, AVX512)])
    # Six rows of three elements, and four results of three rows.
    assert maxima(text) == 6 * 2 + 4 * 2


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": 5, "pad": 2},
        {"kernel": 5, "stride": 2, "pad": 2},
        {"kernel": (5, 6), "stride": (1, 16), "pad": (2, 3)},
        {"kernel": (8, 4), "stride": (2, 8), "pad": (4, 2)},
    ],
)
def test_registers_are_no_more_than_code_generation_takes(options: dict[str, Any]) -> None:
    for target in (AVX512, SKYLAKE):
        rule, func = scheduled(pool("max", (1, 8, 200, 800), **options), target=target)
        assert rule == "row_window"
        assert "vmaxps" in "".join([line.code for line in kernel_lines(func, target)])


def test_threads_share_channels() -> None:
    target = Target("llvm -mcpu=skylake-avx512 -threads=2")
    _, func = scheduled(pool("max", (1, 64, 64, 64), kernel=2, stride=2), target=target)
    assert re.findall(r"in T.parallel\((\d+)\)", str(func)) == ["64"]
    _, func = scheduled(pool("max", (1, 1, 512, 512), kernel=2, stride=2), target=target)
    assert re.findall(r"in T.parallel\((\d+)\)", str(func)) == ["256"]


@pytest.mark.parametrize(("l3", "asked"), [("64K", True), ("64M", False)])
def test_images_beyond_the_caches_are_asked_for_in_order(l3: str, asked: bool) -> None:
    target = Target(f"llvm -mcpu=skylake-avx512 -l3={l3}")
    rule, func = scheduled(pool("max", (1, 4, 64, 96), kernel=2, stride=2), target=target)
    assert rule == "row_window"
    assert ("prefetch_region" in func.script()) == asked
    x = np.random.default_rng(0).standard_normal((1, 4, 64, 96)).astype("float32")
    found = np.zeros((1, 4, 32, 48), "float32")
    call_native(func, x, found)
    np.testing.assert_array_equal(found, wanted("max", x, kernel=2, stride=2))


@pytest.mark.parametrize("cpu", ["skylake-avx512", "haswell", "x86-64", "generic"])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_parts_of_several_sizes_have_another_schedule(mode: str, cpu: str) -> None:
    """Their windows have no stride: what they read of a row is at no constant places."""
    target = Target(f"llvm -mcpu={cpu}")
    for shape, out in (((2, 8, 12, 12), (5, 5)), ((1, 16, 13, 13), (6, 6)), ((1, 3, 10), (3,))):
        x = placeholder(shape, name="x")
        y = op.adaptive_pool(x, output_size=out, mode=mode)
        func = create_prim_func([x, y])
        assert not fits_row_window(func, target)
        scheduled = schedule_analytically(func, target)
        assert kernel_lines(scheduled, target)


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_scheduled_parts_of_several_sizes(mode: str) -> None:
    data = np.random.default_rng(0).standard_normal((2, 8, 12, 13)).astype("float32")
    x = placeholder(data.shape, name="x")
    func = create_prim_func([x, op.adaptive_pool(x, output_size=(5, 6), mode=mode)])
    found = np.empty((2, 8, 5, 6), "float32")
    call_native(schedule_analytically(func, native_target()), data, found)
    pool = getattr(F, f"adaptive_{mode}_pool2d")
    wanted = pool(torch.tensor(data).double(), (5, 6)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def test_every_second_element_of_an_image_is_taken_before_windows_are_read() -> None:
    x = placeholder((2, 5, 9, 48), name="x")
    taken = op.strided_slice(x, [0] * 4, [1, 1, 1, 2], (2, 5, 9, 24))
    func = create_prim_func([x, pooled("avg", taken, 2, kernel=5, stride=3, pad=2)])
    assert scheduled(func, target=SKYLAKE)[0] == "row_window"


@pytest.mark.parametrize("pad", [0, 1])
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_a_turned_image_is_turned_before_windows_are_read(kind: str, pad: int) -> None:
    """The windows' rule wants rows in memory order: what turns the image is a nest of its own."""
    x = placeholder((2, 5, 9, 24), name="x")
    turned = op.permute_dims(x, (0, 1, 3, 2))
    func = create_prim_func([x, pooled(kind, turned, 2, kernel=3, stride=1, pad=pad)])
    rule, _ = scheduled(func, target=SKYLAKE)
    assert rule == "row_window"
    image = np.random.default_rng(0).standard_normal((2, 5, 9, 24)).astype("float32")
    torch_pool = F.max_pool2d if kind == "max" else F.avg_pool2d
    expected = torch_pool(torch.from_numpy(image).mT, 3, 1, pad).numpy()
    found = np.empty_like(expected)
    call_native(schedule_analytically(func, native_target()), image, found)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_halves_are_not_shuffled_by_instructions_that_have_no_form_for_avx() -> None:
    """Beside AVX each ``insertq`` of Zen waits for hundreds of cycles."""
    func = pool("avg", (1, 64, 28, 28), "float16", kernel=3, pad=1)
    zen = Target("llvm -mcpu=znver3 -threads=1")
    found = operations(kernel_lines(schedule_analytically(func, zen), zen))
    assert "vcvtph2ps" in found
    assert not found & {"insertq", "extrq"}
