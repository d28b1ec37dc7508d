"""save: one file holds what calls need, for every signature, kind of constant and structure."""

from __future__ import annotations

import os
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
    assert "with its kernels for" in loaded.report
    assert "kernels:" in loaded.report
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
