"""Constants of elementary functions live beside a tile's sums, not across them."""

from __future__ import annotations

from collections.abc import Callable

import llvmlite.ir as ir
import pytest

from burnish.support.target import Target
from burnish.tensorir import operators as op
from burnish.tensorir.codegen.held_constants import HeldConstants, KernelBuilder, held
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.te.compute import Tensor, create_prim_func, placeholder
from burnish.tests import assembly
from burnish.tests.tuner.rules.checking import scheduled

ZEN = Target("llvm -mcpu=znver4")


def product(dtypes: tuple[str, str], after: Callable[[Tensor], Tensor]) -> PrimFunc:
    x = placeholder((128, 384), dtypes[0], name="x")
    w = placeholder((384, 512), dtypes[1], name="w")
    if dtypes[0] == "bfloat16":
        y = op.matmul(x, w, out_dtype="float32")
    else:
        y = op.cast(op.integer_matmul(x, w), "float32")
    return create_prim_func([x, w, after(y)]).with_attr("layout_free", [1])


@pytest.mark.parametrize("dtypes", [("bfloat16", "bfloat16"), ("uint8", "int8")])
@pytest.mark.parametrize("name", ["silu", "gelu", "tanh", "exp"])
def test_sums_of_dot_products_stay_in_registers(dtypes: tuple[str, str], name: str) -> None:
    _, func = scheduled(product(dtypes, getattr(op, name)), target=ZEN)
    loops = assembly.innermost_loops(assembly.kernel_lines(func, ZEN))
    dots = [x for x in loops if any(n.operation.startswith(("vdpbf16", "vpdpbusd")) for n in x)]
    assert dots
    for loop in dots:
        assert assembly.vector_spills(loop) == []


def test_each_constant_is_held_once_in_front_of_the_loop() -> None:
    kind = ir.VectorType(ir.FloatType(), 32)
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), []), "f")
    before, inside = function.append_basic_block("before"), function.append_basic_block("inside")
    ir.IRBuilder(before).branch(inside)
    builder = KernelBuilder(inside)
    constant = ir.Constant(kind, [1.5] * 32)
    assert held(builder, constant) is constant
    builder.held = HeldConstants(before)
    first = held(builder, constant)
    assert first is held(builder, ir.Constant(kind, [1.5] * 32))
    assert first.type == kind
    # Registers have half as many lanes, and one is enough for equal ones.
    assert str(before).count("asm sideeffect") == 1
    assert "asm sideeffect" not in str(inside)
    assert held(ir.IRBuilder(inside), constant) is constant
