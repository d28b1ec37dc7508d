"""The row of recurrent layers: LSTM, GRU and RNN, all steps of one direction of one layer.

``inputs`` is (T, B, G * H), ``state`` (S, B, H), ``weight`` (H, G * H) and ``new``, which only a
GRU has, a bias (H,); in ``gru_reset_first`` it is a weight (H, H), and ``weight`` (H, 2 * H). The
result (T + 1, S, B, H) has the states of all steps, the given one first. ``cell`` is one of
``tensorir.operators.recurrent.CELLS``, which says how many gates G and states S there are; that
file says what each step does.
"""

from __future__ import annotations

from ...tensorir.expr import Expr, IntImm, add, mul
from ...tensorir.function import PrimFunc
from ...tensorir.operators.recurrent import CELLS
from ..dim import dim_equal, print_shape
from ..expr import Call
from ..op import REQUIRED, Op, attr, register
from ..type import TensorType, Type
from .operands import fail, inputs, operator_function, same_dtype, tensors


def _recurrent(call: Call) -> Type:
    kinds = tensors(call)
    dtype, cell = same_dtype(call, kinds), attr(call, "cell")
    if str(dtype) not in ("float32", "float64"):
        raise fail(call, f"operands of {dtype}", "float32 or float64, in which states are summed")
    if cell not in CELLS:
        raise fail(call, f"cell={cell!r} is unknown", f"one of {', '.join(CELLS)}")
    known = CELLS[cell]
    if (len(kinds) == 4) != (known.rank_of_new > 0):
        raise fail(call, f"{len(kinds)} operands for {cell}", "four for a GRU, three for others")
    x, state, _ = kinds[:3]
    if x.ndim != 3 or state.ndim != 3:
        raise fail(call, "the ranks do not fit", "inputs (T, B, G * H) and a state (S, B, H)")
    units, batch = state.shape[2], x.shape[1]
    width = mul(units, IntImm(known.gates))
    wanted: list[tuple[Expr, ...]] = [
        (x.shape[0], batch, width), (IntImm(known.states), batch, units),
        (units, mul(units, IntImm(known.products))), (units,) * known.rank_of_new,
    ]  # fmt: skip
    for i, (kind, shape) in enumerate(zip(kinds, wanted, strict=False)):
        fits = kind.ndim == len(shape) and all(map(dim_equal, kind.shape, shape))
        if not fits:
            raise fail(call, f"operand {i} has another shape", print_shape(shape))
    return TensorType((add(x.shape[0], IntImm(1)), IntImm(known.states), batch, units), dtype)


def _legalize(call: Call) -> PrimFunc:
    made: object = operator_function("recurrent")(*inputs(call), cell=attr(call, "cell"))
    assert isinstance(made, PrimFunc)
    return made


register(
    Op(
        "recurrent",
        ("inputs", "state", "weight", "new"),
        _recurrent,
        _legalize,
        {"cell": REQUIRED},
        optional=1,
    )
)
