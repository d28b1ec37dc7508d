"""Every command with every kind of bad input: one clear error, the exit code 2, no traceback."""

from __future__ import annotations

import socket
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from burnish.driver.cli import main
from burnish.driver.compile import compile as compile_model
from burnish.tests.driver.test_commands import save

pytest.importorskip("onnx")

COMMANDS = {
    "compile": (),
    "inspect": (),
    "run": ("--sizes", "batch=2"),
    "bench": ("--sizes", "batch=2"),
    "profile": ("--sizes", "batch=2"),
    "verify": ("--sizes", "batch=2"),
    "show": (),
    "tune": ("--trials", "1", "--sizes", "batch=2"),
    "serve": ("--port", "0"),
    "cache explain": (),
    "db stats": (),
    "db best": (),
    "db show": (),
    "db prune": (),
}
FILES = {
    "missing.onnx": "No such file|no file",
    "missing.burnish": "No such file|no file",
    "folder": "Is a directory|unable to open",
    "text.onnx": "it is text|is no JSON|no tuning database",
    "cut.onnx": "cut off|it seems|is no JSON|no tuning database",
    "cut.burnish": "truncated|is no JSON|no tuning database",
    "flipped.burnish": "is damaged|is no JSON|no tuning database",
    "weights.pt": "a zip archive|is no JSON|no tuning database",
    "array.npy": "a NumPy array|is no JSON|no tuning database",
    "pointer.onnx": "git lfs pull|is no JSON|no tuning database",
    "other.onnx": "Frobnicate|an ONNX model, it seems|is no JSON|no tuning database",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of all kinds, one of them good."""
    place = tmp_path_factory.mktemp("files")
    (place / "folder").mkdir()
    good = save(place / "good.onnx", ["batch", 3])
    save(place / "other.onnx", ["batch", 3], op="Frobnicate")
    compile_model(good).save(place / "good.burnish")
    whole = (place / "good.burnish").read_bytes()
    (place / "cut.burnish").write_bytes(whole[:-5000])
    (place / "flipped.burnish").write_bytes(whole[:60] + b"?" + whole[61:])
    (place / "cut.onnx").write_bytes(good.read_bytes()[:-9])
    (place / "text.onnx").write_text("no model\n")
    (place / "pointer.onnx").write_text("version https://git-lfs.github.com/spec/v1\noid 1\n")
    torch.save({"w": torch.ones(3)}, place / "weights.pt")
    np.save(place / "array.npy", np.ones((2, 3), np.float32))
    np.save(place / "wide.npy", np.ones((2, 4), np.float32))
    np.save(place / "double.npy", np.ones((2, 3)))
    np.savez(place / "several.npz", np.ones((2, 3)))
    return place


@pytest.fixture(autouse=True)
def _there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def said(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a command that must fail says."""
    try:
        code: object = main(arguments)
    except SystemExit as end:
        code = end.code
    captured = capsys.readouterr()
    assert code == 2, (arguments, code, captured)
    assert "Traceback" not in captured.err
    last = captured.err.splitlines()
    assert [line for line in last if line.startswith("burnish")], captured.err
    return captured.err


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_bad_file(
    command: str,
    file: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    if command == "serve":
        pytest.importorskip("starlette")
        pytest.importorskip("uvicorn")
    if command == "cache explain":
        monkeypatch.setenv("BURNISH_CACHE", "1")
        monkeypatch.setenv("BURNISH_CACHE_DIR", str(tmp_path))
    err = said([*command.split(), file, *COMMANDS[command]], capsys)
    assert any(part in err for part in FILES[file].split("|")), err
    assert file in err or "Frobnicate" in err


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("compile good.onnx --target znvr4", "znver4, znver3"),
        ("compile good.onnx --threads 0", "--threads: expected a whole number of at least 1"),
        ("compile good.onnx --precision bf16", "--precision: expected one of strict, fast"),
        ("compile good.onnx --precision =int8", "LAYER=WORD"),
        ("compile good.onnx --precision *=int9", "--precision of a layer: expected one of"),
        ("compile good.onnx --precision auto", "takes a torch.nn.Module"),
        ("compile good.onnx --specialize size=1", "'size'"),
        ("compile good.onnx --database none.db", "no file"),
        ("compile good.onnx -o none/m.burnish", "-o: nothing can be written"),
        ("compile good.onnx -o folder", "-o: expected the name of a file"),
        ("compile good.onnx --report none/m.html", "--report: nothing can be written"),
        ("compile good.onnx -o m.burnish --variant pentium", "name of a CPU"),
        ("compile good.onnx --variant haswell", "name it with -o"),
        ("run good.burnish --precision int8", "--precision: good.burnish is a saved model"),
        ("run good.burnish --checked", "--checked: good.burnish is a saved model"),
        ("run good.burnish --sizes batch=2 --target cascadelake", "cascadelake"),
        ("run good.onnx", "--sizes batch=8"),
        ("run good.onnx --sizes batch", "as in batch=8"),
        ("run good.onnx --sizes batch=2,batch=3", "given twice"),
        ("run good.onnx --sizes size=2", "--sizes: no input has a size 'size'"),
        ("run good.onnx --sizes batch=99999999999999", "Give smaller sizes"),
        ("run good.onnx --sizes batch=99999999999999999999999", "as in batch=8"),
        ("run good.onnx --sizes batch=2 --output none/y.npz", "--output: nothing can be written"),
        ("run good.onnx --input none.npy", "none.npy cannot be read: No such file"),
        ("run good.onnx --input folder", "folder cannot be read: Is a directory"),
        ("run good.onnx --input good.onnx", "it is an ONNX model"),
        ("run good.onnx --input several.npz", "of several"),
        ("run good.onnx --input none.pt", "none.pt cannot be read: No such file"),
        ("run good.onnx --input none.safetensors", "cannot be read: No such file"),
        ("run good.onnx --input wide.npy", "expected shape (batch, 3)"),
        ("run good.onnx --input double.npy", "expected dtype float32, got float64"),
        ("run good.onnx --input array.npy --input array.npy", "takes 1 input tensor"),
        ("profile good.onnx --sizes batch=2 --seconds nan", "expected a number above 0"),
        ("profile good.onnx --sizes batch=2 --trace none/t.json", "--trace: nothing can be"),
        ("verify good.onnx --sizes batch=2 --tolerance -1", "a number from 0 up"),
        ("verify good.burnish --sizes batch=2 --source text.onnx", "it is text"),
        ("show good.burnish --stage 30-fused", "40-scheduled and 70-bytecode"),
        ("tune good.onnx --trials 1", "as in --sizes batch=1"),
        ("tune good.onnx --trials 1 --sizes size=1", "--sizes: no input has a size 'size'"),
        ("tune good.onnx --trials 0 --sizes batch=1", "--trials: expected a whole number"),
        ("tune good.onnx --minutes nan --sizes batch=1", "--minutes: expected a number above 0"),
        ("worker --connect tcp://127.0.0.1:1 --runners -1", "--runners: expected a whole number"),
        ("demo --threads 0", "--threads: expected a whole number"),
        ("demo --data none", "none holds neither"),
        ("db import none.db text.onnx", "is no JSON"),
        ("db show none.jsonl", "no file 'none.jsonl'"),
        ("db prune none.db --keep 0", "--keep: expected a whole number of at least 1"),
        ("serve good.burnish --port 99999", "--port: expected a whole number from 0 to 65535"),
        ("serve good.burnish --timeout inf", "--timeout: expected a number above 0"),
        ("serve good.burnish --max-mb nan", "--max-mb: expected a number above 0"),
        ("serve good.burnish --max-batch 0", "--max-batch: expected a whole number"),
        ("serve good.burnish --host nowhere.invalid --port 0", "an address of this machine"),
        ("serve good.burnish good.burnish", "two models are called 'good'"),
        ("serve m=", "expected FILE or NAME=FILE"),
    ],
)
def test_a_bad_option(line: str, part: str, capsys: pytest.CaptureFixture[str]) -> None:
    if line.startswith("serve"):
        pytest.importorskip("starlette")
        pytest.importorskip("uvicorn")
    assert part in said(line.split(), capsys)


