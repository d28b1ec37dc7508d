"""Resizing of axes whose sizes have names, against the same with sizes that are known."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import ModelProto, TensorProto

from burnish.driver.compile import compile
from burnish.driver.compiled_model import CompiledModel
from burnish.tests.frontend.onnx.oracle import compare, model

MODES = ["nearest", "linear", "cubic"]
COORDINATES = [
    "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric",
]  # fmt: skip
NAMED = "float[N, 4, H, W] x"


def picture(h: int, w: int, batch: int = 2) -> np.ndarray:
    return np.random.default_rng(h * w).standard_normal((batch, 4, h, w)).astype(np.float32)


def to_sizes(attributes: str, inputs: str = NAMED) -> ModelProto:
    return model(f"y = Resize<{attributes}>(x, , , z)", f"{inputs}, int64[4] z", 19)


def by_scales(attributes: str, scales: Any, inputs: str = NAMED) -> ModelProto:
    weights = {"s": np.asarray(scales, np.float32)}
    return model(f"y = Resize<{attributes}>(x, , s)", inputs, 19, weights=weights)


def agrees_with_known_sizes(named: CompiledModel, made: ModelProto, *inputs: np.ndarray) -> None:
    """The same model with the shapes of these inputs."""
    fixed = ModelProto()
    fixed.CopyFrom(made)
    for value, x in zip(fixed.graph.input, inputs, strict=True):
        for dim, size in zip(value.type.tensor_type.shape.dim, x.shape, strict=True):
            dim.dim_value = size
    found, expected = np.asarray(named(*inputs)), np.asarray(compile(fixed)(*inputs))
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("coordinate", COORDINATES)
@pytest.mark.parametrize("mode", MODES)
def test_one_program_serves_all_sizes_by_given_scales(mode: str, coordinate: str) -> None:
    attributes = f'mode = "{mode}", coordinate_transformation_mode = "{coordinate}"'
    made = by_scales(attributes, [1.0, 1.0, 1.5, 0.6])
    compiled = compile(made)
    for x in (picture(6, 5), picture(3, 7, 1)):
        agrees_with_known_sizes(compiled, made, x)
    assert compiled.compilations == 1


@pytest.mark.parametrize("mode", MODES)
def test_one_program_serves_all_sizes_that_data_tell(mode: str) -> None:
    for more in ("", ', coordinate_transformation_mode = "align_corners"'):
        made = to_sizes(f'mode = "{mode}", axes = [0, 1, 2, 3]{more}')
        compiled = compile(made)
        for h, w in ((7, 9), (4, 3), (6, 5)):
            x, z = picture(6, 5), np.array([2, 4, h, w])
            compare(compiled, made, tolerance=1e-4, x=x, z=z)
        assert compiled.compilations == 1


def test_sizes_of_another_tensor() -> None:
    """As detectors do: one map is made as large as another."""
    body = """
        shape = Shape <start = 2> (like)
        r = Resize <mode = "linear", axes = [2, 3]> (x, , , shape)
        y = Add(r, like)
    """
    made = model(body, f"{NAMED}, float[N, 4, P, Q] like", 19)
    compiled = compile(made)
    for h, w in ((7, 9), (12, 10)):
        compare(compiled, made, tolerance=1e-4, x=picture(6, 5), like=picture(h, w))
    assert compiled.compilations == 1


def test_scales_that_data_tell() -> None:
    body = "some = Concat <axis = 0> (ones, s, s)\ny = Resize(x, , some)"
    made = model(body, f"{NAMED}, float[1] s", 19, weights={"ones": np.ones(2, np.float32)})
    compiled = compile(made)
    for scale in (2.0, 0.5, 1.7):
        compare(compiled, made, x=picture(6, 5), s=np.array([scale], np.float32))
    assert compiled.compilations == 1
    result = compiled.script("00-import").partition("-> ")[2].partition("\n")[0]
    assert 'R.Tensor(("N", 4, ' in result


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_the_ratio_of_sides_is_kept(policy: str) -> None:
    attributes = f'axes = [2, 3], keep_aspect_ratio_policy = "{policy}"'
    body = f"y = Resize<{attributes}>(x, , , z)"
    made = model(body, f"{NAMED}, int64[2] z", 19)
    compiled = compile(made)
    for h, w in ((7, 9), (4, 13)):
        compare(compiled, made, x=picture(6, 5), z=np.array([h, w]))
    assert compiled.compilations == 1


def test_a_part_of_the_picture() -> None:
    how = 'mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize"'
    body = f"y = Resize<{how}, extrapolation_value = 10.0>(x, roi, , z)"
    roi = np.array([0, 0, 0.4, 0.6, 1, 1, 1.2, 1.7], np.float32)
    made = model(body, f"{NAMED}, int64[4] z", 19, weights={"roi": roi})
    compiled = compile(made)
    for z in ([2, 4, 3, 3], [2, 4, 5, 8]):
        compare(compiled, made, tolerance=1e-4, x=picture(6, 5), z=np.array(z))
    assert compiled.compilations == 1


def test_cubic_parameters() -> None:
    for more in ("cubic_coeff_a = -0.5", "exclude_outside = 1"):
        made = by_scales(f'mode = "cubic", {more}', [1.0, 1.0, 1.5, 2.5])
        agrees_with_known_sizes(compile(made), made, picture(6, 5))


@pytest.mark.parametrize("rounding", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
def test_rounding_of_nearest(rounding: str) -> None:
    made = by_scales(f'nearest_mode = "{rounding}"', [1.0, 1.0, 1.5, 0.75])
    compiled = compile(made)
    for x in (picture(6, 5), picture(8, 4)):
        agrees_with_known_sizes(compiled, made, x)


def test_half_precision_and_integers() -> None:
    made = by_scales('mode = "linear"', [1.0, 1.0, 1.5, 2.0])
    made.graph.input[0].type.tensor_type.elem_type = TensorProto.BFLOAT16
    x = picture(6, 5).astype(ml_dtypes.bfloat16)
    found = compile(made)(x)
    assert (found.dtype, found.shape) == ("bfloat16", (2, 4, 9, 10))
    made = by_scales('nearest_mode = "floor"', [1.0, 1.0, 1.5, 2.5])
    made.graph.input[0].type.tensor_type.elem_type = TensorProto.INT32
    agrees_with_known_sizes(compile(made), made, np.arange(240, dtype=np.int32).reshape(2, 4, 6, 5))
