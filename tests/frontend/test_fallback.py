"""What both front ends share of operators that a foreign framework runs."""

from __future__ import annotations

from burnish.frontend.fallback import FallbackCalls
from burnish.graphir.builder import BlockBuilder
from burnish.graphir.expr import CallDPSPacked, TupleGetItem, Var
from burnish.graphir.type import TensorType
from burnish.support.dtype import DType
from burnish.tensorir.expr import Expr, IntImm
from burnish.tensorir.expr import Var as DimVar


def kind(*dims: int | Expr) -> TensorType:
    shape = tuple([IntImm(d) if isinstance(d, int) else d for d in dims])
    return TensorType(shape, DType("float32"))


def test_a_call_writes_results_of_the_types_that_are_said() -> None:
    builder, calls = BlockBuilder(), FallbackCalls("eager", "eager PyTorch")
    x = Var("x", kind(2, 3))
    with builder.function("main", [x]), builder.dataflow():
        (one,) = calls.emit_call(builder, "foo", print, [x], [kind(4)])
        two = calls.emit_call(builder, "foo", print, [x], [kind(4), kind(5)])
        values = [builder.lookup_binding(v) for v in (one, *two)]
        builder.emit_func_output(builder.emit_output(one))
    assert [type(v) for v in values] == [CallDPSPacked, TupleGetItem, TupleGetItem]
    assert len(calls.functions) == 2
    assert all(name.startswith("eager.foo.") for name in calls.functions)


def test_each_operator_is_a_sentence() -> None:
    calls = FallbackCalls("eager", "eager PyTorch")
    calls.note("foo", "net.py:1", [kind(2, 3), kind(5)])
    calls.note("foo", "net.py:2", [kind(1)])
    calls.note("bar", "net.py:3", [kind(DimVar("n"))])
    assert calls.notes == (
        "foo runs in eager PyTorch, 2 times in a call of the model, first at net.py:1: each time "
        "it ends a native segment, and 48 bytes of results are copied.",
        "bar runs in eager PyTorch, once in a call of the model, first at net.py:3: each time it "
        "ends a native segment, and its results are copied.",
    )


def test_what_is_given_up_is_forgotten() -> None:
    calls = FallbackCalls("eager", "eager PyTorch")
    calls.note("foo", "net.py:1", [kind(1)])
    before, notes = calls.snapshot(), calls.notes
    calls.note("foo", "net.py:2", [kind(1)])
    calls.functions["foo"] = print
    calls.restore(before)
    assert (calls.notes, calls.functions) == (notes, {})
