"""The cache on disk: the next process finds what this one compiled; what is damaged, read-only or
somebody else's is no harm."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import burnish
from burnish.driver import code_cache, kernels, stages
from burnish.driver.code_cache import CacheUse, CodeCache
from burnish.driver.compiled_model import CompiledModel
from burnish.driver.kernels import _Cache, resolve_target
from burnish.support.errors import ConfigError
from burnish.support.target import Target
from burnish.tests.driver.programs import mixed

NATIVE = resolve_target("native")
MODULE = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4, 6), dtype="float32"), w: R.Tensor((3, 6), dtype="float32")):
        with R.dataflow():
            y = R.relu(R.linear(x, w))
            z = R.exp(R.softmax(y))
            R.output(z)
        return z
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test's own, in use."""
    monkeypatch.setenv("BURNISH_CACHE", "1")
    monkeypatch.setenv("BURNISH_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("BURNISH_RAISE_DEFECTS", "0")
    return tmp_path / "code"


def compiled(monkeypatch: pytest.MonkeyPatch, target: str = "native") -> CompiledModel:
    """The module, as a process compiles it that has compiled nothing yet."""
    monkeypatch.setattr(kernels, "_cache", _Cache(64))
    made: CompiledModel = burnish.compile(burnish.parse(MODULE), target=target)
    return made


def result(model: CompiledModel) -> Any:
    rng = np.random.default_rng(0)
    return model(rng.random((4, 6), np.float32), rng.random((3, 6), np.float32))


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*-*"))


def test_what_was_compiled_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compiled(monkeypatch)
    emitted, parts = first.report.compilations, len(first.report.cache.missed)
    assert emitted >= 2
    assert set(first.report.cache.missed.values()) == {"compiled for the first time"}
    assert len(files(folder)) == parts
    second = compiled(monkeypatch)
    assert second.report.compilations == 0
    assert (len(second.report.cache.found), second.report.cache.missed) == (parts, {})
    assert f"cache: {parts} of {parts} parts found" in str(second.report)
    assert second.executable.program.objects == first.executable.program.objects
    assert second.script("70-bytecode") == first.script("70-bytecode")
    assert second.script("40-scheduled") == first.script("40-scheduled")
    assert second.report.schedules == first.report.schedules
    assert second.report.facts == first.report.facts
    np.testing.assert_array_equal(result(second), result(first))


def test_a_miss_says_why(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(monkeypatch)
    other = compiled(monkeypatch, "llvm -mcpu=x86-64")
    assert other.report.compilations >= 2
    reasons = set(other.report.cache.missed.values())
    assert "there, but with another target" in reasons
    known = code_cache._versions() | {"source": "another"}
    monkeypatch.setattr(code_cache, "_versions", lambda: known)
    reasons = set(compiled(monkeypatch).report.cache.missed.values())
    assert reasons == {"there, but with another source"}


def test_damaged_entries_are_compiled_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = result(compiled(monkeypatch))
    whole = {path: path.read_bytes() for path in files(folder)}
    rng = random.Random(0)
    for trial in range(6):
        for path, held in whole.items():
            place = rng.randrange(len(held))
            flipped = (
                held[:place] + bytes([held[place] ^ 1 << rng.randrange(8)]) + held[place + 1 :]
            )
            path.write_bytes(held[:place] if trial % 2 else flipped)
        again = compiled(monkeypatch)
        assert again.report.cache.found == []
        assert set(again.report.cache.missed.values()) == {"there, but damaged"}
        np.testing.assert_array_equal(result(again), expected)
        assert {path: path.read_bytes() for path in files(folder)} == whole


@pytest.mark.parametrize("size", [0, 7, 8, 40, 43, 44, 60])
def test_every_byte_of_an_entry_counts(tmp_path: Path, size: int) -> None:
    cache, use = CodeCache(tmp_path, 1 << 20), CacheUse()
    cache.put("kernel", "a", NATIVE, "f", {"x": 1}, use)
    (path,) = files(tmp_path)
    held = path.read_bytes()
    assert cache.get("kernel", "a", NATIVE, "f", use) == {"x": 1}
    path.write_bytes(held[:size])
    assert cache.get("kernel", "a", NATIVE, "f", use) is None
    path.write_bytes(held[:size] + bytes([held[size] ^ 255]) + held[size + 1 :])
    assert cache.get("kernel", "a", NATIVE, "f", use) is None
    assert use.missed == {"f": "there, but damaged"}


def test_what_does_not_unpickle_is_no_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, use = CodeCache(tmp_path, 1 << 20), CacheUse()
    monkeypatch.setattr(code_cache.pickle, "dumps", lambda value: b"no pickle")
    cache.put("kernel", "a", NATIVE, "f", 1, use)
    assert cache.get("kernel", "a", NATIVE, "f", use) is None


def test_a_folder_that_cannot_be_written_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled(monkeypatch)

    def refuse(*args: object, **options: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(code_cache, "written_whole", refuse)
    monkeypatch.setattr(code_cache.os, "utime", refuse)
    again = compiled(monkeypatch)
    assert again.report.compilations == 0
    assert again.report.cache.problems == []
    other = compiled(monkeypatch, "llvm -mcpu=x86-64")
    result(other)
    assert f"{folder} cannot be written: Read-only file system." in str(other.report)


def test_a_folder_that_is_a_file_is_no_harm(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("")
    model = compiled(monkeypatch)
    result(model)
    assert "cannot be written" in model.report.cache.problems[0]


def test_a_folder_that_others_may_write_is_not_used(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    cache, use = CodeCache(tmp_path, 1 << 20), CacheUse()
    cache.put("kernel", "a", NATIVE, "f", 1, use)
    assert cache.get("kernel", "a", NATIVE, "f", use) is None
    assert not cache.has("kernel", "a", NATIVE)
    assert use.problems == [f"{tmp_path} is not used: others may write it."]
    assert list(tmp_path.iterdir()) == []


def test_what_was_used_longest_ago_goes(tmp_path: Path) -> None:
    cache, use = CodeCache(tmp_path, 5000), CacheUse()
    for number in range(4):
        cache.put("kernel", str(number), NATIVE, str(number), bytes(1000), use)
        (newest,) = [p for p in files(tmp_path) if p.stat().st_mtime > 100]
        os.utime(newest, (number + 1, number + 1))
    assert cache.get("kernel", "0", NATIVE, "0", use) is not None
    for path in files(tmp_path):  # targets differ in size between machines
        cache.limit = 3 * path.stat().st_size + 10
    cache.prune()
    left = [n for n in range(4) if cache.has("kernel", str(n), NATIVE)]
    assert left == [0, 3]


def test_a_process_looks_at_the_size_when_it_writes(tmp_path: Path) -> None:
    cache = CodeCache(tmp_path, 10)
    cache.put("kernel", "a", NATIVE, "f", 1, CacheUse())
    assert files(tmp_path) == []


def test_processes_that_write_at_once(tmp_path: Path) -> None:
    program = """
        import sys
        from pathlib import Path
        from burnish.driver.code_cache import CacheUse, CodeCache
        from burnish.support.target import Target
        cache, target = CodeCache(Path(sys.argv[1]), 1 << 20), Target("llvm -mcpu=x86-64")
        for i in range(60):
            use = CacheUse()
            cache.put("kernel", str(i % 5), target, "f", [i % 5] * 2000, use)
            found = cache.get("kernel", str(i % 5), target, "f", use)
            assert found == [i % 5] * 2000, use
            if i % 20 == 19:
                cache.clear() if sys.argv[2] == "clears" else cache.prune()
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)]
    running = [subprocess.Popen([*command, role]) for role in ("writes", "prunes")]
    assert [p.wait() for p in running] == [0, 0]


def test_a_process_that_is_killed_while_it_writes(tmp_path: Path) -> None:
    program = """
        import os, signal, sys
        from pathlib import Path
        from burnish.driver.code_cache import CacheUse, CodeCache
        from burnish.support import whole_file
        from burnish.support.target import Target
        whole_file.os.replace = lambda *a: os.kill(os.getpid(), signal.SIGKILL)
        cache = CodeCache(Path(sys.argv[1]), 1 << 20)
        cache.put("kernel", "a", Target("llvm -mcpu=x86-64"), "f", 1, CacheUse())
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)]
    assert subprocess.run(command, check=False).returncode == -9
    cache = CodeCache(tmp_path, 1 << 20)
    target = Target("llvm -mcpu=x86-64")
    assert cache.get("kernel", "a", target, "f", CacheUse()) is None
    assert list(cache.entries()) == []
    assert cache.clear() == 1  # what it left beside its place


def test_flags_of_who_debugs_leave_it_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BURNISH_DUMP", str(tmp_path / "dump"))
    compiled(monkeypatch)
    assert files(folder) == []
    monkeypatch.delenv("BURNISH_DUMP")
    monkeypatch.setenv("BURNISH_CACHE", "0")
    assert compiled(monkeypatch).report.cache == CacheUse()
    assert not folder.exists()
    monkeypatch.setenv("BURNISH_CACHE_SIZE", "none")
    monkeypatch.setenv("BURNISH_CACHE", "1")
    with pytest.raises(ConfigError, match="BURNISH_CACHE_SIZE expects a whole number"):
        compiled(monkeypatch)


class Scaled(torch.nn.Module):
    """Weights that are folded (the norm into the convolution) and packed, and a constant."""

    def __init__(self, seed: int = 0, factor: float = 2.0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.conv, self.norm = torch.nn.Conv2d(4, 16, 3, padding=1), torch.nn.BatchNorm2d(16)
        self.norm.running_var.uniform_(0.5, 2)
        self.linear, self.factor = torch.nn.Linear(16, 5), factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm(self.conv(x))).mean((2, 3)) * self.factor
        return torch.softmax(self.linear(y), -1)


def test_models_that_differ_in_little_do_not_get_each_others_results(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    x = torch.rand(1, 4, 5, 5)
    one_bias = Scaled()
    with torch.no_grad():
        one_bias.linear.bias[3] += 0.5
    cases: list[tuple[torch.nn.Module, dict[str, Any]]] = [
        (Scaled(), {}),
        (Scaled(seed=1), {}),
        (Scaled(factor=3.0), {}),
        (one_bias, {}),
        (Scaled(), {"precision": "bfloat16"}),
        (Scaled(), {"precision": "int8-weights"}),
        (Scaled(), {"target": "x86-64-v2"}),
    ]

    programs = [(torch.export.export(module.eval(), (x,)), options) for module, options in cases]

    def results() -> list[bytes]:
        found = []
        for program, options in programs:
            monkeypatch.setattr(kernels, "_cache", _Cache(64))
            model = burnish.compile(program, threads=1, **options)
            found.append(model(x).numpy().tobytes())
        return found

    monkeypatch.setenv("BURNISH_CACHE", "0")
    right = results()
    assert len(set(right[:4])) == 4
    monkeypatch.setenv("BURNISH_CACHE", "1")
    assert results() == right
    # The schedules of a database are for those alone who ask for them.
    monkeypatch.setattr(kernels, "_cache", _Cache(64))
    burnish.compile(programs[0][0], threads=1).tune(trials=1, database=tmp_path / "records.db")
    assert results() == right


def test_schedules_of_a_search_are_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from burnish.driver.stages import compile_module
    from burnish.tuner.analytic import schedule_analytically

    monkeypatch.setattr(kernels, "_cache", _Cache(64))
    compile_module(mixed(), NATIVE, schedule=lambda *args: schedule_analytically(*args))
    kinds = {e.header["kind"] for e in CodeCache(folder, 1 << 20).entries()}
    assert kinds == {"kernel", "segment"}


def test_workers_do_not_start_for_what_is_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BURNISH_BUILD_JOBS", "2")
    monkeypatch.setattr(stages, "MANY_OPERATIONS", 1)
    first = compiled(monkeypatch)
    assert first.report.worker_seconds >= 0
    assert "module" in {e.header["kind"] for e in CodeCache(folder, 1 << 20).entries()}

    def refuse(*args: object) -> None:
        raise AssertionError("workers are started")

    monkeypatch.setattr(stages.workers, "held", refuse)
    assert compiled(monkeypatch).report.compilations == 0


def test_the_source_is_read_again_where_somebody_touched_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "package"
    for room in code_cache._ROOMS:
        (package / room).mkdir(parents=True)
        (package / room / "a.py").write_text(room)
    monkeypatch.setattr(code_cache, "__file__", str(package / "driver" / "code_cache.py"))
    monkeypatch.setenv("BURNISH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("BURNISH_CACHE", "0")
    first = code_cache._source_digest()
    assert not (tmp_path / "cache").exists()
    monkeypatch.setenv("BURNISH_CACHE", "1")
    assert code_cache._source_digest() == first
    reads = []
    read = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: reads.append(path) or read(path))
    assert code_cache._source_digest() == first
    assert reads == []
    changed = package / "vm" / "a.py"
    held = changed.stat()
    while changed.stat().st_ctime_ns == held.st_ctime_ns:  # the system's clock ticks seldom
        changed.write_text("mv")
        os.utime(changed, ns=(held.st_atime_ns, held.st_mtime_ns))
    second = code_cache._source_digest()
    assert second != first
    assert len(reads) == len(code_cache._ROOMS)
    (kept,) = (tmp_path / "cache").iterdir()
    kept.write_text(kept.read_text().replace(second, first))
    assert code_cache._source_digest() == second
    (package / "vm" / "b.py").write_text("")
    assert code_cache._source_digest() not in (first, second)
