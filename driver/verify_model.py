"""model.verify: a compiled model beside eager PyTorch or ONNX's evaluator, value by value.

    the call's outputs, ours and theirs        -> which outputs differ
    main, unfused, each operator on *their*    -> the first operator that differs: its converter,
        values of its inputs                      its definition or its kernel
    the passes up to the k-th, k by bisection  -> the pass that the outputs differ from on
    the fused kernels, scheduled and not       -> the kernel whose schedule changes its results

The last two are asked only where outputs differ. An operator is computed of the reference's own
values, so that an error is that operator's; in float64 of the values before it, since the question
is how far from the truth a chain of float32 ends, ours and eager's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..frontend.imported import Imported
from ..frontend.reference import Reference
from ..graphir.analysis import bound_dims
from ..graphir.expose_values import exposable_values, expose_values
from ..graphir.expr import CallDPS, Function
from ..graphir.module import IRModule, fork_module
from ..graphir.passes.dead_code_elimination import DeadCodeElimination
from ..graphir.passes.legalize import LegalizeOps
from ..graphir.passes.pass_list import PassList
from ..graphir.passes.pipeline import stages as graph_stages
from ..graphir.type import TensorType, dims_of
from ..support.errors import ArgumentError, BurnishError
from ..support.passes import Pass, Pipeline
from ..support.target import Target
from ..tensorir.function import PrimFunc
from ..tensorir.visitor import free_vars
from ..tuner.analytic import schedule_analytically
from ..vm.interpreter import VirtualMachine
from ..vm.tensor import Tensor
from .arrays import to_tensors
from .evaluate import evaluate_prim_func
from .executable import Executable
from .precision import Precision, Selection
from .runnable import check_runnable
from .stages import ScheduleChoice, compile_through
from .threads import runtime
from .verification import ValueCheck, Verification, difference, tolerance_of


class Verifier:
    """Compares one compiled signature with a reference. ``schedule``, ``precision``, ``passes`` and
    ``target`` are those it was compiled with; ``tolerance`` is the caller's, for all values."""

    def __init__(
        self,
        reference: Reference,
        target: Target,
        *,
        schedule: ScheduleChoice = schedule_analytically,
        precision: Precision = "fast",
        threads: int = 1,
        tolerance: float | None = None,
        passes: PassList | None = None,
        is_quantized: bool = False,
    ) -> None:
        self._reference, self._target, self._schedule = reference, target, schedule
        self._precision, self._threads, self._tolerance = precision, threads, tolerance
        self._passes, self._is_quantized = passes or PassList(), is_quantized
        if tolerance is not None and not tolerance >= 0:
            raise ArgumentError(f"tolerance: expected a number from 0 up; found {tolerance!r}.")

    def verify(self, name: str, outputs: Sequence[Tensor], *, nodes: bool = True) -> Verification:
        """What a call gave, ``outputs``, beside the reference."""
        reference, notes = self._reference, []
        checks = self.check_outputs(outputs)
        values: list[ValueCheck] = []
        if reference.imported is None:
            notes.append(
                "the program depends on values or shapes of the inputs: its outputs are compared, "
                "not the values on the way."
            )
        elif nodes:
            values = self._values(reference.imported)
        blame = ""
        if reference.imported is not None and not all(c.agrees for c in checks):
            blame = self._blame(reference.imported, values)
        against = reference.name
        if reference.exact_outputs is not None:
            against += " in float64"
        return Verification(name, against, tuple(checks), tuple(values), blame, tuple(notes))

    # -- outputs -----------------------------------------------------------------------------------
    def check_outputs(self, outputs: Sequence[Tensor]) -> list[ValueCheck]:
        """Each output beside the reference's. Raises BurnishError where there are more or fewer."""
        expected, exact = self._reference.outputs, self._reference.exact_outputs
        if len(outputs) != len(expected):
            raise BurnishError(
                f"verify: the model gives {len(outputs)} tensors, the reference {len(expected)}. "
                "Is it the source that the model was compiled from?"
            )
        return [
            self._check(
                f"output {i}", "output", "", found, theirs, exact[i] if exact else None, whole=True
            )
            for i, (found, theirs) in enumerate(zip(outputs, expected, strict=True))
        ]

    def _check(
        self,
        name: str,
        operator: str,
        where: str,
        found: Tensor,
        theirs: np.ndarray,
        exact: np.ndarray | None,
        *,
        whole: bool,
    ) -> ValueCheck:
        dtype = str(found.dtype)
        ours, eager = _numbers(found.data, dtype), _numbers(theirs, dtype)
        tolerance = self._tolerance
        if tolerance is None:
            tolerance = tolerance_of(
                dtype, self._precision, whole=whole, is_quantized=self._is_quantized
            )
        if exact is None or ours.dtype.kind != "f":
            error, own = difference(ours, eager), None
        else:
            error, own = difference(ours, exact), difference(eager, exact)
        return ValueCheck(name, operator, where, dtype, found.shape, error, tolerance, own)

    # -- values on the way -------------------------------------------------------------------------
    def _values(self, imported: Imported) -> list[ValueCheck]:
        """Each operator by itself, unfused; in float64 all behind one another."""
        reference = self._reference
        bound = {v.name: v for v in exposable_values(imported.module)}
        known = {
            name: value
            for name, value in reference.by_variable().items()
            if name in bound and _fits(bound[name].type, value.value)
        }
        if not known:
            return []
        names = [n for n in bound if n in known]
        main = imported.module["main"]
        assert isinstance(main, Function)
        # What is of a size that the program computes cannot come from outside: that binds it.
        computed = set(bound_dims(main))
        cut = [n for n in names if not computed.intersection(free_vars(dims_of(bound[n].type)))]
        cut = [] if reference.exact_values is not None else cut
        module = expose_values(fork_module(imported.module), names, cut)
        program = self._compiled(module, graph_stages("debug"), schedule_analytically)
        given = [known[n].value for n in cut]
        kinds = [str(_tensor(bound[n].type).dtype) for n in cut]
        more = [_tensor_of(x, k) for x, k in zip(given, kinds, strict=True)]
        results = self._run(program, more, exposed=True)
        checks = []
        for name, found in zip(names, results, strict=True):
            value = known[name]
            told, truth = (value.name, value.operator, value.where), reference.exact(value)
            checks.append(self._check(*told, found, value.value, truth, whole=False))
        return checks

    # -- who is to blame ---------------------------------------------------------------------------
    def _blame(self, imported: Imported, values: Sequence[ValueCheck]) -> str:
        """The step of the compilation from which on the outputs differ."""
        if any(not v.agrees for v in values):
            return "that operator's converter, definition or kernel; passes come behind it"
        choice = Selection(self._target, self._precision).passes
        stages = graph_stages("default", evaluate=evaluate_prim_func, selection=choice)
        stages = self._passes.apply(stages)
        listed = [p for stage in stages.values() for p in stage]
        good, bad = 0, None
        low, high = 1, len(listed)
        while low <= high:
            middle = (low + high) // 2
            at, agrees = self._agrees_after(imported, listed, middle)
            if agrees:
                good, low = at, at + 1
            else:
                bad, high = at, middle - 1
        if bad is not None and bad > good:
            named = ", then ".join(str(p) for p in listed[good:bad])
            return f"graph pass {named}"
        kernel = self._kernel_to_blame(imported, listed)
        if kernel:
            return f"the schedule of kernel {kernel}"
        return (
            "the program itself: passes and kernels agree one by one. Its weights are not those "
            "that the source has now (model.refresh() takes these), or its layouts, memory or "
            "segments are wrong"
        )

    def _agrees_after(
        self, imported: Imported, passes: Sequence[Pass], count: int
    ) -> tuple[int, bool]:
        """Whether outputs agree when the first passes alone ran; and how many those were: a module
        between two passes that belong together cannot be compiled."""
        for more in range(count, len(passes) + 1):
            rest: list[Pass] = [*passes[:more]]
            rest += [LegalizeOps(), DeadCodeElimination()]
            graph = {"10-canonical": Pipeline(rest), **_behind_legalization()}
            try:
                program = self._compiled(fork_module(imported.module), graph, _unscheduled)
                found = self._run(program)
            except BurnishError:
                continue
            return more, all(c.agrees for c in self.check_outputs(found))
        return len(passes), True

    def _kernel_to_blame(self, imported: Imported, passes: Sequence[Pass]) -> str:
        """The first fused kernel whose results its schedule changes."""
        fused = Pipeline(passes)(fork_module(imported.module))
        names = [v.name for v in exposable_values(fused)]
        kernels = _kernels(fused)
        results = []
        for schedule in (_unscheduled, self._schedule):
            module = expose_values(fork_module(fused), names)
            program = self._compiled(module, {"30-fused": Pipeline()}, schedule)
            results.append(self._run(program, exposed=True))
        for name, plain, scheduled in zip(names, *results, strict=True):
            dtype = str(plain.dtype)
            gap = difference(_numbers(scheduled.data, dtype), _numbers(plain.data, dtype))
            if gap > tolerance_of(dtype, "fast", whole=True):
                return f"{kernels.get(name, name)} (error {gap:.2g})"
        return ""

    # -- programs ----------------------------------------------------------------------------------
    def _compiled(
        self, module: IRModule, graph: Mapping[str, Pipeline], schedule: ScheduleChoice
    ) -> Executable:
        return compile_through(
            module, self._target, graph, schedule=schedule, threads=self._threads, name="verify"
        )

    def _run(
        self, executable: Executable, more: Sequence[Tensor] = (), *, exposed: bool = False
    ) -> list[Tensor]:
        """The results on copies of the reference's inputs. What becomes of those that a call writes
        comes first, and is left out, unless values are ``exposed``."""
        imported = self._reference.imported
        assert imported is not None
        check_runnable(executable.target)
        machine = VirtualMachine(executable.program, runtime=runtime(self._threads))
        names = [f"input {n!r}" for n in imported.input_names]
        tensors = to_tensors(self._reference.inputs, names)
        inputs = [Tensor(t.data.copy(), str(t.dtype)) for t in tensors]
        result = machine["main"](*inputs, *more)
        results = list(result) if isinstance(result, tuple) else [result]
        return results if exposed else results[len(imported.written) :]


