"""What a workload computes: seeded inputs, the unscheduled function's outputs, and how far a
schedule may be from them.

A schedule reassociates sums and contracts products, so equality is up to rounding. How much
rounding a function may show depends on the function: an ``exp`` of a long sum magnifies it, a
comparison may flip. So the reference runs a second time on inputs changed by a few units in the
last place, and an element may differ by a small part of the outputs' scale plus a multiple of what
that change did to it. Integer and bool elements must agree wherever the change left them alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ...support.dtype import DType
from ...support.errors import BuildError
from ...support.node import walk
from ...tensorir.expr import BufferLoad, IntImm
from ...tensorir.function import PrimFunc
from ...tensorir.stmt import BufferStore
from ...tensorir.visitor import has_load
from ...vm.tensor import Tensor, array, empty

TOLERANCE = {"float64": 1e-10, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
"""Error allowed by output dtype, relative to the larger of the element and the outputs' mean
magnitude."""

_NUDGE = {"float64": 2.0**-50, "float32": 2.0**-21, "float16": 2.0**-9, "bfloat16": 2.0**-6}
"""The relative change of the second run's inputs: 4 units in the last place."""

_MAGNIFIED = 16.0
"""How many times the effect of that change an element may be off."""

_RANGES = ((-1.0, 1.0), (0.125, 1.0))
"""Where float inputs come from; the second for functions that are not finite on the first (log,
sqrt)."""

_INDEX_LIMIT = 8


@dataclass(frozen=True)
class Reference:
    """``inputs`` are all arguments before the call; ``expected`` and ``nudged`` the outputs
    (arguments number ``outputs``) after it, and after the call on slightly changed inputs."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[int, ...]
    expected: tuple[Tensor, ...]
    nudged: tuple[Tensor, ...]
    range_index: int

    @cached_property
    def allowed(self) -> tuple[np.ndarray, ...]:
        """By output: the largest error of each element; infinite where the function is at an
        edge."""
        return tuple(
            [_allowed_error(a, b) for a, b in zip(self.expected, self.nudged, strict=True)]
        )


def save_references(references: Sequence[Reference], path: Path) -> None:
    """Keep all but the inputs, which a seed makes again."""
    parts: dict[str, Any] = {}
    for k, known in enumerate(references):
        parts[f"{k}range"] = np.int64(known.range_index)
        parts |= {f"{k}expected{i}": x.data for i, x in enumerate(known.expected)}
        parts |= {f"{k}nudged{i}": x.data for i, x in enumerate(known.nudged)}
    with path.open("wb") as file:
        np.savez(file, **parts)


def load_references(path: Path, functions: Sequence[PrimFunc], seed: int) -> tuple[Reference, ...]:
    """The references that ``save_references`` wrote for these functions and this seed."""
    with np.load(path, allow_pickle=False) as parts:
        return tuple([_loaded(parts, k, func, seed) for k, func in enumerate(functions)])


def _loaded(parts: Any, k: int, func: PrimFunc, seed: int) -> Reference:
    outputs = output_indices(func)
    range_index = int(parts[f"{k}range"])
    inputs = make_arguments(func, seed, _RANGES[range_index])
    kept: list[list[Tensor]] = [[], []]
    for n, i in enumerate(outputs):
        for which, name in enumerate(("expected", "nudged")):
            kept[which].append(Tensor(parts[f"{k}{name}{n}"], str(inputs[i].dtype)))
    return Reference(tuple(inputs), outputs, tuple(kept[0]), tuple(kept[1]), range_index)


def make_reference(func: PrimFunc, run: Callable[[Sequence[Tensor]], None], seed: int) -> Reference:
    """Run the unscheduled function. Of the ranges of inputs the first is taken on which most of the
    outputs are finite, else the one with most."""
    best: tuple[float, Reference] | None = None
    for index, limits in enumerate(_RANGES):
        found = _run_twice(func, run, seed, limits, index)
        finite = [np.isfinite(values(x)).mean() for x in found.expected if x.size]
        share = float(min(finite, default=1.0))
        if best is None or share > best[0]:
            best = share, found
        if share > 0.75:
            break
    assert best is not None
    return best[1]


def _run_twice(
    func: PrimFunc,
    run: Callable[[Sequence[Tensor]], None],
    seed: int,
    limits: tuple[float, float],
    index: int,
) -> Reference:
    inputs, outputs = make_arguments(func, seed, limits), output_indices(func)
    first = [array(x) for x in inputs]
    run(first)
    rng = np.random.default_rng([seed, 1])
    second = [_nudge(x, rng) for x in inputs]
    run(second)
    return Reference(
        tuple(inputs),
        outputs,
        tuple([first[i] for i in outputs]),
        tuple([second[i] for i in outputs]),
        index,
    )


def compare(reference: Reference, arguments: Sequence[Tensor]) -> None:
    """Raise BuildError where the arguments after a candidate's call are not what they should be: an
    output differs, or an input was written."""
    for n, i in enumerate(reference.outputs):
        got, want = values(arguments[i]), values(reference.expected[n])
        wrong = _wrong(got, want, reference.allowed[n])
        count = int(wrong.sum())
        if count:
            where = tuple([int(x) for x in np.argwhere(wrong)[0]])
            raise BuildError(
                f"wrong result: {count} of {wrong.size} elements of output {n} differ from the "
                f"unscheduled function's; the first, at {list(where)}, is {got[where]:.7g} and not "
                f"{want[where]:.7g}, where {reference.allowed[n][where]:.2g} is allowed"
            )
    for i, (before, after) in enumerate(zip(reference.inputs, arguments, strict=True)):
        if i not in reference.outputs and not np.array_equal(before.bits(), after.bits()):
            raise BuildError(f"wrong result: argument {i}, an input, was written")


def _wrong(got: np.ndarray, want: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Where an element is off by more than is allowed. Infinities are equal by sign; NaN equals
    NaN."""
    same = got == want
    if want.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            same |= np.abs(got - want) <= allowed
        same |= np.isnan(got) & np.isnan(want)
    wrong: np.ndarray = ~(same | np.isinf(allowed))
    return wrong


