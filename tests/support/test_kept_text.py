"""Texts come back whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from burnish.support.kept_text import keep_text, kept_text


def test_a_text_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "text"
    assert kept_text(path) is None
    for text in ("one", "two\nlines\n", ""):
        keep_text(path, text)
        assert kept_text(path) == text
    assert list(path.parent.iterdir()) == [path]


def test_what_is_not_as_it_was_written_is_none(tmp_path: Path) -> None:
    path = tmp_path / "text"
    keep_text(path, "some text")
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[1:], b"", b"\xff\xfe", b"Some" + whole[4:], whole + b"\n"):
        path.write_bytes(damaged)
        assert kept_text(path) is None


def test_what_is_somebody_elses_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "text"
    keep_text(path, "some text")
    owner = path.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert kept_text(path) == ("some text" if owner == 0 else None)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    keep_text(tmp_path / "file" / "text", "some text")
    assert kept_text(tmp_path / "file" / "text") is None
