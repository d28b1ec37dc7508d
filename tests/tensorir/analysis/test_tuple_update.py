from __future__ import annotations

import pytest

from burnish.tensorir.analysis.paths import find_block, realize_of
from burnish.tensorir.analysis.structure import match_update
from burnish.tensorir.analysis.tuple_update import (
    Combination,
    NoCombination,
    as_combination,
    match_tuple_update,
)
from burnish.tensorir.expr import Var
from burnish.tensorir.stmt import Block
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.text.printer import print_expr

FIRST = ("T.int32(-1)", 'T.float32("-inf")')


def block(index: str, value: str, first: tuple[str, str] = FIRST, *more: str) -> Block:
    """``I[vi], V[vi] = index, value``, of the elements ``a`` and places ``k``."""
    lines = "\n            ".join(more)
    func = parse_func(
        f"""
@T.prim_func
def main(A: T.Buffer((5, 6)), I: T.Buffer((5,), "int32"), V: T.Buffer((5,))):
    for i, k in T.grid(5, 6):
        with T.block("R"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                I[vi] = {first[0]}
                V[vi] = {first[1]}
            a: T.float32 = A[vi, vk]
            k: T.int32 = T.Cast("int32", vk)
            new_i: T.int32 = {index}
            new_v: T.float32 = {value}
            {lines}
            I[vi] = new_i
            V[vi] = new_v
"""
    )
    return realize_of(find_block(func, "R", "")).block


def combined(found: Combination) -> list[str]:
    x = [Var(f"x{i}", b.dtype) for i, b in enumerate(found.buffers)]
    y = [Var(f"y{i}", b.dtype) for i, b in enumerate(found.buffers)]
    return [print_expr(e) for e in found.combine(x, y)]


def test_values_side_by_side() -> None:
    found = match_tuple_update(
        block("I[vi] + T.int32(1)", "V[vi] + a * a", ("T.int32(0)", "T.float32(0)"))
    )
    assert found.choice is None
    assert combined(found) == ["x0 + y0", "x1 + y1"]
    assert [print_expr(t) for t in found.terms] == ["T.int32(1)", "A[vi, vk] * A[vi, vk]"]


@pytest.mark.parametrize(
    ("condition", "keeps_first"),
    [
        ("V[vi] >= a", True),
        ("V[vi] > a", False),
        ("a <= V[vi]", True),
        ("V[vi] <= a", True),
        ("not (a > V[vi])", True),
        ("V[vi] > a or V[vi] == a", True),
        ("V[vi] > a or (V[vi] == a and I[vi] < k)", None),
        ("V[vi] > a or (V[vi] == a and I[vi] <= k)", None),
        ("V[vi] < a or (V[vi] == a and not (I[vi] < k))", None),
        ("T.isnan(V[vi]) or V[vi] >= a", True),
        ("T.isnan(a) or V[vi] >= a", True),
        ("not (T.isnan(a) or V[vi] <= a)", False),
    ],
)
def test_which_of_equal_elements_stays(condition: str, keeps_first: bool | None) -> None:
    found = match_tuple_update(
        block(f"T.Select({condition}, I[vi], k)", f"T.if_then_else({condition}, V[vi], a)")
    )
    kept = found.choice.keeps_first if found.choice is not None else None
    assert kept == keeps_first


@pytest.mark.parametrize("choice", ["T.Select", "T.if_then_else"])
def test_an_index_that_meets_an_int32_is_narrowed(choice: str) -> None:
    made = block(f"{choice}(V[vi] >= a, I[vi], vk)", "T.max(V[vi], a)")
    found = match_tuple_update(made)
    assert found.choice is not None
    assert [print_expr(t) for t in found.terms] == ['T.Cast("int32", vk)', "A[vi, vk]"]


@pytest.mark.parametrize(
    ("order", "made_of"),
    [
        ("I[vi] < vk", "x0 < y0"),
        ("vk > I[vi]", "y0 > x0"),
        ("not (I[vi] > vk)", "not x0 > y0"),
    ],
)
def test_an_index_that_is_compared_with_an_int32_is_narrowed(order: str, made_of: str) -> None:
    condition = f"V[vi] > a or (V[vi] == a and {order})"
    made = block(f"T.Select({condition}, I[vi], vk)", "T.Select(V[vi] > a, V[vi], a)")
    found = match_tuple_update(made)
    assert found.choice is None
    assert [print_expr(t) for t in found.terms] == ['T.Cast("int32", vk)', "A[vi, vk]"]
    wins = f"x1 > y1 or x1 == y1 and {made_of}"
    assert combined(found) == [f"T.Select({wins}, x0, y0)", "T.Select(x1 > y1, x1, y1)"]


