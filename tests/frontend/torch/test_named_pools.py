"""Pools of images of named sizes: ceil_mode and adaptive ones, at every size."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import burnish
from burnish.frontend.torch import import_module
from burnish.frontend.torch.named_pools import pool, span
from burnish.support.errors import FrontendError
from burnish.tests.frontend.torch.oracle import check_all

torch.manual_seed(0)
X = torch.randn(1, 2, 10, 13)
NAMED: Any = (({2: "h", 3: "w"},),)
OTHERS = [(torch.randn(1, 2, h, w),) for h, w in ((9, 11), (8, 8), (5, 14), (7, 6), (20, 3))]


def test_windows_over_the_edge() -> None:
    check_all(
        {
            "max": lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True),
            "max, padded": lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
            "max, apart": lambda x: F.max_pool2d(x, 2, 2, 1, dilation=2, ceil_mode=True),
            "mean": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
            "mean of what is there": lambda x: F.avg_pool2d(
                x, 3, 2, 1, ceil_mode=True, count_include_pad=False
            ),
            "mean by a number": lambda x: F.avg_pool2d(
                x, 3, 2, 1, ceil_mode=True, divisor_override=5
            ),
            "of one axis": lambda x: F.avg_pool1d(x[0], 2, 2, ceil_mode=True),
            "max of one axis": lambda x: F.max_pool1d(x[0], 2, 2, ceil_mode=True),
            "one after the other": lambda x: F.max_pool2d(
                F.max_pool2d(x, 3, 2, 1, ceil_mode=True) * 2, 2, 2, ceil_mode=True
            ),
        },
        X,
        dynamic_shapes=NAMED,
        also=OTHERS,
    )


def test_windows_with_gaps() -> None:
    check_all(
        {"mean": lambda x: F.avg_pool2d(x, 2, 5, ceil_mode=True)},
        X,
        dynamic_shapes=NAMED,
        also=OTHERS,
    )


def test_windows_that_divide_an_image() -> None:
    check_all(
        {
            "mean": lambda x: F.adaptive_avg_pool2d(x, (7, 5)),
            "of all": lambda x: F.adaptive_avg_pool2d(x, 1),
            "of one axis": lambda x: F.adaptive_avg_pool2d(x, (None, 5)),
            "of a row": lambda x: F.adaptive_avg_pool1d(x[0], 4),
            "of a volume": lambda x: F.adaptive_avg_pool3d(x[None], (2, 3, 4)),
            "max": lambda x: F.adaptive_max_pool2d(x, (7, 5)),
            "max of a row": lambda x: F.adaptive_max_pool1d(x[0], 4),
        },
        X,
        dynamic_shapes=NAMED,
        also=OTHERS,
    )


def test_infinite_elements_stay_in_their_windows() -> None:
    x = X.clone()
    x[..., 0, 0] = torch.inf
    check_all({"mean": lambda x: F.adaptive_avg_pool2d(x, 3)}, x, dynamic_shapes=NAMED)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype: torch.dtype) -> None:
    module = nn.AdaptiveAvgPool2d(3)
    model = burnish.compile(module, (X.to(dtype),), dynamic_shapes=({2: "h", 3: "w"},))
    for (x,) in OTHERS:
        torch.testing.assert_close(model(x.to(dtype)), module(x.to(dtype)), rtol=1e-2, atol=1e-2)


def test_places_of_maxima_are_refused() -> None:
    module = nn.AdaptiveMaxPool2d(3, return_indices=True)
    with pytest.raises(FrontendError, match="indices of maxima of an image of named sizes"):
        import_module(module, (X,), ({2: "h"},))


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("mode", ["max", "avg"])
def test_the_operators_run_in_torch_too(mode: str, count: int) -> None:
    ones = [1] * count
    x = torch.randn(1, 2, *[7] * count)
    options = ([3] * count, [2] * count, ones, ones, mode, True, None)
    torch.library.opcheck(pool, (x, *options), test_utils=("test_schema", "test_faketensor"))
    torch.library.opcheck(span, (x, 1, 0, 1), test_utils=("test_schema", "test_faketensor"))
