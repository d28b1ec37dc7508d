"""PrimFuncs and segments to object code: each distinct one is lowered and emitted once, and
described for the VM.

Only object code is shared: the names of functions, parameters and dims stay each one's own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..graphir.plan_segments import SegmentPlan
from ..support.dump import Dump
from ..support.errors import TargetError
from ..support.structural import structural_hash
from ..support.target import Target
from ..tensorir.codegen import emit_object
from ..tensorir.codegen.host import native_target
from ..tensorir.codegen.object import ObjectCode
from ..tensorir.codegen.segment import emit_segment
from ..tensorir.expr import Expr
from ..tensorir.function import PrimFunc
from ..tensorir.lowering import LoweredFunc, lower_func
from ..tensorir.printer import print_expr, print_func
from ..tensorir.visitor import substitute
from ..tuner.kernel import describe_kernel
from ..vm.program import Kernel
from .report import CompileReport

_CACHE_SIZE = 512


@dataclass(frozen=True)
class CompiledKernel:
    """A function's descriptor, its object code, and the lowered function it was emitted from."""

    kernel: Kernel
    image: bytes
    lowered: LoweredFunc


@dataclass(frozen=True)
class _Emitted:
    """Object code under its symbol; ``lowered`` is None for a segment."""

    symbol: str
    image: bytes
    lowered: LoweredFunc | None = None


class _Cache:
    """The process's object code by key, the oldest dropped first."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._held: dict[tuple[str, ...], _Emitted] = {}

    def get(self, key: tuple[str, ...]) -> _Emitted | None:
        with self._lock:
            return self._held.get(key)

    def put(self, key: tuple[str, ...], code: _Emitted) -> None:
        with self._lock:
            while len(self._held) >= self._size:
                self._held.pop(next(iter(self._held)))
            self._held[key] = code


_cache = _Cache(_CACHE_SIZE)


def resolve_target(target: Target | str) -> Target:
    """The target with ``native`` replaced by this machine; raises TargetError for a bad text."""
    if not isinstance(target, (str, Target)):
        raise TargetError(
            "Expected a target such as 'native -threads=1', or a burnish.Target; found "
            f"{type(target).__name__}."
        )
    parsed = Target(target) if isinstance(target, str) else target
    return parsed if parsed.is_resolved else parsed.resolved(native_target())


def compile_kernels(
    functions: Iterable[tuple[str, PrimFunc]], target: Target, report: CompileReport, dump: Dump
) -> dict[str, CompiledKernel]:
    """Object code for each function, by name. Structurally equal functions share one object, within
    this call and (for the process's life) with earlier ones.

    Where stages are dumped everything is emitted anew, so that the dump is complete.
    """
    compiled: dict[str, CompiledKernel] = {}
    emitted: dict[tuple[str, ...], _Emitted] = {}
    for name, func in functions:
        key = ("kernel", structural_hash(func), str(target))
        code = emitted.get(key) or (None if dump.enabled else _cache.get(key))
        if code is None:
            code = _emit(name, func, f"{name}_{key[1][:12]}", target, report, dump)
            _cache.put(key, code)
        emitted[key] = code
        assert code.lowered is not None
        lowered = _in_dims_of(func, code.lowered)
        kernel = replace(describe_kernel(func, lowered, code.symbol), name=name)
        compiled[name] = CompiledKernel(kernel, code.image, lowered)
    return compiled


def _emit(
    name: str, func: PrimFunc, symbol: str, target: Target, report: CompileReport, dump: Dump
) -> _Emitted:
    with report.stage("50-lowered"):
        lowered = lower_func(func.with_attr("global_symbol", symbol), target)
    dump.write(f"50-lowered/{name}", lambda: print_func(lowered.func))
    with report.stage("60-llvm"):
        code = emit_object([lowered], target, keep_text=dump.enabled)
    _dump_code(name, code, dump)
    report.compilations += 1
    return _Emitted(symbol, code.image, lowered)


def _dump_code(name: str, code: ObjectCode, dump: Dump) -> None:
    if dump.enabled:
        dump.write(f"60-llvm/{name}", code.ir, suffix=".ll")
        dump.write(f"60-llvm/{name}", code.assembly, suffix=".s")


def _in_dims_of(func: PrimFunc, lowered: LoweredFunc) -> LoweredFunc:
    """``lowered``, perhaps of a structurally equal function, over the dims of ``func``."""
    own = func.shape_vars
    if own == lowered.dims:
        return lowered
    known = dict(zip(lowered.dims, own, strict=True))
    return replace(
        lowered,
        dims=own,
        shared_bytes=substitute(lowered.shared_bytes, known),
        thread_bytes=substitute(lowered.thread_bytes, known),
    )


def compile_segment(plan: SegmentPlan, target: Target, report: CompileReport, dump: Dump) -> bytes:
    """Object code of a segment. It depends on nothing but the plan's texts, which are its key."""
    key = ("segment", _describe(plan), str(target))
    known = None if dump.enabled else _cache.get(key)
    if known is None:
        with report.stage("60-llvm"):
            code = emit_segment(
                *(plan.name, plan.calls, plan.num_args, plan.dim_names, target),
                keep_text=dump.enabled,
            )
        _dump_code(plan.name, code, dump)
        report.compilations += 1
        known = _Emitted(plan.name, code.image)
        _cache.put(key, known)
    return known.image


def _describe(plan: SegmentPlan) -> str:
    lines = [f"{plan.name}({plan.num_args}; {', '.join(plan.dim_names)})"]
    for call in plan.calls:
        operands = [
            f"{kind} {print_expr(at) if isinstance(at, Expr) else at}" for kind, at in call.operands
        ]
        dims = [print_expr(d) for d in call.dims]
        at = print_expr(call.workspace_offset)
        lines.append(f"{call.symbol}({', '.join(operands)}; {', '.join(dims)}; {at})")
    return "\n".join(lines)
