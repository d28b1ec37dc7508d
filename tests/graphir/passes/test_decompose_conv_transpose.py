"""DecomposeConvTranspose: transposed convolutions as convolutions, against torch in float64."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from burnish.graphir.analysis import bindings
from burnish.graphir.expr import Call
from burnish.graphir.module import IRModule
from burnish.graphir.passes.bind_params import BindParams
from burnish.graphir.passes.channels_last import ChannelsLast
from burnish.graphir.passes.dead_code_elimination import DeadCodeElimination
from burnish.graphir.passes.decompose_conv_transpose import DecomposeConvTranspose
from burnish.graphir.text.parser import parse_module
from burnish.graphir.verify import verify_module
from burnish.tests.graphir.reference import run

TORCH = {1: torch.conv_transpose1d, 2: torch.conv_transpose2d, 3: torch.conv_transpose3d}
OPTIONS = {
    "kernel": (1, 2, 3, 4), "stride": (1, 2, 3), "padding": (0, 1, 2, 3), "output_padding": (0, 1),
    "dilation": (1, 2),
}  # fmt: skip


def _is_legal(o: dict[str, int]) -> bool:
    return o["padding"] <= (o["kernel"] - 1) * o["dilation"] and o["output_padding"] < max(
        o["stride"], o["dilation"]
    )


ONE_DIM = [
    o for v in itertools.product(*OPTIONS.values())
    if _is_legal(o := dict(zip(OPTIONS, v, strict=True)))
]  # fmt: skip
"""What a spatial dim may have, all combinations."""


def model(
    sizes: Sequence[int | str],
    dims: Sequence[dict[str, int]],
    *,
    groups: int = 1,
    each: int = 2,
    own: int = 2,
    batch: int = 2,
    bias: bool = True,
    constant: bool = True,
) -> tuple[IRModule, list[np.ndarray], dict[str, Any]]:
    """A module with one transposed convolution in float64, its weight and bias, torch's options."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((own * groups, each, *[d["kernel"] for d in dims]))
    b = rng.standard_normal(each * groups)
    padding = [v for d in dims for v in (d["padding"],) * 2]
    kwargs = {k: [d[k] for d in dims] for k in ("stride", "dilation", "output_padding")}
    shape = (batch, own * groups, *sizes)
    params = {"x": shape, "w": w.shape, "b": b.shape}
    names = ["x", "w", "b"][: 2 + bias]
    declared = ", ".join(f'{n}: R.Tensor({params[n]}, "float64")' for n in names)
    attrs = {"strides": kwargs["stride"], "padding": padding, "groups": groups} | kwargs
    listed = ", ".join(f"{k}={v}" for k, v in attrs.items() if k != "stride")
    module = parse_module(
        f"@R.function\ndef main({declared}):\n    with R.dataflow():\n"
        f"        y = R.conv_transpose({', '.join(names)}, {listed})\n"
        "        R.output(y)\n    return y\n"
    )
    given = {"w": w, "b": b} if bias else {"w": w}
    options = {**kwargs, "padding": [d["padding"] for d in dims], "groups": groups}
    if constant:
        return BindParams("main", given)(module), [w, b][: 1 + bias], options
    return module, [w, b][: 1 + bias], options


def decomposed(module: IRModule, lanes: int = 16) -> IRModule:
    for step in (ChannelsLast(), DecomposeConvTranspose(lanes), DeadCodeElimination()):
        module = verify_module(step(module))
    return module


def operators(module: IRModule) -> list[str]:
    values = [b.value for b in bindings(module["main"])]  # type: ignore[arg-type]
    return [v.op for v in values if isinstance(v, Call)]


def check(
    sizes: Sequence[int], dims: Sequence[dict[str, int]], *, lanes: int = 16, **kwargs: Any
) -> list[str]:
    """Compare with torch; the operators that are left."""
    module, params, options = model(sizes, dims, **kwargs)
    x = np.random.default_rng(1).standard_normal((2, params[0].shape[0], *sizes))
    tensors = [torch.tensor(a) for a in (x, *params)]
    wanted = TORCH[len(sizes)](*tensors, **options).numpy()
    after = decomposed(module, lanes)
    given = (x,) if kwargs.get("constant", True) else (x, *params)
    np.testing.assert_allclose(run(after, "main", *given), wanted, rtol=1e-12, atol=1e-13)
    assert "conv_transpose" not in operators(after)
    return operators(after)


def dim(kernel: int, stride: int = 1, padding: int = 0, extra: int = 0, dilation: int = 1) -> Any:
    values = (kernel, stride, padding, extra, dilation)
    names = ("kernel", "stride", "padding", "output_padding", "dilation")
    return dict(zip(names, values, strict=True))


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("groups", [1, 2])
def test_all_combinations_of_one_dim(groups: int, lanes: int) -> None:
    assert len(ONE_DIM) > 80
    for given in ONE_DIM:
        for size in (1, 4):
            if (size - 1) * given["stride"] + (given["kernel"] - 1) * given["dilation"] + given[
                "output_padding"
            ] + 1 > 2 * given["padding"]:
                check([size], [given], groups=groups, lanes=lanes)


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_two_dims_with_different_options(groups: int) -> None:
    rng = np.random.default_rng(groups)
    for _ in range(30):
        first, second = (ONE_DIM[i] for i in rng.integers(0, len(ONE_DIM), 2))
        check([5, 4], [first, second], groups=groups, lanes=int(rng.choice([1, 4, 16])))


