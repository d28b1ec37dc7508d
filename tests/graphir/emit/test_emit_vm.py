from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from burnish.graphir.builder import BlockBuilder, call_op
from burnish.graphir.emit.emit_vm import emit_program
from burnish.graphir.expr import (
    Binding,
    BindingBlock,
    CallDPS,
    CallDPSPacked,
    CallFunction,
    Function,
    GlobalVar,
    If,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    constant,
)
from burnish.graphir.module import IRModule
from burnish.graphir.passes.legalize import LegalizeOps
from burnish.graphir.type import TupleType, tensor_type
from burnish.support.errors import CodegenError, ShapeMismatchError
from burnish.tensorir.expr import IntImm
from burnish.tensorir.expr import Var as DimVar
from burnish.tests.graphir.kernels import describe, link
from burnish.vm.disassembler import print_function
from burnish.vm.interpreter import VirtualMachine
from burnish.vm.program import Program
from burnish.vm.registry import register_func, unregister_func

M = DimVar("m")
ROW = tensor_type((M, 4))


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    @register_func("test.negate")
    def negate(x: Any, out: Any) -> None:
        np.negative(x.numpy(), out=out.numpy())

    @register_func("test.split")
    def split(x: Any, a: Any, b: Any) -> None:
        a.numpy()[...] = x.numpy()
        b.numpy()[...] = -x.numpy()

    yield
    unregister_func("test.negate")
    unregister_func("test.split")


def build(*ops: str) -> IRModule:
    """main(x: float32[m, 4]) = the operators one after another; ``!`` is an environment
    function."""
    bb = BlockBuilder()
    value: Any = Var("x", ROW)
    with bb.function("main", [value]):
        for name in ops:
            call = CallDPSPacked("test.negate", (value,), ROW) if name == "!" else None
            value = bb.emit(call or call_op(name, value))
        bb.emit_func_output(value)
    return LegalizeOps()(bb.get())


def both(module: IRModule) -> tuple[VirtualMachine, VirtualMachine]:
    """Machines with and without segments."""
    return tuple([VirtualMachine(link(module, segments=s)) for s in (True, False)])  # type: ignore[return-value]


def run_both(module: IRModule, *args: Any) -> Any:
    """The result, which both machines and the bytecode path agree on to the bit."""
    results = []
    for vm in both(module):
        results += [vm["main"](*args), vm.run("main", args)]
    flat = [[t.numpy().tobytes() for t in _flat(r)] for r in results]
    assert all(f == flat[0] for f in flat)
    return results[0]


def _flat(value: Any) -> list[Any]:
    return [t for v in value for t in _flat(v)] if isinstance(value, tuple) else [value]


def text(module: IRModule, *, segments: bool = True) -> str:
    program, _ = emit_program(module, describe(module), segments=segments)
    return print_function(program.functions["main"])


X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def test_a_run_becomes_one_call() -> None:
    assert text(build("relu", "exp", "tanh")) == (
        'with function("main", params=[("x", float32[m, 4])], result=float32[m, 4], '
        'registers=2, dims=("m",)):\n'
        '    call("builtin:match_shape", r0)\n'
        '    r1 = call("builtin:alloc_tensor", ("m", "4"), "float32")\n'
        '    call("kernel:main_segment0", r0, r1, dims=("m",))\n'
        "    ret(r1)"
    )


def test_without_segments_values_live_in_an_arena() -> None:
    assert text(build("relu", "exp", "tanh"), segments=False) == (
        'with function("main", params=[("x", float32[m, 4])], result=float32[m, 4], '
        'registers=5, dims=("m",)):\n'
        '    call("builtin:match_shape", r0)\n'
        '    r1 = call("builtin:alloc_storage", '
        '"(m * 16 + 63) // 64 * 64 + (m * 16 + 63) // 64 * 64")\n'
        '    r2 = call("builtin:tensor_at", r1, "0", ("m", "4"), "float32")\n'
        '    r3 = call("builtin:tensor_at", r1, "(m * 16 + 63) // 64 * 64", '
        '("m", "4"), "float32")\n'
        '    call("kernel:relu", r0, r2, dims=("m",))\n'
        '    call("kernel:exp", r2, r3, dims=("m",))\n'
        '    r4 = call("builtin:alloc_tensor", ("m", "4"), "float32")\n'
        '    call("kernel:tanh", r3, r4, dims=("m",))\n'
        "    ret(r4)"
    )


