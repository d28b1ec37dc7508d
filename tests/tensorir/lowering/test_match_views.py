"""Views of regions: every shape that is one, run natively, and each thing that is none."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
import pytest

from burnish.support.errors import CodegenError
from burnish.support.structural import assert_structural_equal
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.lowering.lower_blocks import lower_blocks
from burnish.tensorir.text.parser import parse_func
from burnish.tests.native import call_native

A = np.random.default_rng(0).random((8, 32), "float32")


def func(loops: str, extent: int, body: str, shape: Sequence[int] = (8, 32)) -> PrimFunc:
    """A block over ``extent`` iterations of ``vi``, with ``body`` inside."""
    buffer = f"T.Buffer({tuple(shape)})"
    text = f"""
@T.prim_func
def main(A: {buffer}, C: {buffer}):
    for i in range({extent}):
        with T.block("outer"):
            vi = T.axis.spatial({extent}, i)
            T.reads({loops.format(b="A")})
            T.writes({loops.format(b="C")})
""" + textwrap.indent(textwrap.dedent(body).strip(), " " * 12)
    made = parse_func(text)
    assert_structural_equal(parse_func(made.script()), made)
    return made


def filled(f: PrimFunc, a: np.ndarray) -> np.ndarray:
    """What ``f`` writes into its second parameter."""
    out = np.zeros_like(a)
    call_native(f, a, out)
    return out


TILE = "{b}[vi * 4:vi * 4 + 4, 0:32]"
ROW = "{b}[vi, 0:32]"
COLUMN = "{b}[0:8, vi]"


@pytest.mark.parametrize(
    ("region", "extent", "body"),
    [
        (
            TILE,
            2,
            """
            X = T.match_buffer(A[vi * 4:vi * 4 + 4, 0:32], (4, 32))
            Y = T.match_buffer(C[vi * 4:vi * 4 + 4, 0:32], (4, 32))
            for a, b in T.grid(4, 32):
                Y[a, b] = X[a, b] + 1.0
            """,
        ),
        (
            ROW,
            8,
            """
            X = T.match_buffer(A[vi, 0:32], (32,))
            Y = T.match_buffer(C[vi, 0:32], (1, 32))
            for b in T.vectorized(32):
                Y[0, b] = X[b] + 1.0
            """,
        ),
        (
            COLUMN,
            32,
            """
            X = T.match_buffer(A[0:8, vi], (8,), strides=[32])
            Y = T.match_buffer(C[0:8, vi], (8, 1))
            for b in range(8):
                Y[b, 0] = X[b] + 1.0
            """,
        ),
        (
            TILE,
            2,
            """
            X = T.match_buffer(A[vi * 4:vi * 4 + 4, 0:32], (128,))
            Y = T.match_buffer(C[vi * 4:vi * 4 + 4, 0:32], (2, 2, 32))
            for b in range(128):
                Y[b // 64, b % 64 // 32, b % 32] = X[b] + 1.0
            """,
        ),
        (
            TILE,
            2,
            """
            X = T.match_buffer(A[vi * 4:vi * 4 + 4, 0:32], (4, 32))
            for a in range(4):
                with T.block("inner"):
                    va = T.axis.spatial(4, a)
                    T.reads(X[va, 0:32])
                    Z = T.match_buffer(X[va, 0:32], (32,))
                    for b in range(32):
                        C[vi * 4 + va, b] = Z[b] + 1.0
            """,
        ),
        (
            TILE,
            2,
            """
            Y = T.match_buffer(C[vi * 4:vi * 4 + 4, 0:32], (4, 32), strides=[32, 1],
                               elem_offset=vi * 128)
            for a, b in T.grid(4, 32):
                Y[a, b] = A[vi * 4 + a, b] + 1.0
            """,
        ),
    ],
    ids=["tile", "row", "column", "reshape", "view of a view", "stated layout"],
)
def test_a_view_is_the_region(region: str, extent: int, body: str) -> None:
    np.testing.assert_array_equal(filled(func(region, extent, body), A), A + 1)


def test_a_middle_dimension_may_be_left_out() -> None:
    f = func(
        "{b}[0:2, vi, 0:32]",
        4,
        """
        X = T.match_buffer(A[0:2, vi, 0:32], (2, 32), strides=["s0", 1])
        for b, d in T.grid(2, 32):
            C[b, vi, d] = X[b, d] + 1.0
        """,
        (2, 4, 32),
    )
    a = A.reshape(2, 4, 32)
    np.testing.assert_array_equal(filled(f, a), a + 1)


def test_variables_of_the_layout_take_their_values() -> None:
    f = func(
        TILE,
        2,
        """
        X = T.match_buffer(A[vi * 4 + 1:vi * 4 + 4, 8:16], (3, 8), strides=("s0", "s1"),
                           elem_offset="at")
        Z = T.match_buffer(X[1, 2:8], (6,), strides=("t0",), elem_offset="there")
        C[vi, 0] = T.Cast("float32", s0)
        C[vi, 1] = T.Cast("float32", s1)
        C[vi, 2] = T.Cast("float32", at)
        C[vi, 3] = T.Cast("float32", t0)
        C[vi, 4] = T.Cast("float32", there)
        """,
    )
    out = filled(f, A)
    assert out[0, :5].tolist() == [32, 1, 40, 1, 74]
    assert out[1, :5].tolist() == [32, 1, 168, 1, 202]


@pytest.mark.parametrize(
    ("match", "message"),
    [
        (
            "X = T.match_buffer(A[vi * 4:vi * 4 + 4, 0:16], (64,))",
            r"match_buffer X of shape \(64\) is no view of the region of shape \(4, 16\) of A",
        ),
        (
            "X = T.match_buffer(A[vi * 4:vi * 4 + 4, 0:32], (4, 31))",
            "Expected the region's dimensions",
        ),
        (
            "X = T.match_buffer(A[vi * 4:vi * 4 + 4, 0:32], (4, 32), strides=(33, 1))",
            "33",
        ),
        (
            "X = T.match_buffer(A[vi * 4:vi * 4 + 4, 0:32], (4, 32), elem_offset=7)",
            "7",
        ),
        (
            'X = T.match_buffer(A[vi * 4:vi * 4 + 4, 0:32], (4, 32), "int32")',
            "match_buffer X of A must keep its dtype, float32; found int32",
        ),
        (
            'X = T.match_buffer(A[0:8, 0:32], (8, 32), strides=("s", "s"))',
            "states a stride or an offset of s; found 1",
        ),
    ],
)
def test_what_is_no_view_is_an_error(match: str, message: str) -> None:
    f = func(TILE, 2, match + "\nC[vi, 0] = 1.0")
    with pytest.raises(CodegenError, match=message):
        lower_blocks(f)
