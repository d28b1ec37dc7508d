"""RNN, GRU and LSTM of ONNX.

What PyTorch and Keras export is the operator ``recurrent``, one kernel for any number of steps.
Cells of another kind (other activations, peepholes, clipping, lengths of rows) have a few steps
written out, and more, or a symbolic number of them, as a loop of the program.

With H hidden units, a gate's row of W, R and B is H numbers; gates stand in ONNX's order (GRU:
update, reset, hidden; LSTM: input, output, forget, cell). All gates' products with the inputs of
all steps are one product before the first step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from onnx import NodeProto

from ...graphir.dim import static_value
from ...graphir.expr import Atom, Constant, constant
from ...support.aligned import aligned_copy
from ...support.errors import FrontendError
from ...tensorir.expr import Expr
from ..term import join, stack
from .data_loops import Iteration, Lift, repeat
from .data_sizes import counted, positions
from .registry import Context, ShapeValue, Value, attribute, converts, node_name
from .term import Term

Activation = Callable[[Term], Term]
MOST_STEPS = 256
"""That are written out, which is faster to run, and each step of which has to be compiled."""
_ORDERS = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
"""Where the operator's gates stand among ONNX's."""
_DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
_ALPHAS = {
    "leakyrelu": 0.01, "thresholdedrelu": 1.0, "hardsigmoid": 0.2, "elu": 1.0,
    "scaledtanh": 1.0, "affine": 1.0,
}  # fmt: skip
_BETAS = {"hardsigmoid": 0.5, "scaledtanh": 1.0, "affine": 0.0}
"""What the activations that have these numbers take where the node gives none."""


def _taken(names: Sequence[str], given: Sequence[float], defaults: dict[str, float]) -> list[float]:
    """A number for each activation: those that have one take the given ones in order."""
    rest = iter(given)
    return [next(rest, defaults[n]) if n in defaults else 0.0 for n in map(str.lower, names)]


def activation(node: NodeProto, name: str, a: float, b: float) -> Activation:
    """An activation by its name, with its alpha and beta."""
    table: dict[str, Activation] = {
        "Tanh": lambda x: x.op("tanh"),
        "Sigmoid": lambda x: x.op("sigmoid"),
        "Relu": lambda x: x.op("relu"),
        "Affine": lambda x: x * a + b,
        "LeakyRelu": lambda x: x.op("leaky_relu", negative_slope=a),
        "ThresholdedRelu": lambda x: (x > a).where(x, 0.0),
        "ScaledTanh": lambda x: (x * b).op("tanh") * a,
        "HardSigmoid": lambda x: (x * a + b).op("clip", min=0.0, max=1.0),
        "Elu": lambda x: x.op("elu", alpha=a),
        "Softsign": lambda x: x / (x.op("abs") + 1.0),
        "Softplus": lambda x: x.op("softplus"),
    }
    known = {key.lower(): value for key, value in table.items()}
    if name.lower() not in known:
        raise FrontendError(f"{node_name(node)}: activation {name!r} is unknown.")
    return known[name.lower()]


@dataclass
class _Cell:
    """The weights of one direction, and how one step goes."""

    kind: str
    w: Term
    r: Term
    bias: list[Term] | None
    """Those of W, then those of R, each of all gates."""
    peephole: list[Term]
    """LSTM: of the input, output and forget gate."""
    act: list[Activation]
    clip: float | None
    linear_before_reset: bool
    coupled: bool
    names: tuple[str, ...]
    """Of the activations."""

    @property
    def operator(self) -> str | None:
        """What the operator ``recurrent`` calls the cell; None for one that it does not know."""
        names = [n.lower() for n in self.names]
        defaults = [n.lower() for n in _DEFAULTS[self.kind]]
        is_known = names == defaults or (self.kind == "RNN" and names == ["relu"])
        is_plain = self.clip is None and not self.peephole and not self.coupled
        if not is_known or not is_plain or str(self.r.dtype) not in ("float32", "float64"):
            return None
        if self.kind == "GRU":
            return "gru" if self.linear_before_reset else "gru_reset_first"
        return "lstm" if self.kind == "LSTM" else f"rnn_{names[0]}"

    def seen_by(self, lift: Callable[[Term], Term]) -> _Cell:
        """The cell whose weights are those of a loop's body."""
        bias = None if self.bias is None else [lift(b) for b in self.bias]
        peephole = [lift(p) for p in self.peephole]
        return replace(self, w=lift(self.w), r=lift(self.r), bias=bias, peephole=peephole)

    def clipped(self, x: Term) -> Term:
        return x if self.clip is None else x.op("clip", min=-self.clip, max=self.clip)

    def inputs(self, x: Term) -> Term:
        """The part of all gates that is known before the first step."""
        made = x @ self.w.swap()
        return made if self.bias is None else made + self.bias[0]

    def step(self, x: Term, h: Term, c: Term | None) -> tuple[Term, Term | None]:
        if self.kind == "GRU":
            return self._gru(x, h), None
        recurrent = h @ self.r.swap()
        gates = x + (recurrent if self.bias is None else recurrent + self.bias[1])
        if self.kind == "RNN":
            return self.act[0](self.clipped(gates)), None
        assert c is not None
        return self._lstm(gates, c)

    def _gru(self, x: Term, h: Term) -> Term:
        xz, xr, xh = x.parts(-1, 3)
        rz, rr, rh = [h @ r.swap() for r in self.r.parts(0, 3)]
        bz, br, bh = [None] * 3 if self.bias is None else self.bias[1].parts(-1, 3)
        z = self.act[0](self.clipped(xz + _plus(rz, bz)))
        reset = self.act[0](self.clipped(xr + _plus(rr, br)))
        if self.linear_before_reset:
            inner = reset * _plus(rh, bh)
        else:
            inner = _plus((reset * h) @ self.r.parts(0, 3)[2].swap(), bh)
        hidden = self.act[1](self.clipped(xh + inner))
        return (1.0 - z) * hidden + z * h

    def _lstm(self, gates: Term, c: Term) -> tuple[Term, Term]:
        i, o, f, g = gates.parts(-1, 4)
        pi, po, pf = self.peephole or (None, None, None)
        i = self.act[0](self.clipped(_plus(i, pi and c * pi)))
        f = 1.0 - i if self.coupled else self.act[0](self.clipped(_plus(f, pf and c * pf)))
        c = f * c + i * self.act[1](self.clipped(g))
        o = self.act[0](self.clipped(_plus(o, po and c * po)))
        return o * self.act[2](c), c


