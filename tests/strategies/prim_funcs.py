"""Random PrimFuncs that keep every law but need not make sense to run: for text, hashing,
rewriting.

``scheduled_funcs()`` have a root block, loops of every kind and blocks; ``lowered_funcs()`` loops
over flat memory with allocations, lets, vectors and predicates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from burnish.support.dtype import DType
from burnish.tensorir import expr as e
from burnish.tensorir.buffer import Buffer, BufferRegion, Range
from burnish.tensorir.expr import BOOL, INDEX, Expr, IntImm, Var, const
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.stmt import (
    Allocate,
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    IterVar,
    LetStmt,
    MatchBuffer,
    Stmt,
    seq,
)

from .exprs import Draw, draw_expr, draw_index, pick

NAMES = ("i", "j", "k", "A", "x", "range", "T", "for", "vi", "ax0")
DTYPES = ("float32", "int32", "float16", "int64", "bool")
LOOP_KINDS = ("serial", "serial", "serial", "parallel", "vectorized", "unrolled", "thread_binding")
ATTRS = st.dictionaries(
    st.sampled_from(["pragma_unroll", "a.b", "tile", "é"]),
    st.one_of(
        st.integers(-5, 600),
        st.booleans(),
        st.sampled_from(["SSR", 'with "quotes"\n', ""]),
        st.floats(),
        st.lists(st.integers(0, 9), max_size=3),
    ),
    max_size=2,
).map(lambda d: tuple(d.items()))


@dataclass
class Scope:
    """What may be used at a place, and the names of blocks given so far (shared by all scopes)."""

    variables: list[Var]
    buffers: list[Buffer]
    blocks: list[str] = field(default_factory=list)

    def with_vars(self, *more: Var) -> Scope:
        return replace(self, variables=[*self.variables, *more])

    def with_buffers(self, *more: Buffer) -> Scope:
        return replace(self, buffers=[*self.buffers, *more])


def chance(draw: Draw, one_in: int) -> bool:
    return bool(draw(st.integers(0, one_in - 1)) == 0)


def new_var(draw: Draw, dtype: str = "int64") -> Var:
    return Var(pick(draw, NAMES), DType(dtype))


def attrs(draw: Draw) -> tuple[tuple[str, object], ...]:
    return draw(ATTRS) if chance(draw, 3) else ()


def new_buffer(draw: Draw, symbolic: list[Var], *, least: int = 0) -> Buffer:
    """A buffer over constants, symbolic dims and arithmetic over them."""
    dims: list[Expr] = []
    for _ in range(draw(st.integers(least, 3))):
        if symbolic and chance(draw, 2):
            v = pick(draw, symbolic)
            dims.append(v * 2 + 1 if chance(draw, 3) else v)
        else:
            dims.append(IntImm(draw(st.integers(1, 64))))
    return Buffer(
        pick(draw, NAMES),
        tuple(dims),
        DType(pick(draw, DTYPES)),
        pick(draw, ["global", "global", "local", "shared"]),
        tuple(dims) if chance(draw, 10) else (),
        IntImm(4 if chance(draw, 10) else 0),
        64 if chance(draw, 5) else 0,
    )


def value(draw: Draw, dtype: str, scope: Scope) -> Expr:
    return draw_expr(draw, dtype, scope.variables, scope.buffers, pick(draw, [0, 1, 1, 2]))


def store(draw: Draw, scope: Scope) -> Stmt:
    b = pick(draw, scope.buffers)
    indices = tuple([draw_index(draw, scope.variables) for _ in b.shape])
    return BufferStore(b, value(draw, b.dtype, scope), indices)


def vector_store(draw: Draw, scope: Scope) -> Stmt:
    """A store of a vector, with or without a predicate, to a buffer of one dimension or more."""
    wide = [b for b in scope.buffers if b.ndim and not b.dtype.is_bool]
    if not wide:
        return store(draw, scope)
    b, lanes = pick(draw, wide), pick(draw, [4, 8])
    last = e.Ramp(draw_index(draw, scope.variables), const(draw(st.integers(1, 2))), lanes)
    indices = (*[draw_index(draw, scope.variables) for _ in b.shape[1:]], last)
    predicate = e.LT(last, e.Broadcast(IntImm(10), lanes)) if chance(draw, 2) else None
    repeated = e.Broadcast(value(draw, b.dtype, scope), lanes)
    return BufferStore(b, e.Add(e.BufferLoad(b, indices, predicate), repeated), indices, predicate)


def interval(draw: Draw, scope: Scope) -> Range:
    """The start and extent of a loop or an axis."""
    start = draw_index(draw, scope.variables, 1) if chance(draw, 4) else IntImm(0)
    extent = (
        draw_index(draw, scope.variables, 1)
        if chance(draw, 3)
        else IntImm(draw(st.integers(1, 16)))
    )
    return Range(start, extent)


def loop(draw: Draw, scope: Scope, inner: Callable[[Scope], Stmt]) -> Stmt:
    kind, dom, var = pick(draw, LOOP_KINDS), interval(draw, scope), new_var(draw)
    thread = "threadIdx.x" if kind == "thread_binding" else ""
    return For(var, dom.min, dom.extent, kind, inner(scope.with_vars(var)), thread, attrs(draw))


def region(draw: Draw, scope: Scope) -> BufferRegion:
    b = pick(draw, scope.buffers)
    ranges = []
    for _ in b.shape:
        extent = IntImm(1) if chance(draw, 2) else interval(draw, scope).extent
        ranges.append(Range(draw_index(draw, scope.variables, 1), extent))
    return BufferRegion(b, tuple(ranges))


def block(draw: Draw, scope: Scope, depth: int) -> Stmt:
    name = f"B{len(scope.blocks)}"
    scope.blocks.append(name)
    iter_vars, values = [], []
    for _ in range(draw(st.integers(0, 3))):
        kind = pick(draw, ["spatial", "spatial", "reduce", "opaque"])
        iter_vars.append(IterVar(new_var(draw), interval(draw, scope), kind))
        values.append(draw_index(draw, scope.variables, pick(draw, [0, 0, 2])))
    inner = scope.with_vars(*[it.var for it in iter_vars])
    spatial = scope.with_vars(*[it.var for it in iter_vars if it.kind != "reduce"])
    reads = tuple([region(draw, inner) for _ in range(draw(st.integers(0, 2)))])
    writes = tuple([region(draw, spatial) for _ in range(draw(st.integers(0, 2)))])
    allocated = [new_buffer(draw, [])] if chance(draw, 4) else []
    matched = []
    if chance(draw, 5):
        source = region(draw, inner)
        shape = tuple([IntImm(4)] * len(source.region))
        matched.append(MatchBuffer(Buffer("M", shape, source.buffer.dtype), source))
    body_scope = inner.with_buffers(*allocated, *[m.buffer for m in matched])
    made = Block(
        name,
        tuple(iter_vars),
        reads,
        writes,
        body(draw, body_scope, depth - 1, blocks=True),
        store(draw, body_scope) if chance(draw, 3) else None,
        tuple(allocated),
        tuple(matched),
        attrs(draw),
    )
    holds = value(draw, "bool", scope) if chance(draw, 4) else IntImm(1, BOOL)
    return BlockRealize(tuple(values), holds, made)


def let(draw: Draw, scope: Scope, inner: Callable[[Scope], Stmt]) -> Stmt:
    var = new_var(draw, pick(draw, ["int64", "float32", "int32"]))
    return LetStmt(var, value(draw, var.dtype, scope), inner(scope.with_vars(var)))


def body(draw: Draw, scope: Scope, depth: int, *, blocks: bool) -> Stmt:
    """One statement or several."""
    return seq(*[stmt(draw, scope, depth, blocks=blocks) for _ in range(draw(st.integers(1, 2)))])


def stmt(draw: Draw, scope: Scope, depth: int, *, blocks: bool) -> Stmt:
    def inner(s: Scope) -> Stmt:
        return body(draw, s, depth - 1, blocks=blocks)

    simple = ["store", "store", "evaluate"] if blocks else ["store", "vector", "evaluate"]
    nested = ["store", "loop", "loop", "if", "let", "block" if blocks else "allocate"]
    match pick(draw, simple if depth <= 0 else nested):
        case "evaluate":
            return Evaluate(value(draw, "int64", scope))
        case "vector":
            return vector_store(draw, scope)
        case "loop":
            return loop(draw, scope, inner)
        case "if":
            condition, other = value(draw, "bool", scope), chance(draw, 2)
            return IfThenElse(condition, inner(scope), inner(scope) if other else None)
        case "let":
            return let(draw, scope, inner)
        case "block":
            return block(draw, scope, depth)
        case "allocate":
            b = new_buffer(draw, [], least=1)
            return Allocate(b, inner(scope.with_buffers(b)), attrs(draw))
        case _:
            return store(draw, scope)


def _params(draw: Draw) -> tuple[tuple[Buffer | Var, ...], Scope]:
    symbolic = [Var(n, INDEX) for n in pick(draw, [[], ["n"], ["n", "m"]])]
    scalars = [Var("n", DType(d)) for d in pick(draw, [[], ["float32"], ["int32"]])]
    buffers = [new_buffer(draw, symbolic) for _ in range(draw(st.integers(1, 3)))]
    # Only dims that a parameter's shape names exist.
    bound = {id(v) for v in PrimFunc(tuple(buffers), Evaluate(IntImm(0))).shape_vars}
    variables = [*[v for v in symbolic if id(v) in bound], *scalars]
    return (*buffers, *scalars), Scope(variables, buffers)


@st.composite
def scheduled_funcs(draw: Draw) -> PrimFunc:
    """Functions before lowering."""
    params, scope = _params(draw)
    symbolic = [v for v in scope.variables if v.dtype is INDEX]
    allocated = [new_buffer(draw, symbolic) for _ in range(draw(st.integers(0, 2)))]
    inner = body(draw, scope.with_buffers(*allocated), 3, blocks=True)
    root = Block("root", (), (), (), inner, None, tuple(allocated), (), attrs(draw))
    realize = BlockRealize((), IntImm(1, BOOL), root)
    return PrimFunc(params, realize, attrs(draw), pick(draw, ["main", "f_1"]))


@st.composite
def lowered_funcs(draw: Draw) -> PrimFunc:
    """Functions after lowering."""
    params, scope = _params(draw)
    return PrimFunc(params, body(draw, scope, 3, blocks=False), attrs(draw), "lowered")
