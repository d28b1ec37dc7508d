"""FusePrimFuncs: one kernel a group, its binders its own, its attributes carried over."""

from __future__ import annotations

import numpy as np

from burnish.graphir.expr import CallDPS
from burnish.graphir.module import IRModule
from burnish.graphir.passes.annotate_pattern import AnnotatePattern
from burnish.graphir.passes.fuse_ops import FuseOps
from burnish.graphir.passes.fuse_prim_funcs import FusePrimFuncs
from burnish.graphir.passes.legalize import LEGALIZED, LegalizeOps
from burnish.graphir.text.parser import parse_module
from burnish.graphir.verify import verify_module
from burnish.support.node import walk
from burnish.tensorir.stmt import Block, For
from burnish.tests.graphir.reference import run

W = np.arange(24, dtype="float32").reshape(4, 6)


def fused(*lines: str, params: str = "x: R.Tensor((2, 6))", **env: object) -> IRModule:
    body = "".join(f"        {line}\n" for line in lines)
    text = (
        f"@R.function\ndef main({params}):\n    with R.dataflow():\n"
        f"{body}        R.output(y)\n    return y\n"
    )
    module = AnnotatePattern()(LegalizeOps()(parse_module(text, env=env)))
    return verify_module(FusePrimFuncs()(FuseOps()(module)))


def test_a_chain_becomes_one_function(golden) -> None:  # type: ignore[no-untyped-def]
    module = fused("y = R.relu(R.add(x, b))", params='x: R.Tensor(("m", 6)), b: R.Tensor((6,))')
    golden(IRModule.from_expr(module["fused_add_relu"]).script())


def test_layout_free_is_carried_to_the_new_position() -> None:
    module = fused("a = R.linear(x, W)", "y = R.add(R.relu(a), a)", W=W)
    func = module["fused_linear_relu_add"]
    assert func.attr("layout_free") == [1]
    assert func.attr("op_pattern") == "out_fusable"
    assert func.attr(LEGALIZED) == "linear_relu_add"
    assert [b.name for b in func.buffers][:2] == ["x", "w"]  # type: ignore[union-attr]


def test_only_constants_are_layout_free() -> None:
    module = fused("a = R.linear(x, V)", "y = R.multiply(a, x)", V=np.ones((6, 6), "float32"))
    assert module["fused_linear_multiply"].attr("layout_free") == [1]
    module = fused("y = R.add(R.exp(R.add(x, C)), R.multiply(x, x))", C=np.ones((2, 6), "float32"))
    (name,) = [n for n in module.prim_funcs if n.startswith("fused")]
    assert module[name].attr("layout_free") == [1]


def test_a_kernel_used_twice_is_copied_with_fresh_binders() -> None:
    module = fused("a = R.exp(x)", "b = R.exp(a)", "c = R.exp(b)", "y = R.add(c, a)")
    func = module.prim_funcs["fused_exp_exp_exp_add"]
    blocks = [n.name for n in walk(func.body) if isinstance(n, Block)]
    assert blocks == ["root", "exp", "exp_1", "exp_2", "add"]
    loops = [n.var for n in walk(func.body) if isinstance(n, For)]
    assert len(set(loops)) == len(loops) == 8
    names = [b.name for b in (*func.buffers, *func.root.alloc_buffers)]
    assert len(set(names)) == len(names)


def test_the_same_value_is_one_parameter() -> None:
    module = fused("y = R.relu(R.multiply(x, x))")
    func = module.prim_funcs["fused_multiply_relu"]
    assert len(func.buffers) == 2
    x = np.linspace(-1, 1, 12, dtype="float32").reshape(2, 6)
    np.testing.assert_array_equal(run(module, "main", x), x * x)


def test_intermediates_of_symbolic_size_are_in_the_groups_dims() -> None:
    module = fused(
        "y = R.relu(R.linear(x, w))", params='x: R.Tensor(("m", 6)), w: R.Tensor((4, 6))'
    )
    func = module.prim_funcs["fused_linear_relu"]
    (m,) = func.shape_vars
    assert func.root.alloc_buffers[0].shape[0] is m
    assert m is not module.graph_functions["main"].params[0].type.shape[0]  # type: ignore[union-attr]


def test_no_primitive_function_is_left() -> None:
    module = fused("y = R.relu(R.exp(x))")
    assert list(module.graph_functions) == ["main"]
    (call,) = [b.value for k in module.graph_functions["main"].body.blocks for b in k.bindings]
    assert isinstance(call, CallDPS)


def test_without_groups_nothing_changes() -> None:
    module = AnnotatePattern()(
        LegalizeOps()(
            parse_module("@R.function\ndef main(x: R.Tensor((2,))):\n    return R.exp(x)\n")
        )
    )
    assert FusePrimFuncs()(module)["main"] is module["main"]


def test_a_group_may_give_its_values_further_names() -> None:
    """As a builder's ``emit_output(emit(...))`` does."""
    text = """
@I.ir_module
class Module:
    @R.function
    def group(x: R.Tensor((2, 6), "float32")) -> R.Tensor((2, 6), "float32"):
        R.func_attr({"primitive": True})
        with R.dataflow():
            a = R.add(x, x)
            b = a
            c = R.multiply(b, a)
            d = c
            y = d
            R.output(y)
        return y

    @R.function
    def main(x: R.Tensor((2, 6), "float32")) -> R.Tensor((2, 6), "float32"):
        with R.dataflow():
            y = cls.group(x)
            R.output(y)
        return y
"""
    module = FusePrimFuncs()(LegalizeOps()(parse_module(text)))
    assert len(module.prim_funcs["group"].buffers) == 2
    x = np.arange(12, dtype="float32").reshape(2, 6)
    np.testing.assert_array_equal(run(verify_module(module), "main", x), 4 * x * x)
