"""burnish.Schedule over modules and bare PrimFuncs."""

from __future__ import annotations

import numpy as np
import pytest

import burnish
from burnish.graphir.module import IRModule
from burnish.support.errors import ScheduleError, VerifyError
from burnish.tensorir.text.parser import parse_func
from burnish.tests.driver.programs import add_one, mixed


def test_a_bare_prim_func_is_wrapped() -> None:
    func = add_one()
    sch = burnish.Schedule(func, seed=0)
    assert isinstance(sch.mod, IRModule)
    assert list(sch.mod) == ["add_one"]
    sch.split(sch.get_loops("y")[0], [2, None])
    assert func.script() == add_one().script()
    assert len(sch.get_loops("y")) == 2


def test_a_module_is_scheduled_in_a_copy() -> None:
    module = mixed()
    sch = burnish.Schedule(module)
    sch.work_on("add_one")
    (loop,) = sch.get_loops("y")
    sch.vectorize(loop)
    assert "T.vectorized" in sch.mod.script()
    assert "T.vectorized" not in module.script()
    assert list(sch.mod) == list(module)


def test_a_scheduled_function_goes_back_into_its_module() -> None:
    module = burnish.IRModule.from_expr(add_one())
    sch = burnish.Schedule(module, seed=7)
    assert sch.seed == 7
    sch.vectorize(sch.get_loops("y")[0])
    module.update_func(module.get_global_var("add_one"), sch.mod["add_one"])
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    burnish.build(module)["main"](x, y)
    np.testing.assert_array_equal(y, x + 1)


def test_regions_that_a_user_declares_wrongly_are_refused() -> None:
    module = burnish.parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi])
            T.writes(B[vi])
            B[vi] = A[7 - vi]
""")
    with pytest.raises(VerifyError, match=r"'B' reads A\[7 - vi\]; declared: A\[vi\]"):
        burnish.Schedule(module)


def test_a_block_that_build_refuses_is_refused() -> None:
    func = parse_func("""
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i, k in T.grid(8, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi, vk] = T.float32(0)
            B[vi, vk] = B[vi, vk] + A[vi, vk]
""")
    for use in (burnish.Schedule, burnish.build):
        with pytest.raises(VerifyError, match="writes at the reduce axis 'vk'"):
            use(func)


def test_names_of_tvm_that_are_none_here_say_what_is() -> None:
    sch = burnish.Schedule(add_one())
    with pytest.raises(AttributeError, match="'annotate_buffer_access'; here it is nothing: what"):
        sch.annotate_buffer_access("y", 0, "read", lambda i: i)
    with pytest.raises(AttributeError, match=r"has no attribute 'splits'\. Did you mean 'split'\?"):
        sch.splits  # noqa: B018


def test_handles_may_be_removed() -> None:
    sch = burnish.Schedule(add_one())
    block = sch.get_block("y")
    sch.remove_rv(sch.get_loops(block)[0])
    sch.remove_rv(block)
    assert len(sch.trace) == 2
    other = burnish.Schedule(add_one())
    with pytest.raises(ScheduleError):
        other.remove_rv(sch.get_loops(block)[0])
