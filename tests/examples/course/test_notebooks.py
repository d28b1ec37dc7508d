"""Each notebook of the course runs from top to bottom in a Jupyter kernel, and the page of the
course names it."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[3]
NOTEBOOKS = sorted((ROOT / "examples" / "course").glob("*.ipynb"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_in_a_kernel(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")


def test_every_notebook_has_its_chapter_and_keeps_no_results() -> None:
    page = (ROOT / "docs" / "course.md").read_text(encoding="utf-8")
    named = re.findall(r"examples/course/(\w+)\.ipynb", page)
    assert sorted(named) == [path.stem for path in NOTEBOOKS]
    for path in NOTEBOOKS:
        cells = nbformat.read(path, as_version=4).cells
        assert not any(cell.get("outputs") for cell in cells)
