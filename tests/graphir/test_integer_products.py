"""Products and convolutions of bytes, as operators, against int64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from burnish.graphir.builder import BlockBuilder, call_op
from burnish.graphir.expr import Atom, Var, constant
from burnish.graphir.integer_products import Emit, integer_conv, integer_product, is_integer_conv
from burnish.graphir.type import tensor_type
from burnish.graphir.verify import verify_module
from burnish.tests.graphir.reference import run

RNG = np.random.default_rng(0)


def drawn(dtype: str, *shape: int) -> np.ndarray:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, shape, endpoint=True).astype(dtype)


def computed(made: Callable[..., Atom], *inputs: np.ndarray) -> np.ndarray:
    """What ``made(emit, *inputs)`` gives."""
    bb = BlockBuilder()
    params = [Var(f"x{i}", tensor_type(a.shape, str(a.dtype))) for i, a in enumerate(inputs)]
    emit: Emit = lambda name, *args, **attrs: bb.emit(call_op(name, *args, **attrs))  # noqa: E731
    with bb.function("main", params):
        with bb.dataflow():
            result = bb.emit_output(made(emit, *params))
        bb.emit_func_output(result)
    return np.asarray(run(verify_module(bb.get()), "main", *inputs))


@pytest.mark.parametrize("dtypes", [("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8")])
@pytest.mark.parametrize("zeros", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("shapes", [((3, 8), (8, 5)), ((2, 3, 8), (8, 5)), ((8,), (8, 5))])
def test_a_product_less_zero_points(
    dtypes: tuple[str, str], zeros: tuple[bool, bool], shapes: tuple[tuple[int, ...], ...]
) -> None:
    a, b = (drawn(d, *s) for d, s in zip(dtypes, shapes, strict=True))
    points = [constant(n, "int32") if z else None for n, z in zip((7, -3), zeros, strict=True)]
    found = computed(lambda emit, x, w: integer_product(emit, x, w, *points), a, b)
    wide = [
        x.astype(np.int64) - (n if z else 0) for x, n, z in zip((a, b), (7, -3), zeros, strict=True)
    ]
    np.testing.assert_array_equal(found, wide[0] @ wide[1])
    assert found.dtype == np.int32


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("channels", "kernel", "strides", "padding"),
    [
        (16, (3, 2), (1, 2), (1, 1, 0, 1)),
        (16, (1, 1), (1, 1), (0, 0, 0, 0)),
        (16, (1, 1), (2, 2), (0, 0, 0, 0)),
        # A network's first layer: few channels, large windows.
        (3, (7, 5), (2, 1), (3, 2, 0, 1)),
        (1, (10, 10), (2, 2), (3, 3, 3, 3)),
    ],
)
def test_a_convolution_less_zero_points(
    channels: int,
    kernel: tuple[int, int],
    strides: tuple[int, int],
    padding: tuple[int, ...],
    known: bool,
) -> None:
    x, w = drawn("uint8", 2, channels, 5, 6), drawn("int8", 17, channels, *kernel)
    zero, points = np.uint8(9), drawn("int8", 17).astype(np.int32)

    def made(emit: Emit, a: Atom, b: Atom, z: Atom) -> Atom:
        assert is_integer_conv(a, b, 1)
        return integer_conv(
            emit, a, b, 9 if known else z, constant(points, "int32"),
            strides=strides, padding=padding, dilation=(1, 1),
        )  # fmt: skip

    found = computed(made, x, w, np.asarray(zero))
    wide = np.pad(x.astype(np.int64) - 9, ((0, 0), (0, 0), padding[:2], padding[2:]))
    weight = w.astype(np.int64) - points[:, None, None, None]
    expected = np.zeros(found.shape, np.int64)
    for i, j in np.ndindex(found.shape[1:3]):
        window = wide[
            :, :, i * strides[0] : i * strides[0] + kernel[0],
            j * strides[1] : j * strides[1] + kernel[1],
        ]  # fmt: skip
        expected[:, i, j] = np.einsum("ncij,ocij->no", window, weight)
    np.testing.assert_array_equal(found, expected)


def test_which_convolutions_are_products() -> None:
    def is_product(channels: int, kernel: int, *, outputs: int = 16, groups: int = 1) -> bool:
        x = Var("x", tensor_type((1, channels, 25, 25), "uint8"))
        w = Var("w", tensor_type((outputs, channels // groups, kernel, kernel), "int8"))
        return is_integer_conv(x, w, groups)

    assert is_product(16, 3)
    assert is_product(16, 1)
    assert not is_product(16, 3, groups=2)
    assert not is_product(16, 3, outputs=8)
    assert not is_product(3, 3)
    assert is_product(3, 7)
    assert not is_product(4096, 3)
