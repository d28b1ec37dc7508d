"""Operators of other packages, which are declared here where the package is not."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import torch
from torch import nn

from burnish.frontend.torch import import_module
from burnish.frontend.torch.decompositions_packages import BY_NAME, grouped_mm, roi_align
from burnish.support.errors import FrontendError
from burnish.tests.frontend.torch.oracle import Calls, check_all, compare, evaluate
from burnish.tests.models_of_others.libraries import torchvision, transformers


def test_products_of_groups() -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(7, 4), torch.randn(3, 4, 5)
    reference = transformers.integrations.moe._grouped_mm_fallback
    for ends in ((2, 2, 7), (0, 3, 5)):
        offs = torch.tensor(ends, dtype=torch.int32)
        torch.testing.assert_close(grouped_mm(x, weight, offs), reference(x, weight, offs))
    operator = torch.ops.transformers.grouped_mm_fallback
    module = Calls([lambda x, offs: operator(x, weight, offs)]).eval()
    offs = torch.tensor((2, 2, 7), dtype=torch.int32)
    imported = import_module(module, (x, offs))
    assert compare("y", evaluate(imported, x, offs)[0], reference(x, weight, offs)) == ""


@pytest.mark.parametrize("aligned", [False, True])
def test_regions(aligned: bool) -> None:
    x = torch.randn(2, 3, 9, 12)
    rois = torch.tensor([[0, 1.0, 2, 11, 9], [1, -3.0, 0, 20, 17], [1, 4.0, 4, 4.2, 4.1]])
    options = (rois, 0.5, 3, 2, 2, aligned)
    # torchvision's own formulation, which it compiles for devices without a kernel
    formula = torchvision.ops.roi_align.__globals__["_roi_align"].__wrapped__
    expected = formula(x, *options)
    np.testing.assert_allclose(roi_align(x, *options), expected, rtol=1e-5, atol=1e-5)
    check_all({"regions": lambda x: roi_align(x, *options)}, x)
    outside = torch.tensor([[0, 30.0, 2, 40, 9]])
    assert not roi_align(x, outside, *options[1:]).any()


def test_regions_without_a_number_of_samples_are_refused() -> None:
    with pytest.raises(FrontendError, match="sampling_ratio=0 takes as many samples"):
        roi_align(torch.randn(1, 1, 4, 4), torch.zeros(1, 5), 1.0, 2, 2, 0, True)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_the_loss_of_a_linear_layer_in_pieces(reduction: str) -> None:
    x, weight, target = torch.randn(6, 4), torch.randn(5, 4), torch.tensor([0, 4, 2, -100, 1, 1])
    options = nn.LinearCrossEntropyOptions(batch_chunk_size=2, allow_retain_graph=True)

    def loss(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear_cross_entropy(
            x, weight, target, reduction=reduction, options=options
        )

    check_all({"loss": loss}, x)


def test_the_names_are_those_of_the_packages() -> None:
    for module in ("transformers.integrations.moe", "torch.nn.modules.linear_cross_entropy"):
        importlib.import_module(module)  # which declares operators
    for name in BY_NAME:
        package, operator, overload = name.split(".")
        assert getattr(getattr(getattr(torch.ops, package), operator), overload)
