"""Compilations from nothing: which models, what they cost, and where that is written."""

from __future__ import annotations

from burnish.tests.models_of_others.cold import (
    COLUMNS,
    PAGE,
    cost_from_nothing,
    parted,
    section,
    slowest,
)


def test_the_slowest_are_read_off_the_page() -> None:
    page = (
        "| model | one shape | any batch (and length) | export, s | compile, s | ms | eager, ms |\n"
        "|---|---|---|---:|---:|---:|---:|\n"
        "| timm/a | agrees | agrees | 9.0 | 1.5 | 2.00 | 3.00 |\n"
        "| timm/b | agrees | Error: 1.0 | 9.1 | 1.5 | 2.00 | 3.00 |\n"
    )
    assert slowest(page, 2) == ["timm/b", "timm/a"]
    assert slowest(page, 1) == ["timm/b"]
    assert len(slowest(PAGE.read_text(), 32)) == 32


def test_a_model_is_compiled_from_nothing_in_a_process_of_its_own() -> None:
    found = cost_from_nothing("timm/lcnet_035")
    parts = sum(found[c] for c in COLUMNS)
    assert 0 < parts <= found["whole"] * 1.001
    assert found["kernels"] > 10
    assert found["export"] > 0


def test_the_section_stands_last_and_is_written_anew() -> None:
    numbers = dict.fromkeys(("export", "whole", *COLUMNS, "beside"), 1.0)
    costs = [
        {"name": "timm/a", **numbers, "kernels": 7},
        {"name": "timm/b", **numbers, "whole": 2.0, "kernels": 8},
    ]
    text = section(costs, "a machine")
    assert text.index("timm/b") < text.index("timm/a")
    assert "(a machine)" in text
    assert parted(f"above\n\n{text}") == ("above\n\n", text)
    assert parted("above") == ("above", "")
