"""Recurrent layers: the steps of an LSTM, a GRU or a plain RNN, one after another in one function.

``inputs`` (T, B, G * H) is what is known of the G gates before the first step: all products with
the layer's inputs, and the biases that are added there. ``weight`` (H, P * H) is what the state of
a step is multiplied with for the first P gates (all G, but in the last cell below), ``state`` (S,
B, H) the first state: h and, for an LSTM, c. The result (T + 1, S, B, H) has the states of all
steps, the first one in front:

    states[0] = state
    for t in range(T):
        gates = states[t, 0] @ weight
        states[t + 1] = cell(inputs[t], gates, states[t])

Gates stand in PyTorch's order. LSTM (Hochreiter and Schmidhuber, 1997, with forget gates: input,
forget, cell, output), GRU (Cho et al., 2014: reset, update, new), RNN (Elman, 1990). A GRU has one
operand more, ``new``, of its new state. ``gru`` is the form of cuDNN: ``new`` (H,) is a bias, added
before the reset gate multiplies. In ``gru_reset_first``, the form of the paper, the reset gate
multiplies the state, and ``new`` (H, H) is what that is multiplied with:

    reset = sigmoid(inputs[t, 0] + gates[0]) * states[t, 0]
    gates[2] = reset @ new
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...support.errors import ComputeError
from ..arith import infer_regions
from ..buffer import Buffer, Range
from ..expr import INDEX, BufferLoad, Expr, IntImm, Var, add, const, maximum
from ..function import PrimFunc
from ..intrinsics import call_intrin
from ..stmt import Block, BlockRealize, BufferStore, For, IterVar, Stmt, seq
from ..te.compute import Tensor
from .rows import plain_buffer

ZERO, ONE = IntImm(0, INDEX), IntImm(1, INDEX)


@dataclass(frozen=True)
class _Step:
    """The buffers of a layer, at a step."""

    inputs: Buffer
    gates: Buffer
    states: Buffer
    new: Buffer | None
    """A GRU's bias, or its product of the state that the reset gate has multiplied."""
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
    rank_of_new: int = 0
    """Of the operand ``new``: 1 for a bias, 2 for a weight of its own, 0 where there is none."""

    @property
    def products(self) -> int:
        """The gates that the state of a step is multiplied for."""
        return self.gates - (self.rank_of_new == 2)

    @property
    def states(self) -> int:
        return len(self.formulas)


def _cell_state(s: _Step, b: Expr, j: Expr) -> Expr:
    new = call_intrin("tanh", s.gate(2, b, j))
    return s.sigmoid(1, b, j) * s.state(1, b, j) + s.sigmoid(0, b, j) * new


def _hidden(s: _Step, b: Expr, j: Expr) -> Expr:
    return s.sigmoid(3, b, j) * call_intrin("tanh", s.state(1, b, j, after=1))


def _gru(s: _Step, b: Expr, j: Expr) -> Expr:
    assert s.new is not None
    inner = s.product(2, b, j) + BufferLoad(s.new, (j,))
    return _updated(s, b, j, s.known(2, b, j) + s.sigmoid(0, b, j) * inner)


def _reset(s: _Step, b: Expr, j: Expr) -> Expr:
    return s.sigmoid(0, b, j) * s.state(0, b, j)


def _gru_reset_first(s: _Step, b: Expr, j: Expr) -> Expr:
    assert s.new is not None
    return _updated(s, b, j, s.known(2, b, j) + BufferLoad(s.new, (b, j)))


def _updated(s: _Step, b: Expr, j: Expr, new: Expr) -> Expr:
    update = s.sigmoid(1, b, j)
    return (1.0 - update) * call_intrin("tanh", new) + update * s.state(0, b, j)


def _tanh(s: _Step, b: Expr, j: Expr) -> Expr:
    return call_intrin("tanh", s.gate(0, b, j))


