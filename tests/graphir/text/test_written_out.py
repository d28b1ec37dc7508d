from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import burnish
from burnish.support.errors import ParseError
from burnish.support.structural import assert_structural_equal

RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 6, 5, 3), dtype=np.float32)
C = [RNG.standard_normal(6, dtype=np.float32) for _ in range(3)]
VAR = RNG.random(6, dtype=np.float32) + 0.5
T4 = torch.from_numpy(X)
TC = [torch.from_numpy(c) for c in C]


def module(call: str, *params: tuple[str, str], result: str = "y") -> burnish.IRModule:
    given = ", ".join(f"{name}: R.Tensor({kind})" for name, kind in params)
    return burnish.parse(
        f"""
@I.ir_module
class Module:
    @R.function
    def main({given}):
        with R.dataflow():
            y = {call}
            z = {result}
            R.output(z)
        return z
"""
    )


def run(mod: burnish.IRModule, *args: np.ndarray) -> Any:
    assert_structural_equal(burnish.parse(mod.script()), mod)
    found = burnish.VirtualMachine(burnish.build(mod))["main"](*args)
    return [f.numpy() for f in found] if isinstance(found, tuple) else found.numpy()


IMAGE = ("x", '(4, 6, 5, 3), "float32"')
VECTORS = [(name, '(6,), "float32"') for name in ("g", "b", "m", "v")]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ('R.zeros((2, 3), "float32")', np.zeros((2, 3), np.float32)),
        ('R.ones(R.shape([2, 3]), dtype="int32")', np.ones((2, 3), np.int32)),
        ('R.full((2, 3), R.const(0.5, "float32"))', np.full((2, 3), 0.5, np.float32)),
        ('R.full((2, 3), 7, dtype="int64")', np.full((2, 3), 7)),
        ("R.zeros_like(x)", np.zeros_like(X)),
        ('R.ones_like(x, dtype="float64")', np.ones(X.shape)),
        ("R.full_like(x, R.const(2.5, 'float32'))", np.full_like(X, 2.5)),
        ("R.tile(x, (2, 1, 3))", np.tile(X, (2, 1, 3))),
        ("R.tile(x, [2, 1, 1, 1, 2])", np.tile(X, (2, 1, 1, 1, 2))),
        ("R.reshape(x, R.shape_of(R.zeros((24, 15), 'float32')))", X.reshape(24, 15)),
    ],
)
def test_values_and_pieces(call: str, expected: np.ndarray) -> None:
    found = run(module(call, IMAGE), X)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype


def test_a_split_is_a_tuple_of_parts() -> None:
    parts = run(module("R.split(x, 3, axis=1)", IMAGE), X)
    for a, b in zip(parts, np.split(X, 3, axis=1), strict=True):
        np.testing.assert_array_equal(a, b)
    parts = run(module("R.split(x, [1, 4], axis=-2)", IMAGE), X)
    for a, b in zip(parts, np.split(X, [1, 4], axis=-2), strict=True):
        np.testing.assert_array_equal(a, b)
    found = run(module("R.split(x, 2, axis=1)", IMAGE, result="R.add(y[0], y[1])"), X)
    np.testing.assert_array_equal(found, X[:, :3] + X[:, 3:])


def test_normalisations_are_those_of_torch() -> None:
    f = torch.nn.functional
    mod = module(
        "R.group_norm(x, g, b, num_groups=3, channel_axis=1, axes=[2, 3])", IMAGE, *VECTORS[:2]
    )
    want = f.group_norm(T4, 3, TC[0], TC[1], 1e-5).numpy()
    np.testing.assert_allclose(run(mod, X, *C[:2]), want, rtol=1e-4, atol=1e-5)
    mod = module(
        "R.batch_norm(x, g, b, m, v, axis=1, epsilon=0.001)", IMAGE, *VECTORS, result="y[0]"
    )
    want = f.batch_norm(T4, TC[2], torch.from_numpy(VAR), TC[0], TC[1], eps=0.001).numpy()
    np.testing.assert_allclose(run(mod, X, *C, VAR), want, rtol=1e-4, atol=1e-5)
    mod = module(
        "R.rms_norm(x, g, axes=[-1], epsilon=0.001)", ("x", '(4, 6), "float32"'), VECTORS[0]
    )
    rows = X[:, :, 0, 0]
    want = f.rms_norm(torch.from_numpy(rows), (6,), TC[0], eps=0.001).numpy()
    np.testing.assert_allclose(run(mod, rows, C[0]), want, rtol=1e-5)


