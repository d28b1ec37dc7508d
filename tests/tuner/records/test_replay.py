"""Traces that name a rule replay in a process that knows of no rule before."""

from __future__ import annotations

import subprocess
import sys

from burnish.support.structural import structural_equal
from burnish.support.target import Target
from burnish.tensorir.schedule import Schedule, Trace
from burnish.tests.tuner.programs import matmul
from burnish.tuner.analytic import apply_rules
from burnish.tuner.records.replay import replay_trace

CPU = Target("llvm -mcpu=haswell -cores=1")


def test_a_trace_gives_its_function() -> None:
    sch = Schedule(matmul(), seed=0)
    apply_rules(sch, CPU)
    trace = Trace.from_json(sch.trace.as_json())
    assert structural_equal(replay_trace(trace, Schedule(matmul())), sch.func)


def test_who_replays_knows_the_rules_and_a_worker_starts_without() -> None:
    code = "import sys, burnish.{0}; print('burnish.tuner.rules.registry' in sys.modules)"
    for module, known in (
        ("tuner.measuring.measure", "True"),
        ("tuner.best_record", "True"),
        ("support.worker", "False"),
    ):
        run = [sys.executable, "-c", code.format(module)]
        assert (
            subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip() == known
        )
