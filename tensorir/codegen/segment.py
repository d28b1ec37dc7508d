"""Segments: one native function that calls a run of kernels, so that the interpreter makes one
call.

A segment has the kernel ABI itself. Its workspace holds the intermediates between the kernels and
each kernel's own workspace, at byte offsets planned by its caller; it builds every kernel's
argument array on its stack. The kernels are external symbols, resolved when the images are linked
together. Between two kernels it looks whether its caller wants it to stop.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import binding, ir

from ...support.abi import RUNTIME_FIELDS, WORK_SUFFIX
from ...support.errors import CodegenError
from ...support.host import resolve
from ...support.target import Target
from ..expr import Expr, Var
from ..segment import Operand, SegmentCall
from ..visitor import free_vars
from .frames import constant_index
from .function import KERNEL_TYPE, WORK_TYPE, declare
from .llvm_expr import ExprEmitter
from .llvm_types import I8, I64, PTR, alloca
from .object import ObjectCode, emit_module, new_module, parsed_module, run_scheduled_passes


def emit_segment(
    name: str,
    calls: Sequence[SegmentCall],
    num_args: int,
    dim_names: Sequence[str],
    target: Target,
    *,
    keep_text: bool = False,
) -> ObjectCode:
    """The function ``name`` that makes ``calls`` in order.

    The expressions in ``calls`` name the segment's dimensions by the names of their variables, in
    the order of ``dim_names``. Raises CodegenError for an argument number or a dimension that does
    not exist.
    """
    target = resolve(target)
    module = new_module(target)
    function = declare(module, name, KERNEL_TYPE, internal=False)
    args, dims, workspace, rt = function.args
    emitter = ExprEmitter(ir.IRBuilder(function.append_basic_block("entry")))
    b = emitter.builder
    widest = max([len(c.operands) for c in calls], default=0)
    most_dims = max([len(c.dims) for c in calls], default=0)
    own_args = alloca(b, ir.ArrayType(PTR, max(widest, 1)))
    own_dims = alloca(b, ir.ArrayType(I64, max(most_dims, 1)))
    dim_values: dict[str, ir.Value] = {
        n: b.load(b.gep(dims, [constant_index(k)], source_etype=I64), align=8, typ=I64)
        for k, n in enumerate(dim_names)
    }
    loaded: dict[int, ir.Value] = {}

    def offset(e: Expr) -> ir.Value:
        for var in free_vars([e]):
            if id(var) not in emitter.values:
                _bind(emitter, var, dim_values, name)
        return emitter.index(e)

    cancelled = function.append_basic_block("cancelled")
    ir.IRBuilder(cancelled).ret_void()
    for number, call in enumerate(calls):
        if number:
            _look(b, rt, cancelled)
        for k, operand in enumerate(call.operands):
            value = _operand(b, operand, args, workspace, loaded, num_args, name, offset)
            b.store(value, b.gep(own_args, [constant_index(k)], source_etype=PTR), align=8)
        for k, dim in enumerate(call.dims):
            b.store(offset(dim), b.gep(own_dims, [constant_index(k)], source_etype=I64), align=8)
        kernel = module.globals.get(call.symbol)
        if kernel is None:
            kernel = ir.Function(module, KERNEL_TYPE, call.symbol)
        own_workspace = b.gep(workspace, [offset(call.workspace_offset)], source_etype=I8)
        b.call(kernel, [own_args, own_dims, own_workspace, rt])
    b.ret_void()
    _emit_work(module, name, calls, dim_names)
    parsed = parsed_module(module, binding.create_context())
    run_scheduled_passes(parsed, target)
    return emit_module(parsed, target, keep_text=keep_text)


def _look(b: ir.IRBuilder, rt: ir.Value, cancelled: ir.Block) -> None:
    """Return where the caller wants that."""
    where = b.gep(rt, [constant_index(RUNTIME_FIELDS.index("cancel"))], source_etype=I64)
    flag = b.load_atomic(where, "monotonic", 8, typ=I64)
    go_on = b.append_basic_block()
    b.cbranch(b.icmp_signed("==", flag, constant_index(0)), go_on, cancelled)
    b.position_at_end(go_on)


def _emit_work(
    module: ir.Module, name: str, calls: Sequence[SegmentCall], dim_names: Sequence[str]
) -> None:
    """The function that says how long a call may take: the sum of its kernels' own."""
    function = declare(module, name + WORK_SUFFIX, WORK_TYPE, internal=False)
    emitter = ExprEmitter(ir.IRBuilder(function.append_basic_block("entry")))
    b = emitter.builder
    most_dims = max([len(c.dims) for c in calls], default=0)
    own_dims = alloca(b, ir.ArrayType(I64, max(most_dims, 1)))
    (dims,) = function.args
    dim_values: dict[str, ir.Value] = {
        n: b.load(b.gep(dims, [constant_index(k)], source_etype=I64), align=8, typ=I64)
        for k, n in enumerate(dim_names)
    }
    total: ir.Value = constant_index(0)
    for call in calls:
        for k, dim in enumerate(call.dims):
            for var in free_vars([dim]):
                if id(var) not in emitter.values:
                    _bind(emitter, var, dim_values, name)
            where = b.gep(own_dims, [constant_index(k)], source_etype=I64)
            b.store(emitter.index(dim), where, align=8)
        known = module.globals.get(call.symbol + WORK_SUFFIX)
        work = known or ir.Function(module, WORK_TYPE, call.symbol + WORK_SUFFIX)
        total = b.add(total, b.call(work, [own_dims]))
    b.ret(total)


def _bind(emitter: ExprEmitter, var: Var, dims: dict[str, ir.Value], segment: str) -> None:
    value = dims.get(var.name)
    if value is None:
        raise CodegenError(
            f"Segment {segment} has no dimension {var.name}; it has {', '.join(dims) or 'none'}."
        )
    emitter.bind(var, value)
    emitter.scope.declare_dim(var)


def _operand(
    b: ir.IRBuilder,
    operand: Operand,
    args: ir.Value,
    workspace: ir.Value,
    loaded: dict[int, ir.Value],
    num_args: int,
    segment: str,
    offset: object,
) -> ir.Value:
    kind, where = operand
    if isinstance(where, Expr):
        assert callable(offset)
        return b.gep(workspace, [offset(where)], source_etype=I8)
    if kind != "arg" or not 0 <= where < num_args:
        raise CodegenError(
            f"Segment {segment} has {num_args} arguments; a call names {kind} {where}."
        )
    if where not in loaded:
        loaded[where] = b.load(
            b.gep(args, [constant_index(where)], source_etype=PTR), align=8, typ=PTR
        )
    return loaded[where]
