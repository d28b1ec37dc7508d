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
from burnish import graph
from burnish.driver.compiled_model import CompiledModel
from burnish.support.errors import ArtifactError, NotCompiledError
from burnish.tensorir.expr import IntImm
from burnish.tensorir.expr import Var as DimVar

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
    command = ["cc", *flags, "-o", "example", "example.c", f"{name}.c", *objects, "-lm", "-pthread"]
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


def test_nested_outputs_are_named_by_the_way_to_them(tmp_path: Path) -> None:
    class Named(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"logits": x + 1, "probabilities": x.softmax(0)}

    burnish.compile(Named().eval(), (torch.ones(3),), threads=1).export_library(tmp_path)
    source = (tmp_path / "model.c").read_text()
    for name in ("output_0.logits", "output_0.probabilities"):
        assert f'{{"{name}", "float32", 1, ' in source


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


class Halves(nn.Module):
    """Named sizes in products and quotients, and a result over all rows."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 300), nn.Linear(300, 7)

    def forward(self, x: torch.Tensor) -> Any:
        y = self.second(torch.relu(self.first(x)))
        return y.softmax(0), torch.cat([y, y]), y[: y.shape[0] // 2].sum(1)


def ran(example: Path, *arguments: str) -> bytes:
    command = [example, "model.weights", *arguments]
    return subprocess.run(command, cwd=example.parent, check=True, capture_output=True).stdout


@needs_compiler
def test_named_sizes_and_threads(tmp_path: Path) -> None:
    torch.manual_seed(0)
    n = torch.export.Dim("n", min=3, max=80)
    model = burnish.compile(Halves().eval(), (torch.rand(6, 64),), dynamic_shapes=({0: n},))
    again = burnish.load(model.save(tmp_path / "m.burnish").path)
    for exported, folder in ((model, tmp_path / "a"), (again, tmp_path / "b")):
        assert "pool.o" in exported.export_library(folder).files
        example = built(folder, "model")
        for rows in (50, 3, 7):
            x = torch.rand(rows, 64)
            x.numpy().tofile(folder / "x")
            expected = b"".join([y.numpy().tobytes() for y in model(x)])
            for threads in ([], ["-2"], ["-3", "-1"]):
                assert ran(example, *threads, f"n={rows}", "x") == expected
        for option in ("n=1", "n=81", "n=-3", "-0", "-5000"):
            done = subprocess.run([example, "model.weights", option], cwd=folder, check=False)
            assert done.returncode == 1


@needs_compiler
def test_sizes_are_told_and_refused_with_a_reason(tmp_path: Path) -> None:
    n = torch.export.Dim("n", min=3, max=80)
    model = burnish.compile(Halves().eval(), (torch.rand(6, 64),), dynamic_shapes=({0: n},))
    model.export_library(tmp_path)
    (tmp_path / "example.c").write_text("""
