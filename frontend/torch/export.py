"""From an nn.Module to an ExportedProgram whose named dims really may have any size.

torch.export resolves a branch on "is this size 1?" without a word, because it assumes sizes of 2
and more. So a dynamic model is first exported under torch's size-oblivious rules, in which such a
branch is an error. A branch may still be harmless (attention asks whether a layout is contiguous):
then the ordinary export stands, if the program agrees with the module at size 1. Whether they agree
at size 0 is always asked, because no rule of torch covers it.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.backends.opt_einsum as opt_einsum
import torch.fx.experimental._config as symbolic_config
from torch.export import ExportedProgram, _trace
from torch.export.graph_signature import InputKind
from torch.fx import Node, Tracer
from torch.nn.utils.rnn import PackedSequence
from torch.utils import _pytree as pytree

from ...support.errors import BurnishError, FrontendError
from .assignments import empty_buffers_aside, followed, lost_when_repeated, written_in_place
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
from .known_types import UNKNOWN, register_types, registered_results, replaced_forward
from .registry import REAL, import_dtype, raised_at
from .scripted_modules import (
    changes_in_training,
    give_class,
    kind_of,
    module_of,
    scripts_alone,
    without_script,
)
from .size_builtins import SizeBuiltins, namespaces_at, namespaces_of
from .size_functions import SeveralNames, SizeFunctions
from .traced_data import traced_data
from .unsaid_guards import TRIED, check_guards, is_true, largest_of, near, short_sizes
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
_MUST_BE_CONSTANT = "Specializations unexpectedly required"
"""What torch says, behind its guards, of a size for which they leave a single value."""
_IS_GUARD = "satisfy the generated guard"
_MADE_CONSTANT = ("specialized it to be a constant", _MUST_BE_CONSTANT)
"""What torch says where the code asks a size for its value."""
_TAKES_NO_SIZES = (TypeError, AttributeError, AssertionError)
"""What code raises that asks whether a size is an integer of Python's, and functions of C."""
_GUARD = re.compile(
    r"Not all values of (?P<name>\w+) = (?P<size>\S+) in the specified range.*? "
    r"satisfy the generated guard (?P<condition>.*?)\.?$"
)
"""What torch says of a size of which it cannot show that it takes the same branch as the
example's."""
_RANGE = re.compile(r"(\d+) <= (\S+) and \2 <= (\d+|IntInfinity\(\))")
"""A guard that says only how small and how large a size may be."""
_FRACTION = re.compile(r"got (<=?|>=?) for (\w+) \1 (\d+)/(\d+)$")
"""What torch raises where a multiple of a size is to be less than a number, or more."""
_MOST_GAPS = 16
_MOST_TURNS = 3
"""Exports with other functions of sizes, each also in the files where the one before was asked."""
_ROUNDINGS = 4
"""Of half precision, by which two ways to compute one thing may differ."""
_LOGGERS = (
    "torch._guards", "torch._subclasses.fake_tensor", "torch.export._trace",
    "torch.fx.experimental.symbolic_shapes",
)  # fmt: skip
"""Loggers that tell of an error which is raised behind that."""


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
        return _export_module(module, args, kwargs, dynamic_shapes)


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
        return exported, plan
    program, is_oblivious = _export_obliviously(module, plan), True
    if program is None:
        try:
            program, is_oblivious = _export(module, plan), False
        except FrontendError as error:
            bounds = _suggested_bounds(error)
            if bounds:
                plan = plan_export(module, args, kwargs, dynamic_shapes, bounds)
                program = _export_obliviously(module, plan)
            if program is None:
                refused = None if bounds else error
                program, is_oblivious = _export_with_gaps(module, plan, refused), False
    looked_at = {*plan.doubtful, *plan.short, *(() if is_oblivious else (1,))}
    for size in sorted(looked_at, reverse=True):
        _check_size(size, module, program, plan)
    _leave_out_nothing(module, program, plan)
    _check_repeated(module, args, kwargs, plan)
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


