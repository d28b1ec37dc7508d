"""save: one file holds what calls need, for every signature, kind of constant and structure."""

from __future__ import annotations

import copy
import io
import os
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import burnish
from burnish.support.errors import (
    ArityError,
    ArtifactError,
    NotCompiledError,
    ShapeMismatchError,
)
from burnish.tests.driver.programs import SmallNet


class Nested(torch.nn.Module):
    def forward(self, x: torch.Tensor, scale: float = 2.0, *, more: dict[str, Any]) -> Any:
        return {"a": x * scale, "b": [x + 1, (more["k"],)]}


def test_a_loaded_model_gives_the_same_bits(small: Any, tmp_path: Path) -> None:
    compiled, x, expected = small
    saved = compiled.save(tmp_path / "m.burnish")
    assert saved.size == saved.path.stat().st_size
    loaded = burnish.load(saved.path)
    assert torch.equal(loaded(x), expected)
    np.testing.assert_array_equal(loaded(x.numpy()), expected.numpy())
    out = np.empty((2, 5), "float32")
    assert loaded.run({"x": x.numpy()}, out=out) is out
    np.testing.assert_array_equal(out, expected.numpy())
    assert loaded.inputs == (("x", ("2", "3", "6", "6"), "float32"),)
    assert "with its kernels for" in str(loaded.report)
    assert "kernels:" in str(loaded.report)
    assert loaded.report.kernels == compiled.report.kernels
    assert loaded.report.notes == compiled.report.notes
    assert loaded.report.constant_bytes == compiled.report.constant_bytes
    assert loaded.script() == compiled.script("40-scheduled")
    assert loaded.script("70-bytecode") == compiled.script("70-bytecode")
    with pytest.raises(ShapeMismatchError, match="expected shape"):
        loaded(x[:1])
    with pytest.raises(ArityError, match="takes 1 input"):
        loaded(x, x)


def test_structures_and_several_signatures(tmp_path: Path) -> None:
    compiled = burnish.compile(Nested().eval())
    with pytest.raises(NotCompiledError, match="save"):
        compiled.save(tmp_path / "early")
    for n in (3, 4):
        compiled(torch.ones(n), 2.0, more={"k": torch.ones(2)})
    loaded = burnish.load(compiled.save(tmp_path / "n.burnish").path)
    for n in (4, 3):
        found = loaded(torch.arange(n).float(), more={"k": torch.ones(2)}, scale=2.0)
        assert list(found) == ["a", "b"]
        assert torch.equal(found["a"], torch.arange(n).float() * 2)
        assert torch.equal(found["b"][1][0], torch.ones(2))
    wanted = r"\(x: float32\[3\], .*\) or \(x: float32\[4\].*got \(float32\[5\], 2.0, more=dict\)"
    with pytest.raises(ShapeMismatchError, match=wanted):
        loaded(torch.ones(5), 2.0, more={"k": torch.ones(2)})


