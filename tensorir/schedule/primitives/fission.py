"""fission: a nest of its own for each statement below a loop; the opposite of merge.

    for m:                       for m_0:
      for l: C[m, l]       ->      for l: C[m_0, l]
      for l: D[m, l] = f(C)      for m_1:
                                   for l: D[m_1, l] = f(C)

Before, an iteration m of the second statement ran before the iterations m' > m of the first;
afterwards it runs after them. These are the pairs that merge turns round the other way, so it is
legal where merge is: where none of them touches one element that either writes.
"""

from __future__ import annotations

from ....support.errors import NotAncestorError
from ....support.node import replace
from ...analysis.affine import loop_bounds
from ...analysis.hidden_accesses import require_declared
from ...analysis.paths import (
    all_loops_above,
    blocks_below,
    fail,
    find_loop,
    loop_of,
    map_outer_realizes,
    rebuild,
    with_body,
)
from ...expr import Var
from ...function import PrimFunc
from ...stmt import SeqStmt, Stmt, seq
from .loops import require_plain_serial
from .merge import require_local


def fission(func: PrimFunc, var: Var, *, checks: bool = True) -> tuple[PrimFunc, list[Var]]:
    """Give each statement below a loop a loop of its own; the variables of these, in order."""
    path = find_loop(func, var, "fission")
    loop = loop_of(path)
    require_plain_serial(func, loop, "fission")
    if not isinstance(loop.body, SeqStmt):
        found = f"There is one statement below {var.name!r}: nothing to give loops of their own."
        raise fail(NotAncestorError, "fission", func, [loop], found)
    outer = all_loops_above(path[:-1])
    if checks:
        require_declared(func, loop.body, "fission")
        require_local(func, outer, [loop], loop.body.stmts, "fission")
    variables, nests = [], []
    for n, s in enumerate(loop.body.stmts):
        own = Var(f"{var.name}_{n}")
        inner = [x for b in blocks_below(s) for x in b.loops]
        bounds = loop_bounds([*outer, replace(loop, var=own), *inner])
        body: Stmt = map_outer_realizes(s, {var: own}, bounds, None)
        variables.append(own)
        nests.append(replace(loop, var=own, body=body))
    return with_body(func, rebuild(path, seq(*nests))), variables
