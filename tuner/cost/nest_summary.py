"""What a scheduled function does in its loops, as a structure and an array of integers.

``summarize`` reads a function's stores: the loops around each, the operations it does, the buffers
it touches and how each index moves with each loop. All of that is split into a ``Structure``
(hashable: loop kinds, operation counts, which buffer) and *leaves*: the integers in it that tiling
decides (extents, shapes, steps). Two candidates of one sketch differ in leaves alone, which is what
lets ``sketch`` give the leaves of thousands of candidates as arrays. Nothing here is compiled, and
nothing is exact where an index is not affine: a summary feeds a cost model, not a proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...support.node import children
from ...tensorir.arith import Analyzer
from ...tensorir.arith.movement import Movement, movement
from ...tensorir.buffer import Buffer
from ...tensorir.expr import (
    Add,
    BufferLoad,
    Call,
    Cast,
    CompareOp,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Select,
    Sub,
    Var,
)
from ...tensorir.function import PrimFunc
from ...tensorir.intrinsics import is_costly
from ...tensorir.lowering.tile_nests import is_marked
from ...tensorir.stmt import (
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
)
from ...tensorir.visitor import substitute

Ints = npt.NDArray[np.int64]

OPERATIONS = (
    "float_fma", "float_add", "float_mul", "float_div", "float_minmax", "float_compare",
    "float_cheap_call", "float_dear_call", "int_add", "int_mul", "int_divmod", "int_minmax",
    "int_compare", "int_call", "select", "cast",
)  # fmt: skip
"""Kinds of operations that are counted."""
ACCESSES = 5
"""Buffers of a store that are looked at: the one it writes and the first others."""
_UNROLL = "pragma_auto_unroll_max_step"


@dataclass(frozen=True)
class AccessStructure:
    """One buffer of a store: how it is used, where it lives, and how many axes it has."""

    reads: int
    writes: int
    is_register: bool
    is_local: bool
    """Whether the function allocates it."""
    item_bytes: int
    rank: int


@dataclass(frozen=True)
class StoreStructure:
    """One store: the kinds of the loops around it, outermost first, and what an iteration does."""

    loops: tuple[str, ...]
    operations: tuple[int, ...]
    accesses: tuple[AccessStructure, ...]

    @property
    def leaf_count(self) -> int:
        depth = len(self.loops)
        return 1 + depth + sum(a.rank * (1 + 2 * depth) for a in self.accesses)


Structure = tuple[StoreStructure, ...]


@dataclass(frozen=True)
class StoreLeaves:
    """The leaves of one store for a population: the first axis of each array is the candidate.

    ``extents`` is [n, loop]. Of the access number a, ``shapes[a]`` is [n, axis], and its index on
    an axis takes ``counts[a]`` values that are ``steps[a]`` apart, both [n, axis, loop], as the
    loop runs.
    """

    extents: npt.NDArray[np.float64]
    unroll: npt.NDArray[np.float64]
    shapes: list[npt.NDArray[np.float64]]
    counts: list[npt.NDArray[np.float64]]
    steps: list[npt.NDArray[np.float64]]


@dataclass(frozen=True)
class NestSummary:
    """A function's structure, its leaves (one flat array), and of each leaf the extent of the loop
    it speaks of (1: the leaf means nothing, because that loop does not move)."""

    structure: Structure
    leaves: Ints
    relevance: Ints


def split_leaves(structure: Structure, leaves: npt.NDArray[np.float64]) -> list[StoreLeaves]:
    """The leaves of a population, [n, leaf], store by store."""
    n, at = leaves.shape[0], 0

    def take(*shape: int) -> npt.NDArray[np.float64]:
        nonlocal at
        size = int(np.prod(shape))
        part = leaves[:, at : at + size].reshape(n, *shape)
        at += size
        return part

    found = []
    for store in structure:
        depth = len(store.loops)
        unroll = take(1)[:, 0]
        extents = take(depth)
        parts = [(take(a.rank), take(a.rank, depth), take(a.rank, depth)) for a in store.accesses]
        shapes, counts, steps = [[p[i] for p in parts] for i in range(3)]
        found.append(StoreLeaves(extents, unroll, shapes, counts, steps))
    return found


def summarize(func: PrimFunc, sizes: Mapping[Var, int] | None = None) -> NestSummary:
    """The summary of a function; ``sizes`` says what symbolic sizes are taken to be (1 without)."""
    reader = _Reader(func, sizes or {})
    reader.read(func.body, (), {}, 0)
    leaves = np.array([v for s in reader.leaves for v, _ in s], dtype=np.int64)
    relevance = np.array([r for s in reader.leaves for _, r in s], dtype=np.int64)
    return NestSummary(tuple(reader.stores), leaves, relevance)


def summarize_at(func: PrimFunc, sizes: Sequence[int]) -> NestSummary:
    """``summarize`` where the function's symbolic sizes, in their order, have these values."""
    return summarize(func, dict(zip(func.shape_vars, sizes, strict=True)) if sizes else None)


