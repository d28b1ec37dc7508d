"""The laws of a PrimFunc, one function each; ``verify_func`` raises at the first that is broken.

Passes, schedules and lowering may rely on these laws and must keep them; after lowering the laws
about blocks hold because there are none. Nothing here proves that indices stay in bounds: that
needs the analyzer and is the schedule's and lowering's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...support.errors import DTypeError, VerifyError
from ...support.node import Node, children, walk
from .. import expr as e
from ..buffer import SCOPES, Buffer, BufferRegion, is_scope
from ..expr import BOOL, INDEX, BufferLoad, Call, Expr, FloatImm, IntImm, Let, Reduce, Select, Var
from ..function import PrimFunc
from ..intrinsics import result_dtype
from ..stmt import (
    AXIS_KINDS,
    FOR_KINDS,
    Allocate,
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
from ..store_values import refused_store
from ..text.printer import print_marked
from ..visitor import free_vars, own_pointers

STATEMENTS = (BufferStore, For, BlockRealize, SeqStmt, IfThenElse, LetStmt, Evaluate, Allocate)


def verify_func(func: PrimFunc) -> PrimFunc:
    """``func`` itself, where it keeps every law; raises VerifyError with the guilty nodes
    marked.
    """
    for law in LAWS:
        law(func)
    return func


def is_well_formed(func: PrimFunc) -> bool:
    """Whether ``func`` keeps every law."""
    try:
        verify_func(func)
    except VerifyError:
        return False
    return True


def _broken(func: PrimFunc, law: str, found: str, *nodes: Node) -> VerifyError:
    span = next((n.span for n in nodes if n.span is not None), None)
    return VerifyError(law, found, print_marked(func, nodes), span)


def _nodes(func: PrimFunc) -> Iterator[Node]:
    """Every node of the function, shapes of buffers included once where they are declared."""
    yield from (n for p in func.params for n in walk(p))
    stack: list[Node] = [func.body]
    while stack:
        n = stack.pop()
        yield n
        stack += [c for c in children(n)[::-1] if not isinstance(c, Buffer)]
        if isinstance(n, Block):
            stack.extend(n.alloc_buffers)


# -- structure -----------------------------------------------------------------------------------
def verify_root(func: PrimFunc) -> None:
    """The body is the root block, without iter vars; or there is no block at all (after
    lowering).
    """
    law = "the body is the BlockRealize of a root block without iter vars, or has no blocks at all"
    body = func.body
    if isinstance(body, BlockRealize):
        if body.block.iter_vars or body.iter_values:
            raise _broken(
                func, law, f"the outermost block {body.block.name!r} has iter vars", body.block
            )
        return
    for n in walk(body):
        if isinstance(n, Block):
            raise _broken(func, law, f"the block {n.name!r} without a root block around it", n)


def verify_statements(func: PrimFunc) -> None:
    """Statements stand where statements belong; sequences are flat and of two or more."""
    for n in _nodes(func):
        for s in _statements_of(n):
            if not isinstance(s, STATEMENTS):
                raise _broken(
                    func,
                    "a body is made of statements; a Block stands in a BlockRealize",
                    f"a {type(s).__name__} as a statement",
                    s,
                    n,
                )
        if isinstance(n, SeqStmt) and (
            len(n.stmts) < 2 or any(isinstance(s, SeqStmt) for s in n.stmts)
        ):
            found = (
                f"{len(n.stmts)} statements" if len(n.stmts) < 2 else "a sequence inside a sequence"
            )
            raise _broken(
                func, "a SeqStmt holds two or more statements, none of them a SeqStmt", found, n
            )


def _statements_of(n: Node) -> tuple[Stmt, ...]:
    match n:
        case SeqStmt():
            return n.stmts
        case IfThenElse():
            return (n.then_case,) if n.else_case is None else (n.then_case, n.else_case)
        case For() | LetStmt() | Allocate():
            return (n.body,)
        case Block():
            return (n.body,) if n.init is None else (n.init, n.body)
        case PrimFunc():
            return (n.body,)
        case _:
            return ()


def verify_block_names(func: PrimFunc) -> None:
    """The name of a block is unique in its function."""
    seen: dict[str, Block] = {}
    for n in _nodes(func):
        if isinstance(n, Block):
            other = seen.setdefault(n.name, n)
            if other is not n:
                raise _broken(
                    func,
                    "block names are unique in a function",
                    f"two blocks called {n.name!r}",
                    other,
                    n,
                )


def verify_iter_values(func: PrimFunc) -> None:
    """A block is given one int64 value for each of its iter vars."""
    law = "a BlockRealize gives one int64 value for each iter var of its block"
    for n in _nodes(func):
        if isinstance(n, BlockRealize):
            given, wanted = len(n.iter_values), len(n.block.iter_vars)
            if given != wanted:
                raise _broken(
                    func,
                    law,
                    f"{given} values for the {wanted} iter vars of {n.block.name!r}",
                    n.block,
                )
            for it, value in zip(n.block.iter_vars, n.iter_values, strict=True):
                if value.dtype is not INDEX or it.var.dtype is not INDEX:
                    raise _broken(
                        func, law, f"a value of dtype {value.dtype} for {it.var.name!r}", it, value
                    )
                if it.kind not in AXIS_KINDS:
                    raise _broken(
                        func, f"an axis is one of {', '.join(AXIS_KINDS)}", repr(it.kind), it
                    )


def verify_loops(func: PrimFunc) -> None:
    """Loops are of a known kind; variable, start and extent have one integer dtype."""
    for n in _nodes(func):
        if not isinstance(n, For):
            continue
        if n.kind not in FOR_KINDS:
            raise _broken(func, f"a loop is one of {', '.join(FOR_KINDS)}", repr(n.kind), n)
        if not (n.var.dtype is n.min.dtype is n.extent.dtype and n.var.dtype.is_integer):
            found = f"{n.var.dtype}, {n.min.dtype} and {n.extent.dtype}"
            raise _broken(
                func, "a loop's variable, start and extent have one integer dtype", found, n
            )
        if bool(n.thread) != (n.kind == "thread_binding"):
            found = f"thread={n.thread!r} on a {n.kind} loop"
            raise _broken(func, "a thread_binding loop, and no other, names its thread", found, n)


# -- binders -------------------------------------------------------------------------------------
def verify_scopes(func: PrimFunc) -> None:
    """Each Var and Buffer is bound once, and stands only where it is in scope."""
    _Scopes(func).run()


class _Scopes:
    """One walk with the binders in scope; ``bound`` keeps all that were ever bound."""

    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.in_scope: set[int] = set()
        self.bound: dict[int, Node] = {}

    def run(self) -> None:
        for v in (*[p for p in self.func.params if isinstance(p, Var)], *self.func.shape_vars):
            self.bind(v, v)
        for b in self.func.buffers:
            self.bind(b, b)
        self.visit(self.func.body)

    def bind(self, binder: Var | Buffer, place: Node) -> None:
        if id(binder) in self.bound:
            kind = "variable" if isinstance(binder, Var) else "buffer"
            raise _broken(
                self.func,
                "each variable and buffer is bound once",
                f"the {kind} {binder.name!r} is bound again",
                place,
                self.bound[id(binder)],
            )
        self.bound[id(binder)] = place
        self.in_scope.add(id(binder))

    def visit(self, n: Node) -> None:
        method: Callable[[Node], None] | None = getattr(self, f"visit_{type(n).__name__}", None)
        if method is not None:
            method(n)
        else:
            for c in children(n):
                self.visit(c)

    def within(self, binders: list[tuple[Var | Buffer, Node]], *bodies: Node) -> None:
        for binder, place in binders:
            self.bind(binder, place)
        for body in bodies:
            self.visit(body)
        for binder, _ in binders:
            self.in_scope.discard(id(binder))

    def visit_Var(self, n: Var) -> None:  # noqa: N802
        if id(n) not in self.in_scope:
            raise _broken(
                self.func,
                "a variable stands only in the scope that binds it",
                f"the variable {n.name!r} outside of its scope"
                if id(n) in self.bound
                else f"the variable {n.name!r}, which nothing binds",
                n,
            )

    def visit_Buffer(self, n: Buffer) -> None:  # noqa: N802
        if id(n) not in self.in_scope:
            raise _broken(
                self.func,
                "a buffer stands only in the scope that declares it",
                f"the buffer {n.name!r} outside of its scope"
                if id(n) in self.bound
                else f"the buffer {n.name!r}, which nothing declares",
                n,
            )

    def visit_For(self, n: For) -> None:  # noqa: N802
        self.visit(n.min)
        self.visit(n.extent)
        self.within([(n.var, n)], n.body)

    def visit_LetStmt(self, n: LetStmt) -> None:  # noqa: N802
        self.visit(n.value)
        self.within([(n.var, n)], n.body)

    def visit_Let(self, n: Let) -> None:  # noqa: N802
        self.visit(n.value)
        self.within([(n.var, n)], n.body)

    def visit_Allocate(self, n: Allocate) -> None:  # noqa: N802
        self.shape(n.buffer)
        self.within([(n.buffer, n)], n.body)

    def shape(self, b: Buffer) -> None:
        for c in (*b.shape, *b.strides, b.elem_offset):
            self.visit(c)

    def visit_BlockRealize(self, n: BlockRealize) -> None:  # noqa: N802
        for v in n.iter_values:
            self.visit(v)
        block = n.block
        for it in block.iter_vars:
            self.visit(it.dom)
        axes: list[tuple[Var | Buffer, Node]] = [(it.var, it) for it in block.iter_vars]
        for binder, place in axes:
            self.bind(binder, place)
        # The regions of a block are those of buffers from outside; its own are its own affair.
        for part in (n.predicate, *block.reads, *block.writes):
            self.visit(part)
        own: list[tuple[Var | Buffer, Node]] = []
        for b in block.alloc_buffers:
            self.shape(b)
            own.append((b, block))
        for m in block.match_buffers:
            self.visit(m.source)
            layout = (*m.buffer.strides, m.buffer.elem_offset)
            fresh = [v for v in free_vars(layout) if id(v) not in self.in_scope]
            own += [*[(v, m) for v in fresh], (m.buffer, m)]
        self.within(own, *([block.init] if block.init is not None else []), block.body)
        for binder, _ in axes:
            self.in_scope.discard(id(binder))


# -- accesses ------------------------------------------------------------------------------------
def verify_accesses(func: PrimFunc) -> None:
    """A load or store has one int64 index a dimension; only the last may be a vector."""
    for n in _nodes(func):
        if not isinstance(n, BufferLoad | BufferStore):
            continue
        if len(n.indices) != n.buffer.ndim:
            found = f"{len(n.indices)} indices of {n.buffer.name!r} of {n.buffer.ndim} dimensions"
            raise _broken(func, "an access has one index for each dimension", found, n)
        for d, i in enumerate(n.indices):
            if i.dtype.scalar is not INDEX or (i.dtype.lanes > 1 and d < len(n.indices) - 1):
                law = "an index is int64, and a vector only in the last dimension"
                raise _broken(func, law, f"an index of dtype {i.dtype}", n)
        if n.predicate is not None and n.predicate.dtype is not BOOL.with_lanes(_lanes(n)):
            law = "the predicate of an access is a bool for each lane"
            raise _broken(func, law, f"a predicate of dtype {n.predicate.dtype}", n)


def _lanes(n: BufferLoad | BufferStore) -> int:
    return n.indices[-1].dtype.lanes if n.indices else 1


def verify_stores(func: PrimFunc) -> None:
    """A store's value has the buffer's dtype, with the lanes of the index."""
    for n in _nodes(func):
        if isinstance(n, BufferStore):
            wanted = n.buffer.dtype.with_lanes(_lanes(n))
            if n.value.dtype is not wanted:
                law = "a stored value has the dtype of its buffer and the lanes of its index"
                is_literal = isinstance(n.value, FloatImm)
                found = refused_store(n.buffer.name, wanted, n.value.dtype, is_literal=is_literal)
                raise _broken(func, law, found, n)


def verify_regions(func: PrimFunc) -> None:
    """The regions that a block reads and writes have one range a dimension."""
    for n in _nodes(func):
        if isinstance(n, BufferRegion) and len(n.region) != n.buffer.ndim:
            found = (
                f"{len(n.region)} ranges of {n.buffer.name!r}, which has {n.buffer.ndim} dimensions"
            )
            raise _broken(func, "a buffer region has one range for each dimension", found, n)


def verify_reduce_axes(func: PrimFunc) -> None:
    """What a block writes does not depend on its reduce axes: they combine into the same
    element.
    """
    for n in _nodes(func):
        if not isinstance(n, Block):
            continue
        reduced = {id(it.var) for it in n.iter_vars if it.kind == "reduce"}
        for region in n.writes if reduced else ():
            for v in walk(region):
                if isinstance(v, Var) and id(v) in reduced:
                    found = f"the block {n.name!r} writes at the reduce axis {v.name!r}"
                    law = "a reduce axis combines into one element: no written region depends on it"
                    raise _broken(func, law, found, region)


def verify_buffers(func: PrimFunc) -> None:
    """Buffers live in a known scope, have int64 dims, and after lowering constant ones in
    registers: before, a buffer is still as large as what it caches, and may be symbolic."""
    for n in _nodes(func):
        declared: tuple[Buffer, ...] = ()
        if isinstance(n, Block):
            declared = (*n.alloc_buffers, *[m.buffer for m in n.match_buffers])
        elif isinstance(n, Allocate):
            declared = (n.buffer,)
        elif n is func.body:
            declared = func.buffers
        for b in declared:
            _verify_buffer(func, b, n)
        if isinstance(n, Block):
            for b in n.alloc_buffers:
                _verify_size(func, b, n)


def _verify_size(func: PrimFunc, b: Buffer, place: Block) -> None:
    for v in free_vars([d for d in b.shape if not isinstance(d, IntImm)]):
        if all(v is not dim for dim in func.shape_vars):
            found = f"{b.name!r}, whose size depends on {v.name!r}"
            if v in func.params:
                found += ", a parameter: leave it out of the parameters, and it is a dimension"
            law = "the size of a buffer is known when the function begins: constants and dimensions"
            raise _broken(func, law, found, b, place)


def _verify_buffer(func: PrimFunc, b: Buffer, place: Node) -> None:
    if not is_scope(b.scope):
        raise _broken(
            func, f"a buffer's scope is one of {', '.join(SCOPES)}", repr(b.scope), b, place
        )
    for d in (*b.shape, *b.strides, b.elem_offset):
        if d.dtype is not INDEX:
            raise _broken(
                func, "dims, strides and offsets are int64", f"a {d.dtype} in {b.name!r}", b, place
            )
    allocated = isinstance(place, Allocate)
    if allocated and b.memory == "register" and not all(isinstance(d, IntImm) for d in b.shape):
        raise _broken(
            func, "a register buffer has constant dims", f"{b.name!r} with a symbolic one", b, place
        )
    if b.strides and len(b.strides) != b.ndim:
        found = f"{len(b.strides)} strides of {b.name!r}, which has {b.ndim} dimensions"
        raise _broken(func, "a buffer has no strides, or one for each dimension", found, b, place)


# -- expressions ---------------------------------------------------------------------------------
def verify_dtypes(func: PrimFunc) -> None:
    """Conditions are bools, lets keep their variable's dtype, calls are in the table of
    intrinsics.
    """
    for n in _nodes(func):
        for condition in _conditions_of(n):
            if not condition.dtype.is_bool:
                raise _broken(
                    func, "a condition is a bool", f"a condition of dtype {condition.dtype}", n
                )
        if isinstance(n, Let | LetStmt) and n.value.dtype is not n.var.dtype:
            found = (
                f"a value of dtype {n.value.dtype} for the {n.var.dtype} variable {n.var.name!r}"
            )
            raise _broken(func, "a let's value has the dtype of its variable", found, n)
        if isinstance(n, Call):
            _verify_call(func, n)
        if isinstance(n, Reduce):
            raise _broken(
                func, "a Reduce stands only in a compute definition", "a Reduce in a PrimFunc", n
            )


def _conditions_of(n: Node) -> tuple[Expr, ...]:
    match n:
        case IfThenElse() | Select():
            return (n.condition,)
        case BlockRealize():
            return (n.predicate,)
        case e.And() | e.Or():
            return (n.a, n.b)
        case e.Not():
            return (n.a,)
        case _:
            return ()


def _verify_call(func: PrimFunc, n: Call) -> None:
    law = "a Call names an intrinsic and has the operands and the dtype of its row"
    try:
        dtype = result_dtype(n.op, n.args, n.dtype)
    except DTypeError as error:
        raise _broken(func, law, f"{n.op}: {error.message}", n) from None
    if dtype is not n.dtype:
        raise _broken(func, law, f"{n.op} of dtype {n.dtype}, which gives {dtype}", n)


# -- functions of C --------------------------------------------------------------------------------
def verify_extern_calls(func: PrimFunc) -> None:
    """Functions of C take scalars, strings and pointers, write as statements alone, and stand in
    blocks that declare what their pointers lead to."""
    statements = {id(n.value) for n in _nodes(func) if isinstance(n, Evaluate)}
    called: set[int] = set()
    for n in _nodes(func):
        if isinstance(n, e.ExternCall):
            called.update([id(a) for a in n.args if isinstance(a, e.AccessPtr)])
            _verify_extern_call(func, n, is_statement=id(n) in statements)
        elif isinstance(n, e.AccessPtr):
            _verify_pointer(func, n, is_argument=id(n) in called)
        elif isinstance(n, BlockRealize) and (n is not func.body or n.block.reads):
            _verify_declared(func, n.block, own_pointers(n.block.body))
        elif isinstance(n, BlockRealize):
            for p in own_pointers(n.block.body):
                law = (
                    "a function of C that has pointers stands in a block that declares what it does"
                )
                raise _broken(
                    func, law, f"a pointer to {p.buffer.name!r} outside of every block", p
                )


def _verify_extern_call(func: PrimFunc, n: e.ExternCall, *, is_statement: bool) -> None:
    law = "a function of C takes and gives scalars of up to 64 bits, and takes strings and pointers"
    for value in (*n.args, n):
        is_address = isinstance(value, e.AccessPtr | e.StringImm | e.ExternCall)
        if value.dtype == "handle" and is_address and (value is n or type(value) is not type(n)):
            continue
        scalar = value.dtype.lanes == 1 and value.dtype.scalar not in ("float16", "bfloat16")
        if not scalar or value.dtype == "handle":
            raise _broken(func, law, f"a value of dtype {value.dtype} for {n.symbol!r}", n)
    if is_statement:
        return
    if n.dtype == "handle":
        law = "a function of C that gives nothing is a statement, T.evaluate(T.call_extern(...))"
        raise _broken(func, law, f"{n.symbol!r} as a value", n)
    written = next((a for a in n.args if isinstance(a, e.AccessPtr) and a.is_written), None)
    if written is not None:
        law = "a function of C that writes memory is a statement, T.evaluate(T.call_extern(...))"
        found = f"{n.symbol!r} as a value, with a pointer to write {written.buffer.name!r}"
        raise _broken(func, law, found, n)


def _verify_pointer(func: PrimFunc, n: e.AccessPtr, *, is_argument: bool) -> None:
    law = 'a pointer is an argument of a function of C; it is for "r", "w" or "rw"'
    if not is_argument:
        raise _broken(func, law, f"a pointer to {n.buffer.name!r} as a value", n)
    if n.mask not in ("r", "w", "rw"):
        raise _broken(func, law, f"the mask {n.mask!r}", n)
    if not isinstance(n.element, BufferLoad) or n.element.predicate is not None:
        raise _broken(func, "a pointer leads to an element of a buffer", "none", n)
    if n.offset.dtype is not INDEX:
        law = "the offset of a pointer is int64"
        raise _broken(func, law, f"an offset of dtype {n.offset.dtype}", n)


def _verify_declared(func: PrimFunc, block: Block, pointers: list[e.AccessPtr]) -> None:
    views = {m.buffer: m.source.buffer for m in block.match_buffers}
    for p in pointers:
        if p.buffer in block.alloc_buffers:
            continue
        buffer = views.get(p.buffer, p.buffer)
        for letter, word, regions in (
            ("r", "reads", block.reads),
            ("w", "writes", block.writes),
        ):
            if letter in p.mask and all(r.buffer is not buffer for r in regions):
                law = f"a block declares in T.{word} what the functions that it calls do"
                found = f"the block {block.name!r} without {buffer.name!r} in T.{word}"
                raise _broken(func, law, found, p, block)


LAWS: tuple[Callable[[PrimFunc], None], ...] = (
    verify_root,
    verify_statements,
    verify_block_names,
    verify_iter_values,
    verify_scopes,
    verify_loops,
    verify_buffers,
    verify_accesses,
    verify_stores,
    verify_regions,
    verify_reduce_axes,
    verify_dtypes,
    verify_extern_calls,
)
"""In an order in which later laws may rely on earlier ones."""
