"""Questions about graph functions: who uses what, and which paths must meet again.

Every answer is computed from the IR when asked and kept nowhere. Dominators come from networkx; the
IR itself never lives in one of its graphs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import networkx as nx

from ..support.node import walk
from ..tensorir.buffer import Buffer
from ..tensorir.expr import Expr
from ..tensorir.expr import Var as DimVar
from ..tensorir.function import PrimFunc
from ..tensorir.visitor import free_vars
from .dim import solve_dims
from .expr import (
    TYPED,
    Atom,
    Binding,
    BindingBlock,
    Call,
    CallDPS,
    CallDPSPacked,
    Function,
    GlobalVar,
    If,
    SeqExpr,
    ShapeExpr,
    Value,
    Var,
)
from .op import get_op
from .type import Type, tensors_of


def sequences(seq: SeqExpr) -> Iterator[SeqExpr]:
    """``seq`` and the branches of every If below it, outer ones first."""
    yield seq
    for block in seq.blocks:
        for binding in block.bindings:
            if isinstance(binding.value, If):
                yield from sequences(binding.value.true_branch)
                yield from sequences(binding.value.false_branch)


def bindings(func: Function) -> Iterator[Binding]:
    """Every binding of the function, those of branches after the If's own."""
    for seq in sequences(func.body):
        for block in seq.blocks:
            yield from block.bindings


def variables(value: Value | Atom) -> Iterator[Var]:
    """The variables an operation reads (those bound in branches included), with repetition."""
    return (n for n in walk(value, TYPED) if isinstance(n, Var))


def binds_dim(value: Value) -> bool:
    """Whether an operation gives a dim its value."""
    return isinstance(value, Call) and get_op(value.op).binds_dim


def stays(value: Value) -> bool:
    """Whether an operation stays where it is, whether or not something reads what it gives."""
    return isinstance(value, Call) and get_op(value.op).stays


def bound_dims(func: Function) -> list[DimVar]:
    """The dims whose values the function computes, in order."""
    calls = [b.value for b in bindings(func) if isinstance(b.value, Call) and binds_dim(b.value)]
    shapes = [a for c in calls if isinstance(a := c.args[1], ShapeExpr)]
    return free_vars([d for shape in shapes for d in shape.values])


def uses(func: Function) -> dict[Var, int]:
    """How often each variable is read; a function result and a branch result count once each."""
    counts: dict[Var, int] = {}
    for seq in sequences(func.body):
        reads: list[Value | Atom] = [seq.result]
        reads += [
            b.value.condition if isinstance(b.value, If) else b.value
            for blk in seq.blocks
            for b in blk.bindings
        ]
        for read in reads:
            for var in variables(read):
                counts[var] = counts.get(var, 0) + 1
    return counts


def called_functions(func: Function, module_names: Sequence[str]) -> set[str]:
    """The functions of the module that ``func`` calls; a packed call counts if its name is one."""
    known = set(module_names)
    found: set[str] = set()
    for n in walk(func, TYPED):
        if isinstance(n, GlobalVar) or (isinstance(n, CallDPSPacked) and n.name in known):
            found.add(n.name)
    return found


def solve_shape_vars(func: PrimFunc, args: Sequence[Type], outs: Type) -> dict[DimVar, Expr]:
    """The values, in the caller's dims, of the callee's symbolic dims at one call.

    Raises DimError where the types do not fit the parameters.
    """
    buffers = [p for p in func.params if isinstance(p, Buffer)]
    kinds = [t for a in args for t in tensors_of(a)] + tensors_of(outs)
    patterns: list[Expr] = []
    actual: list[Expr] = []
    for buffer, kind in zip(buffers, kinds, strict=True):
        patterns += buffer.shape
        actual += kind.shape
    return solve_dims(patterns, actual)


# -- the graph of a dataflow block -------------------------------------------------------------
@dataclass(frozen=True)
class DataflowGraph:
    """The bindings of one block as a DAG: ``consumers[i]`` are the bindings that read binding
    ``i``, and ``escapes[i]`` says that something outside of the block reads it."""

    bindings: tuple[Binding, ...]
    producers: tuple[tuple[int, ...], ...]
    consumers: tuple[tuple[int, ...], ...]
    escapes: tuple[bool, ...]

    def post_dominators(self) -> list[int | None]:
        """For each binding the nearest one that every path from it to an exit passes; None for the
        exit.

        The immediate dominators of the reversed graph, rooted in one virtual exit that follows
        every escaping and every unread binding."""
        exit_node = len(self.bindings)
        graph: nx.DiGraph = nx.DiGraph()
        graph.add_nodes_from(range(exit_node + 1))
        for index, consumers in enumerate(self.consumers):
            graph.add_edges_from((c, index) for c in consumers)
            if self.escapes[index] or not consumers:
                graph.add_edge(exit_node, index)
        found = nx.immediate_dominators(graph, exit_node)
        return [None if found[i] == exit_node else found[i] for i in range(exit_node)]


def dataflow_graph(block: BindingBlock, func: Function) -> DataflowGraph:
    """The DAG of one block of ``func``."""
    index_of = {b.var: i for i, b in enumerate(block.bindings)}
    producers: list[tuple[int, ...]] = []
    consumers: list[list[int]] = [[] for _ in block.bindings]
    inside: dict[Var, int] = {}
    for i, binding in enumerate(block.bindings):
        read = [v for v in variables(binding.value) if v in index_of]
        for var in read:
            inside[var] = inside.get(var, 0) + 1
        producers.append(tuple(dict.fromkeys(index_of[v] for v in read)))
        for p in producers[-1]:
            consumers[p].append(i)
    total = uses(func)
    escapes = tuple([total.get(b.var, 0) > inside.get(b.var, 0) for b in block.bindings])
    return DataflowGraph(block.bindings, tuple(producers), tuple(map(tuple, consumers)), escapes)


def dps_calls(func: Function) -> Iterator[CallDPS]:
    """The destination-passing calls of PrimFuncs in the function."""
    for binding in bindings(func):
        if isinstance(binding.value, CallDPS):
            yield binding.value
