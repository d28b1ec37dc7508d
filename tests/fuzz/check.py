"""The laws of a schedule, checked on one: it is well formed, its text parses back, its trace
replays from JSON and from Python, and its machine code computes what the unscheduled function does.

Inputs are small integers, so that sums are exact in any order; what remains (``exp`` of sums in
another order, quotients) is compared to 2e-5 relative and 1e-5 absolute. Arrays stand in margins
that nothing may write. Outputs hold something before, each element a number of its own: what a
function leaves alone must stay as it was.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from llvmlite import binding

from burnish.support.errors import BurnishError, CodegenError, ScheduleError
from burnish.support.host import native_target, resolve
from burnish.support.structural import assert_structural_equal
from burnish.tensorir.arith.index_map import IndexMap
from burnish.tensorir.buffer import Buffer
from burnish.tensorir.codegen.function import FunctionEmitter
from burnish.tensorir.codegen.object import (
    emit_module,
    emit_object,
    may_lack_masks,
    new_module,
    parsed_module,
    run_scheduled_passes,
)
from burnish.tensorir.expr import Expr, IntImm
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.lowering.pipeline import LoweredFunc, lower_func
from burnish.tensorir.schedule import Schedule, Trace
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.text.printer import print_expr, print_func
from burnish.tensorir.verify.bounds import verify_bounds
from burnish.tensorir.verify.laws import verify_func
from burnish.tensorir.verify.regions import verify_regions
from burnish.tests.native import Native, prepare, value
from burnish.tests.strategies.corpus import program
from burnish.tests.strategies.own_schedule import OwnSchedule
from burnish.tuner.measuring.kernel import describe_kernel

MARGIN = 64
"""Elements before and after an array: never results, and never to be written."""
SIZES: dict[int, tuple[tuple[int, ...], ...]] = {
    0: ((),),
    1: ((0,), (1,), (5,), (9,)),
    2: ((3, 7), (1, 1), (4, 16), (0, 3)),
}
"""Values of the symbolic dims that a function is called with, by their number."""
RELATIVE, ABSOLUTE = 2e-5, 1e-5
FILL = 60
"""What outputs hold before a call, from here to 50 more: no input is so large, and every dtype has
it."""
GARBAGE = (0xA5, 0x3C)
"""Bytes that workspace is filled with; results may not depend on them."""

times: Counter[str] = Counter()
"""Seconds spent on each law in this process."""


class Broken(Exception):
    """A law that does not hold, and the error that showed it."""

    def __init__(self, law: str, error: BaseException, text: str = "") -> None:
        super().__init__(f"{law}: {type(error).__name__}: {error}")
        self.law, self.error, self.text = law, error, text

    @property
    def signature(self) -> str:
        """What tells one failure from another."""
        return f"{self.law}: {type(self.error).__name__}"


@contextmanager
def law(name: str) -> Iterator[None]:
    """What runs inside checks a law: any exception breaks it, but CodegenError, which says that
    the schedule has no machine code."""
    begin = time.perf_counter()
    try:
        yield
    except CodegenError:
        raise
    except Exception as error:
        raise Broken(name, error) from error
    finally:
        times[name] += time.perf_counter() - begin


Layouts: TypeAlias = Sequence[tuple[int, IndexMap]]


class Arguments:
    """Arrays for a call of ``func``: random integers as inputs, outputs whose elements differ, each
    inside a margin that tells reads and writes out of bounds. ``scheduled`` has the shapes that
    parameters got by ``layouts``; what these leave unused is like the margin in inputs, and
    anything in outputs."""

    def __init__(
        self,
        func: PrimFunc,
        dims: Sequence[int],
        scheduled: PrimFunc | None = None,
        layouts: Layouts = (),
    ) -> None:
        self.sizes = dict(zip([v.name for v in func.shape_vars], dims, strict=True))
        self.layouts = layouts
        rng = np.random.default_rng(7)
        self.arrays: list[np.ndarray] = []
        self.raw: list[np.ndarray] = []
        self.written = [b in func.written for b in func.buffers]
        self.places: dict[int, tuple[np.ndarray, ...]] = {}
        """Of each parameter with another layout, where the elements of the old one are."""
        for at, (buffer, written) in enumerate(zip(func.buffers, self.written, strict=True)):
            shape = self._shape(buffer)
            dtype = buffer.dtype.to_numpy()
            count = int(np.prod(shape))
            raw, inside = self._framed(count, dtype)
            if written and dtype.kind != "b":
                inside[:] = FILL + np.arange(count) % 50
            elif not written:
                low, high = (
                    (0, 2) if dtype.kind == "b" else (0, 9) if dtype.kind == "u" else (-4, 5)
                )
                inside[:] = rng.integers(low, high, count)
            array = inside.reshape(shape)
            if scheduled is not None and any(p == at for p, _ in layouts):
                raw, array = self._laid_out(at, array, scheduled.buffers[at])
            self.raw.append(raw)
            self.arrays.append(array)

    def _shape(self, buffer: Buffer) -> list[int]:
        return [d.value if isinstance(d, IntImm) else _number(d, self.sizes) for d in buffer.shape]

    def _framed(self, count: int, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
        raw = np.full(count + 2 * MARGIN, self.nothing(dtype), dtype)
        return raw, raw[MARGIN : MARGIN + count]

    def _laid_out(
        self, at: int, array: np.ndarray, buffer: Buffer
    ) -> tuple[np.ndarray, np.ndarray]:
        """What a caller passes for a parameter in its new layout."""
        places: list[Any] = list(np.indices(array.shape))
        for _, m in (pair for pair in self.layouts if pair[0] == at):
            known = {**self.sizes, **{v.name: p for v, p in zip(m.inputs, places, strict=True)}}
            places = [np.broadcast_to(_number(o, known), array.shape) for o in m.outputs]
        shape = self._shape(buffer)
        raw, inside = self._framed(int(np.prod(shape)), array.dtype)
        if self.written[at] and array.dtype.kind != "b":
            inside[:] = FILL
        laid = inside.reshape(shape)
        laid[tuple(places)] = array
        self.places[at] = tuple(places)
        return raw, laid

    @staticmethod
    def nothing(dtype: np.dtype) -> float:
        if dtype.kind == "b":
            return False
        return np.nan if dtype.kind == "f" else np.iinfo(dtype).min

    def outputs(self) -> list[np.ndarray]:
        """What was written; raises AssertionError where a margin was."""
        for raw in self.raw:
            for margin in (raw[:MARGIN], raw[-MARGIN:]):
                np.testing.assert_array_equal(margin, self.nothing(raw.dtype))
        old = [a[self.places[i]] if i in self.places else a for i, a in enumerate(self.arrays)]
        return [a for a, written in zip(old, self.written, strict=True) if written]


def _number(e: Expr, known: Mapping[str, Any]) -> Any:
    """Integer arithmetic of sizes and indices, on numbers or on arrays of them."""
    return eval(print_expr(e), {"__builtins__": {}}, dict(known))


def same(found: Sequence[np.ndarray], expected: Sequence[np.ndarray], what: str) -> None:
    """Raise AssertionError where results differ by more than the tolerance."""
    for x, y in zip(found, expected, strict=True):
        if not np.array_equal(x, y):
            np.testing.assert_allclose(x, y, rtol=RELATIVE, atol=ABSOLUTE, err_msg=what)


@cache
def expected(name: str) -> tuple[PrimFunc, list[list[np.ndarray]]]:
    """An unscheduled function and its outputs for each of the sizes."""
    with law("the function itself"):
        func = program(name)
        verify_regions(verify_bounds(verify_func(func)))
        assert_structural_equal(parse_func(print_func(func)), func)
    with law("building the function"):
        target = resolve(native_target())
        lowered = lower_func(func, target)
        describe_kernel(func, lowered)
        symbol = str(lowered.func.attr("global_symbol", lowered.func.name))
        native = Native([emit_object([lowered], target).image], [symbol])
    results = []
    with law("the function's results"):
        for dims in SIZES[len(func.shape_vars)]:
            first, second = [
                call(func, lowered, native.tracker[symbol], dims, garbage=g) for g in GARBAGE
            ]
            for a, b in zip(first, second, strict=True):
                assert np.isfinite(a).all(), f"{name} gives {a}"
                np.testing.assert_array_equal(a, b, "it reads memory that nothing wrote")
            results.append(first)
    return func, results


def call(
    func: PrimFunc,
    lowered: LoweredFunc,
    address: int,
    dims: Sequence[int],
    *,
    threads: int = 1,
    garbage: int = GARBAGE[0],
    scheduled: PrimFunc | None = None,
    layouts: Layouts = (),
) -> list[np.ndarray]:
    """The outputs of one call of machine code; ``func`` says what its arguments are, before they
    got the ``layouts`` of ``scheduled``."""
    arguments = Arguments(func, dims, scheduled, layouts)
    if scheduled is not None:  # another layout names the sizes in another order
        dims = [arguments.sizes[v.name] for v in scheduled.shape_vars]
    shared, each = (value(e, lowered, dims) for e in (lowered.shared_bytes, lowered.thread_bytes))
    prepared = prepare(address, arguments.arrays, dims, shared + each * threads, threads)
    prepared.workspace[:] = garbage
    prepared()
    return arguments.outputs()


# -- laws ------------------------------------------------------------------------------------------
def check_form(func: PrimFunc) -> None:
    """The function is well formed and its text parses back."""
    with law("verify_func"):
        verify_func(func)
    with law("verify_bounds"):
        verify_bounds(func)
    with law("verify_regions"):
        verify_regions(func)
    with law("text round trip"):
        assert_structural_equal(parse_func(print_func(func)), func)


def check_replay(func: PrimFunc, sch: Schedule) -> None:
    """The trace gives the same function again: from JSON, as Python, simplified and unchecked."""
    trace = sch.trace
    with law("replay from JSON"):
        from_json = OwnSchedule(func, seed=1)
        Trace.from_json(json.dumps(trace.as_json())).apply_to(from_json)
        assert_structural_equal(from_json.func, sch.func)
        assert str(from_json.trace) == str(trace), "the trace of a replay reads otherwise"
    with law("replay from Python"):
        namespace: dict[str, Callable[[Schedule], None]] = {}
        exec(str(trace), namespace)  # type: ignore[arg-type]
        from_text = OwnSchedule(func, seed=2)
        namespace["apply_trace"](from_text)
        assert_structural_equal(from_text.func, sch.func)
    with law("simplified, replayed without checks"):
        unchecked = OwnSchedule(func, seed=3, enable_checks=False)
        trace.simplified().apply_to(unchecked)
        assert_structural_equal(unchecked.func, sch.func)


def quick_image(lowered: LoweredFunc) -> bytes:
    """Object code by the short list of passes, whatever the function: a third of the time."""
    target = resolve(native_target())
    module = new_module(target)
    FunctionEmitter(module, lowered, target).emit()
    parsed = parsed_module(module, binding.create_context())
    run_scheduled_passes(parsed, target)
    image = emit_module(parsed, target).image
    return emit_object([lowered], target).image if may_lack_masks(image, target) else image


def check_results(name: str, func: PrimFunc, variant: int, layouts: Layouts = ()) -> None:
    """The machine code writes what the unscheduled function's does, and nothing else; parameters
    have the ``layouts`` given.

    ``variant`` chooses the number of threads, and whether the code is made as users get it (one of
    four) or quickly. Raises CodegenError for a schedule without machine code.
    """
    original, results = expected(name)
    target = resolve(native_target())
    with law("lowering"):
        lowered = lower_func(func, target)
    with law("code generation"):
        as_usual = variant % 4 == 0
        image = emit_object([lowered], target).image if as_usual else quick_image(lowered)
        symbol = str(lowered.func.attr("global_symbol", lowered.func.name))
        native = Native([image], [symbol])
    threads = 1 + variant % 3
    with law("results"):
        for dims, outputs in zip(SIZES[len(original.shape_vars)], results, strict=True):
            address = native.tracker[symbol]
            given: dict[str, Any] = {"scheduled": func, "layouts": layouts}
            found = call(original, lowered, address, dims, threads=threads, **given)
            same(found, outputs, f"with {threads} threads, dims {dims}")


def check_schedule(name: str, sch: Schedule, variant: int) -> str:
    """All laws; raises Broken. Gives the reason why there is no machine code, empty if there is."""
    func, _ = expected(name)
    try:
        check_form(sch.func)
        check_replay(func, sch)
        check_results(name, sch.func, variant, getattr(sch, "layouts", ()))
    except Broken as broken:
        broken.text = print_func(sch.func)
        raise
    except CodegenError as error:
        return str(error).split("\n", 1)[0]
    return ""


def broken_law(name: str, trace: Trace, variant: int) -> Broken | None:
    """What a trace breaks; None for one that does not replay, or breaks nothing."""
    func, _ = expected(name)
    sch = OwnSchedule(func, seed=0)
    try:
        trace.apply_to(sch)
    except ScheduleError:
        return None
    except Exception as error:
        return Broken("a primitive", error, print_func(sch.func))
    try:
        check_schedule(name, sch, variant)
    except Broken as broken:
        return broken
    except BurnishError:
        return None
    return None