def test_rms_norm_of_halves_has_a_float32_mean() -> None:
    kinds = (("x", '(4, 600), "float16"'), ("g", '(600,), "float16"'))
    x = (RNG.standard_normal((4, 600)) * 100).astype(np.float16)
    g = np.ones(600, np.float16)
    found = run(module("R.rms_norm(x, g)", *kinds), x, g)
    wide = x.astype(np.float64)
    want = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(found, want, rtol=2e-3, atol=1e-3)


def test_integers_for_floats_and_back() -> None:
    per_channel = [("s", '(6,), "float32"'), ("z", '(6,), "int8"')]
    scale, zero = VAR / 20, np.arange(-3, 3, dtype=np.int8)
    mod = module('R.quantize(x, s, z, axis=1, out_dtype="int8")', IMAGE, *per_channel)
    found = run(mod, X, scale, zero)
    at = (1, 6, 1, 1)
    want = np.clip(np.round(X / scale.reshape(at)) + zero.reshape(at), -128, 127).astype(np.int8)
    np.testing.assert_array_equal(found, want)
    back = module("R.dequantize(x, s, z, axis=1)", ("x", '(4, 6, 5, 3), "int8"'), *per_channel)
    numbers = (want.astype(np.float32) - zero.reshape(at)) * scale.reshape(at)
    np.testing.assert_array_equal(run(back, want, scale, zero), numbers)


def _image(**given: Any) -> np.ndarray:
    return torch.nn.functional.interpolate(T4, (7, 5), **given).numpy()


@pytest.mark.parametrize(
    ("attrs", "expected"),
    [
        ("", _image(mode="bilinear")),
        (
            'coordinate_transformation_mode="align_corners"',
            _image(mode="bilinear", align_corners=True),
        ),
        ('method="cubic"', _image(mode="bicubic")),
        (
            'method="nearest_neighbor", coordinate_transformation_mode="asymmetric", '
            'rounding_method="floor"',
            _image(mode="nearest"),
        ),
        ('method="nearest_neighbor"', _image(mode="nearest-exact")),
        ('layout="NCHW", out_dtype="float64"', _image(mode="bilinear")),
    ],
)
def test_resized_images_are_those_of_torch(attrs: str, expected: np.ndarray) -> None:
    found = run(module(f"R.resize2d(x, (7, 5), {attrs})", IMAGE), X)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert found.dtype == ("float64" if "float64" in attrs else "float32")


def test_images_of_another_layout_are_resized() -> None:
    given = ("x", '(4, 5, 3, 6), "float32"')
    last = np.ascontiguousarray(X.transpose(0, 2, 3, 1))
    found = run(module('R.resize2d(x, R.shape([7, 5]), layout="NHWC")', given), last)
    np.testing.assert_allclose(
        found.transpose(0, 3, 1, 2), _image(mode="bilinear"), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk->ik", [(4, 6), (6, 5)]),
        ("bij,bkj->bik", [(2, 4, 6), (2, 5, 6)]),
        ("ij,ij->i", [(4, 6), (4, 6)]),
        ("i,j->ji", [(4,), (6,)]),
        ("ijk->ki", [(4, 6, 5)]),
        ("ij,jk,kl->il", [(4, 6), (6, 5), (5, 3)]),
        ("ijm,jk->ik", [(4, 6, 2), (6, 5)]),
        ("ij->", [(4, 6)]),
    ],
)
def test_einsum_is_that_of_numpy(subscripts: str, shapes: list[tuple[int, ...]]) -> None:
    arrays = [RNG.standard_normal(s, dtype=np.float32) for s in shapes]
    names = [f"x{n}" for n in range(len(arrays))]
    kinds = [(name, f'{s}, "float32"') for name, s in zip(names, shapes, strict=True)]
    given = f"({', '.join(names)},)" if len(names) > 1 else names[0]
    found = run(module(f'R.einsum({given}, subscripts="{subscripts}")', *kinds), *arrays)
    np.testing.assert_allclose(found, np.einsum(subscripts, *arrays), rtol=1e-4, atol=1e-5)


