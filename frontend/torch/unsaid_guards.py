"""Guards of named sizes of which torch.export says nothing.

Where a dim is a multiple of a name, or longer by a number (``"2*h"``), torch takes the branches of
the example and tells nobody for which sizes these are: ``if x.shape[1] > 900`` is taken as it falls
there, and ``torch.as_tensor(x.shape[1] / 2)`` is a number. Of a dim that is a plain name torch says
so, with the guard. Here the same is said of the others, in the same words, so that whoever reads
them (``export.py``) need not know who wrote them.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx.experimental import _config as symbolic_config
from torch.utils import _pytree as pytree

from .dynamic_shapes import ExportPlan

NAMES = {"math": math, "torch": torch, "IntInfinity": lambda: math.inf}
"""What the text of a guard may call."""
TRIED_ALL = 2048
"""The size up to which guards are evaluated for all."""
ENDLESS = range(2**24, 2**24 + 64)
"""Sizes that stand for all large ones: what fails for each of them fails from some size on."""
TRIED = (
    *range(1, TRIED_ALL + 1),
    *[2**n + more for n in range(12, 24) for more in (-1, 0, 1)],
    *ENDLESS,
)
"""Sizes that guards are evaluated for, beside those near the numbers in them."""
_MOST_SHORT = 64
"""Sizes that are looked at for axes with less chunks than they are to have, for each chunk: an axis
of chunks**2 has all of them, and may be a part of its name."""
_MOST_NUMBERS = 16
"""Numbers in a condition of which sizes are made."""
_LARGEST = 2**25
TRIED_TOGETHER = (1, 2, 3, 5, 8, 33, 257, 4096)
"""Those of several sizes in one guard."""


SEVERAL = (2, 3, 4, 5, 8, 12, 33, 64, 96, 257)
"""Sizes of names that are tried together, where branches ask for several."""
_MOST_TOGETHER = 4096
_MANY = 6000
_CHOSEN = 3
"""How many of the sizes for which a branch goes the other way are looked at, and one more whose
product is this and more."""


_WIDER = {"StrictGreaterThan": ">=", "StrictLessThan": "<="}
"""Of strict orders of sympy those that are not."""


class UnsaidGuardError(ValueError):
    """What torch.export leaves out, in its own words."""


def near(numbers: Iterable[int]) -> set[int]:
    """Sizes that numbers in a condition tell of, and their neighbours."""
    return {max(1, abs(n) + more) for n in numbers for more in (-1, 0, 1)}


def _told_by(text: str) -> set[int]:
    """Sizes that numbers in a guard tell of, by themselves or two together (``n // 100 == 33``,
    ``3*n == 12000``, ``n*n == 900``), and their neighbours."""
    known = sorted({float(n) for n in re.findall(r"\b\d+(?:\.\d+)?", text)})[:_MOST_NUMBERS]
    found = {*known, *[math.isqrt(int(n)) for n in known], *[m * n for n in known for m in (2, 3)]}
    for a, b in itertools.product(known, known):
        found |= {a * b, a + b, a - b, a * b + a, *([a / b] if b else [])}
    return near([int(n) for n in found if n < _LARGEST])


def is_true(condition: CodeType, sizes: Mapping[str, int]) -> bool:
    """Whether a guard holds for some sizes; not where it divides by one that is 0."""
    try:
        return bool(eval(condition, {**NAMES, **sizes}))
    except ArithmeticError:
        return False


def check_guards(program: ExportedProgram, plan: ExportPlan) -> None:
    """Raise UnsaidGuardError where the program was traced for some of the sizes that the dims of a
    plan may have, and one of these dims is made of a name by arithmetic."""
    symbols = dict(_symbols(program, plan))
    factors = {e.coeff(s) for s, (_, es) in symbols.items() for e in es if e is not s}
    if not factors:
        return
    environment = _environment(program)
    limits = dict(limits_of(plan))
    bounds: dict[str, tuple[float, float]] = {}
    lines: list[str] = []
    for expr in dict.fromkeys(_of_derived(environment)):
        found = sorted(expr.free_symbols, key=str)
        if not found or any(s not in symbols for s in found):
            continue
        names = [symbols[s][0] for s in found]
        text = printed(expr, {s: f"size{i}" for i, s in enumerate(found)})
        tried = [_tried(text, factors, limits[name], alone=len(names) == 1) for name in names]
        failing = failing_together(text, tried)
        if not failing:
            continue
        limit = _as_limit(failing, tried[0]) if len(names) == 1 else None
        if limit is not None:
            low, high = bounds.get(names[0], (0, math.inf))
            bounds[names[0]] = max(low, limit[0]), min(high, limit[1])
            continue
        for i, name in enumerate(names):
            text = re.sub(rf"\bsize{i}\b", f"L['{name}']", text)
        lines.append(_line(names[0], text))
    for name, (low, high) in bounds.items():
        last = "IntInfinity()" if high == math.inf else int(high)
        lines.append(_line(name, f"{int(low)} <= L['{name}'] and L['{name}'] <= {last}"))
    if lines:
        raise UnsaidGuardError("Constraints violated!\n" + "\n".join(lines))


def short_sizes(
    program: ExportedProgram, plan: ExportPlan, chunked: Sequence[tuple[Any, int]]
) -> list[int]:
    """The sizes of names for which axes, as (size while it was traced, how many chunks), have less
    chunks than that. Of several names they are 1, and what else is short the program checks."""
    found: set[int] = set()
    environment = _environment(program)
    places = _places(program, plan)
    for expr, chunks in chunked:
        own = environment.replace(expr)
        symbols = sorted(own.free_symbols, key=str)
        if len(symbols) != 1:
            found.add(1)
            continue
        extent, shape = next((e, s) for s, _, e in places if symbols[0] in s.free_symbols)
        factor, more = shape.coeff(symbols[0]), shape.subs(symbols[0], 0)
        for n in range(_MOST_SHORT * chunks):
            size = int(own.subs(symbols[0], (extent(n) - more) / factor))
            if size > 0 and -(-size // -(-size // chunks)) < chunks:
                found.add(n)
    return sorted(found)


def _places(
    program: ExportedProgram, plan: ExportPlan
) -> list[tuple[Any, str, Callable[[int], int]]]:
    """The named dims, as torch's expressions, with their names and their sizes by those of the
    names."""
    specs = program.graph_signature.input_specs
    nodes = [n for n in program.graph.nodes if n.op == "placeholder"]
    pairs = zip(nodes, specs, strict=True)
    leaves = [n for n, spec in pairs if spec.kind is InputKind.USER_INPUT]
    named = zip(plan.places, plan.extents, strict=True)
    sizes = [(leaves[i].meta["val"].shape[axis], n, e) for (i, axis, n), (_, _, e) in named]
    return [(size.node.expr, n, e) for size, n, e in sizes if isinstance(size, torch.SymInt)]


def _line(name: str, guard: str) -> str:
    return (
        f"  - Not all values of {name} = L['{name}'] in the specified range satisfy the "
        f"generated guard {guard}"
    )


def _symbols(
    program: ExportedProgram, plan: ExportPlan
) -> Iterator[tuple[Any, tuple[str, list[Any]]]]:
    """For each symbol that a named dim is made of, its name and the sizes made of it."""
    known: dict[Any, tuple[str, list[Any]]] = {}
    for expr, name, _ in _places(program, plan):
        for symbol in expr.free_symbols:
            known.setdefault(symbol, (name, []))[1].append(expr)
    return iter(known.items())


def symbols_of(program: ExportedProgram, plan: ExportPlan) -> dict[Any, str]:
    """The names of named dims, by torch's symbols for their sizes."""
    return {expr: name for expr, name, _ in _places(program, plan) if expr.is_Symbol}


