"""What a candidate may differ in from the unscheduled function, and what not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from burnish import te
from burnish.support.errors import BuildError
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.text.parser import parse_func
from burnish.tests.tuner.programs import matmul
from burnish.tuner.measuring.reference import (
    Reference,
    compare,
    index_bound,
    load_references,
    make_arguments,
    make_reference,
    output_indices,
    save_references,
    values,
)
from burnish.vm.tensor import Tensor, array

NumPyFunction = Callable[..., np.ndarray]


def pointwise(dtype: str = "float32", out: str | None = None, n: int = 64) -> PrimFunc:
    """A function of one input and one output; what it computes is the test's business."""
    a = te.placeholder((n,), dtype, name="A")
    b = te.compute((n,), lambda i: te.cast(a[i], out or dtype), name="B")
    return te.create_prim_func([a, b])


def runner(fn: NumPyFunction) -> Callable[[Sequence[Tensor]], None]:
    """A stand-in for the compiled function: ``fn`` of the first argument to the last, in
    float64."""

    def run(arguments: Sequence[Tensor]) -> None:
        with np.errstate(all="ignore"):
            out = fn(values(arguments[0]))
        arguments[-1].data[...] = array(out, str(arguments[-1].dtype)).data

    return run


def reference(fn: NumPyFunction, func: PrimFunc | None = None) -> Reference:
    return make_reference(func or pointwise(), runner(fn), seed=0)


def answer(known: Reference, change: Callable[[np.ndarray], np.ndarray]) -> list[Tensor]:
    """The arguments after the call of a candidate whose output is a changed one."""
    out = known.expected[0]
    return [known.inputs[0], array(change(values(out)).reshape(out.shape), str(out.dtype))]


# -- floats ----------------------------------
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_rounding_passes_and_more_does_not(dtype: str) -> None:
    known = reference(lambda x: x * 3, pointwise(dtype))
    step = {"float64": 2e-16, "float32": 1e-7, "float16": 1e-3, "bfloat16": 8e-3}[dtype]
    compare(known, answer(known, lambda y: y * (1 + 4 * step)))
    compare(known, answer(known, lambda y: y * (1 - 4 * step)))
    with pytest.raises(BuildError, match="wrong result: "):
        compare(known, answer(known, lambda y: y * 1.5))


def test_the_error_says_how_many_and_where() -> None:
    known = reference(lambda x: x * 3)

    def change(y: np.ndarray) -> np.ndarray:
        y[[7, 9]] = 5
        return y

    with pytest.raises(BuildError) as caught:
        compare(known, answer(known, change))
    assert (
        "2 of 64 elements of output 0 differ from the unscheduled function's; the first, at [7],"
        in (str(caught.value))
    )


def test_errors_are_relative_to_the_scale_of_the_outputs() -> None:
    for scale in (1e-30, 1.0, 1e30):
        known = reference(partial(np.multiply, scale))
        compare(known, answer(known, partial(np.add, 1e-6 * scale)))
        with pytest.raises(BuildError):
            compare(known, answer(known, partial(np.add, 1e-2 * scale)))


def test_one_huge_element_does_not_hide_the_others() -> None:
    def fn(x: np.ndarray) -> np.ndarray:
        return np.where(np.arange(64) == 0, 1e6, x)

    known = reference(fn)
    with pytest.raises(BuildError, match="63 of 64"):
        compare(known, answer(known, lambda y: np.where(y == 1e6, y, y * 0 + 50.0)))


def test_a_function_that_magnifies_rounding_may_show_it() -> None:
    known = reference(lambda x: np.exp(60 * x))
    compare(known, answer(known, lambda y: y * (1 + 1e-4)))
    with pytest.raises(BuildError):
        compare(known, answer(known, lambda y: y * 1.01))


def test_nan_and_infinity_must_be_where_they_were() -> None:
    def fn(x: np.ndarray) -> np.ndarray:
        return np.select([np.arange(64) % 4 == r for r in range(3)], [np.nan, np.inf, -np.inf], x)

    known = reference(fn)
    compare(known, answer(known, lambda y: y))
    for at, value in [(0, 1.0), (1, -np.inf), (1, 3e38), (2, np.nan), (3, np.nan), (3, np.inf)]:

        def change(y: np.ndarray, at: int = at, value: float = value) -> np.ndarray:
            y[at] = value
            return y

        with pytest.raises(BuildError, match=f"1 of 64 .* at \\[{at}\\]"):
            compare(known, answer(known, change))


def test_inputs_on_which_the_function_is_finite_are_preferred() -> None:
    assert reference(lambda x: x).range_index == 0
    known = reference(np.log)
    assert known.range_index == 1
    assert np.isfinite(values(known.expected[0])).all()
    assert reference(lambda x: x * np.nan).range_index == 0


