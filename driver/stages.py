"""The corridor: one function from an IRModule to an Executable, every stage kept, dumped and timed.

``compile_module`` is the whole compiler on one page; ``compile`` and ``build`` are two ways in.
Errors leave it under their own class, with a note that names the pass.

Stages are plain modules; what becomes of the arrays of their constants is told in
``graphir/weights.py``. Here they are given up, behind the pass that used them last.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from ..graphir.emit.emit_vm import emit_program
from ..graphir.emit.linearize import KernelInfo
from ..graphir.expr import TYPED, CallDPS, CallDPSPacked
from ..graphir.module import IRModule, fork_module
from ..graphir.passes.dead_code_elimination import DeadCodeElimination
from ..graphir.passes.legalize import LEGALIZED
from ..graphir.passes.lift_weight_transforms import LiftWeightTransforms, as_packed
from ..graphir.passes.pass_list import PassList
from ..graphir.passes.pipeline import PASSES
from ..graphir.passes.pipeline import stages as graph_stages
from ..graphir.verify import verify_module
from ..graphir.weights import forked
from ..support.caller import callers_level
from ..support.choices import STAGES
from ..support.collector import rare_collections
from ..support.config import flag, unknown_flags
from ..support.dump import Dump
from ..support.errors import BurnishError, PassError
from ..support.node import walk
from ..support.passes import Instrument, Pass, Pipeline, VerifyEach, instruments_from_flags
from ..support.print_after import printed_stages
from ..support.structural import structural_hash
from ..support.target import Target
from ..tensorir.function import PrimFunc
from ..tuner.analytic import schedule_analytically
from ..tuner.best_record import RECORD_RULE
from ..tuner.schedule_log import KernelSchedule, recorded
from ..vm.disassembler import print_program
from ..vm.program import Call, Imm, Program
from ..vm.shape_text import static_value
from .build_workers import build_jobs, workers
from .code_cache import CacheUse, code_cache
from .evaluate import evaluate_prim_func
from .executable import Executable
from .kernels import CompiledKernel, KernelBuilds, compile_kernels, compile_segment
from .precision import Precision, Selection
from .report import CompileReport
from .written_programs import VerifyBrought

_UNFUSED, _FUSED = "20-legalized", "30-fused"

MUCH = 16 << 20
"""Bytes of constants from which on a compilation returns the memory it needed no longer."""

ScheduleChoice = Callable[[PrimFunc, Target], PrimFunc]
"""Gives a PrimFunc its schedule: the analytic one, or the best of a database."""


def compile_module(
    module: IRModule,
    target: Target,
    *,
    schedule: ScheduleChoice = schedule_analytically,
    segments: bool = True,
    threads: int = 1,
    precision: Precision = "fast",
    passes: PassList | None = None,
    name: str = "model",
) -> Executable:
    """Compile a module with at least one graph function.

    PrimFuncs that are in the module already are the user's: they are lowered as they stand, neither
    fused nor rescheduled. ``segments=False`` keeps one VM call a kernel, for profiling;
    ``precision`` is that of ``driver.precision``, ``passes`` has those of a user's own among the
    compiler's; ``name`` is the folder of the dump. The executable's
    weights are its own: the module's are unpacked from them from here on. Raises what the passes
    raise, e.g. VerifyError for an ill-formed module, and ArgumentError for another precision.
    """
    chosen = Selection(target, precision)
    graph = graph_stages("default", evaluate=evaluate_prim_func, selection=chosen.passes)
    graph = graph if passes is None else passes.apply(graph)
    executable = compile_through(
        module, target, graph, schedule=schedule, segments=segments, threads=threads, name=name
    )
    executable.passes = passes
    executable.report.notes += chosen.notes(executable.stages["10-canonical"])
    return executable


@rare_collections()
def compile_through(
    module: IRModule,
    target: Target,
    graph: Mapping[str, Pipeline],
    *,
    schedule: ScheduleChoice = schedule_analytically,
    segments: bool = True,
    threads: int = 1,
    name: str = "model",
) -> Executable:
    """``compile_module`` with graph passes of one's own: what ``graph`` has for each stage from
    10-canonical to 30-fused. Only legalised operators can be lowered."""
    is_analytic = schedule is schedule_analytically
    own = [p.name for pipeline in graph.values() for p in pipeline]
    with _corridor(module, target, name, is_analytic=is_analytic, own=own) as corridor:
        module = corridor.enter("00-import", module, _Import(), verify=False)
        for stage, pipeline in graph.items():
            module = corridor.enter(stage, module, *pipeline.passes)
        return _finish(module, corridor, schedule, segments=segments, threads=threads)


@rare_collections()
def recompile(
    executable: Executable,
    schedule: ScheduleChoice,
    *,
    segments: bool = True,
    name: str = "model",
) -> Executable:
    """The program of a compiled module with other schedules, from stage 30 on.

    Weights come out of the program. Those whose layout stays are shared by both programs.
    """
    before = {k: executable.stages[k] for k in STAGES if k in executable.stages and k <= _FUSED}
    tables = forked([m.weights for m in before.values()])
    own = [p.name for p in executable.passes.inserted] if executable.passes is not None else []
    source, target = before["00-import"], executable.target
    with _corridor(source, target, name, is_analytic=False, own=own) as corridor:
        for (stage, known), table in zip(before.items(), tables, strict=True):
            corridor.stages[stage] = IRModule(known.functions, known.attrs, table)
        module = corridor.stages[_FUSED]
        corridor.dump.write(_FUSED, module.script)
        threads = executable.threads
        made = _finish(module, corridor, schedule, segments=segments, threads=threads)
    made.passes = executable.passes
    return made


def compile_again(
    executable: Executable, target: Target, schedule: ScheduleChoice, precision: Precision
) -> Executable:
    """The program of a compiled module for another target, from its import on. Weights come out of
    the program, as in ``recompile``."""
    module = fork_module(executable.stages["00-import"])
    threads = executable.threads
    return compile_module(
        module,
        target,
        schedule=schedule,
        threads=threads,
        precision=precision,
        passes=executable.passes,
    )


@dataclass
class _Corridor:
    """What one compilation walks with."""

    target: Target
    report: CompileReport
    dump: Dump
    builds: KernelBuilds
    own: Sequence[str] = ()
    """Names of the user's passes."""
    stages: dict[str, IRModule] = field(default_factory=dict)

    def enter(self, name: str, module: IRModule, *passes: Pass, verify: bool = True) -> IRModule:
        """The module after a stage, which is timed, kept and dumped."""
        with self.report.stage(name):
            pipeline = checked(*passes, verify=verify, own=self.own).with_instruments(
                _GiveUpWeights(), VerifyBrought(self.own)
            )
            result: IRModule = pipeline(module)
        self.stages[name] = result
        self.dump.write(name, result.script)
        return result


