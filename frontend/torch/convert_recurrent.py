"""Recurrent layers of torch, kept whole: LSTM, GRU and RNN as one operator for each direction.

torch decomposes such a layer into its steps, one by one, so that the number of them would have to
be known, and a layer of a thousand steps has thousands of operators. While a module that has one
is exported, the functions below them (``torch.lstm`` ...) are written with ``burnish::recurrent``,
an operator that stays in the program and is the graph's ``recurrent`` there.

What has no such form is left to torch: layers that drop while they train, projections, packed
sequences, dtypes without a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Node
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from ...graphir.expr import Atom
from .registry import Context, converts

_CELLS: dict[Any, str] = {
    torch.lstm: "lstm",
    torch.gru: "gru",
    torch.rnn_tanh: "rnn_tanh",
    torch.rnn_relu: "rnn_relu",
}
_HALVES = (torch.float16, torch.bfloat16)
"""Computed in float32, and rounded once: the operator has no kernels for them."""
_DTYPES = (torch.float32, torch.float64, *_HALVES)


@torch.library.custom_op("burnish::recurrent", mutates_args=())
def steps_of(
    inputs: Tensor, state: Tensor, weight: Tensor, bias: Tensor | None, cell: str
) -> Tensor:
    """The states (T + 1, S, B, H) of ``tensorir.operators.recurrent``, step by step."""
    states = [state]
    for x in inputs:
        h, gates = states[-1][0], states[-1][0] @ weight
        if cell == "lstm":
            i, f, g, o = (x + gates).chunk(4, -1)
            c = f.sigmoid() * states[-1][1] + i.sigmoid() * g.tanh()
            states.append(torch.stack([o.sigmoid() * c.tanh(), c]))
            continue
        if cell == "gru":
            assert bias is not None
            (r, z, n), (hr, hz, hn) = x.chunk(3, -1), gates.chunk(3, -1)
            new = (n + (r + hr).sigmoid() * (hn + bias)).tanh()
            update = (z + hz).sigmoid()
            h = (1 - update) * new + update * h
        else:
            h = (x + gates).tanh() if cell == "rnn_tanh" else (x + gates).relu()
        states.append(h.unsqueeze(0))
    return torch.stack(states)


@steps_of.register_fake
def _(inputs: Tensor, state: Tensor, weight: Tensor, bias: Tensor | None, cell: str) -> Tensor:
    return inputs.new_empty((inputs.shape[0] + 1, *state.shape))


@converts("burnish.recurrent.default")
def recurrent(context: Context, node: Node) -> Atom:
    *operands, cell = node.args
    atoms = [context.operand(x) for x in operands if x is not None]
    return context.op("recurrent", *atoms, cell=cell)


class WholeLayers(TorchFunctionMode):
    """Calls of ``torch.lstm`` and its like are written with the operator."""

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        cell = _CELLS.get(func)
        if cell is not None and not kwargs and _is_plain(args):
            if args[0].dtype not in _HALVES:
                return _layers(cell, *args)
            wide = pytree.tree_map_only(Tensor, Tensor.float, list(args))
            return tuple([found.to(args[0].dtype) for found in _layers(cell, *wide)])
        return func(*args, **(kwargs or {}))


def has_layers(module: nn.Module) -> bool:
    """Whether a module has recurrent layers."""
    return any(isinstance(m, nn.RNNBase) for m in module.modules())


def _is_plain(args: Sequence[Any]) -> bool:
    """Whether all is as the operator has it: a tensor of rows of equal length, two weights a
    direction, no dropout."""
    if len(args) != 9 or not isinstance(args[0], Tensor) or isinstance(args[2], Tensor):
        return False  # a packed sequence has its batch sizes in the second place
    x, _, weights, has_biases, layers, dropout, train, bidirectional, _ = args
    each = (4 if has_biases else 2) * layers * (2 if bidirectional else 1)
    return x.dtype in _DTYPES and len(weights) == each and not (train and dropout > 0)


def _layers(
    cell: str,
    x: Tensor,
    first: Tensor | Sequence[Tensor],
    weights: Sequence[Tensor],
    has_biases: bool,
    layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, ...]:
    """What the functions give: the outputs of the last layer, and the last states of all."""
    directions, each = 2 if bidirectional else 1, 4 if has_biases else 2
    begun = [first] if isinstance(first, Tensor) else list(first)
    last: list[list[Tensor]] = [[] for _ in begun]
    x = x.transpose(0, 1) if batch_first else x
    for layer in range(layers):
        outputs = []
        for d in range(directions):
            at = layer * directions + d
            own = weights[at * each : (at + 1) * each]
            state = torch.stack([s[at] for s in begun])
            rows, ends = _direction(cell, x, state, own, backwards=d == 1)
            outputs.append(rows)
            for kept, end in zip(last, ends, strict=True):
                kept.append(end)
        x = outputs[0] if directions == 1 else torch.cat(outputs, -1)
    x = x.transpose(0, 1) if batch_first else x
    return (x, *[torch.stack(kept) for kept in last])


def _direction(
    cell: str, x: Tensor, state: Tensor, weights: Sequence[Tensor], *, backwards: bool
) -> tuple[Tensor, list[Tensor]]:
    w, r, *biases = weights
    added, own = None, None
    if biases:
        first, second = biases
        if cell == "gru":
            units = r.shape[1]
            own = second[2 * units :]
            second = torch.cat([second[: 2 * units], torch.zeros_like(own)])
        added = first + second
    elif cell == "gru":
        own = w.new_zeros(r.shape[1])
    known = nn.functional.linear(x.flip(0) if backwards else x, w, added)
    operator: Callable[..., Tensor] = torch.ops.burnish.recurrent
    states = operator(known, state, r.t(), own, cell)
    rows = states[1:, 0]
    end = states.narrow(0, known.shape[0], 1).squeeze(0)
    return rows.flip(0) if backwards else rows, [end[i] for i in range(state.shape[0])]
