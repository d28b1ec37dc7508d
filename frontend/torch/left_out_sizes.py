"""Sizes of named dims for which forward() takes other branches than the exported program.

torch.export tells them by guards: the program was traced for the sizes that satisfy them. It stands
for the others too, if it agrees with the module there. Few are compared one by one. Of many
(``n % 64 == 0``) it is not enough to compare some, since the branch that they take may branch once
more (``if n == 448``). So the module is traced with such a size, and the guards of that trace tell
which of the others take the very same branches. Of these some are compared with eager; the rest is
traced in turn, until all sizes are known, or the module is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram

from ...support.errors import FrontendError
from .check_sizes import check_size
from .dynamic_shapes import ExportPlan
from .said_guards import Gaps, guards_of
from .unsaid_guards import TRIED_ALL, failing, holds

MOST_ALONE = 16
"""How many sizes of a dim are compared one by one."""
MOST_BRANCHES = 6
"""How many sizes of a dim are traced."""
_MOST_LARGE = 3
"""How many of them may be large, as of a table with so many rows; more are the first of endless
many."""
_LARGEST = 2 * TRIED_ALL
"""The largest size of many that is traced and compared."""
_COMPARED = 3
"""How many sizes of a branch are compared, where they are no run."""


class UnknownBranchError(FrontendError):
    """There are sizes for which nobody knows what branches they take."""


def check_left_out(
    module: torch.nn.Module,
    program: ExportedProgram,
    plan: ExportPlan,
    gaps: Gaps,
    export: Callable[[ExportPlan], Any],
) -> None:
    """Raise FrontendError where the module computes something else for sizes that torch leaves out,
    and UnknownBranchError where that cannot be told. ``export`` exports it for other examples.
    ``plan.sampled`` is set to the names of which not all sizes were compared, and those that were.
    """
    sampled: list[tuple[str, tuple[int, ...]]] = []
    for name, sizes in gaps.sizes.items():
        if _are_few(sizes):
            _compare(sizes, module, program, plan, name)
            continue
        compared: list[int] = []
        for branch in _branches(sizes, plan, gaps, name, export):
            compared += branch
            _compare(branch, module, program, plan, name)
        sampled.append((name, tuple(sorted(compared))))
    plan.sampled = tuple(sampled)


def _compare(
    sizes: Sequence[int],
    module: torch.nn.Module,
    program: ExportedProgram,
    plan: ExportPlan,
    name: str,
) -> None:
    for size in sorted(sizes, reverse=True):
        check_size(size, module, program, plan, name)


def _branches(
    sizes: Sequence[int],
    plan: ExportPlan,
    gaps: Gaps,
    name: str,
    export: Callable[[ExportPlan], Any],
) -> Iterator[list[int]]:
    """The sizes to compare, of each branch some; of the last few all."""
    known: list[list[str]] = []
    rest = [n for n in sizes if not plan.leaves_out(n, name)]
    for _ in range(MOST_BRANCHES):
        if _are_few(rest):
            yield rest
            return
        guards = _guards_of_one(rest, plan, gaps, name, export)
        yield _some_of([n for n in rest if _hold(guards, n)])
        # Sizes that the guards name may be none of those that were tried so far.
        named = [n for guard in guards for n in failing(guard) if gaps.have({name: n})]
        known.append(guards)
        rest = [
            n
            for n in sorted({*rest, *named})
            if not any(_hold(branch, n) for branch in known) and not plan.leaves_out(n, name)
        ]
    if rest:
        raise UnknownBranchError(f"{name} has more branches than are looked at.")


def _guards_of_one(
    rest: Sequence[int],
    plan: ExportPlan,
    gaps: Gaps,
    name: str,
    export: Callable[[ExportPlan], Any],
) -> list[str]:
    """What holds for all sizes that take the same branches as one of these."""
    free = [n for n in rest if 1 < n <= _LARGEST and n not in plan.taken]
    tried = [free[min(place, len(free) - 1)] for place in (3, len(free) // 2, 0) if free]
    for size in dict.fromkeys(tried):
        guards: list[tuple[str, str]] | None = []
        try:
            export(plan.at_size(size, name))
        except FrontendError as error:
            guards = guards_of(error, plan)
        # What the branch asks of other dims was compared only where the program asks it, too.
        if guards is not None and all(own == name or (own, g) in gaps.guards for own, g in guards):
            found = [guard for own, guard in guards if own == name]
            if _hold(found, size):
                return found
    raise UnknownBranchError(f"no size of {name} that torch leaves out can be traced.")


def _hold(guards: Sequence[str], size: int) -> bool:
    return all(holds(guard, size) for guard in guards)


def _are_few(sizes: Sequence[int]) -> bool:
    return len(sizes) <= MOST_ALONE and sum(n > TRIED_ALL for n in sizes) <= _MOST_LARGE


def _some_of(sizes: Sequence[int]) -> list[int]:
    """Of the sizes of a branch a few that stand for them: of a first run its ends and what lies
    between, and some behind it, none larger than need be."""
    end = next((i for i, n in enumerate(sizes) if n != sizes[0] + i), len(sizes))
    run, rest = sizes[:end], sizes[end:]
    places = {0, 1, len(run) // 3, 2 * len(run) // 3, len(run) - 2, len(run) - 1}
    some = [*[run[i] for i in sorted(places) if 0 <= i < len(run)], *rest[:_COMPARED]]
    return [n for n in some if n <= TRIED_ALL] or list(sizes[:1])


__all__ = ["MOST_ALONE", "UnknownBranchError", "check_left_out"]
