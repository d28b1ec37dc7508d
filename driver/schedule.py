"""burnish.Schedule: the schedule of ``tensorir`` over an IRModule.

A bare PrimFunc is wrapped in a module of its own. Primitives are tensorir's.
"""

from __future__ import annotations

from typing import NoReturn

from ..graphir.expr import CallDPS, CallDPSPacked
from ..graphir.module import IRModule
from ..support.errors import nearest
from ..support.keywords import hinted
from ..support.node import walk
from ..support.other_names import elsewhere
from ..tensorir.expr import Expr
from ..tensorir.function import PrimFunc
from ..tensorir.schedule import BlockHandle, LoopHandle
from ..tensorir.schedule import Schedule as TensorSchedule
from ..tensorir.verify.laws import verify_func
from ..tensorir.verify.regions import verify_regions

_ELSEWHERE = {
    "annotate_buffer_access": "nothing: what a block reads and writes is inferred and checked",
    "fork_seed": "copy(seed=)",
    "func_working_on": "the functions of mod; blocks are named with func_name",
    "get_sref": "get(handle)",
    "read_at": "compute_at(cache_read(block, index, scope), loop)",
    "set_axis_separator": "nothing: memory of a CPU has one axis",
    "unsafe_hide_buffer_access": "nothing: what a block reads and writes is inferred and checked",
    "get_child_sblocks": "get_child_blocks",
    "get_sblock": "get_block",
    "state": "func, or mod: a schedule is no more than its program and its trace",
    "write_at": "reverse_compute_at(cache_write(block, index, scope), loop)",
}
"""Primitives of TVM that are none here, and what does it."""


@hinted
class Schedule(TensorSchedule):
    """Transforms the PrimFuncs of a module by schedule primitives, each recorded in ``trace``.

    ``mod`` is an IRModule or a PrimFunc and is never changed; ``seed`` fixes the sampling
    (None: fresh entropy, kept in ``seed``). Raises VerifyError for a function that is not well
    formed, or whose T.reads and T.writes are not what its blocks do: primitives rely on it.
    """

    def __getattr__(self, name: str) -> NoReturn:
        if name not in _ELSEWHERE:
            known = [n for n in dir(type(self)) if not n.startswith("_")]
            raise AttributeError(
                f"'Schedule' object has no attribute {name!r}.{nearest(name, known)}"
            )
        raise elsewhere("'Schedule' object", name, _ELSEWHERE[name])

    def _keeps_signature(self, func_name: str) -> str:
        """The parameters of a user's program are the user's, unless a graph function calls it."""
        for name, function in self.mod.graph_functions.items():
            for n in walk(function):
                called = n.func.name if isinstance(n, CallDPS) else ""
                called = n.name if isinstance(n, CallDPSPacked) else called
                if called == func_name:
                    return (
                        f"and the graph function {name!r} calls {func_name!r} with the types that "
                        "it has. Use cache_read or cache_write and change the layout of the copy, "
                        "or schedule the function before the graph is written"
                    )
        return ""

    def remove_rv(self, rv: BlockHandle | LoopHandle | Expr) -> None:
        """A handle that is not used any more: nothing has to be done, a handle is a name. Raises
        ScheduleError for one that is not of this schedule."""
        self.get(rv)

    def __repr__(self) -> str:
        return f"Schedule({', '.join(self.mod.functions)}: {len(self.trace)} instructions)"

    def __init__(
        self, mod: IRModule | PrimFunc, seed: int | None = None, *, enable_checks: bool = True
    ) -> None:
        module = IRModule.from_expr(mod) if isinstance(mod, PrimFunc) else mod
        if isinstance(module, IRModule):
            for func in module.prim_funcs.values():
                if not func.attr("is_scheduled"):
                    verify_regions(verify_func(func))
        super().__init__(module, seed, enable_checks=enable_checks)
