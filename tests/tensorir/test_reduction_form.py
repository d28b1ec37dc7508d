from __future__ import annotations

import pytest

from burnish.support.node import walk
from burnish.tensorir.reduction_form import combines_in_place
from burnish.tensorir.stmt import Block
from burnish.tensorir.text.parser import parse_func
from burnish.tests.strategies.corpus import PROGRAMS


@pytest.mark.parametrize(
    ("init", "update", "fits"),
    [
        ("C[vi, vj] = T.float32(0)", "C[vi, vj] = C[vi, vj] + A[vi, vj, vk]", True),
        ("C[vi, vj] = A[vj, vi, 0]", "C[vi, vj] = C[vi, vj] + A[vi, vj, vk]", True),
        ("C[vi, vj] = T.float32(0)", "C[vj, vi] = C[vj, vi] + A[vi, vj, vk]", False),
        ("C[vi, vj] = T.float32(0)", "C[vi, vj] = C[vj, vi] + A[vi, vj, vk]", False),
        ("C[vi, vj] = C[vj, vi]", "C[vi, vj] = C[vi, vj] + A[vi, vj, vk]", False),
        ("C[vi, vk] = T.float32(0)", "C[vi, vk] = C[vi, vk] + A[vi, vj, vk]", False),
        ("C[vi, vj] = T.float32(0)", "A[vi, vj, vk] = T.float32(1)", False),
        ("C[vi, vj] = T.float32(0)", "if vk < 3: C[vi, vj] = C[vi, vj] + A[vi, vj, vk]", True),
        ("C[vi, vj] = T.float32(0)", "if vk < 3: C[vi, vj] = C[vj, vi] + A[vi, vj, vk]", False),
    ],
)
def test_whether_the_init_begins_what_the_update_updates(
    init: str, update: str, fits: bool
) -> None:
    func = parse_func(f"""
@T.prim_func
def main(A: T.Buffer((8, 8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    for i, j, k in T.grid(8, 8, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                {init}
            {update}
""")
    (block,) = [n for n in walk(func.body) if isinstance(n, Block) and n.name == "C"]
    assert combines_in_place(block) == fits


@pytest.mark.parametrize("name", [n for n in PROGRAMS if "permuted" not in n])
def test_the_reductions_of_the_corpus_are_in_place(name: str) -> None:
    blocks = [n for n in walk(PROGRAMS[name]().body) if isinstance(n, Block)]
    assert all(combines_in_place(b) for b in blocks)
