"""Which axes blocks have in common."""

from __future__ import annotations

import numpy as np

from burnish.tensorir import operators as op
from burnish.tensorir.te.compute import Tensor
from burnish.tests.tuner.rules.checking import Shape, Workload
from burnish.tuner.tiling.nests import common_nests, nest_of, spatial_axes
from burnish.tuner.workload import blocks_in_order


def nests(build: object, *shapes: Shape) -> dict[str, tuple[tuple[int, ...], ...]] | None:
    func = Workload(build, np.abs, *shapes).func  # type: ignore[arg-type]
    found = common_nests(blocks_in_order(func))
    if found is None:
        return None
    return {n.block.name: (n.kept, n.units, n.rest) for n in found}


def test_rows_of_a_softmax() -> None:
    assert nests(op.softmax, (4, 5)) == {
        "softmax_max": ((0,), (), (1,)),
        "softmax_exp": ((0,), (), (1,)),
        "softmax_sum": ((0,), (), (1,)),
        "softmax_scale": ((0,), (), ()),
        "softmax": ((0,), (), (1,)),
    }


def test_columns_of_a_softmax() -> None:
    found = nests(lambda a: op.softmax(a, 0), (4, 5))
    assert found is not None
    assert found["softmax_max"] == ((0,), (), (1,))
    assert found["softmax"] == ((1,), (), (0,))


def test_units_are_no_rows() -> None:
    found = nests(op.softmax, (1, 5))
    assert found is not None
    assert found["softmax"] == ((), (0,), (1,))


def test_a_block_in_front_of_the_reduction() -> None:
    found = nests(lambda a, b: op.sum(op.matmul(a, b), 0), (3, 4), (4, 5))
    # The product keeps both its axes, the sum one.
    assert found is None
    found = nests(lambda a: op.sum(op.permute_dims(op.exp(a), (1, 0)), 1), (3, 4))
    assert found is not None
    assert found["exp"] == ((1,), (), (0,))


def test_symbolic_rows() -> None:
    found = nests(op.softmax, ("m", 5))
    assert found is not None
    assert found["softmax"] == ((0,), (), (1,))


def test_reductions_of_different_rows() -> None:
    def build(a: Tensor) -> Tensor:
        return op.add(op.sum(a, 0), op.sum(a, 1))

    assert (
        nests(build, (4, 4)) is not None
    )  # of equal extents: whether they merge is another matter
    assert nests(lambda a: op.sum(op.sum(a, 2), 0), (3, 4, 5)) is None


def test_nothing_reduced() -> None:
    assert nests(op.relu, (4, 5)) is None


def test_one_nest() -> None:
    block = blocks_in_order(Workload(lambda a: op.sum(a, (0, 2)), np.abs, (3, 1, 5)).func)[0]
    assert spatial_axes(block) == ()
    nest = nest_of(block, ())
    assert (nest.units, nest.rest) == ((0,), (1, 2))
