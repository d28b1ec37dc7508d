"""The sweep over all float32 numbers: it finds what is wrong, and its record is of these functions.

The record is kept by ``make ulp``; what is tested of it here are its worst points, and by digests
of results that no function has changed since.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from burnish.support.host import native_target
from burnish.tensorir.codegen.math import MATH_FUNCTIONS
from burnish.tensorir.intrinsics import INTRINSICS
from burnish.tests.ulp import sweep
from burnish.tests.ulp.document import bounds, record
from burnish.tests.ulp.reference import (
    FLOAT16,
    FLOAT32,
    REFERENCES,
    errors_in_ulp,
    exact_error,
)
from burnish.tests.ulp.sweep import (
    CHUNK,
    FUNCTIONS,
    KEPT,
    SLICE,
    VARIANTS,
    Point,
    Sweep,
    arguments,
    beyond,
    digest,
    is_current,
    load_record,
    results,
    starts,
)

RECORD = load_record()
RUNNABLE = [v for v in VARIANTS if v == "plain" or native_target().instructions.fma]
BROKEN = 1 << 30
"""A slice of numbers from 2 on."""


# -- the record -------------------------------------------------------------------------------
def test_every_function_was_swept() -> None:
    assert list(RECORD) == list(FUNCTIONS)
    composed = {name for name, row in INTRINSICS.items() if row.composed and row.arity == 1}
    assert set(FUNCTIONS) == {*MATH_FUNCTIONS, *composed} == set(REFERENCES)
    for name, entry in RECORD.items():
        assert entry["exhaustive"] == (INTRINSICS[name].arity == 1)
        least = {"exp_negative": 1 << 31}.get(name, 1 << 32 if entry["exhaustive"] else 1 << 28)
        assert entry["arguments"] == least


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_document_says_what_was_swept(request: pytest.FixtureRequest, name: str) -> None:
    entry = RECORD[name]
    worst = max(entry[variant]["ulp"] for variant in VARIANTS)
    if request.config.getoption("--update-golden"):
        record(name, 0, worst)
        if entry["exhaustive"]:
            record(name, 1, worst)
    measured, bound, *_ = bounds()[name]
    assert 0 <= measured - worst < 0.01
    # Over all arguments the largest error is the bound; over pairs it is a sample.
    assert (measured == bound) if entry["exhaustive"] else (measured <= bound)


def test_the_document_has_every_function() -> None:
    assert list(bounds()) == list(FUNCTIONS)


@pytest.mark.parametrize("variant", RUNNABLE)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_worst_points_are_still_those(name: str, variant: str) -> None:
    entry = RECORD[name][variant]
    points = [[int(b, 16) for b in point["bits"]] for point in entry["worst"]]
    got = results(name, variant, points)
    for point, bits, value in zip(entry["worst"], points, got, strict=True):
        args = Point(0.0, tuple(bits)).args
        assert args == tuple(point["args"])
        assert exact_error(name, args, float(value)) == pytest.approx(point["ulp"], abs=1e-6)
    assert max(p["ulp"] for p in entry["worst"]) == pytest.approx(entry["ulp"], abs=1e-6)
    assert len(points) == KEPT


@pytest.mark.parametrize("variant", RUNNABLE)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_function_has_changed_since(name: str, variant: str) -> None:
    found = digest(name, VARIANTS[variant])
    assert found == RECORD[name][variant]["digest"], f"{name} is another: run make ulp"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_this_machine_gives_what_the_table_says(name: str) -> None:
    """Vectors of other widths, and instructions that a CPU has besides, change no bit."""
    variant = "fma" if "fma" in RUNNABLE else "plain"
    assert digest(name, "native") == RECORD[name][variant]["digest"]


# -- the sweep --------------------------------------------------------------------------------
def swept(name: str, chunks: Iterator[tuple[int, tuple[np.ndarray, ...]]], count: int) -> Sweep:
    done = Sweep(name)
    with np.errstate(all="ignore"):
        for (block, bits), _ in zip(chunks, range(count), strict=False):
            done.add(block, *bits)
    return done


@pytest.mark.parametrize("start", [0, 0x3F000000, 0x42A00000, 0x7F7F0000, 0xC2CE8000, 0xFF7FC000])
def test_the_quick_way_gives_the_errors_that_the_plain_one_gives(start: int) -> None:
    ((block, (bits,)),) = [next(arguments("exp", start))]
    found = swept("exp", iter([(block, (bits,))]), 1)
    x = bits.view(np.float32)
    with np.errstate(all="ignore"):
        exact = np.exp(x.astype(np.float64))
    for variant, points in found.worst.items():
        error = errors_in_ulp(exact, found.variants[variant](x))
        if not points:
            assert error.max() == 0
            continue
        assert points[block].ulp == pytest.approx(error.max(), rel=1e-12)
        assert error[np.flatnonzero(bits == points[block].bits[0])] == error.max()


@pytest.mark.parametrize(
    ("value", "ulp"),
    [(math.nan, math.inf), (math.inf, math.inf), (np.float32(1e-20), math.inf)],
    ids=["nan", "infinity", "tiny"],
)
def test_one_wrong_result_is_found(
    monkeypatch: pytest.MonkeyPatch, value: float, ulp: float
) -> None:
    done = Sweep("tanh")
    block, (bits,) = next(arguments("tanh", BROKEN))
    run = done.variants["plain"].run

    def broken() -> None:
        run()
        done.variants["plain"].result[777] = value

    monkeypatch.setattr(done.variants["plain"], "run", broken)
    done.add(block, bits)
    point = done.worst["plain"][block]
    assert point.bits == (BROKEN + 777,)
    assert point.ulp == ulp or point.ulp > 1e6


@pytest.mark.parametrize(("name", "value"), [("tanh", -0.0), ("cosh", 1.0), ("asin", 7.0)])
def test_a_function_that_is_not_symmetric_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str, value: float
) -> None:
    done = Sweep(name)
    block, (bits,) = next(arguments(name, BROKEN))
    done.mirror(block, bits)
    assert done.worst == {"fma": {}, "plain": {}}
    run = done.variants["plain"].run

    def broken() -> None:
        run()
        if done.variants["plain"].arguments[0][0] < 0:
            done.variants["plain"].result[777] = value

    monkeypatch.setattr(done.variants["plain"], "run", broken)
    done.mirror(block, bits)
    assert done.worst["plain"] == {block | 0x80: Point(math.inf, ((BROKEN + 777) | 1 << 31,))}
    assert done.worst["fma"] == {}


def test_every_argument_is_swept_once() -> None:
    assert starts("exp") == list(range(0, 1 << 32, SLICE))
    assert starts("sin") == starts("cosh") == list(range(0, 1 << 31, SLICE))
    assert starts("exp_negative") == list(range(1 << 31, 1 << 32, SLICE))
    chunks = arguments("exp", 5 * SLICE)
    block, (bits,) = next(chunks)
    assert (block, int(bits[0]), int(bits[-1])) == (
        5 * SLICE >> 24,
        5 * SLICE,
        5 * SLICE + CHUNK - 1,
    )
    assert int(next(chunks)[1][0][0]) == 5 * SLICE + CHUNK
    assert sum(1 for _ in chunks) == SLICE // CHUNK - 2


@pytest.mark.parametrize("name", ["pow", "atan2", "fmod"])
def test_pairs_are_finite_and_differ_by_chunk(name: str) -> None:
    assert len(starts(name)) * SLICE == sweep.PAIRS
    chunks = arguments(name, 0)
    (_, first), (_, second) = next(chunks), next(chunks)
    for x, y in ((first[0], second[0]), (first[1], second[1])):
        assert np.isfinite(x.view(np.float32)).all()
        assert (x != y).mean() > 0.99


def test_what_has_not_changed_is_not_swept_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "errors.json"
    entry = {v: {"digest": digest("rsqrt", VARIANTS[v])} for v in VARIANTS}
    path.write_text(json.dumps({"rsqrt": entry}))
    assert sweep.main(["--functions", "rsqrt", "--keep", str(path), "--jobs", "1"]) == 0
    assert "rsqrt" in (printed := capsys.readouterr().out)
    assert "is what was swept" in printed
    assert not is_current("rsqrt", None)
    assert not is_current("rsqrt", {**entry, "plain": {"digest": "another"}})


def test_a_function_is_swept_and_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "SLICE", 2 * CHUNK)
    monkeypatch.setattr(sweep, "starts", lambda name: [0x3F000000, 0x3F800000, 0x7F7F8000])
    found = [sweep.sweep_slice("log", start) for start in sweep.starts("log")]
    entry = sweep.summary("log", found, 1.0)
    assert entry["arguments"] == 6 * CHUNK
    assert entry["exhaustive"]
    for variant in VARIANTS:
        worst = [p["ulp"] for p in entry[variant]["worst"]]
        assert worst == sorted(worst, reverse=True)
        assert 0.5 < entry[variant]["ulp"] == pytest.approx(worst[0], abs=1e-6)
        assert entry[variant]["digest"] == digest("log", VARIANTS[variant])
    assert capsys.readouterr().out.startswith("log ")


# -- errors -----------------------------------------------------------------------------------
def test_errors_in_units_of_the_exact_result() -> None:
    one, big = np.float32(1), np.float32(np.finfo(np.float32).max)
    exact = np.array(
        [1, 1, 1 - 2.0**-26, 2.0**-149, 0, 2.0**128, 1e300, np.nan, np.nan, 1, 2.0**127]
    )
    got = [one, 1 + 2**-23, 1, 2.0**-148, 2.0**-149, big, np.inf, np.nan, 1, np.nan, np.inf]
    got = np.array(got, np.float32)
    assert errors_in_ulp(exact, got).tolist() == [
        0, 1, 0.25, 1, 1, 1, 0, 0, math.inf, math.inf, 2.0**23,
    ]  # fmt: skip
    half = errors_in_ulp(np.array([65520.0, 2.0**-24]), np.array([np.inf, 0], np.float16), FLOAT16)
    assert half.tolist() == [0.5, 1]


def test_errors_by_mpmath_are_those_of_float64() -> None:
    x = np.array([0.1, 1.5, 80, -100, -103.5], np.float32)
    got = np.exp(x)
    errors = errors_in_ulp(np.exp(x.astype(np.float64)), got)
    for a, value, error in zip(x, got, errors, strict=True):
        assert exact_error("exp", (float(a),), float(value)) == pytest.approx(error, abs=1e-7)
    assert exact_error("log", (1.0,), 0.0) == 0
    assert exact_error("sin", (float(np.float32(1e30)),), 0.0) > 1e6
    assert exact_error("exp", (89.0,), math.inf) == 0


def test_what_lies_beyond() -> None:
    inf, nan = np.full(4, np.inf, np.float32), np.full(4, np.nan, np.float32)
    assert beyond(np.full(4, 1e300), inf)
    assert beyond(nan.astype(np.float64), nan)
    assert not beyond(np.array([1e300, 1, 1, 1]), inf)
    assert not beyond(np.full(4, -1e300), inf)
    assert not beyond(nan.astype(np.float64), inf)
    assert not beyond(np.full(4, FLOAT32.limit), np.array([np.inf, 1, 1, 1], np.float32))
