"""What is inlined, and what stays a block because it is costly."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from burnish import te
from burnish.support.node import walk
from burnish.tensorir import operators as op
from burnish.tensorir.expr import Call
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.te.compute import Tensor
from burnish.tests.tuner.rules.checking import Shape, Workload
from burnish.tuner.tiling.inline import MOST_NODES, inline_elementwise, is_move
from burnish.tuner.workload import blocks_in_order


def inlined(build: Callable[..., Tensor], *shapes: Shape) -> Schedule:
    sch = Schedule(Workload(build, np.abs, *shapes).func, seed=0)
    inline_elementwise(sch)
    return sch


def names(sch: Schedule) -> list[str]:
    return [b.name for b in blocks_in_order(sch.func)]


def test_a_chain_becomes_one_block() -> None:
    assert names(inlined(lambda a: op.relu(op.exp(op.add(a, a))), (4, 5))) == ["relu"]


def test_an_epilogue_of_a_reduction() -> None:
    assert names(inlined(lambda a: op.relu(op.exp(op.sum(a, 1))), (4, 5))) == ["sum", "relu"]


def test_a_costly_value_that_two_blocks_read_stays() -> None:
    assert "softmax_exp" in names(inlined(op.softmax, (4, 5)))


def test_a_costly_value_that_one_block_reads_twice_is_inlined() -> None:
    def silu(a: Tensor) -> Tensor:
        powers = op.exp(a)
        return op.divide(powers, op.add(powers, a))

    assert names(inlined(silu, (4, 5))) == ["divide"]


def test_a_costly_value_of_a_small_block_stays_and_a_cheap_one_does_not() -> None:
    assert names(inlined(lambda a, b: op.add(a, op.exp(b)), (4, 5), (5,))) == ["exp", "add"]
    assert names(inlined(lambda a, b: op.add(a, op.relu(b)), (4, 5), (5,))) == ["add"]


def test_values_used_twice_again_and_again_do_not_explode() -> None:
    def squares(a: Tensor) -> Tensor:
        for _ in range(40):
            a = op.multiply(a, a)
        return a

    sch = inlined(squares, (4,))
    assert 2 <= len(names(sch)) < 40
    for block in blocks_in_order(sch.func):
        assert sum(1 for _ in walk(block.body)) < 4 * MOST_NODES


def test_kept_buffers_stay_but_for_moves() -> None:
    def build(a: Tensor, b: Tensor) -> Tensor:
        return op.matmul(op.exp(a), op.permute_dims(b, (1, 0)))

    workload = Workload(build, np.abs, (4, 5), (6, 5))
    sch = Schedule(workload.func, seed=0)
    blocks = blocks_in_order(sch.func)
    assert [is_move(b) for b in blocks] == [False, True, False]
    inline_elementwise(sch, keep=[b.writes[0].buffer for b in blocks[:2]])
    assert names(sch) == ["exp", "matmul"]
    product = blocks_in_order(sch.func)[1]
    assert not any(isinstance(n, Call) and n.op == "exp" for n in walk(product.body))


def test_a_sum_that_is_gathered_from_two_places_stays() -> None:
    """As when an image is resized: rows first, then columns."""
    rows, columns = te.placeholder((4, 6), name="a"), te.placeholder((5, 9), name="a")
    left, right = (te.placeholder((9,), "int64", name) for name in ("left", "right"))

    def resized(axis: int) -> Schedule:
        a = rows if axis == 1 else columns
        total = op.add(a, op.relu(a))
        pair = [op.take(total, places, axis=axis) for places in (left, right)]
        func = te.create_prim_func([a, left, right, op.add(*pair)])
        sch = Schedule(func, seed=0)
        inline_elementwise(sch)
        return sch

    assert names(resized(1)) == ["add", "add_1"]
    # Whole rows are no gathers.
    assert names(resized(0)) == ["add_1"]
    # Neither is one place worth a block.
    once = op.take(op.add(rows, op.relu(rows)), left, axis=1)
    sch = Schedule(te.create_prim_func([rows, left, once]), seed=0)
    inline_elementwise(sch)
    assert names(sch) == ["take"]
