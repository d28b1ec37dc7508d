"""Errors render themselves: what was expected, what was found, where, and what to do."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

from burnish.support import errors
from burnish.support.errors import (
    BurnishError,
    DTypeError,
    DTypeMismatchError,
    DuplicateFunctionError,
    InternalError,
    MissingExtraError,
    ParseError,
    PassError,
    ShapeMismatchError,
    TypeInferenceError,
    UnknownFunctionError,
    UnsupportedOp,
    UnsupportedOpError,
    VerifyError,
    nearest,
)
from burnish.support.source import Source, Span

TEXT = Source("model.py", "a = 1\nb = a +* 2\n", first_line=10)
SPAN = Span(TEXT, 2, 6, 2, 8)

CASES: dict[str, Exception] = {
    "parse": ParseError("Expected an operand.", SPAN),
    "pass": PassError("fuse-ops", VerifyError("a variable is bound once", "x is bound twice")),
    "unsupported": UnsupportedOpError(
        [UnsupportedOp("aten.foo", 3, "layer1.0"), UnsupportedOp("aten.bar", 1, "head")],
        "torch",
        may_fall_back=True,
    ),
    "unknown-function": UnknownFunctionError("env.liner", ["env.linear"], "the program"),
    "duplicate": DuplicateFunctionError("env.linear"),
    "shape": ShapeMismatchError("x", "(n, 784)", "(784,)", "Add a batch dimension."),
    "dtype": DTypeMismatchError("x", "float32", "float64"),
    "extra": MissingExtraError("onnx", "onnx", "Importing an ONNX model"),
    "internal": InternalError("the stack is empty"),
}


@pytest.mark.parametrize("name", CASES)
def test_messages(name: str, golden: Callable[..., None]) -> None:
    golden(str(CASES[name]))


def test_every_error_has_one_root() -> None:
    classes = [
        c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, Exception)
    ]
    assert {c for c in classes if not issubclass(c, BurnishError)} == {InternalError}


def test_errors_are_also_the_builtin_that_callers_expect() -> None:
    assert isinstance(CASES["parse"], SyntaxError)
    assert isinstance(CASES["shape"], ValueError)
    assert isinstance(CASES["dtype"], TypeError)
    assert isinstance(CASES["unknown-function"], KeyError)
    assert isinstance(CASES["extra"], ImportError)


def test_notes_are_kept_below_the_message() -> None:
    error = BurnishError("wrong").note("while reading w.bin")
    assert error.__notes__ == ["while reading w.bin"]


def test_each_reader_hears_how_he_casts() -> None:
    error = TypeInferenceError("add", "two dtypes.", "one dtype; cast with R.astype", axes=(-1,))
    error.cast_by("put a Cast in front")
    assert str(error) == "add: two dtypes. Expected one dtype; put a Cast in front."
    assert error.axes == (-1,)


def test_nearest() -> None:
    assert nearest("linaer", ["linear", "relu"]) == " Did you mean 'linear'?"
    assert nearest("zzz", ["linear"]) == ""
    assert nearest("c", ["root", "C"]) == " Did you mean 'C'?"


def test_a_dtype_error_says_what_was_expected_where() -> None:
    assert str(DTypeError("float33", ["float32", "int8"])) == (
        "Expected a dtype, one of float32, int8; found 'float33'."
    )
    assert str(DTypeError("int64", ["bool"], what="for the condition of if_then_else")) == (
        "Expected bool for the condition of if_then_else; found int64."
    )


def test_a_span_names_its_place_in_the_file() -> None:
    assert str(SPAN) == "model.py:11:7"
    assert Span(TEXT, 1, 0, 2, 3).render().splitlines()[-1].endswith("^^^^^")
    assert Span(TEXT, 9, 0, 9, 1).render() == "--> model.py:18:1"
