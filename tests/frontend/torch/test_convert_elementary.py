"""Elementary functions, bits and shifts against eager torch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from burnish.support.errors import FrontendError
from burnish.tests.frontend.torch.oracle import check_all, import_function

VALUES = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, -0.25, 3.0, -20.0, torch.inf, torch.nan])
INTS = torch.tensor([-9, -2, -1, 0, 1, 2, 7], dtype=torch.int32)
UNARY = [
    "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "exp2", "log10",
    "erfc", "signbit", "frac", "nan_to_num", "sgn", "deg2rad", "sinc",
]  # fmt: skip
ACTIVATIONS = [
    "mish", "celu", "selu", "softsign", "softshrink", "hardshrink", "tanhshrink", "hardtanh",
    "relu6", "logsigmoid", "hardsigmoid", "hardswish", "silu",
]  # fmt: skip


def test_functions_of_one_operand() -> None:
    functions = {name: getattr(torch, name) for name in UNARY}
    functions |= {name: getattr(F, name) for name in ACTIVATIONS}
    functions |= {
        "threshold": lambda x: F.threshold(x, 0.5, 0.1),
        "glu": lambda x: F.glu(x),
        "rrelu": lambda x: F.rrelu(x, 0.1, 0.5),
        "prelu": lambda x: F.prelu(x, torch.tensor([0.3])),
        "logit": lambda x: torch.logit(x, eps=0.1),
    }
    check_all(functions, VALUES)


def test_random_slopes_are_refused() -> None:
    with pytest.raises(FrontendError, match="draws random slopes"):
        import_function(lambda x: F.rrelu(x, training=True), VALUES)


def test_functions_of_integers_are_of_floats() -> None:
    check_all({name: getattr(torch, name) for name in ("atan", "sinh", "log10", "exp2")}, INTS)


def test_functions_of_two_operands() -> None:
    other = VALUES.flip(0)
    check_all(
        {
            "atan2": torch.atan2,
            "hypot": torch.hypot,
            "copysign": torch.copysign,
            "copysign of a number": lambda x, y: torch.copysign(x, -2.0),
            "fmax": torch.fmax,
            "fmin": torch.fmin,
            "logaddexp": torch.logaddexp,
            "lerp": lambda x, y: torch.lerp(x, y, 0.3),
            "addcmul": lambda x, y: torch.addcmul(x, x, y, value=0.5),
            "xlogy": lambda x, y: torch.xlogy(x.abs(), y.abs() + 1),
        },
        VALUES,
        other,
    )


def test_bits_of_integers() -> None:
    check_all(
        {
            "and": lambda x, y: x & y,
            "or": lambda x, y: x | 3,
            "xor": lambda x, y: x ^ y,
            "not": lambda x, y: ~x,
            "left": lambda x, y: x << 2,
            "right": lambda x, y: x >> y.abs(),
            "function": lambda x, y: torch.bitwise_left_shift(x, y.abs()),
            "promoted": lambda x, y: x.to(torch.int8) & y.long(),
            "of bools": lambda x, y: (x > 0) ^ (y > 0),
            "maximum of ints": torch.fmax,
        },
        INTS,
        INTS.flip(0),
    )


@pytest.mark.parametrize("kind", [torch.float32, torch.bool])
def test_shifts_of_other_dtypes_are_refused(kind: torch.dtype) -> None:
    with pytest.raises(FrontendError) as caught:
        import_function(lambda x: torch.bitwise_right_shift(x, x), torch.ones(3).to(kind))
    assert "shift" in str(caught.value)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32, torch.int64])
def test_divisors_and_multiples(dtype: torch.dtype) -> None:
    """Neighbours of Fibonacci's numbers take the most steps."""
    info = torch.iinfo(dtype)
    values = [0, 1, 6, 9, 60, info.max, 13, 21, 34, 89]
    large = [4807526976, 7778742049, 4660046610375530309, 7540113804746346429]
    values += [-4, -90] if info.min else []
    values += large if dtype == torch.int64 else []
    a, b = torch.meshgrid(*[torch.tensor(values, dtype=dtype)] * 2, indexing="ij")
    check_all({"gcd": torch.gcd}, a.contiguous(), b.contiguous())
    few = a.clamp(max=11).contiguous(), b.clamp(max=11).contiguous()
    check_all({"lcm": torch.lcm}, *few)


def test_bits_as_another_dtype() -> None:
    check_all({"bits": lambda x: x.view(torch.int32), "same": lambda x: x.view(x.dtype)}, VALUES)
    check_all({"floats": lambda x: x.view(torch.float32)}, INTS)
    with pytest.raises(FrontendError, match="same size"):
        import_function(lambda x: x.view(torch.int16), VALUES)
