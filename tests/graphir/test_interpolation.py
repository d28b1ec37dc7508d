"""Coordinates, weights and values of interpolation; both front ends test more of these."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

import burnish
from burnish.graphir.builder import BlockBuilder, call_op
from burnish.graphir.expr import Atom, Var
from burnish.graphir.interpolation import (
    COORDINATES,
    ROUNDINGS,
    Interpolation,
    coordinates,
    in_float32,
    interpolate_axis,
    taps,
)
from burnish.graphir.op import type_of
from burnish.graphir.type import TensorType, tensor_type


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("exclude", [False, True])
def test_weights_sum_to_one_and_places_are_inside(mode: str, exclude: bool) -> None:
    how = Interpolation(mode, exclude_outside=exclude and mode == "cubic")
    for size, out in [(5, 9), (5, 3), (1, 4), (6, 1)]:
        found = taps(how, coordinates(how, size, out, out / size), size)
        np.testing.assert_allclose(np.sum([w for _, w in found], axis=0), np.ones(out))
        assert all(((at >= 0) & (at < size)).all() for at, _ in found)


@pytest.mark.parametrize("coordinate", COORDINATES)
def test_the_same_size_is_the_same_place(coordinate: str) -> None:
    how = Interpolation("linear", coordinate)
    np.testing.assert_allclose(coordinates(how, 6, 6, 1.0), np.arange(6), atol=1e-12)


def test_corners_are_aligned() -> None:
    how = Interpolation("linear", "align_corners")
    found = coordinates(how, 4, 9, 9 / 4)
    assert (found[0], found[-1]) == (0, 3)
    assert coordinates(how, 4, 1, 0.25).tolist() == [0]


def test_roundings_of_a_half() -> None:
    half = np.array([0.5, 1.5])
    found = {name: function(half).tolist() for name, function in ROUNDINGS.items()}
    assert found == {
        "floor": [0, 1], "ceil": [1, 2], "round_prefer_floor": [0, 1],
        "round_prefer_ceil": [1, 2],
    }  # fmt: skip


def test_single_precision_decides_which_is_nearest() -> None:
    how = Interpolation("nearest", "asymmetric", single_precision=True)
    wide = dataclasses.replace(how, single_precision=False)
    assert coordinates(how, 10, 30, 3.0).dtype == np.float32
    assert coordinates(wide, 10, 30, 3.0).dtype == np.float64


class Built:
    """Operators on NumPy's arrays, in place of a builder's."""

    def __init__(self) -> None:
        self.builder = BlockBuilder()

    def op(self, name: str, *args: Atom, **attrs: object) -> Atom:
        return self.builder.emit(call_op(name, *args, **attrs))

    def type(self, atom: Atom) -> TensorType:
        found = type_of(atom)
        assert isinstance(found, TensorType)
        return found


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_an_axis_is_a_weighted_sum_of_its_elements(dtype: str) -> None:
    x = Var("x", tensor_type((2, 4), dtype))
    how = Interpolation("linear")
    built = Built()
    with built.builder.function("main", [x]):
        made = in_float32(built, x, how, lambda v: interpolate_axis(built, v, 1, (4, 6), 1.5, how))
        built.builder.emit_func_output(made)
    assert built.type(made).shape[1].value == 6  # type: ignore[attr-defined]
    data = np.arange(8, dtype=dtype).reshape(2, 4)
    machine = burnish.VirtualMachine(burnish.build(built.builder.get()))
    expected = torch.nn.functional.interpolate(
        torch.from_numpy(data[None]).float(), 6, mode="linear"
    )
    np.testing.assert_allclose(machine["main"](data).numpy(), expected[0], rtol=2e-3)
    assert ("R.astype" in built.builder.get().script()) == (dtype == "float16")
