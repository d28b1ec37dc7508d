"""What a rule is: decisions are declared with their domains, and are made in no other way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import FrozenInstanceError, dataclass
from functools import partial
from typing import Any

import pytest

from burnish.support.errors import DecisionError, RuleMismatchError
from burnish.support.target import Target
from burnish.tensorir.expr import Expr, Var
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.schedule.apply_rule import Picked
from burnish.tensorir.te.compute import compute, placeholder
from burnish.tensorir.te.create_prim_func import create_prim_func
from burnish.tensorir.te.tensor import Tensor
from burnish.tests.strategies.schedules import CORPUS
from burnish.tests.tuner.rules.checking import HASWELL
from burnish.tuner.rules.matmul import MatmulRule
from burnish.tuner.rules.registry import RULES
from burnish.tuner.rules.rule import Decide, Decisions, Rule, choice, suggested


@dataclass(frozen=True)
class Tile(Decisions):
    rows: int = choice(lambda size, t, d: range(1, size + 1), lambda size, t, d: size // 2)
    columns: int = choice(
        lambda size, t, d: (1, t.vector_bits // 32 // d.rows), lambda size, t, d: 1
    )


class TileRule(Rule[int, Tile]):
    name = "tile"
    kind = "two buffers"
    decisions = Tile

    def match(self, func: PrimFunc, target: Target) -> int | None:
        return 8 if len(func.buffers) == 2 else None

    def apply(self, sch: Schedule, roles: int, decisions: Tile, decide: Decide) -> None:
        loop = sch.get_loops(sch.get_output_blocks("root")[0])[0]
        sch.split(loop, [None, decide(Tile, decisions.rows, "part").rows])


def test_the_analytic_decisions_are_the_rules_own() -> None:
    assert TileRule().decide(8, HASWELL) == Tile(4, 1)


def test_a_domain_depends_on_roles_target_and_the_fields_before() -> None:
    asked: list[tuple[str, tuple[int, ...]]] = []

    def largest(name: str, domain: Sequence[int], suggest: Callable[[], int], /) -> int:
        asked.append((name, tuple(domain)))
        return domain[-1]

    assert Decide(HASWELL, largest)(Tile, 4, "block") == Tile(4, 2)
    assert asked == [("block.rows", (1, 2, 3, 4)), ("block.columns", (1, 2))]


def test_a_suggestion_outside_of_the_domain_is_refused() -> None:
    picked = Picked("tile", {}, lambda name, domain, decision: decision or domain[0])
    with pytest.raises(DecisionError, match=r"'rows' one of \[1\] here; found 0"):
        Decide(HASWELL, picked)(Tile, 1)


def test_decisions_are_values() -> None:
    made = Decide(HASWELL, suggested)(Tile, 8)
    with pytest.raises(FrozenInstanceError):
        made.rows = 2  # type: ignore[misc]


def test_a_run_matches_decides_and_applies() -> None:
    sch = Schedule(CORPUS["chain"](), seed=0)
    picked = Picked("tile", {"rows": 6}, lambda name, domain, decision: decision or domain[0])
    TileRule().run(sch, HASWELL, picked)
    assert picked.taken == {"rows": 6, "columns": 1, "part.rows": 3, "part.columns": 1}
    assert sch.get(sch.get_loops(sch.get_output_blocks("root")[0])[1]).extent.value == 3


def test_functions_of_another_kind() -> None:
    with pytest.raises(RuleMismatchError) as raised:
        TileRule().run(Schedule(CORPUS["matmul"](), seed=0), HASWELL, suggested)
    assert raised.value.message == (
        "tile: The rule is for functions with two buffers; this one is of another kind, with the "
        "blocks 'C' (axes SSR)."
    )


def test_of_many_blocks_a_few_are_named() -> None:
    sch = Schedule(create_prim_func(_long(6)), seed=0)
    with pytest.raises(RuleMismatchError) as raised:
        MatmulRule().run(sch, HASWELL, suggested)
    assert raised.value.parts == (
        "the blocks 'T_0' (axes S), 'T_1' (axes S), 'T_2' (axes S), 'T_3' (axes S) and 2 more"
    )


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_says_what_it_is_for(rule: Rule[Any, Any]) -> None:
    empty = Schedule(create_prim_func(_long(1, extent=0)), seed=0)
    with pytest.raises(RuleMismatchError) as raised:
        rule.run(empty, HASWELL, suggested)
    assert raised.value.wanted == rule.kind
    assert "the blocks 'T_0' (axes S), of an axis without iterations" in raised.value.message


def _doubled(x: Tensor, i: Var) -> Expr:
    return x[i] * 2


def _long(count: int, extent: int = 8) -> list[Tensor]:
    tensors = [placeholder((extent,), name="x")]
    for n in range(count):
        tensors.append(compute((extent,), partial(_doubled, tensors[-1]), name=f"T_{n}"))
    return [tensors[0], tensors[-1]]
