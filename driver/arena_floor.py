"""The least memory that the intermediates of a graph need in the order in which its calls run."""

from __future__ import annotations

from ..graphir.expr import Function
from .graph_drawing import graph_nodes


def arena_floor(func: Function) -> int | None:
    """The most bytes of intermediates that are needed at one time; None where named sizes or types
    without one decide. Inputs, constants and results of the function do not count."""
    nodes = graph_nodes(func)
    results = set(nodes[-1].reads)
    last: dict[int, int] = {}
    for row, node in enumerate(nodes):
        last.update(dict.fromkeys(node.reads, row))
    kept = [i for i, n in enumerate(nodes[:-1]) if n.kind not in ("input",) and i not in results]
    if any(nodes[i].nbytes is None for i in kept):
        return None
    return max(
        [sum(nodes[i].nbytes or 0 for i in kept if i <= row <= last.get(i, i)) for row in kept],
        default=0,
    )
