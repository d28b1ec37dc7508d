"""Convolutions and pooling against eager torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import burnish
from burnish.support.errors import FrontendError
from burnish.tests.frontend.torch.oracle import check_all, import_function, operators_of

torch.manual_seed(0)
X1, X2, X3 = torch.randn(2, 4, 9), torch.randn(2, 4, 8, 7), torch.randn(1, 4, 5, 6, 4)


def test_convolutions_of_one_dim() -> None:
    check_all(
        {
            "plain": nn.Conv1d(4, 6, 3),
            "strided": nn.Conv1d(4, 6, 3, stride=2, padding=1, bias=False),
            "same": nn.Conv1d(4, 2, 4, padding="same", dilation=2),
            "valid": nn.Conv1d(4, 2, 4, padding="valid"),
            "without a batch": lambda x: F.conv1d(x[0], torch.ones(2, 4, 3)),
        },
        X1,
    )


def test_convolutions_of_two_dims() -> None:
    check_all(
        {
            "plain": nn.Conv2d(4, 6, 3),
            "strided": nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0)),
            "dilated": nn.Conv2d(4, 2, 3, dilation=(2, 1), padding=2),
            "grouped": nn.Conv2d(4, 6, 3, groups=2),
            "depthwise": nn.Conv2d(4, 8, 3, groups=4, bias=False),
            "pointwise": nn.Conv2d(4, 5, 1),
            "same": nn.Conv2d(4, 2, (5, 3), padding="same"),
            "general": lambda x: torch.convolution(
                x, torch.ones(2, 4, 3, 3), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1
            ),
            "general transposed": lambda x: torch.convolution(
                x, torch.ones(4, 2, 3, 3), None, [2, 2], [1, 1], [1, 1], True, [1, 0], 1
            ),
            "without a batch": lambda x: F.conv2d(x[0], torch.ones(2, 4, 3, 3)),
        },
        X2,
    )


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
def test_same_padding_of_even_kernels_is_larger_behind() -> None:
    check_all(
        {
            "two": nn.Conv1d(4, 2, 2, padding="same"),
            "four": nn.Conv1d(4, 2, 4, padding="same"),
            "dilated": nn.Conv1d(4, 2, 2, padding="same", dilation=3),
        },
        X1,
    )
    check_all(
        {
            "even and odd": nn.Conv2d(4, 2, (4, 3), padding="same"),
            "both": nn.Conv2d(4, 2, (2, 6), padding="same", dilation=(3, 1)),
        },
        X2,
    )


def test_convolutions_of_three_dims() -> None:
    check_all({"plain": nn.Conv3d(4, 2, 3), "padded": nn.Conv3d(4, 2, 2, 2, padding=1)}, X3)


def test_transposed_convolutions() -> None:
    check_all(
        {
            "plain": nn.ConvTranspose2d(4, 3, 3),
            "strided": nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1),
            "dilated": nn.ConvTranspose2d(4, 3, 2, dilation=2, bias=False),
            "grouped": nn.ConvTranspose2d(4, 6, 3, stride=(2, 1), groups=2),
        },
        X2,
    )
    check_all({"one": nn.ConvTranspose1d(4, 3, 4, stride=3)}, X1)
    check_all({"three": nn.ConvTranspose3d(4, 2, 2, stride=2)}, X3)


def test_maxima() -> None:
    check_all(
        {
            "plain": nn.MaxPool2d(2),
            "strided": nn.MaxPool2d(3, stride=2, padding=1),
            "dilated": nn.MaxPool2d((2, 3), stride=1, dilation=2),
            "ceil": nn.MaxPool2d(3, stride=2, ceil_mode=True),
            "without a batch": lambda x: F.max_pool2d(x[0], 2),
            "with indices": lambda x: F.max_pool2d(x, 2, return_indices=True)[0],
        },
        X2,
    )
    check_all({"one": nn.MaxPool1d(3, 2)}, X1)
    check_all({"three": nn.MaxPool3d(2)}, X3)


def test_means() -> None:
    check_all(
        {
            "plain": nn.AvgPool2d(2),
            "padded": nn.AvgPool2d(3, stride=2, padding=1),
            "not counted": nn.AvgPool2d(3, 2, padding=1, count_include_pad=False),
            "ceil": nn.AvgPool2d(3, stride=2, ceil_mode=True),
            "divisor": nn.AvgPool2d(2, divisor_override=3),
            "without a batch": lambda x: F.avg_pool2d(x[0], 2),
        },
        X2,
    )
    check_all({"one": nn.AvgPool1d(3, 2)}, X1)
    check_all({"three": nn.AvgPool3d(2)}, X3)


def test_adaptive_pooling() -> None:
    check_all(
        {
            "global": nn.AdaptiveAvgPool2d(1),
            "mean": nn.AdaptiveAvgPool2d((3, 2)),
            "maximum": nn.AdaptiveMaxPool2d((3, 2)),
            "one dim left": nn.AdaptiveAvgPool2d((None, 3)),
            "without a batch": lambda x: F.adaptive_avg_pool2d(x[0], 2),
        },
        X2,
    )
    check_all({"mean": nn.AdaptiveAvgPool1d(4), "maximum": nn.AdaptiveMaxPool1d(4)}, X1)
    check_all({"mean": nn.AdaptiveAvgPool3d((2, 3, 1)), "maximum": nn.AdaptiveMaxPool3d(2)}, X3)


def test_a_symbolic_batch_and_symbolic_sizes() -> None:
    functions: dict[str, Any] = {
        "conv": nn.Conv2d(4, 3, 3, padding=1),
        "pool": nn.MaxPool2d(3, stride=1, padding=1),
        "mean": nn.AvgPool2d(3, stride=1, padding=1),
        "global": nn.AdaptiveAvgPool2d(1),
    }
    imported = check_all(
        functions,
        X2,
        dynamic_shapes=(({0: "n", 2: "h", 3: "w"},),),
        also=((torch.randn(1, 4, 5, 9),),),
    )
    assert set(imported.dim_names) == {"n", "h", "w"}


class OwnWeights(nn.Module):
    """Images that each have weights of their own: the batch is in the channels, as many groups."""

    def __init__(self, function: Any, dims: int, **options: Any) -> None:
        super().__init__()
        self.function, self.dims, self.options = function, dims, options

    def forward(self, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        batch = x.shape[0]
        bias = b.flatten() if self.options.get("stride") else None
        inside = x.reshape(1, -1, *x.shape[2:])
        y = self.function(inside, w.flatten(0, 1), bias, groups=batch, **self.options)
        return y.reshape(batch, -1, *y.shape[2:])


@pytest.mark.parametrize(
    ("dims", "options"),
    [(1, {"stride": 2}), (2, {"padding": 1}), (2, {"padding": "same", "dilation": 2}), (3, {})],
)
def test_as_many_groups_as_images(dims: int, options: Any) -> None:
    function = (F.conv1d, F.conv2d, F.conv3d)[dims - 1]
    module, names = (
        OwnWeights(function, dims, **options),
        ({0: "n", 2: "height"}, {0: "n"}, {0: "n"}),
    )

    def drawn(n: int, height: int) -> tuple[torch.Tensor, ...]:
        sides = (height, 6, 4)[:dims]
        return torch.randn(n, 3, *sides), torch.randn(n, 5, 3, *[3] * dims), torch.randn(n, 5)

    model = burnish.compile(module, drawn(2, 7), dynamic_shapes=names)
    for n, height in ((2, 7), (1, 5), (4, 9)):
        inputs = drawn(n, height)
        torch.testing.assert_close(model(*inputs), module(*inputs), rtol=1e-4, atol=1e-4)


def test_as_many_groups_as_channels_of_an_input_without_a_batch() -> None:
    class Depthwise(nn.Module):
        def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return F.conv2d(x, w.unsqueeze(1), padding=1, groups=x.shape[0])

    module = Depthwise()
    names = ({0: "channels", 1: "height"}, {0: "channels"})
    inputs = (torch.randn(3, 6, 5), torch.randn(3, 3, 3))
    model = burnish.compile(module, inputs, dynamic_shapes=names)
    for channels, height in ((3, 6), (1, 1), (7, 4)):
        given = (torch.randn(channels, height, 5), torch.randn(channels, 3, 3))
        torch.testing.assert_close(model(*given), module(*given), rtol=1e-4, atol=1e-4)


def test_transposed_convolutions_of_as_many_groups_are_refused() -> None:
    inputs = (torch.randn(2, 3, 5), torch.randn(2, 3, 4, 3), torch.randn(2, 4))
    module = OwnWeights(F.conv_transpose1d, 1)
    with pytest.raises(FrontendError, match="number of its groups must be a constant"):
        burnish.compile(module, inputs, dynamic_shapes=({0: "n"}, {0: "n"}, {0: "n"}))


def test_each_is_one_operator() -> None:
    for module, name in [
        (nn.Conv2d(4, 3, 3), "conv"),
        (nn.ConvTranspose2d(4, 3, 3), "conv_transpose"),
        (nn.MaxPool2d(2), "max_pool"),
        (nn.AvgPool2d(2), "avg_pool"),
        (nn.AdaptiveAvgPool2d(3), "adaptive_pool"),
    ]:
        assert operators_of(import_function(module, X2)) == [name]


def test_columns_of_windows_are_read_without_tables_of_places() -> None:
    """torch takes unfold() apart into a lookup by constant indices, which is no vector load."""
    x = torch.rand(2, 3, 8, 9)
    columns = import_function(lambda x: F.unfold(x, 3, padding=1, dilation=2), x)
    assert operators_of(columns) == ["permute_dims", "im2col", "permute_dims", "reshape"]
    assert "im2col" in operators_of(import_function(lambda x: x.unfold(2, 4, 2), x))


def test_columns_of_truth_values() -> None:
    check_all(
        {
            "plain": lambda x: F.unfold(x > 0, 2),
            "padded": lambda x: F.unfold(x > 0, 3, padding=(1, 2), stride=2),
        },
        X2,
    )