def test_three_dims() -> None:
    for given in (dim(2, 2), dim(3, 2, 1, 1), dim(4, 2, 1), dim(3, 1, 1), dim(3, 3, 0, 2)):
        check([2, 3, 2], [given, dim(3, 2, 1), given], groups=2)


@pytest.mark.parametrize(("groups", "own", "each"), [(4, 1, 1), (3, 1, 2), (2, 3, 1)])
def test_few_channels_a_group(groups: int, own: int, each: int) -> None:
    for given in (dim(2, 2), dim(3, 2, 1, 1), dim(3, 1, 1), dim(5, 2, 2)):
        check([4, 3], [given, given], groups=groups, own=own, each=each)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("given", [dim(2, 2), dim(3, 2, 1, 1), dim(3, 2, 1, 0, 2), dim(3, 1, 1)])
def test_a_weight_that_is_not_known(given: dict[str, int], bias: bool) -> None:
    check([4, 3], [given, given], groups=2, constant=False, bias=bias)


SHUFFLE = ["reshape", "permute_dims", "reshape"]


def _counts(given: dict[str, int], **kwargs: Any) -> tuple[int, int, int]:
    """How many convolutions or products, joins and cuts there are."""
    found = check([4, 5], [given, given], **kwargs)
    products = found.count("conv") + found.count("linear")
    return products, found.count("concat"), found.count("strided_slice")


def test_a_kernel_as_large_as_the_stride_is_a_product_and_a_shuffle() -> None:
    expected = ["permute_dims", "linear", "reshape", "permute_dims", "reshape", "permute_dims"]
    assert check([4, 5], [dim(2, 2), dim(2, 2)]) == expected


def test_a_stride_of_one_is_a_convolution() -> None:
    assert check([4, 5], [dim(3, 1, 1)] * 2) == ["permute_dims", "conv", "permute_dims"]
    assert check([4, 5], [dim(1)] * 2) == ["permute_dims", "linear", "permute_dims"]


def test_phases_are_apart_where_that_is_less_work() -> None:
    assert _counts(dim(3, 2, 1, 1), each=16) == (4, 3, 0)
    # Two channels: vectors of four phases are as full as they can be.
    assert _counts(dim(3, 2, 1, 1), each=2) == (1, 0, 1)
    assert _counts(dim(4, 2), each=16) == (1, 0, 0)
    assert _counts(dim(4, 2, 1), each=16) == (4, 3, 0)
    # Three results a stride, of which the last round has one.
    assert _counts(dim(4, 3), each=16) == (4, 3, 1)


def _taps(module: IRModule) -> int:
    """Weights of all convolutions."""
    values = [b.value for b in bindings(module["main"])]  # type: ignore[arg-type]
    calls = [v for v in values if isinstance(v, Call) and v.op in ("conv", "linear")]
    return sum(math.prod(c.args[1].shape) for c in calls)  # type: ignore[union-attr]


@pytest.mark.parametrize("given", [dim(2, 2), dim(3, 2, 1, 1), dim(4, 2, 1), dim(5, 3, 1)])
def test_no_zero_is_multiplied(given: dict[str, int]) -> None:
    module, params, _ = model([4, 5], [given, given], each=16)
    assert _taps(decomposed(module)) == params[0].size


@pytest.mark.parametrize(
    "given",
    [dim(2, 2), dim(4, 2, 1), dim(3, 1, 1), dim(3, 2), dim(3, 2, 1, 1), dim(5, 3, 2), dim(3, 2, 1)],
)
@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_symbolic_sizes(given: dict[str, int], size: int) -> None:
    module, params, options = model(["h", 4], [given, given])
    after = decomposed(module)
    assert "conv_transpose" not in operators(after)
    x = np.random.default_rng(1).standard_normal((2, params[0].shape[0], size, 4))
    tensors = [torch.tensor(a) for a in (x, *params)]
    wanted = torch.conv_transpose2d(*tensors, **options).numpy()
    np.testing.assert_allclose(run(after, "main", x), wanted, rtol=1e-12, atol=1e-13)


def test_values_that_are_no_numbers_stay_where_they_are() -> None:
    """An infinity or a NaN reaches the results of its own taps alone, as in torch."""
    given = dim(3, 2, 1, 1)
    module, params, options = model([4, 5], [given, given], each=16)
    x = np.random.default_rng(1).standard_normal((2, 2, 4, 5))
    x[0, 0, 1, 2], x[1, 1, 3, 0] = np.nan, np.inf
    tensors = [torch.tensor(a) for a in (x, *params)]
    wanted = torch.conv_transpose2d(*tensors, **options).numpy()
    np.testing.assert_allclose(run(decomposed(module), "main", x), wanted, rtol=1e-12, atol=1e-13)