def test_environment_functions_break_runs() -> None:
    module = build("relu", "exp", "!", "relu", "tanh", "!")
    program, plans = emit_program(module, describe(module))
    calls = [i.func for i in program.functions["main"].instructions if hasattr(i, "func")]
    assert [c for c in calls if not c.startswith("builtin")] == [
        "kernel:main_segment0",
        "env:test.negate",
        "kernel:main_segment1",
        "env:test.negate",
    ]
    assert [p.name for p in plans] == ["main_segment0", "main_segment1"]


@pytest.mark.parametrize("m", [0, 1, 3])
def test_both_ways_give_the_same_bits(m: int) -> None:
    y = run_both(build("relu", "exp", "!", "tanh", "exp", "!"), X[:m])
    expected = -np.exp(np.tanh(-np.exp(np.maximum(X[:m], 0))))
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5)


def test_a_whole_module_of_kernels_has_a_fast_entry() -> None:
    segmented, plain = both(build("relu", "exp", "tanh"))
    assert segmented.fast_entry("main", print) is not None
    assert plain.fast_entry("main", print) is None


def test_mlp_with_a_view_constants_and_a_branching_use() -> None:
    rng = np.random.default_rng(0)
    w, b = rng.standard_normal((4, 8)).astype(np.float32), np.ones(4, np.float32)
    x = Var("x", tensor_type((M, 2, 4)))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            flat = bb.emit(call_op("flatten", x, start_dim=1))
            h = bb.emit(call_op("linear", flat, constant(w), constant(b)))
            r = bb.emit(call_op("relu", h))
            out = bb.emit_output(call_op("add", bb.emit(call_op("exp", r)), h))
        bb.emit_func_output([out, bb.emit(call_op("flatten", out))])
    data = rng.standard_normal((5, 2, 4)).astype(np.float32)
    y, flat_y = run_both(LegalizeOps()(bb.get()), data)
    h_ref = data.reshape(5, 8) @ w.T + b
    np.testing.assert_allclose(
        y.numpy(), np.exp(np.maximum(h_ref, 0)) + h_ref, rtol=2e-5, atol=1e-5
    )
    assert np.array_equal(flat_y.numpy(), y.numpy().ravel())


def test_parameters_and_constants_are_returned_as_copies() -> None:
    c = constant(np.arange(3, dtype=np.float32))
    x = Var("x", ROW)
    bb = BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(Tuple((x, c, bb.emit(call_op("flatten", x)))))
    vm = VirtualMachine(link(LegalizeOps()(bb.get()), segments=True))
    given = X.copy()
    same, weight, flat = vm["main"](given)
    for t in (same, weight, flat):
        t.numpy()[...] = 99
    assert np.array_equal(given, X)
    assert vm["main"](given)[1].tolist() == [0, 1, 2]
    assert flat.shape == (12,)


def test_several_outputs_of_an_environment_function() -> None:
    x = Var("x", ROW)
    bb = BlockBuilder()

    with bb.function("main", [x]):
        e = bb.emit(call_op("exp", x))
        pair = bb.emit(CallDPSPacked("test.split", (e,), TupleType((ROW, ROW))))
        b = bb.emit(TupleGetItem(pair, 1))
        bb.emit_func_output(Tuple((bb.emit(call_op("relu", b)), pair)))
    relu, (a, b) = run_both(LegalizeOps()(bb.get()), X)
    np.testing.assert_allclose(a.numpy(), np.exp(X), rtol=1e-5)
    assert np.array_equal(b.numpy(), -a.numpy())
    assert not relu.numpy().any()


