"""Pixels read between places, and put to places, beside torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from burnish.driver.compile import compile
from burnish.frontend.onnx import import_onnx
from burnish.tests.frontend.onnx.oracle import check, check_compiled, compare, evaluate, model

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3, 5, 4)).astype(np.float32)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [0, 1])
def test_grids(mode: str, padding: str, corners: int) -> None:
    grid = (RNG.random((2, 6, 3, 2)) * 3 - 1.5).astype(np.float32)
    attributes = f'mode = "{mode}", padding_mode = "{padding}", align_corners = {corners}'
    made = model(
        f"y = GridSample<{attributes}>(x, g)", "float[2, 3, 5, 4] x, float[2, 6, 3, 2] g", 20
    )
    found = evaluate(import_onnx(made), {"x": X, "g": grid})[0]
    named = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}[mode]
    expected = torch.nn.functional.grid_sample(
        torch.from_numpy(X), torch.from_numpy(grid), named, padding, bool(corners)
    )
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-4)


def test_columns_are_added_up_where_their_blocks_lie() -> None:
    columns = torch.nn.functional.unfold(torch.from_numpy(X), (2, 3), 1, 1, 2)
    shape = ", ".join(str(n) for n in columns.shape)
    weights = {"image": np.array([5, 4]), "block": np.array([2, 3])}
    made = model("y = Col2Im<pads = [1, 1, 1, 1], strides = [2, 2]>(x, image, block)",
                 f"float[{shape}] x", 18, weights=weights)  # fmt: skip
    found = evaluate(import_onnx(made), {"x": columns.numpy()})[0]
    expected = torch.nn.functional.fold(columns, (5, 4), (2, 3), 1, 1, 2)
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-5, atol=1e-5)


def test_maxima_go_back_to_their_places() -> None:
    values, places = torch.nn.functional.max_pool2d(
        torch.from_numpy(X[:, :, :4]), 2, return_indices=True
    )
    plane = np.arange(6).reshape(2, 3, 1, 1) * 16
    made = model("y = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(x, i)",
                 "float[2, 3, 2, 2] x, int64[2, 3, 2, 2] i", 18)  # fmt: skip
    found = evaluate(import_onnx(made), {"x": values.numpy(), "i": places.numpy() + plane})[0]
    expected = torch.nn.functional.max_unpool2d(values, places, 2)
    np.testing.assert_array_equal(found, expected.numpy())


@pytest.mark.parametrize("mode", ["half_pixel", "output_half_pixel"])
def test_regions_of_images_of_any_size_are_one_program(mode: str) -> None:
    options = "output_height = 3, output_width = 2, sampling_ratio = 2, spatial_scale = 0.5"
    made = model(
        f'y = RoiAlign<{options}, coordinate_transformation_mode = "{mode}">(x, r, b)',
        "float[N, 3, H, W] x, float[R, 4] r, int64[R] b",
    )
    compiled, rng = compile(made), np.random.default_rng(0)
    for n, h, w, r in ((1, 8, 9, 5), (2, 5, 4, 1)):
        low = rng.uniform(-2, 8, (r, 2))
        regions = np.concatenate([low, low + rng.uniform(0, 9, (r, 2))], 1).astype(np.float32)
        x = rng.standard_normal((n, 3, h, w)).astype(np.float32)
        compare(compiled, made, x=x, r=regions, b=rng.integers(0, n, r))
    none = compiled(x, regions[:0], np.zeros(0, np.int64))
    assert none.shape == (0, 3, 3, 2)
    assert compiled.compilations == 1


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_regions_outside_of_an_image_that_has_no_numbers_at_its_edge_are_zero(mode: str) -> None:
    made = model(
        f'y = RoiAlign<output_height = 2, output_width = 2, sampling_ratio = 2, mode = "{mode}">'
        "(x, rois, batch)",
        "float[1, 1, 4, 4] x, float[K, 4] rois, int64[K] batch",
        16,
    )
    x = np.ones((1, 1, 4, 4), np.float32)
    x[0, 0, 0, 3], x[0, 0, 3, 3] = np.inf, np.nan
    rois = np.float32([[9, -9, 12, -5], [9, 9, 12, 12]])
    check(made, x=x, rois=rois, batch=np.zeros(2, np.int64))


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_regions_of_no_extent_have_no_samples_unless_their_number_is_given(mode: str) -> None:
    x = np.random.default_rng(0).random((1, 2, 4, 4)).astype(np.float32)
    rois = np.float32([[1, 1, 1, 1], [2, 1, 2, 1]])
    for ratio in (0, 2):
        made = model(
            f"y = RoiAlign<output_height = 2, output_width = 3, sampling_ratio = {ratio}, "
            f'mode = "{mode}">(x, rois, batch)',
            "float[1, C, 4, 4] x, float[K, 4] rois, int64[K] batch",
            16,
        )
        check_compiled(made, x=x, rois=rois, batch=np.zeros(2, np.int64))


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("places", ["half_pixel", "output_half_pixel"])
def test_regions_of_several_sizes_have_samples_of_their_own_numbers(mode: str, places: str) -> None:
    made = model(
        "y = RoiAlign<output_height = 2, output_width = 3, sampling_ratio = 0, "
        f'mode = "{mode}", coordinate_transformation_mode = "{places}">(x, rois, batch)',
        "float[N, 2, H, W] x, float[K, 4] rois, int64[K] batch",
        16,
    )
    compiled, rng = compile(made), np.random.default_rng(0)
    regions = np.float32(
        [[0, 0, 3, 3], [1, 1, 9, 8], [-2, -3, 20, 15], [2, 2, 2, 2], [4, 1, 10.5, 2]]
    )
    for n, count, size in ((1, 5, (9, 11)), (2, 2, (6, 5)), (1, 1, (9, 11))):
        x = rng.standard_normal((n, 2, *size)).astype(np.float32)
        compare(compiled, made, x=x, rois=regions[:count], batch=rng.integers(0, n, count))
    none = compiled(x, regions[:0], np.zeros(0, np.int64))
    assert none.shape == (0, 2, 2, 3)
    assert compiled.compilations == 1
