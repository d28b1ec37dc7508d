"""Which values a pattern stands for."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish import graph
from burnish.graphir.analysis import bindings
from burnish.graphir.builder import BlockBuilder
from burnish.graphir.expr import Function, Var
from burnish.graphir.module import IRModule
from burnish.graphir.patterns.matching import find, match, operands
from burnish.graphir.patterns.pattern import (
    Pattern,
    PatternError,
    is_call_dps,
    is_call_dps_packed,
    is_call_function,
    is_const,
    is_op,
    is_param,
    is_shape,
    is_tuple,
    is_tuple_get_item,
    is_var,
    wildcard,
)
from burnish.graphir.text.parser import parse_module

MODULE = parse_module("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4, 8)), y: R.Tensor((4, 8)), w: R.Tensor((8, 8))):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.add(R.const(2.0, "float32"), a)
            c = R.relu(b)
            d = c
            e = R.softmax(d, axis=1)
            f = R.subtract(y, e)
            g = R.multiply(f, f)
            h = R.multiply(f, e)
            i = R.reshape(h, R.shape([8, 4]))
            t = (g, i)
            j = t[1]
            k = R.call_dps_packed("env.f", (j, g), out_type=R.Tensor((8, 4), "float64"))
            R.output(k)
        return k
""")


def names(pattern: Pattern, module: IRModule = MODULE) -> list[str]:
    """The variables that a pattern matches."""
    found = [m[pattern] for m in find(pattern, module)]
    return [v.name for v in found if isinstance(v, Var)]


def test_operators_and_operands() -> None:
    x, w = wildcard(), wildcard()
    product = is_op("matmul")(x, w)
    (found,) = find(is_op("relu")(is_op("add")(product, is_const())), MODULE)
    main = MODULE["main"]
    assert isinstance(main, Function)
    assert (found[x], found[w]) == (main.params[0], main.params[2])
    assert repr(found[product]) == "a"
    call = found.value(product)
    assert isinstance(call, graph.Call)
    assert call.op == "matmul"
    assert found.type(x).dtype == "float32"  # type: ignore[union-attr]
    assert names(is_op("multiply")) == ["g", "h"]
    assert names(is_op("reshape")(wildcard(), ...)) == ["i"]
    assert names(is_op("reshape")(wildcard(), is_shape((8, None)))) == ["i"]
    assert names(is_op("reshape")(wildcard(), is_shape((4, 8)))) == []


def test_one_pattern_is_one_value() -> None:
    f = wildcard()
    assert names(is_op("multiply")(f, f)) == ["g"]
    assert names(is_op("multiply")(wildcard(), wildcard())) == ["g", "h"]


def test_operands_of_commutative_operators_in_both_orders() -> None:
    e = is_op("softmax")
    assert names(is_op("multiply")(e, is_op("subtract"))) == ["h"]
    assert names(is_op("subtract")(e, wildcard())) == []


def test_a_name_for_a_value_is_that_value() -> None:
    assert names(is_op("softmax")(is_op("relu"))) == ["e"]
    relu = is_op("relu")
    assert names(relu) == ["c"]  # d is another name of c


def test_alternatives_are_taken_back() -> None:
    x = wildcard()
    relu = is_op("relu")(x)
    either = x | relu
    # As x, `either` would be the relu itself, and x is a sum then.
    assert names(is_op("softmax")(either) & is_op("softmax")(relu)) == ["e"]
    both = is_op("softmax")(is_op("gelu") | relu)
    (found,) = find(both, MODULE)
    assert relu in found
    with pytest.raises(PatternError, match="alternative that was not taken"):
        found[is_op("gelu")]


def test_optional() -> None:
    pattern = is_op("softmax")(is_op("add").optional(lambda x: is_op("relu")(x)))
    assert names(pattern) == ["e"]
    assert names(is_op("subtract")(is_param(), is_op("softmax").optional(is_op("relu")))) == ["f"]


def test_conditions() -> None:
    assert names(wildcard().has_dtype("float64")) == ["k"]
    assert names(wildcard().has_shape((8, None))) == ["i", "j", "k"]
    assert names(is_op("softmax").has_attr(axis=1)) == ["e"]
    assert names(is_op("softmax").has_attr({"axis": -1})) == []
    assert names(is_op("matmul").has_attr(transpose_b=False)) == ["a"]
    assert names(is_op("add").has_type(graph.tensor_type((4, 8)))) == ["b"]
    assert names(is_op("relu").used_once()) == ["c"]
    assert names(is_op("softmax").used_once()) == []
    heavy = wildcard().where(lambda v: isinstance(v, graph.Call) and len(v.args) == 1)
    assert names(heavy) == ["c", "e"]
    assert names(is_op("add") & wildcard().has_ndim(2)) == ["b"]
    assert names(is_op("multiply") & ~is_op("multiply")(is_op("subtract"), is_op("softmax"))) == [
        "g"
    ]


