"""A hand-written importer of traced modules gives programs with PyTorch's numbers."""

from __future__ import annotations

import re
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import nn

import burnish
from burnish import graph, te


def test_it_runs(program: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    program.main()
    text = capsys.readouterr().out
    errors = [float(e) for e in re.findall(r"largest error (\S+)", text)]
    assert len(errors) == 4
    assert max(errors) < 1e-4
    assert "Optimized: main, fused_te_matmul_te_relu" in text


def test_functions_and_weights(program: ModuleType) -> None:
    torch.manual_seed(1)
    model = program.MyModel()
    mod = graph.verify_module(program.translate(model, [(3, 128)]))
    assert list(mod.prim_funcs) == ["te_matmul", "te_relu"]
    assert [p.name for p in mod.graph_functions["main"].params] == ["x"]
    x = np.random.default_rng(0).standard_normal((3, 128)).astype("float32")
    assert program.largest_error(mod, model, x) < 1e-4


def test_equal_layers_share_a_kernel(program: ModuleType) -> None:
    torch.manual_seed(2)
    model = nn.Sequential(*[nn.Linear(16, 16) for _ in range(3)], nn.ReLU())
    mod = graph.verify_module(program.translate(model, [(2, 16)]))
    assert list(mod.prim_funcs) == ["linear", "te_relu"]
    assert mod.script().count("R.call_dps(cls.linear,") == 3
    x = np.random.default_rng(0).standard_normal((2, 16)).astype("float32")
    assert program.largest_error(mod, model, x) < 1e-5


def test_optimized_kernels_are_merged_and_scheduled(program: ModuleType) -> None:
    torch.manual_seed(4)
    model = program.MLP()
    mod = graph.verify_module(program.optimize(program.translate(model, [(te.var("n"), 784)])))
    assert list(mod.prim_funcs) == ["linear_1", "fused_linear_te_relu"]
    assert all(f.attr("is_scheduled") for f in mod.prim_funcs.values())
    x = np.random.default_rng(0).random((5, 784), dtype="float32")
    assert program.largest_error(mod, model, x) < 1e-5


def test_weights_are_constants_of_the_program(program: ModuleType) -> None:
    torch.manual_seed(3)
    model = program.MLP()
    mod = program.translate(model, [(1, 784)])
    x = np.random.default_rng(0).random((1, 784), dtype="float32")
    with torch.no_grad():
        expected = model(torch.from_numpy(x)).numpy()
        model.linear0.weight.zero_()
    result = burnish.VirtualMachine(burnish.build(mod))["main"](x).numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_a_function_without_a_row_is_named(program: ModuleType) -> None:
    with pytest.raises(KeyError, match="Tanh"):
        program.translate(nn.Sequential(nn.Tanh()), [(2, 2)])