def _check_size(
    size: int, module: torch.nn.Module, program: ExportedProgram, plan: ExportPlan
) -> None:
    """Raise FrontendError where the module computes something else at this size of its named dims,
    or of one. Where it does so because short axes have less parts, dims are larger than that."""
    if plan.leaves_out(size):
        return
    try:
        if not check_at_size(size, module, program, plan):
            for name in plan.names:
                check_at_size(size, module, program, plan, name)
    except FrontendError:
        if size not in plan.short:
            raise
        plan.leave_out(size)


def _leave_out_nothing(module: torch.nn.Module, program: ExportedProgram, plan: ExportPlan) -> None:
    """Where the module computes something else for tensors without elements, dims are 1 and more:
    those that alone make the difference, or all."""

    def differs(name: str | None) -> bool:
        try:
            check_at_size(0, module, program, plan, name)
        except FrontendError:
            return True
        return False

    found = [name for name in plan.names if differs(name)]
    if not found and differs(None):
        found = list(plan.names)
    for name in found:
        plan.leave_out(0, name)


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
        gaps = _gaps(error, plan)
        if gaps is None or not _CAN_DEFER:
            raise
        program = _export(module, plan, prefer_deferred_runtime_asserts_over_guards=True)
        said = [n for n in program.graph.nodes if n.target is torch.ops.aten._assert_scalar.default]
        left_out = {size for _, size in gaps}
        for node in said:
            fails = _fails_at(node.args[0])
            if fails is None or not left_out.issuperset(fails):
                raise
            program.graph.erase_node(node)
        program.graph.eliminate_dead_code()
        program.graph_module.recompile()
        for name, size in sorted(gaps, key=lambda gap: -gap[1]):
            _check_gap(name, size, module, program, plan)
        return program


def _check_gap(
    name: str, size: int, module: torch.nn.Module, program: ExportedProgram, plan: ExportPlan
) -> None:
    """Raise FrontendError where the module computes something else at a size that torch leaves out.
    A dim is larger than one at which the module itself fails, or has less parts."""
    if plan.leaves_out(size, name):
        return
    try:
        if check_at_size(size, module, program, plan, name):
            return
    except FrontendError:
        if size not in plan.short:
            raise
    plan.leave_out(size, name)


def _fails_at(condition: Any) -> list[int] | None:
    """The sizes for which a condition of one size is false; None for conditions of several, or of
    data."""
    value = condition.meta.get("val") if isinstance(condition, Node) else condition
    expr: Any = getattr(getattr(value, "node", None), "expr", value)
    symbols = list(getattr(expr, "free_symbols", ()))
    if not symbols:
        return [] if bool(expr) else None
    if len(symbols) > 1 or not str(symbols[0]).startswith("s"):
        return None
    tried = near([int(a) for a in expr.atoms() if a.is_Integer])
    return [n for n in sorted({*range(1, 257), *tried}) if not expr.subs(symbols[0], n)]


def _gaps(error: FrontendError, plan: ExportPlan) -> list[tuple[str, int]] | None:
    """The sizes of named dims that torch leaves out by guards of one dim each; None where it has
    something else to say, or leaves out more than a few."""
    said = str(error.__cause__)
    if _MUST_BE_CONSTANT in said:
        return None
    lines = re.findall(r"^ +- (.*)$", said, re.M)
    guards = [_GUARD.match(line) for line in lines]
    found: dict[tuple[str, int], None] = {}
    for guard in guards:
        if guard is None or guard["name"] not in plan.names:
            return None
        condition = guard["condition"].replace(guard["size"], "size")
        if "L[" in condition:
            return None
        tried = [*TRIED, *sorted(near([int(n) for n in re.findall(r"\d+", condition)]))]
        try:
            code = compile(condition, "<guard>", "eval")
            found |= {(guard["name"], n): None for n in tried if not is_true(code, {"size": n})}
        except (SyntaxError, NameError, TypeError):  # functions that are no Python
            return None
        if len(found) > _MOST_GAPS:
            return None
    return list(found) if guards else None


