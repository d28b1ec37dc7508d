"""Small programs that several tests of the driver build."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

import burnish
from burnish.graphir.module import IRModule
from burnish.tensorir.function import PrimFunc

ADD_ONE = """
@T.prim_func
def {name}(x: T.Buffer(({n},), "float32"), y: T.Buffer(({n},), "float32")):
    for i in {loop}({n}):
        with T.block("y"):
            v = T.axis.spatial({n}, i)
            y[v] = x[v] + T.float32(1)
"""

MIXED = """
@I.ir_module
class Mixed:
    @T.prim_func
    def add_one(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("y"):
                v = T.axis.spatial(4, i)
                y[v] = x[v] + T.float32(1)

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.call_dps(add_one, (x,), R.Tensor((4,), "float32"))
            b = R.call_dps_packed("env.driver.double", (a,), R.Tensor((4,), "float32"))
            c = R.call_dps_packed("add_one", (b,), R.Tensor((4,), "float32"))
            d = R.relu(c)
            e = R.add(d, d)
            R.output(e)
        return e
"""
"""``main(x)`` is ``2 * relu(2 * (x + 1) + 1)``: PrimFuncs of a user (called by name and by
reference), an environment function, and operators."""


def add_one(name: str = "add_one", n: int = 8, loop: str = "range") -> PrimFunc:
    """A user's PrimFunc ``y = x + 1``."""
    found: Any = burnish.parse(ADD_ONE.format(name=name, n=n, loop=loop))
    func = found[name] if isinstance(found, IRModule) else found
    assert isinstance(func, PrimFunc)
    return func


def mixed(callee: str = "env.driver.double") -> IRModule:
    """``MIXED`` with another environment function in the middle."""
    module: IRModule = burnish.parse(MIXED.replace("env.driver.double", callee))
    return module


class SmallNet(torch.nn.Module):
    """A convolution and a linear layer, of images of 3 x 6 x 6."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.last = torch.nn.Linear(8 * 36, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.conv(x)).flatten(1))


class Add(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1.0


class Structured(nn.Module):
    """Two inputs and a plain value in; a nested structure out."""

    def forward(self, a: torch.Tensor, b: torch.Tensor, k: int = 2) -> Any:
        return {"sum": a + b, "rest": (a - b, [a * b * k])}


class DLPackOnly:
    """An array of a library that burnish does not know."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def expected(module: nn.Module, *inputs: torch.Tensor) -> np.ndarray:
    with torch.no_grad():
        return np.asarray(module(*inputs).numpy())


def assert_close(found: Any, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-5, atol=1e-6)


def read_only(image: torch.Tensor) -> np.ndarray:
    x = image.numpy().copy()
    x.flags.writeable = False
    return x
