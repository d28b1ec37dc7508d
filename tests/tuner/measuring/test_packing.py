"""Packing of arguments by the layout maps that schedules leave."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.tensorir.arith import IndexMap
from burnish.tensorir.schedule import Schedule
from burnish.tests.tuner.programs import matmul
from burnish.tuner.measuring.packing import pack_arguments, pack_tensor
from burnish.vm.tensor import array


def test_a_permutation() -> None:
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    packed = pack_tensor(array(x), IndexMap.from_function(lambda i, j: (j, i), 2), None)
    np.testing.assert_array_equal(packed.data, x.T)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_panels_with_padding(dtype: str) -> None:
    x = array(np.arange(15).reshape(3, 5), dtype)
    panels = IndexMap.from_function(lambda i, j: (j // 4, i, j % 4), 2)
    packed = pack_tensor(x, panels, 7.0)
    assert (packed.shape, packed.dtype) == ((2, 3, 4), dtype)
    expected = np.full((2, 3, 4), 7.0)
    for i in range(3):
        for j in range(5):
            expected[j // 4, i, j % 4] = i * 5 + j
    np.testing.assert_array_equal(np.array(packed.tolist()), expected)


def test_an_axis_smaller_than_its_tile_is_padded_to_it() -> None:
    packed = pack_tensor(
        array(np.ones(3, np.float32)), IndexMap.from_function(lambda i: (i // 4, i % 4), 1), 0.0
    )
    assert packed.tolist() == [[1, 1, 1, 0]]


def test_arguments_without_maps_are_the_same_objects() -> None:
    arguments = [array(np.zeros((8, 8), np.float32)) for _ in range(3)]
    packed = pack_arguments(matmul(8), arguments)
    assert all(a is b for a, b in zip(arguments, packed, strict=True))


def test_maps_are_applied_in_order() -> None:
    sch = Schedule(matmul(8).with_attr("layout_free", [1]), seed=0)
    sch.transform_layout("C", ("read", 1), lambda k, j: (j, k))
    sch.transform_layout("C", ("read", 1), lambda j, k: (j // 2, k, j % 2))
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    arguments = [array(x), array(x), array(x)]
    packed = pack_arguments(sch.func, arguments)
    assert packed[0] is arguments[0]
    expected = x.T.reshape(4, 2, 8).transpose(0, 2, 1)
    np.testing.assert_array_equal(packed[1].data, expected)
