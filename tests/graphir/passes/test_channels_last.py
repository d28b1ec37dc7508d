"""ChannelsLast: layouts move through a graph, and what the model computes stays."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.graphir.analysis import bindings
from burnish.graphir.module import IRModule
from burnish.graphir.passes.canonicalize import Canonicalize
from burnish.graphir.passes.channels_last import ChannelsLast
from burnish.graphir.passes.dead_code_elimination import DeadCodeElimination
from burnish.graphir.text.parser import parse_module
from burnish.graphir.verify import verify_module
from burnish.tests.graphir.reference import run

PARAMS = {
    "x": (2, 6, 5, 4), "w": (8, 6, 3, 3), "v": (8, 8, 3, 3), "p": (8, 8, 1, 1), "d": (8, 1, 3, 3),
    "s": (8, 1, 1), "t": (1, 8, 1, 1), "r": (2, 8, 5, 4), "i": (2, 3, 5, 4), "u": (8, 3, 3, 3),
    "q": (4,),
}  # fmt: skip
SAME = "strides=[1, 1], padding=[1, 1, 1, 1], dilation=[1, 1]"
ONE = "strides=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1]"
POOL = "kernel=[2, 2], strides=[2, 2], padding=[0, 0, 0, 0]"


def module_of(*lines: str) -> IRModule:
    body = "".join(f"        {line}\n" for line in lines)
    used = {n: s for n, s in PARAMS.items() if any(n in _words(line) for line in lines)}
    params = ", ".join(f"{n}: R.Tensor({s})" for n, s in used.items())
    return parse_module(
        f"@R.function\ndef main({params}):\n    with R.dataflow():\n{body}"
        "        R.output(y)\n    return y\n"
    )


def _words(line: str) -> set[str]:
    return set("".join(c if c.isalnum() else " " for c in line).split())


def moved(module: IRModule) -> IRModule:
    for step in (Canonicalize(), ChannelsLast(), Canonicalize(), DeadCodeElimination()):
        module = verify_module(step(module))
    return module


def operators(module: IRModule) -> list[str]:
    return [b.value.op for b in bindings(module["main"]) if hasattr(b.value, "op")]  # type: ignore[arg-type]


IN, OUT = "permute_dims", "permute_dims"
CASES: list[tuple[list[str], list[str]]] = [
    ([f"y = R.conv(x, w, {SAME})"], [IN, "conv", OUT]),
    ([f"a = R.conv(x, w, {SAME})", "y = R.relu(a)"], [IN, "conv", "relu", OUT]),
    (
        [f"a = R.conv(x, w, {SAME})", f"b = R.conv(a, v, {SAME})", "y = R.add(b, a)"],
        [IN, "conv", "conv", "add", OUT],
    ),
    (
        [f"a = R.conv(x, w, {SAME})", "b = R.multiply(a, s)", "y = R.add(b, t)"],
        [IN, "conv", "reshape", "multiply", "reshape", "add", OUT],
    ),
    (
        [f"a = R.conv(x, w, {SAME})", "y = R.add(r, a)"],
        [IN, "conv", IN, "add", OUT],
    ),
    # What broadcasts along pixels in another way leaves the layout.
    ([f"a = R.conv(x, w, {SAME})", "y = R.add(a, q)"], [IN, "conv", OUT, "add"]),
    # A pointwise convolution is a linear layer of pixels.
    ([f"a = R.conv(x, w, {SAME})", f"y = R.conv(a, p, {ONE})"],
     [IN, "conv", "reshape", "linear", OUT]),
    ([f"a = R.conv(x, w, {SAME})", f"y = R.conv(a, d, {SAME}, groups=8)"],
     [IN, "conv", "conv", OUT]),
    # An image of few channels is read as it is.
    ([f"y = R.conv(i, u, {SAME})"], ["conv", OUT]),
    ([f"a = R.conv(i, u, {SAME})", f"y = R.max_pool(a, {POOL}, dilation=[1, 1])"],
     ["conv", "max_pool", OUT]),
    ([f"y = R.max_pool(x, {POOL}, dilation=[1, 1])"], ["max_pool"]),
    ([f"a = R.conv(i, u, {SAME})", f"y = R.avg_pool(a, {POOL})"], ["conv", "avg_pool", OUT]),
    (
        [f"a = R.conv(i, u, {SAME})", "b = R.adaptive_pool(a, output_size=[1, 1], mode='avg')",
         "y = R.flatten(b, start_dim=1)"],
        ["conv", "adaptive_pool", "reshape"],
    ),
    ([f"a = R.conv(i, u, {SAME})", "y = R.mean(a, axis=[2, 3])"], ["conv", "mean"]),
    ([f"a = R.conv(i, u, {SAME})", "y = R.mean(a, axis=[-1, 2], keepdims=True)"],
     ["conv", "mean", "reshape"]),
    ([f"a = R.conv(i, u, {SAME})", "y = R.mean(a, axis=1)"], ["conv", OUT, "mean"]),
    ([f"a = R.conv(i, u, {SAME})", "b = R.relu(a)", "y = R.concat(a, b, axis=1)"],
     ["conv", "relu", "concat", OUT]),
    ([f"a = R.conv(i, u, {SAME})", "b = R.relu(a)", "y = R.concat(a, b, axis=-2)"],
     ["conv", "relu", "concat", OUT]),
    ([f"a = R.conv(i, u, {SAME})", "y = R.pad(a, pad_width=[0, 0, 0, 1, 2, 0, 0, 3])"],
     ["conv", "pad", OUT]),
    # Tokens: what a vision transformer makes of its patches.
    (
        [f"a = R.conv(i, u, {SAME})", "b = R.flatten(a, start_dim=2)",
         "y = R.permute_dims(b, axes=[0, 2, 1])"],
        ["conv", "reshape"],
    ),
    ([f"a = R.conv(i, u, {SAME})", "y = R.permute_dims(a, axes=[0, 2, 3, 1])"], ["conv"]),
    ([f"a = R.conv(i, u, {SAME})", "y = R.permute_dims(a, axes=[0, 1, 3, 2])"],
     ["conv", "permute_dims"]),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "expected"), CASES)
def test_layouts_move_and_values_stay(lines: list[str], expected: list[str]) -> None:
    module = module_of(*lines)
    rng = np.random.default_rng(0)
    inputs = [
        rng.uniform(-1, 1, [d.value for d in p.type.shape]).astype("float32")  # type: ignore[union-attr]
        for p in module["main"].params  # type: ignore[union-attr]
    ]
    after = moved(module)
    assert operators(after) == expected
    wanted = run(module, "main", *inputs)
    found = run(after, "main", *inputs)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_model_without_convolutions_is_left_alone() -> None:
    module = module_of("y = R.relu(x)")
    assert ChannelsLast()(module)["main"] is module["main"]
