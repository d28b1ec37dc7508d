"""Tables as data and as text: what is derived from them, and that the documents show them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from burnish.benchmarks import results
from burnish.benchmarks.cases import CASES
from burnish.benchmarks.contenders import PUBLISHED
from burnish.benchmarks.processes import Way
from burnish.benchmarks.results import FOLDER, Row, Table, best_peer, load_tables, section
from burnish.tests.docs.documents import ROOT, broken_links, compare

HEAD = {
    "cpu": "A CPU", "llvm": "znver9", "cores": 2, "threads": 1, "date": "2026-11-22",
    "versions": {"burnish": "0.1.0", "torch": "2.13.0"}, "commit": "abc", "rounds": 15,
    "seconds": 0.1, "load": 0.1, "fma_peak": 100.0, "copies": 20.0,
}  # fmt: skip


def row(case: str, ours: float | str, group: str = "models", **peers: float | str) -> Row:
    """A row of times, or of reasons for failure; ``openvino_shared`` is a way of a contender."""
    ways = []
    for name, value in {"burnish": ours, **peers}.items():
        contender, _, way = name.replace("torch_compile", "torch.compile").partition("_")
        way = Way(contender, way or "plain", prepare_seconds=1.0)
        if isinstance(value, str):
            way.error = value
        else:
            way.times = [2 * value, value, 3 * value]
        ways.append(way)
    return Row.of(case, 1e6, group, ways)


ROWS = (
    row("won-1", 1e-5, onnxruntime=3e-5, openvino=4e-5, openvino_shared=2e-5, eager=9e-5),
    row("lost-2", 2e-3, onnxruntime=1e-3, onnxruntime_bound=1.5e-3, torch_compile="no gcc"),
    row("tied-3", 1e-5, "kernels", eager=1.01e-5, torch_compile_autotuned=2e-5),
    row("broken-4", "wrong result", eager=1e-5),
)


def test_the_better_way_counts() -> None:
    won, lost = ROWS[:2]
    assert best_peer(won).title == "OpenVINO, shared"
    assert best_peer(lost).title == "ONNX Runtime"
    assert [r.ratio for r in ROWS] == [pytest.approx(2), 0.5, pytest.approx(1.01), None]
    assert best_peer(row("alone", 1e-5, eager="failed")) is None


def test_a_table_shows_failures_losses_and_ties() -> None:
    text = section(Table(HEAD, ROWS))
    assert (
        "| won-1 | 10.00 us | - | 30.00 us | 20.00 us (shared) | 90.00 us | 2.00 | 100.0 |" in text
    )
    assert "| lost-2 | 2.000 ms | failed | 1.000 ms | - | - | 0.50 | 0.5 |" in text
    assert "| broken-4 | failed |" in text
    assert "- lost-2, torch.compile: no gcc\n- broken-4, burnish: wrong result" in text
    assert "3 rows: 1.00." in text
    assert "Slower than the best peer: lost-2 (0.50)." in text
    assert "Within 3%: tied-3 (1.01)." in text


def test_data_and_back(tmp_path: Path) -> None:
    data = {**HEAD, "rows": [r.to_json() for r in ROWS]}
    (tmp_path / "znver9-1.json").write_text(json.dumps(data))
    (tmp_path / "znver9-2.json").write_text(json.dumps({**data, "threads": 2}))
    (tmp_path / "znver9-2.part.json").write_text("{")
    (tmp_path / "znver1-1.json").write_text(
        json.dumps({**data, "llvm": "znver1", "date": "2026-12-01"})
    )
    tables = load_tables(tmp_path)
    assert [(t.head["llvm"], t.threads) for t in tables] == [
        ("znver1", 1), ("znver9", 1), ("znver9", 2),
    ]  # fmt: skip
    assert [r.ratio for r in tables[1].rows] == [pytest.approx(2), 0.5, pytest.approx(1.01), None]
    assert section(tables[1]) == section(Table(HEAD, ROWS))


def test_the_headline_is_of_the_newest_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results.load_tables, "__defaults__", (tmp_path,))
    assert results.headline().startswith("No table has been measured yet")
    data = {**HEAD, "rows": [r.to_json() for r in ROWS]}
    for threads in (1, 2):
        path = tmp_path / f"znver9-{threads}.json"
        path.write_text(json.dumps({**data, "threads": threads}))
    text = results.headline()
    assert "| won-1 | 10.00 us | OpenVINO, shared | 20.00 us | 2.00 | 2.00 |" in text
    assert "tied-3" not in text
    assert "over all 4 rows, kernels included: 1.00 with 1 thread and 1.00 with 2 threads" in text


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda p: p.name)
def test_published_data_are_whole_tables(path: Path) -> None:
    data = json.loads(path.read_text())
    assert [r["case"] for r in data["rows"]] == data["cases"]
    assert path.name == f"{data['llvm']}-{data['threads']}.json"
    for r in data["rows"]:
        assert list(r["results"]) == data["contenders"]
    assert "torch.compile" in data["contenders"]


def test_the_document_shows_the_data(request: pytest.FixtureRequest) -> None:
    compare("benchmarks/RESULTS.md", request)


def test_links_lead_somewhere() -> None:
    assert broken_links(ROOT / "benchmarks" / "RESULTS.md") == []


def test_what_the_documents_say_of_contenders_and_names_is_so() -> None:
    text = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    top = text.partition("## Earlier")[0]
    for way in ("autotuned", "bound", "shared"):
        assert f"`{way}`" in top
    assert PUBLISHED[0] == results.OURS
    granite = text.partition("Granite Rapids")[2].partition("## ")[0]
    named = [line.split(" | ")[0].strip("| ") for line in granite.splitlines() if " | 0." in line]
    assert len(named) == 3
    assert [name for name in named if name not in CASES] == []
