"""Templates: what their knobs draw, that records replay, names of decisions, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import pytest

import burnish
from burnish import autotvm
from burnish.faces.template import Config, get_template, template
from burnish.support.errors import TuningError
from burnish.support.structural import structural_equal
from burnish.support.target import Target
from burnish.tensorir.schedule import Schedule
from burnish.tests.tuner.programs import InlineExecutor, matmul
from burnish.tuner.best_record import best_record, best_schedule
from burnish.tuner.records.database import TuningDatabase
from burnish.tuner.session import tune_task
from burnish.tuner.task import TuneTask

FUNC = matmul(32)


@template("tiled matmul")
def tiled(sch: Schedule, cfg: Config) -> None:
    i, j, k = sch.get_loops("C")
    cfg.define_split("tile_i", i, num_outputs=2)
    cfg.define_split("tile_j", j, num_outputs=2, filter=lambda s: 4 <= s.size[-1] <= 16)
    cfg.define_split("tile_k", k, num_outputs=2, policy="power2", max_factor=4)
    cfg.define_knob("parallel", [False, True])
    i0, i1 = cfg["tile_i"].apply(sch, i)
    j0, j1 = cfg["tile_j"].apply(sch, j)
    k0, k1 = cfg["tile_k"].apply(sch, k)
    cfg.define_reorder("order", [i1, k1], policy="candidate", candidate=[[i1, k1], [1, 0]])
    sch.reorder(i0, j0, k0, i1, k1, j1)
    cfg["order"].apply(sch, [i1, k1])
    sch.decompose_reduction("C", k0)
    cfg.define_annotate("inner", [j1], policy="try_vec")
    cfg["inner"].apply(sch, [j1])
    if cfg["parallel"].val:
        sch.parallel(i0)


def test_knobs_are_drawn_within_their_candidates() -> None:
    seen = set()
    for seed in range(30):
        values = tiled.apply(Schedule(FUNC, seed=seed), {})
        assert list(values) == ["tile_i", "tile_j", "tile_k", "parallel", "order", "inner"]
        assert prod(values["tile_i"]) == prod(values["tile_j"]) == prod(values["tile_k"]) == 32
        assert values["tile_j"][1] in (4, 8, 16)
        assert values["tile_k"][1] in (1, 2, 4)
        assert values["order"] in ([0, 1], [1, 0])
        assert values["inner"] in (["none"], ["vectorize"])
        seen.add(str(values))
    assert len(seen) > 20


CONFIG: dict[str, Any] = {
    "tile_i": [8, 4],
    "tile_j": (2, 16),
    "tile_k": [8, 4],
    "parallel": True,
    "order": [1, 0],
    "inner": ["vectorize"],
}


def test_knobs_may_be_given_by_name() -> None:
    sch = Schedule(FUNC)
    assert tiled.apply(sch, CONFIG) == CONFIG | {"tile_j": [2, 16]}
    extents = [sch.get(x).extent.value for x in sch.get_loops("C_update")]
    assert extents == [8, 2, 8, 4, 4, 16]
    kinds = [sch.get(x).kind for x in sch.get_loops("C_update")]
    assert (kinds[0], kinds[-1]) == ("parallel", "vectorized")


def test_a_trace_knows_its_configuration_and_replays_without_the_template() -> None:
    sch, again = Schedule(FUNC, seed=3), Schedule(FUNC)
    values = tiled.apply(sch, {})
    assert tiled.config_of(sch.trace, FUNC) == values
    sch.trace.apply_to(again)
    assert structural_equal(again.func, sch.func)


def test_a_template_is_a_design_space_of_the_tuner() -> None:
    task = TuneTask("main", matmul(32), Target("native -threads=1"))
    with TuningDatabase() as db:
        executor = InlineExecutor()
        done = tune_task(
            task, db, max_trials=3, space=tiled, seed=0, executor=executor, seconds=0.0
        )
        assert (done.done, done.failed) == (3, 0)
        values = tiled.config_of(best_record(db, task).trace, task.func)
        sch = Schedule(task.func)
        tiled.apply(sch, values)
        assert structural_equal(sch.func, best_schedule(db, task).func)


def test_the_space_as_text() -> None:
    assert tiled.describe(FUNC) == (
        "tiled matmul: 432 configurations of 6 knobs\n"
        "  tile_i    split of 32, 6 values\n"
        "  tile_j    split of 32, 3 values\n"
        "  tile_k    split of 32, 3 values\n"
        "  parallel  knob, 2 values\n"
        "  order     reorder, 2 values\n"
        "  inner     annotate, 2 values"
    )


def test_templates_are_found_by_name() -> None:
    assert get_template("tiled matmul") is tiled
    assert burnish.autotvm is autotvm
    with pytest.raises(TuningError, match=r"no template 'tiled matmu'.*tiled matmul"):
        get_template("tiled matmu")
    with pytest.raises(TuningError, match="A template has a name"):
        template(lambda sch, cfg: None)  # type: ignore[arg-type]


def define(body: Callable[[Schedule, Config], object]) -> None:
    template("test")(body)(Schedule(FUNC, seed=0))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda s, c: c["tile"], "defines no knob 'tile' before it uses it"),
        (lambda s, c: [c.define_knob("a", [1]), c.define_knob("a", [1])], "knob 'a' twice"),
        (lambda s, c: c.define_knob("a", []), "'a' has no candidates left"),
        (
            lambda s, c: c.define_split("a", s.get_loops("C")[0], filter=lambda e: False),
            "'a' has no candidates left",
        ),
        (
            lambda s, c: c.define_split("a", s.get_loops("C")[0], policy="all"),
            "policies of a split are 'factors', 'power2' and 'candidate'; found 'all'",
        ),
        (
            lambda s, c: c.define_split("a", s.get_loops("C")[0], policy="candidate"),
            "policy='candidate' and candidate= go together",
        ),
        (
            lambda s, c: c.define_split(
                "a", s.get_loops("C")[0], policy="candidate", candidate=[[3, 5]]
            ),
            r"expected 2 factors with the product 32; found \[3, 5\]",
        ),
        (lambda s, c: c.define_split("a", s.get_loops("C")[0], 0), "at least 1 output; found 0"),
        (lambda s, c: c.define_reorder("a", [0] * 7), "7 axes have 5040 orders"),
        (lambda s, c: c.define_reorder("a", [0, 1], policy="some"), "found 'some'"),
        (
            lambda s, c: c.define_reorder("a", [0, 1], policy="candidate", candidate=[[0, 0]]),
            "names each of the 2 axes once",
        ),
        (
            lambda s, c: c.define_reorder("a", ["i"], policy="candidate", candidate=[["j"]]),
            "a candidate names 'j', which is none of the axes",
        ),
        (lambda s, c: c.define_annotate("a", [], policy="bind"), "annotation are none, try_unroll"),
    ],
)
def test_what_a_template_cannot_say(body: Callable[..., object], message: str) -> None:
    with pytest.raises(TuningError, match=message):
        define(body)


def test_configurations_that_are_none() -> None:
    with pytest.raises(TuningError, match=r"no knob 'tile_x'\. Did you mean 'tile_"):
        tiled.apply(Schedule(FUNC), {"tile_x": [1]})
    with pytest.raises(TuningError, match=r"'parallel' has no value 3; it has False, True"):
        tiled.apply(Schedule(FUNC), {"parallel": 3})
