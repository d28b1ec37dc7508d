from __future__ import annotations

import pytest

from burnish.support.errors import DependenceError, LoopKindError, ScheduleValueError
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.text.parser import parse_func
from burnish.tests.tensorir.schedule.programs import assert_same, blur, chain, matmul, program
from burnish.tests.tensorir.schedule.replaying import assert_replays


def test_kinds() -> None:
    func = matmul(4, 8, 2)
    sch = Schedule(func, seed=0)
    i, j, k = sch.get_loops("C")
    sch.reorder(i, k, j)
    sch.parallel(i)
    sch.unroll(k)
    sch.vectorize(j)
    assert [sch.get(x).kind for x in (i, k, j)] == ["parallel", "unrolled", "vectorized"]
    assert_same(func, sch.func)


def test_vectorizing_a_reduction_is_refused_with_advice() -> None:
    sch = Schedule(matmul(), seed=0)
    k = sch.get_loops("C")[2]
    with pytest.raises(LoopKindError, match=r"reduce axis 'v_k' of 'C'.*Use rfactor"):
        sch.vectorize(k)
    with pytest.raises(LoopKindError, match=r"parallel: .*Use rfactor"):
        sch.parallel(k)


def test_bind_takes_a_reduction_on_threads_only() -> None:
    sch = Schedule(matmul(), seed=0)
    i, _, k = sch.get_loops("C")
    sch.bind(i, "blockIdx.x")
    sch.bind(k, "threadIdx.x")
    assert sch.get(k).thread == "threadIdx.x"
    with pytest.raises(ScheduleValueError, match="Expected a thread axis"):
        sch.bind(sch.get_loops("C")[1], "lane")


@pytest.mark.parametrize("first", ["parallel", "vectorized", "unrolled", "thread_binding"])
@pytest.mark.parametrize("second", ["parallel", "vectorized", "unrolled", "thread_binding"])
def test_a_loop_has_the_kind_it_was_given_last(first: str, second: str) -> None:
    func = matmul()
    sch = Schedule(func, seed=0)
    i, k = sch.get_loops("C")[0], sch.get_loops("C")[2]
    sch.reorder(k, i)
    mark = {
        "parallel": sch.parallel,
        "vectorized": sch.vectorize,
        "unrolled": sch.unroll,
        "thread_binding": lambda loop: sch.bind(loop, "blockIdx.x"),
    }
    mark[first](i)
    mark[second](i)
    loop = sch.get(i)
    assert (loop.kind, loop.thread) == (second, "blockIdx.x" if "thread" in second else "")
    assert_same(func, sch.func)


THREADS = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,), scope="shared")
    for i in T.thread_binding(8, thread="threadIdx.x"):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[7 - vi]
"""


def test_threads_that_hand_values_to_one_another_are_no_loop() -> None:
    sch = Schedule(parse_func(THREADS, {}), seed=0)
    with pytest.raises(DependenceError, match="writes in a different iteration of 'i'"):
        sch.unroll(sch.get_loops("C")[0])


def test_only_inner_loops_are_vectorized() -> None:
    sch = Schedule(chain(), seed=0)
    i, j = sch.get_loops("B")
    sch.vectorize(j)
    with pytest.raises(LoopKindError, match="holds the vectorized loop 'j'"):
        sch.vectorize(i)


SAME_ELEMENT = """
@T.prim_func
def main(A: T.Buffer((4, 5), "float32"), B: T.Buffer((4,), "float32")):
    for i, j in T.grid(4, 5):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi, 0]
"""


def test_iterations_that_write_one_element_do_not_run_at_once() -> None:
    sch = Schedule(parse_func(SAME_ELEMENT, {}), seed=0)
    i, j = sch.get_loops("B")
    with pytest.raises(DependenceError, match="Several iterations of 'j' may write the same"):
        sch.parallel(j)
    sch.parallel(i)


def test_recomputed_overlaps_are_private() -> None:
    func = blur(16)
    sch = Schedule(func, seed=0)
    c0, _ = sch.split(sch.get_loops("C")[0], [4, 4])
    sch.compute_at("B", c0)
    sch.parallel(c0)
    assert_same(func, sch.func)


CARRIED = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[T.max(vi - 1, 0)]
"""


def test_a_value_carried_from_one_iteration_to_another() -> None:
    sch = Schedule(parse_func(CARRIED, {}), seed=0)
    with pytest.raises(DependenceError, match="writes in a different iteration of 'i'"):
        sch.parallel(sch.get_loops("C")[0])


def test_checks_can_be_switched_off() -> None:
    sch = Schedule(parse_func(CARRIED, {}), seed=0, enable_checks=False)
    sch.parallel(sch.get_loops("C")[0])


SCAN = """
@T.prim_func
def main(A: T.Buffer((2, 8), "float32"), B: T.Buffer((9,), "float32")):
    for i in range(8):
        with T.block("scan"):
            vi = T.axis.spatial(8, i)
            B[vi + 1] = B[vi + 1] + B[vi]
    for i, j in T.grid(2, 8):
        with T.block("last"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vj] = A[vi, vj]
"""


@pytest.mark.parametrize("primitive", ["parallel", "vectorize"])
def test_axes_called_spatial_are_not_believed_blindly(primitive: str) -> None:
    sch = Schedule(parse_func(SCAN), seed=0)
    with pytest.raises(DependenceError, match="'scan' reads elements of its own output that other"):
        getattr(sch, primitive)(sch.get_loops("scan")[0])
    i, j = sch.get_loops("last")
    with pytest.raises(DependenceError, match="may write the same elements through the block 'la"):
        getattr(sch, primitive)(i)
    getattr(sch, primitive)(j)
    outer, inner = sch.split(sch.get_loops("scan")[0], [None, 2])
    with pytest.raises(DependenceError, match="so that their order matters"):
        sch.reorder(inner, outer)


@pytest.mark.parametrize("primitive", ["parallel", "vectorize"])
def test_axes_that_are_not_spatial_after_all(primitive: str) -> None:
    text = """
for i in range(8):
    with T.block("B"):
        vi = T.axis.remap("S", [i])
        B[vi] = A[vi]
        B[vi + 1] = A[vi] + T.float32(1)
"""
    sch = Schedule(program(text, A="(8,)", B="(9,)"), seed=0)
    with pytest.raises(DependenceError, match="Several iterations of 'i' may write the same"):
        getattr(sch, primitive)(sch.get_loops("B")[0])


def test_a_loop_over_an_opaque_axis_keeps_its_order() -> None:
    text = """
for i in range(8):
    with T.block("B"):
        vi = T.axis.opaque(8, i)
        T.reads(A[vi])
        T.writes(B[vi])
        B[vi] = A[vi]
"""
    sch = Schedule(program(text, A="(8,)", B="(8,)"), seed=0)
    with pytest.raises(LoopKindError, match="'i' is bound to the opaque axis 'vi' of 'B'"):
        sch.parallel(sch.get_loops("B")[0])


def test_the_trace_says_that_calls_of_c_run_one_by_one() -> None:
    func = parse_func("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = T.call_extern("float32", "cosf", A[vi])
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]
""")
    sch = Schedule(func, seed=0)
    for name, line in (("B", 'vectorize(loop=l1, one_by_one="cosf")'), ("C", "vectorize(loop=l3)")):
        sch.vectorize(sch.get_loops(sch.get_block(name))[0])
        assert str(sch.trace).rstrip().endswith(line)
    assert_replays(func, sch)
