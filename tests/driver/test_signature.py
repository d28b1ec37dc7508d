"""Signatures: their keys, machines and entries."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from onnx import parser

import burnish
from burnish import errors
from burnish.driver.compiled_model import CompiledModel
from burnish.driver.signature import CompiledSignature, signature_key

ONE = np.zeros((2, 3), np.float32)


@dataclass
class Pair:
    x: torch.Tensor
    n: float


def key(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    return signature_key(args, kwargs)


def test_equal_calls_have_equal_keys_in_every_library() -> None:
    wanted = key(ONE)
    assert key(torch.zeros(2, 3)) == wanted
    assert key(burnish.array(ONE)) == wanted
    assert key([ONE], {"a": ONE}) == key([torch.ones(2, 3)], {"a": ONE})
    assert key(a=ONE, b=1) == key(b=1, a=ONE)
    assert hash(key([ONE], {"a": ONE}, 1.0, None, k="x"))


@pytest.mark.parametrize(
    "other",
    [
        key(ONE.T),
        key(ONE.astype(np.float64)),
        key(ONE, ONE),
        key([ONE]),
        key((ONE,)),
        key({"a": ONE}),
        key(ONE, 1),
        key(x=ONE),
    ],
)
def test_other_calls_have_other_keys(other: tuple[Any, ...]) -> None:
    assert other != key(ONE)


def test_names_of_positions_make_keys_equal() -> None:
    names = ("x", "y")
    wanted = signature_key((ONE, 2), {}, names)
    assert signature_key((ONE,), {"y": 2}, names) == signature_key((), {"y": 2, "x": ONE}, names)
    assert signature_key((), {"y": 2, "x": ONE}, names) == wanted
    assert signature_key((ONE, 2, ONE), {}, names) != wanted
    assert signature_key((ONE, 2), {"y": 2}, names) != wanted


def test_sizes_do_not_count_where_they_have_names() -> None:
    def named(*args: Any) -> tuple[Any, ...]:
        return signature_key(args, {}, has_sizes=False)

    assert named(ONE, [ONE]) == named(ONE[:1], [ONE[:, :1]])
    assert named(ONE) != named([ONE])
    assert named(ONE) != named(ONE.astype(np.float64))
    assert named(ONE, 1) != named(ONE, 2)
    assert named(Pair(torch.zeros(2), 1.0)) == named(Pair(torch.zeros(3), 1.0))
    assert named(Pair(torch.zeros(2), 1.0)) != named(Pair(torch.zeros(2), 2.0))


def test_plain_values_count_with_their_type() -> None:
    assert len({key(v) for v in (1, 1.0, True, "1", None, -0.0, 0.0)}) == 7


def test_an_object_that_holds_tensors_counts_with_all_that_it_is() -> None:
    one = key(Pair(torch.zeros(2), 1))
    assert key(Pair(torch.ones(2), 1)) == one
    assert hash(key(Pair(torch.ones(2), 1))) == hash(one)
    others = [Pair(torch.zeros(3), 1), Pair(torch.zeros(2), 2), Pair(torch.zeros(2), 1.0)]
    assert len({one, *[key(other) for other in others]}) == 4


def test_what_is_no_input_is_refused() -> None:
    with pytest.raises(errors.ArgumentError, match=r"input 0\['a'\]\[1\]: .* found object"):
        key({"a": [1, object()]})


@pytest.fixture
def signature(static: CompiledModel) -> CompiledSignature:
    return CompiledSignature(static._require("test").imported, static.executable, 1)


def test_a_machine_is_made_once_a_number_of_threads(signature: CompiledSignature) -> None:
    assert signature.machine() is signature.machine(1)
    assert signature.machine(5) is signature.machine()  # no more than it was compiled for
    with pytest.raises(errors.ArgumentError):
        signature.machine(0)


def test_an_entry_is_made_once_a_library(signature: CompiledSignature) -> None:
    def slow(*args: Any) -> Any:
        raise AssertionError("the fast entry takes this")

    entry = signature.entry("numpy", slow)
    assert entry is signature.entry("numpy", slow)
    assert entry is not signature.entry("torch", slow)
    x = np.zeros((1, 1, 28, 28), np.float32)
    np.testing.assert_array_equal(entry(x), signature.run([x])[0].numpy())


def test_a_model_of_nested_inputs_has_no_fast_entry(static: CompiledModel) -> None:
    from dataclasses import replace

    held = replace(static._require("test").imported, positional_only=False)
    changed = CompiledSignature(held, static.executable, 1)
    assert changed.entry("numpy", print) is print


def test_a_tuple_of_tensors_has_a_fast_entry() -> None:
    class Parts(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return torch.split(x, 3, 1)

    x = torch.arange(14.0).reshape(2, 7)
    model = burnish.compile(Parts(), (x,))
    held = CompiledSignature(model._require("test").imported, model.executable, 1)
    assert held.entry("torch", print) is not print
    for _ in range(2):  # the first call takes the complete way
        found = model(x)
        assert isinstance(found, tuple)
        assert all(map(torch.equal, found, torch.split(x, 3, 1)))


def test_the_number_of_inputs_is_checked(signature: CompiledSignature) -> None:
    with pytest.raises(errors.ArityError, match=r"takes 1 input \(input\); got 0"):
        signature.run([])


class Adds(torch.nn.Module):
    """Writes its first input."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x + y


