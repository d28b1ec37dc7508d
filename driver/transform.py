"""burnish.transform: the graph passes by name, the services they are handed bound to this machine.

Each is called with a module and gives a new one: ``BindParams("main", params)(mod)``. An error
inside a pass comes as PassError, whose ``__cause__`` is the error itself. Passes of one's own
(``module_pass``) stand next to these in a ``Sequential``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from ..graphir.module import IRModule
from ..graphir.passes.annotate_pattern import AnnotatePattern
from ..graphir.passes.bind_params import BindParams
from ..graphir.passes.bind_symbolic_vars import BindSymbolicVars
from ..graphir.passes.canonicalize import Canonicalize
from ..graphir.passes.collapse_leading_dims import CollapseLeadingDims
from ..graphir.passes.combine_parallel_matmul import CombineParallelMatmul
from ..graphir.passes.dead_code_elimination import DeadCodeElimination
from ..graphir.passes.eliminate_common_subexpr import EliminateCommonSubexpr
from ..graphir.passes.fold_constant import FoldConstant as _FoldConstant
from ..graphir.passes.fuse_ops import FuseOps
from ..graphir.passes.fuse_ops_by_pattern import FuseOpsByPattern, FusionPattern
from ..graphir.passes.fuse_prim_funcs import FusePrimFuncs
from ..graphir.passes.inline_functions import InlineFunctions
from ..graphir.passes.legalize import LegalizeOps
from ..graphir.passes.lift_weight_transforms import LiftWeightTransforms
from ..graphir.passes.pass_list import PassList
from ..graphir.passes.replace_prim_funcs import ReplacePrimFuncs
from ..graphir.passes.simplify_algebra import SimplifyAlgebra
from ..graphir.passes.to_mixed_precision import ToMixedPrecision
from ..support.errors import TuningError
from ..support.module_pass import module_pass
from ..support.other_names import not_in_module
from ..support.passes import (
    Instrument,
    Pass,
    PassContext,
    Pipeline,
    PrintAfter,
    TimePasses,
    VerifyEach,
)
from ..support.target import Target
from ..tensorir.function import PrimFunc
from ..tuner.analytic import schedule_analytically
from ..tuner.best_record import (
    RECORD_RULE,
    best_schedule,
    explain_unused,
    rule_of,
    task_on_record,
    warn,
)
from ..tuner.records.database import TuningDatabase
from ..tuner.records.records_io import open_records
from ..tuner.schedule_log import KernelSchedule, recorded, write_down
from ..tuner.task import TuneTask
from .evaluate import evaluate_prim_func
from .kernels import resolve_target


@dataclass(frozen=True)
class FoldConstant(Pass):
    """Compute what depends on constants alone, on this machine. Results over ``max_bytes`` are
    folded only where they are no larger than what they are made from."""

    max_bytes: int = 64 * 1024 * 1024

    def run(self, module: IRModule) -> IRModule:
        return _FoldConstant(evaluate_prim_func, self.max_bytes).run(module)


@dataclass(frozen=True)
class DefaultSchedule(Pass):
    """Give every PrimFunc that is not scheduled the analytic schedule for ``target``."""

    target: Target | str = "native"

    def run(self, module: IRModule) -> IRModule:
        target = resolve_target(self.target)
        for name, func in list(module.prim_funcs.items()):
            if not func.attr("is_scheduled"):
                module[name] = schedule_analytically(func, target)
        return module


@dataclass(frozen=True)
class ApplyDatabase(Pass):
    """Give every PrimFunc that is not scheduled its best record of a tuning database (or of a file
    of records, by its path), where there is one; the others stay as they are. Constants get the
    layouts that these schedules want. A UserWarning says where no record applies.

    A module whose operators are no PrimFuncs yet is refused (TuningError): a model is compiled with
    ``database=`` of ``burnish.compile``.
    """

    database: TuningDatabase | str | Path
    target: Target | str = field(default="native")

    def run(self, module: IRModule) -> IRModule:
        if isinstance(self.database, TuningDatabase):
            return self._apply(module, self.database)
        with open_records(self.database) as database:
            return self._apply(module, database)

    def _apply(self, module: IRModule, database: TuningDatabase) -> IRModule:
        target = resolve_target(self.target)
        if not module.prim_funcs:
            raise TuningError(
                "ApplyDatabase schedules PrimFuncs, and this module has none: its operators are "
                "not legalised yet, as in front of the compiler's passes, where passes= puts it. "
                "Compile with burnish.compile(model, inputs, database=...), or apply it to "
                'model.executable.stages["30-fused"].'
            )
        waiting = {n: f for n, f in module.prim_funcs.items() if not f.attr("is_scheduled")}
        applied = False
        for name, func in waiting.items():
            with recorded() as log:
                found = best_or_none(func, target, database)
            if found is not None:
                module[name] = found.with_attr(RECORD_RULE, log[-1].rule)
                applied = True
        if waiting and not applied:
            warn(explain_unused(database, target))
        return LiftWeightTransforms().run(module)


def best_or_none(
    func: PrimFunc,
    target: Target,
    database: TuningDatabase,
    note: Callable[[str], object] | None = None,
) -> PrimFunc | None:
    """``func`` under the best record of the database that stands the checks, None where there is
    none; ``note`` is told of those that do not (None: a UserWarning says so). Which rule it was is
    written down (``schedule_log``)."""
    return best_of_task(task_on_record(database, TuneTask(func.name, func, target)), database, note)


def best_of_task(
    task: TuneTask, database: TuningDatabase, note: Callable[[str], object] | None = None
) -> PrimFunc | None:
    """``best_or_none`` of a task."""
    if database.best(task.workload, task.target_key) is None:
        return None
    try:
        sch = best_schedule(database, task, note=note)
    except TuningError:
        # Every record was set aside or passed over, which has been said.
        return None
    write_down(KernelSchedule(task.func.name, rule_of(sch.trace), is_recorded=True))
    return sch.func


def pipeline() -> PassList:
    """The compiler's passes: print it for their names, insert passes of your own, and give it to
    ``burnish.compile`` or ``burnish.build`` as ``passes=``."""
    return PassList()


Sequential = Pipeline
"""The name that TVM's programs know pipelines by."""