def branching() -> IRModule:
    """main(x, c) = if c then tanh(exp(relu(x))) else relu(x), then negated."""
    module = build("relu", "exp", "tanh")
    names = {n: GlobalVar(n) for n in module.prim_funcs}
    x, c = Var("x", ROW), Var("c", tensor_type((), "bool"))
    r, e, t = [Var(n, ROW) for n in "ret"]

    def block(*bindings: Binding) -> tuple[BindingBlock, ...]:
        return (BindingBlock(bindings, False),)

    yes = SeqExpr(
        block(
            Binding(e, CallDPS(names["exp"], (r,), ROW)),
            Binding(t, CallDPS(names["tanh"], (e,), ROW)),
        ),
        t,
    )
    chosen, out = Var("chosen", ROW), Var("out", ROW)
    body = SeqExpr(
        block(
            Binding(r, CallDPS(names["relu"], (x,), ROW)),
            Binding(chosen, If(c, yes, SeqExpr((), r))),
            Binding(out, CallDPSPacked("test.negate", (chosen,), ROW)),
        ),
        out,
    )

    module["main"] = Function((x, c), body, ROW)
    return module


@pytest.mark.parametrize("flag", [True, False])
def test_branches(flag: bool) -> None:
    y = run_both(branching(), X, np.array(flag))
    relu = np.maximum(X, 0)
    np.testing.assert_allclose(y.numpy(), -(np.tanh(np.exp(relu)) if flag else relu), rtol=1e-5)


def test_a_branch_forms_segments_of_its_own() -> None:
    found = text(branching())
    assert 'call("kernel:main_segment0"' in found
    assert found.count("label(") == 2


def test_functions_call_functions() -> None:
    module = build("relu", "exp")
    inner = module["main"]
    x = Var("x", ROW)
    bb = BlockBuilder(module)
    bb.update_func("inner", inner)
    with bb.function("main", [x]):
        y = bb.emit(CallFunction(GlobalVar("inner"), (x,), ROW))
        z = bb.emit(CallDPSPacked("inner", (y,), ROW))
        bb.emit_func_output(bb.emit(CallDPSPacked("relu", (z,), ROW)))
    y = run_both(bb.get(), X)
    np.testing.assert_allclose(y.numpy(), np.exp(np.exp(np.maximum(X, 0))), rtol=1e-5)


def test_a_function_that_ends_in_a_call_of_itself_is_a_loop() -> None:
    """loop(a, b, n) = if n then loop(relu(b), a, n < n) else (b, a): parameters are set at once."""
    module = build("relu", "exp")
    module.functions.pop("main")
    flag = tensor_type((), "bool")
    a, b, n = Var("a", ROW), Var("b", ROW), Var("n", flag)
    pair = TupleType((ROW, ROW))
    r, again, out = Var("r", ROW), Var("again", pair), Var("out", pair)
    call = CallFunction(GlobalVar("main"), (r, a, constant(False)), pair)
    relu = Binding(r, CallDPS(GlobalVar("relu"), (b,), ROW))
    yes = SeqExpr((BindingBlock((relu, Binding(again, call)), False),), again)
    choice = Binding(out, If(n, yes, SeqExpr((), Tuple((a, b)))))
    body = SeqExpr((BindingBlock((choice,), False),), out)
    module["main"] = Function((a, b, n), body, pair)
    first, second = run_both(module, X, X - 1, np.array(True))
    np.testing.assert_allclose(first.numpy(), np.maximum(X - 1, 0))
    np.testing.assert_allclose(second.numpy(), X)
    assert 'call("vm:main"' not in text(module)


def test_shapes_are_passed_as_values() -> None:
    seen: list[object] = []
    register_func("test.shape", lambda x, s, out: seen.append(s), override=True)
    x = Var("x", ROW)
    bb = BlockBuilder()
    shape = ShapeExpr((M, M * 4))
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(CallDPSPacked("test.shape", (x, shape), ROW)))
    VirtualMachine(link(bb.get(), segments=True))["main"](X)
    unregister_func("test.shape")
    assert seen == [(3, 12)]


def test_dims_of_one_name_are_told_apart() -> None:
    a, b = DimVar("n"), DimVar("n")
    x, y = Var("x", tensor_type((a, 4))), Var("y", tensor_type((b, 4)))
    bb = BlockBuilder()
    with bb.function("main", [x, y]):
        parts = [bb.emit(call_op("exp", bb.emit(call_op("relu", v)))) for v in (x, y)]
        bb.emit_func_output(parts)
    module = LegalizeOps()(bb.get())
    first, second = run_both(module, X, X[:2])
    assert (first.shape, second.shape) == ((3, 4), (2, 4))
    program, _ = emit_program(module, describe(module))
    assert program.functions["main"].dim_names == ("n", "n_1")


