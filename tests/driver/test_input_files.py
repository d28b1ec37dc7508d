"""Input tensors from files: what each kind holds, and what is no input."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from burnish.driver.input_files import read_inputs
from burnish.support.errors import ArgumentError
from burnish.vm.tensor import Tensor

X = torch.tensor([[1.0, -2.5], [3.25, 0.0]])


def _safetensors(path: Path, tensors: dict[str, torch.Tensor], names: dict[str, str]) -> str:
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, x in tensors.items():
        raw = x.view(torch.uint8).numpy().tobytes()
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": names[name], "shape": list(x.shape), "data_offsets": offsets}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return str(path)


def test_bfloat16_of_torch_and_of_safetensors(tmp_path: Path) -> None:
    half = X.bfloat16()
    torch.save({"a": half, "b": X.long()}, tmp_path / "x.pt")
    torch.save(half, tmp_path / "one.pth")
    file = _safetensors(tmp_path / "x.safetensors", {"p": half, "q": X}, {"p": "BF16", "q": "F32"})
    found = read_inputs([str(tmp_path / "x.pt"), str(tmp_path / "one.pth"), file], [])
    assert [str(x.dtype) for x in found] == ["bfloat16", "int64", "bfloat16", "bfloat16", "float32"]
    for x in (found[0], found[2], found[3]):
        assert isinstance(x, Tensor)
        np.testing.assert_array_equal(x.float32(), X.numpy())
    np.testing.assert_array_equal(found[4], X.numpy())


def test_floats_of_numpy_are_rounded_where_the_model_takes_bfloat16(tmp_path: Path) -> None:
    file, said = str(tmp_path / "x.npy"), list[str]()
    np.save(file, X.numpy() + 0.001)
    found = read_inputs([file, file], ["bfloat16", "float32"], said.append)
    assert str(found[0].dtype) == "bfloat16"
    np.testing.assert_array_equal(found[0].float32(), (X + 0.001).bfloat16().float().numpy())
    assert isinstance(found[1], np.ndarray)
    assert said == [
        f"{file}: float32 rounded to bfloat16, which the model takes and .npy does not have"
    ]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("x.npy", b"none", "cannot be read as .npy"),
        ("x.pt", b"none", "cannot be read as a file of torch.save"),
        ("x.safetensors", b"none", "cannot be read as .safetensors"),
        ("y.safetensors", (9).to_bytes(8, "little") + b"{", "longer than the file"),
        ("deep.safetensors", (1 << 20).to_bytes(8, "little") + b"[" * (1 << 20), "nested too deep"),
        ("z.safetensors", (2).to_bytes(8, "little") + b"{}", "holds no tensor"),
    ],
)
def test_what_is_no_input(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ArgumentError, match=reason):
        read_inputs([str(tmp_path / name)], [])


def test_other_things_in_a_file_of_torch(tmp_path: Path) -> None:
    torch.save({"x": X, "steps": 3}, tmp_path / "x.pt")
    with pytest.raises(ArgumentError, match="expected a tensor, or a list or dict of tensors"):
        read_inputs([str(tmp_path / "x.pt")], [])


def test_offsets_outside_of_a_file(tmp_path: Path) -> None:
    file = _safetensors(tmp_path / "x.safetensors", {"p": X}, {"p": "F32"})
    image = Path(file).read_bytes()
    Path(file).write_bytes(image[:-4])
    with pytest.raises(ArgumentError, match="outside of the file"):
        read_inputs([file], [])
    Path(file).write_bytes(image.replace(b"F32", b"C64"))
    with pytest.raises(ArgumentError, match="a tensor of C64"):
        read_inputs([file], [])
