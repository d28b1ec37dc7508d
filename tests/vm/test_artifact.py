"""The file of a saved model: parts come back, and nothing that was changed does."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from burnish.support.errors import ArtifactError
from burnish.vm import artifact
from burnish.vm.artifact import MAGIC, read_artifact, write_artifact

PARTS = {"small": b"abc", "empty": b"", "large": bytes(range(256)) * 40, "last": b"z" * 65}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_artifact(tmp_path / "m.burnish", {"name": "m", "list": [1, 2.5, None]}, PARTS)
    return tmp_path / "m.burnish"


def test_parts_come_back_mapped_and_aligned(path: Path) -> None:
    found = read_artifact(path)
    assert found.model == {"name": "m", "list": [1, 2.5, None]}
    assert found.names == tuple(PARTS)
    assert {n: bytes(found.part(n)) for n in PARTS} == PARTS
    assert all(found.part(n).readonly for n in PARTS)
    assert path.stat().st_size < 5 * 4096
    with pytest.raises(ArtifactError, match="has no part 'other'"):
        found.part("other")


def test_the_same_model_is_the_same_file(path: Path, tmp_path: Path) -> None:
    write_artifact(tmp_path / "again", {"name": "m", "list": [1, 2.5, None]}, PARTS)
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_every_changed_byte_is_seen_or_means_nothing(path: Path) -> None:
    whole = path.read_bytes()
    rng = random.Random(0)
    places = [*range(60), *rng.sample(range(60, len(whole)), 200)]
    for place in places:
        path.write_bytes(
            whole[:place] + bytes([whole[place] ^ 1 << rng.randrange(8)]) + whole[place + 1 :]
        )
        try:
            found = read_artifact(path)
        except ArtifactError:
            continue
        # The gaps between parts are nobody's.
        assert {n: bytes(found.part(n)) for n in found.names} == PARTS


def test_every_cut_is_seen(path: Path) -> None:
    whole = path.read_bytes()
    for size in [0, 7, 8, 15, 47, 48, 60, *range(100, len(whole), 611), len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(ArtifactError, match=r"truncated|not a model saved|cannot be read"):
            read_artifact(path)


def test_without_verification_the_table_is_still_compared(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[-1] ^= 1
    path.write_bytes(whole)
    assert bytes(read_artifact(path, verify=False).part("small")) == b"abc"
    with pytest.raises(ArtifactError, match="hash of part 'last'"):
        read_artifact(path)
    whole[50] ^= 1
    path.write_bytes(whole)
    with pytest.raises(ArtifactError, match="hash of its table of contents"):
        read_artifact(path, verify=False)


def test_large_parts_are_compared_in_the_background(tmp_path: Path) -> None:
    path = tmp_path / "m.burnish"
    parts = {f"weight{i}": bytes([i + 1]) * (300_000 + 100_000 * i) for i in range(5)}
    write_artifact(path, None, parts | PARTS)
    found = artifact.open_artifact(path)
    found.finish_verifying()
    found.finish_verifying()
    whole = path.read_bytes()
    for i, part in enumerate(parts.values()):
        damaged = bytearray(whole)
        damaged[whole.index(part) + 7 * i] ^= 64
        path.write_bytes(damaged)
        found = artifact.open_artifact(path)
        for _ in range(2):
            with pytest.raises(ArtifactError, match=f"hash of part 'weight{i}'"):
                found.finish_verifying()
        with pytest.raises(ArtifactError, match=f"hash of part 'weight{i}'"):
            read_artifact(path)
        artifact.open_artifact(path, verify=False).finish_verifying()


def test_large_parts_are_compared_where_no_thread_can_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    path = tmp_path / "m.burnish"
    write_artifact(path, None, {"weight": bytes(300_000)})
    monkeypatch.setattr(threading.Thread, "start", refuse)
    read_artifact(path)
    whole = bytearray(path.read_bytes())
    whole[-1] = 1
    path.write_bytes(whole)
    with pytest.raises(ArtifactError, match="hash of part 'weight'"):
        read_artifact(path)


def test_a_newer_format_is_refused(path: Path) -> None:
    contents = json.dumps({"schema": 99, "model": None, "parts": {}}).encode()
    digest = hashlib.sha256(contents).digest()
    path.write_bytes(MAGIC + len(contents).to_bytes(8, "little") + digest + contents)
    with pytest.raises(ArtifactError, match="has format 99; this burnish reads up to 1"):
        read_artifact(path)


@pytest.mark.parametrize(
    "table",
    [
        [],
        {"schema": 1},
        {"schema": "x", "model": 1, "parts": {}},
        {"schema": 1, "model": 1, "parts": {"a": [0]}},
        {"schema": 1, "model": 1, "parts": {"a": [-9, 3, ""]}},
        {"schema": 1, "model": 1, "parts": {"a": [1 << 60, 3, ""]}},
        {"schema": 1, "model": 1, "parts": {"a": [0, 1 << 60, ""]}},
    ],
)
def test_a_table_that_somebody_made_up(path: Path, table: object) -> None:
    contents = json.dumps(table).encode()
    digest = hashlib.sha256(contents).digest()
    path.write_bytes(MAGIC + len(contents).to_bytes(8, "little") + digest + contents)
    with pytest.raises(ArtifactError, match=r"table of contents is none|ends behind the end"):
        read_artifact(path)


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="cannot be read: No such file"):
        read_artifact(tmp_path / "nothing")
    (tmp_path / "other").write_bytes(b"\x80\x04pickle" * 100)
    with pytest.raises(ArtifactError, match="is not a model saved by burnish"):
        read_artifact(tmp_path / "other")
    with pytest.raises(ArtifactError, match="cannot be written: No such file"):
        write_artifact(tmp_path / "no" / "folder", {}, {})


def test_a_failed_write_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(artifact.os, "fsync", full)
    with pytest.raises(ArtifactError, match="No space left"):
        write_artifact(path, {}, {"a": b"1"})
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_a_killed_writer_leaves_the_old_file_whole(path: Path) -> None:
    program = """
        import os, signal, sys
        from burnish.vm import artifact
        artifact.os.replace = lambda *a: os.kill(os.getpid(), signal.SIGKILL)
        artifact.write_artifact(sys.argv[1], {}, {"a": b"1" * 100000})
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(path)]
    assert subprocess.run(command, check=False).returncode == -9
    assert bytes(read_artifact(path).part("small")) == b"abc"


