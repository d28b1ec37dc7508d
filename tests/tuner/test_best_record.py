"""Records applied to functions with names of their own."""

from __future__ import annotations

import json
from dataclasses import replace as replace_fields
from pathlib import Path
from typing import Any

import pytest

from burnish import te
from burnish.support.errors import InternalError, ScheduleError, TuningError
from burnish.support.structural import structural_equal, structural_hash
from burnish.support.target import Target
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule, Trace
from burnish.tensorir.text.printer import print_func
from burnish.tests.tuner.programs import HERE, forged, matmul, record, tiled
from burnish.tuner.best_record import (
    adopt,
    best_record,
    best_schedule,
    rename,
    set_aside_notes,
    verify_best,
)
from burnish.tuner.records.database import TuningDatabase, TuningRecord
from burnish.tuner.records.records_io import export_records, import_records
from burnish.tuner.task import TuneTask, strip_attrs


def two_blocks(first: str, second: str) -> PrimFunc:
    """``D = (A + 1) * 2`` in two blocks."""
    a = te.placeholder((16, 16), name="A")
    b = te.compute((16, 16), lambda i, j: a[i, j] + 1.0, name=first)
    return te.create_prim_func([a, te.compute((16, 16), lambda i, j: b[i, j] * 2.0, name=second)])


def test_the_best_record_replays_to_the_function_that_was_measured() -> None:
    with TuningDatabase() as db:
        record(db, matmul(), tiled, 2.0)
        best = record(db, matmul(), lambda sch: sch.vectorize(sch.get_loops("C")[1]), 1.0)
        func = matmul()
        sch = best_schedule(db, TuneTask("main", func, HERE))
        assert structural_hash(strip_attrs(sch.func)) == best.hash
        assert sch.func.params[0] is func.params[0]
        assert sch.func.attr("tir.noalias") is True
        assert sch.enable_checks
        assert len(sch.trace) > 0


def test_failures_for_other_targets_are_no_records() -> None:
    with TuningDatabase() as db:
        task = TuneTask("main", matmul(), HERE)
        source = db.add_workload(task.workload, task.name, print_func(task.stripped), task.flop)
        db.add(TuningRecord(task.workload, "elsewhere", "a", source, "[]", (), "it died"))
        with pytest.raises(TuningError) as caught:
            best_record(db, task)
        assert "other targets" not in str(caught.value)
        db.add(TuningRecord(task.workload, "elsewhere", "b", source, "[]", (1.0,)))
        with pytest.raises(TuningError, match="There are records for other targets: elsewhere"):
            best_record(db, task)


def test_other_block_and_buffer_names_replay_too() -> None:
    with TuningDatabase() as db:
        made = record(db, matmul(), tiled)
        asking = matmul(names="XYZ", func_name="linear0").with_attr("global_symbol", "linear0")
        asking = asking.with_attr("op_pattern", "out_fusable")
        sch = best_schedule(db, TuneTask("linear0", asking, HERE))
        func = sch.func
        assert structural_hash(strip_attrs(func)) == made.hash
        assert [p.name for p in func.params] == ["X", "Y", "Z"]
        assert (func.name, func.attr("global_symbol")) == ("linear0", "linear0")
        assert func.attr("op_pattern") == "out_fusable"
        assert func.attr("is_scheduled") is True
        replayed = Schedule(adopt(matmul(), asking), seed=0)
        sch.trace.apply_to(replayed)
        assert structural_equal(replayed.func, func)


def test_swapped_block_names_do_not_lead_astray() -> None:
    """The trace replays on the asking function, but on the wrong block: the hash tells."""
    with TuningDatabase() as db:
        made = record(db, two_blocks("B", "D"), lambda sch: sch.vectorize(sch.get_loops("B")[1]))
        sch = best_schedule(db, TuneTask("main", two_blocks("D", "B"), HERE))
        assert structural_hash(strip_attrs(sch.func)) == made.hash


def test_buffers_that_a_trace_names_are_renamed() -> None:
    def cached(sch: Schedule) -> None:
        sch.compute_at(sch.cache_read("C", "A", "global"), sch.get_loops("C")[0])

    with TuningDatabase() as db:
        made = record(db, matmul(), cached)
        assert '"A"' in made.trace
        sch = best_schedule(db, TuneTask("main", matmul(names="XYZ"), HERE))
        assert structural_hash(strip_attrs(sch.func)) == made.hash


def test_the_function_of_a_trace_may_be_called_otherwise_in_a_module() -> None:
    trace = Trace.from_json(
        [["get_block", [], [["name", "C"], ["func_name", "main"]], ["b0"], None]]
    )
    (inst,) = rename(trace, {"C": "Z"})
    assert inst.attrs == (("name", "C"),)