# -- integers and bools ----------------------------------
def test_integers_must_be_equal() -> None:
    known = reference(lambda x: x * 2**40 + 1, pointwise("int64"))
    compare(known, answer(known, lambda y: y))
    with pytest.raises(BuildError, match="64 of 64"):
        compare(known, [known.inputs[0], array(known.expected[0].data + 1)])


def test_integers_beyond_the_floats_are_compared_exactly() -> None:
    known = reference(lambda x: np.full(64, 2**60), pointwise("int64"))
    with pytest.raises(BuildError):
        compare(known, [known.inputs[0], array(np.full(64, 2**60 + 1))])


def test_a_comparison_of_floats_may_flip_at_its_edge_only() -> None:
    func = pointwise("float32", "bool")
    edge = float(values(make_arguments(func, 0, (-1.0, 1.0))[0])[5])
    known = reference(lambda x: x > edge, func)

    def flip(at: int) -> list[Tensor]:
        changed = known.expected[0].data.copy()
        changed[at] = ~changed[at]
        return [known.inputs[0], array(changed)]

    with pytest.raises(BuildError, match=r"1 of 64 .* at \[6\]"):
        compare(known, flip(6))
    if np.isinf(known.allowed[0][5]):  # the change went over the edge here
        compare(known, flip(5))


def test_scalars() -> None:
    a = te.placeholder((), name="A")
    func = te.create_prim_func([a, te.compute((), lambda: a[()] * 2.0, name="B")])
    known = reference(lambda x: x[0] * 2, func)
    compare(known, answer(known, lambda y: y))
    with pytest.raises(BuildError, match=r"1 of 1"):
        compare(known, answer(known, lambda y: y + 1))


# -- inputs ----------------------------------
def test_an_input_must_not_be_written() -> None:
    known = reference(lambda x: x)
    changed = array(known.inputs[0])
    changed.data[3] += 1
    with pytest.raises(BuildError, match="argument 0, an input, was written"):
        compare(known, [changed, known.expected[0]])


def test_arguments_are_the_same_for_the_same_seed() -> None:
    def make(seed: int) -> list[np.ndarray]:
        return [x.data for x in make_arguments(matmul(8), seed, (-1.0, 1.0))]

    assert all(np.array_equal(a, b) for a, b in zip(make(3), make(3), strict=True))
    assert not np.array_equal(make(3)[0], make(4)[0])
    assert not np.array_equal(make(3)[0], make(3)[1])


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        ("int32", -8, 7),
        ("uint8", 0, 7),
        ("bool", 0, 1),
        ("float32", 0.125, 1),
        ("bfloat16", 0.125, 1),
    ],
)
def test_values_are_small(dtype: str, low: float, high: float) -> None:
    (x, _) = make_arguments(pointwise(dtype, n=500), 0, (0.125, 1.0))
    assert values(x).min() >= low
    assert values(x).max() <= high
    assert len(np.unique(x.data)) > 1


TAKE = """
def take(T0: T.Buffer(({rows}, 4), "float32"), I: T.Buffer((50,), "int64"),
         O: T.Buffer((50, 4), "float32")):
    for i, j in T.grid(50, 4):
        with T.block("O"):
            v, w = T.axis.remap("SS", [i, j])
            O[v, w] = T0[I[v], w]
"""


@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_indices_stay_inside_of_what_they_index(rows: int) -> None:
    func = parse_func(TAKE.format(rows=rows))
    assert index_bound(func) == rows
    indices = make_arguments(func, 0, (-1.0, 1.0))[1].data
    assert indices.min() >= 0
    assert indices.max() < rows
    assert index_bound(matmul(8)) is None


def test_symbolic_shapes_are_refused() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    func = te.create_prim_func([a, te.compute((n,), lambda i: a[i], name="B")])
    with pytest.raises(BuildError, match="the shape of 'A' is symbolic"):
        make_arguments(func, 0, (-1.0, 1.0))


def test_a_reference_comes_back_from_its_file(tmp_path: Path) -> None:
    dtypes = ("float32", "bfloat16")
    functions = [pointwise(dtype) for dtype in dtypes]
    all_known = [reference(np.log, func) for func in functions]
    save_references(all_known, tmp_path / "reference.npz")
    all_found = load_references(tmp_path / "reference.npz", functions, 0)
    assert len(all_found) == 2
    for dtype, func, known, found in zip(dtypes, functions, all_known, all_found, strict=True):
        assert found.outputs == known.outputs == output_indices(func) == (1,)
        for a, b in [
            (found.inputs, known.inputs),
            (found.expected, known.expected),
            (found.nudged, known.nudged),
        ]:
            for x, y in zip(a, b, strict=True):
                assert x.dtype == y.dtype == dtype
                np.testing.assert_array_equal(x.data, y.data)
