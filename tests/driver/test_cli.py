"""The command line as such: usage, help, and what being asked for help costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from burnish.driver.cli import main
from burnish.support.choices import STAGES


@pytest.mark.parametrize("arguments", [[], ["frobnicate"], ["show", "m.onnx", "--stage", "x"]])
def test_bad_usage_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: burnish" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["comple", "m.onnx"], "'compile'"),
        (["db", "stat", "records.db"], "'stats'"),
        (["show", "m.onnx", "--stage", "30-fuse"], "'30-fused'"),
        (["tune", "m.onnx", "--task-scheduler=gradent"], "'gradient'"),
        (["tune", "m.onnx", "--databse", "records.db"], "'--database'"),
        (["run", "m.onnx", "--sizs=batch=8"], "'--sizes'"),
        (["db", "prune", "records.db", "--keeep", "3"], "'--keep'"),
        (["worker", "--conect", "tcp://host:1"], "'--connect'"),
        (["--hepl"], "'--help'"),
    ],
)
def test_what_was_meant_is_named(
    arguments: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err.endswith(f". Did you mean {hint}?\n")


def test_an_unknown_option_shows_the_usage_of_its_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["bench", "m.onnx", "--xyzzy", "4"])
    err = capsys.readouterr().err
    assert err.startswith("usage: burnish bench")
    assert err.endswith("unrecognized arguments: --xyzzy 4\n")


def test_help_lists_the_flags(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "BURNISH_DUMP" in capsys.readouterr().out


def test_help_of_a_command_lists_its_choices(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, words in (
        (["show"], list(STAGES)),
        (["tune"], ["gradient", "round-robin"]),
        (["db"], ["stats", "best", "show", "export", "import", "merge", "prune"]),
    ):
        with pytest.raises(SystemExit):
            main([*arguments, "--help"])
        out = capsys.readouterr().out
        assert [w for w in words if w not in out] == []


def test_help_imports_nothing_heavy() -> None:
    """Neither a compiler nor what one stands on."""
    code = (
        "import sys; from burnish.driver.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = ('numpy', 'llvmlite', 'networkx', 'torch', 'onnx', 'burnish.tensorir')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"
