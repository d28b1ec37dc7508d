"""Build one candidate, check it, time it: as two jobs, or as one. Runs in worker processes; takes
and returns what JSON has.

``build_candidate`` replays, lowers and compiles; ``run_candidate`` links what it gave, compares and
times. Where builders and runners are different processes, the next candidates are compiled while
one is timed. ``measure_candidate`` does both in one process.

What a candidate computes is compared with what the unscheduled function computes on the same seeded
inputs (``reference``); one that differs is an error, never a time. Everything that goes wrong
with a candidate is a BuildError, and what may not be its fault a WorkerFailed. Nothing here knows
of databases or searches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...support.errors import BuildError, BurnishError, WorkerFailed
from ...support.host import native_target, resolve
from ...support.structural import structural_hash
from ...support.target import Target
from ...tensorir.codegen import emit_object
from ...tensorir.codegen.thread_pool import emit_thread_pool
from ...tensorir.function import PrimFunc
from ...tensorir.lowering import lower_func
from ...tensorir.schedule import Schedule, Trace
from ...tensorir.text.parser import parse_func
from ...vm import parallel
from ...vm.binding import BoundKernel, bind_kernel
from ...vm.native import load_objects
from ...vm.tensor import Tensor, array
from ...vm.timing import time_call
from ..records.replay import replay_trace
from ..task import Sizes, geometric_mean, instances_of
from .built import Built, built_from_json
from .kernel import describe_kernel
from .packing import pack_by_maps
from .plain_loops import plain_loops
from .reference import Reference, compare, load_references, make_reference, save_references

LONG_CALLS = ((0.5, 1), (0.05, 2))
"""Seconds of a call from which on so many batches are enough."""


def build_candidate(*, text: str, trace: str, candidate: str, target: str) -> dict[str, Any]:
    """Build a candidate: ``{"built": Built.as_json(), "seconds": s}``.

    ``trace`` (JSON) is replayed on the workload ``text`` and must give the function whose
    structural hash is ``candidate``. Raises BuildError where the candidate does not build.
    """
    with _explained():
        start = time.perf_counter()
        built = _build(replay(text, trace, candidate), resolve(Target(target)))
        return {"built": built.as_json(), "seconds": time.perf_counter() - start}


def run_candidate(
    *,
    text: str,
    built: dict[str, Any],
    target: str,
    reference: str,
    seconds: float,
    sizes: Sequence[Sequence[int]] = (),
    repeat: int = 3,
    seed: int = 0,
) -> dict[str, Any]:
    """Check and time what ``build_candidate`` built: ``{"seconds": [...], "run_seconds": s}``.

    ``reference`` is the file of ``save_reference``; where it is not (another machine) the reference
    is made anew. ``repeat`` batches of calls are timed (fewer of long ones), each of them long
    enough that they take ``seconds`` together. A workload of named sizes is checked and timed at
    each of ``sizes``; its times are the geometric means of theirs. Raises BuildError where the
    candidate does not compute what the workload does.
    """
    with _explained():
        start = time.perf_counter()
        known = _references(text, target, seed, reference, _as_key(sizes))
        answer = _run(built_from_json(built), known, Target(target), seconds, repeat)
        return {"seconds": answer, "run_seconds": time.perf_counter() - start}


def measure_candidate(
    *,
    text: str,
    trace: str,
    candidate: str,
    target: str,
    reference: str,
    seconds: float,
    sizes: Sequence[Sequence[int]] = (),
    repeat: int = 3,
    seed: int = 0,
) -> dict[str, Any]:
    """``build_candidate`` and ``run_candidate`` in one: ``{"seconds": [...], "build_seconds": s,
    "run_seconds": s}``."""
    with _explained():
        start = time.perf_counter()
        built = _build(replay(text, trace, candidate), resolve(Target(target)))
        middle = time.perf_counter()
        known = _references(text, target, seed, reference, _as_key(sizes))
        answer = _run(built, known, Target(target), seconds, repeat)
        return {
            "seconds": answer,
            "build_seconds": middle - start,
            "run_seconds": time.perf_counter() - middle,
        }


@contextmanager
def _explained() -> Iterator[None]:
    """Whatever goes wrong is a BuildError. What the compiler says of a candidate is about that; all
    else, such as no memory or no file, may not be its fault."""
    try:
        yield
    except BuildError:
        raise
    except Exception as error:
        kind = BuildError if isinstance(error, BurnishError) else WorkerFailed
        raise kind(f"{type(error).__name__}: {error}") from error


def _build(func: PrimFunc, target: Target) -> Built:
    lowered = lower_func(func, target)
    image = emit_object([lowered], target).image
    return Built(describe_kernel(func, lowered), image, tuple(func.attr("layout_maps") or ()))


def _run(
    built: Built, references: Sequence[Reference], target: Target, seconds: float, repeat: int
) -> list[float]:
    kernel = _bind(built, resolve(target))
    calls: list[Callable[[], None]] = []
    longest = 0.0
    for known in references:
        arguments = [array(x) for x in known.inputs]
        call = kernel.prepare(*pack_by_maps(built.layouts, arguments))
        start = time.perf_counter()
        call()
        longest = max(longest, time.perf_counter() - start)
        compare(known, arguments)
        calls.append(call)
    batches = batches_for(longest, repeat)
    times = [time_kernel(call, seconds / len(calls), batches) for call in calls]
    return [geometric_mean(batch) for batch in zip(*times, strict=True)]


def get_ready() -> None:
    """Import the compiler and look at the machine, so that the first candidate need not wait."""
    native_target()


def save_reference(
    *, text: str, target: str, seed: int, path: str, sizes: Sequence[Sequence[int]] = ()
) -> None:
    """Run the unscheduled function (``plain_loops``), at each of the sizes, and keep its outputs in
    a file for the candidates."""
    made = [_make_reference(f, target, seed) for f in instances_of(_workload(text), _as_key(sizes))]
    save_references(made, Path(path))


def replay(text: str, trace: str, candidate: str) -> PrimFunc:
    """The scheduled function that a trace makes of a workload; BuildError if it is not the expected
    one. The proofs of legality are not repeated: the hash says that the result is the same."""
    sch = Schedule(_workload(text), seed=0, enable_checks=False)
    if structural_hash(replay_trace(Trace.from_json(trace), sch)) != candidate:
        raise BuildError("its trace replays to another function than was proposed")
    return sch.func


def build_kernel(func: PrimFunc, target: Target) -> BoundKernel:
    """A function lowered, compiled and linked into this process, for the target's threads."""
    return _bind(_build(func, target), target)