def _environment(program: ExportedProgram) -> Any:
    values = [n.meta.get("val") for n in program.graph.nodes]
    found = [v.fake_mode for v in values if getattr(v, "fake_mode", None) is not None]
    return found[0].shape_env


def _of_derived(environment: Any) -> Iterator[Any]:
    """What was asked of sizes that are made of others, over these. Torch itself sees to the
    rest."""
    for guard in environment.guards:
        if any(s in environment.replacements for s in guard.expr.free_symbols):
            yield _replaced(guard.expr, environment)


def _replaced(expr: Any, environment: Any) -> Any:
    before = None
    while expr is not before and expr != before:
        expr, before = expr.xreplace(environment.replacements), expr
    return expr


@dataclass(frozen=True)
class GuardOfSeveral:
    """A branch that asks for two names and more (``if h > w``)."""

    text: str
    """What holds where the program was traced, over ``size0``, ``size1``, ..."""
    names: tuple[str, ...]
    others: list[dict[str, int]]
    """Some sizes for which the branch goes the other way."""
    wider: str
    """Of a strict order the one that is not (``h >= w``), else nothing."""
    edge: list[dict[str, int]]
    """Some sizes for which the wider one holds alone: the two sides are equal."""

    def holds(self, sizes: Mapping[str, int], *, is_wider: bool = False) -> bool:
        text = self.wider if is_wider else self.text
        return not failing_together(text, [[sizes[name]] for name in self.names])


