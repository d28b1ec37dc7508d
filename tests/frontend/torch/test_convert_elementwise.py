"""Every elementwise converter against eager torch, at the edges too, and promotion dtype by
dtype."""

from __future__ import annotations

import contextlib
import math
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import burnish
from burnish.support.errors import FrontendError
from burnish.tests.frontend.torch.oracle import check_all, import_function, operators_of

EDGES = torch.tensor([-math.inf, -30.0, -2.5, -1.0, -0.5, -0.0, 0.0, 0.5, 1.5, 3.0, 25.0, math.inf,
                      math.nan])  # fmt: skip
POSITIVE = torch.tensor([0.01, 0.3, 1.0, 2.0, 7.5])
INTS = torch.tensor([-9, -2, -1, 0, 1, 2, 7])
FLAGS = torch.tensor([True, False, True, True, False, False, True])
OTHER = torch.tensor([2, -3, 5, 1, -1, 4, -2])

UNARY_AT_EDGES = {
    name: getattr(torch, name)
    for name in [
        "relu",
        "sigmoid",
        "tanh",
        "exp",
        "expm1",
        "erf",
        "abs",
        "neg",
        "sign",
        "ceil",
        "floor",
        "round",
        "trunc",
        "square",
        "isnan",
        "isinf",
        "isfinite",
        "positive",
        "logical_not",
        "reciprocal",
    ]
}
FUNCTIONS_AT_EDGES = {
    "silu": F.silu,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "elu": F.elu,
    "elu alpha": lambda x: F.elu(x, 0.3),
    "selu": F.selu,
    "celu": lambda x: F.celu(x, 2.0),
    "hardsigmoid": F.hardsigmoid,
    "relu6": F.relu6,
    "hardtanh": lambda x: F.hardtanh(x, -0.7, 2.0),
    "clamp": lambda x: x.clamp(-1, 2.5),
    "clamp min": lambda x: x.clamp(min=0.25),
    "clamp max": lambda x: x.clamp(max=-0.25),
    "clamp tensors": lambda x: torch.clamp(x, x * 0 - 1, torch.full_like(x, 0.6)),
    "masked_fill": lambda x: x.masked_fill(x > 1, -7.0),
    "where": lambda x: torch.where(x < 0, x, 3.0),
    "where scalars": lambda x: torch.where(x < 0, 1.5, 3.0),
    "to bool": lambda x: x.bool(),
    "double": lambda x: x.double(),
    "half": lambda x: x.half(),
    "type_as": lambda x: x.type_as(INTS * 1.0),
    "clone": lambda x: x.clone().contiguous(),
    "dropout": lambda x: F.dropout(x, 0.5, training=False),
    "prelu": lambda x: F.prelu(x, torch.full((1,), 0.25)),
    "threshold": lambda x: F.threshold(x, 0.1, -4.0),
}
FINITE = {
    "gelu": F.gelu,
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "softplus": F.softplus,
    "softplus beta": lambda x: F.softplus(x, beta=2.0, threshold=3.0),
    "hardswish": F.hardswish,
    "log_sigmoid": F.logsigmoid,
    "mish": F.mish,
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "addcmul": lambda x: torch.addcmul(x, x, x, value=0.5),
}
LOGS = {
    name: getattr(torch, name)
    for name in ["log", "log1p", "log2", "sqrt", "rsqrt", "reciprocal", "exp"]
} | {
    "pow 2": lambda x: x**2,
    "pow 3": lambda x: x**3,
    "pow 0.5": lambda x: x**0.5,
    "pow -0.5": lambda x: x**-0.5,
    "pow -1": lambda x: x**-1,
    "pow 1": lambda x: x**1,
    "pow 0": lambda x: x**0,
    "pow 2.5": lambda x: x**2.5,
    "pow of scalar": lambda x: 2.0**x,
    "pow tensor": lambda x: x**x,
}


def test_unary_functions_at_the_edges() -> None:
    check_all(UNARY_AT_EDGES | FUNCTIONS_AT_EDGES, EDGES)


def test_unary_functions_of_finite_and_positive_values() -> None:
    check_all(FINITE, EDGES[1:-2])
    check_all(LOGS, POSITIVE)


def test_softplus_of_float64_is_x_itself_above_the_threshold() -> None:
    check_all({"softplus": F.softplus}, torch.tensor([19.0, 21.0, 30.0], dtype=torch.float64))


def test_functions_of_integers_compute_in_the_dtype_of_torch() -> None:
    names = "relu abs neg sign ceil floor round trunc square isnan isinf isfinite sigmoid exp erf"
    functions = {n: getattr(torch, n) for n in names.split()}
    functions |= {
        "not": torch.logical_not,
        "pow 3": lambda x: x**3,
        "pow 5": lambda x: x**5,
        "pow 0": lambda x: x**0,
        "clamp": lambda x: x.clamp(-1, 2),
        "clamp float": lambda x: x.clamp(-1.5, 2.5),
        "to int8": lambda x: x.to(torch.int8),
        "to bool": lambda x: x.to(torch.bool),
    }
    check_all(functions, INTS)


