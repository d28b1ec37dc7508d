"""``burnish serve``: names of models, and the extra it needs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from burnish.driver.cli import main
from burnish.driver.serve_commands import model_paths
from burnish.support.errors import ArgumentError


def test_names_of_models() -> None:
    assert model_paths(["a/m.burnish", "n=b/m.burnish"]) == {
        "m": Path("a/m.burnish"),
        "n": Path("b/m.burnish"),
    }
    with pytest.raises(ArgumentError, match="two models are called 'm'"):
        model_paths(["a/m.burnish", "b/m.burnish"])
    with pytest.raises(ArgumentError, match="without / in the name"):
        model_paths(["a/b=c.burnish"])


def test_the_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["serve", "m.burnish"]) == 2
    assert "pip install 'burnish[serve]'" in capsys.readouterr().err
