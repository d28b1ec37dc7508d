"""Buffers: shapes, indexing, identity."""

from __future__ import annotations

from burnish.tensorir.buffer import make_buffer
from burnish.tensorir.expr import BufferLoad, IntImm, Ramp, Var, is_const


def test_ints_of_a_shape_become_constants() -> None:
    n = Var("n")
    b = make_buffer("A", (4, n), "float16", "local")
    assert is_const(b.shape[0], 4)
    assert b.shape[1] is n
    assert (b.ndim, b.dtype, b.scope, b.strides) == (2, "float16", "local", ())
    assert repr(b) == "Buffer(A)"


def test_indexing_is_a_load() -> None:
    b, i = make_buffer("A", (4, 4)), Var("i")
    load = b[i, 2]
    assert isinstance(load, BufferLoad)
    assert load.buffer is b
    assert load.indices[0] is i
    assert is_const(load.indices[1], 2)
    assert load.dtype == "float32"


def test_a_vector_index_loads_a_vector() -> None:
    load = make_buffer("A", (64,))[Ramp(Var("i"), IntImm(1), 16)]
    assert load.dtype == "float32x16"


def test_buffers_are_the_same_only_as_objects() -> None:
    assert make_buffer("A", (4,)) != make_buffer("A", (4,))