def test_a_written_input_shares_memory_with_no_other() -> None:
    model = burnish.compile(Adds(), (torch.rand(3), torch.rand(3)))
    z = torch.ones(6)
    for x, y in ((z[:3], z[:3]), (z[:3], z[2:5]), (z[::2], z[2:5])):
        with pytest.raises(
            errors.ArgumentError, match=r"input 'x': .* shares memory with input 'y'"
        ):
            model(x, y)
    assert z.tolist() == [1.0] * 6
    assert model(z[::2], z[1::2]).tolist() == [3.0] * 3
    assert z.tolist() == [2.0, 1.0] * 3


def test_a_written_input_that_is_read_only_is_refused_by_its_name() -> None:
    model = burnish.compile(Adds(), (torch.rand(3), torch.rand(3)))
    x = np.ones(3, np.float32)
    x.flags.writeable = False
    with pytest.raises(errors.ArgumentError, match="input 'x': the array is read-only"):
        model(x, np.ones(3, np.float32))
    assert model(np.ones(3, np.float32), x).tolist() == [3.0] * 3


class Nested(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return {"more": [x + 1, (x * 2, None)], "note": 3}


def test_nested_results_come_from_the_fast_entry_too() -> None:
    model = burnish.compile(Nested(), (torch.ones(2, 3),))
    for x in (torch.rand(2, 3), torch.rand(3, 2).T, torch.rand(2, 3)):
        found = model(x)
        assert list(found) == ["more", "note"]
        assert found["note"] == 3
        assert found["more"][1][1] is None
        torch.testing.assert_close(found["more"][0], x + 1)
        torch.testing.assert_close(found["more"][1][0], x * 2)
    assert "_structured" in model._entry.__qualname__
    given = model(ONE)["more"][0]
    np.testing.assert_array_equal(given, ONE + 1)
    with pytest.raises(errors.ShapeMismatchError):
        model(torch.rand(3, 3))


class _Product(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x @ y


class _Listed(torch.nn.Module):
    def forward(self, xs: list[torch.Tensor]) -> torch.Tensor:
        return xs[0] + xs[1]


@pytest.mark.parametrize(
    ("module", "fixed", "given", "form"),
    [
        (torch.nn.ReLU(), [(2, 3)], [(5, 3)], '({0: "batch"},)'),
        (torch.nn.ReLU(), [(2, 3)], [(5, 4)], '({0: "batch", 1: "size1"},)'),
        (_Product(), [(2, 3), (3, 4)], [(5, 3), (3, 4)], '{"x": {0: "batch"}}'),
        (_Product(), [(2, 3), (3, 4)], [(2, 5), (5, 4)], '{"x": {1: "size1"}, "y": {0: "size1"}}'),
    ],
)
def test_a_size_that_is_fixed_says_how_it_would_vary(
    module: torch.nn.Module,
    fixed: list[tuple[int, ...]],
    given: list[tuple[int, ...]],
    form: str,
) -> None:
    example = tuple([torch.rand(s) for s in fixed])
    inputs = tuple([torch.rand(s) for s in given])
    model = burnish.compile(module.eval(), example)
    with pytest.raises(errors.ShapeMismatchError, match="expected shape") as caught:
        model(*inputs)
    assert f"burnish.compile(module, args, dynamic_shapes={form})." in str(caught.value)
    varying = burnish.compile(module, example, dynamic_shapes=ast.literal_eval(form))
    torch.testing.assert_close(varying(*inputs), module(*inputs))


def test_other_kinds_of_models_say_where_their_sizes_are_fixed() -> None:
    x, other = torch.rand(2, 3), torch.rand(5, 3)

    def refusal(model: Any, *inputs: Any) -> str:
        with pytest.raises(errors.ShapeMismatchError, match="expected shape") as caught:
            model(*inputs)
        return str(caught.value)

    module = torch.nn.ReLU()
    named = burnish.compile(module, (x,), dynamic_shapes=({0: "rows"},))
    assert 'dynamic_shapes=({0: "rows", 1: "size1"},)' in refusal(named, torch.rand(2, 4))
    assert "one number of dims for each input" in refusal(named, torch.rand(3))
    listed = burnish.compile(_Listed(), ([x, x],))
    assert 'dynamic_shapes=({0: "batch"}, ...)' in refusal(listed, [other, other])
    exported = burnish.compile(torch.export.export(module, (x,)))
    assert "torch.export.export(..., dynamic_shapes=...)" in refusal(exported, other)
    text = (
        '<ir_version: 8, opset_import: ["": 17]> g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }'
    )
    assert "fixed in the ONNX file" in refusal(burnish.compile(parser.parse_model(text)), other)
    graph = burnish.compile(burnish.compile(module, (x,)).executable.stages["00-import"])
    assert "sizes of an IRModule vary where" in refusal(graph, other)
