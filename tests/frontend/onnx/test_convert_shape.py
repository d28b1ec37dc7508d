"""Views, cuts, joins and pads, and the chains of sizes that exporters write, with a symbolic
batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnish.frontend.onnx import import_onnx
from burnish.tests.frontend.onnx.oracle import (
    check,
    check_compiled,
    evaluate,
    model,
    operators_of,
    refusal,
)

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


# -- views -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "shape", [(2, 12), (-1, 6), (0, -1), (0, 0, 2, 2), (0, 12), (6, -1), (-1,), (1, -1, 1)]
)
@pytest.mark.parametrize("opset", [7, 13])
def test_reshape_with_zeros_and_minus_one(shape: tuple[int, ...], opset: int) -> None:
    made = model("y = Reshape(x, s)", "float[2, 3, 4] x", opset, weights={"s": ints(*shape)})
    imported = check(made, x=X)
    assert "-1" not in imported.module.script().split("with R.dataflow")[1]


def test_reshape_of_a_symbolic_batch() -> None:
    for shape in ((0, 12), (-1, 12), (0, -1), (-1, 4), (0, 2, 6)):
        made = model("y = Reshape(x, s)", weights={"s": ints(*shape)})
        check(made, x=X)
    imported = check(model("y = Reshape(x, s)", weights={"s": ints(-1, 12)}), x=X)
    assert 'R.shape(["N", 12])' in imported.module.script()


def test_a_zero_may_mean_zero() -> None:
    empty = np.zeros((0, 3), np.float32)
    made = model("y = Reshape<allowzero = 1>(x, s)", "float[0, 3] x", weights={"s": ints(3, 0)})
    check(made, x=empty)


def test_reshapes_that_cannot_be() -> None:
    message = refusal(model("y = Reshape(x, s)", weights={"s": ints(2, 3, 4, 0)}))
    assert "dim 3 is to be copied from an input of 3 dims" in message
    message = refusal(model("y = Reshape(x, s)", weights={"s": ints(5, -1)}))
    assert "N * 12 elements are not proved to divide into (5, -1)" in message
    assert "while importing the Reshape that makes 'y'" in message
    made = model("s = Cast<to = 7>(z)\ny = Reshape(x, s)", "float[N, 3, 4] x, float[M] z")
    assert "input 1 ('s') decides about sizes and is computed from data" in refusal(made)


def test_flatten_and_transpose() -> None:
    for text in ("Flatten", "Flatten<axis = 0>", "Flatten<axis = 2>", "Flatten<axis = -1>",
                 "Flatten<axis = 3>", "Transpose", "Transpose<perm = [1, 0, 2]>"):  # fmt: skip
        check(model(f"y = {text}(x)", opset=13), x=X)


def test_squeeze_and_unsqueeze_by_attribute_and_by_input() -> None:
    x = X[:, :1]
    check(model("y = Squeeze<axes = [1]>(x)", "float[N, 1, 4] x", 11), x=x)
    check(model("y = Squeeze<axes = [-2]>(x)", "float[N, 1, 4] x", 11), x=x)
    check(model("y = Squeeze(x, a)", "float[N, 1, 4] x", 13, weights={"a": ints(1)}), x=x)
    check(model("y = Squeeze(x)", "float[2, 1, 4] x", 13), x=x)
    check(model("y = Unsqueeze<axes = [0, 4]>(x)", opset=11), x=X)
    check(model("y = Unsqueeze(x, a)", opset=13, weights={"a": ints(1, -1)}), x=X)
    made = model("y = Unsqueeze(x)", opset=13)
    assert (
        "the Unsqueeze that makes 'y': expected 2 inputs or more, found no 'axes' among ['x']."
        in refusal(made)
    )


def test_expand_broadcasts_both_ways() -> None:
    for shape in ((1, 3, 4), (5, 1, 1, 1), (1,), (2, 3, 4)):
        check(model("y = Expand(x, s)", "float[2, 3, 4] x", weights={"s": ints(*shape)}), x=X)
    x = X[:, :1]
    check(model("y = Expand(x, s)", "float[N, 1, 4] x", weights={"s": ints(6, 1, 3, 1)}), x=x)


def test_tile() -> None:
    check(model("y = Tile(x, r)", weights={"r": ints(2, 1, 3)}), x=X)
    message = refusal(model("y = Tile(x, r)", weights={"r": ints(2, 1)}))
    assert "2 repeats for 3 dims" in message


# -- cutting and joining -----------------------------------------------------------------------
def test_concat() -> None:
    body = "y0 = Concat<axis = 0>(x, x)\ny1 = Concat<axis = -1>(x, w, x)"
    made = model(body, "float[2, 3, 4] x", outputs="float y0, float y1", weights={"w": X[:, :, :1]})
    check(made, x=X)
    check(model("y = Concat<axis = 0>(x, x)", "float[N, 3, 4] x"), x=X)


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps"),
    [
        ([1], [3], [1], [1]),
        ([0, 1], [2, -1], [1, 2], [1, 2]),
        ([-2], [2**63 - 1], [2], [1]),
        ([-1], [-(2**63)], [2], [-1]),
        ([2**31], [0], [-1], [-2]),
        ([0], [1000], [1], [1]),
    ],
)
def test_slice_by_inputs(starts: Any, ends: Any, axes: Any, steps: Any) -> None:
    names = ("s", "e", "a", "t")
    weights = dict(zip(names, map(np.array, (starts, ends, axes, steps)), strict=True))
    for opset in (10, 13):
        check(model("y = Slice(x, s, e, a, t)", opset=opset, weights=weights), x=X)
    if steps == [1]:
        text = f"y = Slice<starts = {starts}, ends = {ends}, axes = {axes}>(x)"
        check(model(text, opset=9), x=X)


def test_slice_without_axes() -> None:
    weights = {"s": ints(0, 1), "e": ints(2, 3)}
    check(model("y = Slice(x, s, e)", "float[2, 3, 4] x", weights=weights), x=X)
    check(model("y = Slice<starts = [1], ends = [2]>(x)", "float[2, 3, 4] x", 9), x=X)


@pytest.mark.parametrize("bounds", [(1, 2), (-2, 9), (0, -1), (1, -1), (-1, 5), (3, 1)])
@pytest.mark.parametrize("step", [1, 2, -1])
def test_slices_of_a_symbolic_axis(bounds: tuple[int, int], step: int) -> None:
    weights = {"s": ints(bounds[0]), "e": ints(bounds[1]), "a": ints(0), "d": ints(step)}
    made = model("y = Slice(x, s, e, a, d)", weights=weights)
    test = check if step == 1 else check_compiled
    for n in (1, 2, 5):
        test(made, x=np.resize(X, (n, 3, 4)))


def test_neighbours_along_a_symbolic_axis_are_added() -> None:
    body = "a = Slice(x, zero, minus, axis)\nb = Slice(x, one, end, axis)\ny = Add(a, b)"
    end = ints(np.iinfo(np.int64).max)
    weights = {"zero": ints(0), "minus": ints(-1), "one": ints(1), "end": end, "axis": ints(0)}
    made = model(body, weights=weights)
    for n in (1, 2, 5):
        check(made, x=np.resize(X, (n, 3, 4)))


def test_split_by_attribute_by_input_and_by_count() -> None:
    outputs = "float y0, float y1"
    for opset, attributes, arguments in (
        (11, "axis = 1, split = [1, 2]", "x"),
        (11, "axis = 2", "x"),
        (13, "axis = 1", "x, s"),
        (13, "axis = -1", "x"),
        (18, "axis = 1, num_outputs = 2", "x"),
    ):
        text = f"y0, y1 = Split<{attributes}>({arguments})"
        check(model(text, opset=opset, outputs=outputs, weights={"s": ints(1, 2)}), x=X)


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 5, 8])
def test_split_of_a_named_size(rows: int) -> None:
    """The last part has what is left."""
    made = model("y0, y1 = Split<num_outputs = 2>(x)", opset=18, outputs="float y0, float y1")
    imported = import_onnx(made)
    held = np.resize(X, (rows, 3, 4))
    parts = evaluate(imported, {"x": held})
    np.testing.assert_array_equal(np.concatenate(parts), held)
    assert len(parts[0]) == -(-rows // 2)


@pytest.mark.parametrize("index", [0, -1, 2, [1], [0, 1, 2], [2, 0], [[0, 1], [2, 1]], []])
def test_gather_by_constant_indices(index: Any) -> None:
    weights = {"i": np.array(index, np.int64)}
    check(model("y = Gather<axis = 1>(x, i)", weights=weights), x=X)


def test_gathers_of_data() -> None:
    many = ints(*range(0, 40, 2))
    made = model("y = Gather<axis = 1>(x, i)", "float[N, 40] x", weights={"i": many})
    check(made, x=normal(2, 40))
    made = model("y = Gather(x, i)", "float[N, 3] x, int64[2, K] i")
    check(made, x=normal(5, 3), i=np.array([[0, 4, -1], [2, 2, 1]]))
    check(model("y = Gather(x, i)", "float[N, 3] x", weights={"i": ints(0, 2)}), x=normal(5, 3))
    table = normal(7, 4)
    check(model("y = Gather(w, i)", "int64[N] i", weights={"w": table}), i=np.array([6, 0, 3]))


def test_a_gather_outside_of_a_static_axis() -> None:
    message = refusal(model("y = Gather<axis = 1>(x, i)", weights={"i": ints(3)}))
    assert "indices [3] of an axis of size (3,)" in message
    for body in (
        "s = Shape(x)\ny = Gather(s, i)",
        "s = Shape(x)\nn = Gather(s, i)\ny = Cast<to = 1>(n)",
    ):
        message = refusal(model(body, weights={"i": ints(0, 5)}))
        assert "there is no index [0, 5] in" in message


def test_pad() -> None:
    check(model("y = Pad<pads = [0, 1, 0, 0, 0, 2], value = 1.5>(x)", opset=10), x=X)
    weights = {"p": ints(0, 1, 0, 0, 0, 2), "v": np.float32(-1), "q": ints(1, 2), "a": ints(-1)}
    for text in ("Pad(x, p)", "Pad(x, p, v)"):
        check(model(f"y = {text}", opset=13, weights=weights), x=X)
    check(model("y = Pad(x, q, v, a)", opset=18, weights=weights), x=X)
    check(model("y = Pad(x, p)", opset=13, weights={"p": ints(0, 0, 0, 0, 0, 0)}), x=X)
    message = refusal(model('y = Pad<mode = "mirror">(x, p)', opset=13, weights=weights))
    assert "mode 'mirror' cannot be imported; known are constant, reflect, edge, wrap" in message
    assert "expected 6 pads, found [1, 2]" in refusal(
        model("y = Pad(x, q)", opset=13, weights=weights)
    )


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_pads_with_own_elements(mode: str) -> None:
    weights = {"p": ints(0, 1, 2, 0, 2, 1)}
    check(model(f'y = Pad<mode = "{mode}">(x, p)', opset=19, weights=weights), x=X)


def test_a_negative_pad_cuts() -> None:
    """onnx's evaluator has no negative pads; NumPy has slices."""
    from burnish.frontend.onnx import import_onnx
    from burnish.tests.frontend.onnx.oracle import evaluate

    made = model("y = Pad(x, p)", opset=13, weights={"p": ints(0, -1, 1, 0, 0, -2)})
    (found,) = evaluate(import_onnx(made), {"x": X})
    assert np.array_equal(found, np.pad(X[:, 1:, :-2], ((0, 0), (0, 0), (1, 0))))