def _plus(x: Term, y: Term | None) -> Term:
    return x if y is None else x + y


@converts("RNN", "GRU", "LSTM", "com.microsoft.DynamicQuantizeLSTM")
def recurrent(context: Context, node: NodeProto) -> list[Value]:
    """Y of all steps, and the last state (for LSTM that of the cell, too). Of weights that are
    bytes the numbers are taken, and inputs are not rounded to bytes."""
    kind, where = node.op_type.removeprefix("DynamicQuantize"), node_name(node)

    def term(index: int) -> Term | None:
        given = context.raw(node, index) is not None
        return Term(context, context.operand(node, index)) if given else None

    x = Term(context, context.operand(node, 0))
    batch_first = bool(attribute(node, "layout", 0))
    if batch_first:
        x = x.permute(1, 0, 2)
    if x.ndim != 3:
        raise FrontendError(f"{where}: expected an input of 3 dims, found {x.ndim}.")
    steps, batch, _ = x.shape
    count = static_value(steps)
    w, r = term(1), term(2)
    assert w is not None
    assert r is not None
    if kind != node.op_type:
        w, r = (_widened(where, x, term(i), term(i + 1)) for x, i in ((w, 8), (r, 10)))
    directions, units = w.sizes(where)[0], r.sizes(where)[-1]
    states = [_state(x, term(i), directions, batch, units, batch_first) for i in (5, 6)]
    lengths = term(4)
    found: list[list[Term]] = []
    for d in range(directions):
        weights = [None if t is None else _direction(t, d) for t in (w, r, term(3), term(7))]
        cell = _cell(node, kind, d, *weights)
        direction = str(attribute(node, "direction", "forward"))
        backwards = direction == "reverse" or d == 1
        h, c = states[0].at(0, d), states[1].at(0, d) if kind == "LSTM" else None
        if lengths is None and cell.operator is not None:
            found.append(_whole(cell, cell.operator, x, h, c, backwards=backwards))
        elif count is not None and count <= MOST_STEPS:
            found.append(_run(cell, x, h, c, lengths, range(count)[:: -1 if backwards else 1]))
        else:
            found.append(_loop(node, cell, x, h, c, lengths, backwards=backwards))
    results = [stack(parts, 1 if i == 0 else 0) for i, parts in enumerate(zip(*found, strict=True))]
    if batch_first:
        orders = ((2, 0, 1, 3), (1, 0, 2), (1, 0, 2))
        results = [t.permute(*order) for t, order in zip(results, orders, strict=False)]
    return [t.atom for t in results]