def test_functions_of_bools() -> None:
    check_all(
        {
            "not": lambda x, y: ~x,
            "and": lambda x, y: x & y,
            "or": lambda x, y: x | y,
            "xor": lambda x, y: x ^ y,
            "logical_and": torch.logical_and,
            "logical_xor": torch.logical_xor,
            "add, scaled": lambda x, y: torch.add(x, y, alpha=False),
            "clamp": lambda x, y: torch.ops.aten.clamp_min.Tensor(x, y),
            "clamp from above": lambda x, y: torch.ops.aten.clamp_max.Tensor(x, y),
            "add": lambda x, y: x + y,
            "mul": lambda x, y: x * y,
            "maximum": torch.maximum,
            "minimum": torch.minimum,
            "eq": lambda x, y: x == y,
            "less": lambda x, y: x < y,
            "add int": lambda x, y: x + 1,
            "sum to float": lambda x, y: x * 0.5,
            "float": lambda x, y: x.float(),
            "sign": lambda x, y: torch.sign(x),
        },
        FLAGS,
        FLAGS.flip(0),
    )


BINARY = {
    "add": lambda x, y: x + y,
    "add alpha": lambda x, y: torch.add(x, y, alpha=3),
    "sub alpha": lambda x, y: torch.sub(x, y, alpha=2),
    "rsub": lambda x, y: torch.rsub(x, y, alpha=2),
    "rsub scalar": lambda x, y: 5 - x,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "div floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "div trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "floor_divide": torch.floor_divide,
    "remainder": lambda x, y: x % y,
    "fmod": torch.fmod,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    **{name: getattr(torch, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "scalar": lambda x, y: (x + 2) * 3 - 1,
    "compare scalar": lambda x, y: x >= 1.5,
    "div scalar": lambda x, y: x / 2,
    "remainder scalar": lambda x, y: x % 3,
    "remainder by -1": lambda x, y: torch.remainder(x, -1),
    "logical_and": torch.logical_and,
    "broadcast": lambda x, y: x[:, None] * y[None, :],
}


@pytest.mark.parametrize(
    "pair",
    [(INTS, OTHER), (INTS * 0.75, OTHER * 1.0), (INTS.to(torch.int8), OTHER.to(torch.int8))],
    ids=["int64", "float32", "int8"],
)
def test_binary_functions(pair: tuple[torch.Tensor, torch.Tensor]) -> None:
    check_all(BINARY, *pair)


def test_promotion_of_every_pair_of_dtypes_is_that_of_torch() -> None:
    dtypes = [torch.bool, torch.uint8, torch.int16, torch.int64, torch.float16, torch.float32,
              torch.float64]  # fmt: skip
    x = torch.tensor([0, 1, 2, 3])
    functions: dict[str, Any] = {}
    for a, b in product(dtypes, dtypes):
        functions[f"{a} * {b}"] = lambda x, a=a, b=b: x.to(a) * (x + 1).to(b)
        functions[f"{a} < {b}"] = lambda x, a=a, b=b: x.to(a) < (3 - x).to(b)
    for a, scalar in product(dtypes, (2, 1.5, True)):
        functions[f"{a} + {scalar!r}"] = lambda x, a=a, s=scalar: x.to(a) + s
        functions[f"{a} == {scalar!r}"] = lambda x, a=a, s=scalar: x.to(a) == s
        functions[f"where {a} {scalar!r}"] = lambda x, a=a, s=scalar: torch.where(x > 1, x.to(a), s)
    functions["zero-dim"] = lambda x: x.half() * torch.ones((), dtype=torch.float64)
    functions["wraps"] = lambda x: x.to(torch.uint8) + 300
    functions["compare wraps"] = lambda x: (x + 43).to(torch.uint8) == 300
    check_all(functions, x)


def test_bfloat16_scalars_and_casts_keep_their_dtype() -> None:
    imported = import_function(lambda x: (x.bfloat16() * 1.5).float(), torch.ones(3))
    text = imported.module.script()
    assert 'dtype="bfloat16"' in text
    assert operators_of(imported) == ["astype", "multiply", "astype"]


def test_division_of_integers_is_one_operator() -> None:
    """What it gives for divisors of 0 and -1 is told by the kernel (test_integer_division.py)."""
    x = torch.tensor([7, -7], dtype=torch.int32)
    floor = import_function(lambda x, y: torch.div(x, y, rounding_mode="floor"), x, x)
    assert operators_of(floor) == ["floor_divide"]
    assert operators_of(import_function(lambda x: x // 3, x)) == ["floor_divide"]


def test_copies_emit_nothing() -> None:
    imported = import_function(
        lambda x: F.dropout(x.clone().detach().to(torch.float32).contiguous(), 0.5, False) + 1,
        torch.ones(3),
    )
    assert operators_of(imported) == ["add"]


SCALAR_FIRST = {
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "floor_divide": torch.floor_divide,
    "div": torch.div,
    "div floor": lambda s, x: torch.div(s, x, rounding_mode="floor"),
    "pow": torch.pow,
    "float_power": torch.float_power,
    "xlogy": torch.xlogy,
    "xlog1py": torch.special.xlog1py,
    "bitwise_and": torch.bitwise_and,
    "bitwise_or": torch.bitwise_or,
    "bitwise_xor": torch.bitwise_xor,
    "bitwise_left_shift": torch.bitwise_left_shift,
    "bitwise_right_shift": torch.bitwise_right_shift,
    "%": lambda s, x: s % x,
    "//": lambda s, x: s // x,
    "**": lambda s, x: s**x,
    "-": lambda s, x: s - x,
    "&": lambda s, x: s & x,
    "|": lambda s, x: s | x,
    "^": lambda s, x: s ^ x,
    "<<": lambda s, x: s << x,
    ">>": lambda s, x: s >> x,
    "where": lambda s, x: torch.where(x > 1, s, x),
    "rsub": lambda s, x: torch.rsub(x, s),
}
SHIFTS = ("<<", ">>", "bitwise_left_shift", "bitwise_right_shift")


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float16, torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool],
)
def test_a_number_may_come_first(dtype: torch.dtype) -> None:
    """In every spelling that eager accepts, whatever the kinds of the number and the tensor."""
    x = torch.tensor([1, 2, 3, 5, 4, 6])
    x = (torch.cat([x, -x]) if dtype.is_signed else x).to(dtype)
    accepted: dict[str, Any] = {}
    for (name, function), number in product(SCALAR_FIRST.items(), (7, -3, 2.5, True)):
        if name in SHIFTS and (number is True or dtype is torch.bool):
            continue  # which torch.export itself refuses
        for given in (number, torch.tensor(number)):
            with contextlib.suppress(TypeError, RuntimeError):
                function(given, x)
                accepted[f"{given} {name} x"] = partial(function, given)
    spellings = {label.split(maxsplit=1)[1] for label in accepted}
    assert {"% x", "// x", "** x", "remainder x", "pow x"} <= spellings
    check_all(accepted, x)


@pytest.mark.parametrize(
    ("function", "x", "message"),
    [
        (lambda x: F.dropout(x, 0.5), torch.ones(3), "drops values at random (training mode)"),
        (lambda x: x.to(torch.float8_e5m2), torch.ones(3, 2), "dtype torch.float8_e5m2 cannot"),
    ],
)
def test_what_cannot_be_imported_says_where(function, x, message) -> None:  # type: ignore[no-untyped-def]
    dims = ({0: "batch"},) if "symbolic" in message else None
    with pytest.raises(FrontendError) as caught:
        import_function(function, x, dynamic_shapes=dims)
    assert message in str(caught.value)
    assert "oracle.py:" in str(caught.value)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32])