def test_triangles_and_ranges() -> None:
    x = X.reshape(2, 3, 4)
    weights = {"k": np.int64(1), "a": np.int64(0), "b": np.int64(4), "c": np.int64(1)}
    for text in ("Trilu(x)", "Trilu<upper = 0>(x)", "Trilu(x, k)", "Trilu<upper = 0>(x, k)"):
        check(model(f"y = {text}", opset=14, weights=weights), x=x)
    made = model("r = Range(a, b, c)\nf = Cast<to = 1>(r)\ny = Add(x, f)", weights=weights)
    check(made, x=X)


def test_triangles_of_symbolic_sizes() -> None:
    for text in ("Trilu(x, k)", "Trilu<upper = 0>(x, k)"):
        made = model(f"y = {text}", "float[3, N, M] x", 14, weights={"k": np.int64(-1)})
        for rows, columns in ((4, 4), (2, 5), (3, 1)):
            check(made, x=np.resize(X, (3, rows, columns)))


def test_ranges_of_sizes() -> None:
    body = """
        s = Shape(x)
        n = Gather(s, zero)
        r = Range({})
        f = Cast<to = 1>(r)
        y = Add({}, f)
    """
    weights = {"zero": np.int64(0), "one": np.int64(1), "two": np.int64(2)}
    for bounds, beside in (
        ("zero, n, one", "x"), ("one, n, one", "two_"), ("zero, n, two", "two_"),
        ("n, zero, minus", "x"), ("n, two, one", "two_"),
    ):  # fmt: skip
        made = model(
            body.format(bounds, beside),
            "float[N] x",
            weights={**weights, "minus": np.int64(-1), "two_": np.float32(2)},
        )
        for n in (1, 4):
            if "minus" in bounds:
                check_compiled(made, x=np.ones(n, np.float32))
            else:
                check(made, x=np.ones(n, np.float32))


