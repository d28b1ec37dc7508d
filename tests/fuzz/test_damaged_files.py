"""Damaged files of saved models and caches: the right result or an error, never anything else."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from burnish.tests.fuzz import damaged_files
from burnish.tests.fuzz.damaged_files import check, damaged, prepare, run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("damaged")
    prepare(place)
    return place


@pytest.mark.parametrize("first", range(0, 80, 20))
def test_a_damaged_model_is_refused_or_right(folder: Path, first: int) -> None:
    found = [check("artifact", seed, folder) for seed in range(first, first + 20)]
    assert [failure for _, failure in found if failure] == []


def test_a_damaged_cache_is_made_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Set first, so that they are put back.
    monkeypatch.setenv("BURNISH_CACHE", "1")
    monkeypatch.setenv("BURNISH_CACHE_DIR", str(folder))
    monkeypatch.setattr(damaged_files.kernels, "_cache", damaged_files._Cache(64))
    found = [check("cache", seed, folder) for seed in range(12)]
    assert [failure for _, failure in found if failure] == []


def test_every_kind_of_damage_changes_something() -> None:
    data = random.Random(0).randbytes(20_000)
    found = [damaged(data, random.Random(seed)) for seed in range(200)]
    assert len({how for how, _ in found}) == 7
    assert len({bytes_ for _, bytes_ in found}) > 190


def test_another_result_is_a_failure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(damaged_files, "damaged", lambda data, rng: ("nothing", data))
    assert check("artifact", 0, folder) == ("nothing: as it was", "")
    monkeypatch.setattr(damaged_files.burnish, "load", lambda path, threads: lambda x: x)
    assert "another result" in check("artifact", 0, folder)[1]


def test_a_process_that_ends_is_a_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(damaged_files, "prepare", lambda folder: None)
    program = tmp_path / "dies"
    program.write_text('#!/bin/sh\necho \'["bit: refused", ""]\'\nkill -9 $$\n')
    program.chmod(0o755)
    monkeypatch.setattr(damaged_files.sys, "executable", str(program))
    endings, failures = run("artifact", 5, 3)
    assert endings == {"bit: refused": 1}
    assert failures == ["artifact 6: ended with -9: "]
