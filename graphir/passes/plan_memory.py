"""plan_memory: where the intermediates of a run of calls live, and what they can share.

Each value is live from the call that writes it to the last call that reads it. The plan gives each
a byte offset in one arena so that values that are live at the same time never overlap, whatever the
symbolic dims are. Nothing is changed here: ``emit_vm`` applies the plan.

Sizes are expressions. They are planned in three ways, the arenas laid one behind the other:

* *constant* sizes by best fit: largest first, each at the lowest offset free during its whole life;
* sizes ``c * s`` with one symbolic factor ``s`` and ``c`` a multiple of the alignment, the same way
  in units of ``s``: offsets that are right for ``s = 1`` are right, scaled, for every ``s >= 0``;
* all others in *slots* of their own size (rounded up): a later value takes a slot that is free
  where its size is proved equal to the slot's.

(Best fit by decreasing size is the classic heuristic for dynamic storage allocation.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...support.abi import ALIGNMENT
from ...tensorir.expr import Expr, IntImm, Mul, Var
from ..dim import dim_equal, static_value


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A value of ``size`` bytes, live at the steps ``first`` to ``last``, both included."""

    size: Expr
    first: int
    last: int

    def overlaps(self, other: Lifetime) -> bool:
        """Whether both are live at some step."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """A byte offset for each value, in the order they were given, and the bytes of the arena."""

    offsets: tuple[Expr, ...]
    total: Expr


def plan_memory(values: Sequence[Lifetime], alignment: int = ALIGNMENT) -> MemoryPlan:
    """Place the values; every offset and the total are multiples of ``alignment``.

    The arena's size is at most the sum of the sizes, each rounded up.
    """
    offsets: list[Expr] = [IntImm(0)] * len(values)
    base: Expr = IntImm(0)
    constants: list[int] = []
    scaled: dict[tuple[int, ...], list[int]] = {}
    others: list[int] = []
    factors: dict[tuple[int, ...], Expr] = {}
    units: dict[int, int] = {}
    for i, value in enumerate(values):
        number, symbols = _factor(value.size)
        if not symbols:
            constants.append(i)
            units[i] = _round_up(number, alignment)
        elif number % alignment == 0 and all(isinstance(s, Var) for s in symbols):
            key = tuple(sorted(id(s) for s in symbols))
            scaled.setdefault(key, []).append(i)
            factors.setdefault(key, _product(symbols))
            units[i] = number
        else:
            others.append(i)

    def place(chosen: Sequence[int], scale: Callable[[int], Expr]) -> None:
        nonlocal base
        starts, total = _best_fit([values[i] for i in chosen], [units[i] for i in chosen])
        for i, start in zip(chosen, starts, strict=True):
            offsets[i] = base + scale(start)
        base = base + scale(total)

    place(constants, IntImm)
    for key, chosen in scaled.items():
        place(chosen, lambda n, s=factors[key]: s * n)  # type: ignore[misc]
    base = _place_in_slots(values, others, offsets, base, alignment)
    return MemoryPlan(tuple(offsets), base)


def _factor(size: Expr) -> tuple[int, tuple[Expr, ...]]:
    """``size`` as a constant times symbolic factors."""
    number = static_value(size)
    if number is not None:
        return number, ()
    if isinstance(size, Mul):
        a, left = _factor(size.a)
        b, right = _factor(size.b)
        return a * b, left + right
    return 1, (size,)


def _product(symbols: Sequence[Expr]) -> Expr:
    result = symbols[0]
    for s in symbols[1:]:
        result = result * s
    return result


def _round_up(number: int, alignment: int) -> int:
    return (number + alignment - 1) // alignment * alignment


def _best_fit(values: Sequence[Lifetime], sizes: Sequence[int]) -> tuple[list[int], int]:
    """Offsets for values of constant sizes, and the arena's size."""
    starts = [0] * len(values)
    placed: list[int] = []
    for i in sorted(range(len(values)), key=lambda i: (-sizes[i], values[i].first, i)):
        taken = sorted(
            (starts[j], starts[j] + sizes[j]) for j in placed if values[i].overlaps(values[j])
        )
        starts[i] = _tightest_gap(taken, sizes[i])
        placed.append(i)
    return starts, max([start + size for start, size in zip(starts, sizes, strict=True)], default=0)


def _tightest_gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """The start of the smallest gap between the taken ranges that holds ``size``, else their
    end."""
    best: tuple[int, int] | None = None
    end = 0
    for begin, stop in taken:
        gap = begin - end
        if gap >= size and (best is None or gap < best[0]):
            best = (gap, end)
        end = max(end, stop)
    return end if best is None else best[1]


def _place_in_slots(
    values: Sequence[Lifetime],
    chosen: Sequence[int],
    offsets: list[Expr],
    base: Expr,
    alignment: int,
) -> Expr:
    """Give each value a slot of its size; returns the arena's end."""
    slots: list[tuple[Expr, list[int]]] = []
    for i in sorted(chosen, key=lambda i: (values[i].first, i)):
        for _, tenants in slots:
            fits = dim_equal(values[tenants[0]].size, values[i].size)
            if fits and not any(values[i].overlaps(values[j]) for j in tenants):
                offsets[i] = offsets[tenants[0]]
                tenants.append(i)
                break
        else:
            offsets[i] = base
            slots.append((base, [i]))
            base = base + (values[i].size + (alignment - 1)) // alignment * alignment
    return base
