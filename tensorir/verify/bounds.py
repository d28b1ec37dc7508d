"""Laws that need arithmetic: no access is certain to miss its buffer, no axis its domain, and no
result is certain to be written in part alone.

``verify_bounds`` looks at what surely runs: loops of constant ranges, blocks without a predicate,
nothing under a condition. There an index that is a sum of loops attains its limits, so that what is
reported does happen when the function runs; what cannot be told is let pass. This is for functions
that users write, where the alternative is a corrupt heap. What operators and schedules make is in
bounds by construction.

A block whose axes run over less than their domains leaves elements of its result unwritten, or
terms out of its sum. That is refused where it is the only block that writes a parameter, and reads
nothing of what it writes. Schedules split a domain among blocks and loops, and compute less of
what is read in part: what is marked ``is_scheduled`` is let pass.
"""

from __future__ import annotations

import math

from ...support.errors import VerifyError
from ...support.node import Node, children, walk
from ..arith.linear import Linear
from ..arith.simplify import Simplifier
from ..buffer import Buffer
from ..expr import (
    INDEX,
    AccessPtr,
    Add,
    BufferLoad,
    Call,
    Cast,
    Expr,
    IntImm,
    Let,
    Mul,
    Or,
    Sub,
    Var,
)
from ..expr import And as AndExpr
from ..function import PrimFunc
from ..stmt import Block, BlockRealize, BufferStore, For, IfThenElse, LetStmt
from ..text.printer import print_expr, print_marked
from ..visitor import own_pointers

_WHOLE = "the loops around a block give its axes all of their domains"


def verify_bounds(func: PrimFunc) -> PrimFunc:
    """``func`` itself; raises VerifyError for an access that lies outside of its buffer, or an axis
    that leaves its domain, in every run of the function."""
    _Bounds(func).visit(func.body)
    return func


