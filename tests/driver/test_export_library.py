"""The C library: compiled by the C compiler, it gives the bits of the model."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import burnish
from burnish.driver.compile import CompiledModel
from burnish.support.errors import ArtifactError, NotCompiledError

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


class Two(nn.Module):
    """Two inputs, two results, one of them of another dtype."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 5)

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> Any:
        y = torch.softmax(self.layer(x), -1)
        return y[:, 1:] + i, y.argmax(-1)


def built(folder: Path, name: str) -> Path:
    """The example, compiled without a warning."""
    objects = sorted(p.name for p in folder.glob("*.o"))
    flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-std=c11"]
    command = ["cc", *flags, "-o", "example", "example.c", f"{name}.c", *objects, "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "example"


@needs_compiler
def test_the_example_gives_the_bits_of_the_model(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x, i = torch.rand(3, 6), torch.tensor([1, 2, 3, 4])
    model = burnish.compile(Two().eval(), (x, i), threads=1)
    expected = model(x, i)
    library = model.export_library(tmp_path, name="two")
    for file, size in library.files.items():
        assert (tmp_path / file).stat().st_size == size
        assert file in str(library)
    for name, tensor in (("x", x), ("i", i)):
        tensor.numpy().tofile(tmp_path / name)
    example = built(tmp_path, "two")
    arguments = [example, "two.weights", "x", "i"]
    done = subprocess.run(arguments, cwd=tmp_path, check=True, capture_output=True)
    assert done.stdout == b"".join([y.numpy().tobytes() for y in expected])
    (tmp_path / "two.weights").write_bytes((tmp_path / "two.weights").read_bytes()[:-1])
    for weights, problem in (
        ("two.weights", "the file of weights is another"),
        ("no", "no weights"),
    ):
        done = subprocess.run([example, weights], cwd=tmp_path, capture_output=True)
        assert done.returncode == 1
        assert problem in done.stderr.decode()


@needs_compiler
def test_inputs_and_outputs_are_described(static: CompiledModel, tmp_path: Path) -> None:
    loaded = burnish.load(static.save(tmp_path / "m.burnish").path)
    loaded.export_library(tmp_path / "lib")
    (tmp_path / "lib" / "example.c").write_text("""
#include "model.h"
#include <stdio.h>
static void show(const model_tensor *t) {
    printf("%s %s %zu:", t->name, t->dtype, t->bytes);
    for (int i = 0; i < t->rank; i++) printf(" %d", (int)t->shape[i]);
    puts("");
}
int main(void) {
    for (int i = 0; i < model_num_inputs(); i++) show(model_input(i));
    for (int i = 0; i < model_num_outputs(); i++) show(model_output(i));
    return 0;
}
""")
    example = built(tmp_path / "lib", "model")
    done = subprocess.run([example], check=True, capture_output=True, text=True)
    assert done.stdout == "input float32 3136: 1 1 28 28\noutput_0 float32 40: 1 10\n"


@needs_compiler
def test_a_shared_library_without_weights(tmp_path: Path) -> None:
    model = burnish.compile(nn.ReLU(), (torch.ones(4),), threads=1)
    model.export_library(tmp_path)
    objects = sorted(p.name for p in tmp_path.glob("*.o"))
    command = ["cc", "-shared", "-fPIC", "-o", "libmodel.so", "model.c", *objects]
    subprocess.run(command, cwd=tmp_path, check=True)
    np.array([-1, 2, -3, 4], np.float32).tofile(tmp_path / "x")
    example = built(tmp_path, "model")
    done = subprocess.run([example, "model.weights", "x"], cwd=tmp_path, capture_output=True)
    np.testing.assert_array_equal(np.frombuffer(done.stdout, np.float32), [0, 2, 0, 4])


def test_what_it_cannot_be(dynamic: CompiledModel, static: CompiledModel, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"has named sizes \(batch\)"):
        dynamic.export_library(tmp_path)
    with pytest.raises(ArtifactError, match="a name of C in lower case; found 'a-b'"):
        static.export_library(tmp_path, name="a-b")
    with pytest.raises(NotCompiledError, match="export_library"):
        burnish.compile(nn.ReLU()).export_library(tmp_path)

    class Adds(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x += 1
            return x * 2

    changing = burnish.compile(Adds().eval(), (torch.ones(2),))
    with pytest.raises(ArtifactError, match="changes tensors in place"):
        changing.export_library(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError, match="cannot be written"):
        static.export_library(tmp_path / "file")
