"""The operators of quantised torch graphs, against torch's own, and models that hold them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers the operators
from torch import nn

import burnish
from burnish.frontend.torch.decompositions_quantized import QUANTIZED
from burnish.tests.frontend.torch.oracle import check_all

OPS = torch.ops.quantized_decomposed
U8, I8 = (0, 255, torch.uint8), (-128, 127, torch.int8)
SCALES, ZEROS = (
    torch.rand(6, generator=torch.Generator().manual_seed(1)) / 20 + 0.01,
    torch.arange(6),
)
TABLE = SCALES.repeat(4).reshape(4, 6), ZEROS.repeat(4).reshape(4, 6)


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 3


def of_data(x: torch.Tensor, low: int, high: int, dtype: torch.dtype) -> torch.Tensor:
    scale, zero = OPS.choose_qparams.tensor(x, low, high, 1e-5, dtype)
    q = OPS.quantize_per_tensor.tensor(x, scale, zero, low, high, dtype)
    return OPS.dequantize_per_tensor.tensor(q, scale, zero, low, high, dtype)


def of_data_symmetric(x: torch.Tensor, low: int, high: int, dtype: torch.dtype) -> torch.Tensor:
    scale, zero = OPS.choose_qparams_symmetric.tensor(x, low, high, 1e-5, dtype)
    q = OPS.quantize_per_tensor.tensor(x, scale, zero, low, high, dtype)
    return OPS.dequantize_per_tensor.tensor(q, scale, zero, low, high, dtype)


def of_tokens(x: torch.Tensor, choose: Callable[..., Any]) -> torch.Tensor:
    scale, zero = choose(x, torch.int8)
    q = OPS.quantize_per_token(x, scale, zero, *I8)
    return OPS.dequantize_per_token(q, scale, zero, *I8, torch.float32)


def of_channels(x: torch.Tensor, axis: int) -> torch.Tensor:
    q = OPS.quantize_per_channel(x, SCALES, ZEROS, axis, *U8)
    return OPS.dequantize_per_channel(q, SCALES, ZEROS, axis, *U8)


def of_groups(x: torch.Tensor) -> torch.Tensor:
    q = OPS.quantize_per_channel_group(x, *TABLE, *I8, 4)
    return OPS.dequantize_per_channel_group(q, *TABLE, *I8, 4, torch.float32)


def test_operators_of_a_tensor() -> None:
    check_all(
        {
            "bytes": lambda x: OPS.quantize_per_tensor(x, 0.03, 128, *U8),
            "narrow": lambda x: OPS.quantize_per_tensor(x, 0.5, 0, -8, 7, torch.int8),
            "numbers": lambda x: OPS.dequantize_per_tensor(
                OPS.quantize_per_tensor(x, 0.03, 128, *U8), 0.03, 128, *U8
            ),
            "halves": lambda x: OPS.dequantize_per_tensor(
                OPS.quantize_per_tensor(x.half(), 0.0625, 3, *I8), 0.0625, 3, *I8,
                out_dtype=torch.float16,
            ),
            "of data": lambda x: of_data(x, *U8),
            "of data, int8": lambda x: of_data(x, *I8),
            "positive": lambda x: of_data(x.abs() + 1, *U8),
            "symmetric": lambda x: of_data_symmetric(x, *I8),
            "symmetric, uint8": lambda x: of_data_symmetric(x, *U8),
            "cast": lambda x: OPS.convert_element_type.no_fuse(x, torch.float16),
        },
        numbers(4, 6),
    )  # fmt: skip


def test_operators_of_channels_rows_and_groups() -> None:
    check_all(
        {
            "channels": lambda x: of_channels(x[:, :6], 1),
            "channels of the last axis": lambda x: of_channels(x[:, :6], -1),
            "rows": lambda x: of_tokens(x, OPS.choose_qparams_per_token),
            "rows, asymmetric": lambda x: of_tokens(x, OPS.choose_qparams_per_token_asymmetric),
            "groups": of_groups,
            "no zero points": lambda x: OPS.dequantize_per_channel(
                x[:, :6].to(torch.int8), SCALES, None, 1, *I8
            ),
        },
        numbers(4, 24),
    )


def test_a_scale_in_float64_is_rounded_where_numbers_are_not() -> None:
    """Which byte a number becomes is decided by 1 / scale in float64, as torch does it."""
    scale, zero = torch.tensor([1 / 3], dtype=torch.float64), torch.tensor([7])
    check_all(
        {"bytes": lambda x: OPS.quantize_per_tensor.tensor(x, scale, zero, *U8)},
        torch.arange(-20, 20, dtype=torch.float32) / 6,
    )


def test_the_names_are_those_of_torch() -> None:
    for name in QUANTIZED:
        package, operator, overload = name.split(".")
        assert getattr(getattr(getattr(torch.ops, package), operator), overload)


class Quantized(nn.Module):
    """A linear layer and a convolution as torch's PT2E flow leaves them."""

    def __init__(self, is_dynamic: bool) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(2)
        self.is_dynamic = is_dynamic
        for name, shape in (("w", (24, 16)), ("k", (16, 16, 3, 3))):
            self.register_buffer(
                name, torch.randint(-128, 128, shape, dtype=torch.int8, generator=generator)
            )
            self.register_buffer(f"{name}_scale", torch.rand(shape[0], generator=generator) / 50)
            self.register_buffer(f"{name}_zero", torch.zeros(shape[0], dtype=torch.int64))

    def activation(self, x: torch.Tensor) -> torch.Tensor:
        if self.is_dynamic:
            return of_data(x, *U8)
        q = OPS.quantize_per_tensor(x, 0.05, 128, *U8)
        return OPS.dequantize_per_tensor(q, 0.05, 128, *U8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kernel = OPS.dequantize_per_channel(self.k, self.k_scale, self.k_zero, 0, *I8)
        weight = OPS.dequantize_per_channel(self.w, self.w_scale, self.w_zero, 0, *I8)
        x = nn.functional.conv2d(self.activation(x), kernel, padding=1).mean((2, 3))
        return nn.functional.linear(self.activation(x), weight)


@pytest.mark.parametrize("exported", [False, True])
def test_a_model_of_fixed_ranges_runs_in_bytes(exported: bool) -> None:
    module, x = Quantized(is_dynamic=False).eval(), numbers(2, 16, 6, 6)
    if exported:
        model = burnish.compile(torch.export.export(module, (x,)))
    else:
        model = burnish.compile(module, (x,))
    assert "2 products are of bytes, summed in int32 and exact" in str(model.report)
    torch.testing.assert_close(torch.as_tensor(model(x)), module(x), rtol=1e-4, atol=1e-4)


def test_a_model_of_ranges_of_data_reads_bytes_of_weights() -> None:
    """A mean that lies at a half may become the byte beside torch's, hence the tolerance."""
    module, x = Quantized(is_dynamic=True).eval(), numbers(2, 16, 6, 6)
    model = burnish.compile(module, (x,))
    assert "1 products read the model's weights as integers of 8 bits" in str(model.report)
    expected = module(x)
    step = float(expected.abs().max()) * 5e-3
    torch.testing.assert_close(torch.as_tensor(model(x)), expected, rtol=0, atol=step)