# -- chains of sizes ---------------------------------------------------------------------------
CHAINS = {
    "shape, gather, concat": """
        s = Shape(x)
        n = Gather<axis = 0>(s, zero)
        n1 = Unsqueeze(n, axis)
        t = Concat<axis = 0>(n1, twelve)
        y = Reshape(x, t)
    """,
    "slice, squeeze, mul": """
        s = Shape(x)
        a = Slice(s, axis, one, axis)
        b = Squeeze(a, axis)
        c = Mul(b, three)
        c1 = Reshape(c, minus)
        t = Concat<axis = 0>(c1, minus)
        y = Reshape(x, t)
    """,
    "shape with start and end": """
        s = Shape<start = 0, end = 1>(x)
        t = Concat<axis = 0>(s, minus)
        y = Reshape(x, t)
    """,
    "size, div": """
        n = Size(x)
        d = Div(n, four)
        d1 = Unsqueeze(d, axis)
        t = Concat<axis = 0>(d1, four1)
        y = Reshape(x, t)
    """,
    "casts": """
        s = Shape(x)
        n = Gather(s, zero)
        n1 = Unsqueeze(n, axis)
        n2 = Cast<to = 7>(n1)
        i = Identity(n2)
        t = Concat<axis = 0>(i, twelve)
        y = Reshape(x, t)
    """,
    "expand as old exporters write it": """
        s = Shape(x)
        n = Gather(s, zero)
        n1 = Unsqueeze(n, axis)
        t = Concat<axis = 0>(n1, wide)
        k = Shape(t)
        ones = ConstantOfShape<value = int64[1] {1}>(k)
        m = Mul(ones, minus)
        e = Equal(t, m)
        w = Where(e, ones, t)
        y = Expand(x, w)
    """,
    "max, sub, add, mod": """
        s = Shape(x)
        n = Gather(s, zero)
        a = Add(n, four)
        b = Sub(a, four)
        c = Max(b, zero)
        m = Mod(four, three)
        c1 = Unsqueeze(b, axis)
        m1 = Unsqueeze(m, axis)
        t = Concat<axis = 0>(c1, m1, twelve)
        y = Reshape(x, t)
    """,
}
CHAIN_WEIGHTS = {
    "zero": np.int64(0), "axis": ints(0), "one": ints(1), "twelve": ints(12), "three": np.int64(3),
    "four": np.int64(4), "four1": ints(4), "minus": ints(-1), "wide": ints(3, 4),
}  # fmt: skip


