"""Values node by node: the oracle agrees with the imported graph, variable by variable."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import ExportedProgram

from burnish.frontend.torch import import_exported_program
from burnish.frontend.torch.export import export_module
from burnish.frontend.torch.reference import node_values
from burnish.graphir.analysis import bindings
from burnish.graphir.expr import Function, SeqExpr
from burnish.graphir.module import IRModule
from burnish.support.errors import ArityError
from burnish.support.node import replace
from burnish.tests.graphir import reference


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.scale: torch.Tensor
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x: torch.Tensor, *, shift: float = 0.0) -> dict[str, torch.Tensor]:
        hidden = F.relu(self.linear(x), inplace=True)
        return {"y": F.hardshrink(hidden * self.scale - shift).softmax(-1)}


X = torch.rand(2, 4)


@pytest.fixture(scope="module")
def program() -> ExportedProgram:
    return export_module(Model().eval(), (X,), {"shift": 0.5}, {"x": {0: "batch"}})[0]


def test_every_operator_has_its_value_and_place(program: ExportedProgram) -> None:
    values = node_values(program, (X,), {"shift": 0.5})
    assert [v.operator for v in values][:2] == ["aten.linear.default", "aten.relu.default"]
    assert "test_reference.py:" in values[0].where
    assert "self.linear(x)" in values[0].where
    assert values[-1].value.sum(-1) == pytest.approx(1.0)


def test_the_graph_computes_the_same_at_every_variable(program: ExportedProgram) -> None:
    imported = import_exported_program(program)
    main = imported.module["main"]
    assert isinstance(main, Function)
    by_name = {b.var.name: b.var for b in bindings(main)}
    inputs = [x.numpy() for x in imported.flatten_inputs((X,), {"shift": 0.5})]
    values = node_values(program, (X,), {"shift": 0.5})
    for value in values:
        var = by_name[imported.variables[value.name]]
        cut = replace(main, body=SeqExpr(main.body.blocks, var), ret_type=var.type)
        found = reference.run(IRModule({"main": cut}), "main", *inputs)
        np.testing.assert_allclose(found, value.value, rtol=1e-5, atol=1e-6, err_msg=value.where)
    assert len(values) >= 5


def test_values_are_copies(program: ExportedProgram) -> None:
    first = node_values(program, (X,), {"shift": 0.5})
    first[0].value[...] = 0
    assert node_values(program, (X,), {"shift": 0.5})[0].value.any()


def test_bfloat16_values_are_bits() -> None:
    class Half(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.bfloat16()

    program, _ = export_module(Half().eval(), (torch.ones(2),))
    assert node_values(program, (torch.ones(2),))[-1].value.tolist() == [0x3F80, 0x3F80]


def test_a_call_that_does_not_fit_is_refused(program: ExportedProgram) -> None:
    with pytest.raises(ArityError):
        node_values(program, (X,))