def one_block() -> PrimFunc:
    a = te.placeholder((16, 16), name="A")
    return te.create_prim_func([a, te.compute((16, 16), lambda i, j: a[i, j] + 1.0, name="B")])


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (
            one_block,
            lambda sch: sch.split(sch.get_loops("B")[1], [None, 5], disable_predication=True),
        ),
        (one_block, lambda sch: sch.annotate(sch.get_loops("B")[1], "sum_block", 0)),
        (lambda: two_blocks("M", "D"), lambda sch: sch.set_scope("M", 0, "register")),
    ],
    ids=["it writes past the end", "an annotation that cannot be", "registers with loops around"],
)
def test_a_record_that_no_kernel_can_be_made_of_is_set_aside(make: Any, change: Any) -> None:
    with TuningDatabase() as db:
        record(db, make(), change, 1.0)
        task, said = TuneTask("main", make(), HERE), []
        with pytest.raises(TuningError):
            best_schedule(db, task, note=said.append)
        assert len(said) == 1
        assert "no kernel can be made of it" in said[0]
        assert set_aside_notes(db, task) == said


def test_layouts_that_may_change() -> None:
    func = matmul().with_attr("layout_free", [1])
    with TuningDatabase() as db:
        made = record(
            db, func, lambda sch: sch.transform_layout("C", ("read", 1), lambda k, j: (j, k))
        )
        asking = matmul(names="XYZ").with_attr("layout_free", [1])
        for f in (func, asking):
            sch = best_schedule(db, TuneTask("main", f, HERE))
            assert structural_hash(strip_attrs(sch.func)) == made.hash
            assert sch.func.attr("layout_maps") == [[1, "lambda k, j: (j, k)", None]]
        with pytest.raises(TuningError, match="There is no record"):
            best_schedule(db, TuneTask("main", matmul(), HERE))


def test_a_given_schedule_is_used() -> None:
    class Own(Schedule):
        pass

    with TuningDatabase() as db:
        record(db, matmul(), tiled)
        assert type(best_schedule(db, TuneTask("main", matmul(), HERE), Own)) is Own


# -- no record, or none that helps ----------------------------------
def test_without_a_record_the_nearest_are_named() -> None:
    with TuningDatabase() as db:
        task = TuneTask("main", matmul(48), HERE)
        with pytest.raises(TuningError, match=r"The database has no records\. Tune it first"):
            best_record(db, task)
        for n in (16, 32, 64):
            record(db, matmul(n), tiled)
        with pytest.raises(TuningError) as caught:
            best_record(db, task)
        lines = str(caught.value).splitlines()
        assert lines[0].startswith(f"There is no record for 'main' (workload {task.workload[:12]})")
        assert "  main(A: float32[16, 16], B: float32[16, 16], C: float32[16, 16])" in lines
        assert len(lines) == 4


def test_records_for_another_target_are_named() -> None:
    with TuningDatabase() as db:
        record(db, matmul(), tiled)
        task = TuneTask("main", matmul(), Target("native -threads=3"))
        with pytest.raises(
            TuningError, match=r"records for other targets: v2 .* threads=1\. Tune for"
        ):
            best_record(db, task)


def test_a_failure_is_no_record() -> None:
    with TuningDatabase() as db:
        record(db, matmul(), tiled)
        (only,) = db.records()
        db.add(replace_fields(only, seconds=(), error="wrong result"))
        with pytest.raises(TuningError, match="There is no record"):
            best_schedule(db, TuneTask("main", matmul(), HERE))


@pytest.mark.parametrize("trace", ["[]", "no trace", '[["explode", [], [], [], null]]'])
def test_a_record_that_does_not_replay(trace: str) -> None:
    with TuningDatabase() as db:
        record(db, matmul(), tiled)
        (only,) = db.records()
        db.add(replace_fields(only, trace=trace))
        notes: list[str] = []
        with pytest.raises(
            TuningError, match=r"(?s)stands the checks; 1 were set aside.*its trace"
        ):
            best_schedule(db, TuneTask("main", matmul(), HERE), note=notes.append)
        assert len(notes) == 1
        (kept,) = db.records()
        assert kept.error.startswith("set aside: its trace ")
        assert kept.seconds == ()


def by_a_rule(sch: Schedule) -> None:
    sch.apply_rule("matmul", "llvm -mcpu=haswell -cores=1", {"rows": 7, "vectors": 1})


def test_a_record_of_a_rule_replays_from_its_one_line() -> None:
    with TuningDatabase() as db:
        made = record(db, matmul(64), by_a_rule)
        sch = best_schedule(db, TuneTask("main", matmul(64, func_name="other"), HERE))
        assert structural_hash(strip_attrs(sch.func)) == made.hash
        (decisions,) = sch.trace.decisions.values()
        assert (decisions["rows"], decisions["vectors"]) == (7, 1)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"rule": "matmuls"}, "There is no rule 'matmuls'"),
        ({"rows": 99}, "takes as 'rows' one of"),
        ({"rowz": 4}, "takes no decision 'rowz'"),
        ({"rows": "6"}, "the decision 'rows'"),
        ({"rows": 6}, "another function than the one it names"),
    ],
)
def test_a_record_of_a_rule_is_a_claim(changed: dict[str, Any], reason: str) -> None:
    with TuningDatabase() as db:
        record(db, matmul(64), by_a_rule)
        (only,) = db.records()
        kind, inputs, attrs, outputs, decision = json.loads(only.trace)[0]
        named = [[name, changed.get(name, value)] for name, value in attrs]
        fields = {**decision, **{k: v for k, v in changed.items() if k != "rule"}}
        forged_trace = json.dumps([[kind, inputs, named, outputs, fields]])
        db.add(replace_fields(only, trace=forged_trace))
        with pytest.raises(TuningError, match=f"(?s)1 were set aside.*{reason}"):
            best_schedule(db, TuneTask("main", matmul(64), HERE), note=lambda _: None)


