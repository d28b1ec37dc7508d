"""Build one candidate, check it, time it. Runs in a worker process; speaks JSON-able values only.

A request holds the workload's text, the candidate's trace, the target, and how long to measure. The
reference output is that of the unscheduled function on the same seeded inputs, made once a workload and
kept in the worker. A candidate whose output differs from it is an error, never a time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..support.dtype import DType
from ..support.errors import BuildError
from ..support.target import Target
from ..tensorir.codegen import emit_object
from ..tensorir.codegen.host import native_target
from ..tensorir.expr import IntImm
from ..tensorir.function import PrimFunc
from ..tensorir.lowering import lower_func
from ..tensorir.parser import parse_func
from ..tensorir.schedule import Schedule, Trace
from ..vm.native import BoundKernel, Tensor, bind_kernel, empty, load_objects
from .kernel import describe_kernel

TOLERANCES = {"float64": 1e-9, "float32": 2e-4, "float16": 2e-2, "bfloat16": 5e-2}
"""Largest error of a candidate by output dtype, relative to the largest magnitude of the reference:
schedules reassociate sums, so the bound is on the sum's scale, not on each element's."""


@dataclass(frozen=True)
class MeasureOptions:
    """``seconds`` is how long a candidate's timed batches last together, at least."""

    seconds: float = 0.05
    repeat: int = 3
    seed: int = 0


def measure_candidate(request: dict[str, Any]) -> dict[str, Any]:
    """Build, check and time a candidate.

    ``request``: text, trace (JSON text, or None for the unscheduled function), target, seconds, repeat,
    seed. Returns {"seconds": [...], "build_seconds": s}. Raises BuildError where the candidate does not
    build or computes something else than the workload.
    """
    start = time.perf_counter()
    target = resolve(Target(request["target"]))
    func = workload(request["text"])
    if request.get("trace") is not None:
        sch = Schedule(func, seed=0)
        Trace.from_json(request["trace"]).apply_to(sch)
        func = sch.func
    kernel = build_kernel(func, target)
    built = time.perf_counter() - start
    inputs, expected, outputs = reference(request["text"], request["target"], request.get("seed", 0))
    arguments = fresh_arguments(inputs, outputs)
    call = kernel.prepare(*arguments)
    call()
    check_outputs([arguments[i] for i in sorted(outputs)], expected)
    options = MeasureOptions(request.get("seconds", 0.05), request.get("repeat", 3))
    return {"seconds": time_kernel(call, options), "build_seconds": built}


def time_kernel(call: Any, options: MeasureOptions) -> list[float]:
    """Seconds a call, one entry a batch; batches are long enough that together they fill the time."""
    clock = time.perf_counter
    start = clock()
    call()
    once = max(clock() - start, 1e-7)
    number = max(1, round(options.seconds / options.repeat / once))
    results = []
    for _ in range(options.repeat):
        start = clock()
        for _ in range(number):
            call()
        results.append((clock() - start) / number)
    return results


def resolve(target: Target) -> Target:
    """The target with ``native`` replaced by this machine."""
    return target.resolved(native_target())


@lru_cache(maxsize=16)
def workload(text: str) -> PrimFunc:
    """The parsed workload of a request."""
    return parse_func(text)


def build_kernel(func: PrimFunc, target: Target) -> BoundKernel:
    """A function lowered, compiled and linked into this process."""
    lowered = lower_func(func, target)
    image = emit_object([lowered], target).image
    return bind_kernel(describe_kernel(func, lowered), load_objects([image]))


@lru_cache(maxsize=4)
def reference(text: str, target: str, seed: int) -> tuple[list[Tensor], list[np.ndarray], frozenset[int]]:
    """Seeded arguments, the outputs of the unscheduled function on them, and which arguments they are."""
    func = workload(text)
    written = {id(b) for b in func.written}
    outputs = frozenset(i for i, p in enumerate(func.params) if id(p) in written)
    inputs = make_arguments(func, seed)
    arguments = fresh_arguments(inputs, outputs)
    build_kernel(func, resolve(Target(target)))(*arguments)
    return inputs, [arguments[i].numpy() for i in sorted(outputs)], outputs


def make_arguments(func: PrimFunc, seed: int) -> list[Tensor]:
    """Random arguments of a static function: floats in [-1, 1) (none denormal), small integers."""
    rng = np.random.default_rng(seed)
    arguments = []
    for p in func.buffers:
        if not all(isinstance(d, IntImm) for d in p.shape):
            raise BuildError(f"{func.name}: the shape of {p.name!r} is symbolic; bind its dims before tuning.")
        tensor = empty(tuple([d.value for d in p.shape if isinstance(d, IntImm)]), p.dtype)
        fill(tensor, rng)
        arguments.append(tensor)
    return arguments


def fill(tensor: Tensor, rng: np.random.Generator) -> None:
    """Random values that every operator can take."""
    array, dtype = tensor.data, DType(str(tensor.dtype))
    if dtype == "bfloat16":
        values = rng.uniform(-1, 1, array.shape).astype(np.float32)
        array[...] = (values.view(np.uint32) >> 16).astype(np.uint16)
    elif dtype.is_float:
        array[...] = rng.uniform(-1, 1, array.shape)
    elif dtype.is_bool:
        array[...] = rng.integers(0, 2, array.shape)
    else:
        array[...] = rng.integers(0, 8, array.shape)


def fresh_arguments(inputs: list[Tensor], outputs: frozenset[int]) -> list[Tensor]:
    """The inputs, with outputs of their own, filled with a value that no kernel leaves by accident."""
    result = []
    for i, x in enumerate(inputs):
        if i in outputs:
            out = empty(x.shape, x.dtype)
            out.data[...] = 77
            result.append(out)
        else:
            result.append(x)
    return result


def check_outputs(outputs: list[Tensor], expected: list[np.ndarray]) -> None:
    """Raise BuildError where an output differs from the reference beyond its tolerance."""
    for got, want in zip(outputs, expected, strict=True):
        value = got.numpy()
        if not np.issubdtype(value.dtype, np.floating):
            if not np.array_equal(value, want):
                raise BuildError("wrong result: integer outputs differ from the unscheduled function's")
            continue
        scale = max(float(np.abs(want[np.isfinite(want)]).max(initial=0.0)), 1e-30)
        error = np.abs(value.astype(np.float64) - want.astype(np.float64))
        same = (value == want) | (np.isnan(value) & np.isnan(want)) | (error <= TOLERANCES[str(got.dtype)] * scale)
        if not bool(same.all()):
            worst = float(np.nanmax(np.where(same, 0, error), initial=0.0))
            raise BuildError(
                f"wrong result: {int((~same).sum())} of {same.size} elements differ from the unscheduled "
                f"function's, by up to {worst:.3g} at a scale of {scale:.3g}"
            )
