"""The worker's loop on streams of its own, without a process."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading

import pytest

from burnish.support.errors import TuningError
from burnish.support.worker import answer, resolve, serve


def ask(job: str, *args: object, **kwargs: object) -> dict[str, object]:
    line = json.dumps({"job": job, "args": args, "kwargs": kwargs}).encode()
    reply: dict[str, object] = json.loads(answer(line))
    return reply


def test_an_answer_is_a_result_or_an_error() -> None:
    assert ask("operator:add", 1, 2) == {"result": 3}
    assert ask("builtins:sorted", [2, 1], reverse=True) == {"result": [2, 1]}
    assert ask("operator:getitem", {}, "x") == {
        "error": "KeyError: 'x'",
        "failed": True,
    }
    assert ask("burnish.support.worker:resolve", "x:y") == {
        "error": "The worker cannot import the job 'x:y': No module named 'x'",
        "failed": False,
    }


def test_a_line_that_is_no_job_is_answered() -> None:
    assert b"JSONDecodeError" in answer(b"what?\n")
    assert b"KeyError: 'args'" in answer(b'{"job": "os:getpid"}')


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        ("", "cannot import"),
        ("os", "cannot import"),
        ("os:nothing", "has no attribute 'nothing'"),
        ("nowhere:f", "No module named 'nowhere'"),
        ("os:name", "is no function"),
    ],
)
def test_a_job_that_is_no_function(job: str, reason: str) -> None:
    with pytest.raises(TuningError, match=reason):
        resolve(job)


def test_methods_are_found_below_their_class() -> None:
    assert resolve("os:path.join") is os.path.join


def test_serving_ends_with_the_stream() -> None:
    jobs = b"".join(
        json.dumps({"job": "operator:neg", "args": [i], "kwargs": {}}).encode() + b"\n"
        for i in range(3)
    )
    answers, ended = io.BytesIO(), threading.Event()
    serve(io.BytesIO(jobs), answers, at_end=ended.set)
    lines = [json.loads(line) for line in answers.getvalue().splitlines()]
    assert lines == [{"ready": True}, {"result": 0}, {"result": -1}, {"result": -2}]
    assert ended.is_set()


def test_the_module_is_a_program_that_ends_with_its_stdin() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "burnish.support.worker"], stdin=subprocess.DEVNULL, check=False
    )
    assert result.returncode == 0
