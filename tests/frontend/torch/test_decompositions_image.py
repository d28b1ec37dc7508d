"""Sampling, indices of maxima and antialiased resizing against eager torch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import burnish
from burnish.support.node import walk
from burnish.tensorir.buffer import Buffer
from burnish.tensorir.expr import BufferLoad
from burnish.tensorir.stmt import Block
from burnish.tests.frontend.torch.oracle import check_all, evaluate, import_function
from burnish.tuner.workload import blocks_in_order

torch.manual_seed(0)
X2, X3 = torch.randn(2, 3, 5, 4, dtype=torch.float64), torch.randn(2, 2, 3, 5, 4).double()
PADDINGS = ("zeros", "border", "reflection")


def grid(*sizes: int) -> torch.Tensor:
    """Coordinates inside and outside of the image, on its corners and between elements."""
    g = torch.rand(*sizes, dtype=torch.float64) * 4 - 2
    g.reshape(-1)[:4] = torch.tensor([-1.0, 1.0, 0.0, 2.5], dtype=torch.float64)
    return g


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("padding", PADDINGS)
def test_grid_sample(padding: str, corners: bool) -> None:
    check_all(
        {
            mode: lambda x, g, mode=mode: F.grid_sample(x, g, mode, padding, corners)
            for mode in ("bilinear", "nearest", "bicubic")
        },
        X2,
        grid(2, 3, 6, 2),
    )
    check_all(
        {
            mode: lambda x, g, mode=mode: F.grid_sample(x, g, mode, padding, corners)
            for mode in ("bilinear", "nearest")
        },
        X3,
        grid(2, 2, 3, 4, 3),
    )


@pytest.mark.parametrize(("mode", "channels"), [("bilinear", 5), ("nearest", 2), ("bicubic", 5)])
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("padding", PADDINGS)
def test_grid_sample_of_named_sizes(padding: str, mode: str, corners: bool, channels: int) -> None:
    class Sample(torch.nn.Module):
        def forward(self, x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
            return F.grid_sample(x, g, mode, padding, corners)

    named = {0: "b", 2: "h", 3: "w"}, {0: "b", 1: "rows", 2: "columns"}
    given = torch.randn(2, channels, 9, 7), grid(2, 5, 6, 2).float()
    model = burnish.compile(Sample(), given, dynamic_shapes=named)
    for image, places in ((3, channels, 4, 11), (3, 2, 2, 2)), ((1, channels, 1, 1), (1, 1, 2, 2)):
        x, g = torch.randn(image), grid(*places).float()
        g.reshape(-1)[3] = torch.nan
        torch.testing.assert_close(
            model(x, g), Sample()(x, g), atol=1e-4, rtol=1e-4, equal_nan=True
        )


@pytest.mark.parametrize(("mode", "taps"), [("nearest", 1), ("bilinear", 4), ("bicubic", 16)])
def test_places_of_a_sample_are_computed_once_for_all_channels(mode: str, taps: int) -> None:
    x, g = torch.randn(2, 24, 9, 7), grid(2, 5, 6, 2).float()

    class Sample(torch.nn.Module):
        def forward(self, x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
            return F.grid_sample(x, g, mode, align_corners=False)

    model = burnish.compile(Sample(), (x, g), threads=1)
    kernels = model.module.prim_funcs.values()
    # Four or five an axis, what joins them, place and weight of each tap, and what turns the image
    # and the result; each axis has a size of its own.
    assert len(kernels) <= 15 + 2 * taps
    # The sum alone is made for each channel, some terms a kernel where it is long.
    sums = [f for f in kernels if any(sizes(b) == [126, 24] for b in f.buffers)]
    assert len(sums) <= 1 + taps // 4
    assert sum(max(map(taken, blocks_in_order(f))) for f in sums) == taps


def taken(block: Block) -> int:
    """The elements of the image that a block reads in each instance."""
    loads = [n for n in walk(block.body) if isinstance(n, BufferLoad)]
    return len({id(n) for n in loads if sizes(n.buffer) == [126, 24]})


def sizes(buffer: Buffer) -> list[int]:
    return [dim.value for dim in buffer.shape]


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("padding", PADDINGS)
def test_grid_sample_where_numbers_are_not_finite(padding: str, corners: bool) -> None:
    """NaN and infinite coordinates, ones far away, and infinite elements at the border, which a
    sample that lies outside must not see."""
    for x, modes in ((X2, ("bilinear", "nearest", "bicubic")), (X3, ("bilinear", "nearest"))):
        x, axes = x.clone(), x.dim() - 2
        x[(slice(None), 0, *[0] * axes)], x[(slice(None), 1, *[-1] * axes)] = torch.inf, torch.nan
        odd = [torch.nan, torch.inf, -torch.inf, -3.0, 3.0]
        places = [[c if d == e else 0.1 for e in range(axes)] for d in range(axes) for c in odd]
        places += [[c] * axes for c in odd]
        g = (
            torch.tensor(places)
            .reshape(1, *[1] * (axes - 1), -1, axes)
            .repeat(2, *[1] * (axes + 1))
        )
        check_all(
            {
                mode: lambda x, g, mode=mode: F.grid_sample(x, g, mode, padding, corners)
                for mode in modes
            },
            x.float(),
            g,
        )


@pytest.mark.parametrize("padding", PADDINGS)
def test_grid_sample_of_one_element(padding: str) -> None:
    x, g = X3[:, :, :1, :1, :1], grid(2, 1, 2, 3, 3)
    check_all({"corners": lambda x, g: F.grid_sample(x, g, "bilinear", padding, True)}, x, g)
    check_all({"centres": lambda x, g: F.grid_sample(x, g, "nearest", padding, False)}, x, g)


@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": (2, 3), "stride": (1, 2), "padding": (0, 1), "dilation": (2, 1)},
        {"kernel_size": 2, "stride": 3, "ceil_mode": True},
    ],
)
def test_where_maxima_are(options: dict[str, object]) -> None:
    """The first of equal ones; NaN and windows of nothing but -inf."""
    x = torch.randint(-2, 2, (2, 3, 7, 6)).float()
    x[0, 0, 2, 3], x[0, 1, :3, :4], x[1, 2, 0, 0] = torch.nan, -torch.inf, torch.inf
    check_all(
        {
            "both": lambda x: F.max_pool2d(x, **options, return_indices=True)[1],
            "values": lambda x: F.max_pool2d(x, **options, return_indices=True)[0],
        },
        x,
    )


def test_where_maxima_of_volumes_are() -> None:
    x = torch.randint(-2, 2, (2, 3, 5, 4, 6)).float()
    check_all(
        {"both": lambda x: F.max_pool3d(x, 2, 2, (0, 1, 0), return_indices=True)[1]},
        x,
    )


@pytest.mark.parametrize("size", [1, 3, 5])
def test_where_maxima_of_even_parts_are(size: int) -> None:
    x = torch.randint(-2, 2, (2, 3, 7, 6)).float()
    check_all(
        {
            "of rows": lambda x: F.adaptive_max_pool1d(x[0], size, True)[1],
            "of images": lambda x: F.adaptive_max_pool2d(x, (size, 2), True)[1],
            "values": lambda x: F.adaptive_max_pool2d(x, (size, 2), True)[0],
            "of volumes": lambda x: F.adaptive_max_pool3d(x, (2, size, 3), True)[1],
        },
        x,
    )


def test_unpooling() -> None:
    check_all(
        {"back": lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)},
        torch.randn(2, 3, 6, 8),
    )
    check_all(
        {
            "row": lambda x: F.max_unpool1d(*F.max_pool1d(x, 2, return_indices=True), 2),
            "larger": lambda x: F.max_unpool1d(
                *F.max_pool1d(x, 3, 2, return_indices=True), 3, 2, output_size=[10]
            ),
        },
        torch.randn(2, 3, 9),
    )
    check_all(
        {"volume": lambda x: F.max_unpool3d(*F.max_pool3d(x, 2, return_indices=True), 2)},
        torch.randn(2, 3, 4, 6, 2),
    )


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("size", [(3, 2), (9, 4), (5, 1), (1, 7)])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialiased_resizing(mode: str, size: tuple[int, int], corners: bool) -> None:
    check_all(
        {"resized": lambda x: F.interpolate(
            x, size, mode=mode, antialias=True, align_corners=corners
        )},
        torch.randn(2, 3, 5, 4, dtype=torch.float64),
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(5, 7), (30, 21)])
def test_bytes_are_resized_in_float32(mode: str, size: tuple[int, int]) -> None:
    """torch computes with fixed points: one step may differ in each direction."""
    x = torch.randint(0, 255, (1, 3, 16, 16), dtype=torch.uint8)

    def resize(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, size, mode=mode, antialias=True)

    (found,) = evaluate(import_function(resize, x), x)
    assert found.dtype == "uint8"
    assert abs(found.astype(int) - resize(x).numpy().astype(int)).max() <= 2
