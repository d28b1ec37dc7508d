"""A tenth of the models that others wrote, the quick ones: ``make coverage`` compiles all of them.

Every second one is compiled for one shape, the others for any batch (and length).
"""

from __future__ import annotations

import pytest
import torch

from .case import Outcome, check_dynamic, check_static, difference, disagreement, prepared
from .cases import BY_NAME, CASES

SAMPLE = (
    "torchvision/resnet18", "torchvision/mobilenet_v3_small", "torchvision/shufflenet_v2_x0_5",
    "torchvision/squeezenet1_1", "torchvision/alexnet",
    "timm/resnet10t", "timm/lcnet_035", "timm/repghostnet_050", "timm/mobilenetv3_small_050",
    "timm/mnasnet_050", "timm/resmlp_12_224", "timm/regnetx_002", "timm/convnextv2_atto",
    "transformers/bert", "transformers/gpt2", "transformers/llama", "transformers/t5-encoder",
    "transformers/distilbert", "transformers/electra", "transformers/qwen2", "transformers/opt",
    "transformers/bloom", "transformers/vit", "transformers/deit", "transformers/mobilenet-v1",
    "transformers/wav2vec2", "transformers/pix2struct", "transformers/phi",
    "transformers/gpt-neox", "transformers/mistral", "transformers/gemma",
    "transformers/whisper",
)  # fmt: skip


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.parametrize("name", SAMPLE)
def test_a_model_of_others_agrees_with_eager(name: str) -> None:
    case, outcome = BY_NAME[name], Outcome(name)
    module = prepared(case)
    if SAMPLE.index(name) % 2:
        check_dynamic(case, module, outcome)
    else:
        check_static(case, module, outcome, timed=False)
    assert (outcome.static, outcome.dynamic) == ("", "")


def test_the_cases_are_many_and_named_once() -> None:
    assert len(BY_NAME) == len(CASES)
    counts = {
        kind: sum(n.startswith(f"{kind}/") for n in BY_NAME) for kind in ("timm", "torchvision")
    }
    assert counts["timm"] >= 120
    assert counts["torchvision"] >= 100
    assert len(SAMPLE) >= len(CASES) // 10


def test_what_differs_is_told() -> None:
    a, b = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.1])
    assert difference(a, a) == ""
    assert difference(b, a) == "output 0 is 5.0e-02 of its largest element from eager"
    assert difference((a, a), (a,)) == "2 outputs where eager gives 1"
    assert difference(a, [a]) == "a Tensor where eager gives a list"
    assert difference(a.double(), a).startswith("output 0: torch.float64 (2,)")
    assert difference(torch.tensor([1.0, torch.nan]), a) != ""


class Noise(torch.nn.Module):
    """Roundings of a float32 sum, a million times as large."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ((x + 1e4) - 1e4 - x) * 1e6 + 1


def test_where_eager_is_noise_float64_judges() -> None:
    x = torch.linspace(0.1, 0.9, 7)
    eager, exact = Noise()(x), Noise()(x.double())
    assert float((eager - exact).abs().max()) > 10
    assert disagreement(Noise(), (x,), exact.float()) == ""
    assert disagreement(Noise(), {"x": x}, eager) == ""
    worse = (eager + 5 * (eager - exact)).float()
    assert "largest element" in disagreement(Noise(), (x,), worse)
    assert disagreement(Noise(), (x,), (eager,)) == "a tuple where eager gives a Tensor"
