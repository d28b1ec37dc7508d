"""Build one candidate, check it, time it. Runs in a worker process; takes and returns what JSON
has.

What a candidate computes is compared with what the unscheduled function computes on the same seeded
inputs (``tuner.reference``); one that differs is an error, never a time. Everything that goes wrong
with a candidate is a BuildError. Nothing here knows of databases or searches.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..support.errors import BuildError
from ..support.structural import structural_hash
from ..support.target import Target
from ..tensorir.codegen import emit_object
from ..tensorir.codegen.host import native_target, resolve
from ..tensorir.codegen.thread_pool import emit_thread_pool
from ..tensorir.function import PrimFunc
from ..tensorir.lowering import lower_func
from ..tensorir.parser import parse_func
from ..tensorir.schedule import Schedule, Trace
from ..vm.native import BoundKernel, Tensor, array, bind_kernel, load_objects, parallel, time_call
from .kernel import describe_kernel
from .packing import pack_arguments
from .reference import Reference, compare, load_reference, make_reference


def measure_candidate(
    *,
    text: str,
    trace: str,
    candidate: str,
    target: str,
    reference: str,
    seconds: float,
    repeat: int = 3,
    seed: int = 0,
) -> dict[str, Any]:
    """Build, check and time a candidate: ``{"seconds": [...], "build_seconds": s}``.

    ``trace`` (JSON) is replayed on the workload ``text`` and must give the function whose
    structural hash is ``candidate``. ``reference`` is the file of ``save_reference``; where it is
    not (another machine) the reference is made anew. ``repeat`` batches of calls are timed, each of
    them long enough that they take ``seconds`` together. Raises BuildError where the candidate does
    not build or does not compute what the workload does.
    """
    try:
        start = time.perf_counter()
        func = replay(text, trace, candidate)
        kernel = build_kernel(func, resolve(Target(target)))
        built = time.perf_counter() - start
        known = _reference(text, target, seed, reference)
        arguments = [array(x) for x in known.inputs]
        call = kernel.prepare(*pack_arguments(func, arguments))
        call()
        compare(known, arguments)
        return {"seconds": time_kernel(call, seconds, repeat), "build_seconds": built}
    except BuildError:
        raise
    except Exception as error:  # a candidate may break any part of the compiler
        raise BuildError(f"{type(error).__name__}: {error}") from error


def save_reference(*, text: str, target: str, seed: int, path: str) -> None:
    """Run the unscheduled function and keep its inputs and outputs in a file for the candidates."""
    _make_reference(text, target, seed).save(Path(path))


def replay(text: str, trace: str, candidate: str) -> PrimFunc:
    """The scheduled function that a trace makes of a workload; BuildError if it is not the expected
    one. The proofs of legality are not repeated: the hash says that the result is the same."""
    sch = Schedule(_workload(text), seed=0, enable_checks=False)
    Trace.from_json(trace).apply_to(sch)
    if structural_hash(sch.func) != candidate:
        raise BuildError("its trace replays to another function than was proposed")
    return sch.func


def build_kernel(func: PrimFunc, target: Target) -> BoundKernel:
    """A function lowered, compiled and linked into this process, for the target's threads."""
    lowered = lower_func(func, target)
    library = load_objects([emit_object([lowered], target).image])
    return bind_kernel(
        describe_kernel(func, lowered), library, runtime=_runtime(target.threads or target.cores)
    )


def time_kernel(call: Any, seconds: float, repeat: int = 3) -> list[float]:
    """Seconds a call, one entry a batch. The number of calls in a batch grows until a batch takes
    its share of ``seconds``, however short a call is."""
    result = time_call(call, number=1, repeat=repeat, min_repeat_ms=1000 * seconds / repeat)
    return list(result.results)


def _runtime(threads: int) -> int:
    """The runtime record of a number of threads; the process's pool is made when first needed."""
    if threads > 1 and not parallel.is_installed():
        parallel.install(load_objects([emit_thread_pool(native_target())]))
    return parallel.pool(threads)


@lru_cache(maxsize=16)
def _workload(text: str) -> PrimFunc:
    return parse_func(text)


@lru_cache(maxsize=2)
def _reference(text: str, target: str, seed: int, path: str) -> Reference:
    if Path(path).is_file():
        return load_reference(Path(path), _workload(text), seed)
    return _make_reference(text, target, seed)


def _make_reference(text: str, target: str, seed: int) -> Reference:
    kernel = build_kernel(_workload(text), resolve(Target(target)))

    def run(arguments: Sequence[Tensor]) -> None:
        kernel(*arguments)

    return make_reference(_workload(text), run, seed)


__all__ = [
    "build_kernel",
    "measure_candidate",
    "replay",
    "save_reference",
    "time_kernel",
]
