"""Einsum against NumPy: every kind of letter, and the errors."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.frontend.onnx import import_onnx
from burnish.graphir.verify import verify_module
from burnish.tests.frontend.onnx.oracle import evaluate, model, operators_of, refusal

RNG = np.random.default_rng(0)
SIZES = {"b": 2, "h": 3, "i": 4, "j": 5, "k": 6, "l": 2}


def arrays_of(equation: str) -> list[np.ndarray]:
    terms = equation.split("->")[0].replace(" ", "").split(",")
    return [
        RNG.standard_normal([SIZES[c] for c in t.replace("...", "bh")]).astype(np.float32)
        for t in terms
    ]


def made_for(equation: str, arrays: list[np.ndarray]):  # type: ignore[no-untyped-def]
    names = [f"x{n}" for n in range(len(arrays))]
    inputs = ", ".join(
        f"float[{', '.join(map(str, a.shape))}] {n}" for n, a in zip(names, arrays, strict=True)
    )
    text = f'y = Einsum<equation = "{equation}">({", ".join(names)})'
    return model(text, inputs, 13), dict(zip(names, arrays, strict=True))


@pytest.mark.parametrize(
    "equation",
    [
        "ij,jk->ik", "ij,kj->ik", "ji,jk->ki", "bij,bjk->bik", "bhik,bhjk->bhij",
        "bhij,bhjk->bihk", "ij,j->i", "i,i->", "i,j->ij", "ij,ij->ij", "ij,ij->j", "bij->bji",
        "ij->", "bij->j", "...ii->...i", "ijij->ij", "ii->", "ijk,kjl->il", "bij,jk,kl->bil",
        "...ij,...jk->...ik", "...i->...",
        "ij,jk", "bi,bj->bij", "bhi,bij->bhj", "ij,k->j", "i j , j k -> i k", "bihk,bjhk->bhij",
    ],
)  # fmt: skip
def test_as_numpy(equation: str) -> None:
    arrays = arrays_of(equation)
    made, values = made_for(equation, arrays)
    imported = import_onnx(made)
    verify_module(imported.module)
    expected = np.einsum(equation, *arrays)
    found = evaluate(imported, values)[0]
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_a_dim_of_one_stands_for_more() -> None:
    arrays = [RNG.random((1, 3, 4), np.float32), RNG.random((5, 4, 2), np.float32)]
    made, values = made_for("bij,bjk->bik", arrays)
    found = evaluate(import_onnx(made), values)[0]
    np.testing.assert_allclose(found, arrays[0] @ arrays[1], rtol=1e-5)


def test_a_matrix_product_is_one() -> None:
    for equation in ("ij,jk->ik", "bij,bjk->bik", "bhik,bhjk->bhij"):
        made, _ = made_for(equation, arrays_of(equation))
        assert operators_of(import_onnx(made)) == ["matmul"]


def test_symbolic_sizes() -> None:
    made = model(
        'y = Einsum<equation = "bij,jk->bik">(x, w)', "float[N, M, 4] x, float[4, 3] w", 13
    )
    x, w = RNG.random((2, 5, 4), np.float32), RNG.random((4, 3), np.float32)
    np.testing.assert_allclose(evaluate(import_onnx(made), {"x": x, "w": w})[0], x @ w, rtol=1e-5)


@pytest.mark.parametrize(
    ("equation", "shapes", "message"),
    [
        ("ij->ii", [(3, 3)], "names a dim of its result twice"),
        ("ii->i", [(3, 4)], "a diagonal of dims 3 and 4"),
        ("ij,jk->ik", [(3, 3)], "has 2 terms, and there are 1 operands"),
        ("ij->i", [(3, 3, 3)], "'ij' of 'ij->i' does not fit an operand of 3 dims"),
        ("ij->ik", [(3, 3)], "makes dims ['k'] of nothing"),
        ("ij,jk->ik", [(3, 4), (5, 3)], "dims of 4 and 5 stand for the same letter"),
    ],
)
def test_errors(equation: str, shapes: list[tuple[int, ...]], message: str) -> None:
    made, _ = made_for(equation, [np.zeros(s, np.float32) for s in shapes])
    assert message in refusal(made)
