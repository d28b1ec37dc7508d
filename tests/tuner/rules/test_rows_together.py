"""Several rows at a time: the rows left over, the same bits, and where it does not pay."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.support.errors import ScheduleValueError
from burnish.tensorir import operators as op
from burnish.tests import assembly
from burnish.tests.native import call_native
from burnish.tests.tuner.rules.checking import HASWELL, SKYLAKE, Workload, check_rule, scheduled
from burnish.tests.tuner.rules.test_reduction import layer_norm, softmax, total
from burnish.tuner.analytic import schedule_analytically
from burnish.tuner.rules.rows_together import TOGETHER, next_rows_fit, rows_at_once
from burnish.tuner.schedule_log import recorded
from burnish.tuner.tiling.nests import Nest, common_nests
from burnish.tuner.workload import blocks_in_order


def nests_of(workload: Workload) -> list[Nest]:
    nests = common_nests(blocks_in_order(workload.func))
    assert nests is not None
    return nests


@pytest.mark.parametrize("rows", [2, 3, 4, 5])
@pytest.mark.parametrize("columns", [8, 33, 100, 200])
@pytest.mark.parametrize("make", [lambda *s: layer_norm(1, *s), lambda *s: softmax(-1, *s)])
def test_rows_that_are_left_over(make: object, rows: int, columns: int) -> None:
    check_rule(make(rows, columns), "reduction", tolerance=1e-4)  # type: ignore[operator]


@pytest.mark.parametrize("columns", [64, 100])
def test_a_number_of_rows_that_is_not_known(columns: int) -> None:
    check_rule(layer_norm(1, "m", columns), "reduction", tolerance=1e-4, m=(1, 2, 3, 8))


def test_a_row_has_the_same_bits_wherever_it_stands() -> None:
    """Among others or left over, and with any number of threads."""
    workload = layer_norm(1, 33, 1000)
    a, b, c = workload.arguments()
    a[:] = a[0]
    found = [np.zeros_like(a) for _ in range(3)]
    for threads, out in enumerate(found, 1):
        call_native(scheduled(workload.func)[1], a, b, c, out, threads=threads)
        np.testing.assert_array_equal(out, np.broadcast_to(found[0][0], a.shape))


def test_what_rows_share_is_loaded_once_for_several() -> None:
    _, func = scheduled(layer_norm(1, 16, 768).func, target=SKYLAKE)
    *_, norm = assembly.innermost_loops(assembly.kernel_lines(func, SKYLAKE))
    stores = [x for x in norm if x.operation == "vmovups" and x.code.endswith(")")]
    text = "\n".join(x.code for x in norm)
    loads = text.count("(%r") - len(stores)
    # Of x one for each store, of the scale and the shift one for each TOGETHER.
    assert len(stores) % TOGETHER == 0
    assert loads == len(stores) + 2 * len(stores) // TOGETHER
    assert assembly.vector_spills(norm) == []


def test_rows_that_are_not_run_together_stand_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise ScheduleValueError("split", "No.")

    monkeypatch.setattr("burnish.tuner.rules.reduction.run_rows_together", refused)
    with recorded() as log:
        schedule_analytically(layer_norm(1, 16, 768).func, SKYLAKE)
    assert log[0].rule == "reduction"
    assert log[0].given_up == (("several_rows_at_once", "split: No."),)


def test_the_next_rows_are_fetched_in_the_second_pass() -> None:
    text = scheduled(layer_norm(1, 16, 768).func, target=SKYLAKE)[1].script()
    assert text.count("prefetch_distance") == 1
    distance = 768 // 32 * TOGETHER
    loop = text[text.index(f'"prefetch_distance": {distance}') :]
    assert loop.index("square_sum_rf_update") < loop.index("T.writes")


def test_rows_as_long_as_pages_are_taken_one_by_one() -> None:
    """Two, the next two and what is made of them have no place in the cache beside the scale and
    the shift; one and the next one have."""
    nests = nests_of(layer_norm(1, 16, 1024))
    assert rows_at_once(nests, SKYLAKE) == 1
    assert next_rows_fit(nests, SKYLAKE)
    text = scheduled(layer_norm(1, 16, 1024).func, target=SKYLAKE)[1].script()
    assert f'"prefetch_distance": {1024 // 64}' in text
    # No results of a row's length beside them.
    found = nests_of(Workload(lambda a: op.argmax(a, -1), np.argmax, (16, 1024)))
    assert rows_at_once(found, SKYLAKE) == TOGETHER


def test_where_several_rows_pay() -> None:
    norm = nests_of(layer_norm(1, 16, 768))
    assert rows_at_once(norm, SKYLAKE) == TOGETHER
    assert next_rows_fit(norm, SKYLAKE)
    assert rows_at_once(nests_of(layer_norm(1, "m", 768)), SKYLAKE) == TOGETHER
    # With few registers too.
    assert rows_at_once(norm, HASWELL) == TOGETHER
    assert next_rows_fit(norm, HASWELL)
    # Long rows, a single row, a length that is not known, a single pass.
    assert rows_at_once(nests_of(layer_norm(1, 16, 8200)), SKYLAKE) == 1
    assert not next_rows_fit(nests_of(layer_norm(1, 16, 8200)), SKYLAKE)
    assert rows_at_once(nests_of(layer_norm(1, 1, 768)), SKYLAKE) == 1
    assert rows_at_once(nests_of(softmax(-1, 16, "n")), SKYLAKE) == 1
    assert not next_rows_fit(nests_of(softmax(-1, 16, "n")), SKYLAKE)
    assert rows_at_once(nests_of(total(1, 16, 768)), SKYLAKE) == 1


@pytest.mark.parametrize(("columns", "together"), [(1024, 1), (1536, 2), (2048, 1)])
def test_a_page_is_what_rows_compete_for(columns: int, together: int) -> None:
    """Also where the first cache is no power of two; ways are what is left of it by pages."""
    nests = nests_of(layer_norm(1, 16, columns))
    for kib, ways in ((48, 12), (32, 8), (64, 16)):
        target = SKYLAKE.with_options(l1_bytes=kib * 1024)
        assert target.memory.ways == ways
        expected = together if ways == 8 else TOGETHER
        assert rows_at_once(nests, target) == (expected if columns * 16 <= kib * 1024 else 1)


def test_memory_is_read_row_after_row() -> None:
    """What is more than a part of the third cache comes from memory: others use it too."""
    for rows, at_once in ((SKYLAKE.l3_bytes // 4096, 1), (SKYLAKE.l3_bytes // 40960, TOGETHER)):
        nests = nests_of(layer_norm(1, rows, 768))
        assert rows_at_once(nests, SKYLAKE) == at_once
        assert next_rows_fit(nests, SKYLAKE) is (at_once > 1)


def test_elementary_functions_take_longer_than_rows_wait() -> None:
    assert rows_at_once(nests_of(softmax(-1, 16, 128)), SKYLAKE) == TOGETHER
    assert rows_at_once(nests_of(softmax(-1, 16, 1024)), SKYLAKE) == 1


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "int8"])
def test_other_dtypes(dtype: str) -> None:
    workload = Workload(
        lambda a: op.subtract(a, op.max(a, -1, keepdims=True)),
        lambda a: a - a.max(-1, keepdims=True),
        (5, 100),
        dtype=dtype,
    )
    assert rows_at_once(nests_of(workload), SKYLAKE) == TOGETHER
    check_rule(workload, "reduction")