def _unscheduled(func: PrimFunc, target: Target) -> PrimFunc:
    """A kernel as its definition says it, loop by loop."""
    return func


def _behind_legalization() -> dict[str, Pipeline]:
    return {"30-fused": graph_stages("debug")["30-fused"]}


def _kernels(module: IRModule) -> dict[str, str]:
    """Variable of main to the kernel that makes it."""
    main = module["main"]
    assert isinstance(main, Function)
    return {
        b.var.name: b.value.func.name
        for block in main.body.blocks
        for b in block.bindings
        if isinstance(b.value, CallDPS)
    }


def _tensor(kind: Any) -> TensorType:
    assert isinstance(kind, TensorType)
    return kind


def _fits(kind: Any, value: np.ndarray) -> bool:
    """Whether a value may be that of a variable: rank and storage."""
    if not isinstance(kind, TensorType) or kind.ndim != value.ndim:
        return False
    stored = "uint16" if kind.dtype == "bfloat16" else str(kind.dtype)
    return value.dtype.name == stored


def _tensor_of(value: np.ndarray, dtype: str) -> Tensor:
    return Tensor(np.ascontiguousarray(value).reshape(value.shape), dtype)


def _numbers(data: np.ndarray, dtype: str) -> np.ndarray:
    """The numbers of an array; bfloat16, kept as uint16, as float32."""
    if dtype != "bfloat16" or data.dtype != np.uint16:
        return data
    wide: np.ndarray = (data.astype(np.uint32) << 16).view(np.float32)
    return wide
