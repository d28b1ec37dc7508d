"""ExprMutator: a user's pass in a few lines, and the promises around it."""

from __future__ import annotations

import numpy as np
import pytest

from burnish import te
from burnish.graphir.builder import call_op
from burnish.graphir.expr import Binding, Call, Constant, Function, Value, Var, constant
from burnish.graphir.module import IRModule
from burnish.graphir.mutator import ExprMutator
from burnish.graphir.text.parser import parse_module
from burnish.graphir.text.printer import format_type
from burnish.graphir.verify import verify_module
from burnish.support.errors import BurnishError
from burnish.support.structural import assert_structural_equal


def parse(*lines: str, result: str = "y") -> IRModule:
    body = "".join(f"        {line}\n" for line in lines)
    return parse_module(
        f'@R.function\ndef main(x: R.Tensor((2, 3)), c: R.Tensor((), "bool")):\n'
        f"    with R.dataflow():\n{body}"
        f"        R.output({result})\n    return {result}\n"
    )


class ReluToGelu(ExprMutator):
    def visit_Call(self, call: Call) -> Value:  # noqa: N802
        new = super().visit_Call(call)
        assert isinstance(new, Call)
        return call_op("gelu", *new.args) if new.op == "relu" else new


class DropRelu(ExprMutator):
    def visit_Call(self, call: Call) -> Value:  # noqa: N802
        new = super().visit_Call(call)
        assert isinstance(new, Call)
        return new.args[0] if new.op == "relu" else new


class SquareAsProduct(ExprMutator):
    def visit_Call(self, call: Call) -> Value:  # noqa: N802
        new = super().visit_Call(call)
        assert isinstance(new, Call)
        if new.op != "square":
            return new
        copy = self.emit(call_op("abs", new.args[0]), "magnitude")
        return call_op("multiply", copy, copy)


class SumRows(ExprMutator):
    def visit_Call(self, call: Call) -> Value:  # noqa: N802
        new = super().visit_Call(call)
        assert isinstance(new, Call)
        return call_op("sum", new.args[0], axis=1) if new.op == "exp" else new


def test_an_operation_is_replaced() -> None:
    module = ReluToGelu(parse("a = R.exp(x)", "y = R.relu(a)")).transform()
    assert_structural_equal(verify_module(module), parse("a = R.exp(x)", "y = R.gelu(a)"))


def test_an_atom_replaces_the_variable() -> None:
    module = DropRelu(parse("a = R.relu(x)", "b = R.relu(a)", "y = R.exp(b)")).transform()
    assert_structural_equal(verify_module(module), parse("y = R.exp(x)"))


def test_emitted_bindings_stand_in_front() -> None:
    module = SquareAsProduct(parse("y = R.square(x)")).transform()
    assert_structural_equal(verify_module(module), parse("m = R.abs(x)", "y = R.multiply(m, m)"))
    assert "magnitude = R.abs(x)" in module.script()


def test_types_follow_changed_values() -> None:
    module = verify_module(SumRows(parse("a = R.exp(x)", "y = R.relu(a)")).transform())
    assert format_type(module["main"].ret_type) == 'R.Tensor((2,), dtype="float32")'  # type: ignore[union-attr]


def test_nothing_changed_is_the_same_object() -> None:
    module = parse("a = R.exp(x)", "y = R.tanh(a)")
    for mutator in (ExprMutator(module), ReluToGelu(module), DropRelu(module)):
        assert mutator.transform()["main"] is module["main"]


def test_blocks_without_a_change_stay_the_same_object() -> None:
    text = (
        "@R.function\ndef main(x: R.Tensor((2,))):\n    with R.dataflow():\n"
        "        a = R.exp(x)\n        R.output(a)\n"
        "    b = R.tanh(a)\n    with R.dataflow():\n        y = R.relu(b)\n"
        "        R.output(y)\n    return y\n"
    )
    module = parse_module(text)
    before, after = module["main"], ReluToGelu(module).transform()["main"]
    assert isinstance(before, Function)
    assert isinstance(after, Function)
    assert [a is b for a, b in zip(before.body.blocks, after.body.blocks, strict=True)] == [
        True,
        True,
        False,
    ]


def test_branches_are_visited() -> None:
    text = (
        '@R.function\ndef main(x: R.Tensor((2,)), c: R.Tensor((), "bool")):\n'
        "    if c:\n        a = R.relu(x)\n"
        "        y = a\n    else:\n        y = x\n    return y\n"
    )
    module = verify_module(DropRelu(parse_module(text)).transform())
    assert "relu" not in module.script()
    assert module.script().count("y = x") == 2


