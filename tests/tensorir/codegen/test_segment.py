"""Segments: a chain of kernels behind one symbol."""

from __future__ import annotations

import ctypes
from typing import Literal

import numpy as np
import pytest

from burnish.support.errors import CodegenError
from burnish.support.host import native_target
from burnish.tensorir.codegen.object import emit_object
from burnish.tensorir.codegen.segment import emit_segment
from burnish.tensorir.expr import IntImm, Var
from burnish.tensorir.segment import SegmentCall
from burnish.tensorir.text.parser import parse_func
from burnish.tests.native import Native, lower, prepare

SCALE = """
@T.prim_func
def scale(a: T.handle, b: T.handle):
    T.func_attr({"global_symbol": "scale"})
    m = T.int64()
    A = T.match_buffer(a, (m,), "float32")
    B = T.match_buffer(b, (m,), "float32")
    for i in range(m):
        with T.block("B"):
            vi = T.axis.spatial(m, i)
            B[vi] = A[vi] * T.float32(2)
"""
ADD = """
@T.prim_func
def add(a: T.handle, b: T.handle, c: T.handle):
    T.func_attr({"global_symbol": "add"})
    m = T.int64()
    A = T.match_buffer(a, (m,), "float32")
    B = T.match_buffer(b, (m,), "float32")
    C = T.match_buffer(c, (m,), "float32")
    W = T.alloc_buffer((m,), "float32")
    for i in range(m):
        with T.block("W"):
            vi = T.axis.spatial(m, i)
            W[vi] = A[vi] + B[vi]
    for i in range(m):
        with T.block("C"):
            vi = T.axis.spatial(m, i)
            C[vi] = W[m - 1 - vi]
"""


def test_kernels_pass_intermediates_through_the_workspace() -> None:
    target = native_target()
    n = Var("n")
    calls = [
        SegmentCall("scale", (("arg", 0), ("workspace", IntImm(64))), (n * 2,), IntImm(0)),
        SegmentCall(
            "add",
            (("workspace", IntImm(64)), ("arg", 0), ("arg", 1)),
            (n * 2,),
            64 + (n * 8 + 63) // 64 * 64,
        ),
    ]
    segment = emit_segment("both", calls, 2, ["n"], target, keep_text=True)
    kernels = emit_object([lower(parse_func(SCALE)), lower(parse_func(ADD))], target)
    native = Native([kernels.image, segment.image], ["both"])
    for size in (1, 50):
        a = np.arange(2 * size, dtype="float32")
        c = np.empty(2 * size, "float32")
        native.call("both", [a, c], [size], 1 << 12, 1)
        np.testing.assert_array_equal(c, a[::-1] * 3)


def test_a_cancelled_segment_stops_between_its_kernels() -> None:
    n = Var("n")
    args: list[tuple[Literal["arg"], int]] = [("arg", 0), ("arg", 1), ("arg", 2)]
    calls = [
        SegmentCall("scale", (args[0], args[1]), (n,), IntImm(0)),
        SegmentCall("scale", (args[0], args[2]), (n,), IntImm(0)),
    ]
    segment = emit_segment("twice", calls, 3, ["n"], native_target())
    kernels = emit_object([lower(parse_func(SCALE))], native_target())
    native = Native([kernels.image, segment.image], ["twice", "twice.work", "scale.work"])
    a, b, c = (np.full(8, x, "float32") for x in (3, 0, 0))
    call = prepare(native.tracker["twice"], [a, b, c], [8], 64, 1)
    call.runtime.cancel = 1
    call()
    assert (b[0], c[0]) == (6, 0)
    call.runtime.cancel = 0
    call()
    assert (b[0], c[0]) == (6, 6)
    sizes = (ctypes.c_int64 * 1)(8)
    whole, each = (
        ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(native.tracker[name])(sizes)
        for name in ("twice.work", "scale.work")
    )
    assert whole == 2 * each > 0


def test_an_argument_that_does_not_exist_is_an_error() -> None:
    call = SegmentCall("scale", (("arg", 2), ("arg", 0)), (IntImm(4),), IntImm(0))
    with pytest.raises(CodegenError, match="Segment s has 2 arguments; a call names arg 2"):
        emit_segment("s", [call], 2, [], native_target())


def test_a_dimension_that_does_not_exist_is_an_error() -> None:
    call = SegmentCall("scale", (("arg", 0), ("arg", 1)), (Var("q"),), IntImm(0))
    with pytest.raises(CodegenError, match="Segment s has no dimension q; it has n"):
        emit_segment("s", [call], 2, ["n"], native_target())


def test_an_empty_segment_does_nothing() -> None:
    native = Native([emit_segment("nothing", [], 0, [], native_target()).image], ["nothing"])
    native.call("nothing", [], [], 0, 1)
