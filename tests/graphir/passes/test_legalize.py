"""LegalizeOps: kernels, sharing, views, scalars, layout_free."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from burnish.graphir.expr import Call, CallDPS
from burnish.graphir.module import IRModule
from burnish.graphir.op import _OPS, Op, register
from burnish.graphir.passes.annotate_pattern import leaf_blocks
from burnish.graphir.passes.legalize import LEGALIZED, LegalizeOps
from burnish.graphir.text.parser import parse_module
from burnish.graphir.verify import verify_module
from burnish.support.errors import PassError

BIG = np.ones((4, 8), "float32")


def legal(body: str, params: str = "x: R.Tensor((4, 8))", **env: object) -> IRModule:
    lines = "".join(f"        {line}\n" for line in body.split("\n"))
    text = (
        f"@R.function\ndef main({params}):\n    with R.dataflow():\n"
        f"{lines}        R.output(y)\n    return y\n"
    )
    return verify_module(LegalizeOps()(parse_module(text, env=env)))


def values(module: IRModule) -> list[object]:
    return [b.value for k in module.graph_functions["main"].body.blocks for b in k.bindings]


def test_an_operator_becomes_a_call_of_a_kernel(golden) -> None:  # type: ignore[no-untyped-def]
    golden(legal("y = R.add(x, b)", 'x: R.Tensor(("m", 8)), b: R.Tensor((8,))').script())


def test_equal_kernels_are_shared_and_others_numbered() -> None:
    module = legal("a = R.exp(x)\nb = R.exp(a)\nc = R.sum(b, axis=0)\ny = R.exp(c)")
    assert [v.func.name for v in values(module) if isinstance(v, CallDPS)] == [
        "exp",
        "exp",
        "sum",
        "exp_1",
    ]
    assert module["exp_1"].attr(LEGALIZED) == "exp"


def test_kernels_with_other_names_of_dims_are_shared() -> None:
    params = 'x: R.Tensor(("m", 8)), z: R.Tensor(("n", 8))'
    module = legal("a = R.exp(x)\nb = R.exp(z)\ny = (a, b)", params)
    assert list(module.prim_funcs) == ["exp"]
    (func,) = module.prim_funcs.values()
    dims = {p.type.shape[0] for p in module.graph_functions["main"].params}  # type: ignore[union-attr]
    assert func.shape_vars[0] not in dims


def test_views_stay() -> None:
    module = legal("a = R.flatten(x)\nb = R.expand_dims(a, axis=0)\ny = R.squeeze(b)")
    assert [v.op for v in values(module) if isinstance(v, Call)] == ["reshape"] * 3
    assert module.prim_funcs == {}


def test_scalar_constants_are_written_into_the_kernel() -> None:
    module = legal("a = R.multiply(x, 2.0)\ny = R.multiply(a, 3.0)")
    assert len(module.prim_funcs) == 2
    assert "T.float32(2)" in module.script()
    for call in values(module):
        assert isinstance(call, CallDPS)
        assert len(call.args) == 1
    for func in module.prim_funcs.values():
        assert [len(b.reads) for b in _blocks(func)] == [1]


def _blocks(func: object) -> list[object]:
    return leaf_blocks(func.root.body) or []  # type: ignore[attr-defined]


def test_parameters_that_are_always_constant_are_layout_free() -> None:
    module = legal("a = R.add(x, W)\ny = R.add(a, W)", W=BIG)
    assert module["add"].attr("layout_free") == [1]
    module = legal("a = R.add(x, W)\ny = R.add(a, x)", W=BIG)
    assert module["add"].attr("layout_free") == [1]
    assert module["add_1"].attr("layout_free") is None


def test_several_positions() -> None:
    module = legal("y = R.linear(x, W, R.const([1.0, 2.0, 3.0, 4.0]))", W=BIG)
    assert module["linear"].attr("layout_free") == [1, 2]


def test_operators_without_a_kernel_are_refused() -> None:
    register(Op("test_only", ("x",), lambda call: call.args[0].type))  # type: ignore[union-attr]
    try:
        with pytest.raises(PassError, match="test_only: this operator has no kernel"):
            legal("y = R.test_only(x)")
    finally:
        del _OPS["test_only"]


def test_branches_are_legalized() -> None:
    module = LegalizeOps()(
        parse_module(
            '@R.function\ndef main(x: R.Tensor((2,)), c: R.Tensor((), "bool")):\n'
            "    if c:\n        a = R.exp(x)\n"
            "        y = a\n    else:\n        b = R.exp(x)\n        y = b\n    return y\n"
        )
    )
    assert list(verify_module(module).prim_funcs) == ["exp"]


def test_repeated_layers_are_legalized_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what their kernel depends on: shapes, attributes, values of scalars, equal operands."""
    made: list[str] = []
    exp, add = _OPS["exp"], _OPS["add"]
    for op in (exp, add):
        rule = op.legalize
        assert rule is not None

        def counted(call: Call, rule: Any = rule) -> Any:
            made.append(call.op)
            return rule(call)

        monkeypatch.setitem(_OPS, op.name, replace(op, legalize=counted))
    one, two = 'R.const(1.0, "float32")', 'R.const(2.0, "float32")'
    body = (
        f"a = R.exp(x)\nb = R.exp(a)\nc = R.add(b, {one})\nd = R.add(c, {one})\n"
        f"e = R.add(d, {two})\nf = R.add(e, a)\ng = R.add(f, f)\nh = R.add(g, v)\ny = R.add(h, v)"
    )
    module = legal(body, v=BIG)
    assert made == ["exp", "add", "add", "add", "add", "add"]
    calls = [v.func.name for v in values(module) if isinstance(v, CallDPS)]
    assert len(calls) == 9
    assert len(set(calls)) == len(module.prim_funcs)
    # Symbolic sizes: a kernel has Vars of its own, and is compared as it was made.
    made.clear()
    symbolic = legal("a = R.exp(x)\ny = R.exp(a)", 'x: R.Tensor(("m", 8))')
    assert made == ["exp", "exp"]
    assert len(symbolic.prim_funcs) == 1
