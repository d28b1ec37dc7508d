"""Two products and what is between them: every stage computes the chain, at small sizes."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from burnish.tensorir.schedule.trace.trace import Trace

STAGES = (
    "untransformed",
    "loops reordered",
    "depth tiled",
    "all loops tiled",
    "tiled, inits inside",
    "exp merged",
    "rows merged",
    "vectorised",
    "packed",
)


def expected(program: ModuleType, sizes: object) -> np.ndarray:
    a, b, e = program.operands(sizes)
    f = np.empty((a.shape[0], e.shape[1]), "float32")
    program.with_numpy(a, b, e, f)
    return f


def test_the_stages_are_those_of_the_course(program: ModuleType) -> None:
    assert tuple(program.STAGES) == STAGES


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_computes_the_chain(program: ModuleType, name: str) -> None:
    sizes = program.Sizes(32, 64, 64, 96)
    result, seconds = program.run_stage(name, sizes)
    np.testing.assert_allclose(result, expected(program, sizes), rtol=1e-4, atol=1e-4)
    assert seconds > 0


@pytest.mark.parametrize(("kc", "rounds"), [(64, 1), (32, 2), (16, 4)])
def test_packed_sums_in_rounds(program: ModuleType, kc: int, rounds: int) -> None:
    sizes = program.Sizes(32, 64, 64, 96)
    cut = program.Blocking(4, (2, 3), 8, 16, kc, 2)
    sch = program.packed(sizes, cut)
    assert len(sch.get_loops("C_update")) == (10 if rounds > 1 else 9)
    program.STAGES["in rounds"] = lambda s: program.packed(s, cut)
    try:
        result, _ = program.run_stage("in rounds", sizes)
    finally:
        del program.STAGES["in rounds"]
    np.testing.assert_allclose(result, expected(program, sizes), rtol=1e-4, atol=1e-4)


def test_packed_packs_group_by_group_and_fetches_ahead(program: ModuleType) -> None:
    sch = program.packed(program.Sizes(32, 64, 64, 96), program.Blocking(4, (2, 3), 8, 16, 64, 1))
    text = sch.mod.script()
    assert text.count('"prefetch_distance": 3') == 2
    assert text.count('"prefetch_distance": 16') == 2
    again = program.Schedule(program.chain(program.Sizes(32, 64, 64, 96)))
    Trace.from_json(sch.trace.as_json()).apply_to(again)
    assert again.mod.script() == text


def test_sizes_that_the_tiles_do_not_divide(program: ModuleType) -> None:
    with pytest.raises(ValueError, match="cuts 96 into parts of 20, which do not divide it"):
        program.packed(program.Sizes(32, 64, 64, 96), program.Blocking(4, (2, 5), 4, 16, 64, 1))


def test_the_peak_is_measured(program: ModuleType) -> None:
    assert program.fma_peak(depth=64, repeat=1) > 0


def test_it_runs(program: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["32", "64", "64", "96", "--repeat", "1"]) == 0
    text = capsys.readouterr().out
    assert all(f"\n{name} " in text for name in (*STAGES, "NumPy"))
    assert "WRONG" not in text


@pytest.mark.parametrize(("rows", "mc"), [(1, 6), (6, 6), (13, 12), (50, 12), (50, 54)])
def test_packed_pads_any_number_of_rows(program: ModuleType, rows: int, mc: int) -> None:
    sizes = program.Sizes(rows, 32, 32, 32)
    cut = program.Blocking(6, (1, 1), 8, mc, 16, 2)
    program.STAGES["padded"] = lambda s: program.packed(s, cut)
    try:
        result, _ = program.run_stage("padded", sizes)
    finally:
        del program.STAGES["padded"]
    np.testing.assert_allclose(result, expected(program, sizes), rtol=1e-4, atol=1e-4)
