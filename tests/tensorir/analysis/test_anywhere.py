from __future__ import annotations

from burnish.support.node import Node, walk
from burnish.tensorir.analysis.anywhere import Anywhere, anywhere, own_nodes
from burnish.tensorir.buffer import Buffer
from burnish.tensorir.expr import Call, FloatImm
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.stmt import Block, BlockRealize, For, Stmt
from burnish.tests.tensorir.schedule.programs import program

SUMS = """
for i, k in T.grid(4, 8):
    with T.block("S"):
        vi = T.axis.spatial(4, i)
        vk = T.axis.reduce(8, k)
        with T.init():
            S[vi] = T.float32(7)
        S[vi] = S[vi] + A[vi, vk]
for i in range(4):
    with T.block("E"):
        vi = T.axis.spatial(4, i)
        E[vi] = T.exp(S[vi])
"""


def sums() -> PrimFunc:
    return program(SUMS, A="(4, 8)", S="(4,)", E="(4,)")


def is_exp(n: Node) -> bool:
    return isinstance(n, Call) and n.op == "exp"


def test_a_node_is_found_wherever_it_stands() -> None:
    func = sums()
    assert anywhere(is_exp).within(func.body)
    assert not anywhere(lambda n: isinstance(n, Call) and n.op == "log").within(func.body)


def test_an_init_is_looked_at() -> None:
    assert anywhere(lambda n: isinstance(n, FloatImm) and n.value == 7).within(sums().body)


def test_shapes_of_buffers_are_not() -> None:
    seen: list[Node] = []

    def note(n: Node) -> bool:
        seen.append(n)
        return False

    body = sums().body
    anywhere(note).within(body)
    assert {id(n) for n in seen} == {id(n) for n in walk(body, (Buffer,))}


def test_statements_are_looked_at_once_and_later_only_new_ones() -> None:
    looked: list[Stmt] = []

    def note(s: Stmt) -> bool:
        looked.append(s)
        return False

    question = Anywhere(note)
    sch = Schedule(sums(), seed=0)
    question.within(sch.func.body)
    count = len(looked)
    question.within(sch.func.body)
    assert len(looked) == count
    sch.unroll(sch.get_loops("E")[0])
    question.within(sch.func.body)
    new = looked[count:]
    assert len(new) < count
    assert not any(isinstance(s, Block) and s.name == "S" for s in new)


def test_nothing_below_a_leaf_is_looked_at() -> None:
    def is_e(s: Stmt) -> bool:
        return isinstance(s, Block) and s.name == "E"

    body = sums().body
    assert Anywhere(is_e).within(body)
    assert not Anywhere(is_e, lambda s: isinstance(s, BlockRealize)).within(body)


def test_own_nodes_leave_child_statements_out() -> None:
    loop = next(n for n in walk(sums().body) if isinstance(n, For))
    own = list(own_nodes(loop))
    assert own[0] is loop
    assert not any(n is loop.body for n in own)
    assert any(n is loop.extent for n in own)
