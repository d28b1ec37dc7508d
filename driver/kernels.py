"""PrimFuncs to object code: lowered, emitted once for each distinct function, described for the VM."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..support.dump import Dump
from ..support.structural import structural_hash
from ..support.target import Target
from ..tensorir.codegen import emit_object
from ..tensorir.codegen.host import native_target
from ..tensorir.function import PrimFunc
from ..tensorir.lowering import LoweredFunc, lower_func
from ..tensorir.printer import print_func
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


_cache: dict[tuple[str, str], CompiledKernel] = {}
_cache_lock = threading.Lock()


def resolve_target(target: Target | str) -> Target:
    """The target with ``native`` replaced by this machine; raises TargetError for a bad text."""
    parsed = Target(target) if isinstance(target, str) else target
    return parsed if parsed.is_resolved else parsed.resolved(native_target())


def compile_kernels(
    functions: Iterable[tuple[str, PrimFunc]], target: Target, report: CompileReport, dump: Dump
) -> dict[str, CompiledKernel]:
    """Object code for each function, by name. Structurally equal functions share one object, within
    this call and (for the process's life) with earlier ones."""
    compiled: dict[str, CompiledKernel] = {}
    for name, func in functions:
        key = (structural_hash(func), str(target))
        with _cache_lock:
            known = _cache.get(key)
        if known is None:
            symbol = f"{name}_{key[0][:12]}"
            with report.stage("50-lowered"):
                lowered = lower_func(func.with_attr("global_symbol", symbol), target)
            dump.write(f"50-lowered/{name}", lambda f=lowered.func: print_func(f))  # type: ignore[misc]
            with report.stage("60-llvm"):
                code = emit_object([lowered], target, keep_text=dump.directory is not None)
            dump.write(f"60-llvm/{name}", lambda c=code: c.ir, suffix=".ll")  # type: ignore[misc]
            dump.write(f"60-llvm/{name}", lambda c=code: c.assembly, suffix=".s")  # type: ignore[misc]
            report.compilations += 1
            known = CompiledKernel(describe_kernel(func, lowered, symbol), code.image, lowered)
            with _cache_lock:
                if len(_cache) >= _CACHE_SIZE:
                    _cache.pop(next(iter(_cache)))
                _cache[key] = known
        compiled[name] = replace(known, kernel=replace(known.kernel, name=name))
    return compiled
