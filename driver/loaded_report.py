"""What a loaded model says of the compilation that it was saved from: a ``CompileReport`` whose
text was kept, with the facts in it as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..support.errors import NotCompiledError
from ..support.keywords import hinted
from .report import CompileReport

if TYPE_CHECKING:
    from .model_profile import ModelProfile

_KEPT = (
    "kernels", "calls", "distinct", "segments", "copies", "workspace_bytes", "constant_bytes",
    "notes",
)  # fmt: skip


@hinted
@dataclass
class LoadedReport(CompileReport):
    """The report of a compilation that was elsewhere. It has no times: nothing was compiled."""

    text: str = ""
    """Which kernels were taken and why, and what their compilation said of itself."""

    def __str__(self) -> str:
        return self.text

    def to_html(self, path: str | Path, profile: ModelProfile | None = None) -> Path:
        """Raises NotCompiledError: a saved model has no programs of its kernels."""
        raise NotCompiledError(
            "A loaded model has the code of its kernels and not the programs that the page shows; "
            "write the page where the model is compiled: model.report.to_html(path)."
        )


def kept_of(report: CompileReport) -> dict[str, Any]:
    """The facts of a report as data."""
    return {name: getattr(report, name) for name in _KEPT}


def loaded_report(text: str, kept: Mapping[str, Any]) -> LoadedReport:
    """The report again. Raises TypeError for what was not kept of one; files of older versions have
    the text alone."""
    return LoadedReport(**kept, text=text)


__all__ = ["LoadedReport", "kept_of", "loaded_report"]
