"""Buffers: shapes, indexing, identity."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.tensorir.buffer import make_buffer, ravel, unravel
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


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
def test_unravel_inverts_ravel(shape: list[int], data: st.DataObject) -> None:
    at = tuple([data.draw(st.integers(0, s - 1)) for s in shape])
    dims = tuple([IntImm(s) for s in shape])
    flat = ravel(tuple([IntImm(i) for i in at]), dims)
    assert isinstance(flat, IntImm)
    assert flat.value == np.ravel_multi_index(at, shape)
    found = unravel(flat, dims)
    assert tuple([i.value for i in found if isinstance(i, IntImm)]) == at