def test_a_cast_names_the_sizes_of_what_is_known() -> None:
    mod = burnish.parse(
        """
@R.function
def main(
    x: R.Tensor(("m", 4), "float32"), y: R.Tensor(dtype="float32", ndim=1)
) -> R.Tensor(dtype="float32", ndim=2):
    n = T.int64()
    z = R.match_cast(x, R.Tensor((n, 4), "float32"))
    w: R.Tensor(dtype="float32", ndim=2) = R.add(z, R.ones((n, 4), "float32"))
    s = R.tensor_to_shape(R.const([4, 1], "int64"))
    v = R.multiply(w, R.sum(y))
    return R.add(v, R.full(R.shape([n, 1]), R.prim_value(2), dtype="float32"))
"""
    )
    x, y = np.ones((3, 4), np.float32), np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(run(mod, x, y), np.full((3, 4), 8, np.float32))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("y = R.match_cast(x, R.Tensor((2, 5)))", "its type is known already"),
        ("y = R.match_cast(x, R.Tensor((2, 4), 'int32'))", "which is no such type"),
        ("y: R.Tensor(dtype='float32', ndim=3) = R.exp(x)", "a float32 tensor of 3 dimensions"),
        ("y: R.Tensor(dtype='float31', ndim=2) = R.exp(x)", "float31"),
        ("y: R.Tensor('float32', ndim=-1) = R.exp(x)", "Expected R.Tensor(dtype="),
        ("y = R.reshape(x, R.tensor_to_shape(x))", "expected R.const"),
        ("y = R.einsum((x, x), subscripts='ij,jk->ik')", "'j' stands for axes of two sizes"),
        ("y = R.einsum((x, x), subscripts='ij->ij')", "'ij->ij' of 2 operands"),
        ("y = R.einsum(x, subscripts='iij->j')", "for a tensor of 2 dimensions"),
        ("y = R.einsum(x, subscripts='ij->k')", "is not made of the axes"),
    ],
)
def test_types_that_do_not_fit(body: str, words: str) -> None:
    with pytest.raises(ParseError) as error:
        burnish.parse(f"@R.function\ndef main(x: R.Tensor((2, 4))):\n    {body}\n    return y\n")
    assert words in str(error.value)


def test_named_sizes_go_through() -> None:
    mod = module(
        "R.tile(R.add(R.ones_like(x), x), (2, 1))",
        ("x", '("n", 6), "float32"'),
    )
    rows = np.ascontiguousarray(X[:3, :, 0, 0])
    np.testing.assert_array_equal(run(mod, rows), np.tile(rows + 1, (2, 1)))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ('R.resize2d(x, (7, 5), method="lanczos")', "method='lanczos'; expected nearest_neighbor"),
        ('R.resize2d(x, (7, 5), layout="CHW")', "layout='CHW'; expected NCHW, NHWC"),
        ("R.resize2d(x, (7,))", "expected data of 4 dimensions and a size of 2"),
        ("R.zeros(x)", "Expected a shape"),
        ("R.zeros((2, 3), dtypo='float32')", "R.zeros has no argument 'dtypo'"),
        ("R.rms_norm(x)", "R.rms_norm takes (data, weight, axes, epsilon)"),
        ("R.full((2,), x)", "the value has 4 dimensions; expected a number"),
        ("R.split(x, 4, axis=1)", "6 elements are not 4 equal parts"),
        ("R.split(x, 2, axis=7)", "axis 7 of a tensor of 4 dimensions"),
        ("R.tile(x, (-1, 2))", "expected numbers from 0 up"),
        ("R.group_norm(x, x, x, num_groups=4)", "6 channels are not 4 groups"),
        ("R.group_norm(x, x, x, 3, channel_axis=3)", "expected channels at axis 1"),
        ("R.batch_norm(x, x, x, x, x, training=True)", "this is for inference"),
        ("R.quantize(x, x, x)", "a scale or zero point has 4 dimensions"),
        ("R.quantize(x, 0.5, 0, out_dtype='float32')", "expected int8, uint8, int16 or uint16"),
    ],
)
def test_what_does_not_fit(call: str, words: str) -> None:
    with pytest.raises(ParseError) as error:
        module(call, IMAGE)
    assert words in str(error.value)
