"""Initializers as weights that are read again from the model where nobody holds them."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import burnish
from burnish.frontend.onnx import import_onnx
from burnish.graphir.module import IRModule
from burnish.support.errors import BurnishError
from burnish.tests.frontend.onnx.oracle import model

RNG = np.random.default_rng(0)
WEIGHTS = {
    "v": RNG.random((8, 8), np.float32),
    "w": RNG.random((8, 8), np.float32),
    "b": RNG.random(8, np.float32),
}


def made(*, typed: bool = False) -> onnx.ModelProto:
    body = "a = MatMul(x, w)\nc = MatMul(a, v)\ny = Add(c, b)"
    proto = model(body, "float[n, 8] x", 13, outputs="float[n, 8] y", weights=WEIGHTS)
    if typed:
        for tensor in proto.graph.initializer:
            values = WEIGHTS[tensor.name]
            tensor.CopyFrom(
                helper.make_tensor(tensor.name, TensorProto.FLOAT, values.shape, values.ravel())
            )
    return proto


def check_read_again(module: IRModule) -> None:
    """The large weights are let go of and come back."""
    assert sorted(module.weights) == ["v", "w"]
    for name in module.weights:
        alive = weakref.ref(module.weights[name])
        module.weights.weight(name).give_up()
        gc.collect()
        assert alive() is None
        np.testing.assert_array_equal(module.weights[name], WEIGHTS[name])


def test_from_a_file_from_bytes_and_from_a_proto(tmp_path: Path) -> None:
    path = tmp_path / "made.onnx"
    onnx.save(made(), path)
    for source in (path, path.read_bytes(), made(), made(typed=True)):
        check_read_again(import_onnx(source).module)


def test_from_a_file_beside_the_model(tmp_path: Path) -> None:
    path = tmp_path / "made.onnx"
    onnx.save_model(made(), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    check_read_again(import_onnx(path).module)


def test_numbers_that_stand_one_by_one_are_held(tmp_path: Path) -> None:
    path = tmp_path / "made.onnx"
    onnx.save(made(typed=True), path)
    module = import_onnx(path).module
    alive = weakref.ref(module.weights["w"])
    module.weights.weight("w").give_up()
    assert alive() is not None


def test_a_file_that_has_changed_is_told(tmp_path: Path) -> None:
    path = tmp_path / "made.onnx"
    onnx.save(made(), path)
    module = import_onnx(path).module
    module.weights.weight("w").give_up()
    data = bytearray(path.read_bytes())
    place = bytes(data).find(WEIGHTS["w"].tobytes())
    data[place + 3] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(BurnishError, match="have changed since"):
        _ = module.weights["w"]


def test_a_compiled_file_needs_its_file_no_more(tmp_path: Path) -> None:
    path = tmp_path / "made.onnx"
    onnx.save(made(), path)
    compiled = burnish.compile(path)
    path.unlink()
    for stage in compiled.executable.stages.values():
        for name in ("v", "w"):
            if name in stage.weights:
                np.testing.assert_array_equal(stage.constants[name], WEIGHTS[name])
