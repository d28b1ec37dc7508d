"""The row of recurrent layers: its kernel against NumPy, and the errors."""

from __future__ import annotations

import pytest

from burnish.tests.graphir.ops.kernel_cases import check_error, check_kernel

X, S, W = ('R.Tensor((5, 2, 12), "float32")', 'R.Tensor((2, 2, 3), "float32")',
           'R.Tensor((3, 12), "float32")')  # fmt: skip
LSTM = {"x": X, "s": S, "w": W}
GRU = {
    "x": 'R.Tensor(("t", 2, 9), "float32")', "s": 'R.Tensor((1, 2, 3), "float32")',
    "w": 'R.Tensor((3, 9), "float32")', "b": 'R.Tensor((3,), "float32")',
}  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "params"),
    [
        ('R.recurrent(x, s, w, cell="lstm")', LSTM),
        ('R.recurrent(x, s, w, b, cell="gru")', GRU),
        (
            'R.recurrent(x, s, w, n, cell="gru_reset_first")',
            GRU | {"w": 'R.Tensor((3, 6), "float32")', "n": 'R.Tensor((3, 3), "float32")'},
        ),
        (
            'R.recurrent(x, s, w, cell="rnn_tanh")',
            {
                "x": 'R.Tensor(("t", "n", 3), "float32")',
                "s": 'R.Tensor((1, "n", 3), "float32")',
                "w": 'R.Tensor((3, 3), "float32")',
            },
        ),
    ],
)
def test_kernel_computes_what_the_operator_means(expression: str, params: dict[str, str]) -> None:
    check_kernel(expression, params)


@pytest.mark.parametrize(
    ("expression", "params", "message"),
    [
        ('R.recurrent(x, s, w, cell="cell")', LSTM, "cell='cell' is unknown"),
        ('R.recurrent(x, s, w, cell="gru")', LSTM, "four for a GRU, three for others"),
        ('R.recurrent(x, s, w, b, cell="lstm")', LSTM | {"b": GRU["b"]}, "four for a GRU"),
        ('R.recurrent(x, w, w, cell="lstm")', LSTM, "the ranks do not fit"),
        ('R.recurrent(x, s, w, cell="rnn_relu")', LSTM, "operand 0 has another shape"),
        (
            'R.recurrent(x, s, w, cell="lstm")',
            LSTM | {"w": 'R.Tensor((12, 3), "float32")'},
            "operand 2 has another shape",
        ),
        (
            'R.recurrent(x, s, w, cell="lstm")',
            {k: v.replace("float32", "float16") for k, v in LSTM.items()},
            "float32 or float64, in which states are summed",
        ),
    ],
)
def test_errors(expression: str, params: dict[str, str], message: str) -> None:
    check_error(expression, params, message)
