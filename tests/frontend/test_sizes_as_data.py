"""Named sizes as tensors."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.frontend.onnx.registry import Context
from burnish.frontend.sizes_as_data import counted, positions, section
from burnish.graphir.builder import BlockBuilder, call_op
from burnish.graphir.expr import Tuple, Var
from burnish.graphir.type import TensorType
from burnish.support.dtype import DType
from burnish.tensorir.expr import Expr, IntImm
from burnish.tensorir.expr import Var as DimVar
from burnish.tests.graphir.reference import run

N = DimVar("n")


def _of(size: Expr) -> tuple[int, list[int]]:
    """A size as a number and as its positions, where n is 6."""
    builder, x = BlockBuilder(), Var("x", TensorType((N,), DType("float32")))
    context = Context(builder, {"": 17})
    with builder.function("main", [x]):
        with builder.dataflow():
            atoms = [counted(context, size), positions(context, size)]
            results = [builder.emit_output(call_op("abs", a)) for a in atoms]
        builder.emit_func_output(Tuple(tuple(results)))
    number, places = run(builder.get(), "main", np.zeros(6, np.float32))
    return int(number), list(places)


@pytest.mark.parametrize(
    ("size", "value"), [(N, 6), (N * 2 + 1, 13), (N // 4, 1), (N - 2, 4), (IntImm(3), 3)]
)
def test_sizes_are_counted(size: Expr, value: int) -> None:
    assert _of(size) == (value, list(range(value)))


@pytest.mark.parametrize(
    ("begin", "size", "expected"),
    [(0, N - 2, [0, 1, 2, 3]), (1, IntImm(3), [1, 2, 3]), (N // 2, N - N // 2, [3, 4, 5])],
)
def test_sections(begin: Expr | int, size: Expr, expected: list[int]) -> None:
    builder, x = BlockBuilder(), Var("x", TensorType((N, IntImm(2)), DType("float32")))
    context = Context(builder, {"": 17})
    with builder.function("main", [x]):
        builder.emit_func_output(section(context, x, 0, begin, size))
    held = np.arange(12, dtype=np.float32).reshape(6, 2)
    np.testing.assert_array_equal(run(builder.get(), "main", held), held[expected])
