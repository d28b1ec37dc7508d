"""Names of other compilers are attribute errors that say what does it here."""

from __future__ import annotations

import inspect

import pytest

import burnish
from burnish.support.errors import InternalError
from burnish.support.node import Node, node
from burnish.support.other_names import OtherName


@node
class Leaf(Node):
    name: str
    name_hint = OtherName("name")


def test_the_error_says_the_name_here() -> None:
    leaf = Leaf("x")
    assert leaf.name == "x"
    assert Leaf.init_fields == ("name",)
    with pytest.raises(
        AttributeError, match="'Leaf' object has no attribute 'name_hint'; here it is name"
    ):
        _ = leaf.name_hint
    assert not hasattr(leaf, "name_hint")
    assert not hasattr(Leaf, "name_hint")
    assert getattr(leaf, "name_hint", 3) == 3
    assert [name for name, _ in inspect.getmembers(leaf) if name == "name_hint"] == []


def test_a_class_below_may_have_the_name() -> None:
    class Own(Leaf):
        name_hint = "mine"  # type: ignore[assignment]

    assert Own("x").name_hint == "mine"


def test_one_line_is_one_name() -> None:
    with pytest.raises((InternalError, RuntimeError)):

        class Both:
            first = second = OtherName("here")


def test_what_is_imported_from_a_module_keeps_the_words() -> None:
    """``from module import name`` would put its own in place of an AttributeError's."""
    with pytest.raises(ImportError, match=r"'relax' from 'burnish'; here it is burnish\.graph, "):
        from burnish import relax  # noqa: F401
    with pytest.raises(ImportError, match=r"'tir' from 'burnish\.script'; here it is T "):
        from burnish.script import tir  # noqa: F401
    with pytest.raises(ImportError, match="cannot import name 'nonsense' from 'burnish"):
        from burnish import nonsense  # noqa: F401
    assert not hasattr(burnish, "relax")
    with pytest.raises(AttributeError, match=r"'relax'; here it is burnish\.graph"):
        _ = burnish.relax
