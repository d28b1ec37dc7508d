"""burnish.Schedule: the schedule of ``tensorir`` over an IRModule.

A bare PrimFunc is wrapped in a module of its own. Primitives are tensorir's.
"""

from __future__ import annotations

from ..graphir.module import IRModule
from ..tensorir.function import PrimFunc
from ..tensorir.schedule import Schedule as TensorSchedule


class Schedule(TensorSchedule):
    """Transforms the PrimFuncs of a module by schedule primitives, each recorded in ``trace``.

    ``mod`` is an IRModule or a PrimFunc and is never changed; ``seed`` fixes the sampling
    (None: fresh entropy, kept in ``seed``).
    """

    def __init__(
        self, mod: IRModule | PrimFunc, seed: int | None = None, *, enable_checks: bool = True
    ) -> None:
        module = IRModule.from_expr(mod) if isinstance(mod, PrimFunc) else mod
        super().__init__(module, seed, enable_checks=enable_checks)