def _widened(where: str, weight: Term, scale: Term | None, zero: Term | None) -> Term:
    """A weight of bytes, whose last axis is that of the gates, as LSTM has it; a scale and a zero
    point for each direction, or for each gate's row too."""
    if scale is None:
        raise FrontendError(f"{where}: a weight of {weight.dtype} needs a scale.")

    def fitted(x: Term) -> Term:
        return x.cast("float32").unsqueeze(*((1,) if x.ndim == 2 else (1, 2)))

    numbers = weight.cast("float32")
    numbers = numbers if zero is None else numbers - fitted(zero)
    return (numbers * fitted(scale)).swap()


def _direction(weight: Term, d: int) -> Term:
    """The part of a weight for one direction: a constant of a constant, so that a loop's body has
    it as one."""
    context, atom = weight.context, weight.atom
    if not isinstance(atom, Constant):
        return weight.at(0, d)
    part = aligned_copy(context.array(atom)[d])
    return Term(context, context.builder.weights.add(atom.name or "w", part, weight.dtype))


def _state(
    x: Term, given: Term | None, directions: int, batch: Expr, units: int, batch_first: bool
) -> Term:
    if given is None:
        return x.data(0.0).expand(directions, batch, units)
    return given.permute(1, 0, 2) if batch_first else given


def _cell(
    node: NodeProto,
    kind: str,
    d: int,
    w: Term | None,
    r: Term | None,
    b: Term | None,
    p: Term | None,
) -> _Cell:
    assert w is not None
    assert r is not None
    each = len(_DEFAULTS[kind])
    names = [n.decode() if isinstance(n, bytes) else n for n in attribute(node, "activations", [])]
    names = names or _DEFAULTS[kind] * (d + 1)
    alphas = _taken(names, attribute(node, "activation_alpha", []), _ALPHAS)
    betas = _taken(names, attribute(node, "activation_beta", []), _BETAS)
    chosen = range(d * each, (d + 1) * each)
    acts = [activation(node, names[i], alphas[i], betas[i]) for i in chosen]
    clip = attribute(node, "clip")
    return _Cell(
        kind, w, r,
        None if b is None else b.parts(0, 2),
        [] if p is None else p.parts(0, 3),
        acts,
        None if clip is None else float(clip),
        bool(attribute(node, "linear_before_reset", 0)),
        bool(attribute(node, "input_forget", 0)),
        tuple([names[i] for i in chosen]),
    )  # fmt: skip


def _turned(x: Term, steps: Expr) -> Term:
    """The rows of all steps, the last one first."""
    if static_value(steps) is not None:
        return x.cut(0, None, None, -1)
    last = counted(x.context, steps) - 1
    return x.op("take", last - positions(x.context, steps), axis=0)


