from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import burnish
from burnish.support.errors import LayoutError, ScheduleError
from burnish.support.node import walk
from burnish.support.structural import assert_structural_equal
from burnish.support.target import Target
from burnish.tensorir.expr import IntImm
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.lowering.pipeline import lower_func
from burnish.tensorir.schedule import Schedule, foreign_memory, tensor_intrin
from burnish.tensorir.schedule.tensor_intrin import TensorIntrin
from burnish.tensorir.schedule.trace.handles import BlockRV
from burnish.tensorir.stmt import Allocate
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.text.printer import print_func
from burnish.tests.tensorir.extern_programs import DOT, dot_intrin, product
from burnish.tests.tensorir.schedule.programs import matmul
from burnish.tuner.analytic import schedule_analytically


@pytest.fixture(autouse=True)
def intrinsics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_intrin, "_REGISTERED", dict(tensor_intrin._REGISTERED))
    TensorIntrin.register("dot_c", *dot_intrin(", strides=[s, 1]", "B.strides[0]"))
    TensorIntrin.register("dot_c_compact", *dot_intrin("", "16"))


def tensorized(name: str = "dot_c") -> Schedule:
    """The product, of whose tiles a function of C makes sixteen terms each."""
    sch = burnish.Schedule(product())
    i, j, k = sch.get_loops("C")
    j0, j1 = sch.split(j, [None, 4])
    k0, k1 = sch.split(k, [None, 16])
    sch.reorder(i, j0, k0, j1, k1)
    sch.decompose_reduction("C", k0)
    sch.tensorize(j1, name)
    return sch


def check(sch: Schedule) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((8, 64), np.float32), rng.random((32, 64), np.float32)
    c = np.zeros((8, 32), np.float32)
    burnish.build(sch.mod, objects=[DOT])["main"](a, b, c)
    np.testing.assert_allclose(c, a @ b.T, rtol=1e-5)


BLOCK = "C_update_o"


def plain(sch: Schedule) -> None:
    pass


def parallel(sch: Schedule) -> None:
    sch.parallel(sch.get_loops(BLOCK)[0])


def copied(sch: Schedule) -> None:
    copy = sch.cache_read(BLOCK, 2, "global")
    sch.compute_at(copy, sch.get_loops(BLOCK)[1])


def copied_below(sch: Schedule) -> None:
    copy = sch.cache_read(BLOCK, 2, "local")
    sch.compute_at(copy, sch.get_loops(BLOCK)[2])


def copied_and_moved(sch: Schedule) -> None:
    copy = sch.cache_read(BLOCK, 1, "global")
    sch.set_scope(copy, 0, "local")
    sch.vectorize(sch.get_loops(copy)[-1])


@pytest.mark.parametrize("change", [plain, parallel, copied, copied_below, copied_and_moved])
def test_calls_move_with_their_blocks_and_read_copies(change: Callable[[Schedule], None]) -> None:
    sch = tensorized()
    change(sch)
    check(sch)


def test_an_intrinsic_that_states_no_strides_wants_a_compact_operand() -> None:
    with pytest.raises(LayoutError, match="needs a stride of 16 in 'B'"):
        tensorized("dot_c_compact")


REFUSED: dict[str, Callable[[Schedule, BlockRV], object]] = {
    "set_scope": lambda sch, copy: sch.set_scope(copy, 0, "register"),
    "storage_align": lambda sch, copy: sch.storage_align(copy, 0, 0, 32, 1),
    "set_dtype": lambda sch, copy: sch.set_dtype(copy, 0, "float64"),
    "transform_layout": lambda sch, copy: sch.transform_layout(
        copy, ("write", 0), lambda i, j: (j, i)
    ),
    "compute_inline": lambda sch, copy: sch.compute_inline(copy),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_function_has_a_pointer_to_keeps_its_layout(name: str) -> None:
    sch = burnish.Schedule(_direct())
    copy = sch.cache_read("tile", 0, "global")
    before, steps = sch.mod.script(), len(sch.trace)
    with pytest.raises(ScheduleError) as error:
        REFUSED[name](sch, copy)
    found = str(error.value)
    assert "A function of C is called with a pointer to" in found or "An intrinsic uses" in found
    assert sch.mod.script() == before
    assert len(sch.trace) == steps


def test_the_consumer_of_what_a_function_writes_is_not_put_into_it() -> None:
    sch = burnish.Schedule(_direct())
    consumer = sch.cache_write("tile", 0, "global")
    with pytest.raises(ScheduleError):
        sch.reverse_compute_inline(consumer)


def _direct() -> PrimFunc:
    return parse_func(
        """
@T.prim_func
def main(A: T.Buffer((4, 16)), B: T.Buffer((4, 16))):
    for i in range(4):
        with T.block("tile"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi, 0:16])
            T.writes(B[vi, 0:16])
            T.evaluate(
                T.call_extern(
                    "int32", "add_one", B.access_ptr("w", offset=vi * 16),
                    A.access_ptr("r", offset=vi * 16), 16,
                )
            )
"""
    )


def test_a_tile_that_a_function_is_told_the_strides_of_takes_its_own_place() -> None:
    sch = tensorized()
    for n, depth in ((1, 1), (2, 2)):
        copy = sch.cache_read(BLOCK, n, "global")
        sch.compute_at(copy, sch.get_loops(BLOCK)[depth])
    lowered = lower_func(sch.func, Target("x86-64-v3"))
    sizes = [n.buffer.shape[0] for n in walk(lowered.func.body) if isinstance(n, Allocate)]
    assert [s.value for s in sizes if isinstance(s, IntImm)] == [64, 64]
    text = print_func(lowered.func)
    assert 'B_global.access_ptr("r"), 4, 16, 16)' in text
    assert_structural_equal(parse_func(text), lowered.func)
    check(sch)


def test_a_tile_of_fixed_strides_stays_as_it_is() -> None:
    TensorIntrin.register("dot_c_fixed", *dot_intrin(", strides=[64, 1]", "64"))
    sch = tensorized("dot_c_fixed")
    copy = sch.cache_read(BLOCK, 2, "global")
    sch.compute_at(copy, sch.get_loops(BLOCK)[2])
    lowered = lower_func(sch.func, Target("x86-64-v3"))
    (size,) = [n.buffer.shape[0] for n in walk(lowered.func.body) if isinstance(n, Allocate)]
    assert isinstance(size, IntImm)
    assert size.value == 32 * 64
    check(sch)


def test_a_function_that_calls_none_is_not_walked_by_each_rule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def walked(*_: object) -> None:
        raise AssertionError("there is no pointer to look for")

    monkeypatch.setattr(foreign_memory, "walk", walked)
    sch = Schedule(matmul(8, 8, 8), seed=0)
    sch.compute_inline(sch.cache_read("C", 0, "global"))
    assert schedule_analytically(matmul(64, 64, 64), Target("x86-64-v3")).attr("is_scheduled")
