"""Definitions taken apart: which tensors, axes and bodies the parts have."""

from __future__ import annotations

from burnish import te
from burnish.tensorir.expr import BufferLoad, Reduce, Var
from burnish.tensorir.stages.redefine import ReducePart, cached_read, cached_write, factored
from burnish.tests.strategies.stages import argmax


def sums() -> tuple[te.Tensor, te.Tensor, te.ReduceAxis]:
    a = te.placeholder((4, 9), name="A")
    k = te.reduce_axis((0, 9), "k")
    return a, te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="B"), k


def test_a_cached_write_leaves_the_old_definition_alone() -> None:
    _, b, k = sums()
    assert b.op is not None
    body = b.op.body
    cache, copy = cached_write(b.op, "local")
    assert b.op.body is body
    assert (cache.name, cache.outputs[0].scope, cache.reduce_axis) == ("B.local", "local", (k,))
    assert cache.axis[0].var is not b.op.axis[0].var
    assert copy.axis is b.op.axis
    assert copy.outputs == (b,)
    assert isinstance(copy.body, BufferLoad)
    assert copy.inputs == cache.outputs


def test_a_cached_read_changes_its_readers_alone() -> None:
    a, b, _ = sums()
    assert b.op is not None
    cache, (reader,) = cached_read(a, "local", [b.op])
    assert cache.inputs == (a,)
    assert reader.inputs == cache.outputs
    assert reader.axis is b.op.axis
    assert b.op.inputs == (a,)


def test_a_factored_reduction_is_guarded_where_sizes_do_not_divide() -> None:
    _, b, k = sums()
    assert b.op is not None
    outer, inner = ReducePart(Var("ko"), te.const(3)), ReducePart(Var("ki"), te.const(4))
    value = outer.var * 4 + inner.var
    partial, final = factored(b.op, inner, [outer], {k: value}, [value < 9], 0)
    assert [x.var.name for x in partial.axis] == ["ki", "i"]
    assert [x.name for x in partial.reduce_axis] == ["ko"]
    assert isinstance(partial.body, Reduce)
    assert partial.body.source.op == "if_then_else"
    assert [x.name for x in final.reduce_axis] == ["ki.v"]
    assert final.inputs == partial.outputs
    whole, _ = factored(b.op, inner, [outer], {k: value}, [], 1)
    assert isinstance(whole.body.source, BufferLoad)
    assert [x.var.name for x in whole.axis] == ["i", "ki"]


def test_values_of_a_tuple_stay_together() -> None:
    a = te.placeholder((4, 9), name="A")
    k = te.reduce_axis((0, 9), "k")
    place, _ = te.compute((4,), lambda i: argmax()((k.var, a[i, k]), axis=k), name="T")
    cache, copy = cached_write(place.op, "local")
    assert cache.bodies[0].sources is cache.bodies[1].sources
    assert [t.name for t in cache.outputs] == ["T_v0.local", "T_v1.local"]
    assert copy.outputs == place.op.outputs
