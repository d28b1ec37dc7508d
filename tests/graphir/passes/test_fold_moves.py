"""FoldMoves: attention reads its operands at their places, and values stay."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.graphir.analysis import dps_calls
from burnish.graphir.module import IRModule
from burnish.graphir.passes import fold_moves
from burnish.graphir.passes.canonicalize import Canonicalize
from burnish.graphir.passes.dead_code_elimination import DeadCodeElimination
from burnish.graphir.passes.fold_moves import FoldMoves, is_attention
from burnish.graphir.passes.legalize import LegalizeOps
from burnish.graphir.text.parser import parse_module
from burnish.graphir.verify import verify_module
from burnish.tests.graphir.reference import run

SLICES = [
    f"{name} = R.reshape(R.strided_slice(p, axes=[0], begin=[{n}], end=[{n + 1}]),"
    " R.shape([2, 3, 7, 4]))"
    for n, name in enumerate("qkv")
]


def kernels(*lines: str, params: str) -> list[str]:
    """The names of the kernels that are called after the pass, which keeps the values."""
    body = "".join(f"        {line}\n" for line in lines)
    text = (
        f"@R.function\ndef main({params}):\n    with R.dataflow():\n"
        f"{body}        R.output(y)\n    return y\n"
    )
    before = LegalizeOps()(Canonicalize()(parse_module(text)))
    after = verify_module(DeadCodeElimination()(FoldMoves()(before)))
    check(before, after)
    return [call.func.name for call in dps_calls(after["main"])]  # type: ignore[arg-type]


def check(before: IRModule, after: IRModule) -> None:
    rng = np.random.default_rng(0)
    inputs = [
        rng.standard_normal([getattr(d, "value", 2) for d in p.type.shape]).astype("float32")  # type: ignore[union-attr]
        for p in before["main"].params  # type: ignore[union-attr]
    ]
    np.testing.assert_allclose(run(after, "main", *inputs), run(before, "main", *inputs), atol=1e-6)


def test_one_layer_for_queries_keys_and_values() -> None:
    found = kernels(
        "p = R.permute_dims(R.reshape(x, R.shape([2, 7, 3, 3, 4])), axes=[2, 0, 3, 1, 4])",
        *SLICES,
        "z = R.permute_dims(R.attention(q, k, v), axes=[0, 2, 1, 3])",
        "y = R.reshape(z, R.shape([14, 12]))",
        params="x: R.Tensor((14, 36))",
    )
    assert found == ["attention_permute_dims"]


def test_a_layer_for_each() -> None:
    lines = [
        f"{name} = R.permute_dims(R.reshape({name}0, R.shape([1, 5, 2, 4])), axes=[0, 2, 1, 3])"
        for name in "qkv"
    ]
    params = ", ".join(f"{name}0: R.Tensor((5, 8))" for name in "qkv")
    assert kernels(*lines, "y = R.attention(q, k, v)", params=params) == ["attention_1"]


def test_heads_that_share_keys_by_copies() -> None:
    lines = [
        f"{name} = R.reshape(R.broadcast_to(R.reshape({name}0, R.shape([1, 2, 1, 5, 4])),"
        " R.shape([1, 2, 3, 5, 4])), R.shape([1, 6, 5, 4]))"
        for name in "kv"
    ]
    params = "q: R.Tensor((1, 6, 5, 4)), k0: R.Tensor((1, 2, 5, 4)), v0: R.Tensor((1, 2, 5, 4))"
    assert kernels(*lines, "y = R.attention(q, k, v)", params=params) == ["attention_1"]


def test_a_mask_that_is_moved() -> None:
    found = kernels(
        "m = R.permute_dims(m0, axes=[0, 2, 1, 3])",
        "y = R.attention(q, q, q, m)",
        params="q: R.Tensor((1, 2, 5, 4)), m0: R.Tensor((1, 5, 2, 5))",
    )
    assert found == ["attention_1"]


@pytest.mark.parametrize(
    ("lines", "params", "expected"),
    [
        # Not contiguous along the last dim.
        (
            ("k = R.permute_dims(k0, axes=[0, 1, 3, 2])", "y = R.attention(q, k, q)"),
            "q: R.Tensor((1, 2, 5, 4)), k0: R.Tensor((1, 2, 4, 5))",
            ["permute_dims", "attention"],
        ),
        # The result has another reader.
        (
            ("a = R.attention(q, q, q)", "b = R.permute_dims(a, axes=[0, 2, 1, 3])",
             "y = R.add(R.relu(a), b)"),
            "q: R.Tensor((1, 4, 4, 4))",
            ["attention", "permute_dims", "relu", "add"],
        ),
        # Behind it stands more than a permutation.
        (
            ("y = R.strided_slice(R.attention(q, q, q), axes=[2], begin=[1], end=[3])",),
            "q: R.Tensor((1, 4, 4, 4))",
            ["attention", "strided_slice"],
        ),
        # Symbolic shapes.
        (
            ("q = R.permute_dims(q0, axes=[0, 2, 1, 3])", "y = R.attention(q, q, q)"),
            'q0: R.Tensor(("n", 5, 2, 4))',
            ["permute_dims", "attention"],
        ),
        # No attention.
        (
            ("y = R.matmul(R.permute_dims(q, axes=[0, 2, 1, 3]), q)",),
            "q: R.Tensor((1, 4, 4, 4))",
            ["permute_dims", "matmul"],
        ),
    ],
)  # fmt: skip
def test_what_stays(lines: tuple[str, ...], params: str, expected: list[str]) -> None:
    assert kernels(*lines, params=params) == expected


def test_equal_layers_share_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    fuse = fold_moves.fuse_group
    monkeypatch.setattr(fold_moves, "fuse_group", lambda *args: made.append(args) or fuse(*args))
    lines = [
        line
        for n in range(2)
        for line in (
            f"p{n} = R.permute_dims(R.reshape(x{n}, R.shape([1, 5, 2, 4])), axes=[0, 2, 1, 3])",
            f"a{n} = R.attention(p{n}, p{n}, p{n})",
        )
    ]
    found = kernels(
        *lines, "y = R.add(a0, a1)", params="x0: R.Tensor((5, 8)), x1: R.Tensor((5, 8))"
    )
    assert found == ["attention_1", "attention_1", "add"]
    assert len(made) == 1


def test_is_attention() -> None:
    text = (
        "@R.function\ndef main(q: R.Tensor((1, 2, 4, 4))):\n    with R.dataflow():\n"
        "        y = R.matmul(R.attention(q, q, q), q)\n        R.output(y)\n    return y\n"
    )
    module = LegalizeOps()(parse_module(text))
    assert is_attention(module.prim_funcs["attention"])
    assert not is_attention(module.prim_funcs["matmul"])
    assert not is_attention(None)
