"""Sizes that data tell: one program for all values, and those that cannot be are refused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from burnish.support.errors import BurnishError
from burnish.tests.frontend.onnx.oracle import check_compiled, compare, model

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
STATIC, NAMED = "float[2, 3, 4] x", "float[N, M, 4] x"


def _check(
    body: str,
    inputs: str,
    values: Sequence[object],
    bad: Sequence[object] = (),
    outputs: str = "float y",
    opset: int = 17,
    **weights: object,
) -> None:
    """Each of the values of ``s``, of one program; and those that it refuses."""
    made = model(body, inputs, opset, outputs=outputs, weights=weights)
    compiled = check_compiled(made, x=X, s=np.array(values[0]))
    for value in values[1:]:
        compare(compiled, made, x=X, s=np.array(value))
    for value in bad:
        with pytest.raises(BurnishError, match="from 0 up"):
            compiled(X, np.array(value))
    assert compiled.compilations == 1


@pytest.mark.parametrize("x", [STATIC, NAMED])
@pytest.mark.parametrize("step", [1, 2, -1, -2])
def test_slices(x: str, step: int) -> None:
    body = "e = Add(s, two)\ny = Slice(x, s, e, axes, steps)"
    shift = np.array([2, 2] if step > 0 else [-2, -2])
    values = [[0, 1], [1, 3], [-1, -2], [-9, 9], [0, 0], [5, -4]]
    axes, steps = np.array([1, 2]), np.array([step, 1])
    _check(body, f"{x}, int64[2] s", values, two=shift, axes=axes, steps=steps)


def test_a_slice_with_one_bound_that_is_known() -> None:
    body = "y = Slice(x, s, e, a)"
    ends, axes = np.array([np.iinfo(np.int64).max]), np.array([-1])
    _check(body, f"{STATIC}, int64[1] s", [[0], [2], [-1], [7]], e=ends, a=axes)
    _check(
        "y = Slice(x, e, s, a)", f"{NAMED}, int64[1] s", [[0], [2], [-1]], e=np.array([1]), a=axes
    )


@pytest.mark.parametrize("x", [STATIC, NAMED])
def test_reshapes(x: str) -> None:
    values = [[2, 3, 4], [6, -1, 2], [0, 0, 0], [0, 2, -1], [-1, 1, 1], [1, 24, 1]]
    bad = [[2, 3, 5], [-1, -1, 4], [-2, 3, 4], [5, -1, 1]]
    _check("y = Reshape(x, s)", f"{x}, int64[3] s", values, bad)


def test_a_reshape_that_takes_zeros_as_they_are() -> None:
    body = "y = Reshape<allowzero = 1>(x, s)"
    _check(body, f"{STATIC}, int64[2] s", [[4, 6], [-1, 8]], [[0, 24]])


def test_a_reshape_to_sizes_and_data() -> None:
    """What is known of the shape stays known: it is added to a matrix of as many rows."""
    body = """
        n = Shape<end = 1>(x)
        t = Concat<axis = 0>(n, s, rest)
        r = Reshape(x, t)
        z = ReduceSum<keepdims = 0>(x, axes)
        z1 = Reshape(z, z_shape)
        y = Add(r, z1)
    """
    weights = {"rest": np.array([-1]), "axes": np.array([1, 2]), "z_shape": np.array([-1, 1, 1])}
    _check(body, f"{NAMED}, int64[1] s", [[1], [4], [12]], [[5], [-3]], **weights)


@pytest.mark.parametrize("x", [STATIC, NAMED])
def test_expanding(x: str) -> None:
    values = [[2, 3, 4], [1, 1, 1], [1, 3, 1]]
    _check("y = Expand(x, s)", f"{x}, int64[3] s", values, [[2, 2, 4], [3, 3, 4], [2, 3, 0]])
    ones = "t = ReduceMax<axes = [0, 2]>(x)\ny = Expand(t, s)"
    _check(ones, f"{x}, int64[4] s", [[1, 1, 1, 1], [2, 5, 3, 4], [3, 0, 1, 2]], [[1, -1, 3, 1]])


@pytest.mark.parametrize("x", [STATIC, NAMED])
def test_tiles(x: str) -> None:
    _check("y = Tile(x, s)", f"{x}, int64[3] s", [[1, 2, 1], [3, 1, 2], [0, 1, 1]], [[1, -1, 1]])


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize("x", [STATIC, NAMED])
def test_pads(x: str, mode: str) -> None:
    values = [[1, 0, 2, 1], [0, 0, 0, 0], [2, 3, 0, 2]]
    body = f'y = Pad<mode = "{mode}">(x, s, , a)'
    bad = [[0, -3, 0, -2], [-9, 0, 0, 0]]
    _check(body, f"{x}, int64[4] s", values, bad, opset=19, a=np.array([1, 2]))


def test_a_pad_value_and_negative_pads() -> None:
    body = """
        v = ReduceMax<keepdims = 0>(x)
        y = Pad(x, s, v)
    """
    values = [[0, 1, 0, 0, 1, 2], [1, -1, 0, 0, 2, -3]]
    made = model(body, f"{STATIC}, int64[6] s", 18)
    compiled = check_compiled(made, x=X, s=np.array(values[0]))
    found = compiled(X, np.array(values[1]))
    expected = np.pad(X[:, 1:, :1], [(1, 0), (0, 2), (0, 0)], constant_values=23)
    np.testing.assert_array_equal(found, expected)
    assert compiled.compilations == 1


@pytest.mark.parametrize("x", [STATIC, NAMED])
def test_the_k_largest(x: str) -> None:
    body = "y, i = TopK<axis = 1>(x, s)"
    outputs = "float y, int64 i"
    _check(body, f"{x}, int64[1] s", [[1], [3], [2]], [[4], [-1]], outputs)


def test_the_depth_of_one_hot_rows() -> None:
    body = "i = Cast<to = 7>(x)\ny = OneHot<axis = 1>(i, s, v)"
    _check(body, f"{STATIC}, int64 s", [3, 30, 1], [-1], v=np.array([0, 5], np.float32))
    body = "f = Cast<to = 1>(s)\ni = Cast<to = 7>(x)\ny = OneHot(i, f, v)"
    _check(body, f"{NAMED}, int64 s", [3, 24], v=np.array([0, 5], np.float32))


def test_parts() -> None:
    body = "y, z = Split<axis = 2>(x, s)"
    for x in (STATIC, NAMED):
        _check(body, f"{x}, int64[2] s", [[1, 3], [4, 0]], [[1, 4], [5, -1]], "float y, float z")


def test_diagonals() -> None:
    for upper in (0, 1):
        _check(f"y = Trilu<upper = {upper}>(x, s)", f"{NAMED}, int64 s", [0, 2, -1, 9])


def test_ranges() -> None:
    body = "a = Gather(s, zero)\nb = Gather(s, one)\nc = Gather(s, two)\ny = Range(a, b, c)"
    weights = {"zero": np.int64(0), "one": np.int64(1), "two": np.int64(2)}
    values = [[0, 5, 1], [7, -2, -3], [3, 3, 1], [4, 0, 2], [1, 8, 3]]
    _check(body, f"{STATIC}, int64[3] s", values, [[0, 5, 0]], "int64 y", **weights)
    floats = [np.array(v, np.float32) for v in ([0, 1, 0.25], [5, 0.5, -2], [1, 0, 1])]
    _check(body, f"{STATIC}, float[3] s", floats, **weights)


def test_a_size_of_data_that_must_be_known_is_asked_for() -> None:
    """The channels of a convolution, which are those of its weight."""
    weights = {"one": np.float32(1), "w": np.ones((2, 3, 1), np.float32)}
    made = model("e = Expand(one, s)\ny = Conv(e, w)", "int64[3] s", weights=weights)
    compiled = check_compiled(made, s=np.array([1, 3, 4]))
    compare(compiled, made, s=np.array([2, 3, 5]))
    assert compiled.compilations == 2


def test_a_size_beyond_all_memory_is_refused() -> None:
    weights = {"zero": np.int64(0), "one": np.int64(1)}
    made = model("y = Range(zero, s, one)", "int64 s", outputs="int64 y", weights=weights)
    compiled = check_compiled(made, s=5)
    with pytest.raises(
        BurnishError, match="y_size of at most 274877906944, got 4611686018427387904"
    ):
        compiled(np.array(1 << 62))


HALF = """
    n = Shape<end = 1>(x)
    f = Cast<to = 1>(n)
    h = Div(f, two)
    k = Cast<to = 7>(h)