@pytest.mark.parametrize("name", CHAINS)
def test_chains_of_sizes_emit_nothing_but_their_use(name: str) -> None:
    imported = check(model(CHAINS[name], opset=17, weights=CHAIN_WEIGHTS), x=X)
    assert len(operators_of(imported)) == 1
    for batch in (1, 5):
        check(model(CHAINS[name], opset=17, weights=CHAIN_WEIGHTS), x=np.tile(X[:1], (batch, 1, 1)))


def test_a_scale_computed_from_static_sizes_is_a_constant() -> None:
    body = "s = Shape(x)\nn = Gather(s, i)\nf = Cast<to = 1>(n)\nr = Sqrt(f)\ny = Div(x, r)"
    check(model(body, weights={"i": np.int64(2)}), x=X)


def test_symbolic_sizes_are_data_too() -> None:
    body = "s = Shape(x)\nn = Gather(s, i)\nf = Cast<to = 1>(n)\ny = Div(x, f)"
    check(model(body, weights={"i": np.int64(0)}), x=X)
    check(model("y = Shape(x)", outputs="int64 y"), x=X)
    check(model("y = Shape(x)", "float[2, 3] x", outputs="int64 y"), x=X[:, :, 0])


def test_an_index_outside_of_a_shape() -> None:
    made = model("s = Shape(x)\nn = Gather(s, i)\ny = Expand(x, n)", weights={"i": ints(3)})
    assert "there is no index [3] in (N, 3, 4)" in refusal(made)


@pytest.mark.parametrize("x", ["float[2, 3] x", "float[N, M] x"])
def test_a_pad_value_that_is_data_leaves_the_sizes_known(x: str) -> None:
    made = model("y = Pad(x, p, v)", f"{x}, float v", weights={"p": np.array([1, 0, 0, 2])})
    imported = check(made, x=np.ones((2, 3), np.float32), v=np.float32(7))
    assert "bind_size" not in operators_of(imported)


def test_no_index_gathers_nothing_of_an_empty_axis() -> None:
    x, i = np.zeros((2, 0, 3), np.float32), np.zeros(0, np.int64)
    made = model("y = Gather <axis = 1> (x, i)", "float[2, 0, 3] x, int64[0] i")
    assert operators_of(check(made, x=x, i=i)) == ["broadcast_to"]


FAR = (1 << 63) - 1


@pytest.mark.parametrize("rows", ["N", "4"])
@pytest.mark.parametrize("step", [1, -1, 2, -2])
def test_slices_whose_bounds_are_beyond_either_end(rows: str, step: int) -> None:
    low, high = -FAR - 1, FAR
    for start, end in (
        (high, high), (low, low), (low, high), (high, low), (1, low), (2, high), (high, 1),
        (low, 2),
    ):  # fmt: skip
        made = model(
            "y = Slice(x, start, end, axis, step)",
            f"float[{rows}, 3] x",
            weights={
                "start": np.array([start]), "end": np.array([end]), "axis": np.array([0]),
                "step": np.array([step]),
            },
        )  # fmt: skip
        check_compiled(made, x=np.arange(12, dtype=np.float32).reshape(4, 3))