def _relu(s: _Step, b: Expr, j: Expr) -> Expr:
    return maximum(s.gate(0, b, j), 0.0)


CELLS = {
    "lstm": Cell(4, ((1, _cell_state), (0, _hidden))),
    "gru": Cell(3, ((0, _gru),), rank_of_new=1),
    "gru_reset_first": Cell(3, ((0, _gru_reset_first),), rank_of_new=2),
    "rnn_tanh": Cell(1, ((0, _tanh),)),
    "rnn_relu": Cell(1, ((0, _relu),)),
}
"""The kinds of layers by name."""


def recurrent(
    inputs: Tensor, state: Tensor, weight: Tensor, new: Tensor | None = None, *, cell: str
) -> PrimFunc:
    """The states of all steps of a layer whose ``cell`` is one of CELLS; ``new`` is a GRU's."""
    kind = CELLS[cell]
    if (new is None) == (kind.rank_of_new > 0):
        raise ComputeError(
            f"recurrent: an operand of the new state is for a GRU, which needs one; the cell is "
            f"{cell}."
        )
    given = [inputs, state, weight] + ([] if new is None else [new])
    names = ("inputs", "state", "weight", "new")
    params = [plain_buffer(x, n) for x, n in zip(given, names, strict=False)]
    steps, batch, _ = inputs.shape
    units, dtype = state.shape[2], inputs.dtype
    width = weight.shape[1]
    out = Buffer("states", (add(steps, ONE), IntImm(kind.states), batch, units), dtype)
    gates = Buffer("gates", (batch, width), dtype)
    own = [Buffer(name, (batch, units), dtype) for name in ("reset", "new_gate")]
    own = own if kind.rank_of_new == 2 else []

    def begin(*at: Expr) -> Stmt:
        return BufferStore(out, BufferLoad(params[1], at), (ZERO, *at))

    def step(t: Expr) -> Stmt:
        held = own[1] if own else params[3] if new is not None else None
        at = _Step(params[0], gates, out, held, t, units)

        def after(number: int, formula: Formula) -> Stmt:
            def put(b: Expr, j: Expr) -> Stmt:
                return BufferStore(out, formula(at, b, j), (add(t, ONE), IntImm(number), b, j))

            return _block(f"state_{number}", (batch, units), put)

        made = [_product("gates", (batch, width, units), gates, params[2], out, (t, ZERO))]
        if own:
            reset, gate = own

            def put_reset(b: Expr, j: Expr) -> Stmt:
                return BufferStore(reset, _reset(at, b, j), (b, j))

            made.append(_block("reset", (batch, units), put_reset))
            made.append(_product("new_gate", (batch, units, units), gate, params[3], reset))
        return seq(*made, *[after(number, formula) for number, formula in kind.formulas])

    body = seq(
        _block("first", state.shape, begin),
        _block("step", (steps,), step, kinds="opaque"),
    )
    root = Block("root", (), (), (), body, None, (gates, *own))
    attrs = (("tir.noalias", True), ("global_symbol", "recurrent"))
    realize = BlockRealize((), const(True, "bool"), root)
    return PrimFunc((*params, out), realize, attrs, "recurrent")


def _product(
    name: str,
    extents: tuple[Expr, Expr, Expr],
    out: Buffer,
    weight: Buffer,
    state: Buffer,
    place: tuple[Expr, ...] = (),
) -> Stmt:
    """``out`` is the product of a state, at a place of its buffer, and a weight."""

    def zero(b: Expr, j: Expr, _: Expr) -> Stmt:
        return BufferStore(out, const(0.0, str(out.dtype)), (b, j))

    def product(b: Expr, j: Expr, k: Expr) -> Stmt:
        term = BufferLoad(state, (*place, b, k)) * BufferLoad(weight, (k, j))
        return BufferStore(out, BufferLoad(out, (b, j)) + term, (b, j))

    return _block(name, extents, product, zero, reduced=1)


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
