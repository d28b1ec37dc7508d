from __future__ import annotations

import pytest

from burnish.support.errors import NotAncestorError, NotCompleteBlockError
from burnish.tensorir.analysis.paths import find_block, loops_above, realize_of
from burnish.tensorir.analysis.preconditions import (
    require_ancestor,
    require_complete,
    require_reduction,
)
from burnish.tensorir.expr import Var
from burnish.tensorir.text.parser import parse_func
from burnish.tests.tensorir.schedule.programs import matmul

SCAN = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = B[vi] + A[vi]
"""


def test_why_a_block_is_not_complete_is_marked() -> None:
    func = parse_func(SCAN, {})
    block = realize_of(find_block(func, "B", "test")).block
    with pytest.raises(NotCompleteBlockError, match="it reads the buffer it writes") as caught:
        require_complete(func, block, "compute_inline")
    lines = str(caught.value).splitlines()
    at = next(i for i, line in enumerate(lines) if 'with T.block("B")' in line)
    assert lines[at + 1].strip() == "^" * len('with T.block("B"):')
    require_reduction(matmul(), realize_of(find_block(matmul(), "C", "test")).block, "test")


def test_the_loop_of_another_block_is_no_ancestor() -> None:
    func = matmul()
    path = find_block(func, "C", "test")
    require_ancestor(func, path, loops_above(path)[1].var, "test")
    with pytest.raises(
        NotAncestorError, match="'q' does not stand around the block 'C'; its loops"
    ):
        require_ancestor(func, path, Var("q"), "test")
