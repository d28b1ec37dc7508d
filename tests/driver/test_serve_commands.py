"""``burnish serve``: names of models, the extra it needs, and how it ends."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import pytest

import burnish
from burnish.driver.cli import main
from burnish.driver.serve_commands import model_paths
from burnish.support.errors import ArgumentError


def test_names_of_models() -> None:
    assert model_paths(["a/m.burnish", "n=b/m.burnish"]) == {
        "m": Path("a/m.burnish"),
        "n": Path("b/m.burnish"),
    }
    with pytest.raises(ArgumentError, match="two models are called 'm'"):
        model_paths(["a/m.burnish", "b/m.burnish"])
    with pytest.raises(ArgumentError, match="without / in the name"):
        model_paths(["a/b=c.burnish"])


def test_the_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["serve", "m.burnish"]) == 2
    assert "pip install 'burnish[serve]'" in capsys.readouterr().err


def test_sigterm_ends_it_when_all_is_answered(dynamic: Any, tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    path = tmp_path / "m.burnish"
    dynamic.save(path)
    model = burnish.load(path)
    ((name, shape, _),) = model.inputs
    x = np.ones([1, *map(int, shape[1:])], np.float32)
    options = ["--port", "0", "--batch-ms", "1500", "--timeout", "100"]
    command = [sys.executable, "-m", "burnish", "serve", str(path), *options]
    answers: list[Any] = []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            address = next(m[0] for line in lines if (m := re.search(r"http://[\d.]+:\d+", line)))
            item = {"name": name, "datatype": "FP32", "shape": x.shape, "data": x.ravel().tolist()}
            body = json.dumps({"inputs": [item]}).encode()
            request = Request(f"{address}/v2/models/m/infer", body)

            def ask() -> None:
                with urlopen(request, timeout=100) as response:
                    answers.append(json.load(response))

            asking = threading.Thread(target=ask)
            asking.start()
            while not answers:
                with urlopen(f"{address}/metrics", timeout=100) as response:
                    if "burnish_requests_in_flight 1" in response.read().decode():
                        break
            process.send_signal(signal.SIGTERM)
            assert process.wait(100) == 0
            asking.join()
        finally:
            process.kill()
    ((output,),) = [answer["outputs"] for answer in answers]
    np.testing.assert_array_equal(np.array(output["data"], np.float32), model(x).ravel())
