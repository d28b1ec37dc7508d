"""What candidates are compared with: only long reductions change, and only the order of loops."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.support.host import resolve
from burnish.support.target import Target
from burnish.tensorir.schedule import Schedule
from burnish.tests.tuner.programs import matmul
from burnish.tuner.measuring import plain_loops as module
from burnish.tuner.measuring.measure import build_kernel
from burnish.tuner.measuring.plain_loops import plain_loops

TARGET = resolve(Target("native -threads=1"))


def test_short_reductions_stay_as_they_are() -> None:
    func = matmul(32)
    assert plain_loops(func) is func


def test_long_ones_get_their_last_spatial_loop_innermost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONG", 1)
    func = matmul(12)
    changed = plain_loops(func)
    sch = Schedule(changed)
    loops = [sch.get(loop).var.name for loop in sch.get_loops("C_update")]
    assert [name.rstrip("_0123456789") for name in loops] == ["i", "k", "j"]
    assert len(sch.get_loops("C_init")) == 2
    rng = np.random.default_rng(0)
    a, b = (rng.random((12, 12), dtype="float32") for _ in range(2))
    out = np.empty((12, 12), "float32")
    build_kernel(changed, TARGET)(a, b, out)
    np.testing.assert_allclose(out, a @ b, rtol=1e-5)
