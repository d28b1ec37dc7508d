"""The page of a compiled model: whole, self-contained, with every kernel at every stage."""

from __future__ import annotations

import gc
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch

import burnish
from burnish.driver.compiled_model import CompiledModel
from burnish.driver.html_report import report_page
from burnish.support.errors import ArtifactError, NotCompiledError

_VOID = {"meta", "br", "img", "link"}


class Checked(HTMLParser):
    """Elements that end where they should; their ids, and the links within the page."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        assert "src" not in known
        self.ids += [known["id"] or ""] if "id" in known else []
        self.links += [known["href"] or ""] if "href" in known else []
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def checked(page: str) -> Checked:
    parser = Checked()
    parser.feed(page)
    assert parser.open == []
    assert set(parser.links) <= {f"#{i}" for i in parser.ids}
    return parser


def test_a_page_with_a_profile(static: CompiledModel, image: torch.Tensor, tmp_path: Path) -> None:
    profile = static.profile(image, seconds=0.01, roofline=False)
    path = static.report.to_html(tmp_path / "r.html", profile)
    page = path.read_text(encoding="utf-8")
    found = checked(page)
    assert found.ids == [f"kernel-{name}" for name in static.report.kernels]
    for what in ("trace of its schedule", "LLVM IR", "assembly", "program, scheduled", "loops"):
        assert page.count(f"<summary>{what}</summary>") == 2
    for text in ("apply_rule(", "define void @linear_1", "T.Ramp", "<th", "opacity"):
        assert text in page
    assert "<script" not in page
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")


def test_a_page_without_one_of_named_sizes(dynamic: CompiledModel) -> None:
    page = report_page(dynamic.executable)
    checked(page)
    assert "float32[batch, 128]" in page
    assert "<h2>Time" not in page


def test_a_library_and_a_model_of_no_kernels() -> None:
    class Same(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    page = report_page(burnish.compile(Same().eval(), (torch.ones(2),)).executable)
    checked(page)
    assert "0 kernels for" in page


def test_errors(static: CompiledModel, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="cannot be written"):
        static.report.to_html(tmp_path / "no" / "r.html")
    report = burnish.compile(torch.nn.ReLU(), (torch.ones(2),)).report
    gc.collect()
    with pytest.raises(NotCompiledError, match="is gone"):
        report.to_html(tmp_path / "r.html")


def test_what_notebooks_show(static: CompiledModel, tmp_path: Path) -> None:
    assert "1 signature" in static._repr_html_()
    assert "<pre>compiled in" in static._repr_html_()
    lazy = burnish.compile(torch.nn.ReLU())
    assert "not compiled yet" in lazy._repr_html_()
    loaded = burnish.load(static.save(tmp_path / "m.burnish").path)
    checked(f"<div>{loaded._repr_html_()}</div>")
    assert "(1, 1, 28, 28)" in loaded._repr_html_()
