"""Group, instance and RMS norm against eager torch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from burnish.frontend.torch import import_module
from burnish.tests.frontend.torch.oracle import check_all, operators_of

torch.manual_seed(0)
X = torch.randn(2, 6, 4, 3)
W, B, V = torch.rand(6), torch.rand(6), torch.rand(3)


def test_norms() -> None:
    check_all(
        {
            "group": lambda x: F.group_norm(x, 3, W, B),
            "group without weights": lambda x: F.group_norm(x, 2, eps=1e-3),
            "group of a vector": lambda x: F.group_norm(x[..., 0, 0], 2, W),
            "group module": nn.GroupNorm(6, 6),
            "instance": lambda x: F.instance_norm(x),
            "instance with weights": lambda x: F.instance_norm(x, weight=W, bias=B),
            "instance module": nn.InstanceNorm2d(6, affine=True),
            "instance 1": lambda x: F.instance_norm(x[..., 0]),
            "rms": lambda x: F.rms_norm(x, (3,), V),
            "rms of two": lambda x: F.rms_norm(x, (4, 3), eps=1e-3),
            "rms of half": lambda x: F.rms_norm(x.half(), (3,), eps=1e-3),
            "rms module": nn.RMSNorm(3, eps=1e-6),
            "local response": lambda x: F.local_response_norm(x, 3),
        },
        X,
        dynamic_shapes=(({0: "n"},),),
        also=((torch.randn(1, 6, 4, 3),),),
    )


def test_the_native_form() -> None:
    check_all({"native": lambda x: torch.native_group_norm(x, W, B, 2, 6, 12, 2, 1e-5)[0]}, X)


def test_symbolic_spatial_dims() -> None:
    check_all(
        {"group": lambda x: F.group_norm(x, 3, W), "instance": lambda x: F.instance_norm(x)},
        X,
        dynamic_shapes=(({2: "h"},),),
        also=((torch.randn(2, 6, 9, 3),),),
    )


def test_constant_statistics_of_a_batch_norm_are_two_constants() -> None:
    norm = nn.BatchNorm2d(6).eval()
    norm.running_mean, norm.running_var = torch.rand(6), torch.rand(6) + 0.5
    norm.weight.data, norm.bias.data = torch.rand(6), torch.rand(6)
    imported = check_all({"norm": norm}, X)
    assert operators_of(imported) == ["multiply", "add"]
    half = import_module(norm.bfloat16(), (X.bfloat16(),))
    assert operators_of(half) == ["astype", "multiply", "add", "astype"]


def test_statistics_that_are_inputs_are_computed_with() -> None:
    imported = check_all(
        {"norm": lambda x, m: F.batch_norm(x, m, m * m + 1, W, B)}, X, torch.rand(6)
    )
    assert "rsqrt" in operators_of(imported)


def test_running_statistics_of_instances_are_a_batch_norm() -> None:
    check_all(
        {
            "tracked": lambda x: F.instance_norm(
                x, W.clone(), B.abs() + 0.5, use_input_stats=False, eps=0.1
            ),
            "affine": lambda x: F.instance_norm(
                x, W.clone(), B.abs() + 0.5, B, W, use_input_stats=False
            ),
        },
        X,
    )
