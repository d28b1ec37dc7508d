"""apply_rule: a whole schedule by the name of the rule that makes it.

What a rule is and how it gets its decisions is in ``schedule/apply_rule.py``.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from ....support.errors import ScheduleValueError
from ....support.target import Target
from ..apply_rule import Picked, require_decisions, require_target, rule_named
from ..primitive import ATTR, RULES, composite
from ..state import ScheduleState


class ApplyRule(ScheduleState):
    @composite(RULES, rule=ATTR, target=ATTR, func_name=ATTR)
    def apply_rule(
        self,
        rule: str,
        target: str | Target,
        decision: Mapping[str, int] | None = None,
        func_name: str | None = None,
    ) -> None:
        """Schedule a function (by default the one worked on) by a rule of the tuner, for a target.

        ``decision`` has values by the names of the rule's decisions; what it leaves open is decided
        as the rule suggests, so that ``{}`` gives the schedule of untuned code. Without it every
        decision is drawn. The trace has this one instruction, with all decisions. A rule proves
        what it does, also in a schedule without checks.

        Requires:

        - a PrimFunc of the name ``func_name`` (ScheduleValueError);
        - a rule of this name (``burnish.tuner.rules.registry``, imported, has them) and a target
          with known sizes (ScheduleValueError);
        - a function that no primitive has changed (ScheduleValueError), of the kind that the rule
          is for (RuleMismatchError), and that it does not refuse (its ScheduleError);
        - decisions that the rule takes here (ScheduleValueError), each a member of its domain
          (DecisionError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
                for i in range(32):
                    with T.block("B"):
                        vi = T.axis.spatial(32, i)
                        B[vi] = A[vi] + T.float32(1)

        Schedule::

            sch.apply_rule("elementwise", "llvm -mcpu=haswell", decision={"B.vectors": 2})

        After::

            @T.prim_func
            def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
                for i_0 in range(2):
                    for i_1 in T.vectorized(16):
                        with T.block("B"):
                            vi = T.axis.spatial(32, i_0 * 16 + i_1)
                            B[vi] = A[vi] + T.float32(1)
        """
        apply, known = rule_named(rule), require_target(target)
        picked = Picked(rule, require_decisions(decision), self._decide_field)
        owner = self._function_name(func_name, "apply_rule")
        if self._functions[owner].attr("is_scheduled"):
            raise ScheduleValueError(
                "apply_rule",
                f"The function {owner!r} is scheduled already; a rule begins with the definition.",
            )
        trial = object.__new__(type(self))
        trial.__dict__.update(self.__dict__)
        trial._rng, trial._pending, trial.enable_checks = random.Random(self.seed), set(), True
        trial._working = owner
        apply(trial, known, picked)
        picked.require_all_known()
        own = ("seed", "_rng", "enable_checks", "_working", "_instructions", "_rv_count", "_noted")
        self.__dict__.update(trial.__dict__ | {name: self.__dict__[name] for name in own})
        self._note(target=str(known), func_name=owner, decision=picked.taken)

    def _decide_field(self, name: str, domain: Sequence[int], decision: int | None) -> int:
        """The decision, or a member of its domain, each as likely as the others."""

        def draw(given: int | None) -> int:
            return domain[self._rng.randrange(len(domain))] if given is None else given

        taken: int = self._decide(("apply_rule", name, *domain), decision, draw)
        return taken
