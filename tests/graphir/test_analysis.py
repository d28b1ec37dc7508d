"""Uses, callees and post-dominators of small graphs."""

from __future__ import annotations

import pytest

from burnish.graphir.analysis import (
    called_functions,
    dataflow_graph,
    dps_calls,
    solve_shape_vars,
    uses,
)
from burnish.graphir.dim import DimError, print_dim
from burnish.graphir.expr import Function
from burnish.graphir.op import type_of
from burnish.graphir.passes.legalize import LegalizeOps
from burnish.graphir.text.parser import parse_module
from burnish.graphir.type import tensor_type
from burnish.tensorir.expr import Var

A = Var("a")


def main_of(*lines: str, result: str, output: str = "") -> Function:
    body = "".join(f"        {line}\n" for line in lines)
    func = parse_module(
        f'@R.function\ndef main(x: R.Tensor((2,)), c: R.Tensor((), "bool")):\n'
        f"    with R.dataflow():\n{body}"
        f"        R.output({output or result})\n    return {result}\n"
    )["main"]
    assert isinstance(func, Function)
    return func


def dominators(func: Function) -> dict[str, str | None]:
    graph = dataflow_graph(func.body.blocks[0], func)
    names = [b.var.name for b in graph.bindings]
    return {
        n: None if d is None else names[d]
        for n, d in zip(names, graph.post_dominators(), strict=True)
    }


def test_paths_of_a_diamond_meet_at_its_end() -> None:
    func = main_of(
        "a = R.exp(x)",
        "b = R.relu(a)",
        "d = R.tanh(a)",
        "e = R.add(b, d)",
        "f = R.abs(e)",
        result="f",
    )
    assert dominators(func) == {"a": "e", "b": "e", "d": "e", "e": "f", "f": None}


def test_a_value_that_leaves_meets_nothing() -> None:
    func = main_of("a = R.exp(x)", "b = R.relu(a)", result="(a, b)", output="a, b")
    assert dominators(func) == {"a": None, "b": None}


def test_an_unread_value_meets_nothing() -> None:
    func = main_of("a = R.exp(x)", "b = R.relu(a)", "d = R.tanh(a)", result="b")
    assert dominators(func) == {"a": None, "b": None, "d": None}


def test_the_graph_lists_each_edge_once() -> None:
    func = main_of("a = R.exp(x)", "b = R.add(a, a)", result="b")
    graph = dataflow_graph(func.body.blocks[0], func)
    assert graph.producers == ((), (0,))
    assert graph.consumers == ((1,), ())
    assert graph.escapes == (False, True)


def test_uses_count_every_read() -> None:
    func = main_of("a = R.exp(x)", "b = R.add(a, a)", result="(b, a)", output="a, b")
    assert {v.name: n for v, n in uses(func).items()} == {"x": 1, "a": 3, "b": 1}


def test_uses_inside_of_branches_count() -> None:
    text = (
        '@R.function\ndef main(x: R.Tensor((2,)), c: R.Tensor((), "bool")):\n'
        "    a = R.exp(x)\n    if c:\n"
        "        y = R.relu(a)\n    else:\n        y = a\n    return y\n"
    )
    func = parse_module(text)["main"]
    assert isinstance(func, Function)
    counts = {v.name: n for v, n in uses(func).items()}
    assert counts["a"] == 2
    assert counts["c"] == 1


def test_packed_calls_of_the_module_are_calls() -> None:
    module = parse_module(
        "@I.ir_module\nclass M:\n    @R.function\n    def main(x: R.Tensor((2,))):\n"
        '        a = R.call_dps_packed("f", (x,), R.Tensor((2,)))\n'
        '        b = R.call_dps_packed("env.g", (a,), R.Tensor((2,)))\n        return cls.f(b)\n'
        "    @R.function\n    def f(x: R.Tensor((2,))):\n        return x\n"
    )
    main = module["main"]
    assert isinstance(main, Function)
    assert called_functions(main, list(module)) == {"f"}
    assert list(dps_calls(main)) == []


def test_the_callees_dims_are_solved_in_the_callers() -> None:
    module = LegalizeOps()(
        parse_module(
            '@R.function\ndef main(x: R.Tensor(("a * 2", 3))):\n    return R.permute_dims(x)\n'
        )
    )
    main, func = module["main"], module.prim_funcs["permute_dims"]
    assert isinstance(main, Function)
    (call,) = dps_calls(main)
    found = solve_shape_vars(func, [type_of(a) for a in call.args], call.out_type)
    assert {v.name: print_dim(d) for v, d in found.items()} == {"n": "a * 2"}
    assert all(v not in list(found.values()) for v in found)
    with pytest.raises(DimError, match="dim 5 does not fit the parameter's dim 3"):
        solve_shape_vars(func, [tensor_type((A * 2, 5))], tensor_type((5, A * 2)))
