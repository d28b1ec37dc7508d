"""Each law of the graph IR, broken once; the golden text shows the underlined place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from burnish.graphir import verify
from burnish.graphir.builder import call_op
from burnish.graphir.expr import (
    Atom,
    Binding,
    BindingBlock,
    CallDPS,
    CallDPSPacked,
    CallFunction,
    Constant,
    Function,
    GlobalVar,
    If,
    SeqExpr,
    Tuple,
    Value,
    Var,
)
from burnish.graphir.module import IRModule
from burnish.graphir.text.parser import parse_module
from burnish.graphir.type import TupleType, Type, tensor_type
from burnish.graphir.verify import verify_module
from burnish.support.errors import VerifyError

T = tensor_type((2, 3))
LIBRARY = parse_module(
    """
@T.prim_func
def relu(X: T.Buffer(("n", 3), "float32"), Y: T.Buffer(("n", 3), "float32")):
    for i, j in T.grid(n, 3):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = T.max(X[vi, vj], 0.0)
"""
)
Body = tuple[list[tuple[Var, Value]], Atom]


def module_of(
    bindings: list[tuple[Var, Value]],
    result: Atom,
    kind: Type = T,
    *,
    dataflow: bool = True,
    params: tuple[Var, ...] = (),
) -> IRModule:
    block = BindingBlock(tuple([Binding(v, e) for v, e in bindings]), dataflow)
    module = LIBRARY.copy()
    module["main"] = Function(params, SeqExpr((block,), result), kind, (("global_symbol", "main"),))
    return module


def v(name: str, kind: Type = T) -> Var:
    return Var(name, kind)


def nested() -> IRModule:
    x, y = v("x"), v("y")
    return module_of([(y, call_op("relu", call_op("exp", x)))], y, params=(x,))  # type: ignore[arg-type]


def nested_result() -> IRModule:
    x = v("x")
    return module_of([], Tuple((call_op("exp", x),)), params=(x,))  # type: ignore[arg-type]


def bound_twice() -> IRModule:
    x, y = v("x"), v("y")
    return module_of([(y, call_op("relu", x)), (y, call_op("exp", x))], y, params=(x,))


def parameter_twice() -> IRModule:
    x = v("x")
    return module_of([], x, params=(x, x))


def used_before() -> IRModule:
    x, y, z = v("x"), v("y"), v("z")
    return module_of([(y, call_op("relu", z)), (z, call_op("exp", x))], y, params=(x,))


def out_of_branch() -> IRModule:
    x, y, z, c = v("x"), v("y"), v("z"), v("c", tensor_type((), "bool"))
    branch = SeqExpr((BindingBlock((Binding(z, call_op("exp", x)),), False),), z)
    return module_of(
        [(y, If(c, branch, branch)), (v("w"), call_op("relu", z))], y, dataflow=False, params=(x, c)
    )


def unbound_result() -> IRModule:
    return module_of([], v("x"))


def if_in_dataflow() -> IRModule:
    x, c, y = v("x"), v("c", tensor_type((), "bool")), v("y")
    return module_of([(y, If(c, SeqExpr((), x), SeqExpr((), x)))], y, params=(x, c))


def wrong_type() -> IRModule:
    x, y = v("x"), v("y", tensor_type((3, 2)))
    return module_of([(y, call_op("relu", x))], y, tensor_type((3, 2)), params=(x,))


def wrong_operands() -> IRModule:
    x, y = v("x", tensor_type((2,), "int32")), v("y")
    return module_of([(y, call_op("exp", x))], y, params=(x,))


def wrong_return() -> IRModule:
    x = v("x")
    return module_of([], x, tensor_type((1,)), params=(x,))


def branches_differ() -> IRModule:
    x, c, z, y = v("x"), v("c", tensor_type((), "bool")), v("z", tensor_type((1,))), v("y")
    return module_of(
        [(y, If(c, SeqExpr((), x), SeqExpr((), z)))], y, dataflow=False, params=(x, c, z)
    )


def condition_no_bool() -> IRModule:
    x, y = v("x"), v("y")
    return module_of([(y, If(x, SeqExpr((), x), SeqExpr((), x)))], y, dataflow=False, params=(x,))


def no_weight() -> IRModule:
    x, y = v("x"), v("y")
    return module_of([(y, call_op("add", x, Constant("w", T)))], y, params=(x,))


def weight_of_another_type() -> IRModule:
    x, w = v("x"), Constant("w", T)
    module = module_of([], Tuple((x, w)), TupleType((T, T)), params=(x,))
    module.weights.add("w", np.zeros((20, 3), np.float32))
    return module


def no_function() -> IRModule:
    x, y = v("x"), v("y")
    return module_of([(y, CallDPS(GlobalVar("gelu"), (x,), T))], y, params=(x,))


def call_of_a_prim_func() -> IRModule:
    x, y = v("x"), v("y")
    return module_of([(y, CallFunction(GlobalVar("relu"), (x,), T))], y, params=(x,))


def dps_of_a_graph_function() -> IRModule:
    x, y = v("x"), v("y")
    return module_of([(y, CallDPS(GlobalVar("main"), (x,), T))], y, params=(x,))


def call_arity() -> IRModule:
    x, y = v("x"), v("y")
    return module_of([(y, CallFunction(GlobalVar("main"), (), T))], y, params=(x,))


def dps_arity() -> IRModule:
    x, y = v("x"), v("y")
    return module_of([(y, CallDPS(GlobalVar("relu"), (x, x), T))], y, params=(x,))


def dps_dtype() -> IRModule:
    x, y = v("x", tensor_type((2, 3), "int32")), v("y")
    return module_of([(y, CallDPSPacked("relu", (x,), T))], y, params=(x,))


def dps_dims() -> IRModule:
    x, y = v("x"), v("y", tensor_type((4, 3)))
    return module_of(
        [(y, CallDPS(GlobalVar("relu"), (x,), tensor_type((4, 3))))],
        y,
        tensor_type((4, 3)),
        params=(x,),
    )


CASES: list[tuple[Callable[[], IRModule], str, str]] = [
    (nested, "A-normal form", "an argument of class Call"),
    (nested_result, "A-normal form", "a result of class Tuple"),
    (bound_twice, "bound once", "a second binding of 'y'"),
    (parameter_twice, "bound once", "parameter 'x' twice"),
    (used_before, "used after its binding", "'z' is not bound here"),
    (out_of_branch, "bound once", "a second binding of 'z'"),
    (unbound_result, "used after its binding", "'x' is not bound here"),
    (if_in_dataflow, "straight-line", "an If inside of one"),
    (
        wrong_type,
        "the type of its value",
        "'y' is R.Tensor((3, 2), dtype=\"float32\"), its value R.Tensor((2, 3)",
    ),
    (wrong_operands, "takes the operands", "exp: this operator needs float operands"),
    (wrong_return, "returns the type it declares", "the result is R.Tensor((2, 3)"),
    (branches_differ, "Both branches", "R.Tensor((2, 3)"),
    (condition_no_bool, "bool scalar", "R.Tensor((2, 3)"),
    (no_weight, "named constant is a weight", 'nothing for R.const("w", R.Tensor((2, 3)'),
    (
        weight_of_another_type,
        "named constant is a weight",
        'R.Tensor((20, 3), dtype="float32") for',
    ),
    (no_function, "names a function", "no function 'gelu'"),
    (call_of_a_prim_func, "A call takes a graph function", "'relu' is none"),
    (dps_of_a_graph_function, "Call_dps takes a prim_func", "'main' is none"),
    (call_arity, "A call fits its function", "0 arguments for 1 parameters"),
    (dps_arity, "destination-passing", "3 tensors for the 2 buffers of 'relu'"),
    (dps_dtype, "destination-passing", "for the buffer X"),
    (dps_dims, "destination-passing", "symbolic dim n would be both 2 and 4"),
]


@pytest.mark.parametrize(("build", "law", "found"), CASES, ids=[c[0].__name__ for c in CASES])
def test_broken_law_is_named(build: Callable[[], IRModule], law: str, found: str) -> None:
    with pytest.raises(VerifyError) as caught:
        verify_module(build())
    assert law in caught.value.law
    assert found in caught.value.found


def test_the_guilty_line_is_underlined(golden) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(VerifyError) as caught:
        verify_module(used_before())
    golden(str(caught.value))


def test_a_branch_sees_what_is_around_it() -> None:
    x, y, c = v("x"), v("y"), v("c", tensor_type((), "bool"))
    z, w = v("z"), v("w")
    yes = SeqExpr((BindingBlock((Binding(z, call_op("exp", x)),), False),), z)
    no = SeqExpr((BindingBlock((Binding(w, call_op("relu", x)),), True),), w)
    module = module_of([(y, If(c, yes, no))], y, dataflow=False, params=(x, c))
    assert verify_module(module) is module


def test_packed_calls_of_the_environment_are_free() -> None:
    x, y = v("x"), v("y")
    verify_module(module_of([(y, CallDPSPacked("env.f", (x, x, x), T))], y, params=(x,)))


def test_an_attribute_in_other_letters_is_refused() -> None:
    module = LIBRARY.copy()
    x = Var("x", T)
    attrs = (("global_symbol", "main"), ("Primitive", True))
    module["main"] = Function((x,), SeqExpr((), x), T, attrs)
    with pytest.raises(VerifyError, match="'Primitive', which nothing looks for"):
        verify_module(module)


def test_a_function_is_looked_at_once_and_its_calls_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, y = v("x"), v("y")
    module = module_of([(y, CallDPS(GlobalVar("relu"), (x,), T))], y, params=(x,))
    seen: list[Function] = []
    monkeypatch.setattr(verify, "OWN_LAWS", (*verify.OWN_LAWS, lambda m, func: seen.append(func)))
    verify_module(module)
    verify_module(module.copy())
    assert seen == [module["main"]]
    del module.functions["relu"]
    with pytest.raises(VerifyError, match="no function 'relu'"):
        verify_module(module)


def test_bindings_that_were_verified_are_not_verified_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, a, b = Var("x", T), Var("a", T), Var("b", T)
    call = CallDPS(GlobalVar("relu"), (x,), T)
    module = module_of([(a, call_op("exp", x))], a, params=(x,))
    func = module["main"]
    (block,) = func.body.blocks
    verify_module(module)
    asked: list[Value] = []
    inferred = verify.type_of
    monkeypatch.setattr(verify, "type_of", lambda v: (asked.append(v), inferred(v))[1])
    longer = BindingBlock((*block.bindings, Binding(b, call)), True)
    module["main"] = Function((x,), SeqExpr((longer,), b), T, func.attrs)
    verify_module(module)
    assert call in asked
    assert block.bindings[0].value not in asked
    asked.clear()
    other = LIBRARY["relu"]
    verify_module(module)
    assert not asked
    module["relu"] = other.with_attr("is_scheduled", True)
    verify_module(module)
    assert set(asked) == {x}
