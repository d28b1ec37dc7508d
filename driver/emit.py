"""One PrimFunc to object code: lowered, then emitted. The unit of work of a compilation.

The same function runs in the user's process and in a build worker (``driver.build_workers``),
and gives the same bytes in both. Workers import this file: it stands on tensorir alone, and what it
gives holds no lowered IR, which is many times as large as the function it came from.
"""

from __future__ import annotations

import base64
import pickle
import time
from dataclasses import dataclass
from typing import Any

from ..support.dump import Dump
from ..support.errors import BurnishError
from ..support.target import Target
from ..tensorir.codegen import emit_object
from ..tensorir.codegen.object import ObjectCode, target_machine
from ..tensorir.expr import Expr, IntImm, Var
from ..tensorir.function import PrimFunc
from ..tensorir.lowering import lower_func
from ..tensorir.text.printer import print_func

_NOTHING = IntImm(0)


@dataclass(frozen=True)
class Emitted:
    """Object code under its symbol, and the workspace it needs, over ``dims``."""

    symbol: str
    image: bytes
    dims: tuple[Var, ...] = ()
    shared_bytes: Expr = _NOTHING
    thread_bytes: Expr = _NOTHING


@dataclass(frozen=True)
class EmitTimes:
    """Seconds of an emission: to loops, to LLVM IR, and what LLVM itself takes."""

    lowering: float = 0.0
    codegen: float = 0.0
    llvm: float = 0.0

    @property
    def emission(self) -> float:
        """Stage 60: LLVM IR and LLVM."""
        return self.codegen + self.llvm

    @property
    def total(self) -> float:
        """Stages 50 and 60."""
        return self.lowering + self.emission


def emit_kernel(
    name: str, func: PrimFunc, symbol: str, target: Target, dump: Dump
) -> tuple[Emitted, EmitTimes]:
    """Object code of ``func`` under ``symbol``; ``name`` is what the dump calls it.

    Raises CodegenError for what no machine code can be made of.
    """
    start = time.perf_counter()
    lowered = lower_func(func.with_attr("global_symbol", symbol), target)
    middle = time.perf_counter()
    dump.write(f"50-lowered/{name}", lambda: print_func(lowered.func))
    begin = time.perf_counter()
    code = emit_object([lowered], target, keep_text=dump.enabled)
    end = time.perf_counter()
    dump_code(name, code, dump)
    space = (lowered.dims, lowered.shared_bytes, lowered.thread_bytes)
    times = EmitTimes(middle - start, end - begin - code.llvm_seconds, code.llvm_seconds)
    return Emitted(symbol, code.image, *space), times


def kernel_texts(func: PrimFunc, symbol: str, target: Target) -> dict[str, str]:
    """What a reader wants to see of a kernel: its loops, LLVM IR and assembly. Raises as
    ``emit_kernel`` does."""
    lowered = lower_func(func.with_attr("global_symbol", symbol), target)
    code = emit_object([lowered], target, keep_text=True)
    return {"loops": print_func(lowered.func), "LLVM IR": code.ir, "assembly": code.assembly}


def dump_code(name: str, code: ObjectCode, dump: Dump) -> None:
    """Keep LLVM IR and assembly, where stages are kept."""
    if dump.enabled:
        dump.write(f"60-llvm/{name}", code.ir, suffix=".ll")
        dump.write(f"60-llvm/{name}", code.assembly, suffix=".s")


# -- in a worker ----------------------------------------------------------------------------------
def job_of(func: PrimFunc, symbol: str, target: Target) -> str:
    """What a worker needs to emit ``func``, as text. Raises RecursionError for a function that is
    nested too deeply to travel."""
    return base64.b64encode(pickle.dumps((func, symbol, target), pickle.HIGHEST_PROTOCOL)).decode()


def run_job(job: str) -> dict[str, Any]:
    """In a worker: ``emit_kernel`` of a ``job_of``, as JSON has it.

    ``failed`` says why there is no code: whoever asked emits the function himself, to have the
    error as it is.
    """
    try:
        func, symbol, target = pickle.loads(base64.b64decode(job))
        code, times = emit_kernel(symbol, func, symbol, target, Dump(None))
    except (BurnishError, RecursionError, MemoryError) as error:
        return {"failed": f"{type(error).__name__}: {error}"}
    space = pickle.dumps((code.dims, code.shared_bytes, code.thread_bytes))
    return {
        "image": base64.b64encode(code.image).decode(),
        "space": base64.b64encode(space).decode(),
        "seconds": [times.lowering, times.codegen, times.llvm],
    }


def read_result(symbol: str, result: dict[str, Any]) -> tuple[Emitted, EmitTimes]:
    """What ``run_job`` gave for ``symbol``."""
    space = pickle.loads(base64.b64decode(result["space"]))
    return Emitted(symbol, base64.b64decode(result["image"]), *space), EmitTimes(*result["seconds"])


def get_ready(target: str) -> bool:
    """In a worker: load LLVM and its machine for a target before the first job comes."""
    target_machine(Target(target))
    return True
