"""Traversal: what Visitor and Mutator enter, what they leave as it was, and substitution."""

from __future__ import annotations

import pytest

from burnish.support.structural import structural_equal
from burnish.tensorir import visitor
from burnish.tensorir.buffer import make_buffer
from burnish.tensorir.expr import Add, BufferLoad, Expr, IntImm, Var
from burnish.tensorir.stmt import BufferStore, For, SeqStmt
from burnish.tensorir.visitor import (
    Mutator,
    Visitor,
    accessed_buffers,
    buffers_below,
    free_vars,
    has_load,
    loads_from,
    loads_in,
    replace_buffers,
    substitute,
    uses,
)

N, K, J = Var("n"), Var("i"), Var("j")
A, B = make_buffer("A", (N,)), make_buffer("B", (8,))
LOOP = For(K, IntImm(0), IntImm(8), "serial", BufferStore(B, A[K + J] * 2.0, (K,)))


class CountVars(Visitor):
    def __init__(self) -> None:
        self.names: list[str] = []

    def visit_Var(self, n: Var) -> None:  # noqa: N802
        self.names.append(n.name)


class SwapAdd(Mutator):
    def visit_Add(self, n: Add) -> Expr:  # noqa: N802
        return Add(self.visit(n.b), self.visit(n.a))


def test_visitor_visits_in_field_order() -> None:
    v = CountVars()
    v.visit(LOOP.body)
    assert v.names == ["n", "i", "j", "i"]


def test_mutator_rewrites_and_keeps_the_rest() -> None:
    new = SwapAdd().visit(LOOP)
    assert new is not LOOP
    assert not structural_equal(new, LOOP, map_free_vars=False)
    assert structural_equal(SwapAdd().visit(new), LOOP, map_free_vars=False)
    assert new.var is K
    untouched = For(K, IntImm(0), N, "serial", BufferStore(B, A[K], (K,)))
    assert SwapAdd().visit(untouched) is untouched


def test_mutator_does_not_enter_buffers() -> None:
    class Fail(Mutator):
        def visit_Var(self, n: Var) -> Expr:  # noqa: N802
            if n is N:
                pytest.fail("entered the shape of a buffer")
            return n

    assert Fail().visit(LOOP) is LOOP


def test_substitute() -> None:
    new = substitute(LOOP.body, {J: IntImm(3)})
    assert not uses(new, J)
    assert uses(new, K)
    assert uses(LOOP, J)
    assert substitute(LOOP, {}) is LOOP
    assert substitute(LOOP, {Var("j"): IntImm(3)}) is LOOP


def test_replace_buffers() -> None:
    c = make_buffer("C", (8,))
    new = replace_buffers(LOOP, {A: c})
    assert accessed_buffers(new) == ([c], [B])
    assert accessed_buffers(LOOP) == ([A], [B])
    assert replace_buffers(LOOP, {c: A}) is LOOP


def test_replace_buffers_enters_no_statement_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[object] = []
    rewrite = visitor.map_children
    monkeypatch.setattr(
        visitor, "map_children", lambda n, fn: (entered.append(n), rewrite(n, fn))[1]
    )
    c = make_buffer("C", (N,))
    both = SeqStmt((LOOP, BufferStore(c, c[K] * 2.0, (K,))))
    new = replace_buffers(both, {c: make_buffer("D", (N,))})
    assert isinstance(new, SeqStmt)
    assert new.stmts[0] is LOOP
    assert all(n is not LOOP for n in entered)
    assert buffers_below(both) == {A, B, c}


def test_free_vars_in_order_of_first_appearance() -> None:
    assert free_vars([K + J, J * N, K]) == [K, J, N]


def test_loads() -> None:
    a, b = make_buffer("a", (8,)), make_buffer("b", (8,), "int64")
    inner = BufferLoad(b, (IntImm(3),))
    outer = BufferLoad(a, (inner,))
    store = BufferStore(a, Add(outer, outer), (IntImm(0),))
    assert loads_in(store) == [outer, inner, outer, inner]
    assert has_load(outer.indices[0])
    assert not has_load(inner.indices[0])
    assert loads_from(store, b)
    assert not loads_from(inner, a)
