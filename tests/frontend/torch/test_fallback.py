"""Operators that torch runs, in models that are compiled around them."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from burnish.driver.compile import compile
from burnish.support.errors import (
    ArgumentError,
    ArtifactError,
    BurnishError,
    EnvironmentFunctionError,
    FrontendError,
    UnsupportedOpError,
)
from burnish.vm.registry import list_funcs

torch.manual_seed(0)
SQUARE = torch.randn(5, 5)
POSITIVE = SQUARE @ SQUARE.mT + 5 * torch.eye(5)


@torch.library.custom_op("burnish_tests::scaled", mutates_args=())
def scaled(x: torch.Tensor, factor: int) -> torch.Tensor:
    return x * 2 + factor


@scaled.register_fake
def _(x: torch.Tensor, factor: int) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("burnish_tests::longer", mutates_args=())
def longer(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x, x])


@longer.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Function(nn.Module):
    """A function between two layers that are compiled."""

    def __init__(self, function: Any, width: int) -> None:
        super().__init__()
        self.function, self.layer = function, nn.Linear(width, width)
        self.turn = nn.Parameter(torch.randn(width // 2 + 1, 2))

    def forward(self, x: torch.Tensor) -> Any:
        found = self.function(self, x)
        results = list(found) if isinstance(found, (tuple, list)) else [found]
        return tuple([torch.relu(r) + 1 for r in results])


def filtered(m: Function, x: torch.Tensor) -> Any:
    """A filter between transforms, as FNet and its kin have it; its weight is complex."""
    y = torch.fft.rfft(m.layer(x)) * torch.view_as_complex(m.turn)
    long = torch.fft.rfft(x, n=4099)  # a prime, which has no tables
    return torch.fft.irfft(y, n=x.shape[-1]), y.abs(), long.abs()


def decomposed(m: Function, x: torch.Tensor) -> Any:
    u, s, v = torch.linalg.svd(m.layer(x) @ x.mT)
    q, r = torch.linalg.qr(x)
    return (u * s.unsqueeze(-2)) @ v, q @ r, torch.linalg.eigvalsh(x @ x.mT)


def solved(m: Function, x: torch.Tensor) -> Any:
    return torch.linalg.cholesky(x), torch.linalg.inv(x), torch.linalg.solve(x, m.layer(x))


def check(model: nn.Module, x: torch.Tensor, again: torch.Tensor, **options: Any) -> Any:
    model.eval()
    with torch.no_grad():
        compiled = compile(model, (x,), fallback="torch", threads=1, **options)
        for given in (x, again):
            pairs = zip(tree_leaves(compiled(given)), tree_leaves(model(given)), strict=True)
            for found, expected in pairs:
                torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
    return compiled


@pytest.mark.parametrize(
    ("function", "x", "operators"),
    [
        (filtered, SQUARE, ["aten.fft_rfft.default", "aten.fft_irfft.default"]),
        (decomposed, SQUARE, ["aten._linalg_svd.default", "aten.linalg_qr.default"]),
        (solved, POSITIVE, ["aten.linalg_cholesky.default", "aten.linalg_inv.default"]),
        (lambda m, x: torch.linalg.matrix_exp(m.layer(x)), SQUARE, ["linalg_matrix_exp"]),
        (lambda m, x: scaled(m.layer(x), x.shape[0]), SQUARE, ["burnish_tests.scaled.default"]),
    ],
)
def test_results_are_those_of_eager(function: Any, x: torch.Tensor, operators: list[str]) -> None:
    model = Function(function, 5).eval()
    with pytest.raises(UnsupportedOpError, match='fallback="torch"'):
        compile(model, (x,))
    notes = "\n".join(check(model, x, x + 0.1 * torch.eye(5)).report.notes)
    for operator in operators:
        assert operator in notes
    assert "runs in torch, once in a call" in notes
    assert "test_fallback.py:" in notes
    assert "relu" not in notes
    assert "aten.mul.Tensor" not in notes


def test_operators_on_complex_numbers_stay_whole() -> None:
    """torch decomposes ``sinh`` into others; beside what runs in torch parts are compiled."""

    def turned(m: Function, x: torch.Tensor) -> torch.Tensor:
        return torch.angle(torch.sinh(torch.fft.fft(m.layer(x)) * 0.1))

    notes = check(Function(turned, 5), SQUARE, SQUARE.T).report.notes
    assert sorted(n.split()[0] for n in notes if "runs in torch" in n) == [
        "aten.fft_fft.default", "aten.sinh.default",
    ]  # fmt: skip


def test_a_model_of_transformers() -> None:
    from burnish.tests.models_of_others.libraries import transformers

    config = transformers.FNetConfig(
        hidden_size=16, num_hidden_layers=2, intermediate_size=32, vocab_size=50
    )
    ids = torch.arange(24).reshape(2, 12)
    compiled = check(transformers.FNetModel(config), ids, ids.flip(0) + 1)
    found = [n for n in compiled.report.notes if n.startswith("aten.fft_fftn.default")]
    assert "2 times" in found[0]
    assert "modeling_fnet.py:" in found[0]


@pytest.mark.parametrize("function", [filtered, lambda m, x: scaled(m.layer(x), x.shape[0])])
def test_one_program_serves_every_size(function: Any) -> None:
    model = Function(function, 6)
    compiled = check(model, torch.randn(3, 6), torch.randn(8, 6), dynamic_shapes=({0: "n"},))
    assert compiled.compilations == 1


def test_half_precision_and_weights_that_nobody_may_write() -> None:
    model = Function(lambda m, x: scaled(m.layer.weight, 1) + scaled(x, 3), 5)
    check(model.bfloat16(), SQUARE.bfloat16(), -SQUARE.bfloat16())


def test_calls_of_one_operator_are_one_note() -> None:
    compiled = check(Function(lambda m, x: scaled(scaled(x, 1), 2), 5), SQUARE, -SQUARE)
    found = [n for n in compiled.report.notes if "scaled" in n]
    assert len(found) == 1
    assert "2 times in a call" in found[0]
    assert "200 bytes of results are copied" in found[0]


def test_a_converter_that_refuses_a_form_leaves_it_to_torch() -> None:
    def drawn(m: Function, x: torch.Tensor) -> torch.Tensor:
        return torch.bernoulli(x, p=0.5) * 0 + m.layer(x)

    check(Function(drawn, 5), SQUARE, -SQUARE)


def test_what_torch_cannot_do_either_is_still_reported() -> None:
    model = Function(lambda m, x: torch.unique(x, dim=0), 5).eval()
    with pytest.raises(BurnishError, match=r"unique_dim|depends on data|contents of a tensor"):
        compile(model, (SQUARE,), fallback="torch")


def test_errors_of_operators_are_ours_with_theirs_as_cause() -> None:
    compiled = check(Function(lambda m, x: torch.linalg.cholesky(x), 5), POSITIVE, POSITIVE)
    with pytest.raises(EnvironmentFunctionError, match="not positive-definite"):
        compiled(-POSITIVE)
    for x, function in ((SQUARE, longer), (SQUARE > 0, lambda x: scaled(x, 1))):
        model = Function(lambda m, x, function=function: function(x), 5).eval()
        with pytest.raises(EnvironmentFunctionError, match="Correct the operator's fake"):
            compile(model, (x,), fallback="torch")(x)


def test_such_a_model_is_verified() -> None:
    model = Function(lambda m, x: torch.linalg.matrix_exp(m.layer(x)), 5).eval()
    assert compile(model, (SQUARE,), fallback="torch").verify(SQUARE)


def test_a_model_with_such_operators_is_not_saved(tmp_path: Any) -> None:
    compiled = check(Function(lambda m, x: scaled(x, 1), 5), SQUARE, -SQUARE)
    with pytest.raises(
        ArtifactError, match=r"calls functions of this process \(torch\.burnish_tests"
    ):
        compiled.save(tmp_path / "model.burnish")


def test_the_functions_go_with_their_model() -> None:
    before = set(list_funcs())  # those of other tests may go at any time
    compiled = check(Function(lambda m, x: scaled(x, 1), 5), SQUARE, -SQUARE)
    assert len(set(list_funcs()) - before) == 1
    del compiled
    gc.collect()
    assert set(list_funcs()) <= before


def test_other_words_and_other_models_are_refused() -> None:
    with pytest.raises(ArgumentError, match='fallback is None, "torch" or "onnx"'):
        compile(nn.Linear(5, 5).eval(), (SQUARE,), fallback="eager")
    with pytest.raises(FrontendError, match="is for models of torch"):
        compile(b"", fallback="torch")
    with pytest.raises(FrontendError, match="is for models of ONNX"):
        compile(nn.Linear(5, 5).eval(), (SQUARE,), fallback="onnx")


def test_a_graph_of_dynamo_falls_back_by_itself() -> None:
    model = Function(filtered, 5).eval()
    chosen: Any = torch.compile(model, backend="burnish")
    with torch.no_grad():
        for x in (SQUARE, -SQUARE):
            for found, expected in zip(chosen(x), model(x), strict=True):
                torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
