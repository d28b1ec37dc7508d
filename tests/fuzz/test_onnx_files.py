"""Spoiled ONNX files: a model or an error of ours, never anything else."""

from __future__ import annotations

import subprocess

import pytest

import burnish
from burnish.tests.fuzz import onnx_files
from burnish.tests.fuzz.onnx_files import (
    Spoiled,
    check_file,
    mutated_file,
    report,
    run_chunk,
)


@pytest.mark.parametrize("seed", range(60))
def test_a_spoiled_file_is_a_model_or_an_error(seed: int) -> None:
    found = check_file(seed)
    assert found.failure == "", found.how
    error = getattr(burnish.errors, found.ending, None)
    assert found.ending == "model" or issubclass(error, burnish.errors.BurnishError)


def test_files_differ_and_are_the_same_again() -> None:
    files = [mutated_file(seed) for seed in range(40)]
    assert files == [mutated_file(seed) for seed in range(40)]
    assert len({data for _, data in files}) == 40


def test_other_exceptions_and_our_defects_are_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (ValueError("what"), burnish.errors.InternalError("ours")):

        def breaks(path: str, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(burnish, "compile", breaks)
        found = check_file(0)
        assert found.ending == ""
        assert str(error).splitlines()[0] in found.failure


def test_a_process_that_ends_is_a_failure_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = iter(
        [
            ('{"begin": 0}\n{"seed": 0, "how": "cut", "ending": "model"}\n{"begin": 1}\n', -11),
            ('{"begin": 2}\n{"seed": 2, "how": "cut", "ending": "FrontendError"}\n', 0),
        ]
    )

    def worker(*arguments: object) -> subprocess.CompletedProcess[str]:
        output, code = next(said)
        return subprocess.CompletedProcess([], code, output, "words")

    monkeypatch.setattr(onnx_files, "run_worker", worker)
    found = list(run_chunk(0, 3))
    assert [f.seed for f in found] == [0, 1, 2]
    assert [bool(f.failure) for f in found] == [False, True, False]
    text = report(found)
    assert text.startswith("3 files: 1 failures; model 1, FrontendError 1")
    assert "FAILED seed 1" in text


def test_a_report_without_failures() -> None:
    assert report([Spoiled(0, "cut", "model")]) == "1 files: 0 failures; model 1"
