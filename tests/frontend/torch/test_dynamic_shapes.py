"""dynamic_shapes in every form: what torch.export gets, and errors that name the input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.export import Dim

import burnish
from burnish.frontend.torch.dynamic_shapes import ExportPlan, plan_export
from burnish.frontend.torch.known_types import register_types
from burnish.support.errors import FrontendError, ShapeMismatchError

X, Y = torch.rand(1, 4), torch.rand(1, 6)


class Pair(NamedTuple):
    a: torch.Tensor
    b: torch.Tensor


class Model(nn.Module):
    def forward(self, x: Any, y: Any = None, *rest: Any, scale: Any = 1.0, **more: Any) -> Any:
        return x


def plan(shapes: Any, *args: Any, **kwargs: Any) -> ExportPlan:
    return plan_export(Model(), args, kwargs, shapes)


def extents(made: ExportPlan, least: int) -> list[tuple[int, int, int]]:
    return [(leaf, axis, extent(least)) for leaf, axis, extent in made.extents]


def test_without_dims_nothing_changes() -> None:
    made = plan(None, X, Y, scale=2.0)
    assert made.args[0] is X
    assert made.kwargs == {"scale": 2.0}
    assert made.specification is None
    assert made.parameters == ("x", "y")


def test_a_name_in_a_tuple_or_a_dict() -> None:
    for shapes in (({0: "batch"}, None), {"x": {0: "batch"}}, ({-2: "batch"}, None)):
        made = plan(shapes, X, Y)
        assert made.places == [(0, 0, "batch")]
        assert made.args[0].shape == (5, 4)
        assert made.args[1] is Y
        assert made.specification is not None
        assert made.specification["x"][0].__name__ == "batch"
        assert made.specification["y"] is None


def test_one_name_is_one_dim_and_each_has_its_own_size() -> None:
    made = plan(({0: "batch"}, {0: "batch", 1: "width"}), X, Y)
    assert made.args[0].shape == (5, 4)
    assert made.args[1].shape == (5, 7)
    assert made.specification is not None
    assert made.specification["x"][0] is made.specification["y"][0]
    assert made.names == ("batch", "width")
    assert made.places == [(0, 0, "batch"), (1, 0, "batch"), (1, 1, "width")]
    assert extents(made, 1) == [(0, 0, 1), (1, 0, 1), (1, 1, 1)]
    assert extents(made, 0)[0] == (0, 0, 0)


def test_sizes_of_inputs_and_weights_are_avoided() -> None:
    model = Model()
    model.weight = nn.Parameter(torch.zeros(7, 11))
    made = plan_export(model, (X, torch.rand(5, 13)), {}, ({0: "batch"}, None))
    assert made.args[0].shape == (17, 4)


def test_an_example_of_size_0_is_fine() -> None:
    assert plan(({0: "batch"},), torch.rand(0, 4)).args[0].shape == (5, 4)


def test_dims_of_torch_and_their_bounds() -> None:
    dim = Dim("n", min=3, max=4)
    made = plan(({0: dim}, {0: "n", 1: Dim.AUTO}), X, Y)
    assert made.args[0].shape == (3, 4)
    assert made.specification is not None
    assert made.specification["y"] == {0: dim, 1: Dim.AUTO}
    assert made.args[1].shape == (3, 6)
    assert extents(made, 0)[0] == extents(made, 1)[0] == (0, 0, 3)


def test_arithmetic_on_dims() -> None:
    n = Dim("n")
    made = plan(({0: n}, {0: 2 * n + 1}), X, torch.rand(3, 6))
    assert (made.args[0].shape[0], made.args[1].shape[0]) == (5, 11)
    assert made.places == [(0, 0, "n"), (1, 0, "n")]
    assert extents(made, 1) == [(0, 0, 1), (1, 0, 3)]


def test_ints_and_none_are_static() -> None:
    made = plan(({0: 1, 1: None}, ["m", None]), X, Y)
    assert made.args[0] is X
    assert made.places == [(1, 0, "m")]


def test_nested_inputs() -> None:
    pair = Pair(X, Y)
    nested = {"a": [X, 3], "b": pair}
    made = plan(({"a": [{0: "n"}, None], "b": ({0: "n"}, None)}, None), nested, Y)
    assert made.args[0]["a"][0].shape == (5, 4)
    assert isinstance(made.args[0]["b"], Pair)
    assert made.args[0]["b"].b is Y
    assert made.places == [(0, 0, "n"), (2, 0, "n")]
    assert made.specification is not None
    assert isinstance(made.specification["x"]["a"], list)


@dataclass
class Held:
    keys: Any
    values: Any


def test_dims_of_what_holds_tensors_are_those_of_each() -> None:
    for value in ((X, (X, 3)), [X, [X, None]], {"a": X, "b": [X]}, {0: X, 1: [X]}):
        entry = {0: "n"} if not isinstance(value, dict) or 0 not in value else {0: {0: "n"}}
        made = plan((entry, None), value, Y)
        named = 1 if isinstance(value, dict) and 0 in value else 2
        assert [(axis, name) for _, axis, name in made.places] == [(0, "n")] * named


def test_objects_by_their_parts_or_as_one() -> None:
    held = Held([X, X], X)
    register_types(held)
    forms: list[Any] = [
        {0: "n"},
        {"keys": {0: "n"}, "values": {0: "n"}},
        {"keys": [{0: "n"}, {-2: "n"}], "values": {0: "n"}},
        [{0: "n"}, {0: "n"}],
    ]
    for entry in forms:
        made = plan((entry, None), held, Y)
        assert [name for _, _, name in made.places] == ["n"] * 3
        assert made.specification is not None
        assert isinstance(made.specification["x"], list)
        assert made.args[0].keys[1].shape == (5, 4)
    (place,) = plan(({"values": {0: "n"}}, None), held, Y).places
    assert place == (2, 0, "n")
    with pytest.raises(FrontendError) as caught:
        plan(({"key": {0: "n"}}, None), held, Y)
    assert "expected entries for ['keys', 'values'] of a Held, or one of dims" in str(caught.value)
    assert "found 'key'" in str(caught.value)


def test_variadic_inputs_and_keywords() -> None:
    shapes = (None, None, {0: "n"}, {1: "w"})
    for form in (shapes, {"rest": ({0: "n"}, {1: "w"})}, (None, None, ({0: "n"}, {1: "w"}))):
        made = plan(form, X, Y, X, Y)
        assert made.places == [(2, 0, "n"), (3, 1, "w")]
        assert made.parameters == ("x", "y", "rest[0]", "rest[1]")
    made = plan({"x": {0: "n"}, "extra": {0: "n"}}, X, extra=Y, scale=2.0)
    assert made.places == [(0, 0, "n"), (2, 0, "n")]
    assert list(made.kwargs) == ["scale", "extra"]


def test_entries_of_inputs_that_are_left_out_stay_aside() -> None:
    made = plan({"x": {0: "n"}, "y": {0: "m"}}, X)
    assert made.names == ("n",)
    assert plan({"y": {0: "m"}}, X).names == ()


def test_a_tensor_given_twice_is_two_inputs() -> None:
    made = plan(None, X, X)
    assert made.args[0] is not made.args[1]


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"z": {0: "n"}}, "dynamic_shapes names 'z', but the inputs of forward() are x, y."),
        (
            ({0: "n"},),
            "dynamic_shapes has 1 entries for 2 inputs; give one an input (None: static).",
        ),
        (
            ({2: "n"}, None),
            "dynamic_shapes for input 'x': there is no dim 2 in a tensor of 2 dims.",
        ),
        (("batch", None), "dynamic_shapes for input 'x': expected a dict from dims to names"),
        (({0: 1.5}, None), "dynamic_shapes for input 'x', dim 0: expected a name"),
        (({0: "a b"}, None), "'a b' is no name; use letters, digits and _, or whole multiples of"),
        (({0: "h/2"}, None), "'h/2' is no name"),
        (({0: "h*w"}, None), "'h*w' is no name"),
        (({0: "h+w"}, None), "'h+w' is no name"),
        (({0: "-h"}, None), "'-h' is no name"),
        (({0: "h-h"}, None), "'h-h' is no name"),
        (({0: "2*class"}, None), "'2*class' is no name"),
        (({0: "2"}, None), "'2' is no name"),
        (({0: "f(h)"}, None), "'f(h)' is no name"),
        (({0: "class"}, None), "'class' is no name"),
        ("batch", "dynamic_shapes takes a tuple with an entry for each input"),
        (
            {0: "n"},
            'are x, y. Write a dict by these, as in {"x": {0: "batch"}}',
        ),
        (({"n": 0}, None), "no dim 'n' in a tensor of 2 dims. Keys are the numbers of dims"),
    ],
)
def test_errors_name_the_input(shapes: Any, message: str) -> None:
    with pytest.raises(FrontendError) as caught:
        plan(shapes, X, Y)
    assert message in str(caught.value)


def test_the_entry_of_a_single_input_shows_the_form_around_it() -> None:
    with pytest.raises(FrontendError) as caught:
        plan_export(torch.nn.ReLU(), (X,), {}, {0: "k"})
    assert str(caught.value).endswith('write ({0: "k"},), or {"input": {0: "k"}}.')


def test_errors_of_nested_inputs() -> None:
    for entry, message in (
        ({"b": {0: "n"}}, "input 'x': expected entries for ['a'], found 'b'"),
        ({"a": [{0: "n"}]}, "input 'x'['a']: expected a list of 2 entries"),
        ({"a": [None, {0: "n"}]}, "input 'x'['a'][1]: a int has no dims."),
    ):
        with pytest.raises(FrontendError) as caught:
            plan((entry,), {"a": [X, 3]})
        assert message in str(caught.value)


def test_inputs_that_do_not_fit_forward() -> None:
    with pytest.raises(FrontendError, match=r"do not fit Model\.forward\(.*missing a required"):
        plan_export(Model(), (), {}, None)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_layers_in_half_precision_of_a_named_batch(dtype: torch.dtype) -> None:
    """Eager takes a fused layer for it, which rounds elsewhere: that is no branch. A row of a norm
    is stored in halves of vectors, side by side."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval().to(dtype)
    for module, x in (
        (layer, torch.randn(2, 6, 32)),
        (nn.LayerNorm(64).to(dtype), torch.randn(6, 64)),
    ):
        compiled = burnish.compile(module, (x.to(dtype),), dynamic_shapes=({0: "batch"},))
        for rows in (1, 2, 5):
            given = torch.randn(rows, *x.shape[1:]).to(dtype)
            with torch.no_grad():
                torch.testing.assert_close(compiled(given), module(given), rtol=0.02, atol=0.03)