class _Bounds:
    """Walks what surely runs, with the ranges of loops and the values of axes and lets."""

    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.ranges: dict[Expr, tuple[int, int]] = {}
        self.values = _Values()
        self.writers: dict[Buffer, list[Block]] = {}
        if not func.attr("is_scheduled"):
            for n in walk(func.body):
                if isinstance(n, Block):
                    for region in n.writes:
                        self.writers.setdefault(region.buffer, []).append(n)

    def visit(self, n: Node) -> None:  # noqa: C901 - one case a node
        match n:
            case For():
                self._loop(n)
            case BlockRealize():
                self._realize(n)
            case LetStmt() | Let():
                self.visit(n.value)
                self.values.bind_expr(n.var, n.value)
                self.visit(n.body)
            case IfThenElse():
                self.visit(n.condition)
            case Call(op="if_then_else"):
                self.visit(n.args[0])
            case AndExpr() | Or():
                self.visit(n.a)
            case BufferStore():
                self.visit(n.value)
                self._access(n, n.buffer, n.indices, n.predicate)
            case BufferLoad():
                self._access(n, n.buffer, n.indices, n.predicate)
            case AccessPtr():
                self.visit(n.element)
                self._pointer(n)
            case _:
                for child in children(n):
                    if not isinstance(child, Buffer):
                        self.visit(child)

    def _loop(self, n: For) -> None:
        low, high = self.limits(n.min), self.limits(n.extent)
        if low is None or high is None or low[0] != low[1] or high[0] != high[1] or high[0] < 1:
            return
        self.ranges[n.var] = (low[0], low[0] + high[0] - 1)
        self.visit(n.body)

    def _realize(self, n: BlockRealize) -> None:
        if not (isinstance(n.predicate, IntImm) and n.predicate.value):
            return
        for it, value in zip(n.block.iter_vars, n.iter_values, strict=True):
            self.values.bind_expr(it.var, value)
            found, start, extent = (self.limits(e) for e in (value, it.dom.min, it.dom.extent))
            if found is None or start is None or extent is None:
                continue
            if found[0] < start[0] or found[1] > start[1] + extent[1] - 1:
                where = f"[{start[0]}, {start[1] + extent[1]})"
                raise self._broken(
                    "a block's axes stay in their domains",
                    f"the axis {it.var.name!r} of {n.block.name!r} runs from {found[0]} to "
                    f"{found[1]}, outside of its domain {where}",
                    n.block,
                )
            if found[1] - found[0] + 1 < extent[0] and self._is_only_writer(n.block):
                runs = found[1] - found[0] + 1
                raise self._broken(
                    _WHOLE,
                    f"the axis {it.var.name!r} of {n.block.name!r} runs from {found[0]} to "
                    f"{found[1]}; its domain has {extent[0]} values, and no other block writes "
                    f"what this one leaves out. Make the domain {runs}, or the loop longer",
                    n.block,
                )
        self._verify_instances(n)
        self._block(n.block)

    def _verify_instances(self, n: BlockRealize) -> None:
        """As many iterations as instances: two axes of one loop, or every other value of one, are
        fewer."""
        loops = {v for value in n.iter_values for v in walk(value) if isinstance(v, Var)}
        extents = [self.limits(it.dom.extent) for it in n.block.iter_vars]
        is_one_store = isinstance(n.block.body, BufferStore)
        if not is_one_store or not loops <= self.ranges.keys() or None in extents:
            return
        spans = [self.ranges[v] for v in loops]
        iterations = math.prod([high - low + 1 for low, high in spans])
        instances = math.prod([e[0] for e in extents if e is not None])
        if iterations < instances and self._is_only_writer(n.block):
            raise self._broken(
                _WHOLE,
                f"the axes of {n.block.name!r} have {instances} values together, the loops that "
                f"they are bound to {iterations} iterations, and no other block writes what this "
                "one leaves out. Bind each axis to a loop of its own",
                n.block,
            )

    def _is_only_writer(self, block: Block) -> bool:
        """Whether what the block leaves out of a parameter is written by nobody."""
        kept = {r.buffer for r in block.reads} if block.init is None else set()
        return any(
            r.buffer not in kept
            and r.buffer in self.func.buffers
            and all(w is block for w in self.writers.get(r.buffer, [self.func.root]))
            for r in block.writes
        )

    def _block(self, n: Block) -> None:
        if n.init is not None:
            self.visit(n.init)
        self.visit(n.body)
        if own_pointers(n.body):
            for region in (*n.reads, *n.writes):
                ends = [r.min + (r.extent - 1) for r in region.region]
                self._access(n, region.buffer, tuple([r.min for r in region.region]), None)
                self._access(n, region.buffer, tuple(ends), None)

    def _pointer(self, n: AccessPtr) -> None:
        """The element that an offset leads to, of a buffer whose rows follow one another."""
        sizes = [d.value for d in n.buffer.shape if isinstance(d, IntImm)]
        if n.buffer.strides or len(sizes) < len(n.buffer.shape):
            return
        place, step = n.offset, 1
        for index, size in reversed(list(zip(n.element.indices, sizes, strict=True))):
            place, step = place + index * step, step * size
        found = self.limits(place)
        if found is not None and (found[0] < 0 or found[1] >= step):
            raise self._broken(
                "every pointer leads to an element of its buffer",
                f"a pointer to {n.buffer.name!r} leads to elements {found[0]} to {found[1]}; "
                f"it has {step}",
                n,
            )

    def _access(
        self, n: Node, buffer: Buffer, indices: tuple[Expr, ...], predicate: Expr | None
    ) -> None:
        for i in indices:
            self.visit(i)
        if predicate is not None:
            return
        for index, dim in zip(indices, buffer.shape, strict=False):
            found = self.limits(index)
            if found is None or not isinstance(dim, IntImm):
                continue
            if found[0] < 0 or found[1] >= dim.value:
                runs = (
                    f"is {found[0]}"
                    if found[0] == found[1]
                    else f"runs from {found[0]} to {found[1]}"
                )
                raise self._broken(
                    "every access lies in its buffer (guard it with an if, T.where or "
                    "T.if_then_else where it may not)",
                    f"the index {print_expr(index)} of {buffer.name!r} {runs}; this dimension has "
                    f"{dim.value} elements",
                    n,
                )

    def _broken(self, law: str, found: str, n: Node) -> VerifyError:
        return VerifyError(law, found, print_marked(self.func, [n]), n.span)

    # -- limits ------------------------------------------------------------------------------------
    def limits(self, e: Expr) -> tuple[int, int] | None:
        """The least and the greatest value of a sum of loops, both attained; None for all else."""
        form = self.values.linear(e)
        if any(v not in self.ranges for v in form.terms):
            return None
        low = high = form.const
        for v, k in form.terms.items():
            ends = sorted((k * self.ranges[v][0], k * self.ranges[v][1]))
            low, high = low + ends[0], high + ends[1]
        return low, high


class _Values(Simplifier):
    """Sums of fewer bits count too: a program in which they wrap does not reach those values."""

    def _opaque(self, e: Expr) -> Linear:
        wide = _widened(e) if type(e) is Cast else None
        return super()._opaque(e) if wide is None else self.linear(wide)


def _widened(e: Expr) -> Expr | None:
    """A sum of integers of any width as one of int64; None for what is none."""
    match e:
        case Var():
            return e if e.dtype is INDEX else None
        case IntImm():
            return IntImm(e.value)
        case Cast():
            return _widened(e.value) if e.dtype.is_integer else None
        case Add() | Sub() | Mul():
            a, b = _widened(e.a), _widened(e.b)
            return None if a is None or b is None else type(e)(a, b)
    return None
