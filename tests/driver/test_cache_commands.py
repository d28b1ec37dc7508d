"""burnish cache list, clear and explain."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from burnish.driver import kernels
from burnish.driver.cli import main
from burnish.driver.kernels import _Cache
from burnish.tests.driver.test_commands import save


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["cache", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("BURNISH_CACHE", "1")
    monkeypatch.setenv("BURNISH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("BURNISH_RAISE_DEFECTS", "0")
    monkeypatch.setattr(kernels, "_cache", _Cache(8))
    pytest.importorskip("onnx")
    return str(save(tmp_path / "tiny.onnx", [2, 3]))


def test_explain_list_and_clear(
    tiny: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "cache" / "code"
    code, out, _ = run(capsys, "list")
    assert (code, out) == (0, f"0 entries, 0.0 of 537 MB, in {folder}\n")
    code, out, _ = run(capsys, "explain", tiny)
    assert out.startswith("0 of 2 parts were there\n")
    assert out.count("compiled for the first time") == 2
    monkeypatch.setattr(kernels, "_cache", _Cache(8))
    code, out, _ = run(capsys, "explain", tiny)
    assert out.startswith("2 of 2 parts were there\n")
    for path in folder.rglob("*-*"):
        os.utime(path, (0, 0))
    code, out, _ = run(capsys, "list")
    assert "kernel fused_add_relu" in out
    assert "schedule fused_add_relu" in out
    assert "days ago" in out
    code, out, _ = run(capsys, "list", "--limit", "1")
    assert out.count(" fused_add_relu ") == 1
    assert "\nand 1 more of 0.0 MB; --all lists them\n2 entries, " in out
    assert run(capsys, "list", "--limit", "0")[1].startswith("and 2 more of ")
    assert "more of" not in run(capsys, "list", "--limit", "0", "--all")[1]
    assert run(capsys, "clear")[1] == f"removed 2 entries of {folder}\n"
    assert run(capsys, "list")[1].startswith("0 entries")


def test_without_a_cache(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    os.environ["BURNISH_CACHE"] = "0"
    code, _, err = run(capsys, "list")
    assert code == 2
    assert "BURNISH_CACHE=0 says that nothing is kept" in err
