"""InlineFunctions: bodies in the place of calls, dims of the caller's, and what stays."""

from __future__ import annotations

import numpy as np
import pytest

import burnish
from burnish.graphir.module import IRModule
from burnish.graphir.passes.dead_code_elimination import DeadCodeElimination
from burnish.graphir.passes.inline_functions import InlineFunctions
from burnish.graphir.text.parser import parse_module
from burnish.graphir.verify import verify_module

TWICE = """
    @R.function
    def halves(x: R.Tensor(("n", 4))):
        with R.dataflow():
            a = R.multiply(x, R.const(0.5, "float32"))
            b = R.reshape(a, R.shape(["n * 4"]))
            t = (a, b)
            R.output(t)
        return t

    @R.function
    def both(x: R.Tensor(("k", 4))):
        with R.dataflow():
            t = cls.halves(x)
            a = t[0]
            c = R.add(a, x)
            R.output(c)
        return c

    @R.function
    def main(x: R.Tensor(("m", 4)), y: R.Tensor(("m * 2", 4))):
        with R.dataflow():
            a = cls.both(x)
            b = cls.halves(y)
            c = b[1]
            d = R.sum(a, axis=[0, 1])
            e = R.add(c, d)
            R.output(e)
        return e
"""


def parse(text: str) -> IRModule:
    return parse_module("@I.ir_module\nclass Module:\n" + text)


def results(module: IRModule, m: int) -> np.ndarray:
    x = np.arange(m * 4, dtype=np.float32).reshape(m, 4)
    y = np.arange(m * 8, dtype=np.float32).reshape(m * 2, 4)
    return np.asarray(burnish.VirtualMachine(burnish.build(module))["main"](x, y).numpy())


def test_calls_become_bodies() -> None:
    module = parse(TWICE)
    made = verify_module(DeadCodeElimination(("main",))(InlineFunctions()(module)))
    assert list(made) == ["main"]
    assert "cls." not in made.script()
    for m in (0, 1, 3):
        np.testing.assert_array_equal(results(made, m), results(module, m))


def test_only_those_that_are_named() -> None:
    made = verify_module(InlineFunctions(("halves",))(parse(TWICE)))
    text = made.script()
    assert "cls.both" in text
    assert "cls.halves" not in text
    np.testing.assert_array_equal(results(made, 2), results(parse(TWICE), 2))


@pytest.mark.parametrize(
    "body",
    [
        """
        r: R.Tensor((4,), "float32") = cls.f(x)
        return r
        """,
        """
        s = R.sum(x, axis=[0])
        c = R.greater(s, R.const(0.0, "float32"))
        if c:
            a = R.relu(x)
            r = a
        else:
            b = R.exp(x)
            r = b
        return r
        """,
    ],
)
def test_loops_and_branches_stay(body: str) -> None:
    module = parse(f"""
    @R.function
    def f(x: R.Tensor((4,))) -> R.Tensor((4,)):{body}
    @R.function
    def main(x: R.Tensor((4,))):
        with R.dataflow():
            y = cls.f(x)
            R.output(y)
        return y
    """)
    assert "cls.f(x)" in verify_module(InlineFunctions()(module)).script()
