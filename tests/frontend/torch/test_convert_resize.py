"""Interpolation, padding and pixel shuffles against eager torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from burnish.support.errors import FrontendError
from burnish.tests.frontend.torch.oracle import check_all, import_function, operators_of

torch.manual_seed(0)
X = torch.rand(2, 4, 6, 5)
TARGETS: list[dict[str, Any]] = [
    {"scale_factor": 2}, {"size": (7, 9)}, {"size": (3, 2)}, {"scale_factor": (1.7, 0.6)},
    {"size": (1, 5)}, {"scale_factor": (1.3, 2.0), "recompute_scale_factor": True},
]  # fmt: skip
MODES: list[dict[str, Any]] = [
    {"mode": "nearest"},
    {"mode": "nearest-exact"},
    {"mode": "bilinear"},
    {"mode": "bilinear", "align_corners": True},
    {"mode": "bicubic"},
    {"mode": "bicubic", "align_corners": True},
]


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_two_spatial_dims(mode: dict[str, Any]) -> None:
    def resized(target: dict[str, Any]) -> Any:
        return lambda x: F.interpolate(x, **target, **mode)

    check_all({str(target): resized(target) for target in TARGETS}, X)


@pytest.mark.parametrize("given", [*[{"size": n} for n in (1, 2, 5, 7, 8)], {"scale_factor": 2.0}])
@pytest.mark.parametrize("corners", [False, True])
def test_neighbours_without_weight_count_where_they_are_no_numbers(
    given: dict[str, Any], corners: bool
) -> None:
    """Zero times infinity is none: eager reads the second element even where the first is all."""
    x = torch.tensor([[[1.0, torch.nan, 3.0, 4.0]], [[torch.inf, 2.0, -torch.inf, 0.0]]])
    check_all(
        {"linear": lambda x: F.interpolate(x, mode="linear", align_corners=corners, **given)}, x
    )


@pytest.mark.parametrize("scale", [(1.15, 1.15), (1.15, 2.0), (2.0, 1.19)], ids=str)
def test_a_scale_that_keeps_the_size(scale: tuple[float, float]) -> None:
    """torch copies along such an axis or moves the samples, each mode as it likes."""
    check_all(
        {
            str(mode): lambda x, mode=mode: F.interpolate(x, scale_factor=scale, **mode)
            for mode in MODES
        },
        X,
    )
    check_all(
        {
            mode: lambda x, mode=mode: F.interpolate(x[0], scale_factor=scale[0], mode=mode)
            for mode in ("nearest", "nearest-exact", "linear")
        },
        X,
    )
    check_all(
        {
            mode: lambda x, mode=mode: F.interpolate(x[None], scale_factor=(*scale, 1), mode=mode)
            for mode in ("nearest", "nearest-exact", "trilinear")
        },
        X,
    )


def test_one_and_three_spatial_dims() -> None:
    check_all(
        {
            "nearest 1": lambda x: F.interpolate(x[0], size=8),
            "linear": lambda x: F.interpolate(x[0], scale_factor=1.5, mode="linear"),
            "corners": lambda x: F.interpolate(x[0], 9, mode="linear", align_corners=True),
            "nearest 3": lambda x: F.interpolate(x[None], scale_factor=2),
            "trilinear": lambda x: F.interpolate(x[None], (3, 7, 6), mode="trilinear"),
            "area": lambda x: F.interpolate(x, (3, 3), mode="area"),
            "half": lambda x: F.interpolate(x.half(), (7, 7), mode="bilinear"),
            "bytes": lambda x: F.interpolate((x * 9).to(torch.uint8), (9, 3)),
            "module": torch.nn.Upsample(scale_factor=3),
        },
        X,
    )


def test_a_whole_factor_is_a_broadcast_and_fits_symbolic_sizes() -> None:
    imported = check_all(
        {"nearest": lambda x: F.interpolate(x, scale_factor=2)},
        X,
        dynamic_shapes=(({0: "n", 2: "h", 3: "w"},),),
        also=((torch.rand(1, 4, 3, 8),),),
    )
    assert operators_of(imported) == ["reshape", "broadcast_to", "reshape"]


def test_a_symbolic_batch() -> None:
    check_all(
        {"bilinear": lambda x: F.interpolate(x, (4, 9), mode="bilinear")},
        X,
        dynamic_shapes=(({0: "n"},),),
        also=((torch.rand(5, 4, 6, 5),),),
    )


def test_pads() -> None:
    check_all(
        {
            "reflect": lambda x: F.pad(x, (1, 2, 3, 0), mode="reflect"),
            "reflect one": lambda x: F.pad(x[0], (4, 3), mode="reflect"),
            "replicate": lambda x: F.pad(x, (1, 7, 2, 2), mode="replicate"),
            "circular": lambda x: F.pad(x, (1, 2, 6, 3), mode="circular"),
            "three dims": lambda x: F.pad(x, (1, 2, 1, 1, 2, 3), mode="replicate"),
            "constant": lambda x: F.pad(x, (1, -2, 0, 3), value=0.5),
            "negative": lambda x: F.pad(x, (-1, 2, 0, 1), mode="replicate"),
            "module": torch.nn.ReflectionPad2d((1, 2, 3, 4)),
            "edge module": torch.nn.ReplicationPad2d(2),
            "native": lambda x: torch.ops.aten.reflection_pad2d(x, (2, 1, 0, 1)),
            "conv": torch.nn.Conv2d(4, 2, 3, padding=1, padding_mode="circular"),
        },
        X,
    )


def test_pixel_shuffles() -> None:
    check_all(
        {
            "shuffle": lambda x: F.pixel_shuffle(x, 2),
            "unshuffle": lambda x: F.pixel_unshuffle(x[..., :4], 2),
            "without a batch": lambda x: F.pixel_shuffle(x[0], 2),
            "channels": lambda x: F.channel_shuffle(x, 2),
        },
        X,
        dynamic_shapes=(({0: "n"},),),
        also=((X[:1],),),
    )


@pytest.mark.parametrize(
    ("function", "dims", "message"),
    [
        (lambda x: F.interpolate(x, scale_factor=1.3, mode="bilinear"), {2: "h"},
         "cannot be imported"),
    ],
)  # fmt: skip
def test_what_cannot_be_imported(function, dims, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(FrontendError) as caught:
        import_function(function, X, dynamic_shapes=(dims,) if dims else None)
    assert message in str(caught.value)


def test_named_spatial_sizes() -> None:
    def by(**options: Any) -> Any:
        return lambda x: F.interpolate(x, **options)

    check_all(
        {
            "bilinear": by(scale_factor=2.0, mode="bilinear"),
            "aligned": by(scale_factor=1.5, mode="bilinear", align_corners=True),
            "smaller": by(scale_factor=0.5, mode="bilinear"),
            "cubic": by(scale_factor=1.5, mode="bicubic"),
            "cubic, aligned": by(size=(9, 4), mode="bicubic", align_corners=True),
            "nearest": by(scale_factor=1.5, mode="nearest"),
            "exact": by(scale_factor=0.75, mode="nearest-exact"),
            "to a fixed size": by(size=(7, 3), mode="bilinear"),
            "to a fixed size, nearest": by(size=(7, 3), mode="nearest"),
            "to one": by(size=(1, 1), mode="bilinear", align_corners=True),
            "computed": lambda x: F.interpolate(x, size=(x.shape[2] * 2 + 1, 4), mode="bilinear"),
        },
        X,
        dynamic_shapes=(({2: torch.export.Dim.DYNAMIC, 3: torch.export.Dim.DYNAMIC},),),
        also=((X[..., :3, :2],), (torch.cat([X, X], 2)[..., :4],)),
    )
