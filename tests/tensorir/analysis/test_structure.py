from __future__ import annotations

from burnish.support.node import replace
from burnish.support.structural import structural_equal
from burnish.tensorir.analysis.paths import find_block, realize_of
from burnish.tensorir.analysis.structure import is_identity, match_update
from burnish.tensorir.expr import Add, BufferLoad, IntImm, Select, const
from burnish.tensorir.operators.reduce import largest_number
from burnish.tensorir.stmt import Block, BufferStore
from burnish.tensorir.te import compute as te
from burnish.tests.tensorir.schedule.programs import chain, matmul


def block(func: object, name: str) -> Block:
    return realize_of(find_block(func, name, "test")).block  # type: ignore[arg-type]


def test_an_update_is_recognised() -> None:
    c = block(matmul(), "C")
    found = match_update(c)
    assert found is not None
    assert found.buffer.name == "C"
    assert isinstance(found.identity.value, float)  # type: ignore[attr-defined]


def test_what_is_no_regroupable_update() -> None:
    c = block(matmul(), "C")
    assert isinstance(c.body, BufferStore)
    assert match_update(block(chain(), "B")) is None
    assert isinstance(c.init, BufferStore)
    one = replace(c, init=replace(c.init, value=const(1.0, "float32")))
    assert match_update(one) is None, "each partial result would start from 1"
    twice = BufferLoad(c.body.buffer, c.body.indices) + BufferLoad(c.body.buffer, c.body.indices)
    assert match_update(replace(c, body=replace(c.body, value=twice))) is None
    elsewhere = replace(c.init, indices=(IntImm(0), IntImm(0)))
    assert match_update(replace(c, init=elsewhere)) is None


def test_a_maximum_that_leaves_nan_out() -> None:
    a = te.placeholder((4,), name="A")
    k = te.reduce_axis((0, 4), "k")
    b = te.compute((1,), lambda i: largest_number(a[k], axis=[k]), name="B")
    found = block(te.create_prim_func([a, b]), "B")
    update = match_update(found)
    assert update is not None
    assert structural_equal(
        update.combine(BufferLoad(update.buffer, update.indices), update.term),
        found.body.value,  # type: ignore[union-attr]
    )
    assert isinstance(found.body, BufferStore)
    assert isinstance(found.body.value, Select)
    swapped = Select(
        found.body.value.condition, found.body.value.false_value, found.body.value.true_value
    )
    other = replace(found.body, value=swapped)
    assert match_update(replace(found, body=other)) is None, "a minimum that keeps NaN"
    assert isinstance(found.init, BufferStore)
    zero = replace(found.init, value=const(0.0, "float32"))
    assert match_update(replace(found, init=zero)) is None


def test_identities() -> None:
    a = te.placeholder((4,), name="A", dtype="int32")
    k = te.reduce_axis((0, 4), "k")
    for reduce in (te.sum, te.prod, te.max, te.min):
        b = te.compute((1,), lambda i: reduce(a[k], axis=[k]), name="B")  # noqa: B023
        assert match_update(block(te.create_prim_func([a, b]), "B")) is not None
    assert is_identity(Add, const(0, "int32"))
    assert not is_identity(Add, const(1, "int32"))
