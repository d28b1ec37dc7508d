"""The command behind ``make ulp``: elementary functions of float32 on every argument there is.

    python -m burnish.tests.ulp.sweep [--functions exp,erf] [--jobs 2] [--again] [--keep FILE]

Functions of one argument are called on all 2**32 of them, as the compiler emits them for a CPU with
fused multiply-add and for plain x86-64, and compared with float64 (``reference.py``); odd and even
ones on the positive half, and on the negative one bit by bit with that; functions of two arguments
on 2**28 pairs drawn at random. What is found goes to ``errors.json``: the largest error
of each variant, the worst points of each, computed again with mpmath, and a digest of results, by
which the tests see that a function is no longer the one that was swept. A function whose digest is
the recorded one is not swept again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from burnish.support.target import Target
from burnish.tensorir.codegen.math import MATH_FUNCTIONS
from burnish.tensorir.intrinsics import INTRINSICS
from burnish.tensorir.lowering.expand_intrinsics import EXPANSIONS
from burnish.tensorir.text.parser import parse_func
from burnish.tests.native import load_native
from burnish.tests.ulp.reference import FLOAT32, REFERENCES, errors_in_ulp, exact_error

RECORD = Path(__file__).resolve().parent / "errors.json"
VARIANTS = {"fma": "llvm -mcpu=haswell", "plain": "llvm -mcpu=x86-64"}
"""The two kinds of code there are; wider vectors give the same bits as Haswell's."""
SWEEP_ON = {"fma": "native", "plain": "llvm -mcpu=x86-64"}
CHUNK = 1 << 15
"""Arguments of a call: all arrays of a chunk together stay within the L2 cache."""
SLICE = 1 << 27
"""Arguments of a task."""
PAIRS = 1 << 28
KEPT = 8
"""Worst points of a variant that are recorded, of blocks that differ in the leading 8 bits."""
ODD = frozenset({"sinh", "tanh", "erf", "sin", "tan", "atan", "asin", "asinh", "atanh"})
EVEN = frozenset({"cosh", "cos"})
SIGN = np.uint32(1 << 31)
FUNCTIONS = (*MATH_FUNCTIONS, *[name for name in EXPANSIONS if INTRINSICS[name].arity == 1])
"""Those that have machine code of their own, and those that are a few operations around these."""


@dataclass(frozen=True, order=True)
class Point:
    """An error and the bits of the arguments that have it."""

    ulp: float
    bits: tuple[int, ...]

    @property
    def args(self) -> tuple[float, ...]:
        return tuple(float(x) for x in np.array(self.bits, np.uint32).view(np.float32))


class Function:
    """A function of float32 as the compiler emits it for a target, over arrays of ``CHUNK``."""

    def __init__(self, name: str, target: str) -> None:
        arity = INTRINSICS[name].arity
        names = "AB"[:arity]
        buffers = "".join(f'{n}: T.Buffer(({CHUNK},), "float32"), ' for n in names)
        reads = ", ".join(f"{n}[v]" for n in names)
        func = parse_func(f"""
@T.prim_func
def f({buffers}O: T.Buffer(({CHUNK},), "float32")):
    T.func_attr({{"is_scheduled": True}})
    for i in range({CHUNK // 16}):
        for j in T.vectorized(16):
            with T.block("O"):
                v = T.axis.spatial({CHUNK}, i * 16 + j)
                O[v] = T.{name}({reads})
""")
        self.arguments = tuple(np.zeros(CHUNK, np.float32) for _ in names)
        self.result = np.zeros(CHUNK, np.float32)
        self.run = load_native(func, *self.arguments, self.result, target=Target(target))

    def __call__(self, *arrays: np.ndarray) -> np.ndarray:
        """The function of up to ``CHUNK`` arguments."""
        for mine, given in zip(self.arguments, arrays, strict=True):
            mine[: len(given)] = given
        self.run()
        return self.result[: len(arrays[0])].copy()


@cache
def function_for(name: str, target: str) -> Function:
    return Function(name, target)


def digest(name: str, target: str) -> str:
    """A digest of the results at 2**16 arguments spread over all; NaN counts as one value."""
    spread = np.arange(1 << 16, dtype=np.uint64) * 0x9E3779B97F4A7C15 >> np.uint64(32)
    arrays = [spread.astype(np.uint32).view(np.float32)]
    if INTRINSICS[name].arity == 2:
        arrays.append(arrays[0][::-1])
    hashed = hashlib.sha256()
    for start in range(0, 1 << 16, CHUNK):
        pieces = [domain_only(name, a[start : start + CHUNK].copy()) for a in arrays]
        found = function_for(name, target)(*pieces)
        found[np.isnan(found)] = np.nan
        hashed.update(found.tobytes())
    return hashed.hexdigest()[:16]


