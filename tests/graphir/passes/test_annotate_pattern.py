"""AnnotatePattern: the pattern of every kind of kernel, read off its body."""

from __future__ import annotations

import pytest

from burnish.graphir.module import IRModule
from burnish.graphir.passes.annotate_pattern import AnnotatePattern, classify
from burnish.graphir.passes.legalize import LegalizeOps
from burnish.graphir.text.parser import parse_module

PARAMS = (
    "x: R.Tensor((4, 8)), z: R.Tensor((4, 8)), r: R.Tensor((8,)), c: "
    'R.Tensor((4, 1)), w: R.Tensor((6, 8)), s: R.Tensor(("m", 8)), q: '
    'R.Tensor((6, 2, 1), "uint32"), f: R.Tensor((6, 2))'
)


def legal(expression: str) -> IRModule:
    return LegalizeOps()(
        parse_module(f"@R.function\ndef main({PARAMS}):\n    return {expression}\n")
    )


CASES = [
    ("R.exp(x)", "elementwise"),
    ("R.add(x, z)", "elementwise"),
    ("R.add(x, 1.0)", "elementwise"),
    ("R.exp(s)", "elementwise"),
    ("R.exp(c)", "elementwise"),
    ("R.where(R.less(x, z), x, z)", "elementwise"),
    ("R.add(x, r)", "broadcast"),
    ("R.add(x, c)", "broadcast"),
    ("R.add(s, r)", "broadcast"),
    ("R.broadcast_to(r, R.shape([4, 8]))", "broadcast"),
    ("R.add(c, r)", "broadcast"),
    ("R.permute_dims(x)", "injective"),
    ("R.concat(x, z)", "injective"),
    ("R.strided_slice(x, axes=[1], begin=[1], end=[7])", "injective"),
    ("R.pad(x, pad_width=[1, 1, 0, 0])", "injective"),
    ("R.sum(x)", "reduction"),
    ("R.max(x, axis=1)", "reduction"),
    ("R.mean(x, axis=0, keepdims=True)", "reduction"),
    ("R.prod(s, axis=1)", "reduction"),
    ("R.matmul(x, R.permute_dims(w))", "out_fusable"),
    ("R.linear(x, w)", "out_fusable"),
    ("R.linear(s, w, R.sum(w, axis=1))", "out_fusable"),
    ("R.matmul(x, r)", "out_fusable"),
    ("R.scaled_linear(x, q, f)", "out_fusable"),
    ("R.variance(x, axis=1)", "opaque"),
    ("R.matmul(r, r)", "reduction"),
    ("R.softmax(x)", "opaque"),
    ("R.layer_norm(x)", "opaque"),
]


@pytest.mark.parametrize(("expression", "pattern"), CASES)
def test_pattern_of_a_kernel(expression: str, pattern: str) -> None:
    *_, func = legal(expression).prim_funcs.values()
    assert classify(func) == pattern


HAND = """
@T.prim_func
def f(X: T.Buffer((4, 4), "float32"), Y: T.Buffer((4, 4), "float32")):
    for i, j in T.grid(4, 4):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            {body}
"""


@pytest.mark.parametrize(
    ("body", "pattern"),
    [
        ("Y[vi, vj] = X[vi, vj]", "elementwise"),
        ("Y[vi, vj] = X[vj, vi]", "injective"),
        ("Y[vi, vj] = X[vi, vi]", "injective"),
        ("Y[vi, vj] = T.float32(1)", "broadcast"),
        ("Y[vi, vi] = X[vi, vj]", "opaque"),
        ("Y[vi, vj + 0 * vi] = X[vi, vj]", "opaque"),
        ("Y[vi, vj] = X[vi, vj] + Y[vi, vj]", "opaque"),
        ("Y[vi, 0] = X[vi, vj]", "opaque"),
    ],
)
def test_patterns_of_functions_by_hand(body: str, pattern: str) -> None:
    func = parse_module(HAND.format(body=body)).prim_funcs["f"]
    assert classify(func) == pattern


UNIT = """
@T.prim_func
def f(X: T.Buffer((4, 1), "float32"), Y: T.Buffer((4, 1), "float32")):
    for i in range(4):
        with T.block("Y"):
            vi = T.axis.spatial(4, i)
            Y[vi, 0] = X[vi, 0] * T.float32(2)
"""
ROWS = """
@T.prim_func
def f(X: T.Buffer(("m", 8), "float32"), R: T.Buffer(("n",), "float32"),
      S: T.Buffer(("m",), "float32"), Y: T.Buffer(("{size}",), "float32")):
    for i, k in T.grid(m, 8):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + X[vi, vk]
    for i in range({size}):
        with T.block("Y"):
            vi = T.axis.spatial({size}, i)
            Y[vi] = {other}[vi] * T.float32(2)
"""


def test_a_dimension_of_one_element_has_no_axis() -> None:
    assert classify(parse_module(UNIT).prim_funcs["f"]) == "elementwise"


@pytest.mark.parametrize(
    ("size", "other", "pattern"), [("m", "S", "reduction"), ("n", "R", "opaque")]
)
def test_what_follows_has_the_same_shape(size: str, other: str, pattern: str) -> None:
    func = parse_module(ROWS.format(size=size, other=other)).prim_funcs["f"]
    assert classify(func) == pattern


def test_who_is_annotated() -> None:
    module = parse_module(HAND.format(body="Y[vi, vj] = X[vi, vj]"))
    assert AnnotatePattern()(module)["f"].attr("op_pattern") == "elementwise"
    assert AnnotatePattern(legalized_only=True)(module)["f"].attr("op_pattern") is None
    module["f"] = module["f"].with_attr("is_scheduled", True)
    assert AnnotatePattern()(module)["f"].attr("op_pattern") is None
    module = AnnotatePattern(legalized_only=True)(legal("R.exp(x)"))
    assert module["exp"].attr("op_pattern") == "elementwise"
    module["exp"] = module["exp"].with_attr("op_pattern", "opaque")
    assert AnnotatePattern()(module)["exp"].attr("op_pattern") == "opaque"


def test_scheduled_loops_are_opaque() -> None:
    func = parse_module(
        HAND.format(body="Y[vi, vj] = X[vi, vj]").replace("T.grid(4, 4)", "T.grid(4, 4)")
    ).prim_funcs["f"]
    assert classify(func) == "elementwise"
    text = HAND.format(body="Y[vi, vj] = X[vi, vj]").replace(
        "    for i, j in T.grid(4, 4):\n        with",
        "    for i in T.parallel(4):\n      for j in range(4):\n        with",
    )
    assert classify(parse_module(text).prim_funcs["f"]) == "opaque"
