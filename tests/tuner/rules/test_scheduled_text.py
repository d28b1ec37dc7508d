"""What each rule makes of one small function, as text: a golden file a rule, with the decisions on
top, the loops for a CPU with AVX-512, and the lines that are different for one without.

The text is that of lowering's first steps, in which blocks have become the statements in them and
loops of one iteration are gone: half of the lines that a schedule has, and all of what it does.

After a change that is meant to alter schedules,

    python -m pytest tests/tuner/rules/test_scheduled_text.py --update-golden

writes them anew, and the diff says what the change does to the programs of every rule.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from burnish.support.errors import ScheduleError
from burnish.support.target import Target
from burnish.tensorir import operators as op
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.lowering.drop_scope_tags import drop_scope_tags
from burnish.tensorir.lowering.lower_blocks import lower_blocks
from burnish.tensorir.lowering.simplify_loops import simplify_loops
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.te.compute import Tensor
from burnish.tests.conftest import golden_path
from burnish.tests.tuner.rules import (
    test_attention,
    test_bfloat16,
    test_conv,
    test_depthwise,
    test_int8,
    test_recurrent,
    test_row_window,
    test_scaled,
    test_tiles,
    test_winograd,
)
from burnish.tests.tuner.rules.checking import Shape, Workload
from burnish.tuner.rules.registry import RULES

WIDE, NARROW = [Target(f"llvm -mcpu={cpu} -cores=2") for cpu in ("znver4", "haswell")]
WITH_TILES = Target("llvm -mcpu=graniterapids -cores=2")
MOST_LINES = 110
"""Of a file that somebody shall read; most have half of that."""


def function(build: Callable[..., Tensor], *shapes: Shape) -> PrimFunc:
    return Workload(build, np.matmul, *shapes).func


def linear(rows: int) -> PrimFunc:
    """relu(x @ w.T + bias)."""
    return function(lambda x, w, b: op.relu(op.linear(x, w, b)), (rows, 64), (32, 64), (32,))


FUNCTIONS: dict[str, tuple[str, Callable[[], PrimFunc]]] = {
    "winograd": (
        "a convolution of 3 x 3 without padding, by tiles of 2 x 2",
        lambda: test_winograd.winograd(1, 4, 4, 16, 16, 2, (0, 0, 0, 0), epilogue=False).func,
    ),
    "int8": ("x @ w of bytes, doubled", lambda: test_int8.product((8, 16), (16, 32))),
    "bfloat16": (
        "x @ w of bfloat16, by pairs",
        lambda: test_bfloat16.product((8, 64), (64, 64)),
    ),
    "tiles": (
        "x @ w of bfloat16, in registers that are tiles",
        lambda: test_tiles.product((32, 64), (64, 32)),
    ),
    "scaled": (
        "relu of a linear layer of 1 row, whose weights are integers of 4 bits in 2 groups",
        lambda: test_scaled.layer(1, 32, 2, 32, 4),
    ),
    "dot": ("relu(x @ w.T + bias) of one row, whose weight has its layout", lambda: linear(1)),
    "gemv": (
        "x @ w of two rows, w an input from beyond the second cache",
        lambda: function(op.matmul, (2, 576), (576, 1024)),
    ),
    "matmul": (
        "relu(x @ w.T + bias) of 16 rows, whose weight may have any layout",
        lambda: linear(16).with_attr("layout_free", [1]),
    ),
    "conv": (
        "relu of a convolution of 3 x 3",
        lambda: test_conv.conv((1, 6, 6, 8), (16, 8, 3, 3)).func,
    ),
    "attention": (
        "attention of 4 queries to 4 keys",
        lambda: test_attention.Case(4, 4, 16, heads=1).func(),
    ),
    "recurrent": (
        "a GRU of 3 steps, 1 row and 16 units",
        lambda: test_recurrent.static("gru", 3, 1, 16),
    ),
    "window": (
        "relu of a depthwise convolution of 3 x 3",
        lambda: test_depthwise.depthwise((1, 4, 4, 16), (3, 3)).func,
    ),
    "row_window": (
        "the maximum of windows of 2 x 2, channels first",
        lambda: test_row_window.pool("max", (1, 1, 5, 32), kernel=2, stride=2),
    ),
    "chain": (
        "a @ b @ c",
        lambda: function(
            lambda a, b, c: op.matmul(op.matmul(a, b), c), (4, 16), (16, 16), (16, 16)
        ),
    ),
    "products": ("a @ b", lambda: function(op.matmul, (16, 8), (8, 64))),
    "reduction": ("the sum of each row", lambda: function(lambda x: op.sum(x, [1]), (4, 64))),
    "elementwise": (
        "relu(a + b), b broadcast",
        lambda: function(lambda a, b: op.relu(op.add(a, b)), (4, 64), (64,)),
    ),
}
"""A function for each rule, and what it computes."""


def decided(rule: str, target: Target) -> tuple[dict[str, int], str]:
    """The analytic decisions of a rule about its function, and the text of its loops."""
    sch = Schedule(FUNCTIONS[rule][1](), seed=0)
    try:
        sch.apply_rule(rule, target, {})
    except ScheduleError as error:
        return {}, f"# {str(error).splitlines()[0]}"
    (decisions,) = sch.trace.decisions.values()
    assert isinstance(decisions, dict)
    return decisions, simplify_loops(lower_blocks(drop_scope_tags(sch.func))).script()


@pytest.mark.parametrize("rule", [rule.name for rule in RULES])
def test_the_program_of(rule: str, golden: Callable[[str], None]) -> None:
    first = WITH_TILES if rule == "tiles" else WIDE
    (wide, program), (narrow, other) = decided(rule, first), decided(rule, NARROW)
    lines = [f"# {rule}: {FUNCTIONS[rule][0]}"]
    lines += [f"# {t.cpu}: {said(d)}" for t, d in ((first, wide), (NARROW, narrow))]
    lines += ["", *program.strip().splitlines()]
    both = program.strip().splitlines(), other.strip().splitlines()
    changed = list(difflib.unified_diff(*both, n=0, lineterm=""))[2:]
    changes = [line for line in changed if not line.startswith("@@")]
    lines += ["", f"# {NARROW.cpu}:", *(changes or ["# the same program"])]
    assert len(lines) <= MOST_LINES
    golden("\n".join(lines))


def said(decisions: dict[str, int]) -> str:
    return ", ".join([f"{name}={value}" for name, value in decisions.items()]) or "nothing"


def test_every_rule_has_a_function_and_a_file() -> None:
    names = [rule.name for rule in RULES]
    assert sorted(FUNCTIONS) == sorted(names)
    files = {name: golden_file(name) for name in names}
    assert [name for name, path in files.items() if not path.exists()] == []
    folder = files[names[0]].parent
    assert sorted(folder.iterdir()) == sorted(files.values()), "a file without its rule"


def golden_file(rule: str) -> Path:
    return golden_path(Path(__file__), f"test_the_program_of[{rule}]")