@pytest.mark.parametrize("method", ["from_json", "apply_to"])
def test_a_defect_of_ours_is_not_the_records(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise InternalError("broken")

    with TuningDatabase() as db:
        record(db, matmul(), tiled)
        monkeypatch.setattr(Trace, method, fail)
        with pytest.raises(InternalError, match="broken"):
            best_schedule(db, TuneTask("main", matmul(), HERE))
        (kept,) = db.records()
        assert kept.seconds


# -- records that are consistent with themselves and wrong --------------------------------------
def stencil() -> PrimFunc:
    """``D[i, j] = B[i, j] + B[(i + 5) % 16, j]`` of ``B = A + 1``."""
    a = te.placeholder((16, 16), name="A")
    b = te.compute((16, 16), lambda i, j: a[i, j] + 1.0, name="B")
    d = te.compute((16, 16), lambda i, j: b[i, j] + b[(i + 5) % 16, j], name="D")
    return te.create_prim_func([a, d])


def illegal(sch: Schedule) -> None:
    """The consumer runs in the producer's loop and reads rows that are not there yet."""
    sch.reverse_compute_at("D", sch.get_loops("B")[0])


def test_an_illegal_record_is_set_aside_and_the_next_one_taken() -> None:
    with pytest.raises(ScheduleError):
        illegal(Schedule(stencil(), seed=0))
    with TuningDatabase() as db:
        bad = forged(db, stencil(), illegal)
        good = record(db, stencil(), lambda sch: sch.vectorize(sch.get_loops("D")[1]))
        task = TuneTask("main", stencil(), HERE)
        with pytest.warns(UserWarning, match=r"A tuning record of 'main' was set aside: its trace"):
            sch = best_schedule(db, task)
        assert structural_hash(strip_attrs(sch.func)) == good.hash
        best_schedule(db, task)  # said once
        (note,) = set_aside_notes(db, task)
        assert "reverse_compute_at: " in note
        assert [r.candidate for r in db.records() if not r.seconds] == [bad.hash]
        assert db.seen(task.workload, task.target_key) == {good.hash}


def test_a_merged_database_is_believed_no_more_than_any_other(tmp_path: Path) -> None:
    lines = tmp_path / "records.jsonl"
    with TuningDatabase() as source, TuningDatabase() as db:
        forged(source, stencil(), illegal)
        export_records(source, lines)
        import_records(db, lines)
        db.merge(source)
        notes: list[str] = []
        verify_best(db, TuneTask("main", stencil(), HERE), notes.append)
        assert len(notes) == 1
        assert db.best_seconds(TuneTask("main", stencil(), HERE).workload, "") is None


def test_a_record_on_the_text_of_another_workload_is_set_aside() -> None:
    """The text is that of A - B, its names keep the trace from replaying on A + B."""

    def minus(sign: int, names: str) -> PrimFunc:
        a, b = (te.placeholder((16, 16), name=n) for n in names[:2])
        rule = lambda i, j: a[i, j] + b[i, j] * float(sign)  # noqa: E731
        return te.create_prim_func([a, b, te.compute((16, 16), rule, name=names[2])])

    asked = TuneTask("main", minus(1, "ABC"), HERE)
    with TuningDatabase() as db:
        record(db, minus(-1, "XYZ"), lambda sch: sch.vectorize(sch.get_loops("Z")[1]))
        (other,) = db.records()
        db.add(replace_fields(other, workload=asked.workload))
        notes: list[str] = []
        with pytest.raises(TuningError, match="another workload's"):
            best_schedule(db, asked, note=notes.append)


def test_a_file_that_cannot_be_written_is_read_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise TuningError("read only")

    with TuningDatabase() as db:
        forged(db, stencil(), illegal)
        good = record(db, stencil(), lambda sch: sch.vectorize(sch.get_loops("D")[1]))
        monkeypatch.setattr(db, "add", refuse)
        with pytest.warns(UserWarning, match="was set aside"):
            sch = best_schedule(db, TuneTask("main", stencil(), HERE))
        assert structural_hash(strip_attrs(sch.func)) == good.hash


def test_adopting_keeps_what_is_not_a_name() -> None:
    kept, asking = matmul(names="ABC"), matmul(names="XYZ", func_name="f").with_attr("x", 1)
    taken = adopt(kept, asking)
    assert structural_equal(strip_attrs(taken), strip_attrs(asking))
    assert taken.attrs == asking.attrs
    text = print_func(taken)
    assert "def f(X: " in text
    assert "A[" not in text
    assert 'T.block("C")' in text
    assert json.dumps([p.name for p in taken.params]) == '["X", "Y", "Z"]'
