"""The canonical sum and the interning table."""

from __future__ import annotations

import math

import pytest

from burnish.tensorir.arith.linear import (
    Atoms,
    Linear,
    constant,
    expr_key,
    offset_of,
    render,
    same_structure,
)
from burnish.tensorir.arith.simplify import Simplifier
from burnish.tensorir.buffer import make_buffer
from burnish.tensorir.expr import Expr, FloatImm, FloorDiv, IntImm, Min, Var
from burnish.tensorir.text.printer import print_expr

I_, J, M = Var("i"), Var("j"), Var("m")


@pytest.mark.parametrize(
    ("terms", "const", "text"),
    [
        ({}, 0, "0"),
        ({}, -3, "-3"),
        ({I_: 8, J: 1}, 0, "i * 8 + j"),
        ({J: 1, I_: 8}, 2, "j + i * 8 + 2"),
        ({I_: -1, M: 1}, -1, "m - i - 1"),
        ({I_: -1}, 7, "7 - i"),
        ({I_: -1}, 0, "0 - i"),
        ({I_: -2, J: -1}, -3, "i * -2 - j - 3"),
    ],
)
def test_render(terms: dict[Expr, int], const: int, text: str) -> None:
    assert print_expr(render(Linear(terms, const))) == text


def test_equal_sums_cancel_and_zero_terms_go() -> None:
    x = Linear({I_: 2, J: 1}, 3)
    assert (x - x).key == constant(0).key
    assert (x + Linear({J: -1})).terms == {I_: 2}
    assert x.scale(0).terms == {}
    assert (x.scale(2)).key == (x + x).key
    assert Linear({I_: 1, J: 2}).key == Linear({J: 2, I_: 1}).key


def test_single_is_one_bare_atom() -> None:
    assert Linear({I_: 1}).single is I_
    assert Linear({I_: 2}).single is None
    assert Linear({I_: 1}, 1).single is None
    assert constant(1).single is None


def test_atoms_are_interned_whatever_the_order_of_commuting_operands() -> None:
    atoms = Atoms()
    i, j = Linear({I_: 1}), Linear({J: 1})
    assert atoms.binary(Min, i, j).single is atoms.binary(Min, j, i).single
    assert atoms.binary(FloorDiv, i, j).single is not atoms.binary(FloorDiv, j, i).single
    assert atoms.product((I_, J)) is atoms.product((J, I_))
    assert atoms.product((I_, J, I_)) is not atoms.product((J, I_))


def test_products_are_multiplied_out() -> None:
    atoms = Atoms()
    product = atoms.multiply(Linear({I_: 1}, 2), Linear({M: 3}, -1))
    assert print_expr(render(product)) == "i * m * 3 + m * 6 - i - 2"
    square = atoms.multiply(Linear({I_: 1, J: 1}), Linear({I_: 1, J: -1}))
    assert print_expr(render(square)) == "i * i - j * j"


def test_exact_division_by_an_atom() -> None:
    atoms = Atoms()
    product = atoms.multiply(Linear({I_: 2}, 5), Linear({M: 1}))
    quotient = atoms.divide_exactly(product, M)
    assert quotient is not None
    assert print_expr(render(quotient)) == "i * 2 + 5"
    assert atoms.divide_exactly(product, I_) is None
    assert atoms.divide_exactly(product.shift(1), M) is None


def test_keys_are_structural() -> None:
    a = make_buffer("A", (8,))
    b = make_buffer("A", (8,))
    assert expr_key(a[I_ + 1]) == expr_key(a[I_ + 1])
    assert expr_key(a[I_]) != expr_key(b[I_])
    assert expr_key(I_) != expr_key(Var("i"))
    assert expr_key(IntImm(1)) != expr_key(IntImm(1, a.dtype))
    assert expr_key(FloatImm(math.nan)) == expr_key(FloatImm(math.nan))
    assert expr_key(FloatImm(0.0)) != expr_key(FloatImm(-0.0))


def test_same_structure() -> None:
    a = make_buffer("A", (8,))
    assert same_structure(a[I_ * 2] + 1.0, a[I_ * 2] + 1.0)
    assert not same_structure(a[I_ * 2] + 1.0, a[I_ * 3] + 1.0)
    assert not same_structure(I_ + J, J + I_)
    assert not same_structure(I_ + J, I_ - J)


def test_products_are_written_by_name_whatever_came_first() -> None:
    n = Var("n")
    for first, second in ((M, n), (n, M)):
        atoms = Atoms()
        product = atoms.multiply(Linear({first: 1}), Linear({second: 1}))
        assert print_expr(render(product)) == "m * n"
        again = atoms.multiply(Linear({second: 1}), Linear({first: 1}))
        assert again.key == product.key


def test_the_factor_of_a_variable_and_the_rest() -> None:
    n = Var("n")
    s = Simplifier()
    form = s.linear(I_ * n * 2 + I_ * 3 + J)
    factor = s.atoms.coefficient(form, I_)
    assert factor is not None
    assert print_expr(render(factor)) == "n * 2 + 3"
    assert print_expr(render(s.atoms.without(form, I_))) == "j"
    assert s.atoms.coefficient(s.linear((I_ + J) // 7), I_) is None
    assert s.atoms.coefficient(s.linear(I_ * I_), I_) is None
    assert s.atoms.coefficient(s.linear(I_ * (I_ // 2)), I_) is None


def test_the_step_of_a_variable_is_a_constant() -> None:
    s = Simplifier()
    form = s.linear(I_ * 3 + J * M + 5)
    assert form.step(I_) == 3
    assert form.step(J) is None
    assert form.step(Var("n")) == 0
    assert s.linear(I_ * 4 + I_ // 2).step(I_) is None


def test_the_constant_that_is_added() -> None:
    x = Var("x")
    double = x * 2
    for e, base, offset in ((x + 3, x, 3), (x - 3, x, -3), (x, x, 0), (double + 1, double, 1)):
        assert offset_of(e) == (base, offset)
