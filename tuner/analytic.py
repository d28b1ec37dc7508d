"""The analytic schedule: the design space's rules with every decision taken from the target's data.

Untuned code is scheduled by this, and it is the first member of every tuning population.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..support.target import Target
from ..tensorir.function import PrimFunc
from ..tensorir.schedule import Schedule
from .block_tiles import has_tiles, products_of, schedule_products
from .chooser import Chooser
from .rules.attention import match_attention, schedule_attention
from .rules.chain import schedule_chain
from .rules.conv import match_conv, schedule_conv
from .rules.depthwise import schedule_window
from .rules.dot import fits, schedule_dot
from .rules.elementwise import schedule_elementwise
from .rules.int8 import fits as is_product_of_bytes
from .rules.int8 import schedule_int8
from .rules.matmul import match, schedule_matmul
from .rules.reduction import schedule_reduction
from .rules.row_window import fits_row_window, schedule_row_window
from .rules.streaming import stream_results
from .rules.trial import refusal_of
from .rules.window_match import match_window
from .rules.winograd import match_winograd, schedule_winograd
from .schedule_log import KernelSchedule, reason_of, write_down
from .slowdown import FAR_OFF, slowdown
from .workload import blocks_in_order, is_empty, is_reduction

Rule = Callable[[Schedule, Target, Chooser], None]


def rules_for(func: PrimFunc, target: Target) -> list[tuple[str, Rule]]:
    """The rules for a function by name, the most special first; each is the fallback of those
    before it. None for a function without iterations."""
    if is_empty(func):
        return []
    if not any(is_reduction(b) for b in blocks_in_order(func)):
        return [("elementwise", schedule_elementwise)]
    rules: list[tuple[str, Rule]] = [("reduction", schedule_reduction)]
    if match_conv(func) is not None:
        rules.insert(0, ("conv", schedule_conv))
    elif match_attention(func) is not None:
        rules.insert(0, ("attention", schedule_attention))
    elif match_window(func) is not None:
        rules.insert(0, ("window", schedule_window))
    elif fits_row_window(func, target):
        rules.insert(0, ("row_window", schedule_row_window))
    if len(rules) == 1 and len(products_of(func)) > 1:
        if has_tiles(func, target):
            rules.insert(0, ("products", schedule_products))
        rules.insert(0, ("chain", schedule_chain))
    rules = [*_product_rules(func, target), *rules]
    if match_winograd(func) is not None:
        rules.insert(0, ("winograd", schedule_winograd))
    return rules


def _product_rules(func: PrimFunc, target: Target) -> list[tuple[str, Rule]]:
    """The rules for a function with one matrix product."""
    matmul = match(func)
    if matmul is None:
        return []
    rules: list[tuple[str, Rule]] = [("matmul", schedule_matmul)]
    if fits(func, matmul, max(1, target.vector_bits // matmul.x.dtype.bits)):
        rules.insert(0, ("dot", schedule_dot))
    if is_product_of_bytes(func, matmul):
        rules.insert(0, ("int8", schedule_int8))
    return rules


def apply_rules(sch: Schedule, target: Target, chooser: Chooser) -> str | None:
    """Apply the first rule that fits the schedule's function; its name, None where none did.

    Where nobody searches, a schedule that seems FAR_OFF what the function needs at least is not the
    last word: the rules after it are tried too, and what seems fastest is taken. What was decided
    is written down (``schedule_log``).
    """
    func, refusals = sch.func, []
    best: tuple[float, str, Schedule] | None = None
    for name, rule in _with_last_resort(func, rules_for(func, target), target):
        trial = sch.copy()
        refusal = refusal_of(trial, rule, target, chooser)
        if refusal is not None:
            refusals.append((name, reason_of(refusal)))
            continue
        stream_results(trial, target)
        slower = slowdown(func, trial.func, target) if chooser.analytic else 1.0
        if best is None or slower < best[0]:
            best = (slower, name, trial)
        if slower <= FAR_OFF:
            break
    if best is None:
        write_down(KernelSchedule(func.name, None, tuple(refusals)))
        return None
    slower, name, trial = best
    sch.become(trial)
    found = slower if chooser.analytic else None
    write_down(KernelSchedule(func.name, name, tuple(refusals), found))
    return name


def _with_last_resort(
    func: PrimFunc, rules: list[tuple[str, Rule]], target: Target
) -> Iterator[tuple[str, Rule]]:
    """The rules, and behind them, for products that none of them does well, plain tiles."""
    yield from rules
    if rules and "products" not in dict(rules) and has_tiles(func, target):
        yield "products", schedule_products


def schedule_analytically(func: PrimFunc, target: Target) -> PrimFunc:
    """``func`` with the analytic schedule, marked ``is_scheduled``."""
    sch = Schedule(func, seed=0)
    apply_rules(sch, target, Chooser(analytic=True))
    return sch.func
