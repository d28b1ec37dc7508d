"""Sizes of named dims for which forward() takes other branches than the exported program.

torch.export tells them by guards: the program was traced for the sizes that satisfy them. It stands
for the others too, if it agrees with the module there. Few are compared one by one. Of many
(``n % 64 == 0``) it is not enough to compare some, since the branch that they take may branch once
more (``if n == 448``). So the module is traced with such a size, and the guards of that trace tell
which of the others take the very same branches. Of these some are compared with eager; the rest is
traced in turn, until all sizes are known, or the module is refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram

from ...support.errors import FrontendError
from .check_sizes import DiffersError, check_size, check_together
from .dynamic_shapes import ExportPlan
from .said_guards import Gaps, guards_of
from .unsaid_guards import TRIED_ALL, GuardOfSeveral, failing, guards_of_several, holds, limits_of

_MOST_ALONE = 16
"""How many sizes of a dim are compared one by one."""
_MOST_BRANCHES = 6
"""How many sizes of a dim are traced."""
_MOST_LARGE = 3
"""How many of them may be large, as of a table with so many rows; more are the first of endless
many."""
_LARGEST = 2 * TRIED_ALL
"""The largest size of many that is traced and compared."""
_COMPARED = 3
"""How many sizes of a branch are compared, where they are no run."""
_MOST_SEVERAL = 12
"""How many sizes of several names are compared, of each kind."""
_LARGER = (64, 128, 256, 512, 1024)
"""Sizes from which the next of a branch is compared, too: what it computes may be of other parts of
an axis there (``x[:512]``)."""


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
            plan.compared[name] = tuple(sizes[:_COMPARED])
            continue
        compared: list[int] = []
        for branch in _branches(sizes, plan, gaps, name, export):
            compared += branch
            _compare(branch, module, program, plan, name)
        sampled.append((name, tuple(sorted(compared))))
        plan.compared[name] = tuple(sorted(compared)[:_COMPARED])
    plan.sampled = tuple(sampled)


def check_several(module: torch.nn.Module, program: ExportedProgram, plan: ExportPlan) -> None:
    """Raise FrontendError where the module computes something else for sizes that torch leaves out
    of each of two names. Where it does so because a branch asks for several names, calls have to be
    on the side of the examples: ``plan.conditions`` is set to that."""

    def differs(some: Iterable[Mapping[str, int]]) -> DiffersError | None:
        for sizes in some:
            if any(plan.leaves_out(n, name) for name, n in sizes.items()):
                continue
            try:
                check_together(sizes, module, program, plan)
            except DiffersError as error:
                return error
        return None

    kept = list(_sides(program, plan, differs))
    plan.conditions = tuple([(g.wider if is_wider else g.text, g.names) for g, is_wider in kept])
    pairs = itertools.combinations(plan.compared.items(), 2)
    together = [{a: m, b: n} for (a, some), (b, more) in pairs for m in some for n in more]
    error = differs(
        sizes
        for sizes in together[:_MOST_SEVERAL]
        if all(g.holds(sizes) for g, _ in kept if {*g.names} <= {*sizes})
    )
    if error is not None:
        raise error


def _sides(
    program: ExportedProgram,
    plan: ExportPlan,
    differs: Callable[[Iterable[Mapping[str, int]]], DiffersError | None],
) -> Iterator[tuple[GuardOfSeveral, bool]]:
    """The branches on several names whose other side is something else, and whether where both are
    equal is on the side of the program. Raises DiffersError where the examples are not."""
    for guard in guards_of_several(program, plan):
        error = differs(guard.others)
        if error is None:
            continue
        is_wider = bool(guard.edge) and differs(guard.edge) is None
        if not guard.holds(plan.shown, is_wider=is_wider):
            raise error
        yield guard, is_wider


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
    limits = dict(limits_of(plan))[name]
    told = " ".join([guard for own, guard in gaps.guards if own == name])
    rest = [n for n in sizes if not plan.leaves_out(n, name)]
    for turn in range(_MOST_BRANCHES + 1):
        if _are_few(rest):
            yield rest
            return
        if turn == _MOST_BRANCHES:
            break
        guards = _guards_of_one(rest, plan, gaps, name, export)
        yield _some_of([n for n in rest if _hold(guards, n)])
        # Sizes that the guards name may be none of those that were tried so far.
        named = [n for guard in guards for n in failing(guard, *limits, beside=told)]
        named = [n for n in named if gaps.have({name: n})]
        known.append(guards)
        rest = [
            n
            for n in sorted({*rest, *named})
            if not any(_hold(branch, n) for branch in known) and not plan.leaves_out(n, name)
        ]
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
    return len(sizes) <= _MOST_ALONE and sum(n > TRIED_ALL for n in sizes) <= _MOST_LARGE


def _some_of(sizes: Sequence[int]) -> list[int]:
    """Of the sizes of a branch a few that stand for them: of a first run its ends and what lies
    between, and some behind it, none larger than need be."""
    end = next((i for i, n in enumerate(sizes) if n != sizes[0] + i), len(sizes))
    run, rest = sizes[:end], sizes[end:]
    places = {0, 1, len(run) // 3, 2 * len(run) // 3, len(run) - 2, len(run) - 1}
    larger = [next((n for n in rest if n >= size), 0) for size in _LARGER]
    some = [*[run[i] for i in places if 0 <= i < len(run)], *rest[:_COMPARED], *larger]
    return sorted({n for n in some if 0 < n <= TRIED_ALL}) or list(sizes[:1])


__all__ = ["UnknownBranchError", "check_left_out", "check_several"]
