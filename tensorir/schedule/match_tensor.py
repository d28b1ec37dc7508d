"""Whether a block's body is the computation that a tensor intrinsic describes, and where its
operands are.

The two trees are compared node by node, up to renaming, loops and axes of extent 1, the order of
the axes of a block and of the operands of ``+ * min max``. Index expressions are compared by what
they are worth: an operand of the description stands for a box of a buffer, whose start is found at
the operand's first access and must fit all others. The first difference is kept for the message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from ...support.node import Node, children, walk
from ..analysis.affine import Bounds, loop_bounds
from ..arith import expr_key
from ..buffer import Buffer
from ..expr import (
    INDEX,
    Add,
    BufferLoad,
    Call,
    Cast,
    Expr,
    FloatImm,
    IntImm,
    Max,
    Min,
    Mul,
    Var,
    is_const,
    sub,
)
from ..stmt import (
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
)
from ..text.printer import print_expr
from ..visitor import Mutator, has_load, substitute

_COMMUTATIVE = (Add, Mul, Min, Max)


@dataclass(frozen=True, slots=True)
class Operand:
    """Where a description's buffer lies: ``starts`` has one index a dimension of ``buffer``, and
    ``dims`` lists the dimensions that are the description's."""

    buffer: Buffer
    starts: tuple[Expr, ...]
    dims: tuple[int, ...]


