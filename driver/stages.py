"""The corridor: one function from an IRModule to an Executable, every stage kept, dumped and timed.

``compile_module`` is the whole compiler on one page; ``compile`` and ``build`` are two ways in.
Errors leave it under their own class, with a note that names the pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from ..graphir.emit_vm import emit_program
from ..graphir.expr import CallDPS, CallDPSPacked
from ..graphir.linearize import KernelInfo
from ..graphir.module import IRModule
from ..graphir.passes.dead_code_elimination import DeadCodeElimination
from ..graphir.passes.legalize import LEGALIZED
from ..graphir.passes.lift_weight_transforms import LiftWeightTransforms, as_packed
from ..graphir.passes.pipeline import stages as graph_stages
from ..graphir.passes.select_winograd import SelectWinograd
from ..graphir.verify import verify_module
from ..support.dump import Dump
from ..support.errors import ArgumentError, BurnishError, PassError, nearest
from ..support.node import walk
from ..support.passes import Instrument, Pass, Pipeline, VerifyEach, instruments_from_flags
from ..support.target import Target
from ..tensorir.function import PrimFunc
from ..tuner.analytic import schedule_analytically
from ..vm.disassembler import print_program
from ..vm.program import Call, Imm, Program
from ..vm.shape_text import static_value
from .build_workers import build_jobs, workers
from .evaluate import evaluate_prim_func
from .executable import Executable
from .kernels import CompiledKernel, KernelBuilds, compile_kernels, compile_segment
from .report import CompileReport

STAGES = (
    *("00-import", "10-canonical", "20-legalized", "30-fused", "40-scheduled", "45-packed"),
    *("50-lowered", "60-llvm", "70-bytecode"),
)

PRECISIONS = ("fast", "strict")
"""``fast``: convolutions may be Winograd's, whose errors are several times those of sums of
products. ``strict``: every operator is computed as it is defined."""

ScheduleChoice = Callable[[PrimFunc, Target], PrimFunc]
"""Gives a PrimFunc its schedule: the analytic one, or the best of a database."""


def compile_module(
    module: IRModule,
    target: Target,
    *,
    schedule: ScheduleChoice = schedule_analytically,
    segments: bool = True,
    threads: int = 1,
    precision: str = "fast",
    name: str = "model",
) -> Executable:
    """Compile a module with at least one graph function.

    PrimFuncs that are in the module already are the user's: they are lowered as they stand, neither
    fused nor rescheduled. ``segments=False`` keeps one VM call a kernel, for profiling;
    ``precision`` is one of PRECISIONS; ``name`` is the folder of the dump. Raises what the passes
    raise, e.g. VerifyError for an ill-formed module, and ArgumentError for another precision.
    """
    report = CompileReport()
    stages: dict[str, IRModule] = {}
    with (
        Dump.from_flags(name) as dump,
        original_errors(),
        kernel_builds(module, target, report, dump) as builds,
    ):

        def enter(name: str, pipeline: Pipeline, module: IRModule) -> IRModule:
            with report.stage(name):
                result: IRModule = pipeline(module)
            stages[name] = result
            dump.write(name, result.script)
            return result

        module = enter("00-import", checked(_Import()), module)
        graph = graph_stages(
            "default", evaluate=evaluate_prim_func, selection=selection(target, precision)
        )
        for stage, pipeline in graph.items():
            module = enter(stage, checked(*pipeline.passes), module)
        # Between 40 and 45 a kernel's weights have their new layout, the constants their old one:
        # the types do not fit each other, and nothing can be verified.
        scheduling = ScheduleLegalized(target, schedule, then=builds.begin)
        module = enter("40-scheduled", checked(scheduling, verify=False), module)
        packing = (LiftWeightTransforms(), DeadCodeElimination())
        module = enter("45-packed", checked(*packing), module)
        kernels = compile_kernels(module.prim_funcs.items(), target, report, dump, builds)
        program = link_program(module, kernels, target, report, dump, segments=segments)
        dump.write("70-bytecode", lambda: print_program(program), suffix=".txt")
    report.workspace_bytes = workspace_bytes(program, threads)
    return Executable(module, program, target, report, stages, threads)


def selection(target: Target, precision: str) -> tuple[Pass, ...]:
    """The passes that choose algorithms: none that enlarges errors where precision is strict."""
    if precision not in PRECISIONS:
        raise ArgumentError(
            f"precision: expected one of {', '.join(PRECISIONS)}; found {precision!r}."
            f"{nearest(str(precision), PRECISIONS)}"
        )
    if precision == "strict":
        return ()
    return (SelectWinograd(target.vector_bits, target.l2_bytes),)


MANY_OPERATIONS = 48
"""Operations of a module from which on build workers pay for themselves."""


@contextmanager
def kernel_builds(
    module: IRModule, target: Target, report: CompileReport, dump: Dump
) -> Iterator[KernelBuilds]:
    """The emissions of a module's kernels; in workers too, where the module is large and the
    machine has the CPUs. Workers start here, and get ready while the graph passes run."""
    jobs = build_jobs()
    operations = sum(
        len(block.bindings) for f in module.graph_functions.values() for block in f.body.blocks
    )
    if jobs == 1 or dump.enabled or operations < MANY_OPERATIONS:
        yield KernelBuilds(target, report, dump)
        return
    with workers.held(jobs - 1, target) as pool:
        builds = KernelBuilds(target, report, dump, pool)
        try:
            yield builds
        finally:
            builds.abandon()


@contextmanager
def original_errors() -> Iterator[None]:
    """Let errors of passes out under their own class: a PassError is replaced by its cause, which
    gets the pass's name as its stage and as a note."""
    try:
        yield
    except PassError as error:
        cause = error.__cause__
        while isinstance(cause, PassError):
            cause = cause.__cause__
        if not isinstance(cause, BurnishError):
            raise
        cause.stage = cause.stage or error.pass_name
        raise cause.note(f"in pass {error.pass_name!r}") from cause.__cause__


