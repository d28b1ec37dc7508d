"""burnish.build: an Executable from a module, a PrimFunc, or a schedule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..graphir.expr import Function
from ..graphir.module import IRModule
from ..graphir.passes.pass_list import as_pass_list
from ..support.errors import ArgumentError, BurnishError
from ..support.keywords import hinted
from ..support.target import Target
from ..tensorir.function import PrimFunc
from ..tensorir.schedule import Schedule as TensorSchedule
from ..tensorir.stages.stage_schedule import StageSchedule
from ..vm.disassembler import print_program
from ..vm.program import Program
from .executable import Executable
from .foreign_code import Objects, Symbols, add_foreign_code
from .kernels import compile_kernels, resolve_target
from .lower import lowered_stages
from .precision import Precision
from .report import CompileReport
from .stages import compile_module, describe_target, distinct_images, opened_dump
from .threads import thread_count
from .written_programs import verify_written_programs


def as_module(mod: Any) -> IRModule:
    """An IRModule from a module, a function, or a Schedule; BurnishError for anything else."""
    if isinstance(mod, IRModule):
        return mod
    if isinstance(mod, (PrimFunc, Function)):
        return IRModule.from_expr(mod)
    held = getattr(mod, "mod", None)
    if isinstance(held, IRModule):
        return held
    raise BurnishError(
        "build takes an IRModule, a PrimFunc, a graph function or a Schedule; found "
        f"{type(mod).__name__}."
    )


@hinted
def build(
    mod: Any,
    args: Any = None,
    target: Target | str | Mapping[str, Any] = "native",
    *,
    threads: int | None = None,
    precision: Precision = "fast",
    passes: Any = None,
    name: str | None = None,
    symbols: Symbols | None = None,
    objects: Objects | None = None,
) -> Executable:
    """Compile a module; a target may be the second argument: ``build(mod, "llvm")``.

    Every PrimFunc that is in it is lowered exactly as it stands; operators of graph functions are
    legalised, fused and scheduled. A stage schedule (``te.create_schedule``) is built over
    ``args``, the tensors that a call passes, into a function ``name`` ("main"); ``threads`` bounds
    the threads of a call, ``precision`` and ``passes`` are compile's. ``symbols`` and ``objects``
    give the code of the functions of C that kernels call (T.call_extern): addresses or functions of
    ctypes by name, and object files, shared libraries or LLVM IR (``driver.foreign_code``). Raises
    VerifyError for an ill-formed function, CodegenError for what cannot be lowered, ScheduleError
    for a stage schedule that says what cannot be done, TargetError for a bad target, ArgumentError
    for a bad number of threads.
    """
    if isinstance(args, (str, Target, Mapping)):
        if target != "native":
            raise ArgumentError(f"build was given two targets, {str(args)!r} and {str(target)!r}.")
        args, target = None, args
    if name is not None and not isinstance(mod, StageSchedule):
        raise BurnishError(
            "name= names the function of a stage schedule (create_schedule); the functions of a "
            f"{type(mod).__name__} have names already: func.with_attr('global_symbol', {name!r})."
        )
    if isinstance(mod, StageSchedule) or (args is not None and isinstance(mod, TensorSchedule)):
        mod = lowered_stages(mod, args, name or "main", "build").func
    elif args is not None:
        raise BurnishError(
            "args= goes with a stage schedule (create_schedule) or a Schedule; found "
            f"{type(mod).__name__}."
        )
    resolved = resolve_target(target)
    count = thread_count(resolved, threads)
    module = as_module(mod)
    if not module.functions:
        raise BurnishError("The module has no functions; there is nothing to build.")
    verify_written_programs(module)
    if module.graph_functions:
        made = compile_module(
            module,
            resolved,
            threads=count,
            precision=precision,
            passes=None if passes is None else as_pass_list(passes),
            name="lib",
        )
        add_foreign_code(made.program, made.module, resolved, symbols, objects)
        return made
    report = CompileReport()
    with opened_dump("lib") as dump:
        dump.write("40-scheduled", module.script)
        kernels = compile_kernels(module.prim_funcs.items(), resolved, report, dump)
        program = Program(
            kernels={name: c.kernel for name, c in kernels.items()},
            objects=distinct_images(kernels),
            target=describe_target(resolved),
        )
        add_foreign_code(program, module, resolved, symbols, objects)
        dump.write("70-bytecode", lambda: print_program(program), suffix=".txt")
    report.kernels = list(kernels)
    # A copy: what the caller does to the module later changes nothing here.
    held = module.copy()
    return Executable(held, program, resolved, report, {"40-scheduled": held}, count)


__all__ = ["Executable", "as_module", "build"]