def test_constants_and_variables() -> None:
    assert names(is_op("add")(wildcard(), is_const(2.0))) == ["b"]
    assert names(is_op("add")(wildcard(), is_const(3.0))) == []
    assert names(is_op("matmul")(is_param("x"), is_var())) == ["a"]
    assert names(is_op("softmax")(is_var("d"))) == names(is_op("softmax")(is_var("c"))) == ["e"]
    assert names(is_op("relu")(is_param())) == []


def test_tuples_and_calls() -> None:
    item = is_tuple_get_item(is_tuple([wildcard(), is_op("reshape")]), 1)
    assert names(is_call_dps_packed("env.f")(item, wildcard())) == ["k"]
    assert names(is_call_dps_packed("env.f", [item])) == []
    assert names(is_call_dps_packed("env.g")) == names(is_call_dps()) == []
    assert names(is_call_function()) == []
    assert names(is_tuple_get_item(wildcard(), 0)) == []


def test_dominators() -> None:
    diamond = parse_module(
        textwrap.dedent("""
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4, 8)), z: R.Tensor((4, 8))):
            with R.dataflow():
                a = R.softmax(x, axis=1)
                b = R.relu(a)
                c = R.multiply(a, R.const(2.0, "float32"))
                d = R.add(b, c)
                e = R.add(d, z)
                R.output(e)
            return e
    """)
    )
    light = is_op("relu") | is_op("multiply") | is_op("add")
    parent = is_op("softmax")
    assert names(parent.dominates(light, is_op("add")), diamond) == ["d"]
    assert names(parent.dominates(is_op("relu"), is_op("add")), diamond) == []


def test_a_large_constant_is_read_by_the_module() -> None:
    bb = BlockBuilder()
    x = Var("x", graph.tensor_type((64,)))
    with bb.function("main", [x]):
        held = bb.weights.add("w", np.full(64, 3, np.float32))
        bb.emit_func_output(bb.emit(graph.op("multiply", x, held)))
    module = bb.get()
    pattern = is_op("multiply")(wildcard(), is_const(3.0))
    assert len(find(pattern, module)) == 1
    func = module["main"]
    assert isinstance(func, Function)
    with pytest.raises(PatternError, match="match in an IRModule"):
        find(pattern, func)


def test_match_at_a_value() -> None:
    main = MODULE["main"]
    assert isinstance(main, Function)
    bound = {b.var.name: b for b in bindings(main)}
    assert match(is_op("softmax"), bound["e"].var, MODULE) is not None
    assert match(is_op("softmax"), bound["e"].value, main) is not None
    assert match(is_op("softmax"), bound["f"].var, MODULE) is None
    assert match(is_op("subtract")(is_param("y"), is_op("softmax")), bound["f"].var, main)
    with pytest.raises(PatternError, match="none of this module's"):
        match(wildcard(), Var("q", graph.tensor_type((1,))), MODULE)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.sampled_from(["relu", "add", "multiply"]), st.integers(0, 9),
                          st.integers(0, 9)), min_size=1, max_size=8))  # fmt: skip
def test_the_whole_of_a_graph_as_a_pattern_matches_it(steps: list[tuple[str, int, int]]) -> None:
    """A pattern made of a random graph, node by node, matches at its last value."""
    bb = BlockBuilder()
    x = Var("x", graph.tensor_type((3,)))
    values: list[Var] = [x]
    patterns: list[Pattern] = [is_param("x")]
    with bb.function("main", [x]):
        for op, i, j in steps:
            a, b = i % len(values), j % len(values)
            at = [a] if op == "relu" else [a, b]
            values.append(bb.emit(graph.op(op, *[values[k] for k in at])))
            patterns.append(is_op(op)(*[patterns[k] for k in at]))
        bb.emit_func_output(values[-1])
    found = match(patterns[-1], values[-1], bb.get())
    assert found is not None
    assert all(found[p] is v for p, v in zip(patterns, values, strict=True) if p in found)


def test_operands() -> None:
    main = MODULE["main"]
    assert isinstance(main, Function)
    assert [len(operands(b.value)) for b in bindings(main)] == [2, 2, 1, 0, 1, 2, 2, 2, 2, 2, 1, 2]