def test_an_index_that_int32_may_not_hold_stays_wide() -> None:
    condition = "V[vi] > a or (V[vi] == a and I[vi] < vk * 1073741824)"
    made = block(f"T.Select({condition}, I[vi], vk * 1073741824)", "T.max(V[vi], a)")
    with pytest.raises(NoCombination, match="depends on more than its elements and terms"):
        match_tuple_update(made)


def test_the_value_may_be_chosen_otherwise_where_elements_are_equal() -> None:
    condition = "V[vi] > a or (V[vi] == a and I[vi] < k)"
    for value in ("T.Select(V[vi] > a, V[vi], a)", "T.max(V[vi], a)"):
        found = match_tuple_update(block(f"T.Select({condition}, I[vi], k)", value))
        assert found.choice is None


def test_partial_results_are_told_apart_by_the_place() -> None:
    found = match_tuple_update(block("T.Select(V[vi] >= a, I[vi], k)", "T.max(V[vi], a)"))
    x = [Var("x0", found.buffers[0].dtype), Var("x1", found.buffers[1].dtype)]
    y = [Var("y0", found.buffers[0].dtype), Var("y1", found.buffers[1].dtype)]
    index, value = found.finish(0, grows=True)(x, y)
    wins = "x1 >= y1 and (not y1 >= x1 or (x0 < y0 or x0 == y0))"
    assert print_expr(index) == f"T.Select({wins}, x0, y0)"
    assert print_expr(value) == "T.max(x1, y1)"


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: block("I[vi] - k", "V[vi] + a"), "is none of a sum, product, max, min or choice"),
        (lambda: block("I[vi] + k", "V[vi] + a"), "does not begin with the neutral element"),
        (
            lambda: block("T.Select(V[vi] >= a, I[vi], k)", "T.min(V[vi], a)"),
            "is not the one that the condition chooses",
        ),
        (
            lambda: block("T.Select(V[vi] >= a, I[vi], k)", "T.Select(I[vi] > k, V[vi], a)"),
            "chosen by different conditions",
        ),
        (
            lambda: block("T.Select(V[vi] + a > a, I[vi], k)", "T.max(V[vi], a)"),
            "more than comparisons of elements with their terms and isnan of them",
        ),
        (
            lambda: block("T.Select(vi > 2, I[vi], k)", "T.max(V[vi], a)"),
            "depends on more than its elements and terms",
        ),
        (
            lambda: block("T.Select(V[vi] != a, I[vi], k)", "T.Select(V[vi] != a, V[vi], a)"),
            "of equal values it keeps now the one and now the other",
        ),
        (
            lambda: block(
                "T.Select(V[vi] > a or I[vi] > k, I[vi], k)",
                "T.Select(V[vi] > a or I[vi] > k, V[vi], a)",
            ),
            "its condition is no order of the values",
        ),
        (
            lambda: block("T.Select(T.isnan(a) or V[vi] >= a, I[vi], k)", "T.max(V[vi], a)"),
            "is not the one that the condition chooses",
        ),
        (
            lambda: block(
                "T.Select(T.isnan(V[vi]) or V[vi] > a, I[vi], k)",
                "T.Select(T.isnan(V[vi]) or V[vi] > a, V[vi], a)",
            ),
            "of equal values it keeps now the one and now the other",
        ),
        (
            lambda: block("I[vi] + k", "V[vi] + a", ("T.int32(0)", "A[0, 0]")),
            "do not begin with numbers",
        ),
        (
            lambda: block("I[vi] + k", "V[vi] + a", FIRST, "V[vi] = a"),
            "do not store the same values, once each",
        ),
    ],
)
def test_what_may_not_be_regrouped(made: object, words: str) -> None:
    assert callable(made)
    with pytest.raises(NoCombination) as why:
        match_tuple_update(made())
    assert words in str(why.value)


def test_a_store_that_reads_what_one_before_it_wrote() -> None:
    func = parse_func(
        """
@T.prim_func
def main(A: T.Buffer((5, 6)), I: T.Buffer((5,)), V: T.Buffer((5,))):
    for i, k in T.grid(5, 6):
        with T.block("R"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                V[vi] = T.float32(0)
                I[vi] = T.float32(0)
            V[vi] = V[vi] + A[vi, vk]
            I[vi] = I[vi] + V[vi]
"""
    )
    with pytest.raises(NoCombination, match="reads what a store before it wrote"):
        match_tuple_update(realize_of(find_block(func, "R", "")).block)


def test_one_value_is_a_combination_too() -> None:
    func = parse_func(
        """
@T.prim_func
def main(A: T.Buffer((5, 6)), V: T.Buffer((5,))):
    for i, k in T.grid(5, 6):
        with T.block("R"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                V[vi] = T.float32(0)
            V[vi] = V[vi] + A[vi, vk]
"""
    )
    update = match_update(realize_of(find_block(func, "R", "")).block)
    assert update is not None
    assert combined(as_combination(update)) == ["x0 + y0"]
