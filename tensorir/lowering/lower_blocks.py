"""Removes blocks: iter vars become their bindings, predicates conditions, inits guarded statements.

After this pass a function is loops, stores, lets, conditions and ``Allocate``s (one for each
``alloc_buffers`` entry, around the block's body, annotated with the alignment of strides that a
block asks for; a circular one stands around the loop it rolls on); no block, iter var or
match_buffer remains.

The init of a reduction block runs where all its reduce iters stand at their start. Where the
reduce loops enclose nothing but the block, and it updates what it begins, the init moves in front
of them (``for k: if k == 0: init; update`` becomes ``init; for k: update``); otherwise it is
guarded. In the update, ``x + a * b`` of floats becomes the contracted ``fma(a, b, x)`` that the
semantics of reduction blocks allow.

What blocks annotated with ``non_temporal`` write goes past the caches, as far as it is parameters
that nothing here reads: the function's attribute of that name lists their places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...support.errors import CodegenError
from ...support.node import map_children, walk
from ..arith import expr_key
from ..buffer import Buffer
from ..dim_align import DIM_ALIGN, Alignment, alignments_in
from ..expr import (
    EQ,
    AccessPtr,
    Add,
    BufferLoad,
    BufferStride,
    Call,
    Expr,
    IntImm,
    Let,
    Mul,
    Var,
    all_of,
    is_const,
)
from ..function import PrimFunc
from ..reduction_form import combines_in_place
from ..rolling import ROLLING
from ..stmt import (
    LEAVES,
    Allocate,
    Block,
    BlockRealize,
    BufferStore,
    For,
    IfThenElse,
    IterVar,
    LetStmt,
    MatchBuffer,
    SeqStmt,
    Stmt,
    annotation,
    seq,
)
from ..text.printer import print_expr
from ..visitor import free_vars, substitute
from .match_views import MatchViews, are_equal
from .place_rolling import RollingPlaces, place_rolling
from .scope import Scope

NON_TEMPORAL = "non_temporal"
"""The annotation of a block whose results are not read again soon, and the function's attribute."""


def lower_blocks(func: PrimFunc) -> PrimFunc:
    """``func`` without blocks. Raises CodegenError for a match_buffer that is no plain view."""
    lower = _Lower(func, alignments_in(func.body), place_rolling(func.body))
    body = lower.stmt(func.body)
    if body is func.body:
        return func
    lowered = PrimFunc(func.params, body, func.attrs, func.name)
    read = {id(n.buffer) for n in walk(body) if isinstance(n, BufferLoad)} if lower.streamed else ()
    streamed = lower.streamed.difference(read)
    places = [n for n, param in enumerate(func.params) if id(param) in streamed]
    return lowered.with_attr(NON_TEMPORAL, places) if places else lowered