def test_bounds_beyond_a_dtype_are_taken_as_torch_takes_them(dtype: torch.dtype) -> None:
    x = torch.tensor([0, 1, 5, 100, 127], dtype=dtype)
    for bounds in ((-1, 1), (-1, None), (None, 3), (2, 100)):
        check_all({f"{bounds}": lambda x, bounds=bounds: torch.clamp(x, *bounds)}, x)


def test_a_size_with_a_name_is_a_bound() -> None:
    class Clamped(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            places, size = torch.arange(9), x.shape[0]
            return places.clamp(2, size - 1), places.clamp(max=size), places.clamp(min=size)

    model = burnish.compile(Clamped(), dynamic_shapes=({0: "n"},))
    for n in (2, 3, 12):
        x = torch.linspace(-2, 2, n)
        for found, wanted in zip(model(x), Clamped()(x), strict=True):
            assert found.dtype == wanted.dtype
            assert torch.equal(found, wanted)
    assert model.compilations == 1


def test_a_size_with_a_name_is_no_bound_of_a_dtype_that_may_not_hold_it() -> None:
    class Clamped(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.clamp_max(x.shape[0])

    def compiled(x: torch.Tensor) -> torch.Tensor:
        return burnish.compile(Clamped(), dynamic_shapes=({0: "n"},))(x)  # type: ignore[no-any-return]

    x = torch.full((300,), 100, dtype=torch.int8)
    with pytest.raises(RuntimeError, match="cannot be converted to type int8_t without overflow"):
        Clamped()(x)
    for dtype in (torch.int8, torch.uint8, torch.int16):
        with pytest.raises(FrontendError, match="torch refuses calls where"):
            compiled(x.to(dtype))
    assert torch.equal(compiled(x.to(torch.int32)), Clamped()(x.to(torch.int32)))
