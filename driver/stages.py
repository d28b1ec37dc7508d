"""The corridor: one function from an IRModule to an Executable, every stage kept, dumped and timed.

``compile_module`` is the whole compiler on one page; ``compile`` and ``build`` are two ways in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ..graphir.emit_vm import emit_program
from ..graphir.linearize import KernelInfo
from ..graphir.module import IRModule
from ..graphir.passes.dead_code_elimination import DeadCodeElimination
from ..graphir.passes.legalize import LEGALIZED
from ..graphir.passes.lift_weight_transforms import LiftWeightTransforms
from ..graphir.passes.pipeline import stages as graph_stages
from ..graphir.plan_segments import SegmentPlan
from ..graphir.verify import verify_module
from ..support.dump import Dump
from ..support.node import walk
from ..support.passes import Pass, Pipeline, VerifyEach
from ..support.target import Target
from ..tensorir.codegen.segment import emit_segment
from ..tensorir.function import PrimFunc
from ..tuner.analytic import schedule_analytically
from ..vm.disassembler import print_program
from ..vm.program import Program
from .evaluate import evaluate_prim_func
from .executable import Executable
from .kernels import CompiledKernel, compile_kernels
from .report import CompileReport

STAGES = (
    "00-import", "10-canonical", "20-legalized", "30-fused",
    "40-scheduled", "45-packed", "50-lowered", "60-llvm", "70-bytecode",
)  # fmt: skip

ScheduleChoice = Callable[[PrimFunc, Target], PrimFunc]
"""Gives a PrimFunc its schedule: the analytic one, or the best of a database."""


def compile_module(
    module: IRModule,
    target: Target,
    *,
    schedule: ScheduleChoice = schedule_analytically,
    segments: bool = True,
    threads: int = 1,
    dump: Dump | None = None,
) -> Executable:
    """Compile a module with at least one graph function.

    PrimFuncs that are in the module already are the user's: they are lowered as they stand, neither
    fused nor rescheduled. ``segments=False`` keeps one VM call a kernel, for profiling.
    """
    dump = dump or Dump.from_flags("model")
    report = CompileReport()
    stages: dict[str, IRModule] = {}

    def enter(name: str, pipeline: Pipeline, module: IRModule) -> IRModule:
        with report.stage(name):
            result: IRModule = pipeline(module)
        stages[name] = result
        dump.write(name, result.script)
        return result

    module = enter("00-import", _checked(), module)
    evaluate = partial(evaluate_prim_func, target=target)
    for name, pipeline in graph_stages("default", evaluate=evaluate).items():
        module = enter(name, _checked(*pipeline.passes), module)
    # Between 40 and 45 a kernel's weights have their new layout and the constants their old one.
    module = enter("40-scheduled", Pipeline([DefaultSchedule(target, schedule)]), module)
    module = enter("45-packed", _checked(LiftWeightTransforms(), DeadCodeElimination()), module)
    kernels = compile_kernels(module.prim_funcs.items(), target, report, dump)
    with report.stage("70-bytecode"):
        program = link_program(module, kernels, target, report, segments=segments)
    dump.write("70-bytecode", lambda: print_program(program), suffix=".txt")
    return Executable(module, program, target, report, stages, threads)


def _checked(*passes: Pass) -> Pipeline:
    """A pipeline that verifies the module after every pass."""
    return Pipeline(passes, instruments=[VerifyEach(verify_module)])


@dataclass(frozen=True)
class DefaultSchedule(Pass):
    """Give every PrimFunc that legalisation made its schedule; the user's own stay as they stand.

    *requires*: stage 20 or later. *ensures*: those functions are marked ``is_scheduled``.
    """

    target: Target
    schedule: ScheduleChoice = schedule_analytically

    def run(self, module: IRModule) -> IRModule:
        for name, func in list(module.prim_funcs.items()):
            if func.attr(LEGALIZED) and not func.attr("is_scheduled"):
                module[name] = self.schedule(func, self.target)
        return module


def link_program(
    module: IRModule,
    kernels: dict[str, CompiledKernel],
    target: Target,
    report: CompileReport,
    *,
    segments: bool,
) -> Program:
    """The VM program of a module and the object code it needs, segments included."""
    infos = {
        name: KernelInfo(c.kernel, c.lowered.dims, c.lowered.shared_bytes, c.lowered.thread_bytes)
        for name, c in kernels.items()
    }
    program, plans = emit_program(module, infos, segments=segments)
    images = {id(c.image): c.image for c in kernels.values()}
    program.objects = list(images.values())
    for plan in plans:
        program.objects.append(_emit_segment(plan, target))
        report.compilations += 1
    program.target = {"triple": target.triple, "cpu": target.cpu, "features": ",".join(target.features)}
    report.segments = len(plans)
    report.kernels = [name for name in kernels if _is_called(module, name)]
    report.constant_bytes = sum(getattr(c, "nbytes", 0) for c in program.constants)
    return program


def _emit_segment(plan: SegmentPlan, target: Target) -> bytes:
    return emit_segment(plan.name, plan.calls, plan.num_args, plan.dim_names, target).image


def _is_called(module: IRModule, name: str) -> bool:
    for func in module.graph_functions.values():
        for n in walk(func):
            if getattr(getattr(n, "func", None), "name", None) == name or getattr(n, "name", None) == name:
                return True
    return False
