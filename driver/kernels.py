"""PrimFuncs and segments to object code: each distinct one is lowered and emitted once, and
described for the VM.

Only object code is shared: the names of functions, parameters and dims stay each one's own.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from ..graphir.emit.plan_segments import SegmentPlan
from ..support.dump import Dump
from ..support.errors import (
    BuildError,
    CodegenError,
    MeasureTimeout,
    TargetError,
    TuningError,
)
from ..support.host import native_target
from ..support.structural import structural_hash
from ..support.target import Target
from ..support.worker_pool import WorkerPool
from ..tensorir.codegen.segment import emit_segment
from ..tensorir.expr import Expr, Var
from ..tensorir.function import PrimFunc
from ..tensorir.text.printer import print_expr
from ..tensorir.visitor import substitute
from ..tuner.measuring.kernel import describe_kernel
from ..vm.program import Kernel
from .code_cache import code_cache
from .emit import Emitted, dump_code, emit_kernel, job_of, kernel_texts, read_result, run_job
from .report import CompileReport

if TYPE_CHECKING:
    from .executable import Executable

_CACHE_SIZE = 512

Key: TypeAlias = tuple[str, ...]
"""What, its content, and the target."""


@dataclass(frozen=True)
class CompiledKernel:
    """A function's descriptor, its object code, and its workspace sizes over its own ``dims``."""

    kernel: Kernel
    image: bytes
    dims: tuple[Var, ...]
    shared_bytes: Expr
    thread_bytes: Expr


class _Cache:
    """The process's object code by key, the oldest dropped first."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._held: dict[Key, Emitted] = {}

    def get(self, key: Key) -> Emitted | None:
        with self._lock:
            return self._held.get(key)

    def put(self, key: Key, code: Emitted) -> None:
        with self._lock:
            while len(self._held) >= self._size:
                self._held.pop(next(iter(self._held)))
            self._held[key] = code


_cache = _Cache(_CACHE_SIZE)


def resolve_target(target: Target | str | Mapping[str, Any]) -> Target:
    """The target with ``native`` replaced by this machine; raises TargetError for a bad text."""
    if not isinstance(target, (str, Target, Mapping)):
        raise TargetError(
            "Expected a target such as 'native -threads=1', or a burnish.Target; found "
            f"{type(target).__name__}."
        )
    parsed = target if isinstance(target, Target) else Target(target)
    return parsed if parsed.is_resolved else parsed.resolved(native_target())


@dataclass
class _Build:
    """An emission that was asked for; ``future`` is that of a worker's answer."""

    name: str
    func: PrimFunc
    symbol: str
    future: Future[Any] | None = None


class KernelBuilds:
    """The emissions of one compilation. Structurally equal functions share one object, within the
    compilation and (for the process's life) with earlier ones.

    With a ``pool``, functions go to its workers as they come, while the caller prepares the next
    ones; ``finish`` takes those that no worker began from the other end. Who emits what makes no
    difference to the result. Where stages are dumped everything is emitted anew and here, so that
    the dump is complete.
    """

    def __init__(
        self, target: Target, report: CompileReport, dump: Dump, pool: WorkerPool | None = None
    ) -> None:
        self._target, self._report, self._dump = target, report, dump
        self._pool = None if dump.enabled else pool
        self._found: dict[Key, Emitted] = {}
        self._begun: dict[Key, _Build] = {}
        self._hashed: dict[str, tuple[PrimFunc, str]] = {}

    def begin(self, name: str, func: PrimFunc) -> Key:
        """Ask for a function's code; the key to get it by when it is finished."""
        key = ("kernel", self._hash(name, func), str(self._target))
        if key in self._found or key in self._begun:
            return key
        build = _Build(name, func, f"{name}_{key[1][:12]}")
        known = None if self._dump.enabled else _cache.get(key) or self._kept(key, build)
        if known is not None:
            self._found[key] = known
            return key
        self._begun[key] = build
        if self._pool is not None:
            # A function that is nested too deeply to travel is emitted here.
            with suppress(RecursionError):
                job = job_of(func, build.symbol, self._target)
                build.future = self._pool.submit(run_job, job)
        return key

    def _kept(self, key: Key, build: _Build) -> Emitted | None:
        """The code that an earlier process emitted, which this one remembers from here on."""
        kept = code_cache()
        if kept is None:
            return None
        content = f"{build.symbol} {key[1]}"
        found = kept.get("kernel", content, self._target, build.name, self._report.cache)
        if not isinstance(found, Emitted):
            return None
        _cache.put(key, found)
        return found

    def _hash(self, name: str, func: PrimFunc) -> str:
        """The function's structural hash; that of its last asking, where all but the object is the
        same."""
        known = self._hashed.get(name)
        if known is not None:
            old = known[0]
            if old.body is func.body and old.params == func.params and old.attrs == func.attrs:
                return known[1]
        found = structural_hash(func)
        self._hashed[name] = func, found
        return found

    def finish(self, keys: Collection[Key]) -> dict[Key, Emitted]:
        """The code of the functions asked for under ``keys``; what else was begun is dropped.

        Raises CodegenError for a function that no machine code can be made of, and for one that
        ended the worker process.
        """
        wanted = [key for key in self._begun if key in set(keys)]
        for key in self._begun.keys() - set(keys):
            self._cancel(self._begun[key])
        away = [k for k in wanted if self._begun[k].future is not None]
        for key in [k for k in wanted if self._begun[k].future is None] + away[::-1]:
            if self._cancel(self._begun[key]):
                self._found[key] = self._emit(self._begun[key])
        for key in away:
            if key not in self._found:
                self._found[key] = self._collect(self._begun[key])
        kept = None if self._dump.enabled else code_cache()
        for key in wanted:
            code, name = self._found[key], self._begun[key].name
            _cache.put(key, code)
            if kept is not None:
                content = f"{code.symbol} {key[1]}"
                kept.put("kernel", content, self._target, name, code, self._report.cache)
        self._report.compilations += len(wanted)
        self._begun.clear()
        return {key: self._found[key] for key in keys}

    def abandon(self) -> None:
        """Take back what no worker began yet; after an error, say."""
        for build in self._begun.values():
            self._cancel(build)

    @staticmethod
    def _cancel(build: _Build) -> bool:
        """Whether no worker has begun the build, nor will."""
        return build.future is None or build.future.cancel()

    def _emit(self, build: _Build) -> Emitted:
        code, times = emit_kernel(*(build.name, build.func, build.symbol, self._target, self._dump))
        self._report.add_emission(times)
        return code

    def _collect(self, build: _Build) -> Emitted:
        assert build.future is not None
        with self._report.stage("60-llvm"):  # the wait
            try:
                result = build.future.result()
            except (BuildError, MeasureTimeout) as error:
                raise CodegenError(
                    f"The process that emits the machine code of {build.name} failed: "
                    f"{error.message} With BURNISH_BUILD_JOBS=1 all is emitted in this process."
                ) from error
            except TuningError as error:
                result = {"failed": error.message}
        if "failed" not in result:
            code, times = read_result(build.symbol, result)
            self._report.add_emission(times, in_worker=True)
            return code
        # An error of the function is raised here, as it is; all else is said.
        code = self._emit(build)
        note = f"{build.name} was not emitted by a worker but here: {result['failed']}"
        self._report.notes.append(note)
        return code


