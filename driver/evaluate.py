"""Run one PrimFunc at compile time: the ``evaluate`` service that constant folding is handed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..support.dump import Dump
from ..support.errors import InternalError
from ..support.target import Target
from ..tensorir.expr import IntImm
from ..tensorir.function import PrimFunc
from ..vm.native import bind_kernel, load_objects
from ..vm.tensor import empty
from .kernels import compile_kernels, resolve_target
from .report import CompileReport


def evaluate_prim_func(func: PrimFunc, inputs: Sequence[np.ndarray], target: Target | str = "native") -> list[np.ndarray]:
    """Outputs of a static PrimFunc (inputs first, outputs last) on arrays, compiled for this machine."""
    compiled = compile_kernels([(func.name, func)], resolve_target(target), CompileReport(), Dump(None))[func.name]
    outputs = []
    for p in func.buffers[len(inputs) :]:
        if not all(isinstance(d, IntImm) for d in p.shape):
            raise InternalError(f"{func.name} has a symbolic output and was evaluated at compile time")
        outputs.append(empty(tuple([d.value for d in p.shape if isinstance(d, IntImm)]), p.dtype))
    bind_kernel(compiled.kernel, load_objects([compiled.image]))(*inputs, *outputs)
    return [o.data for o in outputs]
