"""burnish.build: an Executable from a module, a PrimFunc, or a schedule."""

from __future__ import annotations

from typing import Any

from ..graphir.expr import Function
from ..graphir.module import IRModule
from ..support.dump import Dump
from ..support.errors import BurnishError
from ..support.target import Target
from ..tensorir.function import PrimFunc
from ..tensorir.verify import verify_func
from ..vm.interpreter import VirtualMachine
from ..vm.program import Program
from .executable import Executable
from .kernels import compile_kernels, resolve_target
from .report import CompileReport
from .stages import compile_module


def as_module(mod: Any) -> IRModule:
    """An IRModule from a module, a function, or a Schedule; raises BurnishError for anything else."""
    if isinstance(mod, IRModule):
        return mod
    if isinstance(mod, (PrimFunc, Function)):
        return IRModule.from_expr(mod)
    held = getattr(mod, "mod", None)
    if isinstance(held, IRModule):
        return held
    raise BurnishError(
        f"build takes an IRModule, a PrimFunc, a graph function or a Schedule; found {type(mod).__name__}."
    )


def build(mod: Any, args: Any = None, target: Target | str = "native", *, threads: int | None = None) -> Executable:
    """Compile a module.

    Every PrimFunc that is in it is lowered exactly as it stands; operators of graph functions are
    legalised, fused and scheduled. ``args`` belongs to stage schedules. Raises VerifyError for an
    ill-formed function, CodegenError for what cannot be lowered, TargetError for a bad target.
    """
    if args is not None:
        raise BurnishError("args= goes with a stage schedule (create_schedule); this is a module.")
    resolved = resolve_target(target)
    count = 1 if threads is None else threads
    module = as_module(mod)
    if module.graph_functions:
        return compile_module(module, resolved, threads=count)
    report = CompileReport()
    dump = Dump.from_flags("lib")
    for func in module.prim_funcs.values():
        verify_func(func)
    kernels = compile_kernels(module.prim_funcs.items(), resolved, report, dump)
    program = Program(
        kernels={name: c.kernel for name, c in kernels.items()},
        objects=list({id(c.image): c.image for c in kernels.values()}.values()),
        target={"triple": resolved.triple, "cpu": resolved.cpu, "features": ",".join(resolved.features)},
    )
    report.kernels = list(kernels)
    return Executable(module, program, resolved, report, {"40-scheduled": module}, count)


__all__ = ["Executable", "VirtualMachine", "as_module", "build"]
