"""What models of others cost to compile from nothing: ``make coverage-cold``.

The models are those that the table of ``docs/coverage.md`` has as the slowest, export included: a
model's compilation is short there where an earlier one of the run left its kernels in the cache.
Each compiles in a process of its own, one after the other, with a folder of its own for the cache:
no kernel is there before. The page's last section is written from that; ``run`` keeps it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "coverage.md"
COLUMNS = {
    "graph": ("00-import", "10-canonical", "20-legalized", "30-fused"),
    "schedules": ("40-scheduled",),
    "weights": ("45-packed",),
    "code": ("50-lowered", "60-llvm", "70-bytecode"),
}
"""What a compilation spends its time on, by the names of stages."""
_TITLE = "## The slowest to compile from nothing"
_HEAD = (
    "`make coverage-cold` compiles the models that the table above has as the slowest, in export "
    "and compilation together, once more, each in a process of its own, with no kernel in the "
    "cache and nothing else on the machine"
    "{machine}. Export is torch.export, the comparison of what it made with eager, and the import; "
    "the whole, by which they are listed, is what comes after, in seconds: the graph's "
    "passes with constants that are computed, schedules, weights that are folded and packed, code. "
    'Kernels are emitted on the other core meanwhile, which takes what "beside" has in processor '
    "seconds."
)
_TABLE = """\
| model | export | whole | graph | schedules | weights | code | beside | kernels |
|---|---:|---:|---:|---:|---:|---:|---:|---:|
"""
_ROW = re.compile(r"^\| (\w+/[^|]+?) \|[^|]*\|[^|]*\| *([\d.]+) \| *([\d.]+) \|", re.MULTILINE)


def slowest(page: str, count: int) -> list[str]:
    """The names of the ``count`` models of the page's table that took longest to export and
    compile."""
    rows = [(float(export) + float(own), name) for name, export, own in _ROW.findall(page)]
    return [name for _, name in sorted(rows, reverse=True)[:count]]


def cost(name: str) -> dict[str, Any]:
    """What compiling a case takes in this process."""
    import burnish

    from .case import call, prepared, surroundings
    from .cases import BY_NAME

    case = BY_NAME[name]
    module = prepared(case)
    with surroundings("no_grad"):
        model = burnish.compile(module)
        call(model, case.draw())
    report = model.report
    return {
        "name": name,
        "export": sum(report.frontend.values()),
        "whole": report.seconds,
        **{c: sum(report.stages.get(s, 0.0) for s in stages) for c, stages in COLUMNS.items()},
        "beside": report.worker_seconds,
        "kernels": len(report.kernels),
    }


def cost_from_nothing(name: str) -> dict[str, Any]:
    """``cost`` in a fresh process with an empty cache. Raises CalledProcessError where it fails."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", f"{__package__}.cold", "--one", name]
        around = {**os.environ, "BURNISH_CACHE_DIR": folder}
        done = subprocess.run(command, env=around, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def parted(page: str) -> tuple[str, str]:
    """The page without its last section, and that section."""
    above, title, below = page.partition(_TITLE)
    return above, title + below


def section(costs: Sequence[Mapping[str, Any]], machine: str = "") -> str:
    """The page's last section."""
    rows = sorted(costs, key=lambda c: -c["whole"])
    keys = ("export", "whole", *COLUMNS, "beside")
    lines = [
        f"| {c['name']} | {' | '.join(f'{c[k]:.1f}' for k in keys)} | {c['kernels']} |"
        for c in rows
    ]
    head = textwrap.fill(_HEAD.format(machine=f" ({machine})" if machine else ""), 100)
    return f"{_TITLE}\n\n{head}\n\n{_TABLE}" + "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", help="only this model, in this process, as JSON")
    parser.add_argument("--tried", type=int, default=32, help="how many of the slowest are tried")
    parser.add_argument("--listed", type=int, default=10, help="how many of these are listed")
    parser.add_argument("--machine", default="", help="what the page calls the machine")
    given = parser.parse_args(argv)
    if given.one:
        print(json.dumps(cost(given.one)))
        return 0
    costs = []
    for name in slowest(PAGE.read_text(), given.tried):
        costs.append(cost_from_nothing(name))
        print(f"{name:45} {costs[-1]['whole']:6.1f} s", flush=True)
    most = sorted(costs, key=lambda c: -c["whole"])[: given.listed]
    above, _ = parted(PAGE.read_text())
    PAGE.write_text(f"{above.rstrip()}\n\n{section(most, given.machine)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
