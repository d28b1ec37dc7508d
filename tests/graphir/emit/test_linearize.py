from __future__ import annotations

import numpy as np
import pytest

from burnish.graphir.builder import BlockBuilder, call_op
from burnish.graphir.emit.linearize import EnvOp, KernelOp, View, leaves, linearize, read, written
from burnish.graphir.expr import CallDPSPacked, Function, Tuple, TupleGetItem, Var, constant
from burnish.graphir.module import IRModule
from burnish.graphir.passes.legalize import LegalizeOps
from burnish.graphir.type import TupleType, tensor_type
from burnish.support.errors import CodegenError, UnknownFunctionError
from burnish.tensorir.expr import Var as DimVar
from burnish.tests.graphir.kernels import describe


def main_of(module: IRModule) -> Function:
    func = module["main"]
    assert isinstance(func, Function)
    return func


def test_views_and_tuples_are_no_operations() -> None:
    m = DimVar("m")
    x = Var("x", tensor_type((m, 2, 2)))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            flat = bb.emit(call_op("flatten", x, start_dim=1))
            pair = bb.emit(Tuple((flat, x)))
            y = bb.emit(call_op("relu", bb.emit(TupleGetItem(pair, 0))))
            out = bb.emit_output(call_op("flatten", y))
        bb.emit_func_output(out)
    module = LegalizeOps()(bb.get())
    linear = linearize(module, main_of(module), describe(module))
    (op,) = linear.ops
    assert isinstance(op, KernelOp)
    assert op.args[0].memory.kind == "param"
    assert isinstance(linear.result, View)
    assert linear.result.memory is op.outs[0].memory
    assert op.dims == (m,)
    assert (list(read(op)), written(op)) == ([op.args[0].memory], [linear.result.memory])


def test_one_memory_for_all_uses_of_a_constant() -> None:
    data = constant(np.ones(3, np.float32))
    kind = tensor_type((3,))
    bb = BlockBuilder()
    with bb.function("main", []):
        a = bb.emit(CallDPSPacked("env.f", (data, data), kind))
        out = TupleType((kind, kind))
        both = bb.emit(CallDPSPacked("env.g", (Tuple((a, data)),), out))
        bb.emit_func_output(both)
    module = bb.get()
    linear = linearize(module, main_of(module), {})
    f, g = linear.ops
    assert isinstance(f, EnvOp)
    assert isinstance(g, EnvOp)
    assert len({m for op in (f, g) for m in read(op) if m.kind == "constant"}) == 1
    assert [v.memory for v in leaves(linear.result)] == written(g)


def test_what_cannot_be_linearized() -> None:
    x = Var("x", tensor_type((3,)))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(call_op("relu", x)))
    module = bb.get()
    with pytest.raises(CodegenError, match="relu has no kernel: run LegalizeOps"):
        linearize(module, main_of(module), {})
    legal = LegalizeOps()(module)
    with pytest.raises(UnknownFunctionError, match="'relu'"):
        linearize(legal, main_of(legal), {})
    pair = Var("pair", TupleType((x.type,)))
    with bb.function("main", [pair]):
        bb.emit_func_output(pair)
    module = bb.get()
    with pytest.raises(CodegenError, match="parameter 'pair' is no tensor"):
        linearize(module, main_of(module), {})
