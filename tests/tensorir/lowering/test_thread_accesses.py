"""What the nests below a thread loop read and write, whoever declares it."""

from __future__ import annotations

from burnish.tensorir.lowering.thread_accesses import accesses_below
from burnish.tensorir.text.parser import parse_func


def test_conditions_and_bare_stores_are_accesses() -> None:
    func = parse_func("""
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for t in range(4):
        if A[3 - t] > T.float32(0):
            B[t] = A[t]
""")
    found = accesses_below(func.body)
    assert [[r.buffer.name for r in n.block.reads] for n in found] == [["A"], ["A"]]
    assert [[r.buffer.name for r in n.block.writes] for n in found] == [[], ["B"]]