def checked(*passes: Pass, verify: bool = True) -> Pipeline:
    """A pipeline that verifies the module after every pass, and does what the flags ask for."""
    own: list[Instrument] = [VerifyEach(verify_module)] if verify else []
    asked = instruments_from_flags(verify_module, IRModule.script)
    return Pipeline(passes, [*own, *[i for i in asked if not isinstance(i, VerifyEach)]])


@dataclass(frozen=True)
class _Import(Pass):
    """The module as it came; only that it is verified."""

    name = "import"


@dataclass(frozen=True)
class ScheduleLegalized(Pass):
    """Give every PrimFunc that legalisation made its schedule; the user's own stay as they stand.

    *requires*: stage 20 or later. *ensures*: those functions are marked ``is_scheduled``.
    """

    target: Target
    schedule: ScheduleChoice = schedule_analytically
    then: Callable[[str, PrimFunc], object] | None = None
    """Called with each function as stage 45 will leave it, so that its code can be emitted while
    the next ones are scheduled."""

    def run(self, module: IRModule) -> IRModule:
        for name, func in list(module.prim_funcs.items()):
            if func.attr(LEGALIZED) and not func.attr("is_scheduled"):
                module[name] = scheduled = self.schedule(func, self.target)
                if self.then is not None:
                    self.then(name, as_packed(scheduled))
        return module


def link_program(
    module: IRModule,
    kernels: Mapping[str, CompiledKernel],
    target: Target,
    report: CompileReport,
    dump: Dump,
    *,
    segments: bool,
) -> Program:
    """The VM program of a module and the object code it needs, segments included."""
    infos = {
        name: KernelInfo(c.kernel, c.dims, c.shared_bytes, c.thread_bytes)
        for name, c in kernels.items()
    }
    with report.stage("70-bytecode"):
        program, plans = emit_program(module, infos, segments=segments)
    program.objects = distinct_images(kernels)
    program.objects += [compile_segment(plan, target, report, dump) for plan in plans]
    program.target = describe_target(target)
    report.segments = len(plans)
    report.kernels = called_kernels(module)
    report.calls = sum([len(plan.calls) for plan in plans])
    report.constant_bytes = sum([getattr(c, "nbytes", 0) for c in program.constants])
    report.copies = sum(
        isinstance(i, Call) and i.func == "builtin:copy"
        for function in program.functions.values()
        for i in function.instructions
    )
    return program


def distinct_images(kernels: Mapping[str, CompiledKernel]) -> list[bytes]:
    """The object code of some kernels, each image once."""
    return list({c.kernel.symbol: c.image for c in kernels.values()}.values())


def describe_target(target: Target) -> dict[str, object]:
    """What a program's object code needs, as ``Program.target`` keeps it."""
    features = ",".join(target.features)
    return {"triple": target.triple, "cpu": target.cpu, "features": features}


def called_kernels(module: IRModule) -> list[str]:
    """The PrimFuncs that graph functions call, in order of their first call."""
    called: dict[str, None] = {}
    for func in module.graph_functions.values():
        for n in walk(func):
            if isinstance(n, CallDPS):
                called[n.func.name] = None
            elif isinstance(n, CallDPSPacked):
                called[n.name] = None
    return [name for name in called if name in module.prim_funcs]


def workspace_bytes(program: Program, threads: int) -> int | None:
    """The scratch memory of one call: the largest workspace of a kernel that is called, and the
    arenas; None where dims decide."""
    largest, arenas = 0, 0
    for function in program.functions.values():
        for i in function.instructions:
            if not isinstance(i, Call):
                continue
            if i.func == "builtin:alloc_storage" and isinstance(i.args[0], Imm):
                size = static_value(str(i.args[0].value))
                if size is None:
                    return None
                arenas += size
            elif i.func.startswith("kernel:"):
                kernel = program.kernels[i.func.removeprefix("kernel:")]
                shared = static_value(kernel.shared_bytes)
                thread = static_value(kernel.thread_bytes)
                if shared is None or thread is None:
                    return None
                largest = max(largest, shared + thread * threads)
    return largest + arenas
