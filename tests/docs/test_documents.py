"""Every document but the README, which has its own file: links lead somewhere, regions are current."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.documents import ROOT, anchors, broken_links, compare, load_builder

DOCUMENTS = sorted((ROOT / "docs").glob("*.md"))
OTHERS = [p for p in DOCUMENTS if p.name != "tour.md"]


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


def test_the_other_documents_are_current(request: pytest.FixtureRequest) -> None:
    builder = load_builder()
    current = [p for p in OTHERS if "<!-- from" in p.read_text(encoding="utf-8")]
    assert [p.name for p in current] == ["operators.md"]
    for path in current:
        compare(str(path.relative_to(builder.ROOT)), request)


def test_each_layer_of_the_drawing_is_a_stage() -> None:
    drawing = load_builder().section("docs/architecture.md", "00-import")
    for stage in ("10-canonical", "20-legalized", "30-fused", "40-scheduled", "45-packed"):
        assert stage in drawing
