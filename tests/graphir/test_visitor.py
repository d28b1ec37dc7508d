"""ExprVisitor sees every value of a module once, in order."""

from __future__ import annotations

from collections import Counter

import pytest

from burnish.graphir.expr import Call, CallDPS, Constant, GlobalVar, ShapeExpr, Var
from burnish.graphir.mutator import ExprMutator
from burnish.graphir.text.parser import parse_module
from burnish.graphir.visitor import ExprVisitor
from burnish.support.errors import BurnishError

TEXT = """
@T.prim_func
def f(X: T.Buffer((2,), "float32"), Y: T.Buffer((2,), "float32")):
    for i in range(2):
        with T.block('Y'):
            vi = T.axis.spatial(2, i)
            Y[vi] = X[vi]

@R.function
def inner(x: R.Tensor((2,))):
    y = R.exp(x)
    return y

@R.function
def main(x: R.Tensor((2,)), c: R.Tensor((), "bool")):
    with R.dataflow():
        a = R.call_dps(cls.f, (x,), R.Tensor((2,)))
        b = R.call_dps_packed("env.g", (a,), R.Tensor((2,)))
        d = R.add(b, 2.0)
        R.output(d)
    e = cls.inner(d)
    if c:
        g = R.relu(e)
        h = g
    else:
        h = R.reshape(e, R.shape([2]))
    pair = (h, e)
    last = pair[0]
    return (last, x)
"""


class Trace(ExprVisitor):
    """Writes down what it meets."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def visit_Call(self, call: Call) -> None:  # noqa: N802
        self.seen.append(call.op)
        super().visit_Call(call)

    def visit_CallDPS(self, call: CallDPS) -> None:  # noqa: N802
        self.seen.append("call_dps")
        super().visit_CallDPS(call)

    def visit_Var(self, var: Var) -> None:  # noqa: N802
        self.seen.append(var.name)

    def visit_Constant(self, constant: Constant) -> None:  # noqa: N802
        self.seen.append(str(constant.values()))

    def visit_ShapeExpr(self, shape: ShapeExpr) -> None:  # noqa: N802
        self.seen.append("shape")

    def visit_GlobalVar(self, var: GlobalVar) -> None:  # noqa: N802
        self.seen.append(f"@{var.name}")


def test_everything_is_seen_in_order() -> None:
    trace = Trace()
    trace.visit_module(parse_module(TEXT))
    # ``g`` and ``h = g`` end a branch: its result is an atom, and needs no binding.
    assert " ".join(trace.seen) == (
        "exp x y call_dps @f x a add b 2.0 @inner d c relu e g reshape e shape lv h e pair last x"
    )


def test_a_method_without_super_leaves_the_arguments_out() -> None:
    class CountOps(ExprVisitor):
        def __init__(self) -> None:
            self.counts: Counter[str] = Counter()
            self.variables = 0

        def visit_Call(self, call: Call) -> None:  # noqa: N802
            self.counts[call.op] += 1

        def visit_Var(self, var: Var) -> None:  # noqa: N802
            self.variables += 1

    counter = CountOps()
    counter.visit_function(parse_module(TEXT).graph_functions["inner"])
    assert counter.counts == {"exp": 1}
    assert counter.variables == 1


@pytest.mark.parametrize("base", [ExprVisitor, ExprMutator])
def test_a_method_that_nothing_calls_is_refused(base: type) -> None:
    with pytest.raises(BurnishError, match=r"Mine\.visit_call_ would never be called.*visit_Call"):
        type("Mine", (base,), {"visit_call_": lambda self, call: call})
