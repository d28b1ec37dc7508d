"""Models that take and give complex tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from burnish.driver.compile import compile
from burnish.support.errors import ArgumentError, ArtifactError, BurnishError, FrontendError

GENERATOR = torch.Generator().manual_seed(0)
Z = torch.randn(3, 4, dtype=torch.complex64, generator=GENERATOR)


class Turned(nn.Module):
    def forward(self, x: torch.Tensor, turn: torch.Tensor) -> dict[str, Any]:
        return {"turned": x * turn, "length": turn.abs(), "all": (x.sum(), turn.conj())}


def test_views_at_the_border() -> None:
    x = torch.rand(3, 4, generator=GENERATOR)
    compiled = compile(Turned().eval(), (x, Z), threads=1)
    for turn in (Z, Z.conj() * 2, Z.T.contiguous().T):
        expected, found = Turned()(x, turn), compiled(x, turn)
        torch.testing.assert_close(found, {**expected, "all": expected["all"]})


def test_of_numpy_and_of_named_sizes() -> None:
    x = torch.rand(3, 4, generator=GENERATOR)
    compiled = compile(Turned().eval(), (x, Z), dynamic_shapes=({0: "n"}, {0: "n"}), threads=1)
    found = compiled(x.numpy()[:2], Z.numpy()[:2])
    np.testing.assert_allclose(found["turned"], (x * Z).numpy()[:2], rtol=1e-6)
    assert found["turned"].dtype == np.complex64


def test_one_number() -> None:
    class Twice(nn.Module):
        def forward(self, z: torch.Tensor) -> torch.Tensor:
            return z * 2

    compiled = compile(Twice().eval(), (Z[0, 0],), threads=1)
    torch.testing.assert_close(compiled(Z[0, 0]), Z[0, 0] * 2)
    found = compiled(Z[0, 0].numpy())
    assert found.shape == ()
    np.testing.assert_allclose(found, Z[0, 0].numpy() * 2)


def test_one_output() -> None:
    class Root(nn.Module):
        def forward(self, z: torch.Tensor) -> torch.Tensor:
            return z.sqrt()

    torch.testing.assert_close(compile(Root().eval(), (Z,), threads=1)(Z), Z.sqrt())


def test_what_is_not_complex_is_refused(tmp_path: Path) -> None:
    x = torch.rand(3, 4, generator=GENERATOR)
    compiled = compile(Turned().eval(), (x, Z), threads=1)
    with pytest.raises(ArgumentError, match=r"complex numbers at compilation; got torch.float32"):
        compiled(x, x)
    with pytest.raises(BurnishError, match="complex64"):
        compiled(Z, Z)
    with pytest.raises(ArtifactError, match="cannot be saved"):
        compiled.save(tmp_path / "m.burnish")


def test_a_complex_buffer_that_is_written_is_refused() -> None:
    class Kept(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("kept", torch.zeros(3, 4, dtype=torch.complex64))

        def forward(self, z: torch.Tensor) -> torch.Tensor:
            self.kept += z
            return self.kept.abs()

    with pytest.raises(FrontendError, match="a tensor of complex numbers, in place"):
        compile(Kept().eval(), (Z,))
