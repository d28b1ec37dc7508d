"""The command line has what ``burnish.compile`` has, for a model compiled and a model loaded."""

from __future__ import annotations

import inspect
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from burnish.driver import cli
from burnish.driver.compile import compile as compile_model
from burnish.driver.compiled_model import CompiledModel
from burnish.driver.loaded_model import LoadedModel
from burnish.driver.model_options import load_model
from burnish.support.errors import ArgumentError
from burnish.tests.driver.test_commands import save

pytest.importorskip("onnx")

IN_PYTHON_ALONE = {
    "dynamic_shapes": "an ONNX file names its sizes",
    "example_kwargs": "an ONNX model has its inputs by name",
    "max_error": "of precision='auto', which takes a torch module",
    "samples": "of precision='auto', which takes a torch module",
    "check": "burnish verify does so, value by value",
    "passes": "are Python",
}


def options(command: str, *arguments: str) -> Namespace:
    found: Namespace = cli._parser().parse_args([command, *arguments])
    return found


@pytest.mark.parametrize(
    "command", ["compile", "run", "bench", "profile", "verify", "show", "tune"]
)
def test_every_argument_of_compile_is_an_option(command: str) -> None:
    known = vars(options(command, "m.onnx"))
    for name in list(inspect.signature(compile_model).parameters)[2:]:
        assert name in known or name in IN_PYTHON_ALONE, name


def test_a_model_is_compiled_as_options_say(tmp_path: Path) -> None:
    path = str(save(tmp_path / "m.onnx", ["batch", 3]))
    words = ["--precision", "strict", "--specialize", "batch=1", "--target", "haswell"]
    model = load_model(options("show", path, *words))
    assert isinstance(model, CompiledModel)
    assert model.precision == "strict"
    assert "haswell" in str(model.executable.target)


def test_a_saved_model_is_loaded_for_the_target_that_is_asked_for(tmp_path: Path) -> None:
    path, saved = save(tmp_path / "m.onnx", [2, 3]), tmp_path / "m.burnish"
    compile_model(path, target="x86-64-v2").save(saved, targets=["x86-64", "x86-64-v2"])
    for cpu in ("x86-64", "x86-64-v2"):
        model = load_model(options("run", str(saved), "--target", cpu))
        assert isinstance(model, LoadedModel)
        assert f"kernels for {cpu} " in str(model.report).replace("\n", " ")


@pytest.mark.parametrize(
    "given",
    [("--precision", "int8"), ("--fallback", "onnx"), ("--checked",), ("--specialize", "b=1")],
)
def test_what_was_decided_when_a_model_was_saved_is_refused(
    given: tuple[str, ...], static: Any, tmp_path: Path
) -> None:
    path = tmp_path / "m.burnish"
    static.save(path)
    with pytest.raises(ArgumentError, match=f"^{given[0]}: .* is a saved model"):
        load_model(options("run", str(path), *given))
