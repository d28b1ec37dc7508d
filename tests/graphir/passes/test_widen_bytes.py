"""WidenBytes: products of bytes are of 16 bits, with the same sums, where rows are many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnish.driver.evaluate import evaluate_prim_func
from burnish.graphir.builder import BlockBuilder, call_op
from burnish.graphir.dim import static_shape
from burnish.graphir.expr import Var, constant
from burnish.graphir.integer_products import integer_conv
from burnish.graphir.module import IRModule
from burnish.graphir.passes.bind_params import BindParams
from burnish.graphir.passes.dead_code_elimination import DeadCodeElimination
from burnish.graphir.passes.eliminate_common_subexpr import EliminateCommonSubexpr
from burnish.graphir.passes.fold_constant import FoldConstant
from burnish.graphir.passes.widen_bytes import FEWEST_ROWS, WidenBytes
from burnish.graphir.text.parser import parse_module
from burnish.graphir.text.printer import print_module
from burnish.graphir.type import tensor_type
from burnish.graphir.verify import verify_module
from burnish.support.passes import Pipeline
from burnish.tensorir.expr import Var as DimVar
from burnish.tests.graphir.reference import run

W = np.random.default_rng(0).integers(-128, 128, (16, 8)).astype("int8")


def module(rows: str, *, known: bool = True, batch: str = "") -> IRModule:
    made = parse_module(
        f'@R.function\ndef main(x: R.Tensor(({rows}, 16), dtype="uint8"), '
        f'w: R.Tensor(({batch}16, 8), dtype="int8")):\n'
        "    with R.dataflow():\n        y = R.integer_matmul(x, w)\n        R.output(y)\n"
        "    return y\n"
    )
    if not known:
        return made
    bound: IRModule = BindParams("main", {"w": constant(W)})(made)
    return bound


@pytest.mark.parametrize("dims", [(FEWEST_ROWS,), (4, FEWEST_ROWS // 4)])
def test_sums_are_the_same(dims: tuple[int, ...]) -> None:
    before = module(", ".join(map(str, dims)))
    made = verify_module(WidenBytes()(before))
    text = print_module(made)
    assert 'R.astype(x, dtype="int16")' in text
    assert 'R.Tensor((16, 8), dtype="int16")' in text
    x = np.random.default_rng(1).integers(0, 256, (*dims, 16)).astype("uint8")
    x.reshape(-1, 16)[0] = 255
    found = run(made, "main", x)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, x.astype("int64") @ W.astype("int64"))
    np.testing.assert_array_equal(found, run(before, "main", x))


@pytest.mark.parametrize(
    ("rows", "known", "batch", "widens"),
    [
        (str(FEWEST_ROWS - 1), True, "", False),
        ('"n"', True, "", False),
        (f'"n", {FEWEST_ROWS}', True, "", True),
        (str(FEWEST_ROWS), False, "", False),
        (f"3, {FEWEST_ROWS}", False, "3, ", False),
    ],
)
def test_few_rows_and_weights_of_data_stay(
    rows: str, known: bool, batch: str, widens: bool
) -> None:
    before = module(rows, known=known, batch=batch)
    text = print_module(WidenBytes()(before))
    assert ("int16" in text) is widens
    assert (text == print_module(before)) is not widens


def test_what_is_wide_stays() -> None:
    once = WidenBytes()(module(str(FEWEST_ROWS)))
    assert print_module(WidenBytes()(once)) == print_module(once)


def convolution(
    channels: int = 32,
    size: int = 12,
    kernel: int = 3,
    zero: int = 7,
    batch: int | DimVar = 1,
    **words: Any,
) -> tuple[IRModule, np.ndarray]:
    """A convolution of bytes in the form that quantised models get, and its weights."""
    w = np.random.default_rng(2).integers(-128, 128, (32, channels, kernel, kernel)).astype("int8")
    bb = BlockBuilder()
    x = Var("x", tensor_type((batch, channels, size, size), "uint8"))
    known = {"strides": (1, 1), "padding": (1, 1, 1, 1), "dilation": (1, 1)} | words
    with bb.function("main", [x]):
        with bb.dataflow():
            weight = bb.weights.add("w", w)
            emit = lambda name, *args, **attrs: bb.emit(call_op(name, *args, **attrs))  # noqa: E731
            result = bb.emit_output(integer_conv(emit, x, weight, zero, None, **known))
        bb.emit_func_output(result)
    made = Pipeline([FoldConstant(evaluate_prim_func), EliminateCommonSubexpr()])(bb.get())
    return made, w


def widened(module: IRModule) -> IRModule:
    made: IRModule = Pipeline([WidenBytes(), DeadCodeElimination()])(module)
    return verify_module(made)


@pytest.mark.parametrize(
    ("words", "winograd"),
    [
        ({}, True),
        ({"size": 13, "zero": 0, "channels": 64}, True),
        ({"padding": (0, 1, 2, 0)}, True),
        ({"batch": DimVar("n")}, True),
        ({"strides": (2, 2)}, False),
        ({"dilation": (2, 2), "padding": (2, 2, 2, 2)}, False),
        ({"kernel": 5, "padding": (2, 2, 2, 2)}, False),
        ({"channels": 20}, False),
    ],
)
def test_convolutions_are_the_same_to_the_bit(words: dict[str, Any], winograd: bool) -> None:
    before, _ = convolution(**words)
    made = widened(before)
    text = print_module(made)
    assert ("winograd_conv" in text) is winograd
    assert ("im2col" in text) is not winograd
    # Pixels are widened, not the windows that are read of them.
    reader = "R.winograd_conv" if winograd else "R.im2col"
    assert 0 < text.index('dtype="int16"') < text.index(reader)
    assert text.count("R.astype") == 1
    kind = made["main"].params[0].type
    shape = (3, *(static_shape(kind.shape[1:]) or ()))
    x = np.random.default_rng(1).integers(0, 256, shape).astype("uint8")
    x = x if "batch" in words else x[:1]
    x[0, :, :4] = 255
    np.testing.assert_array_equal(run(made, "main", x), run(before, "main", x))


@pytest.mark.parametrize(("size", "winograd"), [(1, False), (2, True), (6, True)])
def test_tiles_that_are_mostly_padding_are_not_worth_it(size: int, winograd: bool) -> None:
    text = print_module(widened(convolution(channels=128, size=size, batch=24)[0]))
    assert ("winograd_conv" in text) is winograd
