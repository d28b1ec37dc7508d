"""Graphs of patterns: several results, and who reads what."""

from __future__ import annotations

import pytest

from burnish.graphir.expr import Function
from burnish.graphir.module import IRModule
from burnish.graphir.patterns.context import PatternContext
from burnish.graphir.patterns.pattern import PatternError, is_const, is_op, wildcard
from burnish.graphir.text.parser import parse_module


def module_of(body: str) -> IRModule:
    lines = "".join(f"            {line}\n" for line in body.splitlines())
    return parse_module(
        "@I.ir_module\nclass Module:\n    @R.function\n"
        "    def main(x: R.Tensor((4, 8)), w: R.Tensor((8, 8)), u: R.Tensor((8, 8))):\n"
        f"        with R.dataflow():\n{lines}            R.output(out)\n        return out\n"
    )


BRANCHES = module_of(
    "z = R.relu(x)\n"
    "a = R.linear(x, w)\n"
    "b = R.linear(z, w)\n"
    "c = R.linear(z, u)\n"
    "d = R.sigmoid(b)\n"
    "e = R.add(a, c)\n"
    "out = R.add(d, e)"
)


def test_roots_that_share_an_operand() -> None:
    with PatternContext() as ctx:
        x = wildcard()
        p, q = is_op("linear")(x, wildcard()), is_op("linear")(x, wildcard())
    assert ctx.roots == [p, q]
    found = ctx.match(BRANCHES)
    assert found is not None
    assert (repr(found[x]), repr(found[p]), repr(found[q])) == ("z", "b", "c")
    func = BRANCHES["main"]
    assert isinstance(func, Function)
    assert [(repr(m[p]), repr(m[q])) for m in ctx.matches(func)] == [("b", "c"), ("c", "b")]


def test_readers() -> None:
    with PatternContext() as ctx:
        p, s = is_op("linear"), is_op("sigmoid")
        p >> s
    found = ctx.match(BRANCHES)
    assert found is not None
    assert (repr(found[p]), repr(found[s])) == ("b", "d")
    with PatternContext() as ctx:
        p = wildcard()
        p.fork_to(is_op("linear"), is_op("relu"))
    found = ctx.match(BRANCHES)
    assert found is not None
    assert repr(found[p]) == "x"
    with PatternContext() as ctx:
        is_op("relu").only_used_by(is_op("linear"))
    assert ctx.match(BRANCHES) is None
    with PatternContext() as ctx:
        is_op("relu") ^ is_op("linear") ^ is_op("sigmoid") ^ is_op("add")
    assert ctx.match(BRANCHES) is not None


def test_the_place_among_operands() -> None:
    for index, expected in ((0, True), (1, False)):
        with PatternContext() as ctx:
            is_op("sigmoid").used_by(is_op("add"), index)
        assert (ctx.match(BRANCHES) is not None) is expected


def test_a_part_may_be_the_end_of_an_edge() -> None:
    with PatternContext() as ctx:
        x = is_op("relu")
        root = is_op("linear")(x, wildcard())
        x.used_by(is_op("linear"))
    found = ctx.match(BRANCHES)
    assert found is not None
    assert repr(found[root]) == "b"


def test_match_dfb() -> None:
    func = BRANCHES["main"]
    assert isinstance(func, Function)
    with PatternContext() as ctx:
        s = is_op("sigmoid")
    found = ctx.match_dfb(func.body.blocks[0], func)
    assert found is not None
    assert found[s].name == "d"
    with PatternContext() as ctx:
        is_op("sigmoid")(is_const())
    assert ctx.match_dfb(func.body.blocks[0], func) is None


def test_a_context_without_patterns() -> None:
    with pytest.raises(PatternError, match="has no patterns"):
        PatternContext().match(BRANCHES)
