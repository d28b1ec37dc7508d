"""Dumps: numbered stage files and their index."""

from __future__ import annotations

from pathlib import Path

import pytest

from burnish.support.dump import Dump
from burnish.support.errors import ConfigError


def test_without_a_directory_nothing_is_made() -> None:
    dump = Dump(None)
    assert not dump.enabled
    assert dump.write("00-import", lambda: pytest.fail("not wanted")) is None
    assert dump.entries == []


def test_stages_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = Dump(None, ["30-fused", "60-llvm"])
    assert dump.enabled
    assert dump.write("20-legalized", lambda: pytest.fail("not wanted")) is None
    assert dump.write("30-fused", lambda: "x = 1\n\n") is None
    dump.write("60-llvm/linear0", "define", suffix=".ll")
    dump.write("60-llvm/linear0", b"\x7fELF", suffix=".o")
    Dump(tmp_path, ["30-fused"]).write("30-fused", "y = 2")
    printed = "# -- stage 30-fused\nx = 1\n# -- stage 60-llvm/linear0\ndefine\n"
    assert capsys.readouterr().err == printed + "# -- stage 30-fused\ny = 2\n"
    assert (tmp_path / "30-fused.py").read_text() == "y = 2"


def test_stages_and_their_index(tmp_path: Path) -> None:
    with Dump(tmp_path / "out") as dump:
        assert dump.write("00-import", "x = 1\n") == tmp_path / "out" / "00-import.py"
        dump.write("60-llvm/linear 0", lambda: "define", suffix=".ll")
        dump.write("60-llvm/linear0", b"\x7fELF", suffix=".o")
    assert (tmp_path / "out" / "60-llvm" / "linear_0.ll").read_text() == "define"
    assert (tmp_path / "out" / "60-llvm" / "linear0.o").read_bytes() == b"\x7fELF"
    assert [e.file for e in dump.entries] == [
        "00-import.py",
        "60-llvm/linear_0.ll",
        "60-llvm/linear0.o",
    ]
    rows = [line.split() for line in (tmp_path / "out" / "index.txt").read_text().splitlines()]
    assert rows[0] == ["stage", "seconds", "bytes"]
    assert [(row[0], row[2]) for row in rows[1:]] == [
        ("00-import.py", "6"),
        ("60-llvm/linear_0.ll", "6"),
        ("60-llvm/linear0.o", "4"),
    ]
    assert all(float(row[1]) >= 0 for row in rows[1:])


def test_a_stage_cannot_leave_the_directory(tmp_path: Path) -> None:
    path = Dump(tmp_path / "out").write("../../etc/x", "text")
    assert path == tmp_path / "out" / "etc" / "x.py"


def test_a_failure_is_kept(tmp_path: Path) -> None:
    def compile_badly() -> None:
        with Dump(tmp_path) as dump:
            dump.write("00-import", "")
            raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        compile_badly()
    assert (tmp_path / "error.txt").read_text() == "ValueError: bad\n"


def test_from_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BURNISH_DUMP", raising=False)
    assert not Dump.from_flags("MLP").enabled
    monkeypatch.setenv("BURNISH_DUMP", str(tmp_path))
    assert Dump.from_flags().directory == tmp_path
    assert Dump.from_flags("My MLP").directory == tmp_path / "My_MLP"
    assert Dump.from_flags("My MLP").directory == tmp_path / "My_MLP-2"


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="Cannot keep stages in "):
        Dump(tmp_path / "file" / "x")
