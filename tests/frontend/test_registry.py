"""The converter registry: lookups, and the one report of everything that is missing."""

from __future__ import annotations

import pytest

from burnish.frontend.registry import ConverterRegistry
from burnish.support.errors import InternalError, UnsupportedOpError


def make_registry() -> ConverterRegistry:
    registry = ConverterRegistry("torch")

    @registry.converts("b", "a")
    def convert(context: object, node: object) -> str:
        return f"{context} {node}"

    return registry


def test_a_converter_is_found_under_each_of_its_names() -> None:
    registry = make_registry()
    assert registry.names == ("a", "b")
    assert "a" in registry
    assert "c" not in registry
    assert registry["a"]("x", "y") == "x y"


def test_a_name_is_registered_once() -> None:
    with pytest.raises(InternalError, match="torch operator 'a' has two converters"):
        make_registry().converts("a")(lambda context, node: None)


def test_nothing_is_raised_where_nothing_is_missing() -> None:
    make_registry().check([("a", "here"), ("b", "there")])


def test_all_that_is_missing_is_reported_at_once() -> None:
    seen = [("c", "m.py:3"), ("a", "m.py:4"), ("d", "m.py:5"), ("c", "m.py:6")]
    with pytest.raises(UnsupportedOpError) as caught:
        make_registry().check(seen, may_fall_back=True)
    assert str(caught.value) == (
        "2 operators of this torch model cannot be imported:\n"
        "  c (x2), first at m.py:3\n"
        "  d (x1), first at m.py:5\n"
        "Rewrite the model without them, or register a converter "
        "(burnish.register_torch_op, docs/patterns.md).\n"
        'burnish.compile(..., fallback="torch") lets torch run what it can of them.'
    )
    assert [(o.name, o.count) for o in caught.value.ops] == [("c", 2), ("d", 1)]
