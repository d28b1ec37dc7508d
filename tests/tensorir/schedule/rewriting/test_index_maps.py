from __future__ import annotations

import pytest

from burnish.support.errors import LayoutError
from burnish.tensorir.arith import IndexMap
from burnish.tensorir.schedule.rewriting.index_maps import as_index_map, axes_map
from burnish.tests.tensorir.schedule.programs import matmul


def test_a_function_becomes_a_map_and_a_map_stays() -> None:
    m = as_index_map(lambda i, j: (j, i), 2)
    assert isinstance(m, IndexMap)
    assert (m.outputs[0], m.outputs[1]) == (m.inputs[1], m.inputs[0])
    assert as_index_map(m, 2) is m
    with pytest.raises(LayoutError, match="Expected a function from indices to indices"):
        as_index_map(3, 2)  # type: ignore[arg-type]


def test_a_map_of_a_blocks_axes_has_one_input_an_axis() -> None:
    assert len(axes_map(matmul(), "C", lambda *axes: axes, "test").inputs) == 3
    with pytest.raises(LayoutError):
        axes_map(matmul(), "C", lambda i: i, "test")
