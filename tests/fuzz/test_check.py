from __future__ import annotations

import numpy as np
import pytest

from burnish.support.errors import CodegenError
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.text.parser import parse_func
from burnish.tests.fuzz.check import (
    Arguments,
    Broken,
    broken_law,
    check_form,
    check_results,
    check_schedule,
    expected,
    law,
)
from burnish.tests.strategies.corpus import PROGRAMS

WRONG = """
@T.prim_func
def main(A: T.Buffer((6, 10), "float32"), C: T.Buffer((10, 6), "float32")):
    for i, j in T.grid(10, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vj, vi] * T.float32(BY)
"""


def wrong(by: str = "3") -> PrimFunc:
    return parse_func(WRONG.replace("BY", by))


def test_a_schedule_that_keeps_the_laws() -> None:
    func, _ = expected("transpose")
    sch = Schedule(func, seed=0)
    sch.parallel(sch.get_loops("B")[0])
    for variant in (0, 1):
        assert check_schedule("transpose", sch, variant) == ""
    assert broken_law("transpose", sch.trace, 0) is None


def test_wrong_results_are_found() -> None:
    check_results("transpose", wrong("2"), 0)
    with pytest.raises(Broken, match="results: AssertionError"):
        check_results("transpose", wrong(), 0)


def test_results_outside_of_an_array_are_found() -> None:
    func, _ = expected("transpose")
    arguments = Arguments(func, ())
    arguments.raw[1][0] = 1.0
    with pytest.raises(AssertionError):
        arguments.outputs()


def test_ill_formed_functions_are_found() -> None:
    with pytest.raises(Broken, match="verify_bounds: VerifyError"):
        check_form(parse_func(WRONG.replace("BY", "3").replace("A[vj, vi]", "A[vi, vj]")))


def test_no_machine_code_is_no_failure() -> None:
    with pytest.raises(CodegenError), law("code generation"):
        raise CodegenError("no")
    with pytest.raises(Broken) as caught, law("lowering"):
        raise ValueError("what")
    assert caught.value.signature == "lowering: ValueError"


def test_inputs_are_defined_for_every_dtype() -> None:
    for name in ("masked", "quantized", "gather", "doubles"):
        func = PROGRAMS[name]()
        for a, written in zip(
            Arguments(func, ()).arrays, [b in func.written for b in func.buffers], strict=True
        ):
            assert written or np.isfinite(a.astype("float64")).all()
