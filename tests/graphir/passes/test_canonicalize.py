"""Canonicalize: each rule before and after."""

from __future__ import annotations

import pytest

from burnish.graphir.module import IRModule
from burnish.graphir.passes.canonicalize import Canonicalize
from burnish.graphir.passes.dead_code_elimination import DeadCodeElimination
from burnish.graphir.text.parser import parse_module
from burnish.graphir.verify import verify_module
from burnish.support.structural import assert_structural_equal

PARAMS = 'x: R.Tensor((4, "m", 8)), w: R.Tensor((6, 8)), b: R.Tensor((2, 3, 8))'


def module_of(*lines: str) -> IRModule:
    *body, result = lines
    block = "".join(f"        {line}\n" for line in body)
    flow = f"    with R.dataflow():\n{block}        R.output({result})\n" if body else ""
    return parse_module(f"@R.function\ndef main({PARAMS}):\n{flow}    return {result}\n")


RULES = [
    ("a copy", ["a = x", "y = R.relu(a)", "y"], ["y = R.relu(x)", "y"]),
    (
        "an item of a tuple",
        ["t = (x, w)", "a = t[1]", "y = R.relu(a)", "y"],
        ["y = R.relu(w)", "y"],
    ),
    (
        "a view of its own shape",
        ['a = R.reshape(x, R.shape([4, "m", 8]))', "y = R.relu(a)", "y"],
        ["y = R.relu(x)", "y"],
    ),
    ("a view that is proved to be none", ['y = R.reshape(x, R.shape([-1, "m", 8]))', "y"], ["x"]),
    (
        "a view of a view",
        [
            "a = R.flatten(x)",
            "b = R.relu(a)",
            'y = R.expand_dims(R.reshape(b, R.shape([8, "m", 4])), axis=0)',
            "y",
        ],
        [
            'a = R.reshape(x, R.shape(["m * 32"]))',
            "b = R.relu(a)",
            'y = R.reshape(b, R.shape([1, 8, "m", 4]))',
            "y",
        ],
    ),
    ("there and back", ["a = R.flatten(x)", 'y = R.reshape(a, R.shape([4, "m", 8]))', "y"], ["x"]),
    (
        "two permutations",
        ["a = R.permute_dims(x, axes=[1, 2, 0])", "y = R.permute_dims(a, axes=[1, 0, 2])", "y"],
        ["y = R.permute_dims(x, axes=[2, 1, 0])", "y"],
    ),
    (
        "permutations that cancel",
        ["a = R.permute_dims(x)", "b = R.permute_dims(a)", "y = R.relu(b)", "y"],
        ["y = R.relu(x)", "y"],
    ),
    (
        "a transposed matrix",
        ["a = R.permute_dims(w)", "y = R.matmul(x, a)", "y"],
        ["y = R.linear(x, w)", "y"],
    ),
    (
        "a transposed batch",
        ["a = R.permute_dims(b, axes=[0, 2, 1])", "y = R.matmul(b, a)", "y"],
        ["y = R.matmul(b, b, transpose_b=True)", "y"],
    ),
    (
        "a transposed left side",
        ["a = R.permute_dims(b, axes=[0, 2, 1])", "y = R.matmul(a, b)", "y"],
        ["y = R.matmul(b, b, transpose_a=True)", "y"],
    ),
    (
        "a permutation that moves axes of size 1 alone",
        ["a = R.expand_dims(w, axis=1)", "y = R.permute_dims(a, axes=[1, 0, 2])", "y"],
        ["y = R.reshape(w, R.shape([1, 6, 8]))", "y"],
    ),
    (
        "another permutation stays",
        ["a = R.permute_dims(b)", "y = R.matmul(a, R.sum(b, axis=2))", "y"],
        None,
    ),
    (
        "a cast to its dtype",
        ['a = R.astype(x, dtype="float32")', "y = R.relu(a)", "y"],
        ["y = R.relu(x)", "y"],
    ),
    (
        "a broadcast to its shape",
        ["a = R.broadcast_to(w, R.shape([6, 8]))", "y = R.relu(a)", "y"],
        ["y = R.relu(w)", "y"],
    ),
    ("a concat of one", ["a = R.concat(x)", "y = R.relu(a)", "y"], ["y = R.relu(x)", "y"]),
    (
        "many named parts are joined by groups",
        [f"y = R.concat({', '.join(['x'] * 10)}, axis=1)", "y"],
        [
            "a = R.concat(x, x, x, x, x, axis=1)",
            "b = R.concat(x, x, x, x, x, axis=1)",
            "y = R.concat(a, b, axis=1)",
            "y",
        ],
    ),
    (
        "many parts of numbers are one join",
        [f"y = R.concat({', '.join(['w'] * 10)})", "y"],
        None,
    ),
    (
        "a stack along a new last axis, seen without it",
        [
            "r = R.relu(x)",
            "a = R.concat(R.expand_dims(x, axis=-1), R.expand_dims(r, axis=-1), axis=-1)",
            'y = R.reshape(a, R.shape([4, "m", 16]))',
            "y",
        ],
        ["r = R.relu(x)", "y = R.interleave(x, r)", "y"],
    ),
    (
        "a stack seen as one axis more stays",
        [
            "a = R.concat(R.expand_dims(x, axis=-1), R.expand_dims(x, axis=-1), axis=-1)",
            'y = R.reshape(a, R.shape([4, "m * 8", 2]))',
            "y",
        ],
        [
            'a = R.reshape(x, R.shape([4, "m", 8, 1]))',
            'c = R.reshape(x, R.shape([4, "m", 8, 1]))',
            "b = R.concat(a, c, axis=-1)",
            'y = R.reshape(b, R.shape([4, "m * 8", 2]))',
            "y",
        ],
    ),
    (
        "a place of a split axis",
        [
            'a = R.reshape(x, R.shape([4, "m", 4, 2]))',
            "b = R.strided_slice(a, axes=[-1], begin=[-1], end=[None])",
            "y = R.squeeze(b, axis=-1)",
            "y",
        ],
        ["y = R.strided_slice(x, axes=[-1], begin=[1], end=[8], strides=[2])", "y"],
    ),
    (
        "a place of an axis that others were joined to stays",
        [
            'a = R.reshape(x, R.shape(["4 * m", 8]))',
            "b = R.strided_slice(a, axes=[-1], begin=[1], end=[2])",
            'y = R.reshape(b, R.shape(["4 * m"]))',
            "y",
        ],
        None,
    ),
    (
        "a maximum of one element",
        [
            "a = R.expand_dims(w, axis=[0, 2])",
            "b = R.min(a, axis=[0, 2])",
            "c = R.max(R.expand_dims(b, axis=-1), axis=-1, keepdims=True)",
            "y = R.relu(c)",
            "y",
        ],
        ["a = R.reshape(w, R.shape([6, 8, 1]))", "y = R.relu(a)", "y"],
    ),
    (
        "a sum of one element, which may be -0.0",
        ["a = R.expand_dims(w, axis=0)", "b = R.sum(a, axis=0)", "y = R.reciprocal(b)", "y"],
        ['b = R.add(w, R.const(0.0, "float32"))', "y = R.reciprocal(b)", "y"],
    ),
    (
        "a slice of everything",
        ["a = R.strided_slice(w, axes=[0], begin=[0], end=[None])", "y = R.relu(a)", "y"],
        ["y = R.relu(w)", "y"],
    ),
    (
        "a reversal stays",
        ["y = R.strided_slice(w, axes=[0], begin=[None], end=[None], strides=[-1])", "y"],
        None,
    ),
]


@pytest.mark.parametrize(("name", "before", "after"), RULES, ids=[r[0] for r in RULES])
def test_rule(name: str, before: list[str], after: list[str] | None) -> None:
    module = module_of(*before)
    once = verify_module(Canonicalize()(module))
    cleaned = DeadCodeElimination()(once)
    assert_structural_equal(cleaned, module_of(*(after or before)))
    assert Canonicalize()(once)["main"] is once["main"]


def test_branches_are_canonicalized_too() -> None:
    module = parse_module(
        '@R.function\ndef main(x: R.Tensor((2,)), c: R.Tensor((), "bool")):\n'
        "    if c:\n        a = x\n"
        "        y = R.relu(a)\n    else:\n        y = x\n    return y\n"
    )
    assert "a = " not in verify_module(Canonicalize()(module)).script()