"""


def test_sizes_computed_in_floats_are_one_program_for_all_shapes() -> None:
    made = model(f"{HALF}y = Expand(one, k)", "float[N] x", weights={
        "two": np.array([2], np.float32), "one": np.array([1], np.float32)})  # fmt: skip
    compiled = check_compiled(made, x=np.zeros(8, np.float32))
    compare(compiled, made, x=np.zeros(5, np.float32))
    assert compiled.compilations == 1


def test_sizes_of_shapes_that_must_be_known_are_those_of_the_call() -> None:
    """The shapes of the inputs tell all of them at once."""
    body = f"{HALF}s = Concat<axis = 0>(ones, k, four)\ne = Expand(one, s)\ny = Conv(e, w)"
    made = model(body, "float[N] x", weights={
        "two": np.array([2], np.float32), "one": np.float32(1), "ones": np.array([1]),
        "four": np.array([4]), "w": np.ones((2, 3, 1), np.float32)})  # fmt: skip
    compiled = check_compiled(made, x=np.zeros(6, np.float32))
    compare(compiled, made, x=np.zeros(7, np.float32))
    assert compiled.compilations == 2
    notes = compiled.report.notes
    assert len(notes) == 1
    assert "for these shapes of the inputs alone" in notes[0]


@pytest.mark.parametrize("shape", ["minus, two", "two, minus", "count, two"])
def test_elements_that_are_not_proved_to_divide_are_counted_when_the_model_runs(shape: str) -> None:
    """As many places as are not zero, two by two."""
    body = "p = NonZero(x)\nq = Flatten<axis = 0>(p)\nh = NonZero(z)\nk = Transpose(h)\n"
    body += "s = Shape(k)\ncount = Slice(s, none, one)\n"
    body += f"t = Concat<axis = 0>({shape})\nr = Reshape(q, t)\ny = Cast<to = 1>(r)"
    numbers = {"minus": -1, "two": 2, "none": 0, "one": 1}
    made = model(body, "float[N] x, float[M] z",
                 weights={n: np.array([v]) for n, v in numbers.items()})  # fmt: skip
    compiled = check_compiled(made, x=np.ones(6, np.float32), z=np.ones(3, np.float32))
    compare(compiled, made, x=np.eye(4, dtype=np.float32)[0] + 1, z=np.ones(2, np.float32))
    assert compiled.compilations == 1
    with pytest.raises(BurnishError, match="size"):
        compiled(np.ones(3, np.float32), np.ones(1, np.float32))


def test_every_so_many_elements_of_a_named_axis() -> None:
    weights = {
        n: np.array([v]) for n, v in (("none", 0), ("two", 2), ("end", 1 << 62), ("three", 3))
    }
    body = "a = Slice(x, none, end, none, three)\nb = Slice(x, two, end, none, three)\n"
    made = model(f"{body}y = Concat<axis = 0>(a, b)", "float[N, 2] x", weights=weights)
    compiled = check_compiled(made, x=np.arange(14, dtype=np.float32).reshape(7, 2))
    for n in (0, 1, 3, 8, 9):
        compare(compiled, made, x=np.arange(2 * n, dtype=np.float32).reshape(n, 2))
    assert compiled.compilations == 1


def test_sizes_of_tensors_are_none_below_zero() -> None:
    """All but the last of one tensor are as many as another has, which is never less than none."""
    body = """
        a = MaxPool<kernel_shape = [4], strides = [2]>(x)
        b = MaxPool<kernel_shape = [2], strides = [2]>(x)
        c = Slice(b, zero, last, two)
        y = Add(a, c)
    """
    weights = {"zero": np.array([0]), "last": np.array([-1]), "two": np.array([2])}
    made = model(body, "float[1, 1, N] x", weights=weights)
    x = np.arange(9, dtype=np.float32).reshape(1, 1, 9) ** 2
    compiled = check_compiled(made, x=x)
    for size in (4, 6, 7):
        compare(compiled, made, x=x[..., :size])
    assert compiled.compilations == 1


def test_one_element_more_and_one_less() -> None:
    """As decoders shift their words: the first, then all but the last."""
    body = """
        first = Slice(x, zero, one, one)
        joined = Concat<axis = 1>(first, x)
        shifted = Slice(joined, zero, last, one)
        y = Sub(x, shifted)
    """
    weights = {"zero": np.array([0]), "last": np.array([-1]), "one": np.array([1])}
    made = model(body, "float[2, N] x", weights=weights)
    x = np.arange(8, dtype=np.float32).reshape(2, 4) ** 2
    compiled = check_compiled(made, x=x)
    compare(compiled, made, x=x[:, :1])
    assert compiled.compilations == 1
