from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.graphir.dim import print_dim
from burnish.graphir.passes.plan_memory import Lifetime, MemoryPlan, plan_memory
from burnish.tensorir.expr import Expr, IntImm, Var
from burnish.vm.shape_text import compile_shape

M, N = Var("m"), Var("n")


def value_of(e: Expr, m: int, n: int) -> int:
    return compile_shape(print_dim(e), ("m", "n"))((m, n))


def texts(plan: MemoryPlan) -> list[str]:
    return [print_dim(o) for o in plan.offsets]


def chain(*sizes: Expr) -> list[Lifetime]:
    """Each value is read by the step after the one that writes it."""
    return [Lifetime(s, i, i + 1) for i, s in enumerate(sizes)]


def test_nothing() -> None:
    plan = plan_memory([])
    assert (plan.offsets, print_dim(plan.total)) == ((), "0")


def test_a_chain_needs_two_places() -> None:
    plan = plan_memory(chain(*[IntImm(100)] * 5))
    assert texts(plan) == ["0", "128", "0", "128", "0"]
    assert print_dim(plan.total) == "256"


def test_small_values_share_the_place_of_a_large_one() -> None:
    values = [
        Lifetime(IntImm(256), 0, 1),
        Lifetime(IntImm(64), 2, 3),
        Lifetime(IntImm(64), 2, 3),
        Lifetime(IntImm(64), 1, 2),
    ]
    plan = plan_memory(values)
    assert texts(plan) == ["0", "0", "64", "256"]
    assert print_dim(plan.total) == "320"


def test_the_tightest_gap_is_taken() -> None:
    values = [
        Lifetime(IntImm(640), 0, 0),
        Lifetime(IntImm(512), 0, 9),
        Lifetime(IntImm(128), 5, 9),
        Lifetime(IntImm(64), 5, 9),
    ]
    assert texts(plan_memory(values)) == ["0", "640", "0", "128"]


def test_symbolic_sizes_with_one_factor_share_like_constants() -> None:
    plan = plan_memory(chain(M * 3136, M * 512, M * 256, M * 512))
    assert texts(plan) == ["0", "m * 3136", "m * 512", "0"]
    assert print_dim(plan.total) == "m * 3648"


def test_other_sizes_share_where_they_are_equal() -> None:
    odd, other = (M + 1) * 4, (M + 2) * 4
    plan = plan_memory(chain(odd, other, odd, M * 4 + 4))
    a, b, c, d = texts(plan)
    assert a == c == "0"
    assert len({a, b, d}) == 3


def test_equal_sizes_that_were_written_twice_share() -> None:
    plan = plan_memory(chain(*[(M + 1) * 64 for _ in range(5)]))
    first, second, *rest = texts(plan)
    assert rest == [first, second, first]
    assert value_of(plan.total, 3, 0) == 2 * 256


def test_constant_and_symbolic_parts_lie_one_behind_the_other() -> None:
    plan = plan_memory([Lifetime(IntImm(10), 0, 1), Lifetime(M * 64, 0, 1), Lifetime(N * 4, 0, 1)])
    assert texts(plan) == ["0", "64", "64 + m * 64"]
    assert print_dim(plan.total) == "64 + m * 64 + (n * 4 + 63) // 64 * 64"


@pytest.mark.parametrize("alignment", [1, 64, 4096])
def test_alignment(alignment: int) -> None:
    plan = plan_memory(chain(IntImm(10), M * 12, IntImm(70)), alignment)
    for e in (*plan.offsets, plan.total):
        assert value_of(e, 5, 0) % alignment == 0


sizes = st.one_of(
    st.integers(0, 500).map(IntImm),
    st.integers(1, 5).map(lambda c: M * (64 * c)),
    st.integers(1, 9).map(lambda c: M * c),
    st.integers(1, 3).map(lambda c: M * N * (64 * c)),
    st.integers(1, 3).map(lambda c: N * M * (64 * c)),
    st.integers(1, 3).map(lambda c: (M + c) * 4),
    st.integers(1, 3).map(lambda c: (N + 7) // 8 * (64 * c)),
)
lifetimes = st.tuples(sizes, st.integers(0, 8), st.integers(0, 4)).map(
    lambda t: Lifetime(t[0], t[1], t[1] + t[2])
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(lifetimes, max_size=12))
def test_live_values_never_overlap(values: list[Lifetime]) -> None:
    plan = plan_memory(values)
    for m, n in ((0, 0), (1, 1), (1, 9), (7, 3), (100, 33)):
        sizes = [value_of(v.size, m, n) for v in values]
        starts = [value_of(o, m, n) for o in plan.offsets]
        total = value_of(plan.total, m, n)
        assert total <= sum((s + 63) // 64 * 64 for s in sizes)
        for i, v in enumerate(values):
            assert starts[i] % 64 == 0
            assert 0 <= starts[i] <= starts[i] + sizes[i] <= total
            for j, w in enumerate(values[:i]):
                if v.overlaps(w) and sizes[i] and sizes[j]:
                    apart = starts[i] + sizes[i] <= starts[j] or starts[j] + sizes[j] <= starts[i]
                    assert apart, (i, j, m, n)
