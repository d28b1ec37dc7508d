"""Runs the functions of operators that are no computes natively, after checking every law."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from burnish.support.structural import assert_structural_equal
from burnish.tensorir.expr import ExprLike, Var
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.te.compute import placeholder
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.verify.laws import verify_func
from burnish.tests.native import call_native


def run_rows(
    build: Callable[..., PrimFunc],
    *arrays: np.ndarray,
    shape: Sequence[int],
    shapes: Sequence[Sequence[object]] | None = None,
) -> np.ndarray:
    """``build(placeholders...)`` on ``arrays``, the result of ``shape``; ``shapes`` names symbolic
    dims by strings."""
    names: dict[str, Var] = {}
    sizes: dict[str, int] = {}
    inputs = []
    for n, a in enumerate(arrays):
        dims: list[ExprLike] = []
        for size, given in zip(a.shape, shapes[n] if shapes else a.shape, strict=True):
            if isinstance(given, str):
                dims.append(names.setdefault(given, Var(given)))
                sizes[given] = size
            else:
                dims.append(size)
        inputs.append(placeholder(dims, str(a.dtype), f"x{n}"))
    func = build(*inputs)
    verify_func(func)
    assert_structural_equal(parse_func(func.script()), func)
    out = np.full(shape, 77, func.buffers[-1].dtype.to_numpy())
    values = [sizes[v.name] for v in func.shape_vars]
    call_native(func, *[np.ascontiguousarray(a) for a in arrays], out, dims=values)
    return out
