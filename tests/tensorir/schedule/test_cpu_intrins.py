"""Every shipped intrinsic is well formed, and its implementation computes what its description
does, by the interpreter and natively. Those of bfloat16, of which NumPy knows nothing, are held
against float64 in ``tests/tensorir/codegen/test_dot2.py``."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import TensorIntrin
from burnish.tensorir.schedule.cpu_intrins import SHIPPED
from burnish.tensorir.verify.laws import verify_func
from burnish.tests.native import call_native
from burnish.tests.tensorir.interpreter import run


def operands(func: PrimFunc, seed: int) -> list[np.ndarray]:
    """Integers of the whole range of small dtypes, and small ones of others."""
    rng = np.random.default_rng(seed)
    arrays = []
    for b in func.buffers:
        dtype = b.dtype.to_numpy()
        shape = tuple([d.value for d in b.shape])  # type: ignore[attr-defined]
        low, high = (-9, 10)
        if dtype.kind in "iu" and dtype.itemsize == 1:
            low, high = np.iinfo(dtype).min, np.iinfo(dtype).max + 1
        arrays.append(rng.integers(low, high, shape).astype(dtype))
    return arrays


@pytest.mark.parametrize("name", [n for n in SHIPPED if "bf16" not in n])
def test_the_implementation_is_what_the_description_says(name: str) -> None:
    intrin = TensorIntrin.get(name)
    assert intrin is not None
    verify_func(intrin.desc)
    verify_func(intrin.impl)
    for seed in range(3):
        expected = operands(intrin.desc, seed)
        run(intrin.desc, *expected)
        for execute in (run, call_native):
            found = operands(intrin.impl, seed)
            execute(intrin.impl, *found)
            for x, y in zip(found, expected, strict=True):
                np.testing.assert_array_equal(x, y)