def _suggested_bounds(error: FrontendError) -> dict[str, dict[str, int]]:
    """The bounds of named dims under which torch says that a module would export: a table of
    positions has so many rows. A dim that would have to be constant has none."""
    found: dict[str, dict[str, int]] = {}
    for name, given in re.findall(r"^\s*(\w+) = Dim\('\w+', ([^)]*)\)", str(error.__cause__), re.M):
        sides = re.findall(r"(min|max)=(\d+)", given)
        found[name] = {side: int(value) for side, value in sides}
    for line in re.findall(r"^ +- (.*)$", str(error.__cause__), re.M):
        guard = _GUARD.match(line)
        limits = guard and _RANGE.fullmatch(guard["condition"])
        if guard and limits and limits[1] != limits[3]:
            sides = [("min", limits[1]), ("max", limits[3])]
            found[guard["name"]] = {k: int(value) for k, value in sides if value.isdigit()}
        elif guard:
            largest = largest_of(guard["condition"].replace(guard["size"], "size0"))
            if largest is not None:
                known = found.setdefault(guard["name"], {})
                known["max"] = min(known.get("max", largest), largest)
    fraction = _FRACTION.search(str(error.__cause__))
    if fraction:
        whole = int(fraction[3]) // int(fraction[4])
        side = {"max": whole} if fraction[1].startswith("<") else {"min": whole + 1}
        found[fraction[2]] = side
    return found


def _export_obliviously(module: torch.nn.Module, plan: ExportPlan) -> ExportedProgram | None:
    """The program under the size-oblivious rules; None where they refuse the module, or torch is
    too old to have them."""
    if hasattr(symbolic_config, "backed_size_oblivious"):
        with contextlib.suppress(FrontendError), _size_oblivious():
            try:
                return _export(module, plan)
            except FrontendError as error:
                if _suggested_bounds(error):
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


def _size_oblivious() -> Any:
    patch: Any = symbolic_config.patch  # type: ignore[attr-defined]
    return patch(backed_size_oblivious=True)


@contextlib.contextmanager
def quiet_torch() -> Iterator[None]:
    """Silences what torch's exporter says about its own code, and what it logs of an error before
    it raises that, the graph of half a module that it prints then too; a model's warnings pass, and
    the logs of who asks for more than warnings."""
    with warnings.catch_warnings(), contextlib.ExitStack() as stack:
        stack.callback(vars(_trace).pop, "print", None)
        vars(_trace)["print"] = lambda *values, **options: None
        for logger in map(logging.getLogger, _LOGGERS):
            if logger.getEffectiveLevel() >= logging.WARNING:
                stack.callback(logger.setLevel, logger.level)
                logger.setLevel(logging.CRITICAL)
        warnings.filterwarnings("ignore", r".*treespec, LeafSpec", FutureWarning)
        # What a module sets is followed; recurrent layers list their weights anew.
        warnings.filterwarnings("ignore", r"The tensor attributes? self\.")
        for category in (DeprecationWarning, FutureWarning):
            warnings.filterwarnings("ignore", "", category, module=r"torch\.")
        yield