def compile_kernels(
    functions: Iterable[tuple[str, PrimFunc]],
    target: Target,
    report: CompileReport,
    dump: Dump,
    builds: KernelBuilds | None = None,
) -> dict[str, CompiledKernel]:
    """Object code for each function, by name. Some of them may have been begun in ``builds``.

    Raises what ``KernelBuilds.finish`` raises.
    """
    builds = builds or KernelBuilds(target, report, dump)
    given = list(functions)
    keys = [builds.begin(name, func) for name, func in given]
    codes = builds.finish(list(dict.fromkeys(keys)))
    report.distinct += len(codes)
    return {
        name: _described(name, func, codes[key])
        for (name, func), key in zip(given, keys, strict=True)
    }


def _described(name: str, func: PrimFunc, code: Emitted) -> CompiledKernel:
    """The code of a function that may have been emitted for an equal one: over the function's own
    dims, and under its own names."""
    own = func.shape_vars
    known = dict(zip(code.dims, own, strict=True))
    space = replace(
        code,
        dims=own,
        shared_bytes=substitute(code.shared_bytes, known),
        thread_bytes=substitute(code.thread_bytes, known),
    )
    kernel = replace(describe_kernel(func, space, code.symbol), name=name)
    return CompiledKernel(kernel, code.image, own, space.shared_bytes, space.thread_bytes)


def compile_segment(plan: SegmentPlan, target: Target, report: CompileReport, dump: Dump) -> bytes:
    """Object code of a segment. It depends on nothing but the plan's texts, which are its key."""
    key = ("segment", _describe(plan), str(target))
    known = None if dump.enabled else _cache.get(key)
    kept = None if dump.enabled else code_cache()
    if known is None and kept is not None:
        image = kept.get("segment", key[1], target, plan.name, report.cache)
        if isinstance(image, bytes):
            known = Emitted(plan.name, image)
            _cache.put(key, known)
    if known is None:
        with report.stage("60-llvm"):
            code = emit_segment(
                *(plan.name, plan.calls, plan.num_args, plan.dim_names, target),
                keep_text=dump.enabled,
            )
        dump_code(plan.name, code, dump)
        report.compilations += 1
        known = Emitted(plan.name, code.image)
        _cache.put(key, known)
        if kept is not None:
            kept.put("segment", key[1], target, plan.name, code.image, report.cache)
    return known.image


KERNEL_STAGES = {"50-lowered": "loops", "60-llvm": "LLVM IR"}
"""Stages that each kernel has its own text of, and what ``kernel_texts`` calls it."""


def kernel_stage(executable: Executable, stage: str) -> str:
    """The texts of all kernels of a compiled module at one of ``KERNEL_STAGES``. Nothing keeps
    them: they are made again."""
    kernels, mark = executable.program.kernels, {"50-lowered": "#", "60-llvm": ";"}[stage]
    texts = []
    for name, func in executable.stages["45-packed"].prim_funcs.items():
        symbol = kernels[name].symbol if name in kernels else name
        text = kernel_texts(func, symbol, executable.target)[KERNEL_STAGES[stage]]
        texts.append(f"{mark} -- {name}\n{text.strip()}\n")
    return "\n".join(texts)


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
