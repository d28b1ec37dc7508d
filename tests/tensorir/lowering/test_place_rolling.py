from __future__ import annotations

from burnish.support.node import walk
from burnish.tensorir.lowering.place_rolling import place_rolling
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.stmt import For
from burnish.tensorir.text.parser import parse_func
from burnish.tests.native import lower

PROGRAM = """
@T.prim_func
def main(A: T.Buffer((3, 18), "float32"), C: T.Buffer((3, 16), "float32")):
    B = T.alloc_buffer((3, 6))
    for n in T.parallel(3):
        for i_0 in range(4):
            for ax0 in range(6):
                with T.block("B"):
                    vn = T.axis.spatial(3, n)
                    v = T.axis.spatial(18, i_0 * 4 + ax0)
                    T.where(GUARD)
                    T.block_attr({"rolling_buffer": True})
                    B[vn, v % 6] = A[vn, v] * T.float32(2)
            for i_1 in range(4):
                with T.block("C"):
                    vn = T.axis.spatial(3, n)
                    v = T.axis.spatial(16, i_0 * 4 + i_1)
                    T.reads(B[vn, 0:6])
                    C[vn, v] = B[vn, v % 6] + B[vn, (v + 2) % 6]
"""


def holder(guard: str) -> str:
    """The loop that a circular buffer is allocated in."""
    func = parse_func(PROGRAM.replace("GUARD", guard))
    places = place_rolling(func.body)
    names = [n.var.name for n in walk(func.body) if isinstance(n, For) and places.inside.get(id(n))]
    assert len(places.rolling) == 1
    return names[0] if places.placed else "root"


def test_outside_of_the_loop_in_the_guard() -> None:
    assert holder("i_0 < 1 or ax0 >= 2") == "n"
    assert holder("(i_0 < 1 or ax0 >= 2) and n * 4 + i_0 < 9") == "n"


def test_a_guard_that_names_all_loops() -> None:
    assert holder("n * 4 + i_0 < 1 or ax0 >= 2") == "root"


def test_without_a_loop_in_the_guard_around_all_users() -> None:
    assert holder("ax0 >= 2") == "i_0"


def test_a_guard_that_blockize_took_to_a_block_around() -> None:
    sch = Schedule(parse_func(PROGRAM.replace("GUARD", "i_0 < 1 or ax0 >= 2")))
    sch.blockize("B")
    places = place_rolling(sch.func.body)
    assert len(places.placed) == 1
    loops = [n for n in walk(sch.func.body) if isinstance(n, For) and places.inside.get(id(n))]
    assert [loop.var.name for loop in loops] == ["n"]


def test_lowered_code_keeps_it_there() -> None:
    lowered = lower(parse_func(PROGRAM.replace("GUARD", "i_0 < 1 or ax0 >= 2")))
    text = lowered.func.script()
    assert "B = T.allocate([6]" in text
    assert text.index("T.parallel") < text.index("B = T.allocate") < text.index("for i_0")
    assert "rolling_buffer" not in text


def test_a_function_without_circles() -> None:
    func = parse_func(PROGRAM.replace("GUARD", "ax0 >= 0").replace('"rolling_buffer"', '"other"'))
    places = place_rolling(func.body)
    assert (places.inside, places.placed, places.rolling) == ({}, set(), set())
