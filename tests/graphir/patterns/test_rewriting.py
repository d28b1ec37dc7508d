"""Rewriting by patterns: what takes a value's place, where it stands, and what is refused."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import numpy as np
import pytest

import burnish
from burnish import graph
from burnish.graphir.expr import Constant, Function, Value, Var
from burnish.graphir.module import IRModule
from burnish.graphir.passes.dead_code_elimination import DeadCodeElimination
from burnish.graphir.patterns.context import PatternContext
from burnish.graphir.patterns.matching import Matched
from burnish.graphir.patterns.pattern import PatternError, is_const, is_op, wildcard
from burnish.graphir.patterns.rewriting import rewrite_bindings, rewrite_call, rewrite_calls
from burnish.graphir.text.parser import parse_module
from burnish.graphir.verify import verify_module
from burnish.support.structural import assert_structural_equal


def parse(text: str) -> IRModule:
    return parse_module(
        "@I.ir_module\nclass Module:\n" + textwrap.indent(textwrap.dedent(text), "    ")
    )


GATES = parse("""
    @R.function
    def main(x: R.Tensor((4, 8)), w: R.Tensor((8, 8)), u: R.Tensor((8, 8))):
        with R.dataflow():
            a = R.linear(x, w)
            b = R.sigmoid(a)
            c = R.linear(x, u)
            d = R.multiply(b, c)
            R.output(d)
        return d
    """)


def results(module: IRModule) -> np.ndarray:
    main = module["main"]
    assert isinstance(main, Function)
    rng = np.random.default_rng(0)
    inputs = [
        rng.standard_normal([d.value for d in p.type.shape]).astype(np.float32)  # type: ignore[union-attr]
        for p in main.params
    ]
    return np.asarray(burnish.VirtualMachine(burnish.build(module))["main"](*inputs).numpy())


def test_a_call_becomes_another() -> None:
    x = wildcard()
    pattern = is_op("multiply")(is_op("sigmoid")(x), x)
    module = parse("""
    @R.function
    def main(y: R.Tensor((4, 8))):
        with R.dataflow():
            a = R.sigmoid(y)
            b = R.multiply(y, a)
            c = R.add(b, b)
            R.output(c)
        return c
    """)
    made = rewrite_call(pattern, lambda value, m: graph.op("silu", m[x]), module)
    expected = parse("""
    @R.function
    def main(y: R.Tensor((4, 8))):
        with R.dataflow():
            b = R.silu(y)
            c = R.add(b, b)
            R.output(c)
        return c
    """)
    assert_structural_equal(verify_module(DeadCodeElimination()(made)), expected)
    assert rewrite_call(is_op("gelu"), lambda value, m: value, module)["main"] is module["main"]


def test_what_was_rewritten_is_seen_by_later_values_and_left_alone() -> None:
    seen: list[str] = []
    relu = is_op("relu")(wildcard())

    def rewriter(value: Value, matched: Matched) -> Value:
        seen.append(type(matched.value(relu.args[0])).__name__)  # type: ignore[index, arg-type]
        return graph.op("relu", graph.op("relu", matched[relu.args[0]]))  # type: ignore[index, arg-type]

    module = parse("""
    @R.function
    def main(y: R.Tensor((4,))):
        with R.dataflow():
            a = R.relu(y)
            b = R.relu(a)
            R.output(b)
        return b
    """)
    made = rewrite_call(relu, rewriter, module)
    assert seen == ["Var", "Call"]
    assert made.script().count("R.relu") == 4


def test_an_atom_takes_the_place_of_a_value() -> None:
    x = wildcard()
    module = parse("""
    @R.function
    def main(y: R.Tensor((4,))):
        with R.dataflow():
            a = R.negative(y)
            b = R.negative(a)
            c = R.relu(b)
            R.output(c)
        return c
    """)
    made = rewrite_call(is_op("negative")(-x), lambda value, m: m[x], module)
    assert "R.relu(y)" in made.script()


def test_several_rules() -> None:
    x = wildcard()
    rules = [
        (is_op("sigmoid")(x), lambda value, m: graph.op("tanh", m[x])),
        (is_op("sigmoid"), lambda value, m: pytest.fail("the first rule counts")),
        (is_op("multiply"), lambda value, m: value),
        (is_op("multiply"), lambda value, m: graph.op("add", *value.args)),
    ]
    text = rewrite_calls(rules, GATES).script()
    assert "R.tanh" in text
    assert "R.add" in text
    assert "R.multiply" not in text


def test_in_branches_too() -> None:
    module = parse("""
    @R.function
    def main(c: R.Tensor((), "bool"), y: R.Tensor((4,))):
        a = R.sigmoid(y)
        if c:
            b = R.relu(a)
            r = b
        else:
            d = R.tanh(a)
            r = d
        return r
    """)
    pattern = is_op("relu")(is_op("sigmoid")(y := wildcard()))
    made = verify_module(rewrite_call(pattern, lambda v, m: graph.op("gelu", m[y]), module))
    assert "R.gelu(y)" in made.script()


def test_a_function_alone() -> None:
    func = GATES["main"]
    assert isinstance(func, Function)
    made = rewrite_call(is_op("sigmoid"), lambda v, m: graph.op("tanh", v.args[0]), func)  # type: ignore[union-attr]
    assert isinstance(made, Function)
    big = np.zeros((4, 8), np.float32)
    with pytest.raises(PatternError, match="belongs to a module: rewrite the IRModule"):
        rewrite_call(is_op("sigmoid"), lambda v, m: graph.op("add", v, graph.const(big)), func)
    with pytest.raises(PatternError, match="graph function or an IRModule"):
        rewrite_call(is_op("sigmoid"), lambda v, m: v, "main")  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "gave nothing; it gives the new value"),
        (graph.const(2.0, "float32"), "a value of type R.Tensor((), dtype=\"float32\") for 'b'"),
    ],
)
def test_errors_of_rewriters(given: Value | None, said: str) -> None:
    with pytest.raises(PatternError) as error:
        rewrite_call(is_op("sigmoid"), lambda value, m: given, GATES)  # type: ignore[arg-type, return-value]
    assert said in str(error.value)


# -- several values at once ------------------------------------------------------------------------
def test_two_products_become_one() -> None:
    """The new product reads a weight of the second, and stands in front of the first."""
    with PatternContext() as ctx:
        x, w, u = wildcard(), wildcard(), wildcard()
        p, q = is_op("linear")(x, w), is_op("linear")(x, u)

    def rewriter(m: Matched, values: Mapping[Var, Value]) -> Mapping[Var, Value]:
        both = graph.op("linear", m[x], graph.op("concat", m[w], m[u], axis=0))
        part = lambda i: graph.op("strided_slice", both, axes=(1,), begin=(i,), end=(i + 8,))  # noqa: E731
        first, second = m[p], m[q]
        assert isinstance(first, Var)
        assert isinstance(second, Var)
        assert {first, second} <= set(values)
        return {first: part(0), second: part(8)}

    made = verify_module(rewrite_bindings(ctx, rewriter, GATES))
    assert made.script().count("R.linear") == 1
    np.testing.assert_allclose(results(made), results(GATES), rtol=1e-5, atol=1e-5)


def test_a_match_that_is_left_alone_does_not_hide_others() -> None:
    with PatternContext() as ctx:
        linear = is_op("linear")
    asked: list[str] = []

    def rewriter(m: Matched, values: Mapping[Var, Value]) -> Mapping[Var, Value]:
        var = m[linear]
        assert isinstance(var, Var)
        asked.append(var.name)
        return {} if var.name == "a" else {var: graph.op("relu", m.value(linear))}

    made = rewrite_bindings(ctx, rewriter, GATES)
    assert asked == ["a", "c"]  # and not the product that the rewriter made
    assert "c = R.relu(lv)" in made.script()
    assert rewrite_bindings(ctx, lambda m, v: {}, GATES)["main"] is GATES["main"]


def test_sizes_that_are_bound_stay_in_front_of_what_has_them() -> None:
    module = parse("""
    @R.function
    def main(x: R.Tensor((8,)), c: R.Tensor((), "int64")):
        with R.dataflow():
            a = R.relu(x)
            _ = R.bind_size(c, R.shape(["n"]))
            b = R.broadcast_to(c, R.shape(["n"]))
            d = R.negative(b)
            s = R.sum(d, axis=[0])
            t = R.astype(s, dtype="float32")
            u = R.add(a, t)
            R.output(u)
        return u
    """)
    with PatternContext() as ctx:
        relu = is_op("relu")
        t = is_op("astype")

    def rewriter(m: Matched, values: Mapping[Var, Value]) -> Mapping[Var, Value]:
        var = m[relu]
        assert isinstance(var, Var)
        return {var: graph.op("multiply", m.value(relu), m[t])}

    made = verify_module(rewrite_bindings(ctx, rewriter, module))
    text = made.script()
    assert text.index("bind_size") < text.index("R.sum") < text.index("R.multiply")


def test_errors_of_rewriters_of_bindings() -> None:
    with PatternContext() as ctx:
        a, c = is_op("sigmoid"), is_op("linear")
    first = lambda m: m[a]  # noqa: E731
    with pytest.raises(PatternError, match="would be computed of itself"):
        rewrite_bindings(ctx, lambda m, v: {m[c]: graph.op("relu", first(m))}, GATES)  # type: ignore[dict-item]
    with pytest.raises(PatternError, match="is bound in no dataflow block of the match"):
        rewrite_bindings(ctx, lambda m, v: {GATES["main"].params[0]: m[c]}, GATES)  # type: ignore[union-attr, dict-item]
    with pytest.raises(PatternError, match="gave a value of type"):
        rewrite_bindings(ctx, lambda m, v: {m[c]: graph.op("sum", m[c], axis=(0,))}, GATES)  # type: ignore[dict-item]


def test_constants_of_a_rewriter_are_the_modules() -> None:
    held = np.arange(32, dtype=np.float32).reshape(4, 8)
    x = wildcard()
    made = rewrite_call(
        is_op("sigmoid")(x), lambda v, m: graph.op("add", m[x], graph.const(held)), GATES
    )
    (name,) = made.constant_names
    np.testing.assert_array_equal(made.constants[name], held)
    found: list[Constant] = []
    value = is_const()

    def rewriter(v: Value, m: Matched) -> Value:
        constant = m[value]
        assert isinstance(constant, Constant)
        found.append(constant)
        return v

    rewrite_call(is_op("add")(x, value), rewriter, made)
    assert [c.name for c in found] == [name]


def test_rewrite_bindings_takes_a_context_alone() -> None:
    with pytest.raises(PatternError, match="takes a PatternContext; found is_op"):
        rewrite_bindings(is_op("relu"), lambda m, values: {}, IRModule())  # type: ignore[arg-type]
