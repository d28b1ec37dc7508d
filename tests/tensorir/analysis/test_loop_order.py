from __future__ import annotations

from burnish.tensorir.analysis.loop_order import LoopOrder, overwrites
from burnish.tensorir.analysis.nested_blocks import Nested
from burnish.tensorir.analysis.paths import find_block, loops_above, realize_of
from burnish.tensorir.function import PrimFunc
from burnish.tests.tensorir.schedule.programs import program

SHIFTED = """
B = T.alloc_buffer((8, 4))
for i in range(8):
    for t in range(4):
        with T.block("B"):
            vi, vt = T.axis.remap("SS", [i, t])
            B[{row}, vt] = A[vi, vt] + T.float32(1)
    for t in range(4):
        with T.block("C"):
            vi, vt = T.axis.remap("SS", [i, t])
            C[vi, vt] = B[vi, vt]
"""


def shifted(row: str) -> PrimFunc:
    return program(SHIFTED.format(row=row), A="(8, 4)", C="(8, 4)")


def nested(func: PrimFunc, name: str) -> Nested:
    path = find_block(func, name, "test")
    return Nested(realize_of(path), loops_above(path), [])


def are_apart(func: PrimFunc) -> bool:
    """Whether a later iteration of B writes other elements than C reads now."""
    first, second = nested(func, "B"), nested(func, "C")
    order = LoopOrder([], [first.loops[0]])
    (written,) = [t for t in order.touches(Nested(first.realize, first.loops[1:], [])) if t.written]
    (read,) = [
        t for t in order.touches(Nested(second.realize, second.loops[1:], [])) if not t.written
    ]
    return order.are_apart(written, read)


def test_a_later_iteration_touches_other_rows() -> None:
    assert are_apart(shifted("vi"))
    assert not are_apart(shifted("7 - vi"))


def test_a_block_that_overwrites_what_it_wrote() -> None:
    for row, expected in [("vi", False), ("0", True)]:
        b = nested(shifted(row), "B")
        (buffer,) = [w.buffer for w in b.block.writes]
        assert overwrites(b, b.loops[:1], {buffer}) is expected
        assert not overwrites(b, b.loops[:1], [])


def test_what_a_block_touches_is_found_once() -> None:
    first = nested(shifted("vi"), "B")
    order = LoopOrder([], first.loops[:1])
    inner = Nested(first.realize, first.loops[1:], [])
    assert order.touches(inner) is order.touches(inner)
