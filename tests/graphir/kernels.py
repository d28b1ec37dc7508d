"""Kernels for tests of the graph's last stage: PrimFuncs compiled as they stand, and linked
programs."""

from __future__ import annotations

from burnish.graphir.emit.emit_vm import KernelInfo, emit_program
from burnish.graphir.module import IRModule
from burnish.support.host import native_target
from burnish.tensorir.codegen.object import emit_object
from burnish.tensorir.codegen.segment import emit_segment
from burnish.tensorir.lowering.pipeline import lower_func
from burnish.tuner.measuring.kernel import describe_kernel
from burnish.vm.program import Program


def describe(module: IRModule) -> dict[str, KernelInfo]:
    """Descriptors without code; no kernel has a workspace."""
    infos = {}
    for name, func in module.prim_funcs.items():
        lowered = lower_func(func, native_target())
        kernel = describe_kernel(func, lowered)
        infos[name] = KernelInfo(kernel, lowered.dims, lowered.shared_bytes, lowered.thread_bytes)
    return infos


def link(module: IRModule, *, segments: bool) -> Program:
    """A program that can run."""
    target = native_target()
    program, plans = emit_program(module, describe(module), segments=segments)
    program.objects = [
        emit_object([lower_func(f, target)], target).image for f in module.prim_funcs.values()
    ]
    for p in plans:
        code = emit_segment(p.name, p.calls, p.num_args, p.dim_names, target)
        program.objects.append(code.image)
    return program