def test_constants_can_be_rewritten() -> None:
    class Zero(ExprMutator):
        def visit_Constant(self, constant_: Constant) -> Constant:  # noqa: N802
            return constant(self.array(constant_) * 0)

    module = Zero(parse("y = R.add(x, 2.0)")).transform()
    assert "R.const(0.0" in module.script()


def test_large_constants_that_a_pass_makes_are_weights_of_the_module() -> None:
    class Ones(ExprMutator):
        def visit_Call(self, call: Call) -> Constant:  # noqa: N802
            return constant(np.ones((2, 20), np.float32))

    given = parse_module(
        "@R.function\ndef main(x: R.Tensor((2, 20))):\n    y = R.relu(x)\n    return y\n"
    )
    module = verify_module(Ones(given).transform())
    (values,) = module.constants.values()
    assert values.shape == (2, 20)
    alone = IRModule({}, weights=given.weights)
    mutator = Ones(alone)
    alone["main"] = mutator.visit_function(given.graph_functions["main"])
    assert verify_module(alone).constants.keys() == module.constants.keys()


def test_bindings_can_be_dropped() -> None:
    class NoTanh(ExprMutator):
        def visit_binding(self, binding: Binding) -> None:
            if isinstance(binding.value, Call) and binding.value.op == "tanh":
                self.replaced[binding.var] = self.visit_atom(binding.value.args[0])
            else:
                super().visit_binding(binding)

    module = NoTanh(parse("a = R.tanh(x)", "y = R.relu(a)")).transform()
    assert_structural_equal(module, parse("y = R.relu(x)"))


def test_emitted_names_are_unique() -> None:
    class Twice(ExprMutator):
        def visit_Call(self, call: Call) -> Value:  # noqa: N802
            first = self.emit(call, "a")
            assert isinstance(first, Var)
            return call_op("relu", first)

    module = Twice(parse("a = R.exp(x)", result="a")).transform()
    assert "a_1 = R.exp(x)" in module.script()


def test_an_argument_is_followed_to_its_definition() -> None:
    class Softplus(ExprMutator):
        def visit_Call(self, call: Call) -> Value:  # noqa: N802
            new = super().visit_Call(call)
            assert isinstance(new, Call)
            inner = self.lookup_binding(new.args[0])
            if new.op == "log" and isinstance(inner, Call) and inner.op == "exp":
                return inner.args[0]
            return new

    module = Softplus(parse("a = R.exp(x)", "b = R.log(a)", "y = R.relu(b)")).transform()
    assert_structural_equal(verify_module(module), parse("a = R.exp(x)", "y = R.relu(x)"))


def test_a_call_becomes_a_kernel_of_ones_own() -> None:
    def double(t: te.Tensor) -> te.Tensor:
        return te.compute(t.shape, lambda *i: t[i] * 2.0, name="double")

    class Doubles(ExprMutator):
        def visit_Call(self, call: Call) -> Value:  # noqa: N802
            new = super().visit_Call(call)
            assert isinstance(new, Call)
            return self.builder.call_te(double, *new.args) if new.op == "exp" else new

    module = verify_module(Doubles(parse("a = R.exp(x)", "y = R.exp(a)")).transform())
    assert list(module.prim_funcs) == ["double"]
    assert module.script().count("R.call_dps(cls.double") == 2


def test_a_visit_method_must_return_a_value() -> None:
    class Forgetful(ExprMutator):
        def visit_Call(self, call: Call) -> Value:  # noqa: N802
            super().visit_Call(call)
            return None  # type: ignore[return-value]

    module = parse_module(
        "@R.function\ndef main(x: R.Tensor((2,))):\n    with R.dataflow():\n"
        "        y = R.relu(x)\n        R.output(y)\n    return y\n"
    )
    with pytest.raises(BurnishError, match="Forgetful gave None for the value of 'y'"):
        Forgetful(module).transform()


def test_operations_inside_of_a_value_are_bound_first() -> None:
    class Twice(ExprMutator):
        def visit_Call(self, call: Call) -> Value:  # noqa: N802
            new = super().visit_Call(call)
            assert isinstance(new, Call)
            return call_op("relu", call_op("relu", *new.args)) if new.op == "exp" else new

    module = verify_module(Twice(parse("y = R.exp(x)")).transform())
    assert_structural_equal(module, parse("a = R.relu(x)", "y = R.relu(a)"))
