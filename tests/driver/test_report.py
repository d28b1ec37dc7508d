"""CompileReport: counting and printing."""

from __future__ import annotations

import pytest

from burnish.driver.emit import EmitTimes
from burnish.driver.report import CompileReport
from burnish.tuner.schedule_log import KernelSchedule


def test_stages_add_up() -> None:
    report = CompileReport()
    with report.stage("a"):
        pass
    with report.stage("b"):
        pass
    with pytest.raises(KeyError), report.stage("a"):
        raise KeyError
    assert list(report.stages) == ["a", "b"]
    assert report.seconds == sum(report.stages.values()) > 0


def test_it_prints() -> None:
    report = CompileReport(
        stages={"00-import": 0.001, "60-llvm": 0.25},
        kernels=["f", "g"],
        compilations=3,
        segments=1,
        workspace_bytes=512,
        constant_bytes=40,
        notes=["dim n was exported for sizes of 2 to 8."],
    )
    assert str(report).splitlines() == [
        "compiled in 0.251 s: 2 kernels, 1 segment, 3 objects emitted",
        "  00-import           1.0 ms",
        "  60-llvm           250.0 ms",
        "  kernels: f, g",
        "  constants of 40 bytes, workspace of 512 bytes",
        "  note: dim n was exported for sizes of 2 to 8.",
    ]


def test_it_prints_the_parts() -> None:
    report = CompileReport(
        stages={"50-lowered": 0.002},
        frontend={"torch.export": 1.5, "import": 0.02},
        kernels=["f", "g"],
        calls=5,
        distinct=2,
    )
    report.add_emission(EmitTimes(0.001, 0.002, 0.003))
    report.add_emission(EmitTimes(0.1, 0.2, 0.3), in_worker=True)
    assert str(report).splitlines()[1:-1] == [
        "  torch.export     1500.0 ms  (before that)",
        "  import             20.0 ms  (before that)",
        "  50-lowered          3.0 ms",
        "  60-llvm             5.0 ms  (LLVM itself 3.0 ms)",
        "  in workers        600.0 ms  (beside this process)",
        "  kernels: f, g",
        "  5 calls of 2 kernels, 2 distinct",
    ]
    assert report.seconds == pytest.approx(0.008)


def test_long_lists_are_wrapped() -> None:
    names = [f"fused_conv_relu_{i}" for i in range(40)]
    report = CompileReport(kernels=names)
    report.cache.missed |= dict.fromkeys(names, "compiled for the first time")
    for name in names:
        report.add_schedule(KernelSchedule(name, "conv", (), 1.0))
    text = str(report)
    assert max(len(line) for line in text.splitlines()) <= 150
    first = ", ".join(names[:4])
    assert f"    compiled for the first time: {first} and 36 more (report.cache.missed has" in text
    listed = " ".join(text.partition("kernels: ")[2].split())
    assert listed.startswith(", ".join(names) + f" rules: conv ({', '.join(names)})")


def test_it_prints_what_is_not_known() -> None:
    text = str(CompileReport())
    assert text.startswith("compiled in 0.000 s: 0 kernels, 0 segments, 0 objects emitted")
    assert "kernels: none" in text
    assert "workspace that depends on the dims" in text


def test_schedules() -> None:
    report = CompileReport()
    report.add_schedule(KernelSchedule("f", "matmul", (), 1.5))
    report.add_schedule(KernelSchedule("g", "reduction", (("matmul", "parallel: No."),), 80.4))
    report.add_schedule(KernelSchedule("h", None))
    report.add_schedule(KernelSchedule("i", None, (("all others", "for others than blocks"),)))
    lines = str(report).splitlines()
    assert lines[2:5] == [
        "  rules: matmul (f), reduction (g), none (h, i)",
        "    g: reduction; matmul refused (parallel: No.)",
        "    i: no rule; all others refused (for others than blocks)",
    ]
    assert report.notes == [
        "the kernel 'g' may be slow: its schedule, of the rule 'reduction', is estimated to take "
        "80 times what its arithmetic and its bytes need; model.tune searches for a better one.",
        "the kernel 'h' has no schedule: no rule fits it.",
        "the kernel 'i' has no schedule: no rule fits it (all others: for others than blocks).",
    ]
