"""Recurrent layers: the steps of an LSTM, a GRU or a plain RNN, one after another in one function.

``inputs`` (T, B, G * H) is what is known of the G gates before the first step: all products with
the layer's inputs, and the biases that are added there. ``weight`` (H, G * H) is what the state of
a step is multiplied with, ``state`` (S, B, H) the first state: h and, for an LSTM, c. The result
(T + 1, S, B, H) has the states of all steps, the first one in front:

    states[0] = state
    for t in range(T):
        gates = states[t, 0] @ weight
        states[t + 1] = cell(inputs[t], gates, states[t])

Gates stand in PyTorch's order. LSTM (Hochreiter and Schmidhuber, 1997, with forget gates: input,
forget, cell, output), GRU (Cho et al., 2014, in the form of cuDNN, whose ``bias`` (H,) of the new
state is added before the reset gate multiplies: reset, update, new), RNN (Elman, 1990).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...support.errors import ComputeError
from ..arith import infer_regions
from ..buffer import Buffer, Range
from ..compute import Tensor
from ..expr import INDEX, BufferLoad, Expr, IntImm, Var, add, const, maximum
from ..function import PrimFunc
from ..intrinsics import call_intrin
from ..stmt import Block, BlockRealize, BufferStore, For, IterVar, Stmt, seq
from .rows import plain_buffer

ZERO, ONE = IntImm(0, INDEX), IntImm(1, INDEX)


@dataclass(frozen=True)
class _Step:
    """The buffers of a layer, at a step."""

    inputs: Buffer
    gates: Buffer
    states: Buffer
    bias: Buffer | None
    t: Expr
    units: Expr

    def known(self, number: int, b: Expr, j: Expr) -> Expr:
        return BufferLoad(self.inputs, (self.t, b, add(j, self.units * IntImm(number))))

    def product(self, number: int, b: Expr, j: Expr) -> Expr:
        return BufferLoad(self.gates, (b, add(j, self.units * IntImm(number))))

    def gate(self, number: int, b: Expr, j: Expr) -> Expr:
        return self.known(number, b, j) + self.product(number, b, j)

    def sigmoid(self, number: int, b: Expr, j: Expr) -> Expr:
        return call_intrin("sigmoid", self.gate(number, b, j))

    def state(self, number: int, b: Expr, j: Expr, *, after: int = 0) -> Expr:
        """A state before the step, or after it."""
        return BufferLoad(self.states, (add(self.t, IntImm(after)), IntImm(number), b, j))


Formula = Callable[[_Step, Expr, Expr], Expr]
"""An element (row, unit) of a state after a step."""


@dataclass(frozen=True)
class Cell:
    """A kind of layer: how many ``gates`` it has, and its states in the order in which they are
    made, with their numbers."""

    gates: int
    formulas: tuple[tuple[int, Formula], ...]

    @property
    def states(self) -> int:
        return len(self.formulas)


def _cell_state(s: _Step, b: Expr, j: Expr) -> Expr:
    new = call_intrin("tanh", s.gate(2, b, j))
    return s.sigmoid(1, b, j) * s.state(1, b, j) + s.sigmoid(0, b, j) * new


def _hidden(s: _Step, b: Expr, j: Expr) -> Expr:
    return s.sigmoid(3, b, j) * call_intrin("tanh", s.state(1, b, j, after=1))


def _gru(s: _Step, b: Expr, j: Expr) -> Expr:
    assert s.bias is not None
    inner = s.product(2, b, j) + BufferLoad(s.bias, (j,))
    new = call_intrin("tanh", s.known(2, b, j) + s.sigmoid(0, b, j) * inner)
    update = s.sigmoid(1, b, j)
    return (1.0 - update) * new + update * s.state(0, b, j)


def _tanh(s: _Step, b: Expr, j: Expr) -> Expr:
    return call_intrin("tanh", s.gate(0, b, j))


def _relu(s: _Step, b: Expr, j: Expr) -> Expr:
    return maximum(s.gate(0, b, j), 0.0)


CELLS = {
    "lstm": Cell(4, ((1, _cell_state), (0, _hidden))),
    "gru": Cell(3, ((0, _gru),)),
    "rnn_tanh": Cell(1, ((0, _tanh),)),
    "rnn_relu": Cell(1, ((0, _relu),)),
}
"""The kinds of layers by name."""


def recurrent(
    inputs: Tensor, state: Tensor, weight: Tensor, bias: Tensor | None = None, *, cell: str
) -> PrimFunc:
    """The states of all steps of a layer whose ``cell`` is one of CELLS; ``bias`` is a GRU's."""
    kind = CELLS[cell]
    if (bias is None) == (cell == "gru"):
        raise ComputeError(f"recurrent: a bias is for a GRU, which needs one; the cell is {cell}.")
    given = [inputs, state, weight] + ([] if bias is None else [bias])
    names = ("inputs", "state", "weight", "bias")
    params = [plain_buffer(x, n) for x, n in zip(given, names, strict=False)]
    steps, batch, width = inputs.shape
    units, dtype = state.shape[2], inputs.dtype
    out = Buffer("states", (add(steps, ONE), IntImm(kind.states), batch, units), dtype)
    gates = Buffer("gates", (batch, width), dtype)
    optional = params[3] if bias is not None else None

    def begin(*at: Expr) -> Stmt:
        return BufferStore(out, BufferLoad(params[1], at), (ZERO, *at))

    def step(t: Expr) -> Stmt:
        def zero(b: Expr, j: Expr, _: Expr) -> Stmt:
            return BufferStore(gates, const(0.0, str(dtype)), (b, j))

        def product(b: Expr, j: Expr, k: Expr) -> Stmt:
            term = BufferLoad(out, (t, ZERO, b, k)) * BufferLoad(params[2], (k, j))
            return BufferStore(gates, BufferLoad(gates, (b, j)) + term, (b, j))

        def after(number: int, formula: Formula) -> Stmt:
            def put(b: Expr, j: Expr) -> Stmt:
                return BufferStore(out, formula(at, b, j), (add(t, ONE), IntImm(number), b, j))

            return _block(f"state_{number}", (batch, units), put)

        at = _Step(params[0], gates, out, optional, t, units)
        return seq(
            _block("gates", (batch, width, units), product, zero, reduced=1),
            *[after(number, formula) for number, formula in kind.formulas],
        )

    body = seq(
        _block("first", state.shape, begin),
        _block("step", (steps,), step, kinds="opaque"),
    )
    root = Block("root", (), (), (), body, None, (gates,))
    attrs = (("tir.noalias", True), ("global_symbol", "recurrent"))
    realize = BlockRealize((), const(True, "bool"), root)
    return PrimFunc((*params, out), realize, attrs, "recurrent")


def _block(
    name: str,
    extents: Sequence[Expr],
    body: Callable[..., Stmt],
    init: Callable[..., Stmt] | None = None,
    *,
    reduced: int = 0,
    kinds: str = "spatial",
) -> Stmt:
    """A block under a loop for each of its axes, of which the last so many are ``reduced``."""
    axes = [Var(f"v{d}") for d in range(len(extents))]
    loops = [Var(f"i{d}") for d in range(len(extents))]
    made, begun = body(*axes), init(*axes) if init is not None else None
    iter_vars = tuple(
        [
            IterVar(v, Range(ZERO, extent), "reduce" if d >= len(extents) - reduced else kinds)
            for d, (v, extent) in enumerate(zip(axes, extents, strict=True))
        ]
    )
    reads, writes = infer_regions(made, begun, iter_vars)
    block = Block(name, iter_vars, reads, writes, made, begun)
    result: Stmt = BlockRealize(tuple(loops), const(True, "bool"), block)
    for v, extent in zip(reversed(loops), reversed(extents), strict=True):
        result = For(v, ZERO, extent, "serial", result)
    return result
