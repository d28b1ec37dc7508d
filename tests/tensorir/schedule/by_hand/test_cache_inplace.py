from __future__ import annotations

import pytest

from burnish.support.errors import DependenceError
from burnish.tensorir.schedule import Schedule
from burnish.tests.tensorir.schedule.programs import assert_same, matmul, program


def test_cache_inplace_around_the_nest() -> None:
    func = matmul(4, 4, 4)
    sch = Schedule(func, seed=0)
    c = sch.get_block("C")
    sch.decompose_reduction(c, sch.get_loops(c)[0])
    load, store = sch.cache_inplace(c, 0, "local")
    assert [sch.get(b).name for b in (load, store)] == ["C_local", "C_local_1"]
    assert_same(func, sch.func)


def test_in_place_copies_exclude_other_users_between_them() -> None:
    sch = Schedule(matmul(), seed=0)
    c = sch.get_block("C")
    k = sch.get_loops(c)[2]
    sch.decompose_reduction(c, k)
    with pytest.raises(DependenceError, match="'C_init' uses 'C' between the two copies"):
        sch.cache_inplace(c, 0, "local")
    sch.cache_inplace(c, 0, "local", sch.get_loops(c)[1])


def test_copies_around_an_update_hold_no_element_of_another_thread() -> None:
    text = """
for i in range(16):
    with T.block("F"):
        vi = T.axis.remap("S", [i])
        C[vi] = A[vi]
for i in T.{kind}(4):
    for j in range(4):
        with T.block("C"):
            vi = T.axis.spatial(16, {index})
            C[vi] = C[vi] + T.float32(1)
"""
    for kind, index in (("parallel", "i * 4 + j"), ("serial", "j * 4 + i")):
        func = program(text.format(kind=kind, index=index), A="(16,)", C="(16,)")
        sch = Schedule(func, seed=0)
        sch.cache_inplace("C", 0, "global", sch.get_loops("C")[0])
        assert_same(func, sch.func)
    func = program(text.format(kind="parallel", index="j * 4 + i"), A="(16,)", C="(16,)")
    sch = Schedule(func, seed=0)
    with pytest.raises(DependenceError, match="that others update at the same time"):
        sch.cache_inplace("C", 0, "global", sch.get_loops("C")[0])
