"""Windows of signals of a named length, at every length."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from burnish.frontend.torch.named_windows import WINDOWS, window
from burnish.tests.frontend.torch.oracle import check_all

X = torch.ones(2, 7)


def test_all_windows_at_every_length() -> None:
    def made(name: str, **options: Any) -> Any:
        return lambda x: getattr(torch, f"{name}_window")(x.shape[1], **options)

    check_all(
        {
            **{name: made(name) for name in WINDOWS},
            **{f"{name}, symmetric": made(name, periodic=False) for name in WINDOWS},
            "of float64": made("hann", dtype=torch.float64),
            "of half": made("hann", dtype=torch.float16),
            "with weights": lambda x: torch.hamming_window(x.shape[1], True, 0.5, 0.4),
            "with beta": lambda x: torch.kaiser_window(x.shape[1], False, 3.0),
        },
        X,
        dynamic_shapes=(({1: "n"},),),
        also=[(torch.ones(2, n),) for n in (1, 2, 3, 16)],
    )


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("name", WINDOWS)
def test_numbers_too(name: str, periodic: bool) -> None:
    for length in (1, 2, 9):
        found = window(name, length, periodic, dtype=torch.float64)
        wanted = getattr(torch, f"{name}_window")(length, periodic, dtype=torch.float64)
        torch.testing.assert_close(found, wanted)