@contextlib.contextmanager
def _named_keywords(module: torch.nn.Module, plan: ExportPlan) -> Iterator[None]:
    """Lets ``forward(**inputs)`` have the names it is called with, where dims have names:
    torch.export then counts such inputs twice, by name and below ``inputs``."""
    signature = inspect.signature(module.forward)
    parameters = list(signature.parameters.values())
    if plan.specification is None or not any(p.kind is p.VAR_KEYWORD for p in parameters):
        yield
        return
    forward = module.forward

    def named(*args: Any, **kwargs: Any) -> Any:
        return forward(*args, **kwargs)

    known = [p for p in parameters if p.kind is not p.VAR_KEYWORD]
    more = [n for n in plan.kwargs if n not in signature.parameters]
    keywords = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY) for n in more]
    named.__signature__ = signature.replace(parameters=known + keywords)  # type: ignore[attr-defined]
    specification = plan.specification
    plan.specification = {}
    for name, entry in specification.items():
        is_rest = name in signature.parameters and (
            signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
        )
        plan.specification |= entry if is_rest else {name: entry}
    try:
        with replaced_forward(module, named):
            yield
    finally:
        plan.specification = specification


@contextlib.contextmanager
def _paths_of_examples() -> Iterator[None]:
    """Where opt_einsum is installed, ``torch.einsum`` asks it for the order of three operands and
    more. It compares their sizes, which would make constants of named ones: it is told those of the
    example."""
    if not opt_einsum.is_available():
        yield
        return
    held, own = opt_einsum.get_opt_einsum(), vars(opt_einsum).get("get_opt_einsum")

    class Paths:
        @staticmethod
        def contract_path(equation: str, *operands: torch.Tensor, **options: Any) -> Any:
            shapes = [tuple([_example_size(s) for s in x.shape]) for x in operands]
            return held.contract_path(equation, *shapes, shapes=True, **options)

    opt_einsum.get_opt_einsum = lambda: Paths
    try:
        yield
    finally:
        del opt_einsum.get_opt_einsum
        if own is not None:
            opt_einsum.get_opt_einsum = own


def _example_size(size: Any) -> int:
    return int(size.node.hint) if isinstance(size, torch.SymInt) else int(size)


@contextlib.contextmanager
def _failing_calls() -> Iterator[None]:
    """Lets a module try to call another and catch what that raises (``except TypeError``): torch's
    tracer would count what follows as inside of the other."""
    call = Tracer.call_module

    def call_module(self: Tracer, *args: Any) -> Any:
        depth = len(self.module_stack)
        try:
            return call(self, *args)
        except BaseException:
            while len(self.module_stack) > depth:
                self.module_stack.popitem()
            raise

    Tracer.call_module = call_module  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        Tracer.call_module = call  # type: ignore[method-assign]


