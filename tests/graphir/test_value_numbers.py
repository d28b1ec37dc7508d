"""Which variables have one number."""

# ruff: noqa: F841 (values that nobody reads)
from __future__ import annotations

from burnish.graphir.analysis import bindings
from burnish.graphir.expr import Function, Var
from burnish.graphir.module import IRModule
from burnish.graphir.value_numbers import ValueNumbers
from burnish.script import I, R


@I.ir_module
class Twice:
    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
        with R.dataflow():
            a = R.sum(x, axis=[1])
            b = R.sum(x, axis=[1])
            c = R.sum(x, axis=[0])
            d = R.exp(a)
            e = R.exp(b)
            f = R.add(a, R.const(1.0, "float32"))
            g = R.add(b, R.const(1.0, "float32"))
            h = R.add(b, R.const(2.0, "float32"))
            i = R.broadcast_to(d, R.shape([2, 2]))
            j = R.broadcast_to(e, R.shape([2, 2]))
            k = R.broadcast_to(e, R.shape([3, 2]))
            R.output(a)
        return a


def test_the_same_operations_of_the_same_values() -> None:
    module: IRModule = Twice
    main = module["main"]
    assert isinstance(main, Function)
    bound = {b.var: b.value for b in bindings(main)}
    numbers = ValueNumbers(lambda v: bound.get(v) if isinstance(v, Var) else None)
    of = {v.name: numbers.of(v) for v in reversed(bound)}
    assert of["a"] == of["b"]
    assert of["d"] == of["e"]
    assert of["f"] == of["g"]
    assert of["i"] == of["j"]
    assert len(set(of.values())) == 7
    assert numbers.of(main.params[0]) not in of.values()


def test_a_fresh_number_is_that_of_no_value() -> None:
    func = Twice.graph_functions["main"]
    values = {b.var: b.value for b in bindings(func)}
    numbers = ValueNumbers(lambda atom: values.get(atom))  # type: ignore[call-overload]
    first = numbers.fresh()
    known = {numbers.of(var) for var in values}
    assert not {first, numbers.fresh()} & known
    assert first != numbers.fresh()
