"""From an nn.Module to an ExportedProgram whose named dims really may have any size.

torch.export resolves a branch on "is this size 1?" without a word, because it assumes sizes of 2
and more. So a dynamic model is first exported under torch's size-oblivious rules, in which such a
branch is an error. A branch may still be harmless (attention asks whether a layout is contiguous):
then the ordinary export stands, if the program agrees with the module at size 1. Whether they agree
at size 0 is always asked, because no rule of torch covers it.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.fx.experimental._config as symbolic_config
from torch.export import ExportedProgram
from torch.fx import Node
from torch.nn.utils.rnn import PackedSequence
from torch.utils import _pytree as pytree

from ...support.errors import BurnishError, FrontendError
from .assignments import empty_buffers_aside, followed, lost_when_repeated, written_in_place
from .check_sizes import (
    DiffersError,
    check_example,
    check_size,
    leave_out_nothing,
    leave_out_one,
)
from .checks_in_bytecode import checks_in_bytecode
from .convert_recurrent import WholeLayers, has_layers
from .derivatives import (
    may_be_lost,
    takes_derivatives,
    traced_below_autograd,
)
from .dynamic_shapes import ExportPlan, plan_export
from .eager_call import (
    copied,
    eager_call,
    own_attributes,
    own_gradients,
    own_values,
    plain_parameters,
    tensors_of,
    unchanged,
)
from .exportable_functions import LOOKS, ExportableFunctions
from .functionalize import is_write
from .inference_tensors import without_gradients
from .known_types import UNKNOWN, register_types, registered_results
from .left_out_sizes import UnknownBranchError, check_left_out, check_several
from .loops_of_hits import take_turns
from .registry import REAL, import_dtype, raised_at
from .said_guards import (
    MUST_BE_CONSTANT,
    fails_at,
    gaps_of,
    on_the_side_of_examples,
    suggested_bounds,
)
from .scripted_modules import (
    changes_in_training,
    give_class,
    kind_of,
    module_of,
    scripts_alone,
    without_script,
)
from .size_builtins import SizeBuiltins, namespaces_around, namespaces_at, namespaces_of
from .size_functions import SeveralNames, SizeFunctions
from .surroundings import (
    drop_failed_calls,
    failing_calls,
    formatted_numbers,
    kept_conversions,
    named_keywords,
    paths_of_examples,
    quiet_torch,
    size_oblivious,
)
from .swallowed_looks import no_look_swallowed
from .traced_data import traced_data
from .unsaid_guards import check_guards, short_sizes, symbols_of
from .written_tensors import keep_written

export_lock = threading.Lock()
"""torch traces one module a process at a time: a second thread would find its state occupied."""
_PACKING = "torch/nn/utils/rnn.py"
"""What packs sequences and pads them again."""
_NOISE = (
    "For more information",
    "The error above occurred",
    "The following call raised",
    "import torch",
    "consider using data-dependent friendly APIs",
    "Caused by: (",
    "For extended logs",
    "If you suspect the guard",
    "For more debugging help",
    "For C++ stack trace",
)
_CAN_DEFER = (
    "prefer_deferred_runtime_asserts_over_guards"
    in inspect.signature(torch.export.export).parameters
)
"""Whether torch can leave to the call what it cannot show of sizes; older ones cannot."""
_IS_GUARD = "satisfy the generated guard"
_MADE_CONSTANT = ("specialized it to be a constant", MUST_BE_CONSTANT)
"""What torch says where the code asks a size for its value."""
_TAKES_NO_SIZES = (TypeError, AttributeError, AssertionError)
"""What code raises that asks whether a size is an integer of Python's, and functions of C."""
_MOST_TURNS = 3
"""Exports with other functions of sizes, each also in the files where the one before was asked."""


def check_eval_mode(module: torch.nn.Module) -> None:
    """Refuse a module in training mode where that changes its result (dropout, batch norm)."""
    for name, child in module_of(module).named_modules():
        if getattr(child, "training", False) and changes_in_training(child):  # frozen, it has none
            raise FrontendError(
                f"{name or 'the module'} ({kind_of(child)}) is in training mode, which "
                "changes its result. Call module.eval() before compiling."
            )