def test_a_port_that_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        err = said(["serve", "good.burnish", "--port", port], capsys)
    assert f"--port {port}: Address already in use. Something else listens there" in err


def test_what_cannot_be_imported_leaves_the_database_as_it_was(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    said(["db", "import", "new.db", "missing.jsonl"], capsys)
    assert not (folder / "new.db").exists()


@pytest.mark.parametrize(
    ("error", "part"),
    [
        (OSError(28, "No space left on device", "m.burnish"), "m.burnish: No space left on device"),
        (MemoryError("8 GiB"), "gives no more memory: 8 GiB"),
    ],
)
def test_what_the_system_refuses(
    error: BaseException,
    part: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(options: object) -> int:
        raise error

    monkeypatch.setattr("burnish.driver.commands.run_info", refuse)
    assert part in said(["info"], capsys)


def test_a_warning_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def warn(options: object) -> int:
        warnings.warn("the last line has no end.", stacklevel=1)
        return 0

    monkeypatch.setattr("burnish.driver.commands.run_info", warn)
    warnings.simplefilter("always")
    # pytest keeps warnings for itself; this is what Python does with them.
    show = lambda m, c, f, n, *more: sys.stderr.write(warnings.formatwarning(m, c, f, n))  # noqa: E731
    monkeypatch.setattr(warnings, "showwarning", show)
    before = warnings.formatwarning
    assert main(["info"]) == 0
    assert capsys.readouterr().err == "burnish: warning: the last line has no end.\n"
    assert warnings.formatwarning is before