#include "model.h"
#include <stdio.h>
int main(void) {
    model_model *model = model_load("model.weights", NULL);
    printf("%d %s %d %d\\n", model_num_dims(), model_dim(0), (int)model_input(0)->shape[0],
           (int)model_input(0)->bytes);
    for (int64_t n = 1; n < 10; n += 6) {
        int64_t shape[2] = {0};
        printf("%d", (int)model_input_bytes(0, &n, shape));
        printf(" %d %d", (int)shape[0], (int)shape[1]);
        for (int i = 0; i < 4; i++) printf(" %d", (int)model_output_bytes(i, &n, NULL));
        puts("");
    }
    int64_t bad[] = {-1, 1, 81};
    for (int i = 0; i < 3; i++) puts(model_run(model, bad + i, NULL, NULL));
    model_free(model);
    return 0;
}
""")
    done = subprocess.run([built(tmp_path, "model")], cwd=tmp_path, check=True, capture_output=True)
    assert done.stdout.decode().splitlines() == [
        "1 n -1 0",
        "-1 0 0 -1 -1 -1 -1",
        "1792 7 64 196 392 12 -1",
        "n is negative",
        "n has to be from 3 to 80",
        "n has to be from 3 to 80",
    ]


@needs_compiler
def test_sizes_that_make_a_negative_one_are_refused(tmp_path: Path) -> None:
    m = DimVar("m")
    x, y = (graph.Var(n, graph.tensor_type(s)) for n, s in (("x", (m, 4)), ("y", (4, 4))))
    size = (m - 4, IntImm(4))
    bb = burnish.BlockBuilder()
    with bb.function("main", [x, y]):
        one = graph.constant(np.float32(1))
        ones = bb.emit(graph.op("broadcast_to", one, graph.ShapeExpr(size)))
        rows = bb.emit(graph.op("cumsum", ones, axis=0))
        made = bb.emit(graph.op("concat", y, rows, axis=0))
        bb.emit_func_output(bb.emit(graph.op("add", made, x)))
    model = burnish.compile(bb.get())
    model.export_library(tmp_path)
    example = built(tmp_path, "model")
    given = np.zeros((7, 4), np.float32), np.ones((4, 4), np.float32)
    for name, array in zip("xy", given, strict=True):
        array.tofile(tmp_path / name)
    assert ran(example, "m=7", "x", "y") == model(*given).tobytes()
    done = subprocess.run([example, "model.weights", "m=3"], cwd=tmp_path, capture_output=True)
    assert done.returncode == 1
    assert "there is no memory for this size, or the model does not take it" in str(done.stderr)
    (tmp_path / "example.c").write_text("""
#include "model.h"
#include <stdio.h>
int main(void) {
    int64_t m = 3;
    model_model *model = model_load("model.weights", NULL);
    puts(model_run(model, &m, NULL, NULL));
    printf("%d\\n", (int)model_output_bytes(0, &m, NULL));
    model_free(model);
    return 0;
}
""")
    done = subprocess.run([built(tmp_path, "model")], cwd=tmp_path, check=True, capture_output=True)
    assert done.stdout.decode().splitlines() == [
        "the sizes have to be such that m - 4 >= 0",
        "-1",
    ]


@needs_compiler
def test_nobody_else_finds_the_kernels(tmp_path: Path) -> None:
    # Two libraries in one process would call each other's.
    burnish.compile(nn.Softmax(0), (torch.ones(4),)).export_library(tmp_path)
    objects = sorted(p.name for p in tmp_path.glob("*.o"))
    command = ["cc", "-shared", "-fPIC", "-o", "libmodel.so", "model.c", *objects, "-lm"]
    subprocess.run([*command, "-pthread"], cwd=tmp_path, check=True)
    listed = ["nm", "-D", "--defined-only", "libmodel.so"]
    done = subprocess.run(listed, cwd=tmp_path, check=True, capture_output=True, text=True)
    names = [line.split()[-1] for line in done.stdout.splitlines()]
    assert names
    assert all(name.startswith("model_") for name in names)


def test_what_it_cannot_be(static: CompiledModel, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="a name of C in lower case; found 'a-b'"):
        static.export_library(tmp_path, name="a-b")
    with pytest.raises(NotCompiledError, match="export_library"):
        burnish.compile(nn.ReLU()).export_library(tmp_path)

    class Adds(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x += 1
            return x * 2

    class Selects(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[x > 0]

    selecting = burnish.compile(Selects(), (torch.ones(2),))
    with pytest.raises(ArtifactError, match=r"named sizes that .* depend on values"):
        selecting.export_library(tmp_path / "none")
    assert not (tmp_path / "none").exists()

    changing = burnish.compile(Adds().eval(), (torch.ones(2),))
    with pytest.raises(ArtifactError, match="changes tensors in place"):
        changing.export_library(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError, match="cannot be written"):
        static.export_library(tmp_path / "file")
