"""burnish.lower: what a stage schedule says, as an IRModule or as C-like text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

from ..graphir.module import IRModule
from ..support.errors import ScheduleValueError
from ..support.keywords import hinted
from ..support.node import walk
from ..support.structural import structural_equal
from ..tensorir.buffer import Buffer
from ..tensorir.expr import Var
from ..tensorir.schedule import Schedule as TensorSchedule
from ..tensorir.stages.loop_text import loop_text
from ..tensorir.stages.stage_lowering import LoweredStages, lower_stages
from ..tensorir.stages.stage_schedule import StageSchedule
from ..tensorir.stmt import Block
from ..tensorir.te.tensor import Tensor
from ..tensorir.text.printer import print_expr

Arguments = Sequence[Tensor | Var]
Scheduled = StageSchedule | TensorSchedule


@overload
def lower(
    sch: Scheduled,
    args: Arguments | None = ...,
    simple_mode: Literal[False] = ...,
    *,
    name: str = ...,
) -> IRModule: ...


@overload
def lower(
    sch: Scheduled, args: Arguments, simple_mode: Literal[True], *, name: str = ...
) -> str: ...


@hinted
def lower(
    sch: Scheduled,
    args: Arguments | None = None,
    simple_mode: bool = False,
    *,
    name: str = "main",
) -> IRModule | str:
    """The scheduled TensorIR function over ``args``, as a module of that function alone.

    ``sch`` is a stage schedule (``te.create_schedule``), or a Schedule of one function with the
    tensors it was defined by, such as ``SearchTask.apply_best`` gives.

    ``args`` are the tensors (and scalar variables) that a call passes, in its order; tensors of the
    schedule that are not among them live inside. With ``simple_mode`` the result is text for
    reading: flat C-like loops, which say what stage they produce.

    Raises ScheduleError in the name of the stage and the call that asked for what cannot be done,
    ComputeError for arguments that do not fit.
    """
    lowered = lowered_stages(sch, args, name, "lower")
    return loop_text(lowered) if simple_mode else IRModule.from_expr(lowered.func)


def lowered_stages(sch: Any, args: Any, name: str, caller: str) -> LoweredStages:
    """A stage schedule over arguments, replayed, or the function of another schedule, whose
    parameters the arguments must be; ``caller`` is named where they are none of both."""
    if isinstance(sch, TensorSchedule):
        return _scheduled(sch, args, caller)
    if not isinstance(sch, StageSchedule):
        raise ScheduleValueError(
            caller,
            f"Expected a stage schedule, made by te.create_schedule; found {type(sch).__name__}."
            " Modules and their functions print by .script(), and burnish.build lowers them.",
        )
    if not isinstance(args, (list, tuple)):
        found = "nothing" if args is None else type(args).__name__
        raise ScheduleValueError(
            caller,
            "A stage schedule needs its arguments, a list of tensors such as [A, B, C]; found "
            f"{found}.",
        )
    return lower_stages(sch, args, name)


def _scheduled(sch: TensorSchedule, args: Any, caller: str) -> LoweredStages:
    """The function a schedule works on, under its own names; ScheduleValueError unless ``args``
    fit its parameters."""
    func = sch.func
    given = [_parameter_text(a) for a in args] if isinstance(args, (list, tuple)) else None
    if given is None or not _fit(args, func.params):
        takes = ", ".join([_parameter_text(p) for p in func.params])
        raise ScheduleValueError(
            caller,
            f"The scheduled function takes {takes}; the arguments are "
            f"{', '.join(given) if given else 'none'}. Pass the tensors it was defined by, in "
            "their order.",
        )
    blocks = {n.name: n.name for n in walk(func.body) if isinstance(n, Block)}
    return LoweredStages(func, {}, blocks, {b: b.name for b in func.buffers})


def _fit(args: Sequence[Any], params: Sequence[Any]) -> bool:
    if len(args) != len(params):
        return False
    for a, p in zip(args, params, strict=True):
        if isinstance(a, Buffer) and isinstance(p, Buffer):
            if a.dtype != p.dtype or len(a.shape) != len(p.shape):
                return False
            if not all(structural_equal(x, y) for x, y in zip(a.shape, p.shape, strict=True)):
                return False
        elif isinstance(a, Buffer) or isinstance(p, Buffer):
            return False
    return True


def _parameter_text(a: Any) -> str:
    if not isinstance(a, Buffer):
        return str(getattr(a, "name", type(a).__name__))
    return f"{a.name}: {a.dtype}[{', '.join([print_expr(d) for d in a.shape])}]"