class _GiveUpWeights(Instrument):
    """Behind each pass the arrays that the module needs no more are given up, where they can be had
    again."""

    def after_pass(self, pass_: Pass, module: IRModule) -> None:
        module.weights.retain(module.constant_names)


@contextmanager
def _corridor(
    module: IRModule, target: Target, name: str, *, is_analytic: bool, own: Sequence[str] = ()
) -> Iterator[_Corridor]:
    report = CompileReport()
    with (
        opened_dump(name, own) as dump,
        original_errors(),
        kernel_builds(module, target, report, dump, is_analytic=is_analytic) as builds,
    ):
        yield _Corridor(target, report, dump, builds, own)


def _finish(
    module: IRModule,
    corridor: _Corridor,
    schedule: ScheduleChoice,
    *,
    segments: bool,
    threads: int,
) -> Executable:
    """From stage 30 to the program."""
    target, report = corridor.target, corridor.report
    # Between 40 and 45 a kernel's weights have their new layout, the constants their old one:
    # the types do not fit each other, and nothing can be verified.
    keeps = schedule is schedule_analytically and not corridor.dump.enabled
    keeps = keeps and not flag("BURNISH_RAISE_DEFECTS")
    scheduling = ScheduleLegalized(
        *(target, schedule, corridor.builds.begin, report.add_schedule),
        use=report.cache if keeps else None,
    )
    module = corridor.enter("40-scheduled", module, scheduling, verify=False)
    module = corridor.enter("45-packed", module, LiftWeightTransforms(), DeadCodeElimination())
    for constant in module.constant_names:
        module.weights.weight(constant).keep_own()
    functions = module.prim_funcs.items()
    kernels = compile_kernels(functions, target, report, corridor.dump, corridor.builds)
    unfused = corridor.stages.get(_UNFUSED)
    program = link_program(
        module, kernels, target, report, corridor.dump, segments=segments, unfused=unfused
    )
    corridor.dump.write("70-bytecode", lambda: print_program(program), suffix=".txt")
    report.workspace_bytes = workspace_bytes(program, threads)
    if report.constant_bytes >= MUCH:
        give_back_memory()
    return Executable(module, program, target, report, corridor.stages, threads)


