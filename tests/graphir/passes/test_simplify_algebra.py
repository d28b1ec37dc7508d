"""SimplifyAlgebra: what goes, what stays, and that every bit of every result is as it was."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnish import graph
from burnish.graphir.analysis import bindings
from burnish.graphir.builder import BlockBuilder, call_op
from burnish.graphir.expr import Call, Function, Value, Var, constant
from burnish.graphir.module import IRModule
from burnish.graphir.passes.dead_code_elimination import DeadCodeElimination
from burnish.graphir.passes.simplify_algebra import SimplifyAlgebra, holds
from burnish.graphir.verify import verify_module
from burnish.support.dtype import DType
from burnish.tests.graphir.reference import run

SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, -2.5, 1e-45, -1e-45, 3e38, 1, -1],
                   np.float32)  # fmt: skip
Make = Callable[[Any], Value]


def module_of(make: Make, x: np.ndarray) -> IRModule:
    var = Var("x", graph.tensor_type(x.shape, str(x.dtype)))
    bb = BlockBuilder()
    with bb.function("main", [var]):
        with bb.dataflow():
            result = bb.emit_output(make(var))
        bb.emit_func_output(result)
    return bb.get()


def simplified(make: Make, x: np.ndarray) -> list[str]:
    """The operators that are left; the results are those of before, to the bit."""
    module = module_of(make, x)
    made = verify_module(DeadCodeElimination()(SimplifyAlgebra()(module)))
    before, after = run(module, "main", x), run(made, "main", x)
    assert before.dtype == after.dtype
    np.testing.assert_array_equal(_bits(before), _bits(after))
    main = made["main"]
    assert isinstance(main, Function)
    return [b.value.op for b in bindings(main) if isinstance(b.value, Call)]


def _bits(x: np.ndarray) -> np.ndarray:
    """The bytes of an array, every NaN as one."""
    held = np.where(np.isnan(x), np.array(np.nan, x.dtype), x) if x.dtype.kind == "f" else x
    return np.ascontiguousarray(held).view(np.uint8)


def op(name: str, *args: Any, **attrs: Any) -> Call:
    return call_op(name, *args, **attrs)


@pytest.mark.parametrize(
    ("make", "left"),
    [
        (lambda x: op("multiply", x, 1.0), []),
        (lambda x: op("multiply", constant(np.ones(3, np.float32)), op("exp", x)), ["exp"]),
        (lambda x: op("divide", x, 1.0), []),
        (lambda x: op("divide", 1.0, op("exp", x)), ["exp", "divide"]),
        (lambda x: op("subtract", x, 0.0), []),
        (lambda x: op("subtract", x, -0.0), ["subtract"]),
        (lambda x: op("add", x, 0.0), ["add"]),
        (lambda x: op("add", x, -0.0), []),
        (lambda x: op("multiply", x, -1.0), ["multiply"]),
        (lambda x: op("negative", op("negative", x)), []),
        (lambda x: op("abs", op("negative", x)), ["abs"]),
        (lambda x: op("relu", op("relu", op("relu", x))), ["relu"]),
        (lambda x: op("where", op("isnan", x), op("exp", x), op("exp", x)),
         ["isnan", "exp", "exp", "where"]),
        (lambda x: op("multiply", x, constant(np.ones((2, 4, 3), np.float32))), ["multiply"]),
    ],
)  # fmt: skip
def test_floats(make: Make, left: list[str]) -> None:
    assert simplified(make, SPECIAL.reshape(4, 3)) == left


def test_one_value_chosen_either_way() -> None:
    def make(x: Any) -> Value:
        return op("where", op("greater", x, 0.0), x, x)

    assert simplified(make, SPECIAL) == []


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64"])
def test_integers(dtype: str) -> None:
    x = np.array([0, 1, 5, 127, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)
    assert simplified(lambda v: op("add", op("multiply", v, 1), 0), x) == []
    assert simplified(lambda v: op("negative", op("negative", v)), x) == []
    assert simplified(lambda v: op("abs", op("negative", v)), x) == ["negative", "abs"]


def test_truth_values() -> None:
    x = np.array([True, False])
    assert simplified(lambda v: op("logical_not", op("logical_not", v)), x) == []


@pytest.mark.parametrize(
    ("source", "middle", "final", "left"),
    [
        ("float32", "float64", "float32", 0),
        ("float16", "float32", "float16", 0),
        ("float32", "float16", "float32", 2),
        ("float32", "float64", "float16", 1),
        ("int8", "float32", "int8", 0),
        ("int32", "float32", "int32", 2),
        ("int32", "float64", "int64", 1),
        ("uint8", "int16", "float32", 1),
        ("uint8", "int8", "int32", 2),
        ("int8", "uint32", "int8", 2),
        ("bool", "int64", "float32", 1),
        ("float32", "float64", "int32", 2),
    ],
)
def test_casts(source: str, middle: str, final: str, left: int) -> None:
    x = np.array([0, 1, 3, 100]).astype(source)
    found = simplified(lambda v: op("astype", op("astype", v, dtype=middle), dtype=final), x)
    assert found == ["astype"] * left


def test_what_a_dtype_holds_is_what_numpy_converts_there_and_back() -> None:
    names = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
             "float16", "float32", "float64"]  # fmt: skip
    for narrow, wide in itertools.product(names, repeat=2):
        info: Any = None if narrow == "bool" else (
            np.finfo(narrow) if "float" in narrow else np.iinfo(narrow)
        )  # fmt: skip
        ends = [0, 1] if info is None else [info.min, info.max, info.max - 1]
        x = np.array(ends, narrow)
        with np.errstate(all="ignore"):
            same = np.array_equal(x.astype(wide).astype(narrow), x) and (
                wide != "bool" or narrow == "bool"
            )
            exact = all(int(a) == int(b) for a, b in zip(x.astype(wide), x, strict=True)
                        if np.isfinite(a) and np.isfinite(b))  # fmt: skip
        if holds(DType(wide), DType(narrow)):
            assert same, (wide, narrow)
            assert exact, (wide, narrow)
    assert not holds(DType("float16"), DType("bfloat16"))
    assert not holds(DType("bfloat16"), DType("float16"))
    assert holds(DType("float32"), DType("bfloat16"))


def cut(x: Any, begin: int | None, end: int | None, axis: int = 1) -> Call:
    return op("strided_slice", x, axes=(axis,), begin=(begin,), end=(end,))


@pytest.mark.parametrize(
    ("make", "left"),
    [
        (lambda x: op("concat", cut(x, 0, 1), cut(x, 1, None), axis=1), []),
        (lambda x: op("concat", cut(x, 0, 1), cut(x, 1, 2), axis=-1), ["strided_slice"]),
        (lambda x: op("concat", cut(x, 1, 2), cut(x, 0, 1), axis=1),
         ["strided_slice", "strided_slice", "concat"]),
        (lambda x: cut(op("concat", op("exp", x), x, axis=1), 3, 6), []),
        (lambda x: cut(op("concat", op("exp", x), x, axis=1), 0, 2), ["exp", "strided_slice"]),
        (lambda x: cut(op("concat", op("exp", x), x, axis=1), 2, 4),
         ["exp", "concat", "strided_slice"]),
        (lambda x: cut(op("concat", op("exp", x), x, axis=0), 0, 2),
         ["exp", "concat", "strided_slice"]),
        (lambda x: op("concat", x, cut(x, 0, 2), cut(x, -1, None), op("exp", x), axis=1),
         ["exp", "concat"]),
    ],
)  # fmt: skip
def test_pieces(make: Make, left: list[str]) -> None:
    assert simplified(make, SPECIAL.reshape(4, 3)) == left
