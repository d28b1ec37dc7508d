"""Powers of integers: NumPy's and PyTorch's, modulo the range of the dtype."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from burnish.tests.frontend.torch.oracle import check_all, import_function, operators_of

EXPONENTS = {
    torch.int8: [-128, -5, -2, -1, 0, 1, 2, 3, 6, 7, 8, 30, 127],
    torch.int16: [-9, -2, -1, 0, 1, 2, 3, 15, 16, 300],
    torch.int32: [-9, -2, -1, 0, 1, 2, 3, 31, 32, 33, 65_537],
    torch.int64: [-9, -2, -1, 0, 1, 2, 3, 62, 63, 64, 65, 1 << 40, (1 << 63) - 1],
    torch.uint8: [0, 1, 2, 3, 7, 8, 200, 255],
}
BASES = [-7, -2, -1, 0, 1, 2, 3, 6, 100]


@pytest.mark.parametrize("dtype", EXPONENTS, ids=str)
def test_a_number_to_the_power_of_a_tensor(dtype: torch.dtype) -> None:
    bases = [b for b in BASES if b >= 0 or dtype.is_signed]
    functions = {f"{b} ** x": (lambda x, b=b: b**x) for b in bases}
    check_all(functions, torch.tensor(EXPONENTS[dtype], dtype=dtype))


@pytest.mark.parametrize("dtype", EXPONENTS, ids=str)
def test_a_tensor_to_the_power_of_a_tensor(dtype: torch.dtype) -> None:
    bases = [b for b in BASES if b >= 0 or dtype.is_signed]
    pairs = np.array(list(product(bases, EXPONENTS[dtype])), dtype=object).T
    base, exponent = (torch.tensor([int(n) for n in row], dtype=dtype) for row in pairs)
    check_all({"x ** y": lambda x, y: x**y}, base, exponent)
    check_all({"y ** x": lambda x, y: y**x}, exponent[:3], base[:3, None])


def test_powers_of_two_take_few_steps() -> None:
    x = torch.tensor([0, 1, 62])
    assert len(operators_of(import_function(lambda x: 2**x, x))) < 40
    assert len(operators_of(import_function(lambda x: 1**x, x))) < 15
