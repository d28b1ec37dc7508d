"""Adds long sums in blocks, and the sums of blocks in blocks: rounding errors grow with the depth
of a tree, not with the number of terms.

A loop annotated with ``sum_block = n`` gets partial sums of at most ``n`` terms, which are added as
soon as a block is complete,

    for k in range(10000):        for t in range(157):
      S[j] += A[k, j]       ->      T[j] = 0
                                    for k in range(min(64, 10000 - t * 64)):
                                      T[j] += A[t * 64 + k, j]
                                    S[j] += T[j]

and where that loop is still long, its terms are the partial sums of the next level (Higham, "The
accuracy of floating point summation", SIAM J. Sci. Comput. 14, 1993, section 3). Loops inside that
run over terms as well are blocked first. A loop of symbolic extent gets ``LEVELS`` levels. Which
sums there are depends on extents alone.

The partial sums are as large as the part of their total that one iteration touches, and of its
scope; one alone is in a register. Where a total in registers and its partial sums have no room
beside each other, as in a tile of a matrix product, the total goes to memory, where the first cache
has it. Blocks are of equal length where a length near the wanted one divides the loop. What is no
sum of floats (a maximum, a product), what the loop reads or writes in another way as well, a term
under a condition on the loop itself, or on memory that the loop changes, and a total with an
element for several iterations of an inner loop, as of an overlap-add, stay as they are. Runs on
buffers of their final shape, before they are flattened.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ...support.errors import CodegenError
from ...support.node import map_children, replace, walk
from ...support.target import Target
from ..arith.linear import Linear, LinearKey, expr_key, render
from ..arith.rules_logic import conjuncts
from ..buffer import Buffer
from ..dim_align import PADDED
from ..expr import (
    INDEX,
    LT,
    Add,
    BufferLoad,
    Call,
    Expr,
    IntImm,
    Var,
    add,
    const,
    floordiv,
    minimum,
    mul,
    sub,
)
from ..function import PrimFunc
from ..stmt import (
    LEAVES,
    Allocate,
    BufferStore,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
    annotation,
    seq,
)
from ..visitor import replace_buffers, stored_buffer, substitute, uses
from .scope import Scope

SUM_BLOCK = "sum_block"
"""The annotation of a loop: how many terms are added one after another."""
LEVELS = 5
"""Levels of blocks in a loop of symbolic extent."""
GROUP = 64
"""Sums of blocks that are added one after another, at the most."""
OPERANDS = 3
"""Registers for what is added, at the least."""


def block_sums(func: PrimFunc, target: Target) -> PrimFunc:
    """``func`` with the sums of annotated loops in blocks; ``target`` tells the room in registers.

    Raises CodegenError where an annotation is no positive integer, or that of a loop that does not
    run one iteration after another.
    """
    if not any(
        isinstance(n, For) and annotation(n, SUM_BLOCK) is not None for n in walk(func.body, LEAVES)
    ):
        return func
    scope = Scope()
    for var in func.shape_vars:
        scope.declare_dim(var)
    blocks = _Blocks(scope, target)
    body = replace_buffers(blocks.node(func.body), blocks.in_memory)
    return PrimFunc(func.params, body, func.attrs, func.name)


@dataclass(frozen=True, slots=True)
class _Sum:
    """A store that adds a term to an element of ``total``.

    ``around`` are the loops and conditions it stands in, inside of the loop over terms, outermost
    first, but for those over terms. Its indices are ``base`` plus ``moving``, which reach from
    ``low`` to ``high`` in an iteration. An iteration adds ``terms``, None where that is symbolic.
    """

    store: BufferStore
    around: tuple[For | IfThenElse, ...]
    base: tuple[LinearKey, ...]
    moving: tuple[Linear, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    terms: int | None

    def is_apart(self, other: _Sum) -> bool:
        """Whether the two are known to touch other elements of one part of a buffer."""
        if self.store.buffer is not other.store.buffer or self.base != other.base:
            return False
        ends = zip(self.low, self.high, other.low, other.high, strict=True)
        return any(high < low_ or high_ < low for low, high, low_, high_ in ends)


@dataclass(frozen=True, slots=True)
class _Blocks:
    """``in_memory`` has the totals that leave the registers, and what they become."""

    scope: Scope
    target: Target
    in_memory: dict[Buffer, Buffer] = field(default_factory=dict)

    def node(self, n: Any) -> Any:
        """The node with the annotated loops below it in blocks."""
        if isinstance(n, Expr | Buffer):
            return n
        if not isinstance(n, For):
            return map_children(n, self.node)
        size = _asked(n)
        if size is not None:
            return self._blocked(n, size, asked=True)
        with self.scope.loop(n.var, n.min, n.extent):
            body = self.node(n.body)
        return n if body is n.body else replace(n, body=body)

    def _inner(self, n: Any, size: int) -> Any:
        """The node with all loops below it in blocks: of ``size`` terms, or of as many as its own
        annotation asks for."""
        if isinstance(n, Expr | Buffer):
            return n
        if not isinstance(n, For):
            return map_children(n, partial(self._inner, size=size))
        own = _asked(n)
        return self._blocked(n, size if own is None else own, asked=own is not None)

    def _blocked(self, loop: For, size: int, *, asked: bool = False) -> For:
        """A loop with its sums in blocks of ``size`` terms, and those in the loops inside. Where
        nobody ``asked`` for this loop's blocks, twice as many terms are no reason for them."""
        kept = tuple([(key, value) for key, value in loop.annotations if key != SUM_BLOCK])
        with self.scope.loop(loop.var, loop.min, loop.extent):
            loop = replace(loop, body=self._inner(loop.body, size), annotations=kept)
        name_of_terms, level = loop.var.name, 0
        while True:
            with self.scope.loop(loop.var, loop.min, loop.extent):
                sums = self._sums(loop)
            if not sums or (level == LEVELS and not isinstance(loop.extent, IntImm)):
                return loop
            terms = max([size if s.terms is None else s.terms for s in sums])
            if level:
                size = min(size, GROUP)
            most = size if asked and not level else 2 * size
            if isinstance(loop.extent, IntImm) and loop.extent.value * terms <= most:
                return loop
            level += 1
            name = f"{name_of_terms}_block{level if level > 1 else ''}"
            scopes = {
                id(g[0]): self._scope_of_partial_sums(loop, g[0].store.buffer)
                for g in _groups(sums)
            }
            loop = _in_blocks(loop, sums, _block_length(loop, size // terms), name, scopes)

    def _scope_of_partial_sums(self, loop: For, total: Buffer) -> str:
        """Where the partial sums of a total in registers are: there too. If the two have no room
        beside what else the loop keeps in registers, the total makes room, once."""
        if total.scope != "register":
            return total.scope
        used = {n.buffer for n in walk(loop.body) if isinstance(n, BufferLoad | BufferStore)}
        kept = [b for b in used if b.scope == "register" and b not in self.in_memory]
        needed = sum([self._registers(b) for b in (*kept, total)])
        if needed <= self.target.vector_registers - OPERANDS or self._registers(total) == 1:
            return "register"
        if total in self.in_memory:
            return "local"
        self.in_memory[total] = Buffer(total.name, total.shape, total.dtype, "local", total.strides)
        return "register"

    def _registers(self, buffer: Buffer) -> int:
        """Vector registers that a buffer of scope register takes."""
        sizes = [*buffer.shape[:1], *buffer.strides[:1]] if buffer.strides else buffer.shape
        elements = math.prod([d.value if isinstance(d, IntImm) else 1 for d in sizes])
        return -(-elements * buffer.dtype.bits // self.target.vector_bits)

    def _sums(self, loop: For) -> list[_Sum]:
        """The sums whose terms are the iterations of ``loop``."""
        changed = _changed(loop.body)
        if loop.kind != "serial" or _loads_any([loop.min, loop.extent], changed):
            return []
        found: list[_Sum] = []
        adding = {id(s): load for s in _stores(loop.body) if (load := _old_value(s)) is not None}
        loads = {id(load) for load in adding.values()}
        others = {
            id(n.buffer)
            for n in walk(loop.body)
            if (isinstance(n, BufferStore) and id(n) not in adding)
            or (isinstance(n, BufferLoad) and id(n) not in loads)
        }

        def visit(s: Stmt, around: tuple[For | IfThenElse, ...]) -> None:
            match s:
                case SeqStmt(stmts):
                    for x in stmts:
                        visit(x, around)
                case Allocate(_, body):
                    visit(body, around)
                case IfThenElse(_, then_case, None):
                    visit(then_case, (*around, s))
                case For(v, first, extent, _, body):
                    with self.scope.loop(v, first, extent):
                        visit(body, (*around, s))
                case BufferStore(buffer) if id(s) in adding and id(buffer) not in others:
                    made = self._sum(s, loop, around, changed)
                    if made is not None:
                        found.append(made)
                case _:
                    pass

        visit(loop.body, ())
        return found

    def _sum(
        self,
        store: BufferStore,
        loop: For,
        around: tuple[For | IfThenElse, ...],
        changed: frozenset[Buffer],
    ) -> _Sum | None:
        """The sum that a store adds to, with the loops around it in force; None where it is none
        over ``loop``, which has ``changed`` these buffers by the time that a block is complete."""
        loops = [n for n in around if isinstance(n, For)]
        kept = [n for n in loops if any(uses(i, n.var) for i in store.indices)]
        conditions = [n.condition for n in around if isinstance(n, IfThenElse)]
        over = [n for n in loops if n not in kept and not _runs_once(n, conditions)]
        fixed = [*store.indices, *conditions, *[e for n in kept for e in (n.min, n.extent)]]
        if any(n.kind not in ("serial", "unrolled") for n in over):
            return None
        if any(uses(e, v) for e in fixed for v in (loop.var, *[n.var for n in over])):
            return None
        if _loads_any(fixed, changed):
            return None
        base: list[LinearKey] = []
        moving: list[Linear] = []
        reach: list[tuple[int, int]] = []
        for index in store.indices:
            form = self.scope.linear(index)
            first = Linear(form.terms)
            for n in kept:
                first = self.scope.atoms.without(first, n.var)
            if any(uses(atom, n.var) for atom in first.terms for n in kept):
                return None
            moving.append(form - first)
            low, high = self.scope.interval(moving[-1])
            if low is None or high is None:
                return None
            base.append(first.key)
            reach.append((low, high))
        if not self._tells_apart(moving, kept):
            return None
        extents = [n.extent.value if isinstance(n.extent, IntImm) else None for n in over]
        terms = None if None in extents else math.prod([e for e in extents if e is not None])
        inside = tuple([n for n in around if n not in over])
        lows, highs = tuple([low for low, _ in reach]), tuple([high for _, high in reach])
        return _Sum(store, inside, tuple(base), tuple(moving), lows, highs, terms)

    def _tells_apart(self, indices: Sequence[Linear], loops: Sequence[For]) -> bool:
        """Whether no two iterations of ``loops`` are known to share these indices. If they did, the
        sum of a block would be added to its total once for each of them.

        It is told like the digits of a number: one step of a loop moves an index further than all
        loops that are not told yet do together.
        """
        spans: dict[Expr, int] = {}
        for form in [self.scope.linear(n.var) for n in loops]:
            if form.single is None:
                continue  # the loop stands at one value
            low, high = self.scope.interval(form)
            if low is None or high is None:
                return False
            spans[form.single] = high - low
        rows = [form.terms for form in indices if all(type(atom) is Var for atom in form.terms)]
        while spans:
            told = [v for v in spans if any(_outweighs(row, v, spans) for row in rows)]
            if not told:
                return False
            spans = {v: span for v, span in spans.items() if v not in told}
        return True


def _outweighs(factors: Mapping[Expr, int], var: Expr, spans: Mapping[Expr, int]) -> bool:
    """Whether a step of ``var`` is longer than the way of all others in ``spans``."""
    others = [abs(factors.get(v, 0)) * span for v, span in spans.items() if v != var]
    return abs(factors.get(var, 0)) > sum(others)


def _runs_once(loop: For, conditions: Sequence[Expr]) -> bool:
    """Whether conditions leave a loop its first iteration alone: the lanes of a vector that one
    column is left for, whose number no index has any more. It has no further terms."""
    return any(
        isinstance(c, LT)
        and c.a is loop.var
        and isinstance(c.b, IntImm)
        and isinstance(loop.min, IntImm)
        and c.b.value == loop.min.value + 1
        for condition in conditions
        for c in conjuncts(condition)
    )


def _changed(body: Stmt) -> frozenset[Buffer]:
    """The buffers that are written in ``body``, or are there in it alone."""
    found = [n.buffer if isinstance(n, Allocate) else stored_buffer(n) for n in walk(body)]
    return frozenset([b for b in found if b is not None])


def _loads_any(exprs: Iterable[Expr], buffers: frozenset[Buffer]) -> bool:
    loads = [n for e in exprs for n in walk(e) if isinstance(n, BufferLoad)]
    return any(n.buffer in buffers for n in loads)


def _asked(loop: For) -> int | None:
    """How many terms the annotation of a loop asks for; None where it has none."""
    value = annotation(loop, SUM_BLOCK)
    if value is None:
        return None
    if loop.kind != "serial":
        raise CodegenError(
            f"The annotation {SUM_BLOCK} is for serial loops, which add one term after another; "
            f"loop {loop.var.name} is {loop.kind}."
        )
    return _positive(loop, value)


def _positive(loop: For, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise CodegenError(
            f"The annotation {SUM_BLOCK} of loop {loop.var.name} is a number of terms, at least 1; "
            f"found {value!r}."
        )
    return value


def _stores(body: Stmt) -> list[BufferStore]:
    return [n for n in walk(body) if isinstance(n, BufferStore)]


def _old_value(store: BufferStore) -> BufferLoad | None:
    """The load of the element that a store adds something to; None where it does not."""
    value = store.value
    if not store.buffer.dtype.is_float or store.predicate is not None:
        return None
    if isinstance(value, Call) and value.op == "fma":
        candidates = [value.args[2]]
    else:
        candidates = [value.a, value.b] if isinstance(value, Add) else []
    key = [expr_key(i) for i in store.indices]
    for x in candidates:
        if not isinstance(x, BufferLoad) or x.buffer is not store.buffer or x.predicate is not None:
            continue
        if [expr_key(i) for i in x.indices] == key:
            return x
    return None


def _block_length(loop: For, most: int) -> int:
    """The iterations of a block: ``most``, or a third more or less if they divide the loop so."""
    extent = loop.extent
    if most > 1 and isinstance(extent, IntImm):
        near = range(min(most * 4 // 3, extent.value - 1), most * 2 // 3 - 1, -1)
        return next((n for n in near if extent.value % n == 0), most)
    return max(1, most)


def _in_blocks(
    loop: For, sums: list[_Sum], count: int, name: str, scopes: Mapping[int, str]
) -> For:
    """A loop over blocks of ``count`` of its iterations, with partial sums of each block, which are
    in the scope that there is for the first sum of a group."""
    length = IntImm(count, INDEX)
    blocks = floordiv(add(loop.extent, IntImm(count - 1, INDEX)), length)
    block = Var(name)
    number = Var(loop.var.name)
    done = mul(block, length)
    extent: Expr = length
    if not (isinstance(loop.extent, IntImm) and loop.extent.value % count == 0):
        extent = minimum(length, sub(loop.extent, done))
    changed: dict[int, Expr] = {}
    kept: dict[int, tuple[Buffer, tuple[Expr, ...]]] = {}
    clear: list[Stmt] = []
    gather: list[Stmt] = []
    partials: list[Buffer] = []
    for group in _groups(sums):
        own, low = _partial_sums(group, scopes[id(group[0])])
        partials.append(own)
        for s in group:
            total, old = s.store.buffer, _old_value(s.store)
            assert old is not None
            place = tuple([render(m.shift(-n)) for m, n in zip(s.moving, low, strict=True)])
            held = changed[id(old)] = BufferLoad(own, place)
            kept[id(s.store)] = own, place
            clear.append(_within(s.around, BufferStore(own, const(0, total.dtype), place)))
            value = add(BufferLoad(total, s.store.indices), held)
            gather.append(_within(s.around, BufferStore(total, value, s.store.indices)))

    def rewrite(n: Any) -> Any:
        if isinstance(n, Buffer):
            return n
        if id(n) in changed:
            return changed[id(n)]
        if id(n) in kept:
            own, place = kept[id(n)]
            return BufferStore(own, rewrite(n.value), place)
        return map_children(n, rewrite)

    body = substitute(rewrite(loop.body), {loop.var: add(loop.min, add(done, number))})
    inner = For(number, IntImm(0, INDEX), extent, "serial", body, "", loop.annotations)
    made: Stmt = seq(*clear, inner, *gather)
    for own in reversed(partials):
        made = Allocate(own, made, ((PADDED, True),) if own.strides else ())
    return For(block, IntImm(0, INDEX), blocks, "serial", made)


def _groups(sums: list[_Sum]) -> list[list[_Sum]]:
    """The sums by what their partial sums can share: a buffer of which each has elements of its
    own."""
    groups: list[list[_Sum]] = []
    for s in sums:
        group = next((g for g in groups if all(s.is_apart(x) for x in g)), None)
        if group is None:
            groups.append([s])
        else:
            group.append(s)
    return groups


def _partial_sums(group: list[_Sum], scope: str) -> tuple[Buffer, tuple[int, ...]]:
    """The buffer for the partial sums of a group, and the least of their relative indices."""
    total = group[0].store.buffer
    low = tuple([min(ends) for ends in zip(*[s.low for s in group], strict=True)])
    high = tuple([max(ends) for ends in zip(*[s.high for s in group], strict=True)])
    sizes = [last - first + 1 for first, last in zip(low, high, strict=True)]
    scope = "register" if math.prod(sizes) == 1 else scope
    shape = tuple([IntImm(n, INDEX) for n in sizes])
    # Rows that begin with registers of their own in the total do so here, too.
    strides = total.strides if total.scope == "register" else ()
    return Buffer(f"{total.name}_block", shape, total.dtype, scope, strides), low


def _within(around: Sequence[For | IfThenElse], store: BufferStore) -> Stmt:
    """A store in loops and conditions like these."""
    fresh: dict[Var, Expr] = {
        n.var: Var(n.var.name, n.var.dtype) for n in around if isinstance(n, For)
    }
    made: Stmt = substitute(store, fresh)
    for n in reversed(around):
        if isinstance(n, For):
            var, start, extent = (substitute(x, fresh) for x in (n.var, n.min, n.extent))
            assert isinstance(var, Var)
            made = For(var, start, extent, n.kind, made, n.thread)
        else:
            made = IfThenElse(substitute(n.condition, fresh), made)
    return made
