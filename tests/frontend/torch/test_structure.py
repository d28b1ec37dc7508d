"""Calls as forward() takes them: binding, structure, plain values, ranges, outputs."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

from burnish.frontend.torch.export import export_module
from burnish.frontend.torch.structure import _LEFT_OUT, CallStructure, DimRange, _builder
from burnish.support.errors import ArgumentError, ArityError, FrontendError, ShapeMismatchError

X, Y, Z = torch.rand(2), torch.rand(3), torch.rand(4)


class Model(nn.Module):
    def forward(self, x: Any, parts: Any, *, scale: float = 1.0, mask: Any = None) -> Any:
        return {"sum": x + 1, "parts": [parts["b"] * scale, None], "note": "as it was"}


class Plain(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, y])


def structure_of(module: nn.Module, *args: Any, **kwargs: Any) -> CallStructure:
    program, plan = export_module(module.eval(), args, kwargs)
    return CallStructure.of(program, plan.parameters)


@pytest.fixture(scope="module")
def nested() -> CallStructure:
    return structure_of(Model(), X, {"a": [Y], "b": Z}, scale=2.0, mask=None)


@pytest.fixture(scope="module")
def plain() -> CallStructure:
    return structure_of(Plain(), X, Y)


def test_bare_tensors_are_flat(plain: CallStructure, nested: CallStructure) -> None:
    assert plain.is_flat
    assert plain.is_single
    assert not plain.is_tuple
    assert not nested.is_flat
    assert not nested.is_single
    assert plain.positional == ("x", "y")
    assert (nested.positional, nested.keywords) == (("x", "parts"), ("scale", "mask"))


def test_inputs_by_position_and_by_name(plain: CallStructure) -> None:
    for args, kwargs in (((X, Y), {}), ((X,), {"y": Y}), ((), {"y": Y, "x": X})):
        found = plain.flatten(args, kwargs)
        assert [id(f) for f in found] == [id(X), id(Y)]


def test_nested_inputs_in_any_order_of_keys(nested: CallStructure) -> None:
    for parts in ({"a": [Y], "b": Z}, {"b": Z, "a": [Y]}):
        found = nested.flatten((X, parts), {"mask": None, "scale": 2.0})
        assert [id(f) for f in found] == [id(X), id(Y), id(Z)]


def test_fill_puts_plain_values_back(nested: CallStructure) -> None:
    assert nested.fill([1, 2, 3]) == [1, 2, 3, 2.0, None]


def test_outputs_get_their_structure_back(nested: CallStructure, plain: CallStructure) -> None:
    assert nested.unflatten(["s", "p"]) == {"sum": "s", "parts": ["p", None], "note": "as it was"}
    assert plain.unflatten(["y"]) == "y"


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((X,), {}, "the model takes 2 inputs (x, y); got 1: 'y' missing."),
        ((X, Y, Z), {}, f"the model takes 2 inputs (x, y); got 3.{_LEFT_OUT}"),
        ((X, Y), {"zzz": Z}, f"'zzz' is no input of this model; the inputs are x, y.{_LEFT_OUT}"),
        ((X,), {"yy": Y}, "'yy' is no input of this model; the inputs are x, y. Did you mean 'y'?"),
        ((X, Y), {"y": Y}, "'y' was given twice; the inputs are x, y."),
    ],
)
def test_a_wrong_number_of_inputs(
    plain: CallStructure, args: Any, kwargs: Any, message: str
) -> None:
    with pytest.raises(ArityError) as caught:
        plain.flatten(args, kwargs)
    assert str(caught.value) == message


def test_inputs_of_another_structure(nested: CallStructure) -> None:
    rest = {"scale": 2.0, "mask": None}
    keys = "input 'parts': expected a dict with the keys 'a', 'b';"
    first = "input 'parts'['a']: expected a list"
    for parts, said in (
        ({"a": [Y, Y], "b": Z}, f"{first} of 1; found a list of 2."),
        ({"a": Y, "b": Z}, f"{first} of 1; found a Tensor."),
        ({"a": (Y,), "b": Z}, f"{first}, which it was at compilation; found a tuple of 1."),
        ({"a": [Y]}, f"{keys} found one without 'b'."),
        ({"a": [Y], "B": Z, "b": Z}, f"{keys} found one with 'B' too."),
        ([Y, Z], f"{keys} found a list of 2."),
    ):
        with pytest.raises(ArityError) as caught:
            nested.flatten((X, parts), rest)
        assert str(caught.value) == said


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scale": 3.0}, "input 'scale': 2.0 at compilation, which became part of the program;"),
        ({"scale": 2}, "input 'scale': 2.0 at compilation"),
        ({"mask": X}, "input 'mask': None at compilation"),
    ],
)  # fmt: skip
def test_plain_values_are_part_of_the_program(
    nested: CallStructure, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ArgumentError) as caught:
        nested.flatten((X, {"a": [Y], "b": Z}), {"scale": 2.0, "mask": None} | change)
    assert str(caught.value).startswith(message)


def test_ranges_are_enforced(plain: CallStructure) -> None:
    bounded = replace(plain, ranges=[DimRange("n", 1, 0, 3, 4)])
    assert not bounded.is_flat
    assert len(bounded.flatten((X, Y), {})) == 2
    with pytest.raises(ShapeMismatchError) as caught:
        bounded.flatten((X, X), {})
    assert "input 'y', dim 0: expected shape of n from 3 to 4, got 2" in str(caught.value)
    with pytest.raises(ShapeMismatchError, match="expected shape of n from 3 to 4, got 0 dims"):
        bounded.flatten((X, torch.tensor(1.0)), {})
    for given in ([1.0, 2.0, 3.0], None, 3.0):
        with pytest.raises(ArgumentError, match="input 'y': expected a tensor or an array; found"):
            bounded.flatten((X, given), {})


def test_a_model_without_tensor_outputs_is_refused() -> None:
    class Nothing(nn.Module):
        def forward(self, x: torch.Tensor) -> int:
            return 3

    with pytest.raises(FrontendError, match=r"forward\(\) returns no tensor"):
        structure_of(Nothing(), X)


def test_a_size_leaves_the_model_as_a_number() -> None:
    class Size(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return {"y": x * 2, "n": x.shape[0], "k": 3}

    program, _ = export_module(Size().eval(), (X,), None, ({0: "n"},))
    found = CallStructure.of(program)
    assert found.numbers == (1,)
    assert not found.is_single
    result = found.unflatten([X, torch.tensor(7)])
    assert (result["n"], type(result["n"]), result["k"]) == (7, int, 3)
    form = found.form()
    assert form.result == {"dict": [["y", "tensor"], ["n", "number"], ["k", {"value": 3}]]}
    assert form.unflatten([X, np.int64(7)])["n"] == 7
    assert form.output_names == ["output_0.y", "output_0.n"]


class Pair(NamedTuple):
    first: Any
    second: Any


@pytest.mark.parametrize(
    "tree",
    [
        [1], (1,), {"a": 1}, [1, [2, (3, {"b": 4, "a": [5]})], 6], {"x": [], "y": (1, None, 2)},
        Pair([1, 2], {"a": 3}), [Pair(1, 2), OrderedDict(b=3, a=[4])], ((), [1]),
    ],
)  # fmt: skip
def test_a_builder_makes_any_structure(tree: Any) -> None:
    leaves, spec = pytree.tree_flatten(tree)
    made = _builder(spec, 0)(leaves)
    assert made == tree
    assert type(made) is type(tree)
    assert [type(x) for x in made] == [type(x) for x in tree]