def test_a_result_dim_from_nowhere() -> None:
    x = Var("x", tensor_type((2,)))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(CallDPSPacked("test.negate", (x,), tensor_type((M,)))))
    with pytest.raises(
        CodegenError, match="dimension m of the result is a dimension of no parameter"
    ):
        emit_program(bb.get(), {})


def test_all_kernels_are_in_the_program() -> None:
    module = build("relu", "exp")
    program, (plan,) = emit_program(module, describe(module))
    assert set(program.kernels) == {"relu", "exp", "main_segment0"}
    assert program.kernels["main_segment0"] is plan.kernel
    assert program.kernels["relu"].dims == ("m",)
    assert isinstance(program, Program)
    assert program.objects == []


def test_a_value_returned_twice_is_two_tensors() -> None:
    """Results share memory with nothing, not even with each other."""
    x = Var("x", tensor_type((3, 4)))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        y = bb.emit(call_op("relu", x))
        flat = bb.emit(call_op("reshape", y, ShapeExpr((IntImm(12),))))
        bb.emit_func_output([y, y, flat, x, x])
    module = LegalizeOps()(bb.get())
    results = run_both(module, X)
    for i, a in enumerate(results):
        assert (a.numpy().ravel() == (X if i > 2 else np.maximum(X, 0)).ravel()).all()
        assert not any(np.shares_memory(a.numpy(), b.numpy()) for b in results[:i])


def test_a_branch_that_gives_a_value_twice_gives_two_tensors() -> None:
    flag, x = Var("flag", tensor_type((), "bool")), Var("x", tensor_type((3, 4)))
    made = Var("y", x.type)
    block = BindingBlock((Binding(made, call_op("exp", x)),), False)
    yes = SeqExpr((block,), Tuple((made, made)))
    no = SeqExpr((), Tuple((x, x)))
    bb = BlockBuilder()
    with bb.function("main", [flag, x]):
        pair = bb.emit(If(flag, yes, no))
        bb.emit_func_output([bb.emit(TupleGetItem(pair, i)) for i in (0, 1)])
    module = LegalizeOps()(bb.get())
    for value in (True, False):
        a, b = run_both(module, np.array(value), X)
        assert not np.shares_memory(a.numpy(), b.numpy())
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_weights_are_stored_once() -> None:
    w = constant(np.ones((4, 4), np.float32))
    x = Var("x", tensor_type((IntImm(2), IntImm(4))))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        y = bb.emit(call_op("linear", x, w))
        bb.emit_func_output(bb.emit(call_op("linear", y, w)))
    program = link(LegalizeOps()(bb.get()), segments=True)
    assert len(program.constants) == 1
    y = VirtualMachine(program)["main"](np.ones((2, 4), np.float32))
    assert (y.numpy() == 16).all()


def test_a_size_that_is_negative_is_refused_before_anything_is_written() -> None:
    """A concatenation of 4 rows and of m - 4 would write 4 rows into fewer."""
    x, y = Var("x", ROW), Var("y", tensor_type((4, 4)))
    size = ShapeExpr((M - 4, IntImm(4)))
    bb = BlockBuilder()
    with bb.function("main", [x, y]):
        ones = bb.emit(call_op("broadcast_to", constant(np.float32(1)), size))
        rows = bb.emit(call_op("cumsum", ones, axis=0))
        bb.emit_func_output(bb.emit(call_op("add", bb.emit(call_op("concat", y, rows, axis=0)), x)))
    module = LegalizeOps()(bb.get())
    for segments in (True, False):
        program = link(module, segments=segments)
        assert 'call("builtin:check", "m - 4 >= 0"' in print_function(program.functions["main"])
        machine = VirtualMachine(program)
        for m in (4, 7):
            assert machine["main"](np.ones((m, 4), np.float32), X[:1].repeat(4, 0)).shape == (m, 4)
        for m in (0, 3):
            with pytest.raises(ShapeMismatchError, match="a tensor of the size m - 4"):
                machine["main"](np.ones((m, 4), np.float32), X[:1].repeat(4, 0))
