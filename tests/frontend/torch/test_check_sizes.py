"""Programs and modules are compared at sizes that torch does not answer for."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from burnish.frontend.torch import check_sizes
from burnish.frontend.torch.check_sizes import ProgramRun


def test_programs_agree_in_imaginary_parts_too() -> None:
    z = torch.rand(3, dtype=torch.complex64)
    assert check_sizes._agree(z, z.clone())
    assert not check_sizes._agree(z, z.conj().resolve_conj())


def test_a_view_of_another_order_in_memory_is_a_copy() -> None:
    """As where a product is traced on tensors that have none, and gives it otherwise."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    turned = graph.call_function(torch.ops.aten.permute.default, (x, [1, 0]))
    graph.output(graph.call_function(torch.ops.aten.view.default, (turned, [6])))
    module = torch.fx.GraphModule(nn.Module(), graph)
    given = torch.arange(6.0).reshape(2, 3)
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        module(given)
    assert ProgramRun(module).run(given).tolist() == [0, 3, 1, 4, 2, 5]
