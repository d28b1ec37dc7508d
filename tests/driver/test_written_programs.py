"""Programs that break a law are refused wherever they come in."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import burnish
from burnish.driver.written_programs import verify_written_program, verify_written_programs
from burnish.graphir.module import IRModule
from burnish.graphir.text.parser import parse_module
from burnish.support.errors import VerifyError
from burnish.support.structural import structural_hash
from burnish.tensorir.function import PrimFunc

PROGRAM = """
@I.ir_module
class Module:
    @T.prim_func
    def f(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
        for i in {loop}:
            with T.block("C"):
                vi = T.axis.spatial(64, i)
                C[{index}] = A[vi]

    @R.function
    def main(x: R.Tensor((64,), "float32")):
        y = R.call_tir(cls.f, (x,), R.Tensor((64,), "float32"))
        return y
"""
BROKEN = [
    ("T.parallel(64)", "vi // 2", "both write C"),
    ("range(64)", "vi + 1", "every access lies in its buffer"),
    ("range(63)", "vi", "domain has 64 values"),
]


def module(loop: str, index: str) -> IRModule:
    return parse_module(PROGRAM.format(loop=loop, index=index))


@pytest.mark.parametrize(("loop", "index", "words"), BROKEN)
@pytest.mark.parametrize(
    "take",
    [
        verify_written_programs,
        burnish.build,
        burnish.compile,
        lambda m: burnish.tune_tir(m["f"], "native -threads=1", max_trials=1, task_name="f"),
    ],
    ids=["verify", "build", "compile", "tune_tir"],
)
def test_what_breaks_a_law_goes_nowhere(
    take: Callable[[IRModule], object], loop: str, index: str, words: str
) -> None:
    with pytest.raises(VerifyError, match=words):
        take(module(loop, index))


@burnish.module_pass(opt_level=0, name="swap")
class Swap:
    """Puts a function of another module in the place of ``f``."""

    def __init__(self, func: PrimFunc) -> None:
        self.func = func

    def transform_module(self, mod: IRModule, context: object) -> IRModule:
        mod["f"] = self.func
        return mod


@pytest.mark.parametrize(("loop", "index", "words"), BROKEN)
@pytest.mark.parametrize("take", [burnish.compile, burnish.build])
@pytest.mark.parametrize("replaces", [True, False], ids=["replace-prim-funcs", "own"])
def test_what_a_pass_brings_is_looked_at(
    take: Callable[..., object], replaces: bool, loop: str, index: str, words: str
) -> None:
    good, bad = module("T.parallel(64)", "vi"), module(loop, index)["f"]
    assert isinstance(bad, PrimFunc)
    swap = (
        burnish.transform.ReplacePrimFuncs({structural_hash(good["f"]): bad})
        if replaces
        else Swap(bad)
    )
    with pytest.raises(VerifyError, match=words):
        take(good, passes=[swap])


def test_what_a_pass_brings_runs_where_it_keeps_the_laws() -> None:
    good, other = module("T.parallel(64)", "vi"), module("range(64)", "63 - vi")["f"]
    assert isinstance(other, PrimFunc)
    x = np.arange(64, dtype=np.float32)
    model = burnish.compile(good, passes=[Swap(other)])
    np.testing.assert_array_equal(np.asarray(model(x)), x[::-1])


def test_what_keeps_them_and_what_the_compiler_made_pass() -> None:
    good = module("T.parallel(64)", "vi")
    verify_written_programs(good)
    own = module("range(64)", "vi + 1")["f"].with_attr("legalized", "f")
    assert verify_written_program(own) is own
