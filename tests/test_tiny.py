"""From a torch module to an answer of the virtual machine: the first thing to run."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

import burnish


def test_a_torch_module_answers_like_torch() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
    x = torch.rand(2, 3, 4)

    model = burnish.compile(module, (x,))
    y = model(x)

    with torch.no_grad():
        torch.testing.assert_close(y, module(x), rtol=1e-5, atol=1e-5)
    assert len(model.report.kernels) == 2
    assert "R.call_dps(cls.fused_linear_relu" in model.script("30-fused")

    # The same program on the virtual machine, without torch.
    vm = burnish.VirtualMachine(model.executable)
    np.testing.assert_array_equal(vm["main"](x.numpy()).numpy(), y.numpy())
