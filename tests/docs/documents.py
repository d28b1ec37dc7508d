"""What tests of documents share: the builder, comparison with the file, links."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
BUILDER = ROOT / "docs" / "build.py"
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"(?ms)^```.*?^```$|`[^`\n]+`")


def load_builder() -> ModuleType:
    """``docs/build.py`` as a module."""
    name = "burnish_docs_build"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, BUILDER)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


def compare(document: str, request: pytest.FixtureRequest) -> None:
    """Rebuild a document in a process of its own and fail with the difference; with
    ``--update-golden`` rewrite it."""
    update = request.config.getoption("--update-golden")
    command = [sys.executable, str(BUILDER), *([] if update else ["--check"]), document]
    # Flags of whoever runs the tests must not change what is shown.
    clean = {k: v for k, v in os.environ.items() if not k.startswith("BURNISH_")}
    result = subprocess.run(
        command, cwd=ROOT, env=clean, capture_output=True, text=True, check=False
    )
    if result.returncode:
        pytest.fail(
            f"{document} is not what the compiler prints; if the change is meant, run pytest with "
            f"--update-golden.\n{result.stdout}{result.stderr}",
            pytrace=False,
        )


def anchors(document: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    text = re.sub(r"(?ms)^```.*?^```$", "", document.read_text(encoding="utf-8"))
    titles = re.findall(r"(?m)^#+ (.+)$", text)
    return {re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in titles}


def broken_links(document: Path) -> list[str]:
    """Links of a document that lead nowhere in the repository."""
    text = _CODE.sub("", document.read_text(encoding="utf-8"))
    broken = []
    for link in _LINK.findall(text):
        path, _, anchor = link.partition("#")
        if path.startswith(("http://", "https://")):
            continue
        target = (document.parent / path) if path else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken
