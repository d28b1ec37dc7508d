"""What the parser knows while parsing: words, descriptions, positions in views, advice."""

from __future__ import annotations

import ast

from burnish.tensorir.buffer import make_buffer
from burnish.tensorir.expr import INDEX, IntImm
from burnish.tensorir.intrinsics import INTRINSICS
from burnish.tensorir.text.text_values import (
    ELSEWHERE,
    INTRINSIC_ALIASES,
    NODE_WORDS,
    Handle,
    Word,
    describe,
    no_part,
)

A = make_buffer("A", [8, 4])


def test_values_are_described_in_a_few_words() -> None:
    assert describe(A) == "the buffer 'A'"
    assert describe(Word("T.grid")) == "the word T.grid"
    assert describe(IntImm(3)) == "an expression of dtype int64"
    assert describe("x") == "the string 'x'"
    assert describe(INDEX) == "the dtype int64"
    assert describe([1]) == "a list"
    assert describe(Handle("a")).startswith("the handle 'a' (no T.match_buffer")


def test_no_word_has_two_meanings() -> None:
    assert not set(ELSEWHERE) & (set(INTRINSICS) | set(NODE_WORDS) | set(INTRINSIC_ALIASES))
    assert set(INTRINSIC_ALIASES.values()) <= set(INTRINSICS)


def test_python_that_has_no_place_says_what_to_write() -> None:
    node = ast.parse("while x: pass").body[0]
    assert no_part(node) == (
        "Python's While is not part of the text form of PrimFuncs. Write a loop over a range, "
        "with an if inside."
    )
