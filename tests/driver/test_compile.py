"""burnish.compile: what it takes and refuses, weights, precision, errors of passes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import burnish
from burnish import errors
from burnish.graphir.expr import Function
from burnish.support.node import replace
from burnish.tests.driver.programs import (
    expected,
)

RELU = """
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            y = R.relu(x)
            R.output(y)
        return y
"""


def test_weights_are_copied_at_compile() -> None:
    module = nn.Linear(4, 3).eval()
    x = torch.ones(2, 4)
    model = burnish.compile(module, (x,))
    wanted = model(x).clone()
    with torch.no_grad():
        module.weight.fill_(7)
        module.bias.fill_(7)
    assert torch.equal(model(x), wanted)
    assert not torch.equal(burnish.compile(module, (x,))(x), wanted)


def test_a_module_in_training_mode_is_refused() -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    for example in (None, (torch.ones(1, 3),)):
        with pytest.raises(errors.FrontendError, match=r"1 \(Dropout\) is in training mode"):
            burnish.compile(module, example)
    burnish.compile(nn.Linear(3, 3))  # whose result does not depend on the mode


def test_unsupported_operators_come_all_at_once() -> None:
    class Exotic(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.svdvals(x) + torch.fft.rfft(x, n=4099).abs().sum()

    with pytest.raises(errors.UnsupportedOpError) as caught:
        burnish.compile(Exotic().eval(), (torch.rand(3, 3),))
    assert {op.name for op in caught.value.ops} == {
        "aten._linalg_svd.default",
        "aten._fft_r2c.default",
    }
    assert "transforms to or from frequencies" in str(caught.value)


def test_a_module_that_does_not_export(caplog: pytest.LogCaptureFixture) -> None:
    class Branching(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if x.sum() > 0 else -x

    with pytest.raises(errors.FrontendError, match="Branching does not export at "):
        burnish.compile(Branching().eval(), (torch.ones(2),))


def test_precision_decides_about_winograds_convolution() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.ReLU()).eval()
    x = torch.randn(1, 32, 16, 16)
    target = "llvm -mcpu=skylake-avx512"
    fast = burnish.compile(module, (x,), target=target)
    strict = burnish.compile(module, (x,), target=target, precision="strict")
    assert "fused_winograd_conv_relu" in fast.report.kernels
    assert "fused_conv_relu" in strict.report.kernels
    here = burnish.compile(module, (x,))
    np.testing.assert_allclose(here(x).numpy(), expected(module, x), rtol=0, atol=1e-5)
    with pytest.raises(
        errors.ArgumentError, match=r"one of strict, fast, float32, .*; found 'strickt'"
    ):
        burnish.compile(module, (x,), precision="strickt")


def test_errors_of_passes_come_under_their_own_class() -> None:
    """A PassError is unwrapped at the door: its cause is raised, with the pass in a note."""
    module = burnish.parse(RELU)
    main = module["main"]
    assert isinstance(main, Function)
    module["main"] = replace(main, params=())
    for compile_ in (burnish.compile, burnish.build):
        with pytest.raises(errors.VerifyError) as caught:
            compile_(module)
        assert "in pass 'import'" in caught.value.__notes__
        assert "Set BURNISH_DUMP=DIR" in str(caught.value)


class Sizes(nn.Module):
    """A named size as data, not as a shape."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        n = x.shape[0]
        return x * n, x.sum(0) / n, x[-3:], x[n // 2 :], x * (n * x.shape[1])


@pytest.mark.parametrize("size", [0, 1, 5, 8])
def test_sizes_as_data(size: int) -> None:
    model = burnish.compile(Sizes(), (torch.rand(6, 4),), dynamic_shapes=({0: "n"},))
    x = torch.rand(size, 4, generator=torch.Generator().manual_seed(0))
    for found, wanted in zip(model(x), Sizes()(x), strict=True):
        torch.testing.assert_close(found, wanted, equal_nan=True)