def _exporter(
    module: torch.nn.Module, plan: ExportPlan, options: Mapping[str, Any]
) -> Callable[..., ExportedProgram]:
    """What exports a module once, and once more where its ``forward()`` sets tensors."""

    def attempt(strict: bool = False) -> ExportedProgram:
        # Each attempt starts with the module as it is: a cache would keep tensors without values.
        with (
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
            _named_keywords(module, plan),
            _paths_of_examples(),
            _failing_calls(),
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
        except LOOKS:
            return _read_from_bytecode(export)
        if functions.known.is_stale or functions.known.read & _written(program):
            raise  # a branch that the next call may take otherwise
        plan.unsaid = tuple(dict.fromkeys(functions.checks.unsaid))
        return program


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


def check_at_size(
    size: int,
    module: torch.nn.Module,
    program: ExportedProgram,
    plan: ExportPlan,
    only: str | None = None,
) -> bool:
    """Raise FrontendError where the program and the module disagree when every named dim has this
    size (or the least that its user allows), or ``only`` that one, and the others 1, or what they
    are in the examples where the module needs more. A module that fails at this size itself is no
    judge, and False."""
    return any(
        _agrees_at_size(size, module, program, plan, only, rest=rest, is_drawn=is_drawn)
        for rest in ((1,) if only is None else (1, None))
        for is_drawn in (False, True)
    )


def _agrees_at_size(
    size: int,
    module: torch.nn.Module,
    program: ExportedProgram,
    plan: ExportPlan,
    only: str | None,
    *,
    rest: int | None,
    is_drawn: bool,
) -> bool:
    """``check_at_size`` with dims other than ``only`` of the size ``rest``, or their own (None).
    Integers and flags are those of the examples, repeated, or zeros if ``is_drawn``: examples may
    point at what smaller sizes do not have, and zeros hide most of what a module does."""
    leaves, structure = pytree.tree_flatten((plan.args, plan.kwargs))
    generator = torch.Generator().manual_seed(0)
    shapes = {i: list(leaves[i].shape) for i, _, _ in plan.extents}
    for (i, axis, extent), (_, _, name) in zip(plan.extents, plan.places, strict=True):
        given = size if only in (None, name) else rest
        if given is not None:
            shapes[i][axis] = extent(given)
    for i, shape in shapes.items():
        example = plan.examples[i]
        is_counted = not (example.is_floating_point() or example.is_complex())
        if is_counted and example.numel() and not is_drawn:
            leaves[i] = _repeated(example, shape)
        else:
            kind = example.dtype if example.is_complex() else None
            leaves[i] = torch.rand(shape, dtype=kind, generator=generator).to(example.dtype)
    args, kwargs = pytree.tree_unflatten(leaves, structure)
    with quiet_torch(), torch.no_grad():
        try:
            with unchanged(module, plan.changed):
                expected = pytree.tree_leaves(copied(eager_call(module, args, kwargs)))
        except Exception:  # whatever the model's own code raises
            return False
        try:
            with unchanged(module, plan.changed):
                found = copied(run_program(program, leaves))
        except Exception:  # what the module can do, the program must do
            found = []
    if len(found) != len(expected) or not all(map(_agree, found, expected)):
        raise FrontendError(
            f"forward() computes something else where {only or ' and '.join(plan.names)} is "
            f"{size}: a branch in Python depends on a size, and torch.export took one side of it. "
            "Rewrite the branch, or make the dim static."
        )
    return True


def _repeated(x: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """The elements of ``x`` as often as a tensor of this shape takes, axis by axis."""
    for axis, size in enumerate(shape):
        x = x.index_select(axis, torch.arange(size) % x.shape[axis])
    return x


def _agree(a: Any, b: Any) -> bool:
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return bool(a == b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    relative, absolute = 1e-3, 1e-4
    if a.dtype in (torch.float16, torch.bfloat16) and b.numel():
        # Eager itself rounds in other places where it takes another way (a fused layer).
        relative = _ROUNDINGS * torch.finfo(a.dtype).eps
        absolute = relative * float(b.abs().nan_to_num(0, 0).max())
    wide = torch.complex128 if a.is_complex() else torch.float64
    return torch.allclose(a.to(wide), b.to(wide), rtol=relative, atol=absolute, equal_nan=True)


def run_program(program: ExportedProgram, leaves: Sequence[Any]) -> list[Any]:
    """The flat outputs of an exported program on flat inputs, node by node, without its size
    checks."""
    result = ProgramRun(program.graph_module).run(*program_inputs(program, leaves))
    return list(result)


class ProgramRun(torch.fx.Interpreter):
    """Runs a program's operators. Where an operator gives another order in memory than it had while
    the program was traced, a view of it that torch would refuse is a copy."""

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if target is torch.ops.aten.view.default:
            target = torch.ops.aten.reshape.default
        return super().call_function(target, args, kwargs)


def program_inputs(program: ExportedProgram, leaves: Sequence[Any]) -> list[Any]:
    """What the placeholders of a program stand for, in order: weights, then the leaves of a
    call."""
    rest = iter(leaves)
    values: list[Any] = []
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            values.append(next(rest))
            continue
        stored = program.state_dict.get(spec.target or "")
        values.append(program.constants.get(spec.target or "") if stored is None else stored)
    return values


__all__ = [
    "check_eval_mode",
    "error_text",
    "export_lock",
    "export_module",
    "program_inputs",
    "quiet_torch",
    "run_program",
]