def export_module(
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> tuple[ExportedProgram, ExportPlan]:
    """Export a module for inference; the plan tells where its named dims stand.

    Raises FrontendError for a module in training mode, inputs that are no CPU tensors of a known
    dtype, dynamic shapes that do not fit, and a module that does not export.
    """
    with without_gradients(module_of(module)):
        try:
            return _export_module(module, args, kwargs, dynamic_shapes)
        except FrontendError as error:
            # Types are others while a module is traced; its own code asserts what they are.
            asks_types = isinstance(error.__cause__, _TAKES_NO_SIZES)
            if not asks_types and not isinstance(error, DiffersError):
                raise
            refused = error
        found = [
            *namespaces_around(module_of(module)),
            *namespaces_at(refused.__cause__ or refused),
        ]
        try:
            with SizeBuiltins(found):
                return _export_module(module, args, kwargs, dynamic_shapes)
        except BurnishError:
            raise refused from refused.__cause__


def _export_module(
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
) -> tuple[ExportedProgram, ExportPlan]:
    module = without_script(module)
    check_eval_mode(module)
    register_types((args, kwargs))
    _check_examples(args, kwargs)
    plan = plan_export(module, args, kwargs, dynamic_shapes)
    if not plan.names:
        exported = _export(module, plan)
        _check_repeated(module, args, kwargs, plan)
        check_example(module, exported, plan)
        return exported, plan
    program, is_oblivious = _export_obliviously(module, plan), True
    if program is None:
        try:
            program, is_oblivious = _export(module, plan), False
        except FrontendError as error:
            bounds = on_the_side_of_examples(suggested_bounds(error), plan.shown)
            if bounds:
                plan = plan_export(module, args, kwargs, dynamic_shapes, bounds)
                program = _export_obliviously(module, plan)
            if program is None:
                refused = None if bounds else error
                program, is_oblivious = _export_with_gaps(module, plan, refused), False
    looked_at = {*plan.doubtful, *plan.short, *(() if is_oblivious else (1,))}
    for size in sorted(looked_at, reverse=True):
        check_size(size, module, program, plan)
    leave_out_nothing(module, program, plan)
    if is_oblivious:
        leave_out_one(module, program, plan)
    if len(plan.names) > 1:
        check_several(module, program, plan)
    _check_repeated(module, args, kwargs, plan)
    check_example(module, program, plan)
    return program, plan


def _check_repeated(
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    plan: ExportPlan,
) -> None:
    """Refuse a module that computes something else when it is called again, because of what its
    ``forward()`` has set and a compiled model cannot."""
    has_hooks = bool(module._forward_hooks or module._forward_pre_hooks)  # outside of forward()
    if not (plan.assigned or plan.unknown or has_hooks):
        return
    given = (tuple(args), dict(kwargs or {}))
    with warnings.catch_warnings(action="ignore"), unchanged(module, plan.changed):
        lost, differs = lost_when_repeated(
            module, lambda: eager_call(module, *copied(given)), plan.changed
        )
    if not lost or not (differs or plan.assigned):
        return
    why = "reads it when it is called again"
    if differs:
        lost = [*plan.assigned, *[n for n in lost if n in plan.unknown]] or lost
        why = "gives something else when it is called again"
    names = ", ".join([_said(name) for name in lost])
    verb = "uses" if set(lost) <= set(plan.unknown) else "sets"
    raise FrontendError(
        f"forward() of {type(module).__name__} {verb} {names}, and {why}, "
        "which cannot be compiled: what a model keeps from call to call are tensors "
        "that stay of one dtype and one shape. Keep it in such a tensor, which is there before the "
        "first call (self.register_buffer), or pass it as an input and return what it becomes."
    )


def _said(name: str) -> str:
    """How a place is called in a message: "self.calls", "global step"."""
    return name if " " in name.partition("[")[0] else f"self.{name}"


def _export_with_gaps(
    module: torch.nn.Module, plan: ExportPlan, refused: FrontendError | None
) -> ExportedProgram:
    """The program also where torch leaves out sizes within the bounds of a dim (as many as a table
    has rows, since all of its rows lie side by side, and a part of each may not), or cannot show
    that it leaves out none (of reshapes that shift rows, as relative positions do). It stands for
    these sizes too, if it agrees with the module there. ``refused`` is what the export without
    that has raised, where it is known."""
    try:
        if refused is not None:
            raise refused
        return _export(module, plan)
    except FrontendError as error:
        gaps = gaps_of(error, plan)
        if gaps is None or not _CAN_DEFER:
            raise
        program = _export(module, plan, prefer_deferred_runtime_asserts_over_guards=True)
        said = [n for n in program.graph.nodes if n.target is torch.ops.aten._assert_scalar.default]
        symbols = symbols_of(program, plan)
        for node in said:
            fails = fails_at(node.args[0], symbols)
            if fails is None or not all(map(gaps.have, fails)):
                raise
            program.graph.erase_node(node)
        program.graph.eliminate_dead_code()
        program.graph_module.recompile()
        try:
            check_left_out(module, program, plan, gaps, functools.partial(_export, module))
        except UnknownBranchError as unknown:
            raise FrontendError(f"{error} {unknown}") from error.__cause__
        return program


def _export_obliviously(module: torch.nn.Module, plan: ExportPlan) -> ExportedProgram | None:
    """The program under the size-oblivious rules; None where they refuse the module, or torch is
    too old to have them."""
    if hasattr(symbolic_config, "backed_size_oblivious"):
        with contextlib.suppress(FrontendError), size_oblivious():
            try:
                return _export(module, plan)
            except FrontendError as error:
                if suggested_bounds(error):
                    raise
                return _export_with_gaps(module, plan, error)
    return None


def _check_examples(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> None:
    if not isinstance(args, (tuple, list)):
        raise FrontendError(
            f"example inputs are a tuple, (x,) for a single one; found a {type(args).__name__}."
        )
    for path, x in pytree.tree_flatten_with_path((tuple(args), dict(kwargs or {})))[0]:
        if not isinstance(x, torch.Tensor):
            continue
        where = "example input " + pytree.keystr(path[1:]).lstrip("[").replace("]", "", 1)
        if x.device.type != "cpu":
            raise FrontendError(
                f"{where} is on {x.device}; burnish compiles for the CPU: call .cpu()."
            )
        if x.layout is not torch.strided:
            raise FrontendError(f"{where} has the layout {x.layout}; call .to_dense() first.")
        import_dtype(REAL.get(x.dtype, x.dtype), where)


def _exporter(
    module: torch.nn.Module, plan: ExportPlan, options: Mapping[str, Any]
) -> Callable[..., ExportedProgram]:
    """What exports a module once, and once more where its ``forward()`` sets tensors."""

    def attempt(strict: bool = False) -> ExportedProgram:
        # Each attempt starts with the module as it is: a cache would keep tensors without values.
        with (
            no_look_swallowed(),
            own_values(tensors_of(module)),
            empty_buffers_aside(module),
            own_attributes(module) as written,
            WholeLayers() if has_layers(module) else contextlib.nullcontext(),
        ):
            program = torch.export.export(
                module,
                plan.args,
                plan.kwargs or None,
                dynamic_shapes=plan.specification,
                strict=strict,
                **options,
            )
        drop_failed_calls(program)
        take_turns(program)
        check_guards(program, plan)
        plan.scripted = tuple(written)
        return program

    def export(strict: bool = False) -> ExportedProgram:
        if strict:  # torch would read the bytecode of what follows assignments, too
            return attempt(strict)
        with followed(module) as found:
            try:
                program = attempt()
            except Exception:  # torch's own ways to follow an assignment, or the model's code
                if not found.tensors:
                    raise
        plan.assigned, plan.unknown = tuple(found.others), tuple(found.unknown)
        if found.tensors:
            with (
                written_in_place(module, found.tensors) as lost,
                followed(module) as found,
            ):
                program = attempt()
            plan.assigned = (*lost, *found.others)
        return program

    return export


def _export(module: torch.nn.Module, plan: ExportPlan, **options: Any) -> ExportedProgram:
    asked: list[str] = []
    export = _exporter(module, plan, options)
    try:
        with (
            quiet_torch(),
            torch.no_grad(),
            plain_parameters(module),
            traced_data(),
            named_keywords(module, plan),
            paths_of_examples(),
            failing_calls(),
            formatted_numbers(),
            kept_conversions(),
            own_gradients(module),
            scripts_alone(module),
        ):
            program = _with_named_sizes(export, module, plan, asked)
        give_class(program)
        plan.changed = keep_written(program, module)
        return program
    except BurnishError:
        raise
    except Exception as error:  # whatever the model's own code raises on fake tensors
        dims = f" with {' and '.join(plan.names)} of any size" if plan.names else ""
        static = "a branch depends on"
        if plan.names:
            static += ", or that can have one size alone (leave them out of dynamic_shapes)"
            static += '; one that is always a multiple of another says so: "2*h"'
        if _packs(error):
            raise FrontendError(
                f"{type(module).__name__} packs sequences (torch.nn.utils.rnn), whose sizes are "
                "lengths that data tell, and cannot be compiled. Run the recurrent layer on the "
                "padded tensor, and take what is wanted at each length with torch.gather or a mask."
            ) from error
        raise FrontendError(
            f"{type(module).__name__} does not export{dims}{raised_at(error)}: "
            f"{error_text(error)}\n"
            "torch.export must be able to trace forward(): replace control flow that depends on "
            f"data by torch.where, and make dims static that {static}."
            f"{_told_of_scripts(module, error)}{_told(asked)}"
        ) from error


def _with_named_sizes(
    export: Callable[[], ExportedProgram],
    module: torch.nn.Module,
    plan: ExportPlan,
    asked: list[str],
) -> ExportedProgram:
    """The export, a second time where the first makes a constant of a size that has a name. Lines
    of Python that ask sizes for their values are added to ``asked``."""
    try:
        with SeveralNames() if len(plan.names) > 1 else contextlib.nullcontext():
            return _with_what_it_needs(export, module, plan)
    except Exception as error:  # torch has a class of its own for every kind of guard
        is_of_sizes = isinstance(error, _TAKES_NO_SIZES) or any(
            said in str(error) for said in (_IS_GUARD, *_MADE_CONSTANT)
        )
        if not plan.names or not is_of_sizes:
            raise
        found = [*namespaces_of(module), *namespaces_at(error)]
        namespaces: list[dict[str, Any]] = []
        functions, latest = SizeFunctions(), error
        for _ in range(_MOST_TURNS):
            namespaces = list({id(names): names for names in (*namespaces, *found)}.values())
            functions = SizeFunctions()
            try:
                with functions, SizeBuiltins(namespaces):
                    program = _with_what_it_needs(export, module, plan)
            except Exception as again:
                latest = again
                found = [*functions.namespaces, *namespaces_at(again)]
            else:
                plan.short = (*plan.short, *short_sizes(program, plan, functions.chunked))
                return program
            if {id(names) for names in found} <= {id(names) for names in namespaces}:
                break
        asked += functions.asked
        if _has_guards_alone(latest):
            raise latest from None
        raise


def _has_guards_alone(error: Exception) -> bool:
    """Whether torch says of sizes only what it cannot show, of which most may be so."""
    said = str(error)
    return _IS_GUARD in said and not any(text in said for text in _MADE_CONSTANT)


def _told_of_scripts(module: torch.nn.Module, error: Exception) -> str:
    """What else there is to do where a script may have asked a named size for its value."""
    has_scripts = any(isinstance(part, torch.jit.ScriptModule) for part in module.modules())
    if not has_scripts or not any(said in str(error) for said in _MADE_CONSTANT):
        return ""
    return (
        " A script of TorchScript that reads a size makes a constant of it: compile the Python "
        "module that it was made of, or leave the dim out."
    )


def _told(asked: Sequence[str]) -> str:
    """Where named sizes were asked for their values, and what to write instead."""
    if not asked:
        return ""
    places = "".join([f"\n  {place}" for place in asked[:4]])
    return (
        " Sizes were asked for their values (range(n), [0] * n and functions of C make constants; "
        f"torch.arange(n), torch.zeros(n) and a tensor's own arithmetic do not) at{places}"
    )


def _with_what_it_needs(
    export: Callable[[], ExportedProgram], module: torch.nn.Module, plan: ExportPlan
) -> ExportedProgram:
    """The export, a second time where the first shows what torch must be told of the module."""
    try:
        return _with_looks(export, module, plan)
    except (RuntimeError, ValueError) as error:
        if UNKNOWN not in str(error):
            raise
        with registered_results(module):
            return _with_looks(export, module, plan)


def _with_looks(
    export: Callable[[], ExportedProgram], module: torch.nn.Module, plan: ExportPlan
) -> ExportedProgram:
    """The export, of functions that do not look at values and with those that are known where the
    first one stops at a look."""
    try:
        return _with_derivatives(export, module, plan)
    except LOOKS:
        if takes_derivatives(module, plan):
            raise  # what is read of values cannot be followed below autograd
        try:
            with SizeFunctions(), ExportableFunctions(module) as functions:
                program = export()
            if functions.known.sizes & _set_by(functions, program):
                with SizeFunctions(), ExportableFunctions(module, tell_sizes=False) as functions:
                    program = export()
        except LOOKS:
            return _read_from_bytecode(export)
        if functions.known.read & _set_by(functions, program):
            raise  # a branch that the next call may take otherwise
        plan.unsaid = tuple(dict.fromkeys(functions.checks.unsaid))
        plan.turns = tuple(functions.turns.taken.items())
        return program


def _set_by(functions: ExportableFunctions, program: ExportedProgram) -> set[str]:
    return functions.known.written | _written(program)


def _read_from_bytecode(export: Callable[..., ExportedProgram]) -> ExportedProgram:
    """The export where ``int()`` and ``float()`` of what data tell must be numbers of Python: there
    are none as the model's code runs, and there are as its bytecode is read. What is raised is what
    the code itself raises."""
    # Whatever torch has to say of bytecode.
    with contextlib.suppress(Exception), checks_in_bytecode():
        return export(strict=True)
    raise


def _with_derivatives(
    export: Callable[[], ExportedProgram], module: torch.nn.Module, plan: ExportPlan
) -> ExportedProgram:
    """The export, of what ``forward()`` does below autograd where it takes derivatives."""
    try:
        program = export()
    except LOOKS:
        raise
    except Exception as error:  # whatever torch or the model's own code raises
        if UNKNOWN in str(error) or not takes_derivatives(module, plan):
            raise
    else:
        if not may_be_lost(program) or not takes_derivatives(module, plan):
            return program
    with traced_below_autograd(module, plan):
        return export()


def _written(program: ExportedProgram) -> set[str]:
    """The buffers that a module sets to something else."""
    signature = program.graph_signature
    names = {spec.arg.name: str(spec.target) for spec in signature.input_specs}
    nodes = [n for n in program.graph.nodes if is_write(n) and isinstance(n.args[0], Node)]
    found = {names.get(n.args[0].name, "") for n in nodes}
    return found | set(signature.buffers_to_mutate.values())


def _packs(error: BaseException) -> bool:
    """Whether an error comes from packing sequences, or from a layer that was given packed ones."""
    at = error.__traceback__
    while at is not None:
        frame = at.tb_frame
        held = any(isinstance(v, PackedSequence) for v in frame.f_locals.values())
        if held or frame.f_code.co_filename.endswith(_PACKING):
            return True
        at = at.tb_next
    return False


def error_text(error: Exception) -> str:
    """The telling lines of a torch error, eight at most."""
    lines = [
        line.split(" For more information, run with")[0].rstrip()
        for line in str(error).partition("\nAt:\n")[0].splitlines()  # frames, as pybind tells them
    ]
    telling = [line for line in lines if line.strip() and not line.strip().startswith(_NOISE)]
    return f"{type(error).__name__}: " + "\n".join(telling[:8] or ["(no message)"])


__all__ = [
    "check_eval_mode",
    "error_text",
    "export_lock",
    "export_module",
]