class _Lower:
    """One walk; ``values`` maps iter vars to their bindings, already free of outer iter vars."""

    def __init__(
        self, func: PrimFunc, alignments: Mapping[int, Alignment], places: RollingPlaces
    ) -> None:
        self.fresh = _layout_vars(func)
        self.params = func.params
        self.alignments = alignments
        self.places = places
        self.values: dict[int, Expr] = {}
        self.views = MatchViews()
        self.contract = False
        self.streamed: set[int] = set()

    # -- statements -------------------------------------------------------------------------------
    def stmt(self, s: Stmt) -> Stmt:
        match s:
            case BlockRealize():
                return self._realize(s)
            case For():
                hoisted = self._hoist_init(s)
                if hoisted is not None:
                    return hoisted
                body = self.stmt(s.body)
                for buffer in reversed(self.places.inside.get(id(s), [])):
                    body = Allocate(buffer, body, self._layout_of(buffer))
                return self._loop(s, body)
            case SeqStmt(stmts):
                return seq(*[self.stmt(x) for x in stmts])
            case IfThenElse(condition, then_case, else_case):
                other = self.stmt(else_case) if else_case is not None else None
                return IfThenElse(self.expr(condition), self.stmt(then_case), other)
            case LetStmt(var, value, body):
                return LetStmt(var, self.expr(value), self.stmt(body))
            case Allocate(buffer, body, annotations):
                return Allocate(buffer, self.stmt(body), annotations)
            case BufferStore():
                return self._store(s)
            case _:
                return map_children(s, self.expr)

    def _loop(self, s: For, body: Stmt) -> For:
        return For(
            s.var, self.expr(s.min), self.expr(s.extent), s.kind, body, s.thread, s.annotations
        )

    def _realize(self, s: BlockRealize, *, with_init: bool = True) -> Stmt:
        block = s.block
        for iv, value in zip(block.iter_vars, s.iter_values, strict=True):
            self.values[id(iv.var)] = self.expr(value)
        self._bind_views(block.match_buffers)
        saved = self.contract
        self.contract = any(iv.kind == "reduce" for iv in block.iter_vars)
        body = self.stmt(block.body)
        self.contract = saved
        if annotation(block, NON_TEMPORAL):
            self.streamed |= {id(n.buffer) for n in walk(body) if isinstance(n, BufferStore)}
        if block.init is not None and with_init:
            at_start = [
                EQ(*_same(self.values[id(iv.var)], self.expr(iv.dom.min)))
                for iv in block.iter_vars
                if iv.kind == "reduce"
            ]
            init = self.stmt(block.init)
            body = seq(IfThenElse(all_of(at_start), init) if at_start else init, body)
        for buffer in reversed(block.alloc_buffers):
            if id(buffer) not in self.places.placed:
                body = Allocate(buffer, body, self._layout_of(buffer))
        predicate = self.expr(s.predicate)
        if not (isinstance(predicate, IntImm) and predicate.value):
            body = IfThenElse(predicate, body)
        return _annotated(body, block)

    def _layout_of(self, buffer: Buffer) -> tuple[tuple[str, Any], ...]:
        """The alignment that blocks ask for, for when the buffer has its final shape, and whether
        it rolls, and must stay where it is."""
        layout: list[tuple[str, Any]] = []
        alignment = self.alignments.get(id(buffer))
        if alignment:
            entries = [[axis, *how] for axis, how in sorted(alignment.items())]
            layout.append((DIM_ALIGN, entries))
        if id(buffer) in self.places.rolling:
            layout.append((ROLLING, True))
        return tuple(layout)

    def _hoist_init(self, loop: For) -> Stmt | None:
        """The init of the one block below ``loop`` in front of it, where ``loop`` is the outermost
        of its reduce loops and all the loops below enclose the block alone; else None."""
        chain = [loop]
        inner: Stmt = loop.body
        while isinstance(inner, For):
            chain.append(inner)
            inner = inner.body
        if not isinstance(inner, BlockRealize) or not _begins_its_own(inner.block):
            return None
        spatial, reduce = _used_vars(inner)
        if id(loop.var) not in reduce or any(
            id(x.var) in spatial and id(x.var) in reduce for x in chain
        ):
            return None
        starts: dict[Var, Expr] = {x.var: x.min for x in chain if id(x.var) in reduce}
        if any(id(m) in reduce for x in chain for m in walk(x.extent) if isinstance(m, Var)):
            return None
        if not _starts_at(inner, starts):
            return None
        update = self._realize(inner, with_init=False)
        predicate = self.expr(substitute(inner.predicate, starts))
        assert inner.block.init is not None
        result: Stmt = self.stmt(inner.block.init)
        if not _is_true(predicate):
            result = IfThenElse(predicate, result)
        for x in reversed(chain):
            update = self._loop(x, update)
        for x in reversed(chain):
            if id(x.var) not in reduce:
                fresh = Var(x.var.name, x.var.dtype)
                result = substitute(self._loop(x, result), {x.var: fresh})
        return seq(result, update)

    def _bind_views(self, views: Sequence[MatchBuffer]) -> None:
        """Take note of a block's views; variables of their layouts get their values."""
        bound: set[int] = set()
        for view in views:
            made = view.buffer
            ranges = [(self.expr(r.min), self.expr(r.extent)) for r in view.source.region]
            shape = tuple([self.expr(n) for n in made.shape])
            stated = (made.strides, made.elem_offset)
            for wanted, found in self.views.bind(view, ranges, shape, stated):
                if isinstance(wanted, Var) and id(wanted) in self.fresh - bound:
                    bound.add(id(wanted))
                    self.values[id(wanted)] = self._stride(made, wanted, found)
                elif not are_equal(self.expr(wanted), found):
                    raise CodegenError(
                        f"The match_buffer {made.name!r} states a stride or an offset of "
                        f"{print_expr(wanted)}; found {print_expr(found)}."
                    )

    def _stride(self, view: Buffer, wanted: Var, found: Expr) -> Expr:
        """The value of a variable of a view's layout: of memory that may still move and shrink, its
        stride then."""
        box = self.views.box(view)
        if box is None or box[0] in self.params or not _follows(view):
            return found
        at = next((d for d, s in enumerate(view.strides) if s is wanted), None)
        if at is None or at not in box[2]:
            return found
        return BufferStride(box[0], box[2].index(at))

    def _access(self, buffer: Buffer, indices: Sequence[Expr]) -> tuple[Buffer, tuple[Expr, ...]]:
        return self.views.resolve(buffer, tuple([self.expr(i) for i in indices]))

    def _store(self, s: BufferStore) -> Stmt:
        buffer, indices = self._access(s.buffer, s.indices)
        value = self.expr(s.value)
        if self.contract and buffer.dtype.is_float:
            value = _contracted(value, buffer, indices)
        guard = self.expr(s.predicate) if s.predicate is not None else None
        return BufferStore(buffer, value, indices, guard)

    def _pointer(self, e: AccessPtr) -> AccessPtr:
        """A pointer into memory; one to the whole of a view knows the box, where the function has
        been told strides that follow the buffer to its place."""
        self.views.require_told_layout(e.buffer)
        element, offset = self.expr(e.element), self.expr(e.offset)
        box = self.views.box(e.buffer)
        indices = (*e.element.indices, e.offset)
        whole = isinstance(e.offset, IntImm) and all(is_const(i, 0) for i in indices)
        if box is None or not whole or not _follows(e.buffer):
            return AccessPtr(element, offset, e.mask)
        return AccessPtr(element, offset, e.mask, box[1])

    # -- expressions ------------------------------------------------------------------------------
    def expr(self, e: Any) -> Any:
        kind = type(e)
        if kind is Var:
            return self.values.get(id(e), e)
        if kind is BufferLoad:
            buffer, indices = self._access(e.buffer, e.indices)
            guard = self.expr(e.predicate) if e.predicate is not None else None
            return BufferLoad(buffer, indices, guard)
        if kind is AccessPtr:
            return self._pointer(e)
        if kind is Buffer:
            return e
        return map_children(e, self.expr)


