"""The operators of torch's quantisation in graphs (PT2E: ``quantized_decomposed.*``), written with
torch's own, by their names: they are registered where such a model is made.

A number is ``(q - zero point) * scale``. Bytes are widened to int32 and so to float32 in front of a
scale, in which ``passes.dequantized`` knows them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

BYTES = (torch.int8, torch.uint8)
FLOATS = (torch.float16, torch.bfloat16)


def quantize_per_tensor(
    x: Tensor, scale: float, zero_point: int, low: int, high: int, dtype: torch.dtype
) -> Tensor:
    """``round(x / scale) + zero_point``, as ``dtype``; a half goes to the even one."""
    return _quantized(x, 1.0 / scale, zero_point, low, high, dtype)


def quantize_per_tensor_of_data(
    x: Tensor, scale: Tensor, zero_point: Tensor, low: Any, high: Any, dtype: torch.dtype
) -> Tensor:
    """The same with a scale and a zero point of one element each, of data."""
    inverse = (1.0 / scale.reshape(()).to(torch.float64)).to(torch.float32)
    return _quantized(x, inverse, zero_point.reshape(()), low, high, dtype)


def quantize_per_channel(
    x: Tensor, scales: Tensor, zero_points: Tensor, axis: int, low: int, high: int,
    dtype: torch.dtype,
) -> Tensor:  # fmt: skip
    """The same with a scale and a zero point for each place of an axis."""
    inverse, zero = 1.0 / _along(scales, x, axis), _along(zero_points, x, axis)
    return _quantized(x, inverse, zero, low, high, dtype)


def quantize_per_token(
    x: Tensor, scales: Tensor, zero_points: Tensor, low: int, high: int, dtype: torch.dtype
) -> Tensor:
    """``round(x / scale + zero_point)`` with one of each for a row: the sum is rounded."""
    sums = x * (1.0 / _of_rows(scales, x)) + _of_rows(zero_points, x)
    return torch.clamp(torch.round(sums), low, high).to(dtype)


def quantize_per_channel_group(
    x: Tensor, scales: Tensor, zero_points: Tensor, low: int, high: int, dtype: torch.dtype,
    group_size: int = 128,
) -> Tensor:  # fmt: skip
    """The same with one of each for a group of numbers of a row."""
    groups = _groups(x, scales, group_size)
    sums = groups * (1.0 / _of_groups(scales, groups)) + _of_groups(zero_points, groups)
    return torch.clamp(torch.round(sums), low, high).to(dtype).reshape(x.shape)


def dequantize_per_tensor(
    q: Tensor, scale: float, zero_point: int, low: int, high: int, dtype: torch.dtype,
    *, out_dtype: torch.dtype | None = None,
) -> Tensor:  # fmt: skip
    """``(q - zero_point) * scale``."""
    return (q.to(out_dtype or torch.float32) - zero_point) * scale


def dequantize_per_tensor_of_data(
    q: Tensor, scale: Tensor, zero_point: Tensor, low: Any, high: Any, dtype: torch.dtype,
    *, out_dtype: torch.dtype | None = None,
) -> Tensor:  # fmt: skip
    """The same with a scale and a zero point of one element each, of data."""
    wide = out_dtype or torch.float32
    if q.dtype in BYTES and wide == torch.float32:
        return _numbers(q, zero_point.reshape(()), scale.reshape(()))
    return (q.to(wide) - zero_point.reshape(())) * scale.reshape(()).to(wide)


def dequantize_per_channel(
    q: Tensor, scales: Tensor, zero_points: Tensor | None, axis: int, low: int, high: int,
    dtype: torch.dtype, *, out_dtype: torch.dtype | None = None,
) -> Tensor:  # fmt: skip
    """The same with a scale and a zero point for each place of an axis."""
    zero = None if zero_points is None else _along(zero_points, q, axis)
    return _numbers(q, zero, _along(scales, q, axis)).to(out_dtype or torch.float32)


def dequantize_per_token(
    q: Tensor, scales: Tensor, zero_points: Tensor, low: int, high: int, dtype: torch.dtype,
    output_dtype: torch.dtype = torch.float32,
) -> Tensor:  # fmt: skip
    """The same with one of each for a row."""
    return _numbers(q, _of_rows(zero_points, q), _of_rows(scales, q)).to(output_dtype)


def dequantize_per_channel_group(
    q: Tensor, scales: Tensor, zero_points: Tensor | None, low: int, high: int, dtype: torch.dtype,
    group_size: int = 128, output_dtype: torch.dtype = torch.float32,
) -> Tensor:  # fmt: skip
    """The same with one of each for a group of numbers of a row."""
    groups = _groups(q, scales, group_size)
    zero = None if zero_points is None else _of_groups(zero_points, groups)
    made = _numbers(groups, zero, _of_groups(scales, groups))
    return made.reshape(q.shape).to(output_dtype)


def choose_qparams(
    x: Tensor, low: int, high: int, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """A scale and a zero point by the least and the largest element, so that zero is a number."""
    least, most = (f(x).float() for f in (torch.amin, torch.amax))
    least, most = torch.clamp(least, max=0.0), torch.clamp(most, min=0.0)
    scale = torch.clamp((most - least) / float(high - low), min=eps)
    zero = torch.clamp(low - torch.round(least / scale).to(torch.int32), low, high)
    return scale.reshape(1).to(torch.float64), zero.reshape(1).to(torch.int64)


def choose_qparams_symmetric(
    x: Tensor, low: int, high: int, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """A scale by the largest magnitude; zero is 0, of uint8 it is 128."""
    most = torch.amax(torch.abs(x)).float()
    scale = torch.clamp(most / (float(high - low) / 2), min=eps)
    zero = torch.full((1,), 128 if dtype == torch.uint8 else 0, dtype=torch.int64)
    return scale.reshape(1).to(torch.float64), zero


def choose_qparams_per_token(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """A scale for each row, by its largest magnitude."""
    most = torch.amax(torch.abs(x), dim=-1, keepdim=True)
    most = most.float() if most.dtype == torch.float16 else most
    scales = torch.clamp(most, min=1e-5) / 127
    return scales, torch.zeros_like(scales)


def choose_qparams_per_token_asymmetric(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """A scale and a zero point for each row, by its least and largest element, for int8."""
    low, high = -128, 127
    least = torch.clamp(torch.amin(x, dim=-1, keepdim=True), max=0.0)
    most = torch.clamp(torch.amax(x, dim=-1, keepdim=True), min=0.0)
    scale = torch.clamp((most - least) / float(high - low), min=torch.finfo(torch.float32).eps)
    first, last = least / scale, most / scale
    nearer = (low + first) + (high + last) > 0
    zero = torch.round(torch.clamp(torch.where(nearer, low - first, high - last), low, high))
    return scale.to(torch.float64), zero.to(torch.int64)


def convert_element_type(x: Tensor, dtype: torch.dtype) -> Tensor:
    """A cast."""
    return x.to(dtype)


def _quantized(
    x: Tensor, inverse: Tensor | float, zero: Tensor | int, low: Any, high: Any, dtype: torch.dtype
) -> Tensor:
    wide = x.to(torch.float32) if x.dtype in FLOATS else x
    return torch.clamp(torch.round(wide * inverse) + zero, low, high).to(dtype)


def _numbers(q: Tensor, zero: Tensor | None, scale: Tensor) -> Tensor:
    """``(q - zero) * scale``. Scales in float64 are widened ones of float32, or are rounded."""
    narrow = scale.to(torch.float32) if scale.dtype == torch.float64 else scale
    if zero is not None and zero.dtype.is_floating_point:
        return (q.to(torch.float32) - zero) * narrow
    whole = q.to(torch.int32) if zero is None else q.to(torch.int32) - zero.to(torch.int32)
    return whole.to(torch.float32) * narrow


def _along(factor: Tensor, x: Tensor, axis: int) -> Tensor:
    shape = [1] * x.ndim
    shape[axis] = factor.shape[0]
    return factor.reshape(shape)


def _of_rows(factor: Tensor, x: Tensor) -> Tensor:
    return factor.reshape([*x.shape[:-1], 1])


def _groups(x: Tensor, scales: Tensor, group_size: int) -> Tensor:
    """(rows, groups, numbers of a group)"""
    is_row = group_size > x.shape[-1] and scales.shape[-1] == 1
    size = x.shape[-1] if is_row else group_size
    return x.reshape(x.shape[0], x.shape[-1] // size, size)


def _of_groups(factor: Tensor, groups: Tensor) -> Tensor:
    return factor.reshape(groups.shape[0], groups.shape[1], 1)


_OPERATORS: dict[str, Callable[..., Any]] = {
    "quantize_per_tensor.default": quantize_per_tensor,
    "quantize_per_tensor.tensor": quantize_per_tensor_of_data,
    "quantize_per_tensor.tensor2": quantize_per_tensor_of_data,
    "quantize_per_channel.default": quantize_per_channel,
    "quantize_per_token.default": quantize_per_token,
    "quantize_per_channel_group.default": quantize_per_channel_group,
    "dequantize_per_tensor.default": dequantize_per_tensor,
    "dequantize_per_tensor.tensor": dequantize_per_tensor_of_data,
    "dequantize_per_tensor.tensor2": dequantize_per_tensor_of_data,
    "dequantize_per_channel.default": dequantize_per_channel,
    "dequantize_per_token.default": dequantize_per_token,
    "dequantize_per_channel_group.default": dequantize_per_channel_group,
    "choose_qparams.tensor": choose_qparams,
    "choose_qparams_symmetric.tensor": choose_qparams_symmetric,
    "choose_qparams_per_token.default": choose_qparams_per_token,
    "choose_qparams_per_token_asymmetric.default": choose_qparams_per_token_asymmetric,
    "convert_element_type.no_fuse": convert_element_type,
}

QUANTIZED = {f"quantized_decomposed.{name}": function for name, function in _OPERATORS.items()}
