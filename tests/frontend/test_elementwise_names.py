"""Each name of torch and ONNX gives its operator, which means what they say."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from burnish.frontend.elementwise_names import NAMES, ONNX, TORCH
from burnish.tensorir.operators.elementwise import ELEMENTWISE
from burnish.tests.frontend.onnx import oracle as onnx_oracle
from burnish.tests.frontend.torch import oracle as torch_oracle

VALUES = np.array([-2.5, -0.75, -0.5, 0.25, 0.5, 1.0, 1.5, 3.0], np.float32)
TYPES = {"float": ("float", VALUES), "int": ("int32", np.arange(8, dtype=np.int32)),
         "bool": ("bool", VALUES > 0)}  # fmt: skip


def test_every_name_is_of_a_row() -> None:
    assert set(NAMES) <= set(ELEMENTWISE)
    assert list(NAMES) == sorted(NAMES)
    assert all(torch or onnx for torch, onnx in NAMES.values())


def test_torch() -> None:
    x = torch.from_numpy(VALUES)
    for count in (1, 2):
        functions = {
            name: getattr(torch.ops.aten, name)
            for name, ours in TORCH.items()
            if len(ELEMENTWISE[ours].params) == count
        }
        imported = torch_oracle.check_all(functions, *[x, x.flip(0)][:count])
        assert torch_oracle.operators_of(imported) == [TORCH[name] for name in functions]


@pytest.mark.parametrize("name", ONNX)
def test_onnx(name: str) -> None:
    row = ELEMENTWISE[ONNX[name]]
    kind = next(kind for kind in TYPES if kind in row.kinds)
    dtype, values = TYPES[kind]
    inputs = {p: x for p, x in zip(row.params, (values, values[::-1].copy()), strict=False)}
    body = f"y = {name}({', '.join(row.params)})"
    listed = ", ".join([f"{dtype}[N] {p}" for p in row.params])
    result = "bool" if row.gives_bool else dtype
    made = onnx_oracle.model(body, listed, 18, outputs=f"{result} y")
    imported = onnx_oracle.check(made, **inputs)
    assert onnx_oracle.operators_of(imported) == [row.name]
