"""The operator ``recurrent`` in NumPy, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np

GATES = {"lstm": 4, "gru": 3, "gru_reset_first": 3, "rnn_tanh": 1, "rnn_relu": 1}


def sigmoid(x: np.ndarray) -> np.ndarray:
    result: np.ndarray = 1 / (1 + np.exp(-x))
    return result


def recurrent(
    inputs: np.ndarray,
    state: np.ndarray,
    weight: np.ndarray,
    new: np.ndarray | None = None,
    *,
    cell: str,
) -> np.ndarray:
    """The states of all steps, the given one first."""
    states: list[Any] = [state]
    for x in inputs:
        h, gates = states[-1][0], states[-1][0] @ weight
        if cell == "lstm":
            i, f, g, o = np.split(x + gates, 4, -1)
            c = sigmoid(f) * states[-1][1] + sigmoid(i) * np.tanh(g)
            states.append(np.stack([sigmoid(o) * np.tanh(c), c]))
        elif cell == "gru":
            (r, z, n), (hr, hz, hn) = np.split(x, 3, -1), np.split(gates, 3, -1)
            made = np.tanh(n + sigmoid(r + hr) * (hn + new))
            update = sigmoid(z + hz)
            states.append(((1 - update) * made + update * h)[None])
        elif cell == "gru_reset_first":
            (r, z, n), (hr, hz) = np.split(x, 3, -1), np.split(gates, 2, -1)
            made = np.tanh(n + (sigmoid(r + hr) * h) @ np.asarray(new))
            update = sigmoid(z + hz)
            states.append(((1 - update) * made + update * h)[None])
        else:
            sums = x + gates
            states.append((np.tanh(sums) if cell == "rnn_tanh" else np.maximum(sums, 0))[None])
    return np.stack(states)


def operands(cell: str, steps: int, rows: int, units: int, dtype: str = "float32") -> list[Any]:
    """Random ones, of weights that keep the states from chaos."""
    rng, width = np.random.default_rng(0), GATES[cell] * units
    is_split = cell == "gru_reset_first"
    shapes: list[tuple[int, ...]] = [
        (steps, rows, width),
        (2 if cell == "lstm" else 1, rows, units),
        (units, 2 * units if is_split else width),
    ]
    shapes += [(units, units)] if is_split else [(units,)] if cell == "gru" else []
    scales = (1.0, 1.0, units**-0.5, units**-0.5 if is_split else 1.0)
    return [
        (rng.uniform(-1, 1, shape) * scale).astype(dtype)
        for shape, scale in zip(shapes, scales, strict=False)
    ]
