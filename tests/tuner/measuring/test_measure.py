"""Measuring candidates in this process: the right ones get times, the others reasons."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from burnish import te
from burnish.support.errors import BuildError, WorkerFailed
from burnish.support.host import native_target
from burnish.support.target import Target
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.text.printer import print_func
from burnish.tests.tuner.programs import matmul, tiled, unbuildable, wrong
from burnish.tuner.candidate import SpaceFunction, make_candidate
from burnish.tuner.measuring import measure
from burnish.tuner.measuring.measure import (
    batches_for,
    build_kernel,
    measure_candidate,
    save_reference,
    time_kernel,
)
from burnish.tuner.measuring.reference import Reference
from burnish.vm.tensor import Tensor

HERE = "native -threads=1"


def halves(sch: Schedule) -> None:
    i, _, _ = sch.get_loops("C")
    sch.split(i, [None, 8])


def request(func: PrimFunc, space: SpaceFunction, **changes: Any) -> dict[str, Any]:
    sch = Schedule(func, seed=1)
    space(sch)
    c = make_candidate(sch)
    asked = {"text": print_func(func), "trace": c.trace, "candidate": c.hash, "target": HERE}
    return asked | {"reference": "", "seconds": 0.0, "repeat": 2} | changes


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_a_right_candidate_gets_its_times(dtype: str) -> None:
    answer = measure_candidate(**request(matmul(16, dtype), tiled))
    assert json.loads(json.dumps(answer)) == answer
    assert len(answer["seconds"]) == 2
    assert all(t > 0 for t in answer["seconds"])
    assert answer["build_seconds"] > 0


def test_the_reference_is_read_from_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = request(matmul(12), tiled, reference=str(tmp_path / "r.npz"))
    save_reference(text=asked["text"], target=HERE, seed=0, path=asked["reference"])
    monkeypatch.setattr(measure, "_make_reference", None)  # would fail if it were called
    assert measure_candidate(**asked)["seconds"]


def test_named_sizes_are_run_at_each_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = request(matmul(te.var("n")), halves, reference=str(tmp_path / "r.npz"))
    asked["sizes"] = [[3], [16], [40]]
    save_reference(
        text=asked["text"], target=HERE, seed=0, path=asked["reference"], sizes=asked["sizes"]
    )
    shapes: list[tuple[int, ...]] = []
    compare = measure.compare

    def watched(known: Reference, arguments: Sequence[Tensor]) -> None:
        shapes.append(tuple(arguments[2].shape))
        compare(known, arguments)

    monkeypatch.setattr(measure, "compare", watched)
    monkeypatch.setattr(measure, "_make_reference", None)  # would fail if it were called
    monkeypatch.setattr(measure, "time_kernel", lambda *_: [float(len(shapes)), 4.0])
    answer = measure_candidate(**asked)
    assert shapes == [(3, 3), (16, 16), (40, 40)]
    assert answer["seconds"] == pytest.approx([3.0, 4.0])  # all are checked before one is timed
    assert json.loads(json.dumps(answer)) == answer


def test_a_candidate_that_is_wrong_at_one_size_gets_no_times() -> None:
    """Four columns too many are harmless where four divides the columns."""

    def careless(sch: Schedule) -> None:
        sch.enable_checks = False
        i, j, k = sch.get_loops("C")
        j0, j1 = sch.split(j, [None, 4], disable_predication=True)
        sch.reorder(j0, i, j1, k)  # what runs over into the next row comes after it

    asked = request(matmul(te.var("n")), careless)
    assert measure_candidate(**asked, sizes=[[8]])["seconds"]
    with pytest.raises(BuildError, match="wrong result"):
        measure_candidate(**asked, sizes=[[8], [9]])


def test_a_wrong_candidate_gets_no_times() -> None:
    with pytest.raises(BuildError, match=r"wrong result: .* of 256 elements of output 0"):
        measure_candidate(**request(matmul(16), wrong))


def test_a_trace_that_gives_another_function_is_refused() -> None:
    with pytest.raises(BuildError, match="replays to another function than was proposed"):
        measure_candidate(**request(matmul(16), tiled, candidate="0" * 64))


def test_a_candidate_that_does_not_lower_says_why() -> None:
    with pytest.raises(BuildError, match="CodegenError: "):
        measure_candidate(**request(matmul(16), unbuildable))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"trace": "no json"}, "TraceError: "),
        ({"trace": "[]"}, "another function"),
        ({"text": "def f(:"}, "ParseError: "),
        ({"target": "toaster"}, "TargetError: "),
    ],
)
def test_whatever_goes_wrong_is_a_build_error(changes: dict[str, str], reason: str) -> None:
    with pytest.raises(BuildError, match=reason):
        measure_candidate(**request(matmul(16), tiled, **changes))


@pytest.mark.parametrize("error", [MemoryError("none left"), OSError("no space left")])
def test_what_is_not_the_candidates_fault_says_so(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(measure, "_bind", fail)
    with pytest.raises(WorkerFailed, match=rf"{type(error).__name__}: {error}"):
        measure_candidate(**request(matmul(16), tiled))


def test_weights_are_packed_before_they_are_passed() -> None:
    def packed(sch: Schedule) -> None:
        sch.transform_layout("C", ("read", 1), lambda k, j: (j // 8, k, j % 8), pad_value=0.0)

    func = matmul(12).with_attr("layout_free", [1])
    assert measure_candidate(**request(func, packed))["seconds"]


def test_a_function_that_uses_what_its_output_holds() -> None:
    text = """
        def accumulate(A: T.Buffer((8, 16), "float32"), C: T.Buffer((8, 16), "float32")):
            for i, j in T.grid(8, 16):
                with T.block("C"):
                    v, w = T.axis.remap("SS", [i, j])
                    C[v, w] = C[v, w] + A[v, w]
    """
    func = measure._workload(text)

    def vectorized(sch: Schedule) -> None:
        sch.vectorize(sch.get_loops("C")[1])

    assert measure_candidate(**request(func, vectorized))["seconds"]


def test_several_threads_go_through_the_pool() -> None:
    def parallel(sch: Schedule) -> None:
        tiled(sch)
        sch.parallel(sch.get_loops("C_update")[0])

    target = Target("native -threads=2").resolved(native_target())
    kernel = build_kernel(matmul(16), target)
    assert kernel.threads == 2
    answer = measure_candidate(**request(matmul(16), parallel, target=str(target)))
    assert answer["seconds"]


def test_many_inputs_and_outputs() -> None:
    a, b = (te.placeholder((9,), name=n) for n in "AB")
    c = te.compute((9,), lambda i: a[i] + b[i], name="C")
    d = te.compute((9,), lambda i: a[i] * b[i], name="D")
    func = te.create_prim_func([a, b, c, d])
    assert measure_candidate(**request(func, lambda sch: sch.vectorize(sch.get_loops("D")[0])))


def test_the_number_of_calls_adapts_to_their_length() -> None:
    calls = 0

    def call() -> None:
        nonlocal calls
        calls += 1

    results = time_kernel(call, 0.01, 2)
    assert len(results) == 2
    assert calls > 100  # a call takes far less than a microsecond: many fill the time

    calls = 0
    time_kernel(call, 0.0, 3)
    assert calls == 4  # one to warm up, and one a batch


def test_long_calls_are_timed_less_often() -> None:
    assert [batches_for(t, 3) for t in (0.0, 0.04, 0.06, 0.6)] == [3, 3, 2, 1]
    assert batches_for(0.06, 1) == 1
