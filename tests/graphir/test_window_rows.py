"""What windows read, as rows, and weights in the same order."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.graphir.builder import BlockBuilder, call_op
from burnish.graphir.expr import Atom, Var
from burnish.graphir.type import tensor_type
from burnish.graphir.verify import verify_module
from burnish.graphir.window_rows import Emit, is_worth_rows, weight_rows, window_rows
from burnish.tests.graphir.reference import run


@pytest.mark.parametrize("channels", [1, 3, 16])
@pytest.mark.parametrize(
    ("kernel", "strides", "padding", "dilation"),
    [
        ((3, 2), (1, 2), (1, 0, 2, 1), (1, 1)),
        ((2, 3), (2, 1), (0, 0, 0, 0), (2, 1)),
        ((1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
        ((1, 1), (2, 1), (0, 0, 0, 0), (1, 1)),
    ],
)
def test_rows_times_a_weight_are_a_convolution(
    channels: int,
    kernel: tuple[int, int],
    strides: tuple[int, int],
    padding: tuple[int, ...],
    dilation: tuple[int, int],
) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 9, (2, channels, 6, 7)).astype("float32")
    w = rng.integers(-9, 9, (5, channels, *kernel)).astype("float32")
    bb = BlockBuilder()
    params = [Var(n, tensor_type(a.shape, "float32")) for n, a in (("x", x), ("w", w))]
    emit: Emit = lambda name, *args, **attrs: bb.emit(call_op(name, *args, **attrs))  # noqa: E731
    window = {"strides": strides, "padding": padding, "dilation": dilation}
    with bb.function("main", params):
        with bb.dataflow():
            rows: Atom = window_rows(emit, params[0], kernel, pad_value=4.0, **window)
            found = bb.emit_output(call_op("linear", rows, weight_rows(emit, params[1])))
        bb.emit_func_output(found)
    result = np.asarray(run(verify_module(bb.get()), "main", x, w))
    wide = np.pad(x, ((0, 0), (0, 0), padding[:2], padding[2:]), constant_values=4.0)
    expected = np.zeros(result.shape)
    for i, j in np.ndindex(result.shape[1:3]):
        rows_of = [i * strides[0] + k * dilation[0] for k in range(kernel[0])]
        columns = [j * strides[1] + k * dilation[1] for k in range(kernel[1])]
        window_of = wide[:, :, rows_of][..., columns]
        expected[:, i, j] = np.einsum("ncij,ocij->no", window_of, w)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("x", "w", "groups", "last", "worth"),
    [
        ((1, 16, 5, 5), (16, 16, 1, 1), 1, False, True),
        ((1, 16, 5, 5), (15, 16, 1, 1), 1, False, False),
        ((1, 16, 5, 5), (16, 8, 3, 3), 2, False, False),
        ((1, 3, 9, 9), (16, 3, 7, 7), 1, False, True),
        ((1, 9, 9, 3), (16, 3, 7, 7), 1, True, True),
        ((1, 3, 9, 9), (16, 3, 3, 3), 1, False, False),
    ],
)
def test_which_convolutions_are_worth_it(
    x: tuple[int, ...], w: tuple[int, ...], groups: int, last: bool, worth: bool
) -> None:
    operands = [Var(n, tensor_type(s, "uint8")) for n, s in (("x", x), ("w", w))]
    assert is_worth_rows(*operands, groups, channels_last=last) is worth  # type: ignore[misc]
