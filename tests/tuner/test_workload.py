"""What a function computes, as schedules want to know it."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.tensorir import operators as op
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.te import compute as te
from burnish.tensorir.te.compute import Tensor
from burnish.tests.strategies.schedules import CORPUS
from burnish.tests.tuner.rules.checking import Shape, Workload
from burnish.tuner.workload import (
    Matmul,
    block_named,
    blocks_in_order,
    is_empty,
    is_reduction,
    is_spatial,
    last_axis,
    load_is_contiguous,
    match_matmul,
    non_unit_axes,
    static_extent,
    uses_intrinsic,
)


def test_blocks_in_order() -> None:
    func = CORPUS["softmax"]()
    blocks = blocks_in_order(func)
    assert all(block_named(func, b.name) is b for b in blocks)
    assert [is_reduction(b) for b in blocks] == [not is_spatial(b) for b in blocks]
    assert sum(is_reduction(b) for b in blocks) == 2


def test_extents() -> None:
    (block,) = blocks_in_order(Workload(op.relu, np.abs, (1, "m", 5)).func)
    assert non_unit_axes(block) == [1, 2]
    assert [static_extent(block, i) for i in range(3)] == [1, None, 5]


@pytest.mark.parametrize(("shape", "empty"), [((2, 3), False), ((2, 0), True), (("m", 3), False)])
def test_emptiness(shape: Shape, empty: bool) -> None:
    assert is_empty(Workload(op.relu, np.abs, shape).func) is empty


def test_intrinsics() -> None:
    def uses(build: object) -> bool:
        return uses_intrinsic(blocks_in_order(Workload(build, np.abs, (4,)).func)[0])  # type: ignore[arg-type]

    assert uses(op.exp)
    assert not uses(op.relu)
    assert not uses(op.negative)


def matched(func: PrimFunc) -> Matmul | None:
    return next((m for b in blocks_in_order(func) if (m := match_matmul(b)) is not None), None)


@pytest.mark.parametrize(
    ("a", "b", "ta", "tb", "roles"),
    [
        ((4, 5), (5, 6), False, False, ((0,), (1,), ())),
        ((5, 4), (5, 6), True, False, ((0,), (1,), ())),
        ((4, 5), (6, 5), False, True, ((0,), (1,), ())),
        ((3, 4, 5), (3, 5, 6), False, False, ((1,), (2,), (0,))),
        ((3, 4, 5), (5, 6), False, False, ((0, 1), (2,), ())),
        ((4, 5), (3, 5, 6), False, False, ((1,), (0, 2), ())),
        ((5,), (5, 6), False, False, ((), (0,), ())),
        ((1, 5), (5, 6), False, False, ((0,), (1,), ())),
        ((1, 5), (5, 1), False, False, ((0,), (1,), ())),
        ((4, 5), (5,), False, False, ((), (0,), ())),
    ],
)
def test_products(
    a: Shape, b: Shape, ta: bool, tb: bool, roles: tuple[tuple[int, ...], ...]
) -> None:
    func = Workload(
        lambda x, y: op.matmul(x, y, transpose_a=ta, transpose_b=tb), np.matmul, a, b
    ).func
    found = matched(func)
    assert found is not None
    assert (found.rows, found.columns, found.batch) == roles
    block = block_named(func, found.block)
    assert [block.iter_vars[i].kind for i in found.reduce] == ["reduce"]
    assert block.reads[found.w_read].buffer is found.w.buffer
    assert block.reads[found.x_read].buffer is found.x.buffer
    column = block.iter_vars[found.columns[-1]].var
    assert load_is_contiguous(found.w, column) == (not tb and len(b) > 1)


def test_the_columns_of_a_product_of_one_column_are_its_rows() -> None:
    func = Workload(op.matmul, np.matmul, (4, 5), (5, 1)).func
    (block,) = blocks_in_order(func)
    found = match_matmul(block, last_axis(block))
    assert found is not None
    assert (found.rows, found.columns, found.batch) == ((1,), (0,), ())
    assert found.w.buffer is func.buffers[0]


def test_a_product_of_halves_is_one_too() -> None:
    found = matched(Workload(op.matmul, np.matmul, (4, 5), (5, 6), dtype="float16").func)
    assert found is not None
    assert str(found.x.dtype) == "float16"


def _gram(a: Tensor) -> Tensor:
    k = te.reduce_axis((0, 5), "k")
    return te.compute((4, 4), lambda i, j: te.sum(a[i, k] * a[j, k], axis=[k]), "C")


def _squares(a: Tensor) -> Tensor:
    k = te.reduce_axis((0, 5), "k")
    return te.compute((4,), lambda i: te.sum(a[i, k] * a[i, k], axis=[k]), "C")


def _shifted(a: Tensor, b: Tensor) -> Tensor:
    k = te.reduce_axis((0, 4), "k")
    return te.compute((4, 4), lambda i, j: te.sum(a[i, k + 1] * b[k, j], axis=[k]), "C")


def test_both_operands_may_be_one_buffer() -> None:
    found = matched(Workload(_gram, np.matmul, (4, 5)).func)
    assert found is not None
    assert (found.rows, found.columns, found.batch, found.reduce) == ((0,), (1,), (), (2,))
    assert found.x.buffer is found.w.buffer
    assert found.x_read == found.w_read == 0


def test_what_is_no_product() -> None:
    assert matched(Workload(lambda a: op.sum(a, 1), np.sum, (4, 5)).func) is None
    assert matched(Workload(_squares, np.sum, (4, 5)).func) is None
    assert matched(Workload(_shifted, np.sum, (4, 5), (4, 4)).func) is None
    assert matched(CORPUS["convolution"]()) is None
    assert matched(CORPUS["softmax"]()) is None
