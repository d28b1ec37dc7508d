"""The table of torch.compile's backends: its models are there, its lines say what was found."""

from __future__ import annotations

from burnish.benchmarks.torch_backend import MODELS, line_of
from burnish.tests.models_of_others.cases import BY_NAME


def test_there_are_30_models_that_others_wrote() -> None:
    assert len(set(MODELS)) >= 30
    assert set(MODELS) <= set(BY_NAME)


def test_a_line_has_the_ratio_and_what_went_wrong() -> None:
    found = {"name": "a", "inductor_ms": 3.0, "burnish_ms": 2.0, "eager_ms": 4.0}
    found |= {"inductor_seconds": 20.0, "burnish_seconds": 4.4, "inductor_error": "0.5 too far"}
    assert line_of(found) == "| a | 3.00 | 2.00 | 4.00 | 1.50 | 20 | 4 | inductor: 0.5 too far |"
    assert line_of({"name": "a", "error": "ended with -9"}) == (
        "| a | - | - | - | - | - | - | ended with -9 |"
    )
