"""sample_categorical: one of several numbers, drawn with given weights."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import accumulate

from ....support.errors import ScheduleValueError
from ...expr import Var
from ..arguments import require_floats, require_int, require_ints
from ..primitive import ATTR, SAMPLING, primitive
from ..state import ScheduleState


class SampleCategorical(ScheduleState):
    @primitive(SAMPLING, candidates=ATTR, probs=ATTR)
    def sample_categorical(
        self, candidates: Sequence[int], probs: Sequence[float], decision: int | None = None
    ) -> Var:
        """Draw one of the ints ``candidates`` with the weights ``probs``, as a value that
        primitives take; ``get`` tells it.

        ``decision`` is the index of the candidate to take instead of drawing.

        Requires:

        - at least one candidate, as many weights, none of them negative and not all 0, and a
          decision that is an index (ScheduleValueError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                for i, j in T.grid(8, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi, vj] + T.float32(1)

        Schedule::

            steps = sch.sample_categorical([0, 16, 64], [0.2, 0.3, 0.5], decision=1)
            assert sch.get(steps) == 16
            sch.annotate("B", "pragma_auto_unroll_max_step", steps)

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                for i, j in T.grid(8, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        T.block_attr({"pragma_auto_unroll_max_step": 16})
                        B[vi, vj] = A[vi, vj] + T.float32(1)
        """
        index = self._decide(
            (
                "sample_categorical",
                *require_ints(candidates, "the candidates", "sample_categorical"),
            ),
            decision,
            lambda given: categorical(self._rng, candidates, probs, given),
        )
        self._note(decision=index)
        return self._fresh_value(int(candidates[index]))


def categorical(
    rng: random.Random, candidates: Sequence[int], probs: Sequence[float], decision: int | None
) -> int:
    """The index of a candidate, drawn with the given weights; a decision is checked and taken."""
    candidates = require_ints(candidates, "the candidates", "sample_categorical")
    probs = require_floats(probs, "the probabilities", "sample_categorical")
    if not candidates or len(candidates) != len(probs):
        raise ScheduleValueError(
            "sample_categorical",
            f"Expected as many probabilities as candidates; found {len(candidates)} and "
            f"{len(probs)}.",
        )
    if any(p < 0 for p in probs) or not sum(probs) > 0:
        raise ScheduleValueError(
            "sample_categorical",
            "Expected probabilities of which none is negative and one is positive; found "
            f"{list(probs)}.",
        )
    if decision is not None:
        decision = require_int(decision, "the decision", "sample_categorical")
        if not 0 <= decision < len(candidates):
            raise ScheduleValueError(
                "sample_categorical",
                f"Expected a decision below {len(candidates)}; found {decision}.",
            )
        return decision
    total = list(accumulate(probs))
    draw = rng.random() * total[-1]
    return next((i for i, t in enumerate(total) if draw < t), len(candidates) - 1)
