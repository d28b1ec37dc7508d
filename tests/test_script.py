"""The decorators: source, names around a definition, and what they refuse.

The functions below are never run by Python: their names are words of the vocabulary.
"""

# ruff: noqa: F821 - loop variables and buffers are names of the text form
# mypy: ignore-errors

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burnish
from burnish import te
from burnish.graphir.expr import Function
from burnish.graphir.module import IRModule
from burnish.script import I, R, T
from burnish.support.errors import ParseError
from burnish.support.structural import assert_structural_equal
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.verify.laws import verify_func

WIDTH = 4


def test_what_python_runs_in_the_body_of_a_module() -> None:
    @I.ir_module
    class Module:
        I.module_attrs({"version": 2})

        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            return x

    assert Module.attrs == {"version": 2}


def test_a_function_with_names_from_everywhere() -> None:
    height, scale = 8, np.float32(0.5)

    @T.prim_func
    def main(A: T.Buffer((height, WIDTH), "float32"), B: T.Buffer((height, WIDTH), "float32")):
        for i, j in T.grid(height, WIDTH):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * scale

    assert isinstance(main, PrimFunc)
    verify_func(main)
    assert "T.grid(8, 4)" in main.script()
    assert "* T.float32(0.5)" in main.script()
    assert_structural_equal(parse_func(main.script()), main)


def test_options_change_nothing() -> None:
    @T.prim_func(private=True)
    def main(A: T.Buffer((4,), "float32")):
        for i in range(4):
            A[i] = 1.0

    assert main.name == "main"


def test_a_module_with_a_prim_func_and_a_graph_function() -> None:
    @I.ir_module
    class Module:
        @T.prim_func
        def scale(X: T.Buffer((1, 4), "float32"), Z: T.Buffer((1, 4), "float32")):
            T.func_attr({"tir.noalias": True})
            for i, j in T.grid(1, WIDTH):
                with T.block("Z"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    Z[vi, vj] = X[vi, vj] * 2.0

        @R.function
        def main(x: R.Tensor((1, 4), "float32")):
            with R.dataflow():
                lv = R.call_dps_packed("scale", (x,), R.Tensor((1, 4), dtype="float32"))
                out = R.call_dps_packed("env.relu", (lv,), R.Tensor((1, 4), dtype="float32"))
                R.output(out)
            return out

    assert isinstance(Module, IRModule)
    assert list(Module) == ["scale", "main"]
    assert isinstance(Module["main"], Function)
    again: Any = burnish.parse(Module.script())
    assert again.script() == Module.script()


def test_a_prim_func_of_a_plain_class() -> None:
    class Plain:
        size = 3

        @T.prim_func
        def f(A: T.Buffer((size,), "float32")):
            for i in range(size):
                A[i] = 0.0

    assert isinstance(Plain.f, PrimFunc)
    assert "range(3)" in Plain.f.script()


def test_a_graph_function_alone() -> None:
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            y = R.exp(x)
            R.output(y)
        return y

    assert isinstance(main, Function)
    assert main.name == "main"


def test_errors_name_the_file_and_line() -> None:
    with pytest.raises(ParseError, match="The name 'C' is not defined") as caught:

        @T.prim_func
        def main(A: T.Buffer((4,), "float32")):
            A[0] = C[0]

    assert caught.value.span is not None
    place = str(caught.value.span)
    assert place.startswith(f"{__file__}:")
    line = int(place.rsplit(":", 2)[1])
    with open(__file__, encoding="utf-8") as f:
        assert f.readlines()[line - 1].strip() == "A[0] = C[0]"


def test_a_function_of_the_surroundings_makes_an_expression() -> None:
    def helper(x, scale=1.0):
        return te.maximum(x, 0.0) * scale

    @T.prim_func
    def main(A: T.Buffer((4,), "float32"), i: T.int64):
        A[0] = helper(A[0] + i, scale=2.0)

    @T.prim_func
    def written(A: T.Buffer((4,), "float32"), i: T.int64):
        A[0] = T.max(A[0] + T.Cast("float32", i), T.float32(0)) * T.float32(2)

    assert_structural_equal(main, written.with_attr("global_symbol", "main"))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return x.real", "The Python function 'helper' fails here: AttributeError"),
        ("return T.exp(x)", "The Python function 'helper': T.exp has a meaning only inside"),
        ("return [x]", "The Python function 'helper' gives list; expected an expression"),
    ],
)
def test_a_function_of_the_surroundings_gives_one_value(body: str, message: str) -> None:
    names: dict[str, Any] = {"T": T}
    exec(f"def helper(x):\n    {body}", names)
    helper = names["helper"]
    with pytest.raises(ParseError) as caught:

        @T.prim_func
        def main(A: T.Buffer((4,), "float32")):
            A[0] = helper(A[0])

    assert message in str(caught.value)


def test_no_source_names_parse() -> None:
    text = "@T.prim_func\ndef f(A: T.Buffer((4,), 'float32')):\n    A[0] = 1.0\n"
    with pytest.raises(ParseError, match=r"Python keeps no source for 'f'.*burnish\.parse"):
        exec(text, {"T": T})


CELL = """
def of(size):
    @I.ir_module
    class Made:
# a comment at the left margin
        @R.function
        def main(x: R.Tensor((size,), "float32")):
            return R.relu(x)
    return Made

first = of(3)

@I.ir_module
class Twice:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        return R.relu(x)

second = Twice

@I.ir_module
class Twice:
    @R.function
    def main(x: R.Tensor((5,), "float32")):
        return R.exp(x)
"""


def test_classes_of_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    # A notebook's cell has a name that is no file; its text is where tracebacks find it.
    name = "/nowhere/ipykernel_1/2.py"
    lines = CELL.splitlines(keepends=True)
    monkeypatch.setitem(linecache.cache, name, (len(CELL), None, lines, name))
    names: dict[str, object] = {"__name__": "__main__", "I": I, "R": R}
    exec(compile(CELL, name, "exec"), names)
    for found, size in (("first", 3), ("second", 4), ("Twice", 5)):
        assert f"x: R.Tensor(({size},)" in str(names[found])
    assert "R.exp" in str(names["Twice"])


@pytest.mark.parametrize(
    ("decorate", "message"),
    [
        (lambda: T.prim_func(3), "@T.prim_func decorates a function, not a int"),
        (lambda: I.ir_module(3), "@I.ir_module decorates a class, not a int"),
        (lambda: R.function(3), "@R.function decorates a function, not a int"),
    ],
)
def test_what_is_decorated(decorate: Callable[[], object], message: str) -> None:
    with pytest.raises(ParseError, match=message):
        decorate()


def test_words() -> None:
    assert repr(T.axis.spatial) == "T.axis.spatial"
    assert repr(T.Buffer((4, 4), "float32")) == "T.Buffer"
    assert repr(T.Buffer[(4, 4), "float32"]) == "T.Buffer"
    assert repr(R.Tensor((4,), "float32") | None) == "R.Tensor"
    assert "grid" in dir(T)
    assert repr(T) == "burnish.script.T"
    with pytest.raises(AttributeError, match="T has no word 'gird'"):
        _ = T.gird
    with pytest.raises(ParseError, match=r"T\.grid has a meaning only inside a function"):
        T.grid(4)
    assert not hasattr(T.grid, "_private")


def test_no_python_loop_runs_through_a_word() -> None:
    with pytest.raises(TypeError, match="'Word' object is not iterable"):
        list(R.Tensor)