class TensorMatch:
    """One comparison. After ``run`` either ``difference`` says what differs first, or
    ``operands`` has a place for each buffer of the description."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.operands: dict[Buffer, Operand] = {}
        self.vars: dict[Var, Expr] = {}
        self.inner: set[int] = set()
        self.difference = ""

    def run(self, found: Stmt, desc: Stmt) -> bool:
        """Whether ``found`` is what ``desc`` describes."""
        return self._stmt(_WithoutUnits().visit(found), _WithoutUnits().visit(desc))

    def _differ(self, what: str, found: object, wanted: object) -> bool:
        if not self.difference:
            self.difference = f"{what}: expected {_shown(wanted)}, found {_shown(found)}"
        return False

    # -- statements --------------------------------------------------------------------------------
    def _stmt(self, found: Stmt, desc: Stmt) -> bool:  # noqa: C901 - one case a node
        if type(found) is not type(desc):
            return self._differ("a statement", found, desc)
        match found, desc:
            case For(), For():
                return self._loop(found, desc)
            case BlockRealize(), BlockRealize():
                return self._realize(found, desc)
            case SeqStmt(), SeqStmt():
                if len(found.stmts) != len(desc.stmts):
                    return self._differ(
                        "the length of a sequence", len(found.stmts), len(desc.stmts)
                    )
                return all(self._stmt(a, b) for a, b in zip(found.stmts, desc.stmts, strict=True))
            case BufferStore(), BufferStore():
                return self._access(
                    found.buffer, found.indices, desc.buffer, desc.indices, "stores to"
                ) and self._expr(found.value, desc.value)
            case IfThenElse(), IfThenElse():
                if (found.else_case is None) != (desc.else_case is None):
                    return self._differ("a condition's other case", found, desc)
                return (
                    self._expr(found.condition, desc.condition)
                    and self._stmt(found.then_case, desc.then_case)
                    and (
                        found.else_case is None
                        or desc.else_case is None
                        or self._stmt(found.else_case, desc.else_case)
                    )
                )
            case LetStmt(), LetStmt():
                if not self._expr(found.value, desc.value):
                    return False
                self._pair(found.var, desc.var)
                return self._stmt(found.body, desc.body)
            case Evaluate(), Evaluate():
                return self._expr(found.value, desc.value)
            case _:
                return self._differ("a statement that tensorize does not compare", found, desc)

    def _pair(self, found: Var, desc: Var) -> None:
        self.vars[desc] = found
        self.inner.add(id(found))

    def _loop(self, found: For, desc: For) -> bool:
        if not self._same(found.min, desc.min):
            return self._differ(f"the start of the loop {found.var.name!r}", found.min, desc.min)
        if not self._same(found.extent, desc.extent):
            return self._differ(
                f"the extent of the loop {found.var.name!r}", found.extent, desc.extent
            )
        self._pair(found.var, desc.var)
        self.bounds |= loop_bounds([found])
        return self._stmt(found.body, desc.body)

    def _realize(self, found: BlockRealize, desc: BlockRealize) -> bool:
        a, b = found.block, desc.block
        if not is_const(found.predicate, 1):
            return self._differ(
                f"the predicate of the block {a.name!r}", found.predicate, desc.predicate
            )
        if len(a.iter_vars) != len(b.iter_vars):
            return self._differ(
                f"the number of axes of the block {a.name!r}", len(a.iter_vars), len(b.iter_vars)
            )
        free = list(zip(a.iter_vars, found.iter_values, strict=True))
        for it, value in zip(b.iter_vars, desc.iter_values, strict=True):
            own = next(
                (
                    p
                    for p in free
                    if p[0].kind == it.kind
                    and self._same(p[0].dom.extent, it.dom.extent)
                    and self._same(p[1], value)
                ),
                None,
            )
            if own is None:
                what = f"an axis of the block {a.name!r} like {it.var.name!r} of the description"
                kinds = ", ".join([f"{p[0].kind} {print_expr(p[0].dom.extent)}" for p in free])
                return self._differ(what, kinds, f"{it.kind} {print_expr(it.dom.extent)}")
            free.remove(own)
            self._pair(own[0].var, it.var)
            self.bounds |= Bounds({own[0].var: own[0].dom})
        if (a.init is None) != (b.init is None):
            return self._differ(
                f"the init of the block {a.name!r}",
                "none" if a.init is None else "an init",
                "none" if b.init is None else "an init",
            )
        if a.init is not None and b.init is not None and not self._stmt(a.init, b.init):
            return False
        if a.alloc_buffers or a.match_buffers:
            return self._differ(f"buffers made in the block {a.name!r}", "some", "none")
        return self._stmt(a.body, b.body)

    # -- expressions -------------------------------------------------------------------------------
    def _same(self, found: Expr, desc: Expr) -> bool:
        """Whether an index expression has the value that the description gives it."""
        if found.dtype is not desc.dtype:
            return False
        return self.bounds.proves_equal(found, substitute(desc, self.vars))

    def _expr(self, found: Expr, desc: Expr) -> bool:  # noqa: C901 - one case a node
        if isinstance(found, BufferLoad) and isinstance(desc, BufferLoad):
            return self._access(
                found.buffer, found.indices, desc.buffer, desc.indices, "loads from"
            )
        if found.dtype is not desc.dtype:
            return self._differ(f"the dtype of {_shown(found)}", found.dtype, desc.dtype)
        if found.dtype is INDEX and not has_load(found) and not has_load(desc):
            return self._same(found, desc) or self._differ("an index", found, desc)
        if type(found) is not type(desc):
            return self._differ("an operation", found, desc)
        if isinstance(found, (IntImm, FloatImm)):
            return expr_key(found) == expr_key(desc) or self._differ("a constant", found, desc)
        if isinstance(found, Var):
            assert isinstance(desc, Var)
            return self.vars.get(desc) is found or self._differ("a variable", found, desc)
        if isinstance(found, Call) and isinstance(desc, Call) and found.op != desc.op:
            return self._differ("a call", found.op, desc.op)
        if isinstance(found, Cast) and isinstance(desc, Cast):
            return self._expr(found.value, desc.value)
        mine, theirs = _operands(found), _operands(desc)
        if len(mine) != len(theirs):
            return self._differ("the number of operands", found, desc)
        if isinstance(found, _COMMUTATIVE):
            kept = dict(self.operands)
            if self._all(mine, theirs):
                return True
            first, self.operands = self.difference, dict(kept)
            self.difference = ""
            if self._all(mine, theirs[::-1]):
                return True
            self.operands, self.difference = kept, first
            return False
        return self._all(mine, theirs)

    def _all(self, found: Sequence[Expr], desc: Sequence[Expr]) -> bool:
        return all(self._expr(a, b) for a, b in zip(found, desc, strict=True))

    # -- accesses ----------------------------------------------------------------------------------
    def _access(
        self,
        found: Buffer,
        indices: Sequence[Expr],
        desc: Buffer,
        desc_indices: Sequence[Expr],
        what: str,
    ) -> bool:
        wanted = [substitute(i, self.vars) for i in desc_indices]
        known = self.operands.get(desc)
        if known is None:
            if found.dtype is not desc.dtype:
                return self._differ(
                    f"the dtype of {found.name!r} for the operand {desc.name!r}",
                    found.dtype,
                    desc.dtype,
                )
            known = self._place(found, indices, wanted)
            if known is None:
                return self._differ(
                    f"what the body {what}, for the operand {desc.name!r}",
                    BufferLoad(found, tuple(indices)),
                    BufferLoad(desc, tuple(desc_indices)),
                )
            self.operands[desc] = known
            return True
        fits = known.buffer is found
        if fits:
            expected = list(known.starts)
            for d, i in zip(known.dims, wanted, strict=True):
                expected[d] = expected[d] + i
            fits = all(
                self.bounds.proves_equal(x, y) for x, y in zip(indices, expected, strict=True)
            )
        if fits:
            return True
        return self._differ(
            f"what the body {what}, for the operand {desc.name!r} at {known.buffer.name!r}",
            BufferLoad(found, tuple(indices)),
            BufferLoad(desc, tuple(desc_indices)),
        )

    def _place(
        self, found: Buffer, indices: Sequence[Expr], wanted: Sequence[Expr]
    ) -> Operand | None:
        """The place at which ``wanted`` are ``indices``; the last dimensions are tried first."""
        ndim, count = len(indices), len(wanted)
        if count > ndim:
            return None
        simplified = [self.bounds.simplify(i) for i in indices]
        for dims in reversed(list(combinations(range(ndim), count))):
            starts = list(simplified)
            for d, i in zip(dims, wanted, strict=True):
                starts[d] = self.bounds.simplify(sub(indices[d], i))
            if not any(isinstance(n, Var) and id(n) in self.inner for s in starts for n in walk(s)):
                return Operand(found, tuple(starts), dims)
        return None


class _WithoutUnits(Mutator):
    """Loops and axes that take one value are replaced by it."""

    def visit_For(self, n: For) -> Any:  # noqa: N802
        if is_const(n.extent, 1):
            return self.visit(substitute(n.body, {n.var: n.min}))
        return self.generic_visit(n)

    def visit_BlockRealize(self, n: BlockRealize) -> Any:  # noqa: N802
        block: Block = n.block
        pairs = list(zip(block.iter_vars, n.iter_values, strict=True))
        units: dict[Var, Expr] = {
            it.var: it.dom.min for it, _ in pairs if is_const(it.dom.extent, 1)
        }
        kept = [(it, v) for it, v in pairs if it.var not in units]
        inner = Block(
            block.name,
            (),
            (),
            (),
            substitute(block.body, units),
            None if block.init is None else substitute(block.init, units),
            block.alloc_buffers,
            block.match_buffers,
        )
        made: Block = self.generic_visit(inner)
        return BlockRealize(
            tuple([v for _, v in kept]),
            n.predicate,
            Block(
                made.name,
                tuple([it for it, _ in kept]),
                (),
                (),
                made.body,
                made.init,
                made.alloc_buffers,
                made.match_buffers,
            ),
        )


def _operands(e: Expr) -> tuple[Expr, ...]:
    return tuple([c for c in children(e) if isinstance(c, Expr)])


def _shown(x: object) -> str:
    if isinstance(x, Expr):
        return f"'{print_expr(x)}'"
    return f"a {type(x).__name__}" if isinstance(x, Node) else str(x)
