"""Transposes through registers, whatever the shape."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from burnish.support.host import native_target
from burnish.support.target import Target
from burnish.tensorir import operators as op
from burnish.tensorir.te.compute import Tensor, create_prim_func, placeholder
from burnish.tests.native import call_native
from burnish.tests.tuner.rules.checking import (
    HASWELL,
    SKYLAKE,
    Shape,
    Workload,
    assembly_of,
    check_rule,
    scheduled,
)
from burnish.tuner.rules.transpose import crossed_axis, fits_registers
from burnish.tuner.workload import blocks_in_order


def transposed(
    *shape: int | str, axes: tuple[int, ...] = (1, 0), dtype: str = "float32"
) -> Workload:
    return Workload(
        lambda a: op.permute_dims(a, axes), lambda a: a.transpose(axes), shape, dtype=dtype
    )


@pytest.mark.parametrize("shape", [(16, 16), (33, 47), (2, 40), (40, 3), (15, 15), (64, 17)])
def test_shapes(shape: tuple[int, int]) -> None:
    check_rule(transposed(*shape), "elementwise")


@pytest.mark.parametrize("dtype", ["float64", "int32", "int8", "float16"])
def test_dtypes(dtype: str) -> None:
    check_rule(transposed(37, 20, dtype=dtype), "elementwise", seeds=1)


@pytest.mark.parametrize("shape", [(64, 128), (70, 200), (200, 70), (129, 65), (64, 63)])
@pytest.mark.parametrize("dtype", ["int8", "float16"])
def test_lines_of_narrow_elements(shape: tuple[int, int], dtype: str) -> None:
    check_rule(transposed(*shape, dtype=dtype), "elementwise", seeds=2)


def test_whole_lines_are_written_before_others_are_begun() -> None:
    _, func = scheduled(transposed(130, 260, dtype="int8").func, target=SKYLAKE)
    text = func.script()
    assert "i0_p0_0, i0_p0_1, i1_p0_1_0 in T.grid(4, 4, 4)" in text


def test_images_to_channels_last_and_back() -> None:
    check_rule(transposed(2, 3, 5, 18, axes=(0, 2, 3, 1)), "elementwise")
    check_rule(transposed(2, 5, 18, 24, axes=(0, 3, 1, 2)), "elementwise")


def test_symbolic_extents() -> None:
    check_rule(transposed("m", 20), "elementwise", m=(0, 1, 16, 37))
    check_rule(transposed(20, "m"), "elementwise", m=(0, 1, 16, 37))
    check_rule(transposed("m", "n"), "elementwise", m=(0, 5, 33), n=(4, 40, 16))


@pytest.mark.parametrize("shape", [("m", 40), (40, "m"), ("m", "n")])
@pytest.mark.parametrize("target", [SKYLAKE, HASWELL])
def test_what_fills_no_tile_of_symbolic_extents_is_smaller_tiles(
    shape: tuple[int | str, int | str], target: Target
) -> None:
    _, func = scheduled(transposed(*shape).func, target=target)
    text = func.script()
    # Halves of a tile, down to single rows or columns.
    assert all(f"{n} % 2" in text for n in shape if isinstance(n, str))
    # What is gathered is the one column that is left over.
    assert "gather" not in assembly_of(func, target) or shape[1] != 40


def part(a: Tensor) -> Tensor:
    """A transpose of ``a[2:, 3::2]``, of a shape (40, 81)."""
    return op.permute_dims(op.strided_slice(a, (2, 3), (1, 2), (38, 39)), (1, 0))


def test_parts_of_arrays() -> None:
    check_rule(Workload(part, lambda a: a[2:, 3::2].T, (40, 81)), "elementwise")
    rows = Workload(
        lambda a: op.permute_dims(op.strided_slice(a, (1, 0), (2, 1), (20, 33)), (1, 0)),
        lambda a: a[1::2].T, (41, 33),
    )  # fmt: skip
    check_rule(rows, "elementwise")


@pytest.mark.parametrize("target", [SKYLAKE, HASWELL])
def test_parts_of_arrays_are_read_by_rows(target: Target) -> None:
    _, func = scheduled(Workload(part, np.abs, (40, 81)).func, target=target)
    assert "gather" not in assembly_of(func, target)


def test_a_padded_part_is_not_read_beyond_its_buffer() -> None:
    def build(a: Tensor) -> Tensor:
        return op.permute_dims(op.pad(a, (3, 3, 2, 2)), (1, 0))

    work = Workload(build, lambda a: np.pad(a, ((3, 3), (2, 2))).T, (40, 37))
    check_rule(work, "elementwise")


def test_fused_with_operands_along_the_rows() -> None:
    def build(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return op.add(op.add(op.relu(op.permute_dims(a, (1, 0))), b), op.permute_dims(c, (1, 0)))

    workload = Workload(
        build, lambda a, b, c: np.maximum(a.T, 0) + b + c.T, (35, 20), (20, 35), (35, 20)
    )
    check_rule(workload, "elementwise")


@pytest.mark.parametrize(("target", "side"), [(SKYLAKE, 16), (HASWELL, 8)])
def test_memory_is_touched_by_vectors_alone(target: object, side: int) -> None:
    _, func = scheduled(transposed(3 * side, 5 * side).func, target=target)  # type: ignore[arg-type]
    text = assembly_of(func, target)  # type: ignore[arg-type]
    assert "gather" not in text
    assert text.count("vmovup") >= side
    assert "vinsertps" not in text


@pytest.mark.parametrize("shape", [(64, 130), (33, 47), (3, 70), (70, 3)])
def test_truth_values_are_shuffled_as_bytes(shape: tuple[int, int]) -> None:
    flags = np.random.default_rng(0).random(shape) < 0.5
    _, func = scheduled(transposed(*shape, dtype="bool").func)
    assert "register" in func.script()
    found = np.zeros(shape[::-1], bool)
    call_native(func, flags, found)
    np.testing.assert_array_equal(found, flags.T)


def test_truth_values_of_numbers() -> None:
    work = Workload(
        lambda a: op.greater_equal(op.permute_dims(a, (1, 0)), op.permute_dims(op.relu(a), (1, 0))),
        lambda a: np.maximum(a.T, 0) <= a.T, (64, 130),
    )  # fmt: skip
    _, func = scheduled(work.func)
    assert "register" in func.script()
    (numbers,) = work.arguments()
    found = np.zeros((130, 64), bool)
    call_native(func, numbers, found)
    np.testing.assert_array_equal(found, work.reference(numbers))


@pytest.mark.parametrize("shape", [(3, 70), (5, 64), (2, 33), (70, 3)])
def test_elementary_functions_of_short_columns_go_along_what_is_read(
    shape: tuple[int, int],
) -> None:
    work = Workload(lambda a: op.exp(op.permute_dims(a, (1, 0))), lambda a: np.exp(a.T), shape)
    check_rule(work, "elementwise")
    _, func = scheduled(work.func, target=SKYLAKE)
    assert ("exp_register" in func.script()) == (shape[0] < shape[1])


def fits(build: Callable[..., Tensor], *shapes: tuple[int, ...]) -> bool:
    workload = Workload(build, np.abs, *shapes)
    return fits_registers(blocks_in_order(workload.func)[-1], SKYLAKE)


def test_what_fits() -> None:
    assert fits(lambda a: op.permute_dims(a, (1, 0)), (8, 5))
    assert not fits(lambda a: op.permute_dims(a, (1, 0)), (1, 5))
    assert not fits(op.relu, (8, 5))


def test_a_buffer_read_both_ways_does_not_fit() -> None:
    workload = Workload(lambda a: op.add(a, op.permute_dims(a, (1, 0))), lambda a: a + a.T, (9, 9))
    check_rule(workload, "elementwise")
    _, func = scheduled(workload.func)
    assert "register" not in func.script()


def test_a_buffer_read_at_one_place_twice_fits() -> None:
    def build(a: Tensor) -> Tensor:
        turned = op.permute_dims(a, (1, 0))
        return op.add(op.multiply(turned, turned), turned)

    work = Workload(build, lambda a: a.T * a.T + a.T, (40, 33))
    check_rule(work, "elementwise")
    assert "register" in scheduled(work.func)[1].script()


ROWS = np.array([2, 0, 3, 3, 1, -1], np.int64)


def check_looked_up(
    build: Callable[[Tensor, Tensor], Tensor], axes: tuple[int, ...], target: Target
) -> str:
    """The numbers of a permuted array where ``ROWS`` tell what is read of it; the schedule."""
    a = np.random.default_rng(0).standard_normal((4, 37, 50)).astype("float32")
    rows = placeholder(ROWS.shape, "int64", name="rows")
    x = placeholder(a.shape, "float32", name="x")
    _, func = scheduled(create_prim_func([x, rows, build(x, rows)]), target=target)
    expected = np.maximum(a.transpose(axes), 0)
    expected = expected.take(ROWS, axes.index(0))
    found = np.zeros(expected.shape, "float32")
    call_native(func, a, ROWS, found)
    np.testing.assert_array_equal(found, expected)
    return func.script()


@pytest.mark.parametrize("target", [native_target(), HASWELL])
def test_where_data_tell_what_is_read_results_are_turned(target: Target) -> None:
    def build(x: Tensor, rows: Tensor) -> Tensor:
        return op.take(op.relu(op.permute_dims(x, (0, 2, 1))), rows, axis=0)

    text = check_looked_up(build, (0, 2, 1), target)
    assert "take_register[" in text
    assert "x_register" not in text


@pytest.mark.parametrize("target", [native_target(), HASWELL])
def test_places_that_each_lane_reads_by_itself_are_no_tile(target: Target) -> None:
    def build(x: Tensor, rows: Tensor) -> Tensor:
        return op.take(op.relu(op.permute_dims(x, (2, 1, 0))), rows, axis=2)

    assert "register" not in check_looked_up(build, (2, 1, 0), target)


@pytest.mark.parametrize("target", [native_target(), HASWELL])
@pytest.mark.parametrize("shape", [(8, 3, 70), (5, 33, 20), (2, 16, 16)])
def test_where_conditions_tell_what_is_read_results_are_turned(
    target: Target, shape: tuple[int, ...]
) -> None:
    def build(a: Tensor, b: Tensor) -> Tensor:
        return op.concat([op.permute_dims(a, (0, 2, 1)), op.permute_dims(b, (0, 2, 1))], 0)

    def reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.concatenate([a.mT, b.mT], 0)

    work = Workload(build, reference, shape, shape)
    _, func = scheduled(work.func, target=target)
    assert "concat_register[" in func.script()
    work.check(func)


@pytest.mark.parametrize("target", [native_target(), HASWELL])
def test_a_border_of_what_is_turned_is_not_read(target: Target) -> None:
    def build(a: Tensor) -> Tensor:
        return op.permute_dims(op.pad(op.relu(a), (3, 3, 2, 2)), (1, 0))

    work = Workload(build, lambda a: np.pad(np.maximum(a, 0), ((3, 3), (2, 2))).T, (40, 37))
    _, func = scheduled(work.func, target=target)
    work.check(func)


def test_an_operand_along_the_rows_is_not_gathered_to_turn_what_data_tell() -> None:
    def build(x: Tensor, rows: Tensor, y: Tensor) -> Tensor:
        return op.add(op.take(op.permute_dims(x, (0, 2, 1)), rows, axis=0), y)

    x, y = (placeholder(s, "float32", name=n) for s, n in (((4, 37, 50), "x"), ((6, 50, 37), "y")))
    rows = placeholder(ROWS.shape, "int64", name="rows")
    func = create_prim_func([x, rows, y, build(x, rows, y)])
    assert not fits_registers(blocks_in_order(func)[-1], SKYLAKE)
    assert "register" not in scheduled(func)[1].script()


def test_crossed_axis() -> None:
    def crossed(shape: tuple[int, ...], axes: tuple[int, ...]) -> int | None:
        return crossed_axis(blocks_in_order(transposed(*shape, axes=axes).func)[0])

    assert crossed((4, 5), (1, 0)) == 0
    assert crossed((3, 4, 5), (0, 2, 1)) == 1
    assert crossed((3, 4, 5), (1, 0, 2)) is None
    assert crossed((1, 5), (1, 0)) is None


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v2", "haswell", "neoverse-n1"])
@pytest.mark.parametrize("dtype", ["float64", "int64", "float32", "int8"])
def test_registers_of_few_elements(target: str, dtype: str) -> None:
    work = transposed(40, 37, dtype=dtype)
    rule, _ = scheduled(work.func, target=Target(f"llvm -mcpu={target}"))
    assert rule == "elementwise"


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((33, 47, 1), (1, 0, 2)),
        ((33, 1, 47), (2, 0, 1)),
        ((2, 1, 40, 33, 1), (0, 3, 2, 1, 4)),
        ((1, 20, 1, 36, 1), (3, 0, 1, 2, 4)),
    ],
)
def test_dimensions_of_one_element_are_none(shape: Shape, axes: tuple[int, ...]) -> None:
    """Axes behind the last that moves, and dimensions behind the last that is long."""
    work = transposed(*shape, axes=axes)
    check_rule(work, "elementwise")
    assert "register" in scheduled(work.func, target=HASWELL)[1].script()
