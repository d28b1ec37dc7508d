"""PointwiseProducts: which pointwise convolutions become products, and that values stay."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import burnish
from burnish.graphir.analysis import bindings
from burnish.graphir.expr import Call
from burnish.graphir.module import IRModule
from burnish.graphir.passes.canonicalize import Canonicalize
from burnish.graphir.passes.channels_last import ChannelsLast
from burnish.graphir.passes.dead_code_elimination import DeadCodeElimination
from burnish.graphir.passes.pipeline import pipeline
from burnish.graphir.passes.pointwise_products import PointwiseProducts
from burnish.graphir.text.parser import parse_module
from burnish.graphir.verify import verify_module
from burnish.tests.graphir.reference import run

ONE = "strides=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1]"
SAME = "strides=[1, 1], padding=[1, 1, 1, 1], dilation=[1, 1]"
POOL = "kernel=[2, 2], strides=[2, 2], padding=[0, 0, 0, 0], dilation=[1, 1]"
PARAMS = {
    "x": (2, 6, 4, 4), "w": (8, 6, 1, 1), "v": (8, 8, 1, 1), "k": (8, 8, 3, 3), "q": (6, 6, 1, 1),
    "b": (8,), "r": (2, 8, 4, 4), "z": (1, 6, 4, 4), "d": (8, 3, 1, 1), "s": (8, 1, 1),
}  # fmt: skip


def model(lines: list[str], **changed: str) -> IRModule:
    body = "".join(f"        {line}\n" for line in lines)
    words = set("".join(c if c.isalnum() else " " for c in body).split())
    params = ", ".join(
        f"{n}: R.Tensor({changed.get(n, s)}, 'float64')" for n, s in PARAMS.items() if n in words
    )
    return parse_module(
        f"@R.function\ndef main({params}):\n    with R.dataflow():\n{body}"
        "        R.output(y)\n    return y\n"
    )


def selected(module: IRModule, lanes: int = 4) -> IRModule:
    for step in (Canonicalize(), PointwiseProducts(lanes), DeadCodeElimination()):
        module = verify_module(step(module))
    return module


def operators(module: IRModule) -> list[str]:
    values = [b.value for b in bindings(module["main"])]  # type: ignore[arg-type]
    return [v.op for v in values if isinstance(v, Call) and v.op != "reshape"]


LONE: list[tuple[list[str], list[str]]] = [
    ([f"y = R.conv(x, w, {ONE})"], ["matmul"]),
    ([f"y = R.conv(z, w, b, {ONE})"], ["matmul", "add"]),
    ([f"a = R.conv(x, w, b, {ONE})", "y = R.relu(a)"], ["matmul", "add", "relu"]),
    ([f"a = R.conv(x, w, {ONE})", "b1 = R.relu(a)", "y = R.add(b1, r)"],
     ["matmul", "relu", "add"]),
    ([f"a = R.conv(x, w, {ONE})", "y = R.multiply(a, s)"], ["matmul", "multiply"]),
    ([f"a = R.conv(x, q, {ONE})", "y = R.add(a, x)"], ["matmul", "add"]),
    ([f"a = R.conv(x, w, {ONE})", f"y = R.max_pool(a, {POOL})"], ["matmul", "max_pool"]),
    ([f"a = R.conv(x, w, {ONE})", "y = R.mean(a, axis=[2, 3])"], ["matmul", "mean"]),
]  # fmt: skip
SHARED: list[list[str]] = [
    # Another convolution reads the result, or wrote the operand, whatever stands between.
    [f"a = R.conv(x, w, {ONE})", f"y = R.conv(a, k, {SAME})"],
    [f"a = R.conv(x, w, {ONE})", "c = R.relu(a)", f"e = R.max_pool(c, {POOL})",
     f"y = R.conv(e, k, {SAME})"],
    [f"a = R.conv(r, k, {SAME})", "c = R.add(a, r)", f"y = R.conv(c, v, {ONE})"],
    # Another one reads what this one reads.
    [f"a = R.conv(r, k, {SAME})", f"c = R.conv(r, v, {ONE})", "y = R.add(a, c)"],
    # The model itself has the other layout.
    [f"a = R.conv(x, w, {ONE})", "y = R.permute_dims(a, axes=[0, 2, 3, 1])"],
    [f"a = R.conv(x, w, {ONE})", "c = R.flatten(a, start_dim=2)",
     "y = R.permute_dims(c, axes=[0, 2, 1])"],
    # Not pointwise, or in groups.
    [f"y = R.conv(r, k, {SAME})"],
    [f"y = R.conv(x, w, {ONE.replace('strides=[1, 1]', 'strides=[2, 2]')})"],
    [f"y = R.conv(x, w, {ONE.replace('padding=[0', 'padding=[1')})"],
    [f"y = R.conv(x, d, {ONE}, groups=2)"],
]  # fmt: skip


@pytest.mark.parametrize(("lines", "expected"), LONE)
def test_a_lone_one_becomes_a_product(lines: list[str], expected: list[str]) -> None:
    module = model(lines)
    after = selected(module)
    assert operators(after) == expected
    rng = np.random.default_rng(0)
    inputs = [
        rng.uniform(-1, 1, [d.value for d in p.type.shape])  # type: ignore[union-attr]
        for p in module["main"].params  # type: ignore[union-attr]
    ]
    found = run(after, "main", *inputs)
    np.testing.assert_allclose(found, run(module, "main", *inputs), rtol=1e-12, atol=1e-13)
    assert "permute_dims" not in operators(ChannelsLast()(after))


@pytest.mark.parametrize("lines", SHARED)
def test_others_stay(lines: list[str]) -> None:
    module = Canonicalize()(model(lines))
    assert PointwiseProducts(4)(module)["main"] is module["main"]


@pytest.mark.parametrize(
    ("x", "lanes", "expected"),
    [
        ((2, 6, 4, 4), 4, "matmul"),
        ((2, 6, 1, 1), 4, "conv"),  # one pixel is a row of channels already
        ((2, 6, 3, 3), 8, "matmul"),
        ((2, 192, 3, 3), 16, "conv"),  # nine pixels of a vector of 16
        ((2, 6, "n", 3), 4, "conv"),
        (("n", 6, 4, 4), 4, "matmul"),
    ],
)
def test_what_an_empty_part_of_a_vector_costs(
    x: tuple[int | str, ...], lanes: int, expected: str
) -> None:
    module = model([f"y = R.conv(x, w, {ONE})"], x=str(x), w=f"(64, {x[1]}, 1, 1)")
    assert operators(selected(module, lanes)) == [expected]


def test_half_precision_is_rounded_once() -> None:
    """With a bias a product would be rounded before it is added."""
    text = (
        "@R.function\ndef main(x: R.Tensor((2, 6, 4, 4), 'float16'), "
        "w: R.Tensor((8, 6, 1, 1), 'float16'), b: R.Tensor((8,), 'float16')):\n"
        f"    with R.dataflow():\n        y = R.conv(x, w, b, {ONE})\n        R.output(y)\n"
        "    return y\n"
    )
    assert operators(selected(parse_module(text))) == ["conv"]


def test_no_kernel_moves_a_lone_convolution() -> None:
    layer = torch.nn.Sequential(torch.nn.Conv2d(24, 40, 1), torch.nn.ReLU()).eval()
    x = torch.randn(3, 24, 9, 7, generator=torch.Generator().manual_seed(0))
    compiled = burnish.compile(layer, (x,), threads=1)
    with torch.inference_mode():
        wanted = layer.double()(x.double()).numpy()
        np.testing.assert_allclose(compiled(x), wanted, rtol=1e-5, atol=1e-5)
    assert list(compiled.executable.stages["30-fused"].prim_funcs) == ["fused_matmul_add_relu"]


def test_work_that_follows_is_in_the_kernel_of_the_product() -> None:
    lines = [f"a = R.conv(x, w, b, {ONE})", "c = R.relu(a)", "y = R.add(c, r)"]
    module = pipeline()(model(lines))
    assert list(module.prim_funcs) == ["fused_matmul_add_relu_add"]
