"""The laws of the loop programs that a user wrote, before anything is made of them.

What the compiler makes keeps them by construction; a program that breaks one would write out of
bounds, leave a result unwritten or give another one at each call.
"""

from __future__ import annotations

from ..graphir.module import IRModule
from ..graphir.passes.legalize import LEGALIZED
from ..tensorir.function import PrimFunc
from ..tensorir.verify import verify_func
from ..tensorir.verify_bounds import verify_bounds
from ..tensorir.verify_parallel import verify_parallel
from ..tensorir.verify_regions import verify_regions


def verify_written_program(func: PrimFunc) -> PrimFunc:
    """``func`` itself; raises VerifyError where it breaks a law. What the compiler made of an
    operator is not looked at."""
    if func.attr(LEGALIZED):
        return func
    return verify_parallel(verify_regions(verify_bounds(verify_func(func))))


def verify_written_programs(module: IRModule) -> None:
    """Raises VerifyError for a PrimFunc of the module that breaks a law."""
    for func in module.prim_funcs.values():
        verify_written_program(func)


__all__ = ["verify_written_program", "verify_written_programs"]
