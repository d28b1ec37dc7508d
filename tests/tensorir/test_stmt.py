"""Statements: sequences are flat, annotations are looked up."""

from __future__ import annotations

from burnish.tensorir.expr import IntImm, Var
from burnish.tensorir.stmt import Evaluate, For, SeqStmt, annotation, seq


def test_seq_is_flat_and_never_of_length_one() -> None:
    a, b, c = (Evaluate(IntImm(i)) for i in range(3))
    assert seq(a) is a
    whole = seq(seq(a, b), c)
    assert isinstance(whole, SeqStmt)
    assert whole.stmts == (a, b, c)


def test_annotations() -> None:
    body = Evaluate(IntImm(0))
    loop = For(Var("i"), IntImm(0), IntImm(4), "serial", body, annotations=(("k", [1, 2]),))
    assert annotation(loop, "k") == [1, 2]
    assert annotation(loop, "other", "default") == "default"
    assert annotation(loop, "other") is None