def test_a_disk_that_is_full_leaves_the_old_file(path: Path) -> None:
    """Here a process that may not write files of more than 50,000 bytes."""
    program = """
        import resource, sys
        from burnish.support.errors import ArtifactError
        from burnish.vm.artifact import write_artifact
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        try:
            write_artifact(sys.argv[1], {}, {"a": b"1" * 100_000})
        except ArtifactError as error:
            print(error)
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "cannot be written: File too large" in done.stdout
    assert bytes(read_artifact(path).part("small")) == b"abc"
    assert os.listdir(path.parent) == [path.name]


def test_who_reads_while_two_processes_write_finds_a_whole_file(path: Path) -> None:
    program = """
        import sys
        from burnish.vm.artifact import write_artifact
        for i in range(40):
            write_artifact(sys.argv[1], sys.argv[2], {"small": sys.argv[2].encode() * 5000})
    """
    script = textwrap.dedent(program)
    writers = [
        subprocess.Popen([sys.executable, "-c", script, str(path), name]) for name in ("one", "two")
    ]
    seen = set()
    are_writing = True
    while are_writing:
        are_writing = any(w.poll() is None for w in writers)
        found = read_artifact(path)  # once more when both have ended
        seen.add(str(found.model))
        expected = b"abc" if isinstance(found.model, dict) else found.model.encode() * 5000
        assert bytes(found.part("small")) == expected
    assert [w.returncode for w in writers] == [0, 0]
    assert seen & {"one", "two"}
    assert os.listdir(path.parent) == [path.name]


def test_a_process_without_memory_for_the_file_is_told_so(path: Path) -> None:
    write_artifact(path, {}, {"a": bytes(64 << 20)})
    program = """
        import resource, sys
        from burnish.support.errors import ArtifactError
        from burnish.vm.artifact import read_artifact
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (32 << 20),) * 2)
        try:
            read_artifact(sys.argv[1])
        except ArtifactError as error:
            print(error)
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "cannot be read: Cannot allocate memory" in done.stdout


def test_bytes_in_memory_are_read_like_a_file(path: Path) -> None:
    image = artifact.artifact_image({"name": "m", "list": [1, 2.5, None]}, PARTS)
    assert image == path.read_bytes()
    found = artifact.read_image(image, "what was sent")
    assert {n: bytes(found.part(n)) for n in PARTS} == PARTS
    assert bytes(found.image) == image
    with pytest.raises(ArtifactError, match="what was sent is truncated"):
        artifact.read_image(image[:-1], "what was sent")
