"""Integer division of imported models: C's and Python's results, and nothing that traps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

import burnish
from burnish import errors
from burnish.frontend.integer_division import remainder_of_truncation
from burnish.graphir import ops
from burnish.graphir.builder import BlockBuilder, call_op
from burnish.graphir.expr import Atom, Constant, Var, constant
from burnish.graphir.op import type_of
from burnish.graphir.type import TensorType, tensor_type
from burnish.graphir.verify import verify_module
from burnish.tests.graphir import reference

assert ops


class Emitter:
    """A context of a front end, reduced to what is needed here."""

    def __init__(self) -> None:
        self.builder = BlockBuilder()

    def op(self, name: str, *args: Atom, **attrs: object) -> Var:
        return self.builder.emit(call_op(name, *args, **attrs))

    def array(self, constant: Constant) -> np.ndarray:
        return self.builder.weights.array(constant)

    def type(self, atom: Atom) -> TensorType:
        kind = type_of(atom)
        assert isinstance(kind, TensorType)
        return kind


def emit(
    make: Callable[[Emitter, Atom, Atom], Var], a: np.ndarray, b: np.ndarray, *, fixed: bool = False
) -> tuple[np.ndarray, list[str]]:
    """The result on arrays, and the operators that were emitted; ``fixed`` makes b a constant."""
    emitter = Emitter()
    x, y = (Var(n, tensor_type(v.shape, str(v.dtype))) for n, v in (("a", a), ("b", b)))
    params = [x] if fixed else [x, y]
    with emitter.builder.function("main", params):
        with emitter.builder.dataflow():
            result = make(emitter, x, constant(b) if fixed else y)
        emitter.builder.emit_func_output(result)
    module = verify_module(emitter.builder.get())
    text = module.script()
    found = reference.run(module, "main", *([a] if fixed else [a, b]))
    return found, [
        line.split("R.")[1].split("(")[0] for line in text.splitlines() if " = R." in line
    ]


A = np.array([7, -7, 7, -7, 0, 5, 5, -128], np.int8)
B = np.array([2, 2, -2, -2, 3, 0, -1, -1], np.int8)


def test_the_truncated_remainder_has_the_sign_of_the_dividend() -> None:
    found, _ = emit(remainder_of_truncation, A[:-1], B[:-1])
    assert found.tolist() == [1, -1, 1, -1, 0, 0, 0]
    x = np.array([5.5, -5.5, 1e8, 3.0, 2.0], np.float32)
    y = np.array([2.0, 2.0, 0.1, np.inf, 0.0], np.float32)
    found, _ = emit(remainder_of_truncation, x, y)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(found, np.fmod(x, y))


def test_the_truncated_remainder_of_the_least_integer() -> None:
    """It has no absolute value; neither has it as a divisor."""
    least = np.iinfo(np.int8).min
    a = np.array([least, least, least, least, 5, -5, least], np.int8)
    b = np.array([3, -3, 127, -1, least, least, least], np.int8)
    found, _ = emit(remainder_of_truncation, a, b)
    assert found.tolist() == [-2, -2, -1, 0, 5, -5, 0]


def test_the_truncated_remainder_of_unsigned_integers() -> None:
    found, names = emit(
        remainder_of_truncation, np.array([200, 7], np.uint8), np.array([130, 2], np.uint8)
    )
    assert found.tolist() == [70, 1]
    assert "abs" not in names


# -- what a compiled model gives -------------------------------------------------------------------
OPERATIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "floor": lambda x, y: x // y,
    "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "remainder": lambda x, y: x % y,
    "fmod": torch.fmod,
}


class AllOf(nn.Module):
    """Every operation on integers that could trap."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple([f(x, y) for f in OPERATIONS.values()])


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8])
def test_division_by_zero_and_minus_one_of_each_dtype(dtype: torch.dtype) -> None:
    """What the README and this file's module say; eager raises for the first half."""
    least, most = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    x = torch.tensor([least, most, 0, 7, -7 % 256 if dtype is torch.uint8 else -7], dtype=dtype)
    model = burnish.compile(AllOf().eval(), (x, x))
    floor, trunc, remainder, fmod = model(x, torch.zeros_like(x))
    assert torch.equal(floor, x)
    assert torch.equal(trunc, x)
    assert not remainder.any()
    assert not fmod.any()
    for operation in OPERATIONS.values():
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            operation(x, torch.zeros_like(x))
    if dtype is torch.uint8:
        return
    floor, trunc, remainder, fmod = model(x, torch.full_like(x, -1))
    assert torch.equal(floor, -x)
    assert torch.equal(trunc, -x)
    assert floor[0] == least
    assert not remainder.any()
    assert not fmod.any()


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_constant_divisor_of_zero_is_refused_as_eager_refuses_it(name: str) -> None:
    class Divides(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return OPERATIONS[name](x, 0)  # type: ignore[arg-type]

    with pytest.raises(errors.FrontendError, match=r"divides integers by zero, at .*raises Zero"):
        burnish.compile(Divides().eval(), (torch.ones(3, dtype=torch.int32),))
    floats = torch.ones(3)
    model = burnish.compile(Divides().eval(), (floats,))
    torch.testing.assert_close(model(floats), Divides()(floats), equal_nan=True)
