"""Where things stand: paths into a program, and a program with one statement replaced.

A *path* is the tuple of statements from a function's body down to one statement. Primitives find
theirs by one walk over the statements (never the expressions), and ``rebuild`` makes a new body by
replacing the path's last statement, sharing all that is beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from ...support.errors import (
    BlockNotFoundError,
    InternalError,
    LoopNotFoundError,
    ScheduleValueError,
    nearest,
)
from ...support.node import replace
from ..buffer import Buffer
from ..expr import Expr, IntImm, Var
from ..function import PrimFunc
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

Path: TypeAlias = "tuple[Stmt, ...]"
_BOUND: WeakKeyDictionary[Stmt, frozenset[object]] = WeakKeyDictionary()


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
