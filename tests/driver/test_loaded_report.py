"""The report of a loaded model: the same face, without times."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from burnish.driver.loaded_report import kept_of, loaded_report
from burnish.driver.report import CompileReport
from burnish.support.errors import NotCompiledError


def test_facts_come_back_as_data() -> None:
    report = CompileReport(kernels=["add"], notes=["one."], calls=2, workspace_bytes=None)
    found = loaded_report("loaded from m", json.loads(json.dumps(kept_of(report))))
    assert (found.kernels, found.notes, found.calls) == (["add"], ["one."], 2)
    assert found.workspace_bytes is None
    assert found.seconds == 0
    assert str(found) == "loaded from m"
    assert "loaded from m" in found._repr_html_()


def test_a_file_of_an_older_version_has_the_text() -> None:
    assert loaded_report("as it was", {}).notes == []


def test_pages_are_written_where_models_are_compiled(tmp_path: Path) -> None:
    with pytest.raises(NotCompiledError, match="write the page where the model is compiled"):
        loaded_report("m", {}).to_html(tmp_path / "page.html")