class Repeated(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, x]) + y


@pytest.mark.parametrize("text", ["2*h", "h * 2", "h + h", "3*h - h"])
def test_a_dim_that_is_twice_another(text: str) -> None:
    x, y = torch.ones(3, 2), torch.ones(6, 2)
    model = burnish.compile(Repeated(), (x, y), dynamic_shapes=({0: "h"}, {0: text}))
    for size in (0, 1, 5):
        a, b = torch.rand(size, 2), torch.rand(2 * size, 2)
        assert torch.equal(model(a, b), Repeated()(a, b))
    with pytest.raises(ShapeMismatchError, match=r"expected shape \(h \* 2, 2\) with h = 5"):
        model(torch.ones(5, 2), torch.ones(9, 2))


def test_dims_that_differ_by_a_number() -> None:
    """The shorter one may be said first, and a name is at least what leaves no dim negative."""

    class Steps(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x[1:] * y

    x, y = torch.ones(6, 2), torch.ones(5, 2)
    for shapes in (({0: "n"}, {0: "n - 1"}), ({0: "m + 1"}, {0: "m"})):
        model = burnish.compile(Steps(), (x, y), dynamic_shapes=shapes)
        for size in (1, 2, 9):
            a, b = torch.rand(size, 2), torch.rand(size - 1, 2)
            assert torch.equal(model(a, b), Steps()(a, b))
        with pytest.raises(ShapeMismatchError):
            model(torch.ones(4, 2), torch.ones(4, 2))


@pytest.mark.parametrize(
    ("shapes", "sizes", "message"),
    [
        (({0: "2*n"}, None), (3, 1), "input 'x', dim 0: the example's 3 is 2*n for no n from 0 up"),
        (({0: "n + 5"}, None), (4, 1), "the example's 4 is n + 5 for no n"),
        (({0: "n"}, {0: "n"}), (4, 5), "the example's 5 is no n, as n is 4 in input 'x', dim 0"),
        (({0: "n"}, {0: 2 * Dim("n") + 1}), (4, 8), "the example's 8 is 2*n + 1 for no n"),
        (({0: "n - 1"}, {0: "n"}), (4, 4), "the example's 4 is no n, as n is 5 in input 'x'"),
    ],
)
def test_the_example_has_to_fit(shapes: Any, sizes: tuple[int, int], message: str) -> None:
    with pytest.raises(FrontendError) as caught:
        plan(shapes, *[torch.rand(size, 2) for size in sizes])
    assert message in str(caught.value)
