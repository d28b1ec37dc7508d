"""Attention of com.microsoft with named sizes, beside NumPy by its documentation: one program for
all numbers of sequences, tokens and keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burnish
from burnish import errors
from burnish.driver.compile import CompiledModel
from burnish.tests.frontend.onnx.oracle import model
from burnish.tests.frontend.onnx.test_convert_contrib import (
    attend,
    floats,
    heads,
    joined,
    near,
    turned,
)

RNG = np.random.default_rng(0)


def compiled(
    call: str, inputs: str, outputs: str = "float y", **weights: np.ndarray
) -> CompiledModel:
    names = ", ".join(o.split()[-1] for o in outputs.split(","))
    body = f"{names} = com.microsoft.{call}"
    domains = ', "com.microsoft": 1'
    return burnish.compile(model(body, inputs, outputs=outputs, weights=weights, domains=domains))


def repeated(x: np.ndarray, count: int) -> np.ndarray:
    return np.repeat(x, count // x.shape[1], axis=1)


def test_packed_weights_and_lengths() -> None:
    w, b = floats(8, 24), floats(24)
    made = compiled(
        "Attention<num_heads = 2>(x, w, b, m)", "float[B, T, 8] x, int32[B] m", w=w, b=b
    )
    for batch, tokens in ((2, 3), (1, 1), (3, 5)):
        x, lengths = floats(batch, tokens, 8), RNG.integers(1, tokens + 1, batch).astype(np.int32)
        q, k, v = (heads(p, 2) for p in np.split(x @ w + b, 3, -1))
        mask = np.where(np.arange(tokens) < lengths[:, None], 0, -1e9)[:, None, None]
        near(made(x, lengths), joined(attend(q, k, v, mask)), 1e-4)
    assert made.compilations == 1


@pytest.mark.parametrize("size", [1, 3])
def test_ends_and_begins(size: int) -> None:
    """As ONNX Runtime documents a mask_index of (2 * batch,)."""
    w, b = floats(8, 24), floats(24)
    inputs = f"float[{size}, T, 8] x, int32[{2 * size}] m"
    made = compiled("Attention<num_heads = 2>(x, w, b, m)", inputs, w=w, b=b)
    x = floats(size, 5, 8)
    ends = RNG.integers(3, 6, size).astype(np.int32)
    begins = RNG.integers(0, 3, size).astype(np.int32)
    q, k, v = (heads(p, 2) for p in np.split(x @ w + b, 3, -1))
    inside = (np.arange(5) < ends[:, None]) & (np.arange(5) >= begins[:, None])
    added = np.where(inside, 0, -1e9)[:, None, None]
    near(made(x, np.concatenate([ends, begins])), joined(attend(q, k, v, added)), 1e-4)


def test_another_number_of_lengths_is_refused() -> None:
    call, inputs = "Attention<num_heads = 2>(x, w, b, m)", "float[2, T, 8] x, int32[8] m"
    with pytest.raises(errors.FrontendError, match=r"as there are sequences \(2\).*found 8"):
        compiled(call, inputs, w=floats(8, 24), b=floats(24))(floats(2, 5, 8), np.ones(8, np.int32))


def test_causal_queries_behind_past_keys() -> None:
    w, b = floats(8, 24), floats(24)
    made = compiled(
        "Attention<num_heads = 2, unidirectional = 1>(x, w, b, , p)",
        "float[B, T, 8] x, float[2, B, 2, P, 4] p", "float y, float n", w=w, b=b,
    )  # fmt: skip
    for batch, tokens, before in ((2, 3, 4), (1, 1, 7), (1, 4, 0)):
        x, past = floats(batch, tokens, 8), floats(2, batch, 2, before, 4)
        q, k, v = (heads(p, 2) for p in np.split(x @ w + b, 3, -1))
        k, v = np.concatenate([past[0], k], 2), np.concatenate([past[1], v], 2)
        ahead = np.arange(tokens + before) > np.arange(tokens)[:, None] + before
        y, present = made(x, past)
        near(y, joined(attend(q, k, v, np.where(ahead, -1e9, 0))), 1e-4)
        near(present, np.stack([k, v]))
    assert made.compilations == 1


def test_queries_of_others_keys_and_a_mask() -> None:
    made = compiled(
        "MultiHeadAttention<num_heads = 2>(q, k, v, , m)",
        "float[B, T, 8] q, float[B, S, 8] k, float[B, S, 8] v, int32[B, S] m",
    )
    for batch, tokens, keys in ((2, 3, 4), (1, 6, 2)):
        q, k, v = floats(batch, tokens, 8), floats(batch, keys, 8), floats(batch, keys, 8)
        mask = np.ones((batch, keys), np.int32)
        mask[0, -1] = 0
        added = np.where(mask, 0, -1e9)[:, None, None]
        near(made(q, k, v, mask), joined(attend(*(heads(x, 2) for x in (q, k, v)), added)), 1e-4)
    assert made.compilations == 1


def test_turned_queries() -> None:
    table = floats(20, 2)
    made = compiled(
        "RotaryEmbedding(x, p, c, s)", "float[B, T, 8] x, int64[B, T] p", c=table, s=table[::-1]
    )
    for batch, tokens in ((2, 3), (1, 7)):
        x, at = floats(batch, tokens, 8), RNG.integers(0, 20, (batch, tokens))
        rows = (t[at][:, None] for t in (table, table[::-1]))
        near(made(x, at), joined(turned(heads(x, 2), *rows)))
    assert made.compilations == 1


def _expected(
    values: dict[str, Any], lengths: np.ndarray, total: int, table: np.ndarray, **options: Any
) -> list[np.ndarray]:
    """Of grouped queries: sequences of ``lengths`` keys with the tokens, one after another."""
    q, k, v = (values[n] for n in "qkv")
    q, k, v = heads(q, 4), heads(k, 2), heads(v, 2)
    tokens, past = q.shape[2], values["p"].shape[2]
    long = max(total, past)
    results = []
    for b, length in enumerate(lengths):
        begin = 0 if tokens == total else length - tokens
        at = begin + np.arange(tokens)
        keys = np.zeros((2, 2, long, 4), np.float32)
        keys[:, :, :past] = values["p"][b]
        rows = table[at], table[::-1][at]
        own = turned(k[b], *rows)
        keys[0, :, at], keys[1, :, at] = own.swapaxes(0, 1), v[b].swapaxes(0, 1)
        hidden = np.arange(long) > at[:, None]
        if "window" in options:
            hidden |= np.arange(long) < at[:, None] - options["window"] + 1
        scores = turned(q[b], *rows) @ repeated(keys[:1], 4)[0].swapaxes(-1, -2) / 2
        if "cap" in options:
            scores = np.tanh(scores / options["cap"]) * options["cap"]
        weights = np.exp(np.where(hidden, -1e9, scores))
        weights /= weights.sum(-1, keepdims=True)
        results.append((weights @ repeated(keys[1:], 4)[0], *keys))
    y, keys, present = (np.stack(r) for r in zip(*results, strict=True))
    return [joined(y), keys, present]


@pytest.mark.parametrize(
    ("attributes", "options"),
    [
        ("", {}),
        (", local_window_size = 2", {"window": 2}),
        (", softcap = 1.5", {"cap": 1.5}),
    ],
)
def test_keys_that_several_queries_share(attributes: str, options: dict[str, Any]) -> None:
    """As builders of language models write it: first calls, single tokens behind past keys of one
    length or of several, and a cache that is longer than all keys."""
    table = floats(20, 2)
    made = compiled(
        f"GroupQueryAttention<num_heads = 4, kv_num_heads = 2, do_rotary = 1{attributes}>"
        "(q, k, v, p, p, n, t, c, s)",
        "float[B, T, 16] q, float[B, T, 8] k, float[B, T, 8] v, float[B, 2, P, 4] p, "
        "int32[B] n, int32 t",
        "float y, float a, float b", c=table, s=table[::-1],
    )  # fmt: skip
    cases = [
        (1, 3, 0, [3], 3),
        (1, 1, 3, [4], 4),
        (2, 1, 6, [5, 7], 7),
        (1, 2, 5, [7], 7),
        (1, 1, 12, [6], 6),
    ]
    for batch, tokens, past, lengths, total in cases:
        values = {n: floats(batch, tokens, s) for n, s in (("q", 16), ("k", 8), ("v", 8))}
        values["p"] = floats(batch, 2, past, 4)
        last = np.array(lengths, np.int32) - 1
        found = made(*values.values(), last, np.array(total, np.int32))
        expected = _expected(values, np.array(lengths), total, table, **options)
        near(found[0], expected[0], 1e-4)
        for f, e in zip(found[1:], expected[1:], strict=True):
            assert f.shape == e.shape
            for b, length in enumerate(lengths):  # what is behind a sequence means nothing
                near(f[b, :, :length], e[b, :, :length], 1e-4)
    assert made.compilations == 1
