"""The laws of the loop programs that a user wrote, before anything is made of them.

What the compiler makes keeps them by construction; a program that breaks one would write out of
bounds, leave a result unwritten or give another one at each call. Programs come in with a module,
and out of the passes that a user puts among the compiler's.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from ..graphir.module import IRModule
from ..graphir.passes.legalize import LEGALIZED
from ..support.passes import Instrument, Pass
from ..tensorir.function import PrimFunc
from ..tensorir.verify.bounds import verify_bounds
from ..tensorir.verify.laws import verify_func
from ..tensorir.verify.parallel import verify_parallel
from ..tensorir.verify.regions import verify_regions


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


@dataclass
class VerifyBrought(Instrument):
    """After each of the passes called ``own``, which a user wrote, raises VerifyError for a
    PrimFunc that it brought and that breaks a law."""

    own: Collection[str]
    _known: list[PrimFunc] = field(default_factory=list)

    def before_pass(self, pass_: Pass, module: IRModule) -> None:
        self._known = list(module.prim_funcs.values()) if pass_.name in self.own else []

    def after_pass(self, pass_: Pass, module: IRModule) -> None:
        if pass_.name in self.own:
            known = set(map(id, self._known))
            for func in module.prim_funcs.values():
                if id(func) not in known:
                    verify_written_program(func)


__all__ = ["VerifyBrought", "verify_written_program", "verify_written_programs"]