def give_back_memory() -> None:
    """Let the C library return the memory of arrays that are gone, which it may keep for later
    ones (glibc; others do so by themselves)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


MANY_OPERATIONS = 48
"""Operations of a module from which on build workers pay for themselves."""


@contextmanager
def kernel_builds(
    module: IRModule,
    target: Target,
    report: CompileReport,
    dump: Dump,
    *,
    is_analytic: bool = False,
) -> Iterator[KernelBuilds]:
    """The emissions of a module's kernels; in workers too, where the module is large and the
    machine has the CPUs. Workers start here, and get ready while the graph passes run; not where
    the cache says that this module was compiled before, and hardly anything is left to emit."""
    jobs = build_jobs()
    operations = sum(
        len(block.bindings) for f in module.graph_functions.values() for block in f.body.blocks
    )
    if jobs == 1 or dump.enabled or operations < MANY_OPERATIONS:
        yield KernelBuilds(target, report, dump)
        return
    kept = code_cache() if is_analytic else None
    content = structural_hash(module) if kept is not None else ""
    if kept is not None and kept.has("module", content, target):
        yield KernelBuilds(target, report, dump)
        return
    with workers.held(jobs - 1, target) as pool:
        builds = KernelBuilds(target, report, dump, pool)
        try:
            yield builds
        finally:
            builds.abandon()
    if kept is not None:
        kept.put("module", content, target, "all of a module", None, report.cache)


def opened_dump(name: str, own: Sequence[str] = ()) -> Dump:
    """Where the flags want stages kept and printed; warns of flags that there are not. ``own`` are
    names of passes beside the compiler's."""
    for complaint in unknown_flags():
        warnings.warn(complaint, UserWarning, stacklevel=callers_level())
    return Dump.from_flags(name, printed_stages(_names_with(own), STAGES))


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


def checked(*passes: Pass, verify: bool = True, own: Sequence[str] = ()) -> Pipeline:
    """A pipeline that does what the flags ask for: it verifies the module after every pass, where
    it can be verified (``verify``), unless BURNISH_VERIFY says none. ``own`` are names of passes
    beside the compiler's."""
    asked = instruments_from_flags(verify_module, _names_with(own), STAGES)
    return Pipeline(passes, [i for i in asked if verify or not isinstance(i, VerifyEach)])


@dataclass(frozen=True)
class _Import(Pass):
    """The module as it came, verified whatever the flags say: somebody else made it."""

    name = "import"

    def run(self, module: IRModule) -> IRModule:
        verify_module(module)
        return module


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
    note: Callable[[KernelSchedule], object] | None = None
    """Called with how each function got its schedule; ``given`` is a rule of whoever chose it, such
    as a record of tuning."""
    use: CacheUse | None = None
    """Where the analytic schedule is kept between processes: what was found there."""

    def run(self, module: IRModule) -> IRModule:
        for name, func in list(module.prim_funcs.items()):
            if func.attr(LEGALIZED) and not func.attr("is_scheduled"):
                scheduled, found = self._scheduled(name, func)
                module[name] = scheduled
                if self.note is not None:
                    self.note(replace(found, kernel=name))
                if self.then is not None:
                    self.then(name, as_packed(scheduled))
            elif func.attr(RECORD_RULE) and self.note is not None:
                self.note(KernelSchedule(name, str(func.attr(RECORD_RULE)), is_recorded=True))
        return module

    def _scheduled(self, name: str, func: PrimFunc) -> tuple[PrimFunc, KernelSchedule]:
        """The function with its schedule, and how it got it: as the analytic choice was kept on
        disk, or made now."""
        kept = code_cache() if self.use is not None else None
        use = self.use or CacheUse()
        content = structural_hash(func, names=True) if kept is not None else ""
        if kept is not None:
            known = kept.get("schedule", content, self.target, name, use)
            if isinstance(known, tuple):
                return known
        with recorded() as log:
            scheduled = self.schedule(func, self.target)
        found = log[-1] if log else KernelSchedule(name, "given")
        if kept is not None:
            kept.put("schedule", content, self.target, name, (scheduled, found), use)
        return scheduled, found


_KNOWN: tuple[type[Pass], ...] = (*PASSES, _Import, ScheduleLegalized, LiftWeightTransforms)
_PASS_NAMES = tuple(sorted({p.name for p in _KNOWN}))
"""The passes that BURNISH_PRINT_AFTER may name."""


def _names_with(own: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted({*_PASS_NAMES, *own}))


def link_program(
    module: IRModule,
    kernels: Mapping[str, CompiledKernel],
    target: Target,
    report: CompileReport,
    dump: Dump,
    *,
    segments: bool,
    unfused: IRModule | None = None,
) -> Program:
    """The VM program of a module and the object code it needs, segments included."""
    infos = {
        name: KernelInfo(c.kernel, c.dims, c.shared_bytes, c.thread_bytes)
        for name, c in kernels.items()
    }
    with report.stage("70-bytecode"):
        program, plans = emit_program(module, infos, segments=segments, unfused=unfused)
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
        for n in walk(func, TYPED):
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
