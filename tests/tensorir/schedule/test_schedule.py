"""Laws of schedules: whatever the primitives accept keeps the results, and the trace replays it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.support.errors import ScheduleError, ScheduleValueError
from burnish.support.structural import assert_structural_equal
from burnish.tensorir.analysis.paths import block_names
from burnish.tensorir.expr import Var
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import LoopRV, Schedule, Trace
from burnish.tensorir.verify.laws import verify_func
from burnish.tests.tensorir.schedule.programs import (
    assert_same,
    blur,
    chain,
    linear_relu,
    matmul,
    row_sum,
)

PROGRAMS: list[PrimFunc] = [
    linear_relu(6, 5, 4),
    matmul(4, 6, 5),
    chain(6, 5),
    blur(9),
    row_sum(3, 8),
    chain(Var("m"), 4),
    linear_relu(Var("m"), 3, 4),
]


def random_step(sch: Schedule, draw: st.DataObject) -> None:  # noqa: C901 - one case a primitive
    """One primitive with arguments drawn at random; it may refuse them."""
    names = [n for n in block_names(sch.func) if n != "root"]
    block = draw.draw(st.sampled_from(names))
    loops = sch.get_loops(block)
    others = [x for n in names for x in sch.get_loops(n)]
    loop: LoopRV = draw.draw(st.sampled_from(loops)) if loops else others[0]
    other = draw.draw(st.sampled_from(others))
    factor = draw.draw(st.integers(1, 5))
    scope = draw.draw(st.sampled_from(["global", "local"]))
    flag = draw.draw(st.booleans())
    match draw.draw(st.integers(0, 17)):
        case 0 | 1:
            sch.split(loop, [None, factor] if flag else [factor, None])
        case 2:
            sch.reorder(*draw.draw(st.permutations(loops)))
        case 3:
            sch.fuse(*loops[:2])
        case 4:
            sch.compute_at(block, other, preserve_unit_loops=flag)
        case 5 | 6:
            sch.reverse_compute_at(block, other, preserve_unit_loops=flag)
        case 7:
            sch.compute_inline(block)
        case 8:
            sch.reverse_compute_inline(block)
        case 9:
            sch.cache_read(block, 0, scope)
        case 10:
            sch.cache_write(block, 0, scope)
        case 11:
            sch.decompose_reduction(block, loop)
        case 12:
            sch.rfactor(loop, 0)
        case 13:
            sch.cache_inplace(block, 0, scope, loop if flag else None)
        case 14:
            sch.loop_partition(loop, [factor, None])
        case 15:
            sch.parallel(loop)
        case 16:
            sch.merge(loop, other)
        case _:
            sch.transform_layout(block, ("write", 0), lambda *i: tuple(reversed(i)))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.sampled_from(PROGRAMS), st.data())
def test_what_is_accepted_keeps_the_results_and_replays(
    func: PrimFunc, data: st.DataObject
) -> None:
    sch = Schedule(func, seed=0)
    for _ in range(data.draw(st.integers(1, 8))):
        before = (sch.func, len(sch.trace))
        try:
            random_step(sch, data)
        except ScheduleError:
            assert sch.func is before[0]
    assert_same(func, sch.func, *([5] if func.shape_vars else []))
    verify_func(sch.func)
    again = Schedule(func, seed=1)
    Trace.from_json(sch.trace.as_json()).apply_to(again)
    assert_structural_equal(sch.func, again.func)


def test_places_without_a_loop_are_not_loops() -> None:
    sch = Schedule(blur(8), seed=0)
    place = sch.sample_compute_location("B", decision=-1)
    with pytest.raises(ScheduleValueError, match=r"LoopRV\('root'\) is a place without a loop"):
        sch.split(place, [None, 2])
    with pytest.raises(
        ScheduleValueError, match="Expected a loop, such as get_loops gives; found '"
    ):
        sch.parallel("i")  # type: ignore[arg-type]
    with pytest.raises(ScheduleValueError, match="Expected at least one loop"):
        sch.reorder()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda s, i: s.split(i, 16), r"split: Expected a list of factors such as \[None, 16\]"),
        (lambda s, i: s.split(i, [None, 2.5]), r"split: .* found 2\.5 in \[None, 2\.5\]"),
        (lambda s, i: s.split(i, ["a", None]), "split: Expected integers, sampled values or None"),
        (lambda s, i: s.reorder([i, i]), "reorder: .* found a list. Pass the loops one by one"),
        (lambda s, i: s.parallel(s.get_block("B")), "parallel: .* found the block 'B'"),
        (lambda s, i: s.get_loops(i), "Expected a block .* found the loop 'i'"),
        (lambda s, i: s.compute_at("B", "i"), "compute_at: Expected a loop, .* found 'i'"),
        (lambda s, i: s.compute_at("B", s.get_block("C")), "compute_at: .* found the block 'C'"),
        (lambda s, i: s.cache_read("B", 1.5, "local"), "cache_read: .* asked for number 1.5"),
        (lambda s, i: s.annotate(i, "k", object()), "annotate: Expected a string as key and a num"),
        (lambda s, i: s.get_block("b"), "get_block: .* Did you mean 'B'?"),
        (lambda s, i: s.get_block("B", "mian"), "get_block: .* the module has 'main'. Did you"),
    ],
)
def test_wrong_arguments_are_named(
    wrong: Callable[[Schedule, LoopRV], object], message: str
) -> None:
    sch = Schedule(chain(8, 8), seed=0)
    with pytest.raises(ScheduleError, match=message):
        wrong(sch, sch.get_loops("B")[0])


def test_a_schedule_of_nothing_schedulable() -> None:
    with pytest.raises(ScheduleValueError, match="Expected an IRModule or a PrimFunc; found str"):
        Schedule("B = A + 1")  # type: ignore[arg-type]
