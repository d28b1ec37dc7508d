"""``precision="auto"``: the bound is kept, the table tells, and bad arguments are refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

import burnish
from burnish.driver import auto_precision
from burnish.driver.auto_precision import LayerChoice, PrecisionChoice
from burnish.driver.compile import compile as compile_model
from burnish.driver.load import load
from burnish.driver.timing import Timing
from burnish.support.errors import ArgumentError


def narrow_is_faster(runs: Mapping[str, Callable[[], Any]]) -> Mapping[str, Timing]:
    return {"float32": Timing(2e-3, 2e-3), "narrow": Timing(1e-3, 1e-3)}


def narrow_is_slower(runs: Mapping[str, Callable[[], Any]]) -> Mapping[str, Timing]:
    return {"float32": Timing(1e-3, 1e-3), "narrow": Timing(2e-3, 2e-3)}


@pytest.fixture(autouse=True)
def _faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choices do not depend on the machine."""
    monkeypatch.setattr(auto_precision, "time_programs", narrow_is_faster)


class Net(torch.nn.Module):
    """Layers of two kinds, and a product of activations."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(48, 64)
        self.blocks = torch.nn.ModuleList([torch.nn.Linear(64, 64) for _ in range(3)])
        self.head = torch.nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        for block in self.blocks:
            h = h + torch.nn.functional.gelu(block(h))
        h = h @ (h.transpose(0, 1) @ h) / 64
        return self.head(h)


@pytest.fixture
def net() -> tuple[torch.nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    return Net().eval(), torch.randn(6, 48)


def error(module: torch.nn.Module, x: torch.Tensor, found: torch.Tensor) -> float:
    with torch.no_grad():
        expected = module.double()(x.double())
    module.float()
    return float((found.double() - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("bound", [1e-5, 2e-3, 0.1])
def test_the_bound_is_kept_and_the_table_says_by_what(
    net: tuple[torch.nn.Module, torch.Tensor], bound: float
) -> None:
    module, x = net
    made = compile_model(module, (x,), precision="auto", max_error=bound)
    seen = error(module, x, made(x))
    assert seen <= bound
    (note,) = [n for n in made.report.notes if n.startswith('precision="auto"')]
    assert f"error {seen:.1e} on 1 sample, at most {bound:.1e} allowed" in note
    assert all(re.search(rf"^ +{name} +\S+", note, re.M) for name in ("first", "blocks.1", "head"))
    assert "products of activations" in note
    assert note in str(made.report)
    words = made.precision
    assert isinstance(words, dict)
    assert sum(line.endswith("float32") for line in note.splitlines()) + len(words) == 6
    assert bool(words) == (bound > 1e-5)
    again = compile_model(module, (x,), precision=words)
    assert torch.equal(again(x), made(x))


def hardly_faster(runs: Mapping[str, Callable[[], Any]]) -> Mapping[str, Timing]:
    return {"float32": Timing(1e-3, 1e-3), "narrow": Timing(9.9e-4, 9.9e-4)}


@pytest.mark.parametrize("times", [narrow_is_slower, hardly_faster])
def test_what_is_not_faster_stays_float32(
    net: tuple[torch.nn.Module, torch.Tensor],
    monkeypatch: pytest.MonkeyPatch,
    times: Callable[..., Mapping[str, Timing]],
) -> None:
    monkeypatch.setattr(auto_precision, "time_programs", times)
    module, x = net
    made = compile_model(module, (x,), precision="auto", max_error=0.5)
    assert made.precision == {}
    assert torch.equal(made(x), compile_model(module, (x,))(x))


def test_one_bad_moment_does_not_keep_float32(
    net: tuple[torch.nn.Module, torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine is busy when all of the choice is timed for the first time."""
    module, x = net
    made: list[str] = []
    faster = auto_precision.time_programs

    def times(runs: Mapping[str, Callable[[], Any]]) -> Mapping[str, Timing]:
        made.append("timed")
        return faster(runs)

    monkeypatch.setattr(auto_precision, "time_programs", times)
    wanted = compile_model(module, (x,), precision="auto", max_error=1e-2).precision
    last = len(made)
    made.clear()

    def busy_once(runs: Mapping[str, Callable[[], Any]]) -> Mapping[str, Timing]:
        found = dict(times(runs))
        return {**found, "narrow": found["float32"]} if len(made) == last else found

    monkeypatch.setattr(auto_precision, "time_programs", busy_once)
    model = compile_model(module, (x,), precision="auto", max_error=1e-2)
    assert model.precision == wanted
    assert len(made) == last + 1
    assert wanted