def _bind(built: Built, target: Target) -> BoundKernel:
    library = load_objects([built.image])
    return bind_kernel(built.kernel, library, runtime=_runtime(target.threads or target.cores))


def batches_for(call_seconds: float, repeat: int) -> int:
    """How many batches of calls to time: ``repeat``, and fewer where a single call is long. The
    longer it is the less a moment's disturbance does to it."""
    return next((min(repeat, n) for limit, n in LONG_CALLS if call_seconds >= limit), repeat)


def time_kernel(call: Any, seconds: float, repeat: int = 3) -> list[float]:
    """Seconds a call, one entry a batch. The number of calls in a batch grows until a batch takes
    its share of ``seconds``, however short a call is."""
    result = time_call(call, number=1, repeat=repeat, min_repeat_ms=1000 * seconds / repeat)
    return list(result.results)


def _runtime(threads: int) -> int:
    """The runtime record of a number of threads; the process's pool is made when first needed."""
    return parallel.pool(threads, lambda: load_objects([emit_thread_pool(native_target())]))


@lru_cache(maxsize=16)
def _workload(text: str) -> PrimFunc:
    return parse_func(text)


def _as_key(sizes: Sequence[Sequence[int]]) -> Sizes:
    """Sizes as JSON has them, as a key."""
    return tuple([tuple(values) for values in sizes])


@lru_cache(maxsize=2)
def _references(
    text: str, target: str, seed: int, path: str, sizes: Sizes
) -> tuple[Reference, ...]:
    functions = instances_of(_workload(text), sizes)
    if Path(path).is_file():
        return load_references(Path(path), functions, seed)
    return tuple([_make_reference(f, target, seed) for f in functions])


def _make_reference(func: PrimFunc, target: str, seed: int) -> Reference:
    kernel = build_kernel(plain_loops(func), resolve(Target(target)))

    def run(arguments: Sequence[Tensor]) -> None:
        kernel(*arguments)

    return make_reference(func, run, seed)


__all__ = [
    "batches_for",
    "build_candidate",
    "build_kernel",
    "get_ready",
    "measure_candidate",
    "replay",
    "run_candidate",
    "save_reference",
    "time_kernel",
]
