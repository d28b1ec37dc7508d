"""Checks operators in a process of its own, which may crash: a line of JSON in, lines out.

In: the operator, the dtype, how many samples at most (null: all), the first sample, and whether
each is a program of its own. Out: ``{"begin": i}`` before the samples from i on, ``{"outcomes":
[...]}`` behind them, and ``{"done": true}``.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch

from burnish.tests.frontend.torch.opinfo.check import check
from burnish.tests.frontend.torch.opinfo.database import samples

TOGETHER = 16
"""Samples that are one program."""


def say(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


def main() -> None:
    torch.set_num_threads(1)
    for line in sys.stdin:
        name, dtype, most, first, alone = json.loads(line)
        found = samples(name, dtype, most)
        step = 1 if alone else TOGETHER
        for i in range(first, len(found), step):
            part = found[i : i + step]
            say({"begin": i})
            outcomes = check(part)
            rows = [[o.kind, o.why, str(s)] for o, s in zip(outcomes, part, strict=True)]
            say({"outcomes": rows})
        say({"done": True})


if __name__ == "__main__":
    main()
