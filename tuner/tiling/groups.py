"""Groups of a convolution: panels of output channels that never leave a group.

An output channel ``o`` of a grouped convolution reads the channels ``o // each * own + c`` of the
image, where a group has ``own`` channels in and ``each`` out. In a panel within one group that is
one channel for all lanes, as without groups; so the vectors are cut to what divides a group, down
to a part of a register where groups are small.
"""

from __future__ import annotations

import math

from ...support.node import walk
from ...tensorir.arith.analyzer import Analyzer
from ...tensorir.expr import Expr, FloorDiv, IntImm, Var, floordiv
from .lanes import up_to_power


def group_size(index: Expr, channel: Var, depth: Var, own: Expr) -> int | None:
    """The output channels of a group where ``index`` is the image's channel, as above; None where
    it is not of this form."""
    if not isinstance(own, IntImm):
        return None
    divisors = [
        n.b.value
        for n in walk(index)
        if isinstance(n, FloorDiv) and n.a is channel and isinstance(n.b, IntImm)
    ]
    each = divisors[0] if divisors else 1
    group = floordiv(channel, IntImm(each)) if each > 1 else channel
    wanted = group * own + depth if own.value > 1 else group
    return each if Analyzer().can_prove_equal(index, wanted) else None


def wants_groups_apart(each: int, lanes: int) -> bool:
    """Whether vectors that reach beyond a group, whose weights are zero there, are fewer than those
    that divide it."""
    inside, _ = panel_of(each, lanes, 1)
    return math.ceil(each / min(lanes, up_to_power(each))) < each // inside


def panel_of(each: int, lanes: int, vectors: int) -> tuple[int, int]:
    """The lanes and vectors of a panel that divides a group: at most those given, lanes first."""
    while each % lanes:
        lanes //= 2
    return lanes, next(v for v in range(vectors, 0, -1) if each % (v * lanes) == 0)
