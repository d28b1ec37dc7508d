"""parallel, vectorize, unroll, bind, annotate, unannotate, set_scope: how loops and buffers are
run.

A loop may run its iterations at once only if no iteration needs another: every block below binds
the loop to spatial axes alone, and what is handed from block to block stays within the iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....support.errors import (
    DependenceError,
    LoopKindError,
    ScheduleValueError,
)
from ....support.node import replace, walk
from ...analysis.affine import is_independent, loop_bounds
from ...analysis.certain_writes import covered_within
from ...analysis.hidden_accesses import require_declared
from ...analysis.paths import (
    Nested,
    Path,
    all_buffers,
    all_loops_above,
    axis_bindings,
    binds,
    blocks_below,
    fail,
    find_block,
    find_loop,
    loop_of,
    reads_other_instances,
    realize_of,
    rebuild,
    scope_blocks,
    scope_path,
    walk_paths,
    with_body,
)
from ...analysis.region_cover import instances_clash
from ...buffer import SCOPES, Buffer
from ...expr import Var, is_const
from ...function import PrimFunc
from ...rolling import ROLLING
from ...stmt import LIFTED, Block, For, annotation
from ...visitor import replace_buffers

THREAD_AXES = (
    "blockIdx.x",
    "blockIdx.y",
    "blockIdx.z",
    "threadIdx.x",
    "threadIdx.y",
    "threadIdx.z",
    "vthread",
)


def set_kind(
    func: PrimFunc, var: Var, kind: str, *, thread: str = "", checks: bool = True
) -> PrimFunc:
    """Make a serial loop ``parallel``, ``vectorized``, ``unrolled`` or ``thread_binding``."""
    primitive = {
        "parallel": "parallel",
        "vectorized": "vectorize",
        "unrolled": "unroll",
        "thread_binding": "bind",
    }[kind]
    path = find_loop(func, var, primitive)
    loop = loop_of(path)
    if loop.kind != "serial":
        found = f"Expected a serial loop; {var.name!r} is already {loop.kind}."
        raise fail(LoopKindError, primitive, func, [loop], found)
    if kind == "thread_binding" and thread not in THREAD_AXES:
        raise ScheduleValueError(
            primitive, f"Expected a thread axis, one of {', '.join(THREAD_AXES)}; found {thread!r}."
        )
    if kind == "vectorized":
        _require_vectorizable(func, loop)
    if kind != "unrolled" and checks:
        _require_independent(func, path, primitive, allow_reduce=thread.startswith("threadIdx"))
    return with_body(func, rebuild(path, replace(loop, kind=kind, thread=thread)))


def _require_vectorizable(func: PrimFunc, loop: For) -> None:
    for path in walk_paths(loop.body):
        n = path[-1]
        if isinstance(n, For) and n.kind in ("parallel", "vectorized"):
            found = (
                f"The loop {loop.var.name!r} holds the {n.kind} loop {n.var.name!r}; "
                "vectorize inner loops only."
            )
            raise fail(LoopKindError, "vectorize", func, [loop], found)


def _require_independent(func: PrimFunc, path: Path, primitive: str, *, allow_reduce: bool) -> None:
    loop = loop_of(path)
    require_declared(func, loop, primitive)
    nested = blocks_below(loop)
    outer = all_loops_above(path)
    scope = scope_path(path)[-1]
    assert isinstance(scope, Block)
    for n in nested:
        _require_spatial(func, loop, n, outer, primitive, allow_reduce)
    for n in nested:
        if binds(axis_bindings(n.realize, ("reduce",)), loop.var):
            continue  # only threads get here; they combine their partial results
        private = not allow_reduce or all(w.buffer.scope != "shared" for w in n.block.writes)
        private = private and _private(scope, [*outer, loop], nested, n)
        if not private and reads_other_instances(n.block):
            found = (
                f"The block {n.block.name!r} reads elements of its own output that other "
                f"iterations of {loop.var.name!r} may write."
            )
            raise fail(DependenceError, primitive, func, [n.realize], found)
        if not private and not _writes_apart(loop, n, outer):
            raise fail(
                DependenceError,
                primitive,
                func,
                [n.realize],
                f"Several iterations of {loop.var.name!r} may write the same elements "
                "through the block "
                f"{n.block.name!r}, whose result is used outside of the loop.",
            )
    if len(nested) > 1:
        trouble = covered_within(
            [Nested(n.realize, n.loops[1:], n.conditions) for n in nested], [*outer, loop]
        )
        if trouble is not None:
            raise fail(
                DependenceError,
                primitive,
                func,
                [trouble.realize],
                f"The block {trouble.block.name!r} reads what another block writes in a "
                "different iteration "
                f"of {loop.var.name!r}, or this cannot be excluded.",
            )


def _require_spatial(
    func: PrimFunc, loop: For, n: Nested, outer: Sequence[For], primitive: str, allow_reduce: bool
) -> None:
    for it, value in zip(n.block.iter_vars, n.realize.iter_values, strict=True):
        if it.kind == "spatial" or not binds([value], loop.var):
            continue
        if it.kind == "reduce" and allow_reduce:
            continue
        advice = ""
        if it.kind == "reduce":
            advice = " Use rfactor to turn it into a spatial axis first."
        raise fail(
            LoopKindError,
            primitive,
            func,
            [loop, n.realize],
            f"The loop {loop.var.name!r} is bound to the {it.kind} axis {it.var.name!r} "
            f"of {n.block.name!r}; "
            f"only loops over spatial axes may run at once.{advice}",
        )


def _writes_apart(loop: For, n: Nested, outer: Sequence[For]) -> bool:
    """Whether different iterations run different instances: the bindings are injective and use the
    loop. Distinct spatial instances write distinct elements, by the meaning of spatial; an axis
    that does not say where tells no elements apart."""
    if is_const(loop.extent, 1):
        return True
    axes = zip(n.block.iter_vars, n.realize.iter_values, strict=True)
    if instances_clash(n.block, [it.var for it, v in axes if binds([v], loop.var)]):
        return False
    written = [{v for v in walk(w) if isinstance(v, Var)} for w in n.block.writes]
    spatial = [
        v
        for it, v in zip(n.block.iter_vars, n.realize.iter_values, strict=True)
        if it.kind == "spatial" and all(it.var in used for used in written)
    ]
    # The iterations compared are of one iteration of the outer loops, whose variables may thus
    # count as constants: regions of several outer iterations may overlap (the halo of a stencil).
    return binds(spatial, loop.var) and any(
        is_independent(spatial, loop_bounds(loops)) for loops in ([*outer, *n.loops], n.loops)
    )


def _private(scope: Block, around: Sequence[For], nested: Sequence[Nested], n: Nested) -> bool:
    """Whether what the block writes is allocated in the scope, used below the innermost of the
    loops alone and not lifted around any of them, so that every iteration has its own."""
    lifted = {name for loop in around for name in annotation(loop, LIFTED, ())}
    allocated = {id(b) for b in scope.alloc_buffers}
    below = {id(m.block) for m in nested}
    for region in n.block.writes:
        if id(region.buffer) not in allocated or region.buffer.name in lifted:
            return False
        for other in scope_blocks(scope):
            uses = [*other.block.reads, *other.block.writes]
            if id(other.block) not in below and any(r.buffer is region.buffer for r in uses):
                return False
    return True


# -- annotations -----------------------------------------------------------------------------------
def annotate(func: PrimFunc, target: Var | str, key: str, value: Any) -> PrimFunc:
    """Add (or replace) an annotation of a loop or block."""
    path = _target_path(func, target, "annotate")
    node = _annotated(path)
    items = value if isinstance(value, list) else [value]
    if not isinstance(key, str) or not all(isinstance(v, (bool, int, float, str)) for v in items):
        found = (
            "Expected a string as key and a number, a string or a list of these as value; found "
            f"{key!r} and {value!r}."
        )
        raise fail(ScheduleValueError, "annotate", func, [node], found)
    _require_free(func, node, key, "annotate")
    kept = [(k, v) for k, v in node.annotations if k != key]
    return _with_annotations(func, path, tuple([*kept, (key, value)]))


def unannotate(func: PrimFunc, target: Var | str, key: str) -> PrimFunc:
    """Remove an annotation; raises ScheduleValueError if it is not there."""
    path = _target_path(func, target, "unannotate")
    node = _annotated(path)
    if all(k != key for k, _ in node.annotations):
        known = ", ".join(repr(k) for k, _ in node.annotations) or "none"
        raise fail(
            ScheduleValueError,
            "unannotate",
            func,
            [node],
            f"There is no annotation {key!r}; found {known}.",
        )
    _require_free(func, node, key, "unannotate")
    return _with_annotations(func, path, tuple([(k, v) for k, v in node.annotations if k != key]))


_BINDING = {ROLLING: "rolling_buffer", LIFTED: "lift_allocation"}
"""Annotations without which a program computes something else, and who writes them."""


def _require_free(func: PrimFunc, node: For | Block, key: str, primitive: str) -> None:
    if key in _BINDING:
        found = (
            f"The annotation {key!r} says where a buffer lives; results depend on it, and only the "
            f"primitive {_BINDING[key]} writes it."
        )
        raise fail(ScheduleValueError, primitive, func, [node], found)


def _target_path(func: PrimFunc, target: Var | str, primitive: str) -> Path:
    return (
        find_block(func, target, primitive)
        if isinstance(target, str)
        else find_loop(func, target, primitive)
    )


def _annotated(path: Path) -> For | Block:
    leaf = path[-1]
    return leaf if isinstance(leaf, For) else realize_of(path).block


def _with_annotations(
    func: PrimFunc, path: Path, annotations: tuple[tuple[str, Any], ...]
) -> PrimFunc:
    leaf = path[-1]
    if isinstance(leaf, For):
        return with_body(func, rebuild(path, replace(leaf, annotations=annotations)))
    realize = realize_of(path)
    return with_body(
        func, rebuild(path, replace(realize, block=replace(realize.block, annotations=annotations)))
    )


# -- scopes ----------------------------------------------------------------------------------------
def set_scope(func: PrimFunc, block_name: str, buffer_index: int | str, scope: str) -> PrimFunc:
    """Move an allocated buffer, the block's write of that index (or name), to another storage
    scope."""
    path = find_block(func, block_name, "set_scope")
    block = realize_of(path).block
    buffer = buffer_at(func, block, "write", buffer_index, "set_scope")
    require_scope(scope, "set_scope")
    if buffer in func.params:
        found = f"The buffer {buffer.name!r} is a parameter; its storage is the caller's."
        raise fail(ScheduleValueError, "set_scope", func, [block], found)
    if all(buffer is not b for b in all_buffers(func)):
        found = f"{buffer.name!r} is a view of another buffer; set the scope of that one."
        raise fail(ScheduleValueError, "set_scope", func, [block], found)
    if buffer.scope == scope:
        return func
    return swap_buffer(func, buffer, replace(buffer, scope=scope))


def require_scope(scope: str, primitive: str) -> None:
    """Raises ScheduleValueError for a name that is no storage scope."""
    if scope not in SCOPES:
        raise ScheduleValueError(
            primitive, f"Expected a storage scope, one of {', '.join(SCOPES)}; found {scope!r}."
        )


def swap_buffer(func: PrimFunc, old: Buffer, new: Buffer) -> PrimFunc:
    """The function with one buffer replaced wherever it stands, its allocation included."""
    return replace(func, body=replace_buffers(func.body, {old: new}))


def buffer_at(
    func: PrimFunc,
    block: Block,
    side: str,
    index: int | str,
    primitive: str,
    *,
    either: bool = True,
) -> Buffer:
    """The buffer of a block's read or write region, by position or name (of the other side too,
    if ``either``); raises ScheduleValueError."""
    regions = block.reads if side == "read" else block.writes
    if isinstance(index, str):
        named = (*block.reads, *block.writes) if either else regions
        for r in named:
            if r.buffer.name == index:
                return r.buffer
        known = ", ".join(dict.fromkeys(repr(r.buffer.name) for r in named)) or "none"
        does = "touches" if either else f"{side}s"
        found = f"The block {block.name!r} {does} no buffer {index!r}; it {does} {known}."
        raise fail(ScheduleValueError, primitive, func, [block], found)
    if not isinstance(index, int) or not 0 <= index < len(regions):
        names = ", ".join(repr(r.buffer.name) for r in regions) or "none"
        found = (
            f"The block {block.name!r} has {len(regions)} {side} buffers ({names}); asked for "
            f"number {index}."
        )
        raise fail(ScheduleValueError, primitive, func, [block], found)
    return regions[index].buffer


def buffer_names(func: PrimFunc) -> set[str]:
    """The names of all buffers of a function."""
    names = {b.name for b in func.buffers}
    for path in walk_paths(func.body):
        leaf = path[-1]
        if isinstance(leaf, Block):
            names.update(b.name for b in leaf.alloc_buffers)
    return names
