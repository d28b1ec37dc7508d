"""Runs operators natively on NumPy arrays, in a function that keeps every law."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from burnish.support.structural import assert_structural_equal
from burnish.tensorir.arith import Analyzer
from burnish.tensorir.expr import Expr, ExprLike, IntImm, Var
from burnish.tensorir.te.compute import Tensor, create_prim_func, placeholder
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.verify.laws import verify_func
from burnish.tensorir.visitor import free_vars, substitute
from burnish.tests.native import call_native

Run = Callable[..., np.ndarray]


def run_operator(
    build: Callable[..., Tensor],
    *arrays: np.ndarray,
    shapes: Sequence[Sequence[object]] | None = None,
) -> np.ndarray:
    """``build(placeholders...)`` on ``arrays``. ``shapes`` names symbolic dims by strings."""
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
    result = build(*inputs)
    func = create_prim_func([*inputs, result])
    verify_func(func)
    assert_structural_equal(parse_func(func.script()), func)
    values = [sizes[v.name] for v in func.shape_vars]
    shape = [_size(d, sizes) for d in result.shape]
    out = np.full(shape, 77, result.dtype.to_numpy())
    call_native(func, *[np.ascontiguousarray(a) for a in arrays], out, dims=values)
    return out


def _size(dim: object, sizes: dict[str, int]) -> int:
    if isinstance(dim, IntImm):
        return dim.value
    assert isinstance(dim, Expr)
    known = {v: IntImm(sizes[v.name]) for v in free_vars([dim])}
    value = Analyzer().simplify(substitute(dim, known))
    assert isinstance(value, IntImm)
    return value.value


@pytest.fixture
def run() -> Run:
    return run_operator
