"""Blocks disappear; inits move in front of reduce loops or are guarded; updates are contracted."""

from __future__ import annotations

import pytest

from burnish.support.errors import CodegenError
from burnish.support.node import walk
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.lowering.lower_blocks import lower_blocks
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.stmt import Block, BlockRealize
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.text.printer import print_func


def body(func: PrimFunc) -> str:
    return print_func(func).split("\n", 2)[2].rstrip()


SUM = """
@T.prim_func
def f(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    T.func_attr({{}})
    for {loops}:
        with T.block("B"):
            vi = T.axis.spatial(4, {i})
            vk = T.axis.reduce(8, {k})
            {where}
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk] * A[vi, vk]
"""


def lowered(loops: str, i: str, k: str, where: str = "T.where(True)") -> str:
    text = SUM.format(loops=loops, i=i, k=k, where=where)
    func = lower_blocks(parse_func(text))
    assert not any(isinstance(n, Block | BlockRealize) for n in walk(func.body))
    return body(func)


def test_init_stands_in_front_of_the_reduce_loop() -> None:
    assert (
        lowered("i, k in T.grid(4, 8)", "i", "k")
        == """\
    for i in range(4):
        B[i] = T.float32(0)
        for k in range(8):
            B[i] = T.fma(A[i, k], A[i, k], B[i])"""
    )


def test_init_keeps_the_spatial_loops_below_the_reduce_loop() -> None:
    assert (
        lowered("k, i in T.grid(8, 4)", "i", "k")
        == """\
    for i in range(4):
        B[i] = T.float32(0)
    for k, i in T.grid(8, 4):
        B[i] = T.fma(A[i, k], A[i, k], B[i])"""
    )


def test_init_of_a_split_reduction_runs_once() -> None:
    assert (
        lowered("ko, i, ki in T.grid(2, 4, 4)", "i", "ko * 4 + ki")
        == """\
    for i in range(4):
        B[i] = T.float32(0)
    for ko, i, ki in T.grid(2, 4, 4):
        B[i] = T.fma(A[i, ko * 4 + ki], A[i, ko * 4 + ki], B[i])"""
    )


def test_a_loop_that_is_both_spatial_and_reduce_guards_the_init() -> None:
    assert (
        lowered("f in range(32)", "f // 8", "f % 8")
        == """\
    for f in range(32):
        if f % 8 == 0:
            B[f // 8] = T.float32(0)
        B[f // 8] = T.fma(A[f // 8, f % 8], A[f // 8, f % 8], B[f // 8])"""
    )


def test_a_predicate_guards_init_and_update() -> None:
    text = lowered("io, ii, k in T.grid(2, 3, 8)", "io * 3 + ii", "k", "T.where(io * 3 + ii < 4)")
    assert text.count("if io * 3 + ii < 4:") == 2


def test_only_the_stored_element_itself_is_contracted() -> None:
    func = parse_func("""
@T.prim_func
def f(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4, 8), "float32")):
    for i, k in T.grid(4, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SS", [i, k])
            C[vi, vk] = C[vi, vk] + A[vi, vk] * A[vi, vk]
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            B[vi] = A[vi, vk] + B[vi] * A[vi, vk]
""")
    assert "fma" not in print_func(lower_blocks(func))


def test_intermediate_buffers_become_allocations() -> None:
    func = parse_func("""
@T.prim_func
def f(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    X = T.alloc_buffer((4,), "float32")
    for i in range(4):
        with T.block("X"):
            vi = T.axis.spatial(4, i)
            X[vi] = A[vi]
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = X[vi]
""")
    assert 'X = T.allocate([4], "float32"' in print_func(lower_blocks(func))


MATCH = """
@T.prim_func
def f(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, 16), "float32")):
    for io, jo in T.grid(2, 4):
        with T.block("outer"):
            vio, vjo = T.axis.remap("SS", [io, jo])
            a = T.match_buffer(A[vio * 4:vio * 4 + 4, vjo * 4:vjo * 4 + 4], (4, 4), "float32")
            for i, j in T.grid(4, 4):
                with T.block("inner"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vio * 4 + vi, vjo * 4 + vj] = a[vi, vj]
"""


def test_match_buffer_becomes_its_source() -> None:
    assert "= A[io * 4 + i, jo * 4 + j]" in print_func(lower_blocks(parse_func(MATCH)))


def test_match_buffer_of_another_dtype_is_an_error() -> None:
    text = MATCH.replace('(4, 4), "float32")', '(4, 4), "int32")').replace(
        "a[vi, vj]", 'T.cast(a[vi, vj], "float32")'
    )
    func = parse_func(text)
    with pytest.raises(CodegenError, match="match_buffer a of A must keep its dtype"):
        lower_blocks(func)


def test_a_function_without_blocks_is_returned_as_it_is() -> None:
    func = lower_blocks(
        parse_func(SUM.format(loops="i, k in T.grid(4, 8)", i="i", k="k", where="T.where(True)"))
    )
    assert print_func(lower_blocks(func)) == print_func(func)


COPIES = """
@T.prim_func
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    T.func_attr({"tir.noalias": True})
    D = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = A[vi]
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = D[vi]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]
"""


def streamed(block: str) -> PrimFunc:
    sch = Schedule(parse_func(COPIES))
    sch.annotate(block, "non_temporal", 1)
    return lower_blocks(sch.func)


def test_parameters_that_are_written_past_the_caches_are_listed() -> None:
    assert streamed("C").attr("non_temporal") == [2]


@pytest.mark.parametrize("block", ["B", "D"])
def test_what_is_read_again_or_no_parameter_stays_in_the_caches(block: str) -> None:
    assert streamed(block).attr("non_temporal") is None


TWO_RESULTS = """
@T.prim_func
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    T.func_attr({"tir.noalias": True})
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
            C[vi] = A[vi]
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            M = T.match_buffer(B[vi], ())
            A[vi] = M[()]
"""


def test_of_several_results_those_that_no_view_reads_are_listed() -> None:
    sch = Schedule(parse_func(TWO_RESULTS))
    sch.annotate("B", "non_temporal", 1)
    assert lower_blocks(sch.func).attr("non_temporal") == [2]
