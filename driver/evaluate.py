"""Run one PrimFunc at compile time: the ``evaluate`` service that constant folding is handed.

It always runs on this machine, whatever CPU is compiled for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..support.dump import Dump
from ..support.errors import InternalError
from ..tensorir.expr import IntImm
from ..tensorir.function import PrimFunc
from ..vm.binding import bind_kernel
from ..vm.native import load_objects
from ..vm.tensor import Tensor, empty
from .kernels import compile_kernels, resolve_target
from .report import CompileReport


def evaluate_prim_func(func: PrimFunc, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Outputs of a static PrimFunc (inputs first, outputs last) on arrays of its parameters' dtypes
    (bfloat16 as uint16)."""
    here = resolve_target("native")
    compiled = compile_kernels([(func.name, func)], here, CompileReport(), Dump(None))[func.name]
    given = [Tensor(x, p.dtype) for x, p in zip(inputs, func.buffers, strict=False)]
    outputs: list[Tensor] = []
    for p in func.buffers[len(inputs) :]:
        shape = tuple([d.value for d in p.shape if isinstance(d, IntImm)])
        if len(shape) != len(p.shape):
            raise InternalError(
                f"{func.name} has a symbolic output and was evaluated at compile time."
            )
        outputs.append(empty(shape, p.dtype))
    bind_kernel(compiled.kernel, load_objects([compiled.image]))(*given, *outputs)
    return [o.data for o in outputs]
