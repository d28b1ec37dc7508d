"""``Schedule``: a module being scheduled, with a method for each primitive.

A primitive that raises leaves the schedule as it was. Names and positions of parameters are TVM's.
The methods stand in ``methods/``, their implementations beside this file, what both need to know of
the schedule in ``state.py``.
"""

from __future__ import annotations

from .methods import (
    AnnotationPrimitives,
    BlockPrimitives,
    CachePrimitives,
    LoopKindPrimitives,
    LoopPrimitives,
    PlacePrimitives,
    QueryMethods,
    ReductionPrimitives,
    SamplingPrimitives,
    StoragePrimitives,
)


class Schedule(
    QueryMethods,
    SamplingPrimitives,
    LoopPrimitives,
    LoopKindPrimitives,
    BlockPrimitives,
    PlacePrimitives,
    ReductionPrimitives,
    CachePrimitives,
    StoragePrimitives,
    AnnotationPrimitives,
):
    """A module (or a bare PrimFunc) and the trace of what was done to it.

    ``seed`` feeds the sampling primitives; None draws one, kept in ``.seed``. With
    ``enable_checks=False`` the proofs of legality are skipped, for traces that are known to be
    legal; what a rewrite needs in order to be well defined is still checked.
    """