def test_the_bound_is_that_of_all_samples(net: tuple[torch.nn.Module, torch.Tensor]) -> None:
    module, _ = net
    samples = [(torch.randn(6, 48) * scale,) for scale in (0.1, 1.0, 3.0)]
    made = compile_model(module, samples[0], precision="auto", max_error=4e-3, samples=samples)
    assert all(error(module, x, made(x)) <= 4e-3 for (x,) in samples)
    assert "on 3 samples" in str(made.report)


def test_the_choice_goes_with_saving_verifying_tuning_and_refreshing(
    net: tuple[torch.nn.Module, torch.Tensor], tmp_path: Path
) -> None:
    module, x = net
    made = compile_model(module, (x,), precision="auto", max_error=1e-2)
    made.save(tmp_path / "m.burnish")
    loaded = load(tmp_path / "m.burnish")
    assert torch.equal(loaded(x), made(x))
    assert 'precision="auto"' in str(loaded.report)
    assert made.verify(x, float64=True, nodes=False)
    before = made(x)
    made.refresh()
    assert torch.equal(made(x), before)
    assert 'precision="auto"' in str(made.report)


@pytest.mark.slow
def test_models_of_others() -> None:
    from burnish.tests.models_of_others.libraries import torchvision, transformers

    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=16,
    )  # fmt: skip
    bert = transformers.BertModel(config).eval()
    ids = torch.randint(0, 50, (1, 8))
    made = compile_model(bert, (ids,), precision="auto", max_error=5e-3)
    with torch.no_grad():
        wide = bert.double()(ids)
    for found, expected in zip(made(ids).values(), wide.values(), strict=True):
        assert (found - expected).abs().max() <= 5e-3 * expected.abs().max()
    vit = torchvision.models.VisionTransformer(32, 16, 1, 2, 32, 64, num_classes=7).eval()
    torch.nn.init.normal_(vit.heads.head.weight)
    image = torch.randn(1, 3, 32, 32)
    found = compile_model(vit, (image,), precision="auto", max_error=2e-3)
    assert error(vit, image, found(image)) <= 2e-3
    assert found.precision


def test_bad_arguments_are_refused(net: tuple[torch.nn.Module, torch.Tensor]) -> None:
    module, x = net
    auto: dict[str, Any] = {"precision": "auto"}
    for wrong in (None, 0, -1.0, float("nan"), float("inf"), "1e-2", True):
        with pytest.raises(ArgumentError, match="expected max_error to be a number above 0"):
            compile_model(module, (x,), **auto, max_error=wrong)
    with pytest.raises(ArgumentError, match='max_error goes with precision="auto"'):
        compile_model(module, (x,), precision="bfloat16", max_error=0.1)
    with pytest.raises(ArgumentError, match='samples goes with precision="auto"'):
        compile_model(module, (x,), samples=[(x,)])
    for samples in ([], x, [x], 3):
        with pytest.raises(ArgumentError, match="samples: expected a list of tuples"):
            compile_model(module, (x,), **auto, max_error=0.1, samples=samples)
    with pytest.raises(ArgumentError, match="pass example inputs"):
        compile_model(module, **auto, max_error=0.1)
    with pytest.raises(ArgumentError, match=r"without any rounding the model's error is"):
        compile_model(module, (x,), **auto, max_error=1e-12)
    program = torch.export.export(module, (x,))
    with pytest.raises(ArgumentError, match=r"takes a torch.nn.Module; found ExportedProgram"):
        compile_model(program, **auto, max_error=0.1)

    class Index(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.argmax(-1)

    with pytest.raises(ArgumentError, match="no output of floats"):
        compile_model(Index().eval(), (x,), **auto, max_error=0.1)


def test_the_table_of_a_choice() -> None:
    layers = (LayerChoice("a.weight", "bfloat16", 2e-3, 1.5e-3), LayerChoice("b.weight"))
    choice = PrecisionChoice(layers, 1e-2, 2e-3, 3e-7, 4e-3, 6e-3, 2)
    assert choice.words == {"a.weight": "bfloat16"}
    assert str(choice).splitlines() == [
        'precision="auto": 1 of 2 layers are narrower than float32; error 2.0e-03 on 2 samples, '
        "at most 1.0e-02 allowed (float32: 3.0e-07), 4 ms a call in place of 6 ms",
        "      layer          type  error alone  time gained",
        "      a          bfloat16      2.0e-03       1.5 ms",
        "      b           float32",
        "      the whole                2.0e-03         2 ms",
    ]


def test_samples_without_numbers_or_of_another_shape_are_refused() -> None:
    module, x = torch.nn.Linear(64, 64).eval(), torch.randn(4, 64)
    for sample, message in (
        (x * float("nan"), r"samples\[1\] an output has NaN"),
        (x[:, :3], r"samples\[1\]: the module raises RuntimeError"),
    ):
        with pytest.raises(ArgumentError, match=message):
            burnish.compile(
                module, (x,), precision="auto", max_error=1e-2, samples=[(x,), (sample,)]
            )
