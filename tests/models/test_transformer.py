"""Transformers of small sizes: compiled, they give what torch gives, and each layer is seven
kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from burnish.driver.compile import compile
from burnish.graphir.analysis import dps_calls
from burnish.models import transformer

SIZES: dict[str, dict[str, int]] = {
    "bert": {"width": 32, "heads": 4, "tokens": 13, "words": 50, "batch": 2},
    "gpt2": {"width": 32, "heads": 2, "tokens": 9, "words": 50},
    "vit": {"width": 32, "heads": 2, "size": 48, "classes": 10},
}


@pytest.mark.parametrize("name", SIZES)
def test_compiled(name: str) -> None:
    build: Callable[..., Any] = getattr(transformer, name)
    module, inputs = build(layers=2, **SIZES[name])
    assert not module.training
    model = compile(module, inputs)
    with torch.no_grad():
        expected = module(*inputs).numpy()
    scale = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(np.asarray(model(*inputs)), expected, atol=2e-5 * scale)
    main = model.executable.stages["30-fused"]["main"]
    names = [call.func.name for call in dps_calls(main)]
    places = [n for n, called in enumerate(names) if "attention" in called]
    assert len(places) == 2
    # attention, its layer, a norm, two layers, a norm, and the next attention's layer
    assert places[1] - places[0] == 7
    assert not any("permute" in n and "attention" not in n for n in names if name != "vit")


def test_a_seed_gives_the_same_weights() -> None:
    first, second = (transformer.vit(layers=1, **SIZES["vit"])[0] for _ in range(2))
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)
