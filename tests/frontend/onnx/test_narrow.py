"""Floats of 8 bits and fewer, integers of 4 and 2: every code, and what is rounded to them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

from burnish.driver.compile import compile
from burnish.frontend.onnx.narrow import NARROW, NarrowKind, from_stored, to_stored
from burnish.support.errors import ArgumentError, DTypeMismatchError

FLOATS = [n for n, k in NARROW.items() if k.is_float]
INTEGERS = [n for n in NARROW if n not in FLOATS]


def cast_model(source: int, target: int, **attributes: object) -> onnx.ModelProto:
    node = helper.make_node("Cast", ["x"], ["y"], to=target, **attributes)
    values = [helper.make_tensor_value_info(n, k, ["n"]) for n, k in (("x", source), ("y", target))]
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    opsets = [helper.make_opsetid("", 24)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=11)


def codes(kind: NarrowKind) -> np.ndarray:
    if kind.is_float:
        return np.arange(2**kind.bits, dtype=np.uint8).view(kind.numpy)
    low, high = kind.range
    return np.arange(low, high + 1).astype(kind.numpy)


@pytest.mark.parametrize("number", NARROW, ids=lambda n: NARROW[n].name)
def test_every_code_is_widened_exactly(number: int) -> None:
    given = codes(NARROW[number])
    found = compile(cast_model(number, TensorProto.FLOAT))(given)
    np.testing.assert_array_equal(found, given.astype(np.float32))


def awkward(kind: NarrowKind) -> np.ndarray:
    """Every value, the middles between neighbours, what lies beside these, and what is beyond."""
    values = kind.values[np.isfinite(kind.values)]
    values = np.unique(values).astype(np.float64)
    middles = (values[1:] + values[:-1]) / 2
    near = [np.nextafter(middles.astype(np.float32), np.float32(s)) for s in (-np.inf, np.inf)]
    most = np.minimum(values.max() * np.array([1.01, 1.2, 2, 1e6]), 3e38)
    rest = np.array([np.nan, 0.0, -0.0, 1e-20], np.float32)
    return np.concatenate([values, middles, *near, most, -most, rest]).astype(np.float32)


@pytest.mark.parametrize("number", FLOATS, ids=lambda n: NARROW[n].name)
def test_floats_round_as_ml_dtypes_rounds_them(number: int) -> None:
    kind = NARROW[number]
    x = awkward(kind)
    if kind.name == "float8_e8m0fnu":
        x = np.abs(x[np.isfinite(x) & (x != 0)])
        x = x[x <= kind.range[1]]
        expected = 2.0 ** np.floor(np.log2(x.astype(np.float64)))
        found = compile(cast_model(TensorProto.FLOAT, number, round_mode="down"))(x)
        np.testing.assert_array_equal(found.astype(np.float64), expected)
        return
    found = compile(cast_model(TensorProto.FLOAT, number, saturate=0))(x)
    assert found.dtype == kind.numpy
    np.testing.assert_array_equal(found.view(np.uint8), x.astype(kind.numpy).view(np.uint8))


def test_floats_beyond_the_range_are_its_largest_if_asked() -> None:
    number = TensorProto.FLOAT8E4M3FN
    found = compile(cast_model(TensorProto.FLOAT, number))(np.array([1e6, -1e6, np.inf], "f4"))
    assert found.astype(np.float32).tolist() == [448, -448, 448]


@pytest.mark.parametrize("number", INTEGERS, ids=lambda n: NARROW[n].name)
def test_integers_keep_their_low_bits(number: int) -> None:
    kind = NARROW[number]
    low, high = kind.range
    x = np.arange(-40, 40, dtype=np.int32)
    found = compile(cast_model(TensorProto.INT32, number))(x)
    assert found.astype(np.int32).tolist() == ((x - low) % (high - low + 1) + low).tolist()


@pytest.mark.parametrize("number", NARROW, ids=lambda n: NARROW[n].name)
def test_what_is_stored_comes_back(number: int) -> None:
    kind = NARROW[number]
    stored = to_stored(codes(kind))
    assert stored.dtype == kind.stored
    np.testing.assert_array_equal(
        from_stored(stored, kind).view(np.uint8), codes(kind).view(np.uint8)
    )


TORCHS = [n for n in FLOATS if hasattr(torch, NARROW[n].name)]


@pytest.mark.parametrize("number", TORCHS, ids=lambda n: NARROW[n].name)
def test_torch_tensors_of_narrow_floats_go_in_and_out(number: int) -> None:
    given = codes(NARROW[number])
    tensor = torch.from_numpy(given.view(np.uint8)).view(getattr(torch, NARROW[number].name))
    wide = compile(cast_model(number, TensorProto.FLOAT))(tensor)
    np.testing.assert_array_equal(wide, given.astype(np.float32))
    numbers = torch.tensor([0.5, 1.0, 2.0])
    back = compile(cast_model(TensorProto.FLOAT, number))(numbers)
    assert back.dtype is tensor.dtype
    assert torch.equal(back.float(), numbers)


def test_what_torch_has_not_is_refused_or_stays_as_it_is_stored() -> None:
    x = torch.tensor([1.0, -1.0])
    with pytest.raises(ArgumentError, match="of dtype float4_e2m1fn, which torch has not"):
        compile(cast_model(TensorProto.FLOAT, TensorProto.FLOAT4E2M1))(x)
    assert compile(cast_model(TensorProto.FLOAT, TensorProto.INT4))(x).tolist() == [1, -1]


def test_another_narrow_dtype_is_refused() -> None:
    model = compile(cast_model(TensorProto.FLOAT8E5M2, TensorProto.FLOAT))
    with pytest.raises(DTypeMismatchError, match="float8_e5m2"):
        model(codes(NARROW[TensorProto.FLOAT8E4M3FN]))
    plain = compile(cast_model(TensorProto.UINT8, TensorProto.FLOAT))
    with pytest.raises(DTypeMismatchError, match="uint8"):
        plain(codes(NARROW[TensorProto.FLOAT8E4M3FN]))