class Counts(torch.nn.Module):
    """Gives how often it was called, times x."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("seen", torch.zeros(2, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.seen += x.to(torch.bfloat16)
        return x * self.calls + self.seen


def test_tensors_that_calls_change_are_kept_as_they_are_now(tmp_path: Path) -> None:
    module, x = Counts().eval(), torch.tensor([1.0, 2.0])
    compiled = burnish.compile(module, (x,))
    compiled(x)
    path = compiled.save(tmp_path / "m.burnish").path
    first, second = burnish.load(path), burnish.load(path)
    assert first.inputs == (("x", ("2",), "float32"),)
    expected = [compiled(x) for _ in range(3)]
    for wanted in expected:
        assert torch.equal(first(x), wanted)
    assert torch.equal(second(x), expected[0])
    other = copy.deepcopy(first)
    assert torch.equal(other(x), first(x))
    assert torch.equal(pickle.loads(pickle.dumps(second))(x), expected[1])
    assert module.calls == 4


def test_copies_and_pickles_are_what_a_file_would_hold(small: Any) -> None:
    compiled, x, expected = small
    for made in (
        copy.deepcopy(compiled),
        copy.copy(compiled),
        pickle.loads(pickle.dumps(compiled)),
    ):
        assert torch.equal(made(x), expected)
        assert "loaded from a pickled model" in str(made.report)
    again = pickle.loads(pickle.dumps(made))
    assert torch.equal(again(x), expected)
    file = io.BytesIO()
    torch.save({"model": compiled}, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=False)["model"](x), expected)
    with pytest.raises(NotCompiledError, match="copying and pickling: the model is not compiled"):
        copy.deepcopy(burnish.compile(SmallNet().eval()))


def onnx_model(nodes: list[Any], inputs: list[Any], **constants: Any) -> bytes:
    from onnx import TensorProto, helper, numpy_helper

    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    held = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def test_onnx_models(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    make, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    weight = np.arange(12, dtype="float32").reshape(3, 4)
    known = value("x", 1, [2, 3])
    fixed = burnish.compile(onnx_model([make("MatMul", ["x", "w"], ["y"])], [known], w=weight))
    x = np.ones((2, 3), "float32")
    loaded = burnish.load(fixed.save(tmp_path / "fixed").path)
    np.testing.assert_array_equal(loaded(x), fixed(x))
    np.testing.assert_array_equal(loaded.run({"x": x}), fixed(x))
    # The shapes of a call choose the program; those of no program are refused.
    free = value("x", 1, None)
    shapes = burnish.compile(onnx_model([make("Transpose", ["x"], ["y"])], [free]))
    for given in (x, x[0], x[:1]):
        shapes(given)
    loaded = burnish.load(shapes.save(tmp_path / "shapes").path)
    for given in (x, x[0], x[:1]):
        np.testing.assert_array_equal(loaded(given), given.T)
    with pytest.raises(ShapeMismatchError):
        loaded(x[:, :2])
    # Where values choose it, a file would give the wrong one.
    sizes = [known, value("s", 7, [2])]
    values = burnish.compile(onnx_model([make("Unsqueeze", ["x", "s"], ["y"])], sizes))
    values(x, np.array([0, 1]))
    with pytest.raises(
        ArtifactError, match="depends on values of its inputs; such a model cannot be saved"
    ):
        values.save(tmp_path / "values")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int8, torch.bool])
def test_constants_of_every_kind(dtype: torch.dtype, tmp_path: Path) -> None:
    class Adds(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.arange(5000).remainder(2).to(dtype))

        def forward(self, i: torch.Tensor) -> torch.Tensor:
            return self.table[i]

    i = torch.tensor([0, 1, 4999])
    compiled = burnish.compile(Adds().eval(), (i,))
    loaded = burnish.load(compiled.save(tmp_path / "m.burnish").path)
    assert torch.equal(loaded(i), compiled(i))


def test_symbolic_sizes_and_their_ranges(tmp_path: Path) -> None:
    n = torch.export.Dim("n", min=2, max=8)
    compiled = burnish.compile(
        SmallNet().eval(), (torch.ones(3, 3, 6, 6),), dynamic_shapes=({0: n},)
    )
    loaded = burnish.load(compiled.save(tmp_path / "m.burnish").path)
    for size in (2, 5):
        x = torch.randn(size, 3, 6, 6)
        assert torch.equal(loaded(x), compiled(x))
    with pytest.raises(
        ShapeMismatchError, match=r"input 'x', dim 0: expected shape of n from . to 8, got 9"
    ):
        loaded(torch.ones(9, 3, 6, 6))


def test_dicts_of_other_classes_come_back_as_records(tmp_path: Path) -> None:
    from transformers.modeling_outputs import BaseModelOutput

    class Gives(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> BaseModelOutput:
            return BaseModelOutput(last_hidden_state=x + 1)

    x = torch.ones(2)
    compiled = burnish.compile(Gives().eval(), (x,))
    found = burnish.load(compiled.save(tmp_path / "m.burnish").path)(x)
    assert torch.equal(found.last_hidden_state, x + 1)
    assert torch.equal(found["last_hidden_state"], found[0])
    assert not hasattr(found, "logits")


class _Logits(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return x + 1, None, (x - 1,)


def test_results_with_more_than_tensors_in_them_come_back(tmp_path: Path) -> None:
    x = torch.ones(2, 3)
    compiled = burnish.compile(_Logits(), (x,))
    loaded = burnish.load(compiled.save(tmp_path / "m.burnish").path)
    first, nothing, (last,) = loaded(x)
    assert nothing is None
    assert torch.equal(first, x + 1)
    assert torch.equal(last, x - 1)


def test_the_same_model_is_the_same_file(small: Any, tmp_path: Path) -> None:
    compiled, *_ = small
    targets = ["x86-64", "native"]
    files = [compiled.save(tmp_path / name, targets=targets).path for name in ("a", "b")]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert compiled.save(tmp_path / "c", targets="x86-64").targets == ("x86-64",)


def test_results_of_other_classes_are_refused(tmp_path: Path) -> None:
    @dataclass
    class Result:
        y: torch.Tensor

    torch.utils._pytree.register_pytree_node(
        Result, lambda r: ([r.y], None), lambda y, _: Result(*y), serialized_type_name="Result"
    )

    class Gives(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Result:
            return Result(x + 1)

    compiled = burnish.compile(Gives().eval(), (torch.ones(2),))
    with pytest.raises(ArtifactError, match=r"the result is a Result.*Wrap the module"):
        compiled.save(tmp_path / "m.burnish")
    assert os.listdir(tmp_path) == []
