"""written_whole: the old file or the new one, and nothing beside."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from burnish.support.whole_file import written_whole


def test_the_new_file_takes_the_place_of_the_old(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with written_whole(path) as file:
        file.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["file"]


def test_it_may_be_read_by_whom_files_may_be_read(tmp_path: Path) -> None:
    (tmp_path / "usual").write_text("")
    with written_whole(tmp_path / "file"):
        pass
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_what_fails_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(TypeError), written_whole(path) as file:
        file.writelines([b"half", "no bytes"])  # type: ignore[list-item]
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]
    with pytest.raises(OSError, match="No such file"), written_whole(tmp_path / "no" / "file"):
        pass
