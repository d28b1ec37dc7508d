"""``docs/tour.md`` shows what the compiler prints, on every machine."""

from __future__ import annotations

import pytest

import burnish
from burnish.models import mlp
from burnish.tests.docs.documents import ROOT, compare

STAGES = ("00", "10", "20", "30", "40", "45", "50", "60", "70")


def test_the_tour_is_what_the_compiler_prints(request: pytest.FixtureRequest) -> None:
    compare("docs/tour.md", request)


def test_the_tour_stops_at_every_stage() -> None:
    text = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
    headings = [line[3:5] for line in text.splitlines() if line.startswith("## ")]
    assert [h for h in headings if h.isdigit()] == list(STAGES)


def test_its_target_reads_the_same_on_machines_of_any_size() -> None:
    module, inputs = mlp.build(seed=0)
    target = "llvm -mcpu=skylake-avx512"
    texts = {
        burnish.compile(module, inputs, target=f"{target} -cores={cores}").script("45-packed")
        for cores in (1, 64)
    }
    assert len(texts) == 1