def _follows(view: Buffer) -> bool:
    """Whether a view's strides are variables, or 1 along its last dimension."""
    return bool(view.strides) and all(
        isinstance(s, Var) or (d == view.ndim - 1 and is_const(s, 1))
        for d, s in enumerate(view.strides)
    )


def _layout_vars(func: PrimFunc) -> set[int]:
    """The variables that stand for strides and offsets of match_buffers; nothing else binds
    them."""
    matched = [n.buffer for n in walk(func.body, LEAVES) if isinstance(n, MatchBuffer)]
    if not matched:
        return set()
    found = {id(v) for b in matched for v in free_vars((*b.strides, b.elem_offset))}
    bound = {id(n.var) for n in walk(func.body) if isinstance(n, For | LetStmt | Let | IterVar)}
    return found - bound - {id(p) for p in func.params} - {id(v) for v in func.shape_vars}


def _same(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    return (a, b) if a.dtype is b.dtype else (a, b.astype(a.dtype))


def _begins_its_own(block: Block) -> bool:
    """Whether the block's init may run before all of its updates."""
    return block.init is not None and combines_in_place(block)


def _is_true(e: Expr) -> bool:
    return isinstance(e, IntImm) and bool(e.value)


def _used_vars(s: BlockRealize) -> tuple[set[int], set[int]]:
    """The variables in the bindings of the spatial and of the reduce iter vars."""
    used: dict[bool, set[int]] = {True: set(), False: set()}
    for iv, value in zip(s.block.iter_vars, s.iter_values, strict=True):
        used[iv.kind == "reduce"] |= {id(n) for n in walk(value) if isinstance(n, Var)}
    return used[False], used[True]


def _starts_at(s: BlockRealize, starts: dict[Var, Expr]) -> bool:
    """Whether every reduce iter var stands at its start where the loops stand at ``starts``."""
    scope = Scope()
    for iv, value in zip(s.block.iter_vars, s.iter_values, strict=True):
        if iv.kind != "reduce":
            continue
        if scope.linear(substitute(value, starts)).key != scope.linear(iv.dom.min).key:
            return False
    return True


def _annotated(body: Stmt, block: Block) -> Stmt:
    """Unrolling pragmas of a block stand on its outermost loop afterwards."""
    pragmas = tuple([(k, v) for k, v in block.annotations if k.startswith("pragma_")])
    if pragmas and isinstance(body, For):
        return For(
            body.var,
            body.min,
            body.extent,
            body.kind,
            body.body,
            body.thread,
            body.annotations + pragmas,
        )
    return body


def _contracted(value: Expr, buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
    """``x + a * b`` as ``fma(a, b, x)`` where ``x`` is the stored element itself."""
    if not isinstance(value, Add):
        return value
    key = tuple([expr_key(i) for i in indices])
    for x, product in ((value.a, value.b), (value.b, value.a)):
        if (
            isinstance(product, Mul)
            and isinstance(x, BufferLoad)
            and x.buffer is buffer
            and tuple([expr_key(i) for i in x.indices]) == key
        ):
            return Call("fma", (product.a, product.b, x), value.dtype)
    return value
