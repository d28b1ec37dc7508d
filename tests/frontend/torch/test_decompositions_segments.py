"""Reductions of segments, beside torch's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from burnish.frontend.torch.decompositions import DECOMPOSITIONS, aten
from burnish.tests.frontend.torch.oracle import check_all

DATA = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("initial", [None, 1.5])
def test_segments(reduce: str, initial: float | None) -> None:
    """Empty ones too; and on a later axis each row has its own."""
    op: Any = aten.segment_reduce.default
    lengths, rows = torch.tensor([2, 0, 3, 1]), torch.tensor([[1, 2], [0, 3], [3, 0]])
    cases: list[tuple[torch.Tensor, dict[str, Any]]] = [
        (DATA, {"lengths": lengths}),
        (DATA, {"offsets": torch.tensor([1, 3, 3, 6])}),
        (DATA.t().reshape(3, 6)[:, :3].contiguous(), {"lengths": rows, "axis": 1}),
    ]
    for data, given in cases:
        found = DECOMPOSITIONS[op](data, reduce, initial=initial, **given)
        wanted = op(data, reduce, initial=initial, unsafe=True, **given)
        torch.testing.assert_close(found, wanted, equal_nan=True)


def test_they_are_imported() -> None:
    lengths = torch.tensor([2, 3, 1])
    check_all({"segments": lambda x: torch.segment_reduce(x, "max", lengths=lengths)}, DATA)
