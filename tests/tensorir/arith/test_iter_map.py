"""Iterator maps: tables, affine bindings, and a law against counting all points."""

from __future__ import annotations

import itertools
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.tensorir.arith import Analyzer, detect_iter_map, is_affine_binding
from burnish.tensorir.arith.iter_map import Decomposition, all_taken, undetermined
from burnish.tensorir.arith.linear import constant, render
from burnish.tensorir.arith.simplify import Simplifier
from burnish.tensorir.buffer import Range
from burnish.tensorir.expr import And, Expr, FloorDiv, FloorMod, IntImm, Var, as_expr, const
from burnish.tensorir.stmt import Block, BlockRealize, Evaluate, IterVar
from burnish.tensorir.text.printer import print_expr

F, F0, F1, I0, I1, I2, M, B = (Var(n) for n in ("f", "f0", "f1", "i0", "i1", "i2", "m", "b"))
TRUE = const(True, "bool")


def analyzer() -> Analyzer:
    a = Analyzer()
    a.declare_dim(M)
    return a


@pytest.mark.parametrize(
    ("indices", "loops", "predicate", "kind", "extents"),
    [
        ([I0 * 8 + I1], {I0: 4, I1: 8}, None, "bijective", ["32"]),
        ([I1, I0], {I0: 4, I1: 8}, None, "bijective", ["8", "4"]),
        ([F // 4, F % 4], {F: 24}, None, "bijective", ["6", "4"]),
        ([F // 8 % 3, F // 24, F % 8], {F: 48}, None, "bijective", ["3", "2", "8"]),
        ([(F0 * 6 + F1) // 4, (F0 * 6 + F1) % 4], {F0: 4, F1: 6}, None, "bijective", ["6", "4"]),
        ([I0 * 8 + I1 + B], {I0: 4, I1: 8}, None, "bijective", ["32"]),
        ([I0 * M + I1], {I0: 4, I1: M}, None, "bijective", ["m * 4"]),
        ([F // M, F % M], {F: M * 4}, None, "bijective", ["4", "m"]),
        ([I0 * 8 + I1], {I0: 13, I1: 8}, I0 * 8 + I1 < 100, "bijective", ["100"]),
        ([I0 * 8 + I1], {I0: (M + 7) // 8, I1: 8}, I0 * 8 + I1 < M, "bijective", ["m"]),
        (
            [I0 * 8 + I1 * 3 + I2],
            {I0: 13, I1: 3, I2: 3},
            And(I0 * 8 + I1 * 3 + I2 < 100, I1 * 3 + I2 < 8),
            "bijective",
            ["100"],
        ),
        ([F], {F: 104}, F < 100, "bijective", ["100"]),
        ([I0], {I0: 4, I1: 8}, None, "surjective", ["4"]),
        ([F // 8], {F: 100}, None, "surjective", ["13"]),
        ([F % 8], {F: 100}, None, "surjective", ["8"]),
        ([F // 8, F % 8], {F: 100}, None, "injective", ["13", "8"]),
        ([F // 8, F % 8], {F: M}, None, "injective", ["(m + 7) // 8", "8"]),
        ([I0 * 16 + I1], {I0: 4, I1: 8}, None, "injective", [None]),
        ([I0 * 2], {I0: 4}, None, "bijective", ["4"]),
        ([as_expr(0)], {I0: 1}, None, "bijective", ["1"]),
        ([I0 + I1], {I0: 4, I1: 8}, None, None, []),
        ([I0, I0], {I0: 4}, None, None, []),
        ([F // 4, F % 8], {F: 32}, None, None, []),
        ([I0 * I1], {I0: 4, I1: 8}, None, None, []),
        ([7 - I0], {I0: 8}, None, None, []),
        ([(F + 3) // 4], {F: 8}, None, None, []),
        # A piece that is cut off wraps around: 2 and 6 would share a place.
        ([F % 4, F % 6 // 4], {F: 8}, None, None, []),
        ([F % 6 % 4, F // 4], {F: 12}, None, None, []),
        ([F % 12 // 4, F % 12 % 4], {F: 24}, None, "surjective", ["3", "4"]),
        ([I0 * 16 + I1], {I0: M, I1: 8}, None, "injective", [None]),
    ],
)
def test_detect(
    indices: list[Expr],
    loops: dict[Var, int | Expr],
    predicate: Expr | None,
    kind: str | None,
    extents: list[str | None],
) -> None:
    a = analyzer()
    found = detect_iter_map(indices, loops, predicate, a)
    if kind is None:
        assert found is None
        return
    assert found is not None
    assert [
        None if t.extent is None else print_expr(a.simplify(render(t.extent))) for t in found.sums
    ] == extents
    assert found.is_injective == (kind in ("injective", "bijective"))
    assert found.is_surjective == (kind in ("surjective", "bijective"))
    assert found.is_bijective == (kind == "bijective")


def realize(values: list[Expr], extents: list[int | Expr], predicate: Expr = TRUE) -> BlockRealize:
    iter_vars = tuple(
        [
            IterVar(Var(f"v{k}"), Range(as_expr(0), as_expr(n)), "spatial")
            for k, n in enumerate(extents)
        ]
    )
    return BlockRealize(
        tuple(values), predicate, Block("block", iter_vars, (), (), Evaluate(as_expr(0)))
    )


@pytest.mark.parametrize(
    ("values", "extents", "loops", "predicate", "affine"),
    [
        ([I0 * 8 + I1], [32], {I0: 4, I1: 8}, TRUE, True),
        ([I0 * 8 + I1], [64], {I0: 4, I1: 8}, TRUE, False),
        ([I0 * 8 + I1], [100], {I0: 13, I1: 8}, I0 * 8 + I1 < 100, True),
        ([I0 * 8 + I1], [100], {I0: 13, I1: 8}, TRUE, False),
        ([I0 * 8 + I1], [M], {I0: (M + 7) // 8, I1: 8}, I0 * 8 + I1 < M, True),
        ([I0, I1 * 0], [4, 1], {I0: 4, I1: 8}, TRUE, True),
        ([I0, I0], [4, 4], {I0: 4}, TRUE, False),
        ([I0 + 1], [4], {I0: 4}, TRUE, False),
        # 25 x 4 fused, then split by 8: the canonical form hides the fused counter.
        ([I0 * 2 + I1 // 4, I1 % 4], [25, 4], {I0: 13, I1: 8}, I0 * 8 + I1 < 100, True),
        ([I0 * 2 + I1 // 4, I1 % 4], [26, 4], {I0: 13, I1: 8}, I0 * 8 + I1 < 100, False),
    ],
)
def test_affine_binding(
    values: list[Expr],
    extents: list[int | Expr],
    loops: dict[Var, int | Expr],
    predicate: Expr,
    affine: bool,
) -> None:
    assert is_affine_binding(realize(values, extents, predicate), loops, analyzer()) is affine


# -- the law: what is claimed agrees with counting ------------------------------------
def value(e: Expr, env: dict[Var, int]) -> int:
    match e:
        case Var():
            return env[e]
        case IntImm():
            return e.value
        case FloorDiv():
            return value(e.a, env) // value(e.b, env)
        case FloorMod():
            return value(e.a, env) % value(e.b, env)
    name = type(e).__name__
    a, b = value(e.a, env), value(e.b, env)  # type: ignore[attr-defined]
    return {"Add": a + b, "Sub": a - b, "Mul": a * b}[name]


EXTENTS = st.sampled_from([1, 2, 3, 4, 6, 8])
FACTORS = st.sampled_from([1, 2, 3, 4, 6, 8, 12])


@st.composite
def index_lists(draw: st.DrawFn) -> tuple[list[Expr], dict[Var, int]]:
    loops = {v: draw(EXTENTS) for v in (I0, I1, I2)}

    def term() -> Expr:
        fused = I0 * loops[I1] + I1
        e: Expr = draw(st.sampled_from([I0, I1, I2, fused, fused + 1]))
        for cut in draw(st.sampled_from(["/%", "%/", "%%", "%/%"])):
            factor = draw(FACTORS)
            e = e // factor if cut == "/" else e % factor
        return e

    indices = [
        term() * draw(FACTORS) + term() if draw(st.booleans()) else term()
        for _ in range(draw(st.integers(1, 3)))
    ]
    return indices, loops


@settings(max_examples=400, deadline=None, derandomize=True)
@given(index_lists())
def test_claims_agree_with_counting(case: tuple[list[Expr], dict[Var, int]]) -> None:
    indices, loops = case
    found = detect_iter_map(indices, loops, None, Analyzer())
    if found is None:
        return
    points = [
        tuple(value(i, dict(zip(loops, p, strict=True))) for i in indices)
        for p in itertools.product(*map(range, loops.values()))
    ]
    if found.is_injective:
        assert len(set(points)) == len(points)
    if found.is_surjective:
        sizes = [t.extent.const for t in found.sums if t.extent is not None]
        assert len(sizes) == len(indices)
        assert len(set(points)) == prod(sizes)


def simplifier(loops: dict[Var, int]) -> Simplifier:
    s = Simplifier()
    for v, n in loops.items():
        s.bind(v, n)
    return s


@settings(max_examples=400, deadline=None, derandomize=True)
@given(index_lists())
def test_loops_that_indices_tell_follow_from_them(case: tuple[list[Expr], dict[Var, int]]) -> None:
    indices, loops = case
    lost = undetermined(indices, {v: constant(n) for v, n in loops.items()}, simplifier(loops))
    if lost is None:
        return
    seen: dict[tuple[int, ...], tuple[int, ...]] = {}
    for point in itertools.product(*map(range, loops.values())):
        env = dict(zip(loops, point, strict=True))
        told = tuple([env[v] for v in loops if v not in lost])
        assert seen.setdefault(tuple([value(i, env) for i in indices]), told) == told


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.lists(st.sampled_from([2, 3, 4, 5, 8]), min_size=2, max_size=4),
    st.integers(2, 12),
    st.sets(st.integers(0, 3)),
)
def test_loops_that_digits_of_fused_axes_tell_follow_from_them(
    dims: list[int], factor: int, dropped: set[int]
) -> None:
    """What a schedule that fuses all axes and vectorises the one it gets binds them to."""
    total = prod(dims)
    loops = {I0: -(-total // factor), I1: factor}
    s = simplifier(loops)
    fused, below, digits = I0 * factor + I1, 1, []
    for axis, n in reversed(list(enumerate(dims))):
        digit = fused // below
        digits.append(render(s.linear(digit % n if axis else digit)))
        below *= n
    kept = [d for i, d in enumerate(digits) if i not in dropped]
    lost = undetermined(kept, {v: constant(n) for v, n in loops.items()}, s)
    if lost is None:
        return
    seen: dict[tuple[int, ...], tuple[int, ...]] = {}
    for point in itertools.product(*map(range, loops.values())):
        env = dict(zip(loops, point, strict=True))
        told = tuple([env[v] for v in loops if v not in lost])
        assert seen.setdefault(tuple([value(i, env) for i in kept]), told) == told


def test_the_lowest_digits_of_a_sum_are_digits_of_its_parts() -> None:
    loops = {I0: 9920, I1: 16}
    s = simplifier(loops)
    extents = {v: constant(n) for v, n in loops.items()}
    fused = I0 * 16 + I1
    values = [I0 // 320, I0 // 10 % 32, fused // 5 % 32, fused % 5]
    assert undetermined(values, extents, s) == []
    assert undetermined([*values[:1], *values[2:]], extents, s) is None
    assert undetermined([I0 // 12 % 32, I0 // 384, fused // 5 % 32, fused % 5], extents, s) is None


def test_a_loop_that_runs_once_at_most_is_told() -> None:
    s = simplifier({I0: 1, I1: 4})
    once = s.linear(M % 8 // 4)
    assert undetermined([M // 8 * 8 + I1], {I0: once, I1: constant(4)}, s) == []
    assert undetermined([M // 8 * 8 + I1], {I0: s.linear(M % 8 // 2), I1: constant(4)}, s) == [I0]


@pytest.mark.parametrize(
    ("atom", "piece"),
    [
        (I0, (1, 12)),
        (I0 // 4, (4, 3)),
        (I0 % 4, (1, 4)),
        (I0 % 6 // 2, (2, 3)),
        (I0 // 2 % 3, (2, 3)),
        (I0 // 2 % 4, (2, 4)),
        (I0 % 6 // 4, None),
        (I0 % 6 % 4, None),
        (I0 % I1, None),
        ((I0 * 3 + I1) // 2, None),
        (M, None),
    ],
    ids=lambda e: print_expr(e) if isinstance(e, Expr) else None,
)
def test_pieces_of_one_loop(atom: Expr, piece: tuple[int, int] | None) -> None:
    loops = {I0: 12, I1: 3}
    s = simplifier(loops)
    (canonical,) = s.linear(atom).terms
    found = Decomposition(s, {v: constant(n) for v, n in loops.items()}).split(canonical)
    assert (found and (found.lower.const, found.extent.const)) == piece


def brute_force_all_taken(atoms: list[Expr], extent: int) -> bool:
    points = [tuple([value(a, {I0: x}) for a in atoms]) for x in range(extent)]
    sides = [{p[k] for p in points} for k in range(len(atoms))]
    return len(set(points)) == prod([max(side) + 1 for side in sides])


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.integers(2, 24),
    st.lists(st.tuples(FACTORS, st.integers(2, 6)), min_size=1, max_size=3),
)
def test_pieces_that_take_all_combinations_do(extent: int, cuts: list[tuple[int, int]]) -> None:
    s = simplifier({I0: extent})
    parts = Decomposition(s, {I0: constant(extent)})
    forms = [s.linear(I0 // lower % size) for lower, size in cuts]
    atoms = [form.single for form in forms if form.single is not None]
    splits = [p for a in atoms if (p := parts.split(a)) is not None]
    if len(splits) == len(atoms) and all_taken(splits, s):
        assert brute_force_all_taken(atoms, extent)


def test_digits_of_a_loop_take_all_combinations() -> None:
    s = simplifier({I0: 24})
    parts = Decomposition(s, {I0: constant(24)})

    def taken(*atoms: Expr) -> bool:
        splits = [parts.split(form) for a in atoms for form in s.linear(a).terms]
        return all_taken([p for p in splits if p is not None], s)

    assert taken(I0 // 8, I0 // 4 % 2, I0 % 4)
    assert taken(I0 // 5)
    assert taken(I0 // 8, I0 % 4)
    assert not taken(I0 // 4, I0 % 8), "they share a bit"
    assert not taken(I0 // 5, I0 % 5), "24 is no multiple of 5"
    assert not taken(I0 // 6, I0 % 4), "cut unevenly"
