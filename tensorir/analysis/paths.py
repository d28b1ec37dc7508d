"""What the primitives ask of a program: where things stand, and what may be assumed of a block.

A *path* is the tuple of statements from a function's body down to one statement. Primitives find
theirs by one walk over the statements (never the expressions), and ``rebuild`` makes a new body by
replacing the path's last statement, sharing all that is beside it. Predicates here never raise; the
``require_*`` functions raise the ScheduleError of one precondition, with the program printed and
the guilty node marked.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from ...support.errors import (
    BlockNotFoundError,
    InternalError,
    LoopNotFoundError,
    NotAncestorError,
    NotCompleteBlockError,
    NotReductionBlockError,
    ScheduleError,
    ScheduleValueError,
    nearest,
)
from ...support.node import Node, replace, walk
from ..arith import expr_key
from ..buffer import Buffer, BufferRegion
from ..expr import EQ, GE, GT, INDEX, LE, LT, NE, And, Expr, IntImm, Var, all_of, const, is_const
from ..function import PrimFunc
from ..printer import print_marked
from ..reduction_form import combines_in_place
from ..stmt import (
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
    seq,
)
from ..visitor import substitute
from .affine import Bounds

Path: TypeAlias = "tuple[Stmt, ...]"
TRUE = const(True, "bool")


# -- statements and paths --------------------------------------------------------------------------
def child_stmts(s: Stmt) -> tuple[Stmt, ...]:
    """The statements directly below a statement (a block's init excluded)."""
    if isinstance(s, (For, Block)):
        return (s.body,)
    if isinstance(s, BlockRealize):
        return (s.block,)
    if isinstance(s, SeqStmt):
        return s.stmts
    if isinstance(s, IfThenElse):
        return (s.then_case,) if s.else_case is None else (s.then_case, s.else_case)
    return (s.body,) if isinstance(s, (LetStmt, Allocate)) else ()


def walk_paths(s: Stmt, above: Path = ()) -> Iterator[Path]:
    """The path of every statement below ``s``, in program order, parents first."""
    stack = [(s, above)]
    while stack:
        s, above = stack.pop()
        path = (*above, s)
        yield path
        below = child_stmts(s)
        if len(below) == 1:
            stack.append((below[0], path))
        else:
            stack += [(child, path) for child in reversed(below)]


def _find(s: Stmt, wanted: object, path: list[Stmt]) -> bool:
    """Extend ``path`` down to the loop over the Var ``wanted``, the block realize of the name
    ``wanted``, or the statement ``wanted`` itself."""
    length = len(path)
    while True:
        path.append(s)
        if s is wanted:
            return True
        kind: Any = type(s)
        node: Any = s
        if kind is For:
            if node.var is wanted:
                return True
            s = node.body
        elif kind is BlockRealize:
            if node.block.name == wanted:
                return True
            s = node.block
        elif kind is Block:
            s = node.body
        else:
            named = isinstance(wanted, (str, Var))
            for child in child_stmts(s):
                if (not named or wanted in _bound_below(child)) and _find(child, wanted, path):
                    return True
            del path[length:]
            return False


_BOUND: WeakKeyDictionary[Stmt, frozenset[object]] = WeakKeyDictionary()


def _bound_below(s: Stmt) -> frozenset[object]:
    """The names of the blocks in a statement, and the variables of its loops. It is asked of the
    parts of sequences, most of which a primitive leaves as they are."""
    known = _BOUND.get(s)
    if known is None:
        found: set[object] = set()
        at = s
        while True:
            if isinstance(at, For):
                found.add(at.var)
            elif isinstance(at, BlockRealize):
                found.add(at.block.name)
            below = child_stmts(at)
            if len(below) != 1:
                break
            at = below[0]
        known = _BOUND[s] = frozenset(found.union(*[_bound_below(child) for child in below]))
    return known


def find_loop(func: PrimFunc, var: Var, primitive: str) -> Path:
    """The path that ends in the loop over ``var``; raises LoopNotFoundError."""
    path: list[Stmt] = []
    if _find(func.body, var, path):
        return tuple(path)
    loops = [path[-1] for path in walk_paths(func.body) if isinstance(path[-1], For)]
    known = ", ".join([repr(loop.var.name) for loop in loops]) or "none"
    raise LoopNotFoundError(
        primitive,
        f"The loop over {var.name!r} is no longer in {func.name!r}, which has the loops {known}: "
        "it was split, fused or removed, or it is of another schedule. Ask get_loops for the "
        "block's present loops.",
    )


def find_block(func: PrimFunc, name: str, primitive: str) -> Path:
    """The path that ends in the BlockRealize of the block ``name``; raises BlockNotFoundError."""
    path: list[Stmt] = []
    if _find(func.body, name, path):
        return tuple(path)
    known = block_names(func, in_inits=False)
    raise BlockNotFoundError(
        primitive,
        f"There is no block {name!r} in {func.name!r}; it has "
        f"{', '.join(map(repr, known)) or 'none'}.{nearest(name, known)}",
    )


def find_inner_block(func: PrimFunc, name: str, primitive: str) -> Path:
    """The path of a block in another block; raises BlockNotFoundError, and ScheduleValueError for
    the root."""
    path = find_block(func, name, primitive)
    if len(path) == 1:
        raise ScheduleValueError(
            primitive,
            f"The block {name!r} is the root of {func.name!r}: it stands in no other block and has "
            "no neighbours. Name one of the blocks in it.",
        )
    return path


def find_stmt(func: PrimFunc, stmt: Stmt) -> Path:
    """The path that ends in a statement of the function."""
    path: list[Stmt] = []
    if not _find(func.body, stmt, path):
        raise InternalError(f"A statement is not in {func.name!r}.")
    return tuple(path)


def path_below(top: Stmt, stmt: Stmt) -> Path:
    """The path from one statement down to another."""
    path: list[Stmt] = []
    if not _find(top, stmt, path):
        raise InternalError("A statement is not below another.")
    return tuple(path)


def realize_of(path: Path) -> BlockRealize:
    """The block realize a block's path ends in."""
    leaf = path[-1]
    assert isinstance(leaf, BlockRealize)
    return leaf


def loop_of(path: Path) -> For:
    """The loop a loop's path ends in."""
    leaf = path[-1]
    assert isinstance(leaf, For)
    return leaf


def rebuild(path: Path, new: Stmt | None) -> Stmt:
    """The function body with the path's last statement replaced; None removes it.

    Loops and branches left empty go too. Everything beside the path is shared.
    """
    for parent, child in zip(reversed(path[:-1]), reversed(path), strict=False):
        if new is child:
            return path[0]
        new = replace_child(parent, child, new)
    return new if new is not None else Evaluate(IntImm(0))


def replace_child(parent: Stmt, child: Stmt, new: Stmt | None) -> Stmt | None:
    """``parent`` with one child statement replaced; None for a statement that is left empty."""
    match parent:
        case SeqStmt():
            kept = [new if s is child else s for s in parent.stmts]
            rest = [s for s in kept if s is not None]
            return seq(*rest) if rest else None
        case BlockRealize():
            return replace(parent, block=new)
        case Block():
            return replace(parent, body=new if new is not None else Evaluate(IntImm(0)))
        case For() | LetStmt() | Allocate():
            return None if new is None else replace(parent, body=new)
        case IfThenElse():
            if parent.then_case is child:
                if new is not None:
                    return replace(parent, then_case=new)
                return (
                    None
                    if parent.else_case is None
                    else replace(parent, then_case=Evaluate(IntImm(0)))
                )
            return replace(parent, else_case=new)
        case _:
            raise InternalError(f"{type(parent).__name__} has no child statement.")


def with_body(func: PrimFunc, body: Stmt) -> PrimFunc:
    """The function with another body."""
    return replace(func, body=body)


def loops_above(path: Path) -> list[For]:
    """The loops between the path's leaf and the block around it, outermost first; the leaf
    excluded."""
    loops: list[For] = []
    for s in reversed(path[:-1]):
        if isinstance(s, Block):
            break
        if isinstance(s, For):
            loops.append(s)
    loops.reverse()
    return loops


def all_loops_above(path: Path) -> list[For]:
    """Every loop above the path's leaf, through enclosing blocks."""
    return [s for s in path[:-1] if isinstance(s, For)]


def conditions_above(path: Path) -> list[Expr]:
    """The conditions of the branches on a path."""
    return [s.condition for s in path[:-1] if isinstance(s, IfThenElse)]


def scope_path(path: Path) -> Path:
    """The path to the Block around the leaf."""
    for i in range(len(path) - 2, -1, -1):
        if isinstance(path[i], Block):
            return path[: i + 1]
    raise InternalError("A statement stands outside of every block.")


def scope_of(path: Path) -> Block:
    """The Block around the leaf."""
    scope = scope_path(path)[-1]
    assert isinstance(scope, Block)
    return scope


def block_names(func: PrimFunc, *, in_inits: bool = True) -> list[str]:
    """The names of all blocks, in program order; with ``in_inits`` also those that inits hold,
    which become reachable when the init is decomposed."""
    found: list[str] = []
    pending: list[Stmt] = [func.body]
    while pending:
        for p in walk_paths(pending.pop()):
            leaf = p[-1]
            if not isinstance(leaf, BlockRealize):
                continue
            found.append(leaf.block.name)
            init = leaf.block.init
            if in_inits and init is not None and not isinstance(init, BufferStore):
                pending.append(init)
    return found


def fresh_name(taken: Sequence[str] | set[str], hint: str) -> str:
    """``hint``, or ``hint_1``, ``hint_2``, ... where it is taken."""
    known = set(taken)
    name, number = hint, 0
    while name in known:
        number += 1
        name = f"{hint}_{number}"
    return name


def all_buffers(func: PrimFunc) -> list[Buffer]:
    """Parameters and allocated buffers."""
    result = list(func.buffers)
    for path in walk_paths(func.body):
        if isinstance(path[-1], Block):
            result.extend(path[-1].alloc_buffers)
    return result


# -- blocks below a statement ----------------------------------------------------------------------
@dataclass(slots=True)
class Nested:
    """A block realize below some statement, and the loops and conditions between the two."""

    realize: BlockRealize
    loops: list[For]
    conditions: list[Expr]

    @property
    def block(self) -> Block:
        return self.realize.block


def blocks_below(s: Stmt) -> list[Nested]:
    """The outermost blocks in ``s``, in program order, with the loops of ``s`` around them."""
    found: list[Nested] = []
    _collect(s, [], [], found)
    return found


def _collect(s: Stmt, loops: list[For], conditions: list[Expr], found: list[Nested]) -> None:
    match s:
        case BlockRealize():
            found.append(Nested(s, list(loops), list(conditions)))
        case For():
            loops.append(s)
            _collect(s.body, loops, conditions, found)
            loops.pop()
        case IfThenElse():
            conditions.append(s.condition)
            for child in child_stmts(s):
                _collect(child, loops, conditions, found)
            conditions.pop()
        case _:
            for child in child_stmts(s):
                _collect(child, loops, conditions, found)


def map_outer_realizes(
    s: Stmt, change: Mapping[Var, Expr], bounds: Bounds, guard: Expr | None
) -> Stmt:
    """``s`` with loop variables replaced in the bindings of its outermost blocks, and ``guard``
    added to their predicates. Statements that stand in no block are substituted and guarded
    as they are."""
    match s:
        case BlockRealize():
            values = tuple([_rebind(v, change, bounds) for v in s.iter_values])
            predicate = _rebind_condition(s.predicate, change, bounds)
            if guard is not None:
                predicate = conjunction([predicate, guard])
            block = s.block
            if not block.iter_vars and any(isinstance(n, Var) and n in change for n in walk(block)):
                block = substitute(block, change)
            return replace(s, iter_values=values, predicate=predicate, block=block)
        case For():
            body = map_outer_realizes(s.body, change, bounds, guard)
            low = _rebind(s.min, change, bounds)
            extent = _rebind(s.extent, change, bounds)
            return replace(s, min=low, extent=extent, body=body)
        case SeqStmt():
            return SeqStmt(tuple([map_outer_realizes(c, change, bounds, guard) for c in s.stmts]))
        case IfThenElse():
            other = s.else_case
            return replace(
                s,
                condition=_rebind_condition(s.condition, change, bounds),
                then_case=map_outer_realizes(s.then_case, change, bounds, guard),
                else_case=None
                if other is None
                else map_outer_realizes(other, change, bounds, guard),
            )
        case _:
            changed = substitute(s, change)
            return changed if guard is None else IfThenElse(guard, changed)


def _rebind(e: Expr, change: Mapping[Var, Expr], bounds: Bounds) -> Expr:
    if isinstance(e, Var):
        return change.get(e, e)
    new = substitute(e, change)
    return e if new is e else bounds.simplify(new)


def _rebind_condition(e: Expr, change: Mapping[Var, Expr], bounds: Bounds) -> Expr:
    if is_const(e):
        return e
    new = substitute(e, change)
    if new is e:
        return e
    parts = [simplify_condition(c, bounds) for c in conjuncts(new)]
    return conjunction([p for p in parts if not bounds.proves(p)])


# -- conditions ------------------------------------------------------------------------------------
def conjuncts(e: Expr) -> list[Expr]:
    """The conditions that a conjunction joins; none for true."""
    if isinstance(e, And):
        return [*conjuncts(e.a), *conjuncts(e.b)]
    return [] if is_const(e, 1) else [e]


def conjunction(parts: Sequence[Expr]) -> Expr:
    """All of the conditions, each once."""
    seen: dict[Hashable, Expr] = {}
    for p in parts:
        for c in conjuncts(p):
            seen.setdefault(expr_key(c), c)
    return all_of(list(seen.values()))


def simplify_condition(c: Expr, bounds: Bounds) -> Expr:
    """A comparison with both sides in canonical form."""
    if isinstance(c, (LT, LE, GT, GE, EQ, NE)) and c.a.dtype is INDEX:
        return type(c)(bounds.simplify(c.a), bounds.simplify(c.b))
    return c


# -- what a block is -------------------------------------------------------------------------------
def accesses(block: Block) -> tuple[list[Buffer], list[Buffer]]:
    """The buffers of a block's read and write regions, each once."""
    reads = {id(r.buffer): r.buffer for r in block.reads}
    writes = {id(r.buffer): r.buffer for r in block.writes}
    return list(reads.values()), list(writes.values())


def reads_buffer(block: Block, buffer: Buffer) -> bool:
    return any(r.buffer is buffer for r in block.reads)


def writes_buffer(block: Block, buffer: Buffer) -> bool:
    return any(r.buffer is buffer for r in block.writes)


def reads_other_instances(block: Block) -> bool:
    """Whether an instance of the block may read what another writes: it reads its own output at
    other indices than those it writes, or begins other elements than it updates."""
    return not combines_in_place(block) or any(
        r.buffer is w.buffer and _region_key(r) != _region_key(w)
        for r in block.reads
        for w in block.writes
    )


def _region_key(region: BufferRegion) -> tuple[Hashable, ...]:
    return tuple([expr_key(e) for r in region.region for e in (r.min, r.extent)])


def is_complete(block: Block) -> bool:
    """Whether all axes are spatial and the block reads nothing that it writes."""
    if any(it.kind != "spatial" for it in block.iter_vars) or block.init is not None:
        return False
    return not any(writes_buffer(block, r.buffer) for r in block.reads)


def is_reduction(block: Block) -> bool:
    """Whether the block has an init and axes that are spatial or reduce, and updates the elements
    that its init begins."""
    axes = all(it.kind in ("spatial", "reduce") for it in block.iter_vars)
    return block.init is not None and axes and combines_in_place(block)


def is_update(block: Block) -> bool:
    """Whether the block is the update of a decomposed reduction: reduce axes, reading its own
    output."""
    kinds = {it.kind for it in block.iter_vars}
    if block.init is not None or not kinds <= {"spatial", "reduce"} or "reduce" not in kinds:
        return False
    return any(writes_buffer(block, r.buffer) for r in block.reads)


def as_update(block: Block) -> Block:
    """A reduction block without its init: it reads what it writes, and says so."""
    reads = list(block.reads)
    for w in reversed(block.writes):
        if all(r.buffer is not w.buffer for r in reads):
            reads.insert(0, w)
    return replace(block, init=None, reads=tuple(reads))


def axis_bindings(realize: BlockRealize, kinds: Sequence[str]) -> list[Expr]:
    """The bindings of the axes of these kinds."""
    pairs = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    return [value for it, value in pairs if it.kind in kinds]


def binds(values: Sequence[Expr], var: Var) -> bool:
    """Whether a variable appears in one of the expressions."""
    return any(n is var for v in values for n in walk(v))


def single_store(block: Block) -> BufferStore | None:
    """The block's body, where it is exactly one store without a predicate of its own."""
    body = block.body
    return body if isinstance(body, BufferStore) and body.predicate is None else None


def binding_map(realize: BlockRealize) -> dict[Var, Expr]:
    """Iter vars to their bindings."""
    pairs = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    return {it.var: value for it, value in pairs}


def domain_bounds(block: Block) -> Bounds:
    """The ranges of a block's iter vars."""
    return Bounds({it.var: it.dom for it in block.iter_vars})


# -- producers and consumers in a scope ------------------------------------------------------------
def scope_blocks(scope: Block) -> list[Nested]:
    """The blocks directly in a block."""
    return blocks_below(scope.body)


def producers_of(scope: Block, block: Block) -> list[Nested]:
    """The other blocks of the scope that write something this block reads."""
    reads = {id(r.buffer) for r in block.reads}
    return [
        n
        for n in scope_blocks(scope)
        if n.block is not block and any(id(r.buffer) in reads for r in n.block.writes)
    ]


def consumers_of(scope: Block, block: Block) -> list[Nested]:
    """The other blocks of the scope that read something this block writes."""
    writes = {id(r.buffer) for r in block.writes}
    return [
        n
        for n in scope_blocks(scope)
        if n.block is not block and any(id(r.buffer) in writes for r in n.block.reads)
    ]


def writers_of(scope: Block, buffer: Buffer) -> list[Nested]:
    return [n for n in scope_blocks(scope) if writes_buffer(n.block, buffer)]


def readers_of(scope: Block, buffer: Buffer) -> list[Nested]:
    return [n for n in scope_blocks(scope) if reads_buffer(n.block, buffer)]


def is_output_block(func: PrimFunc, scope: Block, block: Block) -> bool:
    """Whether the block writes a buffer that lives longer than the scope."""
    allocated = {id(b) for b in scope.alloc_buffers}
    return any(id(r.buffer) not in allocated for r in block.writes)


# -- regions ---------------------------------------------------------------------------------------
def region_of(regions: Sequence[BufferRegion], buffer: Buffer) -> list[BufferRegion]:
    """The regions of one buffer."""
    return [r for r in regions if r.buffer is buffer]


def point_indices(region: BufferRegion) -> tuple[Expr, ...] | None:
    """The indices of a region of one element, or None."""
    if all(is_const(r.extent, 1) for r in region.region):
        return tuple([r.min for r in region.region])
    return None


# -- errors ----------------------------------------------------------------------------------------
def fail(
    kind: type[ScheduleError], primitive: str, func: PrimFunc, guilty: Sequence[Node], found: str
) -> ScheduleError:
    """The error of a precondition, with the program printed and the guilty nodes marked."""
    return kind(primitive, found, print_marked(func, guilty))


def require_own_axes(func: PrimFunc, block: Block, primitive: str) -> None:
    """Raises NotCompleteBlockError where a block names a loop around it other than in a binding: it
    could not do without that loop."""
    path = find_block(func, block.name, primitive)
    loops = {loop.var for loop in loops_above(path)}
    named = next((n for n in walk(block) if isinstance(n, Var) and n in loops), None)
    if named is not None:
        found = (
            f"The block {block.name!r} names the loop {named.name!r} itself, so that it cannot "
            f"stand outside of it. Bind an axis to it: T.axis.spatial(extent, {named.name})."
        )
        raise fail(NotCompleteBlockError, primitive, func, [block], found)


def require_complete(func: PrimFunc, block: Block, primitive: str) -> None:
    """Raises NotCompleteBlockError unless all axes are spatial, the output is not also read, and
    nothing but the axes says where the block stands."""
    if is_complete(block):
        require_own_axes(func, block, primitive)
        return
    why = "it reads the buffer it writes"
    for it in block.iter_vars:
        if it.kind != "spatial":
            why = f"its axis {it.var.name!r} is {it.kind}"
            break
    else:
        if block.init is not None:
            why = "it is a reduction with an init"
    raise fail(
        NotCompleteBlockError,
        primitive,
        func,
        [block],
        f"Expected a complete block (all axes spatial, output not read); {block.name!r} "
        f"is not: {why}.",
    )


def require_reduction(func: PrimFunc, block: Block, primitive: str) -> None:
    """Raises NotReductionBlockError unless the block has an init and spatial and reduce axes."""
    if is_reduction(block):
        require_own_axes(func, block, primitive)
        return
    why = (
        "it has no init"
        if block.init is None
        else "its update touches other elements than its init begins, or elements that depend on "
        "a reduce axis"
        if not combines_in_place(block)
        else "it has axes that are neither spatial nor reduce"
    )
    raise fail(
        NotReductionBlockError,
        primitive,
        func,
        [block],
        f"Expected a reduction block with an init; {block.name!r} is not: {why}.",
    )


def require_ancestor(func: PrimFunc, block_path: Path, var: Var, primitive: str) -> None:
    """Raises NotAncestorError unless the loop over ``var`` stands around the block."""
    if any(loop.var is var for loop in loops_above(block_path)):
        return
    block = realize_of(block_path).block
    names = ", ".join(repr(loop.var.name) for loop in loops_above(block_path)) or "none"
    raise fail(
        NotAncestorError,
        primitive,
        func,
        [block],
        f"The loop {var.name!r} does not stand around the block {block.name!r}; its loops "
        f"are {names}.",
    )
