"""plan_segments: runs of kernel calls as one native function each.

A *run* is a maximal sequence of kernel calls with nothing between them. What only a run itself uses
becomes part of its workspace, placed by ``plan_memory``; the kernels' own workspaces follow behind,
all in one place, because the kernels run one after another:

    workspace  [ intermediates, shared by lifetime | kernel workspace, as large as the largest ]

A SegmentPlan says what ``tensorir.codegen.emit_segment`` is to emit; nothing is emitted here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from keyword import iskeyword

from ...tensorir.expr import Expr, IntImm, maximum
from ...tensorir.expr import Var as DimVar
from ...tensorir.segment import Operand, SegmentCall
from ...tensorir.visitor import free_vars
from ...vm.program import Kernel, Param, TensorSpec
from ..dim import dim_equal, print_dim, product
from ..passes.plan_memory import Lifetime, plan_memory
from ..type import TensorType
from .linearize import KernelOp, Memory


@dataclass(frozen=True)
class SegmentPlan:
    """A segment: ``name`` is its symbol; the expressions in ``calls`` name its dims by the names of
    their variables, in the order of ``dim_names``. ``kernel`` is its descriptor for the VM,
    ``args`` the memories its arguments are."""

    name: str
    calls: tuple[SegmentCall, ...]
    num_args: int
    dim_names: tuple[str, ...]
    kernel: Kernel
    args: tuple[Memory, ...]


def size_of(type_: TensorType) -> Expr:
    """Bytes of a tensor."""
    return product((*type_.shape, IntImm(type_.dtype.itemsize)))


def spec_of(type_: TensorType) -> TensorSpec:
    """A tensor's type in a program; dims must have unique names already."""
    return TensorSpec(tuple([print_dim(d) for d in type_.shape]), str(type_.dtype))


def plan_segment(
    name: str, run: Sequence[KernelOp], outside: frozenset[Memory], dims: Sequence[DimVar]
) -> SegmentPlan:
    """Plan one run; ``outside`` are the memories it writes that something else reads.

    ``dims`` are the function's dims, of unique names.
    """
    last: dict[Memory, int] = {}
    first: dict[Memory, int] = {}
    for step, op in enumerate(run):
        for view in op.outs:
            first[view.memory] = last[view.memory] = step
        for view in op.args:
            last[view.memory] = step
    inner = [m for m in first if m not in outside]
    plan = plan_memory([Lifetime(size_of(m.type), first[m], last[m]) for m in inner])
    place = dict(zip(inner, plan.offsets, strict=True))
    inputs = [m for m in last if m not in first]
    args = (*inputs, *[m for m in first if m in outside])
    number = {m: i for i, m in enumerate(args)}

    def operand(memory: Memory) -> Operand:
        if memory in place:
            return ("workspace", place[memory])
        return ("arg", number[memory])

    calls = tuple(
        [
            SegmentCall(
                op.info.kernel.symbol,
                tuple([operand(v.memory) for v in (*op.args, *op.outs)]),
                op.dims,
                plan.total,
            )
            for op in run
        ]
    )
    shared = plan.total + _largest([op.shared_bytes for op in run])
    thread = _largest([op.thread_bytes for op in run])
    shapes = [d for m in args for d in m.type.shape]
    used = set(free_vars([*shapes, shared, thread, *_expressions(calls)]))
    names = tuple([d.name for d in dims if d in used])
    kernel = Kernel(
        name,
        name,
        tuple([Param(f"a{i}", spec_of(m.type)) for i, m in enumerate(args)]),
        tuple(range(len(inputs), len(args))),
        names,
        print_dim(shared),
        print_dim(thread),
    )
    return SegmentPlan(name, calls, len(args), names, kernel, args)


def _expressions(calls: Sequence[SegmentCall]) -> list[Expr]:
    found: list[Expr] = []
    for call in calls:
        found += [*call.dims, call.workspace_offset]
        found += [where for _, where in call.operands if isinstance(where, Expr)]
    return found


def _largest(sizes: Sequence[Expr]) -> Expr:
    """The maximum, each size that is proved equal to another counted once."""
    distinct: list[Expr] = []
    for size in sizes:
        if not any(dim_equal(size, other) for other in (*distinct, IntImm(0))):
            distinct.append(size)
    return reduce(maximum, distinct) if distinct else IntImm(0)


def rename_dims(dims: Sequence[DimVar]) -> Mapping[DimVar, DimVar]:
    """Each dim with a variable whose name is an identifier of its own; itself where it has one."""
    result: dict[DimVar, DimVar] = {}
    taken: set[str] = {"min", "max"}
    for dim in dims:
        stem = dim.name if dim.name.isidentifier() and not iskeyword(dim.name) else "d"
        name, count = stem, 1
        while name in taken:
            name = f"{stem}_{count}"
            count += 1
        taken.add(name)
        result[dim] = dim if name == dim.name else DimVar(name)
    return result
