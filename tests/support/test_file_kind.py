"""What files seem to be."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import torch

from burnish.support.file_kind import HEAD_BYTES, is_onnx, kind_of_file


def written(save: Any) -> bytes:
    file = io.BytesIO()
    save(file)
    return file.getvalue()[:HEAD_BYTES]


@pytest.mark.parametrize(
    ("head", "kind", "advice"),
    [
        (b"", "empty", ""),
        (b"hello\n", "text", ""),
        ("größer\n".encode() * 99, "text", ""),
        (b"\xff\xfe\0\1" * 8, "of no kind that is known here", ""),
        (b"BURNISH\n12345678", "a model saved by burnish", "burnish.load"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS", "git lfs pull"),
        (written(lambda f: np.save(f, np.ones(3))), "a NumPy array", "--input"),
        (written(lambda f: torch.save({}, f)), "a zip archive", "torch.onnx.export"),
        (b"\x80\x04\x95", "a pickle", "torch.onnx.export"),
        ((64).to_bytes(8, "little") + b'{"w":', "a safetensors file", "torch.onnx.export"),
        (b"\x1c\0\0\0TFL3", "a TensorFlow Lite model", "tf2onnx"),
        (b"\x08\x08\x12\x07pytorch", "an ONNX model, it seems", "burnish compile m.x -o"),
    ],
)
def test_kinds(head: bytes, kind: str, advice: str) -> None:
    found, what_to_do = kind_of_file("m.x", head[:HEAD_BYTES])
    assert found.startswith(kind)
    assert advice in what_to_do


def test_an_exported_program_is_known_by_its_ending() -> None:
    assert kind_of_file("m.pt2", b"PK\x03\x04")[0].startswith("an exported program")


def test_what_onnx_begins_with() -> None:
    onnx = pytest.importorskip("onnx")
    graph = onnx.helper.make_graph([], "empty", [], [])
    assert is_onnx(onnx.helper.make_model(graph).SerializeToString())
    assert not is_onnx(b"\x08")
    assert not is_onnx(b"PK\x03\x04")
