"""Resize, and moves between channels and space, against onnx's reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnish.frontend.onnx import import_onnx
from burnish.tests.frontend.onnx.oracle import check, evaluate, model, operators_of, refusal

X = np.random.default_rng(0).standard_normal((2, 4, 6, 5)).astype(np.float32)
COORDINATES = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]


def resized(attributes: str, target: Any, opset: int = 18, shape: str = "N, 4, 6, 5") -> Any:
    target = np.asarray(target)
    if target.dtype.kind == "f":
        weights, call = {"s": target.astype(np.float32)}, "(x, , s)"
    else:
        weights, call = {"z": target}, "(x, , , z)"
    listed = f"<{attributes}>" if attributes else ""
    return model(f"y = Resize{listed}{call}", f"float[{shape}] x", opset, weights=weights)


@pytest.mark.parametrize("coordinate", COORDINATES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_modes_and_coordinates(mode: str, coordinate: str) -> None:
    attributes = f'mode = "{mode}", coordinate_transformation_mode = "{coordinate}"'
    targets: list[list[Any]] = [[1.0, 1.0, 2.0, 2.0], [2, 4, 7, 9]]
    if coordinate != "align_corners":  # of a fraction of an element onnx's evaluator makes a corner
        targets += [[1.0, 1.0, 0.6, 1.7]]
    if coordinate != "pytorch_half_pixel":  # the specification says 0, the evaluator -0.5
        targets += [[2, 4, 3, 1]]
    for target in targets:
        shape = "N, 4, 6, 5" if isinstance(target[0], float) else "2, 4, 6, 5"
        check(resized(attributes, target, shape=shape), x=X, tolerance=1e-4)


@pytest.mark.parametrize("rounding", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
def test_rounding_of_nearest(rounding: str) -> None:
    for coordinate in ("half_pixel", "asymmetric"):
        attributes = f'nearest_mode = "{rounding}", coordinate_transformation_mode = "{coordinate}"'
        check(resized(attributes, [1.0, 1.0, 1.5, 2.0]), x=X)


def test_cubic_parameters() -> None:
    for more in ("cubic_coeff_a = -0.5", "exclude_outside = 1"):
        check(resized(f'mode = "cubic", {more}', [1.0, 1.0, 1.5, 2.5]), x=X, tolerance=1e-4)


def test_scales_that_are_empty_are_left_out() -> None:
    made = model(
        "y = Resize(x, r, s, z)", "float[2, 4, 6, 5] x", 11,
        weights={
            "r": np.zeros(0, np.float32), "s": np.zeros(0, np.float32),
            "z": np.array([2, 4, 7, 9], np.int64),
        },
    )  # fmt: skip
    (found,) = evaluate(import_onnx(made), {"x": X})
    assert found.shape == (2, 4, 7, 9)


def test_some_axes() -> None:
    made = model(
        'y = Resize<mode = "linear", axes = [3, 1]>(x, , s)', "float[N, 4, 6, 5] x", 18,
        weights={"s": np.array([2.0, 1.5], np.float32)},
    )  # fmt: skip
    check(made, x=X)


def test_old_opsets_and_upsample() -> None:
    weights = {"s": np.array([1, 1, 2, 3], np.float32)}
    wide = X.repeat(2, 2).repeat(3, 3)
    for name, opset in (("Resize", 10), ("Upsample", 9)):
        made = model(f"y = {name}(x, s)", "float[N, 4, 6, 5] x", opset, weights=weights)
        np.testing.assert_array_equal(evaluate(import_onnx(made), {"x": X})[0], wide)
    made = model("y = Upsample<scales = [1.0, 1.0, 2.0, 3.0]>(x)", "float[N, 4, 6, 5] x", 7)
    np.testing.assert_array_equal(evaluate(import_onnx(made), {"x": X})[0], wide)


def test_symbolic_sizes_by_a_whole_scale() -> None:
    attributes = 'nearest_mode = "floor", coordinate_transformation_mode = "asymmetric"'
    imported = check(resized(attributes, [1.0, 1.0, 2.0, 3.0], shape="N, 4, H, W"), x=X)
    assert operators_of(imported) == ["reshape", "broadcast_to", "reshape"]


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space(mode: str) -> None:
    made = model(f'y = DepthToSpace<blocksize = 2, mode = "{mode}">(x)', "float[N, 4, H, 5] x", 13)
    check(made, x=X)


def test_space_to_depth() -> None:
    made = model("y = SpaceToDepth<blocksize = 2>(x)", "float[N, 4, 6, 4] x", 13)
    check(made, x=X[..., :4])


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            resized('mode = "linear", antialias = 1', [1.0, 1.0, 2.0, 0.5], shape="N, 4, H, 5"),
            "antialias needs static sizes",
        ),
        (resized('mode = "area"', [1.0, 1.0, 2.0, 2.0]), "mode 'area' is unknown"),
        (
            resized('coordinate_transformation_mode = "tf_crop_and_resize"', [1.0, 1.0, 2.0, 2.0]),
            "tf_crop_and_resize needs a roi",
        ),
        (resized("", [1.0, 2.0]), "2 scales for 4 axes"),
        (
            model("y = DepthToSpace<blocksize = 3>(x)", "float[1, 4, 2, 2] x", 13),
            "3 * 3 must divide the channels",
        ),
        (
            model("y = SpaceToDepth<blocksize = 2>(x)", "float[1, 4, H, 2] x", 13),
            "2 must divide the static spatial dims",
        ),
    ],
)
def test_what_cannot_be_imported(made: Any, message: str) -> None:
    assert message in refusal(made)
