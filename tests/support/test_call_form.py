"""CallForm: calls as data."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from burnish.support.call_form import TENSOR, CallForm, SizeRange, named_leaves, tree_of, value_tree
from burnish.support.errors import (
    ArgumentError,
    ArityError,
    ArtifactError,
    BurnishError,
    ShapeMismatchError,
)

NESTED = CallForm(
    ("x", "scale", "more"),
    (
        TENSOR,
        {"value": 2.0},
        {"dict": [["a", {"list": [TENSOR, TENSOR]}], ["b", {"tuple": [{"value": None}]}]]},
    ),
    {"dict": [["y", TENSOR], ["rest", {"tuple": [{"list": [TENSOR]}, {"value": "done"}]}]]},
)


def test_calls_come_apart_and_results_together() -> None:
    form = CallForm.from_json(json.loads(json.dumps(NESTED.to_json())))
    assert form == NESTED
    assert form.flatten(("X", 2.0), {"more": {"a": ["P", "Q"], "b": (None,)}}) == ["X", "P", "Q"]
    args = ["X", 2.0, {"a": ["P", "Q"], "b": (None,)}]
    assert form.arguments(["X", "P", "Q"]) == args
    with pytest.raises(ArityError, match=r"takes 3 input tensors \(x, scale, more\); got 2"):
        form.arguments(["X", "P"])
    assert form.unflatten(["Y", "R"]) == {"y": "Y", "rest": (["R"], "done")}
    assert form.output_names == ["output_0.y", "output_0.rest.0.0"]
    assert CallForm.plain(["x"], 2).output_names == ["output_0", "output_1"]
    assert not form.is_flat
    assert not form.is_single
    assert not form.is_tuple


def test_leaves_are_named_by_the_way_to_them() -> None:
    nest = {"y": 1, "rest": ([2], {"z": None}), "none": []}
    found = [("o.y", 1), ("o.rest.0.0", 2), ("o.rest.1.z", None)]
    assert list(named_leaves(nest, "o")) == found
    assert list(named_leaves("text", "o")) == [("o", "text")]


@pytest.mark.parametrize(
    ("args", "kwargs", "error", "message"),
    [
        (
            ("X",),
            {},
            ArityError,
            r"takes 3 inputs \(x, scale, more\); got 1: 'scale', 'more' missing",
        ),
        (("X", 2.0, {}, 1), {}, ArityError, r"got 4\.$"),
        (("X", 2.0), {"moer": {}}, ArityError, "'moer' is no input of this model.*'more'"),
        (("X", 2.0), {"x": 1}, ArityError, "'x' was given twice"),
        (("X", 3.0, {"a": [1, 2], "b": (None,)}), {}, ArgumentError, r"2\.0 at compilation"),
        (("X", 2, {"a": [1, 2], "b": (None,)}), {}, ArgumentError, "got 2"),
        (("X", 2.0, {"a": [1], "b": (None,)}), {}, ArityError, r"\['a'\]: expected a list of 2"),
        (("X", 2.0, {"a": [1, 2]}), {}, ArityError, "keys 'a', 'b'; found one without 'b'"),
        (
            ("X", 2.0, {"a": [1, 2], "c": (None,)}),
            {},
            ArityError,
            "'more': .* keys 'a', 'b'; found one without 'b', with 'c' too",
        ),
        (("X", 2.0, 7), {}, ArityError, "found 7"),
        (("X", 2.0, [1]), {}, ArityError, "found a list of 1"),
    ],
)
def test_calls_that_do_not_fit(
    args: tuple[Any, ...], kwargs: dict[str, Any], error: type[BurnishError], message: str
) -> None:
    with pytest.raises(error, match=message):
        NESTED.flatten(args, kwargs)


def test_plain_forms() -> None:
    one, two = CallForm.plain(["x"], 1), CallForm.plain(["x", "y"], 2, takes_dict=True)
    assert one.is_flat
    assert one.is_single
    assert two.is_tuple
    assert two.flatten(({"y": 1, "x": 2},), {}) == [2, 1]
    assert two.unflatten([1, 2]) == (1, 2)
    assert one.unflatten([1]) == 1


@pytest.mark.parametrize("other", [{"value": None}, {"list": [TENSOR]}, {"tuple": []}])
def test_a_tuple_of_a_tensor_and_of_something_else(other: Any) -> None:
    form = CallForm(("x",), (TENSOR,), {"tuple": [TENSOR, other]})
    assert not form.is_tuple
    assert form.unflatten([7, 8])[0] == 7


def test_sizes_outside_of_a_range() -> None:
    form = CallForm(("x",), (TENSOR,), TENSOR, (SizeRange("n", 0, 1, 2, 8),))
    x = SimpleNamespace(shape=(4, 9))
    with pytest.raises(
        ShapeMismatchError, match=r"input 'x', dim 1: expected shape of n from 2 to 8, got 9"
    ):
        form.flatten((x,), {})
    assert not form.is_flat


def test_ranges_of_what_has_no_such_axis() -> None:
    form = CallForm(("x",), (TENSOR,), TENSOR, (SizeRange("n", 0, 1, 2, 8),))
    with pytest.raises(ShapeMismatchError, match="of n from 2 to 8, got 1 dims"):
        form.flatten((SimpleNamespace(shape=(4,)),), {})
    with pytest.raises(ArgumentError, match="expected a tensor or an array; found list"):
        form.flatten(([1],), {})
    with pytest.raises(ValueError, match="does not fit itself"):
        CallForm.from_json(form.to_json() | {"trees": [{"value": 1}]})


def test_what_cannot_be_said() -> None:
    with pytest.raises(ArtifactError, match=r"the result is a SimpleNamespace.*Wrap the module"):
        tree_of(SimpleNamespace(), {}, "the result")
    with pytest.raises(ArtifactError, match="input 1 is a object, which cannot be saved"):
        value_tree(object(), "input 1")