_ELSEWHERE = {
    "AdjustMatmulOrder": "burnish.patterns.rewrite_call",
    "AllocateWorkspace": "nothing: burnish.build does it",
    "AlterOpImpl": "ReplacePrimFuncs",
    "AnnotateTIROpPattern": "AnnotatePattern",
    "ApplyPassToFunction": "module_pass",
    "AttachGlobalSymbol": "nothing: burnish.build does it",
    "BundleModelParams": "nothing: burnish.build does it",
    "CallTIRRewrite": "nothing: burnish.build does it",
    "CanonicalizeBindings": "Canonicalize",
    "ComputePrimValue": "nothing: burnish.build does it",
    "ConvertBlocksToOpaque": "nothing: burnish.build lowers loops, burnish.lower shows them",
    "ConvertLayout": "nothing: every compilation chooses layouts",
    "ConvertToDataflow": "nothing: burnish.build does it",
    "DataflowUseInplaceCalls": "nothing: memory is planned by every compilation",
    "DecomposeOpsForInference": "LegalizeOps",
    "DecomposeOpsForTraining": "nothing: burnish is for inference",
    "DefaultGPUSchedule": "nothing: burnish runs on the CPU",
    "ExpandMatmulOfSum": "burnish.patterns.rewrite_call",
    "ExpandTupleArguments": "nothing: burnish.build does it",
    "FastMathTransform": "precision= of burnish.compile",
    "FlattenBuffer": "nothing: burnish.build lowers loops, burnish.lower shows them",
    "FoldDataflowBlockOutput": "nothing: burnish.build does it",
    "FunctionPass": "Pass",
    "FuseTIR": "FusePrimFuncs",
    "Gradient": "nothing: burnish is for inference",
    "InlinePrivateFunctions": "InlineFunctions",
    "KillAfterLastUse": "nothing: burnish.build does it",
    "LambdaLift": "nothing: graph functions have no closures",
    "LiftTransformParams": "nothing: constants are folded and packed by every compilation",
    "LowerAllocTensor": "nothing: burnish.build does it",
    "LowerOpaqueBlock": "nothing: burnish.build lowers loops, burnish.lower shows them",
    "LowerRuntimeBuiltin": "nothing: burnish.build does it",
    "LowerTVMBuiltin": "nothing: burnish.build lowers loops, burnish.lower shows them",
    "LowerToLibraryDispatch": "nothing: burnish runs on the CPU",
    "MergeCompositeFunctions": "FuseOpsByPattern",
    "MetaScheduleApplyDatabase": "ApplyDatabase",
    "MetaScheduleTuneIRMod": "burnish.tune_tir, and model.tune for whole models",
    "MetaScheduleTuneTIR": "burnish.tune_tir",
    "ModulePass": "Pass",
    "Normalize": "nothing: burnish.build does it",
    "NormalizeGlobalVar": "nothing: burnish.build does it",
    "OptimizeLayoutTransform": "nothing: every compilation chooses layouts",
    "PrintIR": "PrintAfter",
    "RealizeVDevice": "nothing: burnish runs on the CPU",
    "RemovePurityChecking": "nothing: burnish.build does it",
    "RemoveUnusedOutputs": "DeadCodeElimination",
    "RemoveUnusedParameters": "DeadCodeElimination",
    "ReorderPermuteDimsAfterConcat": "burnish.patterns.rewrite_call",
    "ReorderTakeAfterMatmul": "burnish.patterns.rewrite_call",
    "RewriteCUDAGraph": "nothing: burnish runs on the CPU",
    "RewriteDataflowReshape": "nothing: burnish.build does it",
    "RunCodegen": "burnish.register_func, and calls of what is registered",
    "Simplify": "nothing: burnish.build lowers loops, burnish.lower shows them",
    "SpecializePrimFuncBasedOnCallSite": "nothing: burnish.build does it",
    "SplitCallTIRByPattern": "FuseOpsByPattern",
    "StaticPlanBlockMemory": "nothing: memory is planned by every compilation",
    "StorageRewrite": "nothing: burnish.build lowers loops, burnish.lower shows them",
    "ToNonDataflow": "nothing: burnish.build does it",
    "TopologicalSort": "nothing: burnish.build does it",
    "UnrollLoop": "nothing: burnish.build lowers loops, burnish.lower shows them",
    "UpdateVDevice": "nothing: burnish runs on the CPU",
    "VMBuiltinLower": "nothing: burnish.build does it",
    "VMShapeLower": "nothing: burnish.build does it",
    "VectorizeLoop": "nothing: burnish.build lowers loops, burnish.lower shows them",
    "dataflowblock_pass": "module_pass",
    "function_pass": "module_pass",
}
"""Passes of TVM that have another name here."""


def __getattr__(name: str) -> NoReturn:
    raise not_in_module("burnish.transform", name, _ELSEWHERE.get(name))


__all__ = [
    "AnnotatePattern",
    "ApplyDatabase",
    "BindParams",
    "BindSymbolicVars",
    "Canonicalize",
    "CollapseLeadingDims",
    "CombineParallelMatmul",
    "DeadCodeElimination",
    "DefaultSchedule",
    "EliminateCommonSubexpr",
    "FoldConstant",
    "FuseOps",
    "FuseOpsByPattern",
    "FusePrimFuncs",
    "FusionPattern",
    "InlineFunctions",
    "Instrument",
    "LegalizeOps",
    "Pass",
    "PassContext",
    "PassList",
    "Pipeline",
    "PrintAfter",
    "ReplacePrimFuncs",
    "Sequential",
    "SimplifyAlgebra",
    "TimePasses",
    "ToMixedPrecision",
    "VerifyEach",
    "module_pass",
    "pipeline",
]
