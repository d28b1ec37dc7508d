"""emit_te: a function on te Tensors over graph values becomes a PrimFunc and a call of it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burnish
from burnish import te
from burnish.graphir.builder import BlockBuilder, call_op
from burnish.graphir.expr import (
    Atom,
    CallDPS,
    GlobalVar,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    constant,
)
from burnish.graphir.module import IRModule
from burnish.graphir.text.printer import format_type
from burnish.graphir.type import TupleType, tensor_type
from burnish.graphir.verify import verify_module
from burnish.support.errors import ComputeError
from burnish.tensorir import expr as tir

RNG = np.random.default_rng(0)


def linear(x: te.Tensor, w: te.Tensor, b: te.Tensor) -> te.Tensor:
    k = te.reduce_axis((0, x.shape[1]), name="k")
    product = te.compute(
        (x.shape[0], w.shape[0]), lambda i, j: te.sum(x[i, k] * w[j, k], axis=k), name="product"
    )
    return te.compute(product.shape, lambda i, j: product[i, j] + b[j], name="linear")


def scale(x: te.Tensor, factor: float = 2.0) -> te.Tensor:
    return te.compute(x.shape, lambda *i: x[i] * te.const(factor, x.dtype), name="scale")


def halves(x: te.Tensor) -> list[te.Tensor]:
    n = x.shape[0] // 2
    return [
        te.compute((n,), lambda i: x[i], name="low"),
        te.compute((n,), lambda i: x[i + n], name="high"),
    ]


def one_function(params: list[Var], body: Callable[[BlockBuilder], Atom | list[Atom]]) -> IRModule:
    """A module whose ``main`` is what ``body`` emits."""
    bb = BlockBuilder()
    with bb.function("main", params):
        with bb.dataflow():
            found = body(bb)
        bb.emit_func_output(found)
    return verify_module(bb.get())


def run(module: IRModule, *args: np.ndarray) -> Any:
    return burnish.VirtualMachine(burnish.build(module))["main"](*args)


def test_a_te_function_becomes_a_kernel_and_a_call() -> None:
    x, w = Var("x", tensor_type((2, 3))), Var("w", tensor_type((4, 3)))
    b = constant(np.arange(4, dtype=np.float32))
    module = one_function([x, w], lambda bb: bb.emit_te(linear, x, w, b))
    func = module.prim_funcs["linear"]
    assert [p.name for p in func.params] == ["x", "w", "b", "linear"]
    assert func.attr("global_symbol") == "linear"
    assert "lv = R.call_dps(cls.linear, (x, w, R.const([0.0, 1.0, 2.0, 3.0]" in module.script()
    left, right = RNG.random((2, 3), "float32"), RNG.random((4, 3), "float32")
    np.testing.assert_allclose(
        run(module, left, right).numpy(), left @ right.T + np.arange(4), rtol=1e-6
    )


def test_symbolic_shapes() -> None:
    n = tir.Var("n")
    x, w = Var("x", tensor_type((n, 3))), Var("w", tensor_type((4, 3)))
    b = Var("b", tensor_type((4,)))
    module = one_function([x, w, b], lambda bb: bb.emit_te(linear, x, w, b))
    assert format_type(module.graph_functions["main"].ret_type) == (
        'R.Tensor(("n", 4), dtype="float32")'
    )
    assert [v.name for v in module.prim_funcs["linear"].shape_vars] == ["n"]
    assert module.prim_funcs["linear"].shape_vars[0] is not n
    for rows in (1, 5):
        arrays = [RNG.random(s, "float32") for s in ((rows, 3), (4, 3), (4,))]
        np.testing.assert_allclose(
            run(module, *arrays).numpy(), arrays[0] @ arrays[1].T + arrays[2], rtol=1e-5
        )


def test_computed_dims_come_back_in_the_callers_sizes() -> None:
    n = tir.Var("n")
    x = Var("x", tensor_type((n, n * 2)))

    def widen(t: te.Tensor) -> te.Tensor:
        rows, columns = t.shape
        return te.compute((rows + 1, columns), lambda i, j: t[te.min(i, rows - 1), j], name="w")

    module = one_function([x], lambda bb: bb.emit_te(widen, x))
    assert format_type(module.graph_functions["main"].ret_type) == (
        'R.Tensor(("n + 1", "n * 2"), dtype="float32")'
    )
    given = RNG.random((3, 6), "float32")
    np.testing.assert_array_equal(run(module, given).numpy(), given[[0, 1, 2, 2]])


def test_several_outputs_are_a_tuple() -> None:
    x = Var("x", tensor_type((6,)))

    def body(bb: BlockBuilder) -> list[Atom]:
        pair = bb.emit_te(halves, x, name_hint="pair")
        assert pair.name == "pair"
        assert pair.type is not None
        assert isinstance(pair.type, TupleType)
        return [bb.emit(TupleGetItem(pair, 1)), bb.emit(TupleGetItem(pair, 0))]

    module = one_function([x], body)
    given = np.arange(6, dtype=np.float32)
    high, low = run(module, given)
    np.testing.assert_array_equal(high.numpy(), given[3:])
    np.testing.assert_array_equal(low.numpy(), given[:3])


def test_one_definition_of_several_outputs() -> None:
    x = Var("x", tensor_type((4,)))

    def both(t: te.Tensor) -> Any:
        return te.compute(t.shape, lambda i: (t[i] + 1.0, t[i] * 2.0), name="both")

    module = one_function([x], lambda bb: bb.emit_te(both, x))
    more, double = run(module, np.arange(4, dtype=np.float32))
    np.testing.assert_array_equal(more.numpy(), [1, 2, 3, 4])
    np.testing.assert_array_equal(double.numpy(), [0, 2, 4, 6])


def test_numbers_dims_lists_and_keywords_are_passed_on() -> None:
    n = tir.Var("n")
    x, y = Var("x", tensor_type((n,))), Var("y", tensor_type((n,)))

    def weighted(ts: list[te.Tensor], size: Any, *, weights: tuple[float, ...]) -> te.Tensor:
        return te.compute(
            (size,), lambda i: sum(t[i] * w for t, w in zip(ts, weights, strict=True)), name="sum"
        )

    module = one_function([x, y], lambda bb: bb.emit_te(weighted, [x, y], n, weights=(2.0, 3.0)))
    assert [p.name for p in module.prim_funcs["weighted"].params] == ["ts_0", "ts_1", "sum"]
    a, b = np.ones(4, np.float32), np.full(4, 2, np.float32)
    np.testing.assert_array_equal(run(module, a, b).numpy(), [8, 8, 8, 8])


def test_a_shape_is_passed_as_a_list() -> None:
    x = Var("x", tensor_type((6,)))
    dims = (tir.IntImm(2), tir.IntImm(3))

    def fold(t: te.Tensor, shape: list[int]) -> te.Tensor:
        assert shape == [2, 3]
        return te.compute(shape, lambda i, j: t[i * 3 + j], name="fold")

    module = one_function([x], lambda bb: bb.emit_te(fold, x, ShapeExpr(dims)))
    given = np.arange(6, dtype=np.float32)
    np.testing.assert_array_equal(run(module, given).numpy(), given.reshape(2, 3))


def test_equal_kernels_are_shared_and_names_are_unique() -> None:
    x = Var("x", tensor_type((4,)))

    def body(bb: BlockBuilder) -> Atom:
        y = bb.emit_te(scale, x)
        y = bb.emit_te(scale, y)
        y = bb.emit_te(scale, y, factor=3.0)
        return bb.emit_te(scale, y, 5.0, primfunc_name_hint="times_five")

    module = one_function([x], body)
    assert list(module.prim_funcs) == ["scale", "scale_1", "times_five"]
    assert module.script().count("R.call_dps(cls.scale,") == 2
    np.testing.assert_array_equal(run(module, np.ones(4, np.float32)).numpy(), [60] * 4)


def test_a_replaced_kernel_is_not_shared() -> None:
    x = Var("x", tensor_type((4,)))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        y = bb.emit_te(scale, x)
        bb.update_func("scale", bb.call_te(scale, x, 7.0) and bb._module.prim_funcs["scale_1"])
        bb.emit_func_output(bb.emit_te(scale, y))
    assert list(bb.get().prim_funcs) == ["scale", "scale_1", "scale_2"]


def test_attributes_and_names_of_kernels() -> None:
    x = Var("x", tensor_type((4,)))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        y = bb.emit_te(lambda t: te.compute(t.shape, lambda i: t[i] + 1.0), x)
        y = bb.emit_te(functools.partial(scale, factor=4.0), y, primfunc_attrs={"kind": "mine"})
        bb.emit_func_output(y)
    module = verify_module(bb.get())
    assert list(module.prim_funcs) == ["te_func", "scale"]
    assert module.prim_funcs["scale"].attr("kind") == "mine"


def test_call_te_binds_nothing() -> None:
    x = Var("x", tensor_type((4,)))
    bb = BlockBuilder()
    call = bb.call_te(scale, x)
    assert isinstance(call, CallDPS)
    assert call.args == (x,)
    assert list(bb.get()) == ["scale"]


X = Var("x", tensor_type((2, 3)))
PAIR = Var("pair", TupleType((X.type, X.type)))


@pytest.mark.parametrize(
    ("func", "args", "message"),
    [
        (3, (X,), "emit_te takes a function on te Tensors first, then its arguments; found int"),
        (scale, (), r"scale\(x, factor=2.0\) cannot be called so: missing a required .*: 'x'"),
        (scale, (PAIR,), "'x' of scale has the type TupleType; expected a tensor. Take a tuple"),
        (scale, (GlobalVar("f"),), "the argument 'x' of scale is the function 'f', not a tensor"),
        (scale, (call_op("relu", X),), "'x' of scale is an operation that has no variable yet"),
        (lambda t: None, (X,), "te_func returned nothing; expected a te Tensor or a list"),
        (lambda t: [], (X,), "te_func returned a list; expected a te Tensor or a list"),
        (lambda t: [t[0, 0]], (X,), "returned a list with a BufferLoad in it"),
        (lambda t: t, (X,), "returned its argument 't' as it came; there is nothing to compute"),
        (lambda t: [scale(t)] * 2, (X,), "returned one Tensor twice"),
    ],
)
def test_what_cannot_be_lowered(func: Any, args: tuple[Any, ...], message: str) -> None:
    bb = BlockBuilder()
    with bb.function("main", [X, PAIR]):
        with pytest.raises(ComputeError, match=message):
            bb.emit_te(func, *args)
        bb.emit_func_output(Tuple(()))
    assert list(bb.get()) == ["main"]


def test_a_size_in_no_shape_is_refused() -> None:
    m = tir.Var("m")

    def add_size(t: te.Tensor, size: tir.Expr) -> te.Tensor:
        return te.compute(t.shape, lambda i: t[i] + te.cast(size, "float32"))

    bb = BlockBuilder()
    x = Var("x", tensor_type((4,)))
    with pytest.raises(ComputeError, match="add_size reads the size 'm', which is in the shape of"):
        bb.call_te(add_size, x, m)