def domain_only(name: str, x: np.ndarray) -> np.ndarray:
    """Arguments for which a function is defined: ``exp_negative`` is for those of at most 0."""
    return -abs(x) if name == "exp_negative" else x


class Sweep:
    """One function beside its reference: chunk by chunk, the worst point of each block."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.variants = {v: function_for(name, target) for v, target in SWEEP_ON.items()}
        self.worst: dict[str, dict[int, Point]] = {v: {} for v in VARIANTS}
        count = INTRINSICS[name].arity
        self.wide = [np.empty(CHUNK) for _ in range(count)]
        self.exact, self.error, self.scale = (np.empty(CHUNK) for _ in range(3))

    def add(self, block: int, *bits: np.ndarray) -> None:
        """A chunk of arguments by their bits."""
        arrays = [b.view(np.float32) for b in bits]
        for wide, x in zip(self.wide, arrays, strict=True):
            np.copyto(wide, x)
        REFERENCES[self.name](*self.wide, out=self.exact)
        # 1 / unit by its exponent: that of the result, not below that of the least normal number.
        exponent = self.scale.view(np.uint64)
        np.bitwise_and(self.exact.view(np.uint64), 0x7FF << 52, out=exponent)
        np.maximum(exponent, (1023 + FLOAT32.lowest) << 52, out=exponent)
        np.subtract((2 * 1023 + FLOAT32.mantissa) << 52, exponent, out=exponent)
        for variant, function in self.variants.items():
            for mine, x in zip(function.arguments, arrays, strict=True):
                np.copyto(mine, x)
            function.run()
            error = np.subtract(function.result, self.exact, out=self.error)
            np.abs(error, out=error)
            np.multiply(error, self.scale, out=error)
            most = float(error.max())
            if not np.isfinite(most):  # NaN and infinities on one side or on both
                if beyond(self.exact, function.result):
                    continue
                error = errors_in_ulp(self.exact, function.result)
                most = float(error.max())
            self.keep(variant, block, most, error, bits)

    def keep(
        self, variant: str, block: int, most: float, error: np.ndarray, bits: tuple[np.ndarray, ...]
    ) -> None:
        """Note the largest error of a chunk where it is that of its block so far."""
        known = self.worst[variant].get(block)
        if known is None or most > known.ulp:
            at = int(error.argmax())
            self.worst[variant][block] = Point(most, tuple(int(b[at]) for b in bits))

    def mirror(self, block: int, bits: np.ndarray) -> None:
        """The negative of a chunk of an odd or even function: an infinite error where a result is
        not the mirrored one, sign and all."""
        for variant, function in self.variants.items():
            x = function.arguments[0]
            np.copyto(x, bits.view(np.float32))
            function.run()
            wanted = function.result.view(np.uint32).copy()
            if self.name in ODD:
                wanted ^= SIGN
            np.copyto(x, (bits ^ SIGN).view(np.float32))
            function.run()
            differs = function.result.view(np.uint32) != wanted
            if differs.any():  # as those of NaN may
                differs &= ~(np.isnan(function.result) & np.isnan(wanted.view(np.float32)))
                if differs.any():
                    error = np.where(differs, np.inf, 0.0)
                    self.keep(variant, block | 0x80, np.inf, error, (bits ^ SIGN,))


def beyond(exact: np.ndarray, got: np.ndarray) -> bool:
    """Whether all of a chunk is NaN, or all overflows on one side, in both; for speed alone."""
    if np.isnan(exact[0]):
        return bool(np.isnan(exact).all() and np.isnan(got).all())
    if not np.isinf(got[0]):
        return False
    side = np.sign(got[0])
    return bool((exact * side >= FLOAT32.limit).all() and (got == got[0]).all())


def sweep_slice(name: str, start: int) -> dict[str, list[Point]]:
    """The worst points of ``SLICE`` arguments, one a block of 2**24, or of as many pairs."""
    sweep = Sweep(name)
    with np.errstate(all="ignore"):
        for block, bits in arguments(name, start):
            sweep.add(block, *bits)
            if name in ODD | EVEN:
                sweep.mirror(block, *bits)
    return {v: sorted(points.values()) for v, points in sweep.worst.items()}


def arguments(name: str, start: int) -> Iterator[tuple[int, tuple[np.ndarray, ...]]]:
    """The chunks of a slice: their block, and the arguments' bits."""
    if INTRINSICS[name].arity == 1:
        step = np.arange(CHUNK, dtype=np.uint32)
        for first in range(start, start + SLICE, CHUNK):
            yield first >> 24, (step + np.uint32(first),)
        return
    for first in range(start, start + SLICE, CHUNK):
        yield first >> 24, random_pairs(name, first)


