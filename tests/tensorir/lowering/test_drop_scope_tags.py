from __future__ import annotations

import pytest

from burnish.support.errors import ScheduleValueError
from burnish.support.node import walk
from burnish.tensorir.buffer import Buffer
from burnish.tensorir.lowering.drop_scope_tags import drop_scope_tags
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.text.printer import print_func
from burnish.tests.tensorir.schedule.programs import matmul
from burnish.tests.tensorir.schedule.replaying import assert_replays, assert_same_natively

VIEWS = """
@T.prim_func
def main(A: T.Buffer((4, 8), "float32", scope="global.A_reg"), C: T.Buffer((4, 8), "float32")):
    B = T.alloc_buffer((4, 8), scope="local.B_reg")
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            T.reads(B[vi, 0:8])
            T.writes(C[vi, 0:8])
            M = T.match_buffer(B[vi, 0:8], (8,), scope="local.B_reg")
            for j in range(8):
                C[vi, j] = M[j] * T.float32(2)
"""


def test_a_scope_with_a_tag_is_the_memory_of_the_scope() -> None:
    func = parse_func(VIEWS)
    assert 'scope="global.A_reg"' in print_func(func)
    lowered = drop_scope_tags(func)
    scopes = {n.name: n.scope for n in walk(lowered.body) if isinstance(n, Buffer)}
    assert scopes == {"A": "global", "B": "local", "C": "global", "M": "local"}
    assert lowered.buffers[0].scope == "global"
    assert drop_scope_tags(lowered) is lowered
    plain = parse_func(VIEWS.replace(".A_reg", "").replace(".B_reg", ""))
    assert print_func(lowered) == print_func(plain)
    assert_same_natively(func, plain)


def test_copies_in_scopes_with_tags() -> None:
    func = matmul(8, 8, 8)
    sch = Schedule(func, seed=0)
    i, j, k = sch.get_loops("C")
    sch.reorder(i, k, j)
    sch.compute_at(sch.cache_read("C", 0, "global.A_reg"), i)
    sch.cache_read("C", 1, "shared.dyn")
    copy = sch.cache_write("C", 0, "global.C_reg")
    sch.set_scope("A_global_A_reg", 0, "local.A_reg")
    assert [b.scope for b in sch.get(sch.get_block("root")).alloc_buffers] == [
        "local.A_reg",
        "shared.dyn",
        "global.C_reg",
    ]
    assert sch.get(copy).name == "C_global_C_reg"
    assert_replays(func, sch)
    assert_same_natively(func, sch.func)


@pytest.mark.parametrize("scope", ["wmma.matrix_a", "global.", "global.a-b", ".tag", "A.global"])
def test_what_is_no_scope(scope: str) -> None:
    with pytest.raises(ScheduleValueError, match="Expected a storage scope, one of global"):
        Schedule(matmul(), seed=0).cache_read("C", 0, scope)
