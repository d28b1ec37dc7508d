"""Operators of com.microsoft, beside NumPy by their documentation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from burnish.driver.compile import compile
from burnish.frontend.onnx import import_onnx
from burnish.tests.frontend.onnx.oracle import evaluate, model, refusal

RNG = np.random.default_rng(0)
_NAMES = {n: n for n in ("int64", "int32", "uint8", "int8", "bool")} | {"float32": "float"}


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def run(
    call: str, outputs: int = 1, reads: Sequence[int] | None = None, **values: Any
) -> list[np.ndarray]:
    """The results of ``call``, a node of the domain, on inputs by name; those that are read."""
    arrays = {name: np.asarray(v) for name, v in values.items()}
    inputs = ", ".join(
        f"{_NAMES[str(a.dtype)]}{list(a.shape) if a.ndim else ''} {n}" for n, a in arrays.items()
    )
    names = [f"y{i}" for i in range(outputs)]
    body = f"{', '.join(names)} = com.microsoft.{call}"
    given = ", ".join(f"float {names[i]}" for i in reads or range(outputs))
    made = model(body, inputs, outputs=given, domains=', "com.microsoft": 1')
    return evaluate(import_onnx(made), arrays)


def near(found: np.ndarray, expected: Any, tolerance: float = 1e-5) -> None:
    np.testing.assert_allclose(found, np.asarray(expected), rtol=tolerance, atol=tolerance)


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: Any = 0.0) -> np.ndarray:
    """Of (batch, heads, tokens, size)."""
    return softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) + mask) @ v


def heads(x: np.ndarray, count: int) -> np.ndarray:
    return x.reshape(*x.shape[:2], count, -1).swapaxes(1, 2)


def joined(x: np.ndarray) -> np.ndarray:
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)


def test_gelus() -> None:
    x, b = floats(2, 4), floats(4)
    exact = torch.nn.functional.gelu(torch.from_numpy(x + b)).numpy()
    near(run("BiasGelu(x, b)", x=x, b=b)[0], exact)
    tanh = torch.nn.functional.gelu(torch.from_numpy(x + b), approximate="tanh").numpy()
    near(run("FastGelu(x, b)", x=x, b=b)[0], tanh)
    near(run("QuickGelu<alpha = 2.0>(x)", x=x)[0], x / (1 + np.exp(-2 * x)))


def test_norms_of_sums() -> None:
    x, s, g, b, c = floats(2, 3, 4), floats(2, 3, 4), floats(4), floats(4), floats(4)
    total = x + s + c
    call = "SkipLayerNormalization(x, s, g, b, c)"
    y, *_, sums = run(call, 4, reads=(0, 3), x=x, s=s, g=g, b=b, c=c)
    centred = total - total.mean(-1, keepdims=True)
    near(y, centred / np.sqrt(total.var(-1, keepdims=True) + 1e-12) * g + b)
    near(sums, total)
    y = run("SimplifiedLayerNormalization(x, g)", x=x, g=g)[0]
    near(y, x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g)


def test_products_transposed_and_scaled() -> None:
    a, b = floats(2, 4, 3), floats(2, 5, 4)
    found = run("FusedMatMul<transA = 1, transB = 1, alpha = 0.5>(a, b)", a=a, b=b)[0]
    near(found, 0.5 * a.swapaxes(1, 2) @ b.swapaxes(1, 2))


NBITS = "y = com.microsoft.MatMulNBits<K = {k}, N = {n}, bits = {bits}, block_size = {block}>"


def few_bits(
    n: int, k: int, bits: int, block: int, has_zero: bool
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The inputs of a MatMulNBits after the first, and the weight that they stand for."""
    blocks, per = -(-k // block), 8 // bits
    numbers = RNG.integers(0, 1 << bits, (n, blocks * block)).astype(np.uint8)
    packed = sum(numbers[:, i::per] << (i * bits) for i in range(per)).astype(np.uint8)
    zeros = RNG.integers(0, 1 << bits, (n, blocks)).astype(np.uint8)
    room = np.zeros((n, -(-blocks // per) * per), np.uint8)
    room[:, :blocks] = zeros
    packed_zeros = sum(room[:, i::per] << (i * bits) for i in range(per)).astype(np.uint8)
    shift = zeros.astype(np.float32) if has_zero else np.full((n, blocks), 2.0 ** (bits - 1))
    scales = floats(n, blocks)
    weight = (numbers.reshape(n, blocks, block) - shift[..., None]) * scales[..., None]
    values = {"b": packed.reshape(n, blocks, -1), "s": scales}
    values |= {"z": packed_zeros} if has_zero else {}
    return values, weight.reshape(n, -1)[:, :k]


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("has_zero", [False, True])
def test_weights_of_a_few_bits(bits: int, has_zero: bool) -> None:
    n, k, block = 3, 40, 16
    values, weight = few_bits(n, k, bits, block, has_zero)
    x = floats(2, k)
    call = NBITS.format(k=k, n=n, bits=bits, block=block).removeprefix("y = com.microsoft.")
    found = run(f"{call}(x, {', '.join(values)})", x=x, **values)[0]
    near(found, x @ weight.T, 1e-4)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zero", ["", "uint8", "float"])
@pytest.mark.parametrize(("k", "block"), [(40, 16), (64, 32), (256, 256)])
def test_constant_weights_of_a_few_bits_stay_integers(
    bits: int, zero: str, k: int, block: int
) -> None:
    """The packed weight of the program is as large as that of the file."""
    n = 24
    values, weight = few_bits(n, k, bits, block, bool(zero))
    if zero == "float":
        values["z"] = floats(n, -(-k // block))
        packed = values["b"].reshape(n, -1)[..., None] >> np.arange(0, 8, bits, dtype=np.uint8)
        numbers = (packed & ((1 << bits) - 1)).reshape(n, -1, block).astype(np.float32)
        weight = ((numbers - values["z"][..., None]) * values["s"][..., None]).reshape(n, -1)[:, :k]
    values["c"] = floats(n)
    names = ["x", "b", "s", "z" if zero else "", "", "c"]
    call = NBITS.format(k=k, n=n, bits=bits, block=block)
    made = model(
        f"{call}({', '.join(names)})", f"float[2, 3, {k}] x", weights=values,
        domains=', "com.microsoft": 1',
    )  # fmt: skip
    x = floats(2, 3, k)
    expected = x.astype(np.float64) @ weight.T + values["c"]
    # Of what terms add up to before some cancel.
    tolerance = 1e-6 * float((np.abs(x) @ np.abs(weight.T)).max())
    near(evaluate(import_onnx(made), {"x": x})[0], expected, tolerance)
    compiled = compile(made)
    near(compiled(x), expected, tolerance)
    rules = [s.rule for s in compiled.report.schedules.values()]
    # Six rows take each panel of weights out of its words once, and multiply floats.
    assert rules == ["elementwise", "matmul"][k != 40 :]
    # Zero points of a few bits are bytes; columns are whole vectors.
    held = sum(v.nbytes for v in values.values()) + n * -(-k // block)
    assert compiled.report.constant_bytes <= held * -(-n // 16) * 16 // n


def test_weights_of_a_few_bits_in_an_order_of_their_own() -> None:
    n, k, block = 8, 64, 32
    values, weight = few_bits(n, k, 4, block, False)
    x = floats(2, k)
    for order, refused in ((np.arange(k) // block, False), (np.arange(k) % 2, True)):
        made = model(
            f"{NBITS.format(k=k, n=n, bits=4, block=block)}(x, b, s, , g)", f"float[2, {k}] x",
            weights={**values, "g": order.astype("int32")}, domains=', "com.microsoft": 1',
        )  # fmt: skip
        if refused:
            assert "the input g_idx" in refusal(made)
        else:
            near(evaluate(import_onnx(made), {"x": x})[0], x @ weight.T, 1e-4)


def test_attention_with_packed_weights_and_lengths() -> None:
    x, w, b = floats(2, 3, 8), floats(8, 24), floats(24)
    lengths = np.array([3, 2], np.int32)
    q, k, v = (heads(p, 2) for p in np.split(x @ w + b, 3, -1))
    mask = np.where(np.arange(3) < lengths[:, None], 0, -1e9)[:, None, None]
    found = run("Attention<num_heads = 2>(x, w, b, m)", x=x, w=w, b=b, m=lengths)[0]
    near(found, joined(attend(q, k, v, mask)), 1e-4)


def test_attention_with_past_keys() -> None:
    q, k, v, b = floats(2, 3, 8), floats(2, 3, 8), floats(2, 3, 8), floats(24)
    past = floats(2, 2, 5, 4)
    parts = [heads(x + y, 2) for x, y in zip((q, k, v), np.split(b, 3), strict=True)]
    keys, values = (np.concatenate([past, p], 2) for p in parts[1:])
    made = run_mha(q=q, k=k, v=v, b=b, p=past)
    near(made[0], joined(attend(parts[0], keys, values)), 1e-4)
    near(made[1], keys)


def run_mha(**values: np.ndarray) -> list[np.ndarray]:
    return run("MultiHeadAttention<num_heads = 2>(q, k, v, b, , , p, p)", outputs=3, **values)


def turned(x: np.ndarray, cosine: np.ndarray, sine: np.ndarray) -> np.ndarray:
    a, b = np.split(x, 2, -1)
    return np.concatenate([a * cosine - b * sine, a * sine + b * cosine], -1)


def test_positions_turn_queries() -> None:
    x, table = floats(2, 3, 8), floats(6, 2)
    at = np.array([[0, 1, 2], [3, 4, 5]])
    found = run("RotaryEmbedding(x, p, c, s)", x=x, p=at, c=table, s=table[::-1].copy())[0]
    rows = (t[at][:, None] for t in (table, table[::-1]))
    near(found, joined(turned(heads(x, 2), *rows)))


def test_keys_that_several_queries_share() -> None:
    q, k, v = floats(1, 2, 16), floats(1, 2, 8), floats(1, 2, 8)
    past = floats(1, 2, 3, 4)
    made = model(
        "y, a, b = com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2>"
        "(q, k, v, p, p, n, t)",
        "float[1, 2, 16] q, float[1, 2, 8] k, float[1, 2, 8] v, float[1, 2, 3, 4] p, "
        "int32[1] n, int32 t",
        outputs="float y, float a, float b",
        domains=', "com.microsoft": 1',
    )
    y, keys, values = compile(made)(q, k, v, past, np.array([4], np.int32), np.array(5, np.int32))
    expected = [np.concatenate([past, heads(x, 2)], 2) for x in (k, v)]
    near(keys, expected[0])
    mask = np.where(np.arange(5) > np.arange(2)[:, None] + 3, -np.inf, 0)
    wide = [np.repeat(x, 2, axis=1) for x in expected]
    near(y, joined(attend(heads(q, 4), *wide, mask)), 1e-4)
    near(values, expected[1])
