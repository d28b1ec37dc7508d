"""PrimFuncs of definitions with several outputs, and of roots that are no arguments."""

from __future__ import annotations

import numpy as np
import pytest

from burnish import te
from burnish.support.errors import ComputeError
from burnish.tensorir.te.create_prim_func import build_prim_func, create_prim_func, dependency_order
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.verify.laws import verify_func
from burnish.tests.tensorir.interpreter import run


def pair() -> tuple[te.Tensor, tuple[te.Tensor, ...]]:
    a = te.placeholder((3, 2), name="A")
    return a, te.compute((3, 2), lambda i, j: (a[i, j] + 1.0, a[i, j] * 2.0), name="P")


def test_several_outputs_are_one_block() -> None:
    a, (more, twice) = pair()
    func = create_prim_func([a, more, twice])
    verify_func(func)
    text = func.script()
    assert text.count("\n        with T.block") == 1
    assert "T.writes(P_v0[v_i, v_j], P_v1[v_i, v_j])" in text
    x = np.arange(6, dtype="float32").reshape(3, 2)
    y, z = np.zeros_like(x), np.zeros_like(x)
    run(func, x, y, z)
    np.testing.assert_array_equal(y, x + 1)
    np.testing.assert_array_equal(z, x * 2)
    verify_func(parse_func(text))


def test_outputs_that_are_no_arguments_are_allocated() -> None:
    a, (more, twice) = pair()
    func = create_prim_func([a, twice])
    assert [b.name for b in func.root.alloc_buffers] == ["P_v0"]
    c = te.compute((3, 2), lambda i, j: more[i, j] + twice[i, j], name="C")
    both = create_prim_func([a, c])
    assert [b.name for b in both.root.alloc_buffers] == ["P_v0", "P_v1"]
    x, out = np.ones((3, 2), "float32"), np.zeros((3, 2), "float32")
    run(both, x, out)
    np.testing.assert_array_equal(out, np.full((3, 2), 4.0))


def test_roots_are_computed_without_being_arguments() -> None:
    a, (more, _) = pair()
    assert more.op is not None
    built = build_prim_func([a], [more.op])
    assert built.blocks[id(more.op)] == "P"
    assert built.buffers[id(more)] is built.func.root.alloc_buffers[0]
    assert [p.name for p in built.func.params] == ["A"]
    verify_func(built.func)


def test_definitions_come_after_what_they_read() -> None:
    a, (more, _) = pair()
    c = te.compute((3, 2), lambda i, j: more[i, j] + a[i, j], name="C")
    d = te.compute((3, 2), lambda i, j: c[i, j] + more[i, j], name="D")
    assert d.op is not None
    assert c.op is not None
    assert [op.name for op in dependency_order([d.op, c.op])] == ["P", "C", "D"]


def test_errors() -> None:
    a, outputs = pair()
    with pytest.raises(ComputeError, match=r"found tuple\. Write the outputs one by one"):
        create_prim_func([a, outputs])  # type: ignore[list-item]
    k = te.reduce_axis((0, 2), "k")
    with pytest.raises(ComputeError, match="has several outputs and a reduction among them"):
        te.compute((3,), lambda i: (te.sum(a[i, k], axis=k), a[i, 0]))
    with pytest.raises(ComputeError, match="gives an empty tuple; it has no output"):
        te.compute((3,), lambda i: ())
    both = te.comm_reducer(
        lambda x, y: (x[0] + y[0], x[1] + y[1]),
        lambda t, u: (te.const(0, t), te.const(0, u)),
        "both",
    )
    with pytest.raises(
        ComputeError, match="must give the 2 values of the reduction 'both', all of"
    ):
        te.compute((3,), lambda i: both((a[i, k], a[i, k]), axis=k)[0])


def test_a_tensor_among_the_attributes_becomes_a_name() -> None:
    a, b = te.placeholder((2,), name="A"), te.placeholder((2,), name="B")
    c = te.compute(
        (2,), lambda i: a[i] + b[i], name="C", attrs={"layout_free_placeholders": [b], "depth": 3}
    )
    text = create_prim_func([a, b, c]).script()
    assert 'T.block_attr({"layout_free_placeholders": ["B"], "depth": 3})' in text
    parse_func(text)
