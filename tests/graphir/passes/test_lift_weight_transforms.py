from __future__ import annotations

import numpy as np
import pytest

from burnish.graphir.builder import BlockBuilder, call_op
from burnish.graphir.expr import CallDPS, CallDPSPacked, Constant, Function, Var, constant
from burnish.graphir.module import IRModule
from burnish.graphir.passes.legalize import LegalizeOps
from burnish.graphir.passes.lift_weight_transforms import LiftWeightTransforms
from burnish.graphir.type import tensor_type
from burnish.graphir.weights import Packed
from burnish.support.errors import LayoutError, PassError
from burnish.tensorir.arith import IndexMap
from burnish.tensorir.schedule import pack_array
from burnish.tensorir.schedule.primitives.transform_layout import transform_layout

W = np.arange(24, dtype=np.float32).reshape(6, 4)


def tiles(size: int) -> IndexMap:
    return IndexMap.from_function(lambda n, k: (n // size, k, n % size), 2)


def module_of(*, shared: bool = False) -> IRModule:
    """main(x) = linear(x, W), twice where ``shared``; the kernel wants W in tiles of 4 rows."""
    bb = BlockBuilder()
    x, w = Var("x", tensor_type((2, 4))), constant(W)
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit(call_op("linear", x, w))
            if shared:
                y = bb.emit(call_op("add", y, bb.emit(call_op("linear", x, w))))
            out = bb.emit_output(call_op("relu", y))
        bb.emit_func_output(out)
    module = LegalizeOps()(bb.get())
    func = module.prim_funcs["linear"]
    name = func.buffers[1].name
    module["linear"] = transform_layout(func, "linear", name, tiles(4), pad_value=0.0)
    return module


def packed_constants(module: IRModule) -> list[Constant]:
    main = module["main"]
    assert isinstance(main, Function)
    values = [b.value for block in main.body.blocks for b in block.bindings]
    calls = [v for v in values if isinstance(v, CallDPS) and v.func.name.startswith("linear")]
    return [a for call in calls for a in call.args if isinstance(a, Constant)]


def test_the_call_receives_what_the_kernel_expects() -> None:
    module = LiftWeightTransforms()(module_of())
    (w,) = packed_constants(module)
    assert w.shape == (2, 4, 4)
    packed = module.weights.array(w)
    assert np.array_equal(packed, pack_array(W, tiles(4), 0.0, "float32"))
    assert not packed.flags.writeable
    linear = module.prim_funcs["linear"]
    assert linear.attr("layout_maps") is None
    assert linear.attr("packed_layouts") == [[1, "lambda n, k: (n // 4, k, n % 4)", 0.0]]


def test_a_constant_is_packed_once_and_only_once() -> None:
    once = LiftWeightTransforms()(module_of(shared=True))
    a, b = packed_constants(once)
    assert a is b
    twice = LiftWeightTransforms()(once)
    assert packed_constants(twice)[0] is a


def test_constants_of_equal_values_and_other_shapes_are_packed_each() -> None:
    w = np.arange(8, dtype=np.float32).reshape(2, 4)  # Small: the program has its values, no name.
    bb, x = BlockBuilder(), Var("x", tensor_type((2, 4)))
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit(call_op("linear", x, constant(w)))
            out = bb.emit_output(call_op("linear", y, constant(w.reshape(4, 2))))
        bb.emit_func_output(out)
    module = LegalizeOps()(bb.get())
    for name in ("linear", "linear_1"):
        func = module.prim_funcs[name]
        weight = func.buffers[1].name
        module[name] = transform_layout(func, "linear", weight, tiles(2))
    lifted = LiftWeightTransforms()(module)
    first, second = packed_constants(lifted)
    assert np.array_equal(lifted.weights.array(first), pack_array(w, tiles(2), None, "float32"))
    expected = pack_array(w.reshape(4, 2), tiles(2), None, "float32")
    assert np.array_equal(lifted.weights.array(second), expected)


def test_maps_apply_in_order() -> None:
    module = module_of()
    func = module.prim_funcs["linear"]
    m = IndexMap.from_function(lambda a, b, c: (b, a, c), 3)
    module["linear"] = transform_layout(func, "linear", func.buffers[1].name, m)
    lifted = LiftWeightTransforms()(module)
    (w,) = packed_constants(lifted)
    packed = lifted.weights.array(w)
    assert np.array_equal(packed, pack_array(W, tiles(4), 0.0, "float32").transpose(1, 0, 2))
    (name,) = module.constants
    assert w.name == f"{name}.packed"
    assert np.array_equal(module.constants[name], W)
    assert isinstance(module.weights.weight(name).origin, Packed)


def test_a_module_without_maps_is_left_alone() -> None:
    module = LiftWeightTransforms()(module_of())
    assert LiftWeightTransforms()(module)["main"] is module["main"]


def test_what_cannot_be_packed() -> None:
    module = module_of()
    bb = BlockBuilder(module)
    x, w = Var("x", tensor_type((2, 4))), Var("w", tensor_type((2, 4, 4)))
    out_type = tensor_type((2, 6))
    with bb.function("main", [x, w]):
        bb.emit_func_output(bb.emit(CallDPS(module.get_global_var("linear"), (x, w), out_type)))
    with pytest.raises(PassError, match=r"'linear' cannot be packed: argument 1 .* is no constant"):
        LiftWeightTransforms()(bb.get())
    with bb.function("main", [x, w]):
        bb.emit_func_output(bb.emit(CallDPSPacked("linear", (x, w), out_type)))
    with pytest.raises(PassError) as error:
        LiftWeightTransforms()(bb.get())
    assert isinstance(error.value.__cause__, LayoutError)
    assert "call_dps_packed calls it by name" in str(error.value)
