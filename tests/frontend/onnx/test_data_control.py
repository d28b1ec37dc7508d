"""Branches and loops of one program."""

from __future__ import annotations

import numpy as np

from burnish.frontend.onnx import import_onnx
from burnish.graphir.verify import verify_module
from burnish.tests.frontend.onnx.oracle import check_compiled, compare, evaluate, model

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def _either(yes: str, no: str, before: str = "", after: str = "y = Identity(a)") -> str:
    return f"""
        zero = Constant<value = float {{0}}>()
        total = ReduceSum<keepdims = 0>(x)
        flag = Greater(total, zero)
        {before}
        a = If (flag) <
            then_branch = g1 () => (float p) {{ {yes} }},
            else_branch = g2 () => (float q) {{ {no} }}
        >
        {after}
    """


def _check(body: str, inputs: str = "float[N, 3] x", **values: np.ndarray) -> None:
    """One program, right on both sides of the condition."""
    made = model(body, inputs)
    compiled = check_compiled(made, x=X + 1, **values)
    compare(compiled, made, x=X - 1, **values)
    assert compiled.compilations == 1


def test_branches_read_what_is_around_them() -> None:
    _check(_either("p = Add(s, x)", "q = Mul(s, s)", "s = Exp(x)", "y = Add(a, s)"))


def test_a_branch_gives_what_is_around_it_or_a_constant() -> None:
    _check(_either("p = Identity(s)", "q = ConstantOfShape(n)", "s = Exp(x)\nn = Shape(x)"))


def test_branches_are_inside_of_branches() -> None:
    inner = """
        one = Constant<value = float {1}>()
        top = ReduceMax<keepdims = 0>(x)
        other = Less(top, one)
        q = If (other) <
            then_branch = g3 () => (float r) { r = Neg(x) }, else_branch = g4 () => (float t) {
            t = Abs(x) }
        >
    """
    _check(_either("p = Exp(x)", inner))


def test_a_size_of_data_stays_in_its_branch() -> None:
    counts = "i = NonZero(x)\nf = Cast<to = 1>(i)\np = ReduceSum<keepdims = 0>(f)"
    after = "j = NonZero(x)\ng = Cast<to = 1>(j)\nh = ReduceMax<keepdims = 0>(g)\ny = Add(a, h)"
    _check(_either(counts, "q = ReduceMax<keepdims = 0>(x)", "", after))


def test_a_branch_that_needs_a_value_is_asked_for() -> None:
    """Where a branch needs it, the program is for the condition and the value."""
    made = model(
        "y = If (flag) < then_branch = g1 () => (float p) { p = Reshape(x, s) },"
        "else_branch = g2 () => (float q) { q = Neg(x) } >",
        "float[2, 3] x, bool flag, int64[N] s",
    )
    compiled = check_compiled(made, x=X, flag=True, s=np.array([3, -1]))
    compare(compiled, made, x=X, flag=False, s=np.array([3, -1]))
    compare(compiled, made, x=X, flag=True, s=np.array([6]))
    assert compiled.compilations == 3


def test_the_interpreter_of_the_graph_takes_the_same_branch() -> None:
    imported = import_onnx(model(_either("p = Exp(x)", "q = Neg(x)"), "float[N, 3] x"))
    verify_module(imported.module)
    for x in (X + 1, X - 1):
        expected = np.exp(x) if x.sum() > 0 else -x
        np.testing.assert_allclose(evaluate(imported, {"x": x})[0], expected, rtol=1e-5)


def test_branches_of_other_sizes_are_one_program() -> None:
    """An empty constant beside what data tell; a size beside another; two axes at once."""
    _check(_either("i = NonZero(x)\nr = Transpose(i)\np = Cast<to = 1>(r)",
                   "e = Constant<value = float[0, 2] {}>()\nq = Identity(e)"))  # fmt: skip
    _check(_either("p = Concat<axis = 0>(x, x)", "q = Identity(x)", after="y = Exp(a)"))
    _check(_either("p = Concat<axis = 0>(x, x, x)", "q = Transpose(x)"))


def test_a_size_of_a_branch_is_one_behind_it() -> None:
    """Though nothing but its size is read."""
    after = "s = Shape(a)\nf = Cast<to = 1>(s)\ny = ReduceSum(f)"
    _check(_either("p = Concat<axis = 1>(x, x)", "q = Identity(x)", after=after))