def _allowed_error(expected: Tensor, nudged: Tensor) -> np.ndarray:
    want, other = values(expected), values(nudged)
    if want.dtype.kind != "f":
        return np.where(want == other, 0.0, np.inf)
    same = (want == other) | (np.isnan(want) & np.isnan(other))
    with np.errstate(invalid="ignore"):
        change = np.where(same, 0.0, np.abs(other - want))
    size = np.where(np.isfinite(want), np.abs(want), 0.0)
    mean = size.sum() / max(1, np.isfinite(want).sum())
    allowed = TOLERANCE[str(expected.dtype)] * np.maximum(size, mean) + _MAGNIFIED * change
    # No number: the change made an infinity or a NaN of a finite value, or the other way round.
    return np.where(np.isnan(allowed), np.inf, allowed)


def values(x: Tensor) -> np.ndarray:
    """The elements as an array (never a scalar): floats as float64, integers and bools as they
    are."""
    if not x.dtype.is_float:
        return np.atleast_1d(x.data)
    held = x.float32() if x.dtype == "bfloat16" else x.data
    return np.atleast_1d(held.astype(np.float64))


# -- arguments -------------------------------------------------------------------------------------
def output_indices(func: PrimFunc) -> tuple[int, ...]:
    """Which parameters the function writes."""
    written = {id(b) for b in func.written}
    return tuple([i for i, p in enumerate(func.params) if id(p) in written])


def make_arguments(func: PrimFunc, seed: int, limits: tuple[float, float]) -> list[Tensor]:
    """Random arguments of a static function, outputs too: floats between ``limits``, small
    integers, which are indices where the function uses any. Raises BuildError where a shape is
    symbolic."""
    rng = np.random.default_rng(seed)
    bound = index_bound(func)
    result = []
    for p in func.buffers:
        shape = [d.value for d in p.shape if isinstance(d, IntImm)]
        if len(shape) != len(p.shape):
            raise BuildError(f"{func.name}: the shape of {p.name!r} is symbolic")
        tensor = empty(shape, p.dtype)
        _fill(tensor, rng, limits, bound)
        result.append(tensor)
    return result


def _fill(
    tensor: Tensor, rng: np.random.Generator, limits: tuple[float, float], bound: int | None
) -> None:
    shape, dtype = tensor.shape, DType(str(tensor.dtype))
    if dtype.is_float:
        tensor.data[...] = array(rng.uniform(*limits, shape), dtype).data
    elif dtype.is_bool:
        tensor.data[...] = rng.integers(0, 2, shape)
    elif bound is not None or str(dtype).startswith("u"):
        tensor.data[...] = rng.integers(0, bound or _INDEX_LIMIT, shape)
    else:
        tensor.data[...] = rng.integers(-_INDEX_LIMIT, _INDEX_LIMIT, shape)


def index_bound(func: PrimFunc) -> int | None:
    """The smallest extent that the function indexes with a loaded value; None where it does not."""
    extents: list[int] = []
    for n in walk(func.body):
        if isinstance(n, (BufferLoad, BufferStore)):
            for index, extent in zip(n.indices, n.buffer.shape, strict=True):
                if has_load(index):
                    extents.append(extent.value if isinstance(extent, IntImm) else 1)
    return min(extents, default=None)


def _nudge(x: Tensor, rng: np.random.Generator) -> Tensor:
    """A copy, each float changed by a few units in the last place."""
    size = _NUDGE.get(str(x.dtype))
    if size is None:
        return array(x)
    factor = 1 + size * rng.choice((-1.0, 1.0), x.shape)
    return array((values(x) * np.atleast_1d(factor)).reshape(x.shape), str(x.dtype))
