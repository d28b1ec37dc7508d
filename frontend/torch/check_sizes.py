"""Whether a program is right where torch.export does not answer for it: it is compared with eager.

For the examples themselves: while a module is traced, its tensors and named sizes are of other
types (``type(x) is torch.Tensor``, ``isinstance(n, int)``), and it may do something else. And for
sizes that branches ask for ("is this size 1?"): 0, the rows of a table, chunks that a short axis
does not have. Module and program are called, and agree, or the module is no judge (it fails
itself), or the dim does not have the size, or the module is refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from ...support.errors import FrontendError
from .dynamic_shapes import ExportPlan
from .eager_call import copied, eager_call, is_plain, unchanged
from .numbers_of_data import READS
from .object_parts import numbers_of
from .registry import operator_name
from .surroundings import quiet_torch

_CRASHING = frozenset(
    {"aten.embedding_bag.padding_idx", "aten.embedding_bag.default", "aten._embedding_bag.default"}
)
"""What of torch ends the process where there are no bags."""
_COMPARED = (torch.float32, torch.float64, torch.complex64, torch.complex128)
"""What is compared as it is: copies of logits take gigabytes."""
_WITHOUT_OPERATORS = (torch.uint16, torch.uint32, torch.uint64)
_ROUNDINGS = 4
"""Of half precision, by which two ways to compute one thing may differ."""


class DiffersError(FrontendError):
    """A program computes something else than its module."""


def check_example(module: torch.nn.Module, program: ExportedProgram, plan: ExportPlan) -> None:
    """Raise DiffersError where the module computes something else for the examples, and for some
    others where it reads numbers out of them. Results of no defined values are not compared."""
    leaves, structure = pytree.tree_flatten((plan.args, plan.kwargs))
    leaves = [plan.examples.get(i, leaf) for i, leaf in enumerate(leaves)]
    is_traced = isinstance(module, torch.fx.GraphModule)  # there is no Python left
    is_undefined = any("empty" in str(n.target) for n in program.graph.nodes)
    is_fake = any(isinstance(x, FakeTensor) for x in leaves)
    if is_traced or is_undefined or is_fake or plan.leaves_examples_out():
        return
    with _no_fast_paths():
        differs = any(
            _agrees(module, program, plan, tried, structure, if_program_fails=None) is False
            for tried in (leaves, *(_others(leaves) if _reads_data(program) else ()))
        )
    if differs:
        raise DiffersError(
            "forward() computes something else for these inputs than the program that torch.export "
            "made of it: Python asks what has another answer while a module is traced, as "
            "x.__class__ is torch.Tensor, x.item() is True, torch.compiler.is_compiling(), clocks "
            "and a torch.Generator have. Write isinstance(x, torch.Tensor), torch.where for "
            "branches on data, and make an input of what is another in each call."
        )


def check_size(
    size: int,
    module: torch.nn.Module,
    program: ExportedProgram,
    plan: ExportPlan,
    gap: str | None = None,
) -> None:
    """Raise FrontendError where the module computes something else at this size of its named dims,
    or of one. Where it does so because short axes have less parts, dims are larger than that.
    ``gap`` is the dim alone that is looked at, since torch leaves the size out: it is larger, too,
    than a size at which the module itself fails."""
    if plan.leaves_out(size, gap):
        return
    try:
        is_judged = check_at_size(size, module, program, plan, gap)
        if not is_judged and gap is None:
            for name in plan.names:
                check_at_size(size, module, program, plan, name)
    except FrontendError:
        if size not in plan.short:
            raise
    else:
        if is_judged or gap is None:
            return
    plan.leave_out(size, gap)


def leave_out_nothing(module: torch.nn.Module, program: ExportedProgram, plan: ExportPlan) -> None:
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


def leave_out_one(module: torch.nn.Module, program: ExportedProgram, plan: ExportPlan) -> None:
    """Where the module computes something else for dims of 1 (``if len(x) > 1``, ``x.squeeze()``),
    dims are 2 and more: those that alone make the difference, or all. A program that is exported as
    if sizes were 2 and more says nothing of that."""

    def agrees(name: str | None, rest: int | None) -> bool | None:
        try:
            judged = _agrees_at_size(1, module, program, plan, name, rest=rest, is_drawn=False)
        except FrontendError:
            return False
        return True if judged else None

    together = agrees(None, 1)
    if together:
        return
    found = [name for name in plan.names if agrees(name, None) is False]
    if not found and together is False:
        found = list(plan.names)
    for name in found:
        plan.leave_out(1, name)


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
    if not size and any(operator_name(n) in _CRASHING for n in program.graph.nodes):
        return False
    sizes = {name: size if only in (None, name) else rest for name in plan.names}
    leaves, structure = _inputs_of_sizes(sizes, plan, is_drawn=is_drawn)
    # What the module can do, the program must do.
    agrees = _agrees(module, program, plan, leaves, structure, if_program_fails=False)
    if agrees is False:
        raise _differs(f"{only or ' and '.join(plan.names)} is {size}")
    return agrees is not None


def check_together(
    sizes: Mapping[str, int], module: torch.nn.Module, program: ExportedProgram, plan: ExportPlan
) -> None:
    """Raise DiffersError where the program and the module disagree when these dims have these
    sizes, and the others what they are in the examples."""
    for is_drawn in (False, True):
        leaves, structure = _inputs_of_sizes(sizes, plan, is_drawn=is_drawn)
        if _agrees(module, program, plan, leaves, structure, if_program_fails=False) is False:
            raise _differs(" and ".join([f"{name} is {n}" for name, n in sizes.items()]))


def _differs(where: str) -> DiffersError:
    return DiffersError(
        f"forward() computes something else where {where}: a branch in Python depends on a size, "
        "and torch.export took one side of it. Rewrite the branch, or make the dim static."
    )


def _inputs_of_sizes(
    sizes: Mapping[str, int | None], plan: ExportPlan, *, is_drawn: bool
) -> tuple[list[Any], pytree.TreeSpec]:
    """The inputs of a plan, whose dims with names have these sizes, or (None) their own."""
    leaves, structure = pytree.tree_flatten((plan.args, plan.kwargs))
    generator = torch.Generator().manual_seed(0)
    shapes = {i: list(leaves[i].shape) for i, _, _ in plan.extents}
    for (i, axis, extent), (_, _, name) in zip(plan.extents, plan.places, strict=True):
        given = sizes.get(name)
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
    return leaves, structure


def _agrees(
    module: torch.nn.Module,
    program: ExportedProgram,
    plan: ExportPlan,
    leaves: Sequence[Any],
    structure: pytree.TreeSpec,
    *,
    if_program_fails: bool | None,
) -> bool | None:
    """Whether a program gives what the module gives; None where the module fails itself, or gives
    what cannot be compared."""
    args, kwargs = pytree.tree_unflatten(copied(list(leaves)), structure)
    with quiet_torch(), torch.no_grad():
        try:
            with unchanged(module, plan.changed):
                expected = _numbers_and_leaves(copied(eager_call(module, args, kwargs)))
        except Exception:  # whatever the model's own code raises
            return None
        try:
            with unchanged(module, plan.changed):
                outputs = copied(run_program(program, copied(list(leaves))))
            found = _numbers_and_leaves(pytree.tree_unflatten(outputs, program.call_spec.out_spec))
        except Exception:  # operators that run in a compiled program alone
            return if_program_fails
    if not all(is_plain(x) for x in expected if isinstance(x, torch.Tensor)):
        return None
    rounds = any(_is_half(n.meta.get("val")) for n in program.graph.nodes)
    if len(found) != len(expected):
        return False
    try:
        return all(_agree(a, b, rounds=rounds) for a, b in zip(found, expected, strict=True))
    except (RuntimeError, TypeError):  # what torch does not compare
        return None


def _numbers_and_leaves(result: Any) -> list[Any]:
    """The leaves of a result, and the numbers that are of an object's structure in an eager call,
    and leaves of a program if they vary."""
    leaves, spec = pytree.tree_flatten(result)
    return [*_held_numbers(spec), *leaves]


def _held_numbers(spec: pytree.TreeSpec) -> list[Any]:
    inside = [number for child in spec.children() for number in _held_numbers(child)]
    return [*numbers_of(spec.context), *inside]


def _reads_data(program: ExportedProgram) -> bool:
    return any(
        node.op == "call_function" and operator_name(node) in READS for node in program.graph.nodes
    )


def _others(leaves: Sequence[Any]) -> Iterator[list[Any]]:
    """Inputs for which a flag out of data may be another."""
    for change in (torch.zeros_like, torch.ones_like, torch.neg):
        yield [
            change(x) if isinstance(x, torch.Tensor) and x.dtype.is_floating_point else x
            for x in leaves
        ]


@contextlib.contextmanager
def _no_fast_paths() -> Iterator[None]:
    """Without the layers of torch that compute what is padded otherwise than the code that is
    traced."""
    are_on = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(are_on)


def _repeated(x: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """The elements of ``x`` as often as a tensor of this shape takes, axis by axis."""
    kind = x.dtype
    x = x.to(torch.int64) if kind in _WITHOUT_OPERATORS else x
    for axis, size in enumerate(shape):
        x = x.index_select(axis, torch.arange(size) % x.shape[axis])
    return x.to(kind)


def _agree(a: Any, b: Any, *, rounds: bool = False) -> bool:
    """Whether a result of a program is the module's. ``rounds``: some of its operators compute in
    half precision."""
    if not isinstance(a, torch.Tensor) and not isinstance(b, torch.Tensor):
        with contextlib.suppress(Exception):  # what others make of ==
            return bool(a == b) or bool(a != a and b != b)
        return True
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return False
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    relative, absolute = 1e-3, 1e-4
    if (rounds or _is_half(b)) and b.is_floating_point() and b.numel():
        # Eager itself rounds in other places where it takes another way (a fused layer).
        relative = _ROUNDINGS * torch.finfo(a.dtype if _is_half(b) else torch.bfloat16).eps
        absolute = relative * float(b.abs().nan_to_num(0, 0).max())
    if a.dtype not in _COMPARED:
        a, b = a.to(torch.float64), b.to(torch.float64)
    return torch.allclose(a, b, rtol=relative, atol=absolute, equal_nan=True)


def _is_half(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.dtype in (torch.float16, torch.bfloat16)


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
    "DiffersError",
    "ProgramRun",
    "check_at_size",
    "check_example",
    "check_size",
    "check_together",
    "leave_out_nothing",
    "leave_out_one",
    "program_inputs",
    "run_program",
]
