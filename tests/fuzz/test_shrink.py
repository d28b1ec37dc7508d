from __future__ import annotations

from burnish.tensorir.schedule import Schedule, Trace
from burnish.tests.fuzz.shrink import shrink, without
from burnish.tests.strategies.corpus import matmul


def traced() -> Trace:
    sch = Schedule(matmul(8, 8, 8), seed=0)
    i, j, k = sch.get_loops("C")
    sch.annotate(k, "note", 1)
    i_0, _ = sch.split(i, sch.sample_perfect_tile(i, 2))
    sch.get_consumers("C")
    sch.unroll(i_0)
    sch.vectorize(j)
    return sch.trace


def kinds(trace: Trace) -> list[str]:
    return [inst.kind for inst in trace]


def test_what_does_not_matter_is_dropped() -> None:
    short = shrink(traced(), lambda t: "unroll" in kinds(t))
    assert kinds(short) == ["get_block", "get_loops", "sample_perfect_tile", "split", "unroll"]
    short.apply_to(Schedule(matmul(8, 8, 8), seed=0))


def test_a_query_that_fails_itself_stays() -> None:
    trace = Trace(traced().instructions[:2])
    assert kinds(shrink(trace, lambda t: kinds(t)[-1:] == ["get_loops"]))[-1] == "get_loops"


def test_dropping_drops_dependents() -> None:
    trace = traced()
    at = kinds(trace).index("split")
    assert "unroll" not in kinds(without(trace, [at]))
    assert "vectorize" in kinds(without(trace, [at]))


def test_the_number_of_attempts_is_limited() -> None:
    asked: list[Trace] = []

    def fails(trace: Trace) -> bool:
        asked.append(trace)
        return "vectorize" in kinds(trace)

    shrink(traced(), fails, limit=3)
    assert len(asked) <= 3
