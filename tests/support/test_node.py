"""The node kit: children, rewriting that keeps what did not change, and frozen nodes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from burnish.support.errors import InternalError
from burnish.support.node import Node, children, freeze, map_children, node, replace, walk
from burnish.support.source import Source, Span
from burnish.tensorir.buffer import make_buffer
from burnish.tensorir.expr import Add, Mul, Var


@node
class Leaf(Node):
    value: int = 0


@node
class Branch(Node):
    label: str
    left: Node
    rest: tuple[Node, ...] = ()


SPAN = Span(Source("f.py", "x + y"), 1, 0, 1, 5)


def test_init_fields_are_the_constructor() -> None:
    assert Branch.init_fields == ("label", "left", "rest")
    assert Add.init_fields == ("a", "b")


def test_nodes_compare_by_identity_and_hash() -> None:
    a, b = Leaf(1), Leaf(1)
    assert a != b
    assert len({a, b, a}) == 2


def test_nodes_are_slotted() -> None:
    with pytest.raises(AttributeError):
        Leaf(1).unknown = 2  # type: ignore[attr-defined]


def test_children_look_into_tuples_in_field_order() -> None:
    one, two, three = Leaf(1), Leaf(2), Leaf(3)
    assert list(children(Branch("b", one, (two, three)))) == [one, two, three]


def test_walk_is_parents_first_left_to_right() -> None:
    one, two, three = Leaf(1), Leaf(2), Leaf(3)
    inner = Branch("inner", one, (two,))
    outer = Branch("outer", inner, (three,))
    assert list(walk(outer)) == [outer, inner, one, two, three]


def test_walk_stays_above_some_classes() -> None:
    one, two = Leaf(1), Leaf(2)
    outer = Branch("outer", one, (two,))
    assert list(walk(outer, (Leaf,))) == [outer, one, two]
    assert list(walk(outer, (Branch,))) == [outer]


def test_map_children_keeps_the_object_where_nothing_changed() -> None:
    tree = Branch("b", Leaf(1), (Leaf(2),))
    assert map_children(tree, lambda n: n) is tree


def test_map_children_rebuilds_and_keeps_the_span() -> None:
    one, two = Leaf(1), Leaf(2)
    tree = Branch("b", one, (two,)).with_span(SPAN)
    new = map_children(tree, lambda n: Leaf(7) if n is two else n)
    assert new is not tree
    assert new.left is one
    assert [n.value for n in new.rest if isinstance(n, Leaf)] == [7]
    assert new.span is SPAN
    assert tree.rest == (two,)


def test_replace_changes_fields_and_keeps_the_object_where_nothing_changed() -> None:
    tree = Branch("b", Leaf(1)).with_span(SPAN)
    assert replace(tree, label="b", left=tree.left) is tree
    other = replace(tree, label="c")
    assert (other.label, other.left, other.span) == ("c", tree.left, SPAN)


def test_replace_of_a_field_that_is_not_constructed_is_a_defect() -> None:
    x = Var("x")
    with pytest.raises(InternalError, match="Add is not constructed from dtype"):
        replace(Add(x, x), dtype="float32")


def test_recomputed_fields_follow_a_rewrite() -> None:
    x = Var("x")
    y = replace(x, dtype=make_buffer("A", (1,)).dtype)
    assert map_children(Mul(x, x), lambda _: y).dtype == "float32"


def test_a_frozen_class_refuses_assignment_after_construction() -> None:
    @node
    class Frozen(Node):
        value: int

        def __post_init__(self) -> None:
            self.value += 1

    freeze(Frozen)
    n = Frozen(1)
    assert n.value == 2
    assert n.with_span(SPAN).span is SPAN
    with pytest.raises(InternalError, match=r"Frozen\.value was assigned after construction"):
        n.value = 3
    assert n.value == 2


def test_the_debug_flag_freezes_every_node() -> None:
    program = (
        "from burnish.tensorir.expr import IntImm, Var\n"
        "x = (Var('x') + 1).with_span(None)\n"
        "try:\n    x.a = IntImm(2)\nexcept Exception as e:\n    print(type(e).__name__)\n"
        "else:\n    print('assigned')"
    )
    for value, expected in (("1", "InternalError"), ("0", "assigned")):
        result = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={"BURNISH_DEBUG_NODES": value},
        )
        assert result.stdout.strip() == expected