def _whole(
    cell: _Cell, operator: str, x: Term, h: Term, c: Term | None, *, backwards: bool
) -> list[Term]:
    """All steps as the one operator, whose gates stand in PyTorch's order."""

    def ordered(rows: Term) -> Term:
        parts = rows.parts(0, len(_ORDERS[cell.kind]))
        return join([parts[i] for i in _ORDERS[cell.kind]], 0)

    steps = x.shape[0]
    x = _turned(x, steps) if backwards else x
    operands = [ordered(cell.r).swap()]
    first, second = (None, None) if cell.bias is None else map(ordered, cell.bias)
    if operator == "gru_reset_first":
        reset, update, new = ordered(cell.r).parts(0, 3)
        operands = [join([reset, update], 0).swap(), new.swap()]
    elif operator == "gru" and second is not None:
        *added, new = second.parts(0, 3)
        second = join([*added, new * 0.0], 0)
        operands.append(new)
    elif operator == "gru":
        operands.append(x.data(np.zeros(h.sizes("GRU")[-1:])))
    biases = [] if first is None or second is None else [first + second]
    known = x.op("linear", ordered(cell.w), *biases)
    begun = stack([h] if c is None else [h, c], 0)
    states = known.op("recurrent", begun, *operands, cell=operator)
    if static_value(steps) is None:
        rows = states.op("take", positions(x.context, steps) + 1, axis=0)
        last = states.op("take", counted(x.context, steps), axis=0)
    else:
        rows, last = states.cut(0, 1, None), states.at(0, -1)
    rows = rows.at(1, 0)
    rows = _turned(rows, steps) if backwards else rows
    return [rows, *[last.at(0, i) for i in range(1 if c is None else 2)]]


def _run(
    cell: _Cell, x: Term, h: Term, c: Term | None, lengths: Term | None, order: Sequence[int]
) -> list[Term]:
    """The states of all steps, and the last ones. Behind a row's own length nothing changes, and
    its outputs are 0."""
    known = cell.inputs(x)
    outputs: dict[int, Term] = {}
    for t in order:
        new, cell_state = cell.step(known.at(0, t), h, c)
        if lengths is None:
            h, c, outputs[t] = new, cell_state, new
            continue
        runs = (lengths > t).unsqueeze(1)
        h, outputs[t] = runs.where(new, h), runs.where(new, 0.0)
        if c is not None and cell_state is not None:
            c = runs.where(cell_state, c)
    rows = stack([outputs[t] for t in sorted(outputs)], 0)
    return [rows, h] if c is None else [rows, h, c]


def _loop(
    node: NodeProto,
    cell: _Cell,
    x: Term,
    h: Term,
    c: Term | None,
    lengths: Term | None,
    *,
    backwards: bool,
) -> list[Term]:
    """The same as a loop of the program."""
    context, steps = x.context, x.shape[0]
    last, known = counted(context, steps) - 1, cell.inputs(x)

    def iteration(i: Atom, carried: Sequence[Atom], lift: Lift) -> Iteration:
        def inside(term: Term) -> Term:
            return Term(context, context.tensor(lift(term.atom), node_name(node)))

        at = Term(context, i)
        at = inside(last) - at if backwards else at
        h, *cells = [Term(context, a) for a in carried]
        c = cells[0] if cells else None
        row = inside(known).op("take", at, axis=0)
        new, cell_state = cell.seen_by(inside).step(row, h, c)
        output = new
        if lengths is not None:
            runs = (inside(lengths).cast("int64") > at).unsqueeze(1)
            new, output = runs.where(new, h), runs.where(new, 0.0)
            if c is not None and cell_state is not None:
                cell_state = runs.where(cell_state, c)
        states = [new] if cell_state is None else [new, cell_state]
        return Iteration(constant(np.array(True)), [s.atom for s in states], [output.atom])

    begun: list[Value] = [h.atom] if c is None else [h.atom, c.atom]
    limit, goes_on = ShapeValue((steps,), scalar=True), constant(np.array(True))
    made = repeat(context, node, limit, goes_on, begun, iteration, collects=True)
    if isinstance(made, str):
        raise FrontendError(f"{node_name(node)}: its {steps} steps are no loop: {made}")
    states = [Term(context, context.tensor(v, node_name(node))) for v in made]
    rows = states.pop()
    return [_turned(rows, steps) if backwards else rows, *states]