@dataclass(frozen=True)
class _Loop:
    var: Var
    kind: str
    extent: int


class _Reader:
    """Walks the statements; ``env`` is what each variable of a block or let is, in loops."""

    def __init__(self, func: PrimFunc, sizes: Mapping[Var, int]) -> None:
        self.sizes = {var: IntImm(n) for var, n in sizes.items()}
        self.params = {id(b) for b in func.buffers}
        self.stores: list[StoreStructure] = []
        self.leaves: list[list[tuple[int, int]]] = []
        self.in_tiles = False
        """Whether a loop around is a nest for tile registers."""

    def read(
        self, s: Stmt, loops: tuple[_Loop, ...], env: Mapping[Var, Movement], unroll: int
    ) -> None:
        match s:
            case For():
                self._read_loop(s, loops, env, unroll)
            case BlockRealize():
                self._read_block(s, loops, env, unroll)
            case SeqStmt():
                for part in s.stmts:
                    self.read(part, loops, env, unroll)
            case IfThenElse():
                for case in (s.then_case, s.else_case or SeqStmt(())):
                    self.read(case, loops, env, unroll)
            case LetStmt():
                self.read(s.body, loops, {**env, s.var: movement(s.value, env)}, unroll)
            case BufferStore():
                used = [(s.buffer, s.indices, True)]
                used += [(e.buffer, e.indices, False) for e in _loads(s.value)]
                self._add(s.value, used, loops, env, unroll)
            case Evaluate(value=Call() as call):
                used = [(e.buffer, e.indices, True) for e in _loads(call)]
                self._add(call, used, loops, env, unroll)
            case _:
                pass

    def _read_loop(
        self, s: For, loops: tuple[_Loop, ...], env: Mapping[Var, Movement], unroll: int
    ) -> None:
        extent, kind = self._size(s.extent), s.kind
        env = {**env, s.var: {len(loops): (extent, 1)}}
        unroll = _unroll_steps(s.annotations, unroll)
        before, is_outermost = self.in_tiles, is_marked(s)
        if is_outermost or before:
            # A row of tile registers sums all terms of a step for all columns in a cycle.
            kind = "vectorized" if is_outermost else "unrolled"
            extent = 1 if before and self._is_sum(s) else extent
        self.in_tiles = is_outermost or before
        self.read(s.body, (*loops, _Loop(s.var, kind, extent)), env, unroll)
        self.in_tiles = before

    def _is_sum(self, s: For) -> bool:
        """Whether a loop of a nest for tile registers is one over terms: the last two are, behind
        columns and rows, where there are any."""
        body: Stmt = s.body
        inside = 0
        while isinstance(body, For):
            inside, body = inside + 1, body.body
        sums = isinstance(body, BlockRealize) and any(
            v.kind == "reduce" for v in body.block.iter_vars
        )
        return sums and inside < 2

    def _size(self, e: Expr) -> int:
        if self.sizes and not isinstance(e, IntImm):
            e = Analyzer().simplify(substitute(e, self.sizes))
        # A loop that does not run at these sizes counts as one turn: features are logarithms.
        return max(1, e.value) if isinstance(e, IntImm) else 1

    def _read_block(
        self, s: BlockRealize, loops: tuple[_Loop, ...], env: Mapping[Var, Movement], unroll: int
    ) -> None:
        block = s.block
        bound = zip(block.iter_vars, s.iter_values, strict=True)
        env = {**env, **{v.var: movement(e, env) for v, e in bound}}
        unroll = _unroll_steps(block.annotations, unroll)
        if block.init is not None:
            reduced = [v.var for v in block.iter_vars if v.kind == "reduce"]
            self._read_init(block.init, reduced, loops, env, unroll)
        self.read(block.body, loops, env, unroll)

    def _read_init(
        self,
        init: Stmt,
        reduced: list[Var],
        loops: tuple[_Loop, ...],
        env: Mapping[Var, Movement],
        unroll: int,
    ) -> None:
        """An init runs outside of the loops that its block's reduce axes go over."""
        inside = {i for v in reduced for i in env[v]}
        kept = [i for i in range(len(loops)) if i not in inside]
        moved = {old: new for new, old in enumerate(kept)}
        outside = {
            v: {moved[i]: t for i, t in terms.items() if i in moved} for v, terms in env.items()
        }
        self.read(init, tuple([loops[i] for i in kept]), outside, unroll)

    def _add(
        self,
        value: Expr,
        used: list[tuple[Buffer, tuple[Expr, ...], bool]],
        loops: tuple[_Loop, ...],
        env: Mapping[Var, Movement],
        unroll: int,
    ) -> None:
        depth = len(loops)
        leaves: list[tuple[int, int]] = [(unroll, 2)]
        leaves += [(loop.extent, 2) for loop in loops]
        grouped: dict[int, list[tuple[Buffer, tuple[Expr, ...], bool]]] = {}
        for access in used:
            grouped.setdefault(id(access[0]), []).append(access)
        accesses = []
        for same in list(grouped.values())[:ACCESSES]:
            buffer, indices, _ = same[0]
            writes = sum(is_write for _, _, is_write in same)
            accesses.append(
                AccessStructure(
                    len(same) - writes,
                    writes,
                    buffer.memory == "register" or (self.in_tiles and writes > 0),
                    id(buffer) not in self.params,
                    max(1, buffer.dtype.bits // 8),
                    len(buffer.shape),
                )
            )
            moves = [movement(e, env) for e in indices]
            leaves += [(self._size(e), 2) for e in buffer.shape]
            for part in range(2):
                leaves += [
                    (terms[i][part] if i in terms else 1 - part, loops[i].extent)
                    for terms in moves
                    for i in range(depth)
                ]
        kinds = tuple([loop.kind for loop in loops])
        self.stores.append(StoreStructure(kinds, _operations(value), tuple(accesses)))
        self.leaves.append(leaves)


def _unroll_steps(annotations: tuple[tuple[str, object], ...], outer: int) -> int:
    found = dict(annotations).get(_UNROLL)
    return found if isinstance(found, int) else outer


def _loads(e: Expr) -> Iterator[BufferLoad]:
    if isinstance(e, BufferLoad):
        yield e
    for child in children(e):
        if isinstance(child, Expr):
            yield from _loads(child)


def _operations(value: Expr) -> tuple[int, ...]:
    """How often each of OPERATIONS is done by one evaluation, indices left out."""
    counts = dict.fromkeys(OPERATIONS, 0)

    def count(e: Expr) -> None:
        kind = _operation(e)
        if kind is not None:
            counts[kind] += 1
        if isinstance(e, BufferLoad):
            return
        for child in children(e):
            if isinstance(child, Expr):
                count(child)

    count(value)
    return tuple(counts.values())


_KINDS: dict[type[Expr], tuple[str, str]] = {
    Add: ("float_add", "int_add"),
    Sub: ("float_add", "int_add"),
    Mul: ("float_mul", "int_mul"),
    Div: ("float_div", "int_divmod"),
    FloorDiv: ("float_div", "int_divmod"),
    FloorMod: ("float_div", "int_divmod"),
    Min: ("float_minmax", "int_minmax"),
    Max: ("float_minmax", "int_minmax"),
    Select: ("select", "select"),
    Cast: ("cast", "cast"),
}
"""Kinds of nodes to their operations on floats and on all else."""


def _operation(e: Expr) -> str | None:
    if isinstance(e, CompareOp):
        return "float_compare" if e.a.dtype.is_float else "int_compare"
    if isinstance(e, Call):
        if not e.dtype.is_float:
            return "int_call"
        if e.op == "fma":
            return "float_fma"
        return "float_dear_call" if is_costly(e) else "float_cheap_call"
    found = _KINDS.get(type(e))
    return None if found is None else found[not e.dtype.is_float]
