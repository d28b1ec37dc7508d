"""Every document but the README, which has its own file: links, programs, regions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from burnish.tests.docs.documents import ROOT, anchors, broken_links, compare, load_builder

DOCUMENTS = sorted((ROOT / "docs").glob("*.md"))
LIVE = [
    p
    for p in DOCUMENTS
    if p.name != "tour.md" and re.search(r"(?m)^(```python|<!-- from)", p.read_text("utf-8"))
]
"""Those with programs or regions; the tour has its own file."""


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.name)
def test_links_lead_somewhere(document: Path) -> None:
    assert broken_links(document) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    document = tmp_path / "a.md"
    document.write_text("# A title\n[x](a.md#a-title) [y](b.md) [z](a.md#b) [w](https://x.y)\n")
    assert anchors(document) == {"a-title"}
    assert broken_links(document) == ["b.md", "a.md#b"]


def test_the_index_names_every_document() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    missing = [p.name for p in DOCUMENTS if p.name != "index.md" and f"({p.name})" not in index]
    assert missing == []


@pytest.mark.parametrize("document", LIVE, ids=lambda p: p.name)
def test_programs_run_and_regions_are_current(
    document: Path, request: pytest.FixtureRequest
) -> None:
    compare(document.relative_to(ROOT).as_posix(), request)


def test_the_files_that_the_architecture_names_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`((?:\w+/)+\w*(?:\.py)?)`", text))
    assert len(names) > 25
    assert sorted(name for name in names if not (ROOT / name).exists()) == []
    alone = set(re.findall(r"`(\w+\.py)`", text))
    rooms = [p for p in ROOT.iterdir() if (p / "__init__.py").exists() and p.name != "tests"]
    files = [*ROOT.glob("*.py"), *[p for room in rooms for p in room.rglob("*.py")]]
    assert len(alone) > 25
    assert sorted(alone - {p.name for p in files}) == []


def test_each_layer_of_the_drawing_is_a_stage() -> None:
    drawing = load_builder().section("docs/architecture.md", "00-import")
    for stage in ("10-canonical", "20-legalized", "30-fused", "40-scheduled", "45-packed"):
        assert stage in drawing
