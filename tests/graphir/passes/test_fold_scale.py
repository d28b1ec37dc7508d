"""FoldScale: scales and shifts behind products become their weights, and values stay."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.graphir.analysis import bindings
from burnish.graphir.builder import BlockBuilder, call_op
from burnish.graphir.expr import Atom, Var, constant
from burnish.graphir.module import IRModule
from burnish.graphir.passes.fold_scale import FoldScale
from burnish.graphir.type import tensor_type
from burnish.graphir.verify import verify_module
from burnish.tests.graphir.reference import run

RNG = np.random.default_rng(0)
CONV = {"strides": (1, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1)}


def const(*shape: int) -> Atom:
    return constant(RNG.uniform(0.5, 1.5, shape).astype("float32"))


def build(product: str, *steps: tuple[str, tuple[int, ...]], bias: bool, twice: bool) -> IRModule:
    x = Var("x", tensor_type((2, 3, 5, 5) if product == "conv" else (4, 3), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            weight = const(6, 3, 2, 2) if product == "conv" else const(6, 3)
            extra = [const(6)] if bias else []
            first: Var = builder.emit(
                call_op(product, x, weight, *extra, **(CONV if product == "conv" else {}))
            )
            value = first
            for op, shape in steps:
                value = builder.emit(call_op(op, value, const(*shape)))
            if twice:
                value = builder.emit(call_op("add", value, first))
            out = builder.emit_output(value)
        builder.emit_func_output(out)
    return verify_module(builder.get())


def operators(module: IRModule) -> list[str]:
    return [b.value.op for b in bindings(module["main"]) if hasattr(b.value, "op")]  # type: ignore[arg-type]


C = (6, 1, 1)
CASES: list[tuple[str, list[tuple[str, tuple[int, ...]]], int]] = [
    ("conv", [("multiply", C)], 1),
    ("conv", [("multiply", C), ("add", C)], 1),
    ("conv", [("subtract", (1, 6, 1, 1)), ("divide", C)], 1),
    ("conv", [("multiply", ()), ("add", (1,))], 1),
    ("linear", [("multiply", (6,)), ("add", (1, 6))], 1),
    ("conv", [("add", (4,))], 2),  # along the pixels of a row, not channels
    ("conv", [("multiply", C), ("add", (4, 4)), ("multiply", C)], 3),
]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("product", "steps", "left"), CASES)
def test_scales_are_folded_and_values_stay(
    product: str, steps: list[tuple[str, tuple[int, ...]]], left: int, bias: bool
) -> None:
    module = build(product, *steps, bias=bias, twice=False)
    after = verify_module(FoldScale()(module))
    live = operators(after)[-left:]
    assert live[0] == product
    x = RNG.uniform(-1, 1, (2, 3, 5, 5) if product == "conv" else (4, 3)).astype("float32")
    np.testing.assert_allclose(run(after, "main", x), run(module, "main", x), rtol=2e-5, atol=1e-5)


def test_a_product_that_others_read_stays() -> None:
    module = build("conv", ("multiply", C), bias=True, twice=True)
    assert FoldScale()(module)["main"] is module["main"]