def random_pairs(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A chunk of pairs of finite numbers: a half with random bits, a half of moderate size (for
    ``pow`` such that results are)."""
    rng = np.random.default_rng(seed)
    wild = rng.integers(0, 1 << 32, (2, CHUNK // 2), np.uint32)
    wild = np.where(wild >> 23 & 0xFF == 0xFF, wild & 0x807FFFFF, wild)
    x, y = rng.normal(size=(2, CHUNK - CHUNK // 2)).astype(np.float32)
    if name == "pow":
        x = np.exp(rng.choice([1e-3, 0.3, 3, 20], len(x)) * x).astype(np.float32)
        with np.errstate(all="ignore"):
            power = rng.uniform(-160, 140, len(x)) / np.log2(x.astype(np.float64))
            y = np.where(abs(power) < 1e38, power, y).astype(np.float32)
        wild[0] &= 0x7FFFFFFF
    first, second = (
        np.concatenate([w, m.view(np.uint32)]) for w, m in zip(wild, (x, y), strict=True)
    )
    return first, second


def starts(name: str) -> list[int]:
    """Where the slices of a function begin: negative numbers alone, or positive ones, or all, or
    all pairs."""
    if INTRINSICS[name].arity == 2:
        return list(range(0, PAIRS, SLICE))
    first = 1 << 31 if name == "exp_negative" else 0
    return list(range(first, 1 << (31 if name in ODD | EVEN else 32), SLICE))


def summary(name: str, found: Sequence[dict[str, list[Point]]], seconds: float) -> dict[str, Any]:
    """The entry of a function in the record."""
    entry: dict[str, Any] = {
        "arguments": len(found) * SLICE * (2 if name in ODD | EVEN else 1),
        "exhaustive": INTRINSICS[name].arity == 1,
    }
    for variant, target in VARIANTS.items():
        points = sorted((p for f in found for p in f[variant]), reverse=True)[:KEPT]
        again = sorted((confirmed(name, variant, p) for p in points), reverse=True)
        entry[variant] = {
            "ulp": again[0].ulp,
            "digest": digest(name, target),
            "worst": [
                {"ulp": round(p.ulp, 6), "bits": [f"{b:08x}" for b in p.bits], "args": p.args}
                for p in again
            ],
        }
    print(
        f"{name:14}" + "".join(f" {v} {entry[v]['ulp']:.4f} at {entry[v]['worst'][0]['args']}"
        for v in VARIANTS) + f"  ({seconds:.0f} s)",
        flush=True,
    )  # fmt: skip
    return entry


def confirmed(name: str, variant: str, point: Point) -> Point:
    """The point with its error by mpmath; stays as it is where results are no numbers."""
    got = results(name, variant, [point.bits])[0]
    if not np.isfinite(point.ulp) or np.isnan(got):
        return point
    return Point(exact_error(name, point.args, float(got)), point.bits)


def results(name: str, variant: str, points: Sequence[Sequence[int]]) -> np.ndarray:
    """What a variant gives at points, by the bits of their arguments."""
    columns = np.array(points, np.uint32).T.copy()
    return function_for(name, VARIANTS[variant])(*[c.view(np.float32) for c in columns])


def load_record(path: Path = RECORD) -> dict[str, Any]:
    """The record by functions; empty where there is none."""
    if not path.exists():
        return {}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def is_current(name: str, entry: dict[str, Any] | None) -> bool:
    """Whether a function still gives what it gave when it was swept."""
    return entry is not None and all(
        entry[v]["digest"] == digest(name, target) for v, target in VARIANTS.items()
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--functions", default=",".join(FUNCTIONS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--again", action="store_true", help="even what has not changed")
    parser.add_argument("--keep", type=Path, default=RECORD, help="the record, read and written")
    options = parser.parse_args(argv)
    record = load_record(options.keep)
    with ProcessPoolExecutor(options.jobs) as pool:
        for name in options.functions.split(","):
            if not options.again and is_current(name, record.get(name)):
                print(f"{name:14} is what was swept", flush=True)
                continue
            begin = time.perf_counter()
            where = starts(name)
            found = list(pool.map(sweep_slice, [name] * len(where), where))
            record[name] = summary(name, found, time.perf_counter() - begin)
            ordered = {n: record[n] for n in FUNCTIONS if n in record}
            options.keep.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
