"""CollapseKeptAxes: kernels that reduce go along one axis where memory runs along several."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.graphir.module import IRModule
from burnish.graphir.passes.annotate_pattern import AnnotatePattern
from burnish.graphir.passes.collapse_kept_axes import CollapseKeptAxes
from burnish.graphir.passes.dead_code_elimination import DeadCodeElimination
from burnish.graphir.passes.fuse_ops import FuseOps
from burnish.graphir.passes.fuse_prim_funcs import FusePrimFuncs
from burnish.graphir.passes.legalize import LegalizeOps
from burnish.graphir.text.parser import parse_module
from burnish.graphir.verify import verify_module
from burnish.tensorir.verify.laws import verify_func
from burnish.tests.graphir.reference import run

SHAPES = {"x": (5, 4, 3, 2), "w": (4, 3, 2), "m": (3, 2)}


def fused(*lines: str, dtype: str = "float32") -> IRModule:
    params = ", ".join(f'{n}: R.Tensor({s}, dtype="{dtype}")' for n, s in SHAPES.items())
    body = "".join(f"        {line}\n" for line in lines)
    module = parse_module(
        f"@R.function\ndef main({params}):\n    with R.dataflow():\n"
        f"{body}        R.output(y)\n    return y\n"
    )
    passes = (LegalizeOps(), AnnotatePattern(legalized_only=True), FuseOps(), FusePrimFuncs())
    for made in (*passes, DeadCodeElimination()):
        module = made(module)
    return module


def collapsed(*lines: str, dtype: str = "float32") -> dict[str, list[tuple[int, ...]]]:
    """The shapes of each kernel's parameters, after the values were compared."""
    module = fused(*lines, dtype=dtype)
    made = verify_module(CollapseKeptAxes()(module))
    rng = np.random.default_rng(0)
    values = [rng.integers(-5, 5, s).astype(dtype) for s in SHAPES.values()]
    np.testing.assert_array_equal(run(made, "main", *values), run(module, "main", *values))
    for func in made.prim_funcs.values():
        verify_func(func)
    return {
        name: [tuple([d.value for d in b.shape]) for b in func.buffers]  # type: ignore[attr-defined]
        for name, func in made.prim_funcs.items()
    }


@pytest.mark.parametrize("op", ["sum", "max", "argmax"])
def test_kept_axes_behind_the_reduced_one_are_one(op: str) -> None:
    assert collapsed(f"y = R.{op}(x, axis=0)") == {op: [(5, 24), (24,)]}
    assert collapsed(f"y = R.{op}(x, axis=1)") == {op: [(5, 4, 6), (5, 6)]}


def test_axes_that_are_reduced_behind_each_other_are_one_too() -> None:
    assert collapsed("y = R.sum(x, axis=[0, 1])") == {"sum": [(20, 6), (6,)]}


@pytest.mark.parametrize("axis", [2, 3])
def test_one_kept_axis_or_none_behind_the_reduced_one(axis: int) -> None:
    shapes = collapsed(f"y = R.sum(x, axis={axis})")
    assert shapes["sum"][0] == SHAPES["x"]


def test_dimensions_that_are_kept_of_one_element() -> None:
    assert collapsed("y = R.sum(x, axis=0, keepdims=True)") == {"sum": [(5, 24), (1, 24)]}


def test_blocks_of_a_kernel_go_along() -> None:
    shapes = collapsed("a = R.multiply(x, w)", "b = R.relu(a)", "y = R.sum(b, axis=0)")
    assert list(shapes.values()) == [[(5, 24), (24,), (24,)]]


def test_rows_that_are_read_again() -> None:
    assert collapsed("y = R.softmax(x, axis=0)") == {"softmax": [(5, 24), (5, 24)]}


def test_an_operand_of_fewer_axes_keeps_those_apart_that_it_has_not() -> None:
    shapes = collapsed("a = R.multiply(x, m)", "y = R.sum(a, axis=0)")
    assert list(shapes.values()) == [[(5, 4, 6), (6,), (4, 6)]]


def test_axes_in_another_order_are_not_one() -> None:
    turn = "a = R.permute_dims(x, axes=[0, 3, 2, 1])"
    shapes = collapsed(turn, "b = R.relu(a)", "y = R.sum(b, axis=0)")
    assert list(shapes.values()) == [[SHAPES["x"], (2, 3, 4)]]


def test_sums_in_a_wider_type() -> None:
    shapes = collapsed("y = R.sum(x, axis=0)", dtype="float16")
    assert list(shapes.values()) == [[(5, 24), (24,)]]


def test_other_kernels_stay_as_they_are() -> None:
    module = fused("a = R.relu(x)", "y = R.permute_dims(a, axes=[0, 3, 2, 1])")
    assert CollapseKeptAxes()(module).functions == module.functions


def test_products_stay_as_they_are() -> None:
    module = fused("a = R.permute_dims(x, axes=[0, 1, 3, 2])", "y = R.matmul(x, a)")
    assert CollapseKeptAxes()(module).functions == module.functions


def test_what_a_user_wrote_stays_as_it_is() -> None:
    module = fused("y = R.sum(x, axis=0)")
    module.functions = {
        n: f.with_attr("legalized", None) if n == "sum" else f for n, f in module.functions.items()
    }
    assert CollapseKeptAxes()(module).functions == module.functions


def test_two_calls_of_one_kernel() -> None:
    shapes = collapsed("a = R.sum(x, axis=0)", "b = R.sum(x, axis=0)", "y = R.add(a, b)")
    assert shapes["sum"] == [(5, 24), (24,)]