def guards_of_several(program: ExportedProgram, plan: ExportPlan) -> Iterator[GuardOfSeveral]:
    """Branches that ask for several names at once, plain ones too: torch says nothing of them."""
    environment = _environment(program)
    symbols = dict(_symbols(program, plan))
    limits = dict(limits_of(plan))
    for expr in dict.fromkeys([_replaced(g.expr, environment) for g in environment.guards]):
        free = sorted(expr.free_symbols, key=str)
        names = [symbols[s][0] for s in free if s in symbols]
        if not 1 < len(set(names)) == len(names) == len(free):
            continue
        known = {s: f"size{i}" for i, s in enumerate(free)}
        text = printed(expr, known)
        wider = _WIDER.get(type(expr).__name__)
        wide = f" {wider} ".join([printed(e, known) for e in expr.args]) if wider else ""
        told = near([int(n) for n in re.findall(r"\b\d+", text)])
        sizes = {*SEVERAL, *[n for n in told if 1 < n <= SEVERAL[-1]]}
        tried = [
            [n for n in sorted(sizes) if low <= n <= high and not plan.leaves_out(n, name)]
            for name, (low, high) in zip(names, [limits[name] for name in names], strict=True)
        ]
        if math.prod(map(len, tried)) > _MOST_TOGETHER:
            tried = [few[:: max(1, len(few) // 4)] for few in tried]
        failing = sorted(failing_together(text, tried), key=math.prod)
        beyond = set(failing_together(wide, tried)) if wide else set(failing)
        large = [sizes for sizes in failing if math.prod(sizes) >= _MANY]
        edge = [sizes for sizes in failing if sizes not in beyond][:_CHOSEN]
        chosen = dict.fromkeys([*failing[:_CHOSEN], *[n for n in failing if n in beyond][:_CHOSEN]])
        if failing:
            others, equal = [
                [dict(zip(names, sizes, strict=True)) for sizes in some]
                for some in ([*chosen, *large[:1]], edge)
            ]
            yield GuardOfSeveral(text, tuple(names), others, wide, equal)


def limits_of(plan: ExportPlan) -> Iterator[tuple[str, tuple[int, float]]]:
    """The smallest and the largest size of each name."""
    is_leaf: Callable[[Any], bool] = lambda x: hasattr(x, "min") or hasattr(x, "root")  # noqa: E731
    for dim in pytree.tree_leaves(plan.specification, is_leaf=is_leaf):
        root = getattr(dim, "root", dim)
        if hasattr(root, "__name__"):
            high = root.max if isinstance(root.max, int) else math.inf
            yield root.__name__, (int(root.min), high)


def _tried(
    text: str, factors: set[Any], limits: tuple[int, float], *, alone: bool
) -> Sequence[int]:
    low, high = max(limits[0], 1 if _is_oblivious() else 2), limits[1]
    if not alone:
        return [n for n in TRIED_TOGETHER if low <= n <= high]
    numbers = [int(n) for n in re.findall(r"\d+", text)]
    quotients = [n // int(f) for n in numbers for f in factors if f]
    return sorted({n for n in (*TRIED, *near(numbers), *near(quotients)) if low <= n <= high})


def _is_oblivious() -> bool:
    """Whether torch looks at sizes without supposing that they are 2 and more."""
    return bool(getattr(symbolic_config, "backed_size_oblivious", False))


def printed(expr: Any, names: Mapping[Any, str]) -> str:
    """A guard as Python over these names."""
    from torch.utils._sympy.printers import PythonPrinter

    class Printer(PythonPrinter):
        def _print_Symbol(self, symbol: Any) -> str:  # noqa: N802
            return names[symbol]

    return str(Printer().doprint(expr))


def failing_together(text: str, tried: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """The sizes, of those tried, for which a guard does not hold; all of them where it calls
    functions that Python does not have."""
    sizes = list(itertools.product(*tried))
    try:
        code = compile(text, "<guard>", "eval")
        return [s for s in sizes if not is_true(code, {f"size{i}": n for i, n in enumerate(s)})]
    except (SyntaxError, NameError, TypeError):
        return sizes


def failing(text: str, low: int, high: float, beside: str = "") -> list[int]:
    """The sizes, of those tried, for which a guard of ``size0`` alone does not hold. Tried are
    those within bounds, which the numbers in ``beside`` tell of too."""
    tried = {*_tried_of(f"{text} {beside}"), *range(low, low + TRIED_ALL)}
    if high < math.inf:
        tried |= {*range(max(low, int(high) - TRIED_ALL), int(high) + 1)}
    within = sorted([n for n in tried if max(low, 1) <= n <= high])
    return [n for (n,) in failing_together(text, [within])]


def holds(text: str, size: int) -> bool:
    """Whether a guard of ``size0`` alone holds for a size."""
    return not failing_together(text, [[size]])


def largest_of(text: str) -> int | None:
    """The size up to which a guard of ``size0`` alone holds; None for guards of another form."""
    if "L[" in text:
        return None
    tried = _tried_of(text)
    limit = _as_limit(failing_together(text, [tried]), tried)
    return int(limit[1]) if limit is not None and not limit[0] and limit[1] < math.inf else None


def _tried_of(text: str) -> list[int]:
    return sorted({*TRIED, *_told_by(text)})


def _as_limit(
    failing: Sequence[tuple[int, ...]], tried: Sequence[int]
) -> tuple[float, float] | None:
    """The bounds that a guard of one size comes to, where it holds from one size on, or up to
    one."""
    holds = sorted(set(tried) - {n for (n,) in failing})
    if not holds:
        return None
    inside = [n for n in tried if holds[0] <= n <= holds[-1]]
    if inside != holds:
        return None
    low = holds[0] if holds[0] > tried[0] else 0
    return low, holds[-1] if holds[-1] < tried[-1] else math.inf
