"""EliminateCommonSubexpr: what is one and what is two."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.graphir.module import IRModule
from burnish.graphir.passes.eliminate_common_subexpr import EliminateCommonSubexpr, _Eliminator
from burnish.graphir.text.parser import parse_module
from burnish.graphir.verify import verify_module
from burnish.graphir.weights import Weight
from burnish.support.structural import assert_structural_equal

P = "(x,), R.Tensor((2, 3))"


def module_of(*lines: str) -> IRModule:
    body = "".join(f"        {line}\n" for line in lines)
    return parse_module(
        f"@R.function\ndef main(x: R.Tensor((2, 3)), z: R.Tensor((2, 3))):\n"
        f"    with R.dataflow():\n{body}"
        "        R.output(y)\n    return y\n"
    )


SAME = [
    ("R.exp(x)", "R.exp(x)"),
    ("R.softmax(x, axis=-1)", "R.softmax(x, axis=-1)"),
    ("R.add(x, R.const([1.0, 2.0, 3.0]))", "R.add(x, R.const([1.0, 2.0, 3.0]))"),
    ("R.reshape(x, R.shape([3, 2]))", "R.reshape(x, R.shape([3, 2]))"),
    ("R.sum(x, axis=[0, 1], keepdims=True)", "R.sum(x, keepdims=True, axis=(0, 1))"),
]
DIFFERENT = [
    ("R.exp(x)", "R.exp(z)"),
    ("R.exp(x)", "R.tanh(x)"),
    ("R.softmax(x, axis=0)", "R.softmax(x, axis=1)"),
    ("R.add(x, R.const([1.0, 2.0, 3.0]))", "R.add(x, R.const([1.0, 2.0, 4.0]))"),
    ("R.add(x, R.const(0.0))", "R.add(x, R.const(-0.0))"),
    (f'R.call_dps_packed("env.random", {P})', f'R.call_dps_packed("env.random", {P})'),
]


@pytest.mark.parametrize(("a", "b"), SAME)
def test_equal_operations_are_one(a: str, b: str) -> None:
    module = module_of(f"a = {a}", f"b = {b}", "y = (a, b)")
    once = verify_module(EliminateCommonSubexpr()(module))
    assert_structural_equal(once, module_of(f"a = {a}", "y = (a, a)"))
    assert EliminateCommonSubexpr()(once)["main"] is once["main"]


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_different_operations_are_two(a: str, b: str) -> None:
    module = module_of(f"a = {a}", f"b = {b}", "y = (a, b)")
    assert EliminateCommonSubexpr()(module)["main"] is module["main"]


def test_chains_collapse() -> None:
    module = module_of(
        "a = R.exp(x)", "b = R.relu(a)", "c = R.exp(x)", "d = R.relu(c)", "y = R.add(b, d)"
    )
    expected = module_of("a = R.exp(x)", "b = R.relu(a)", "y = R.add(b, b)")
    assert_structural_equal(EliminateCommonSubexpr()(module), expected)


def test_branches_share_with_what_is_around_them_but_not_with_each_other() -> None:
    module = parse_module(
        '@R.function\ndef main(x: R.Tensor((2,)), c: R.Tensor((), "bool")):\n'
        "    a = R.exp(x)\n    if c:\n"
        "        b = R.exp(x)\n        d = R.tanh(b)\n        y = d\n    else:\n"
        "        e = R.tanh(a)\n        y = e\n"
        "    f = R.tanh(a)\n    return (y, f)\n"
    )
    text = verify_module(EliminateCommonSubexpr()(module)).script()
    assert text.count("R.exp") == 1
    assert text.count("R.tanh") == 3


def of_constants(*arrays: np.ndarray) -> list[int]:
    """For each constant the first one that is equal to it."""
    module = IRModule()
    found = [module.weights.add("c", a) for a in arrays]
    eliminator = _Eliminator(module)
    keys = [eliminator.constant_key(c) for c in found]
    return [keys.index(k) for k in keys]


def test_constants_are_told_apart_by_their_bits() -> None:
    zeros = np.zeros(1000, np.float32)
    other = zeros.copy()
    other[1] = 1e-30  # not in the sample
    negative = -zeros
    assert of_constants(zeros, zeros.copy(), other) == [0, 0, 2]
    assert of_constants(zeros, negative, zeros.reshape(10, 100)) == [0, 1, 2]
    nan = np.full((), np.nan)
    assert of_constants(nan, nan.copy(), np.zeros((0, 2)), np.zeros((2, 0))) == [0, 0, 2, 3]


def test_equal_weights_make_equal_operations() -> None:
    w = np.arange(6, dtype=np.float32).reshape(2, 3)
    env = {"v": w, "w": w.copy()}
    text = (
        "@R.function\ndef main(x: R.Tensor((4, 3))):\n"
        "    a = R.linear(x, v)\n    b = R.linear(x, w)\n    return (a, b)\n"
    )
    module = EliminateCommonSubexpr()(parse_module(text, env=env))
    assert module.script().count("R.linear") == 1


def test_two_views_of_one_weight_are_one_without_reading_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = module_of("y = R.add(x, z)")
    base = np.random.default_rng(0).normal(size=(4, 2, 3)).astype(np.float32)
    eliminator = _Eliminator(module)
    table = eliminator.builder.weights
    views = [table.add("w", base.reshape(8, 3)) for _ in range(2)]
    other = table.add("w", base.reshape(8, 3).copy())
    monkeypatch.setattr(Weight, "digest", property(lambda self: id(self)))
    keys = [eliminator.constant_key(c) for c in (*views, other)]
    assert keys[0] == keys[1]
    assert keys[2] != keys[0]
