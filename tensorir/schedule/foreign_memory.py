"""Memory that functions of C have pointers to: no primitive changes its layout under their hands.

A called function reads elements by numbers that the program has told it, which no primitive
rewrites. So a primitive may move the call with its block, and copies of a buffer (``cache_read``)
may take the buffer's place where they have its shape, dtype and strides; anything else that puts
other memory behind a pointer is refused, and leaves the schedule as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...support.errors import LayoutError
from ...support.node import walk
from ...support.structural import structural_equal
from ..analysis.anywhere import anywhere
from ..analysis.preconditions import fail
from ..buffer import Buffer
from ..dim_align import DIM_ALIGN
from ..expr import AccessPtr, BufferLoad, ExternCall
from ..function import PrimFunc
from ..stmt import Block

_COPIES = ("cache_read", "cache_write", "cache_inplace", "set_scope", "stage_memory")
"""Primitives that put a buffer like it in the place of another one."""
BRINGS = ("tensorize", "apply_rule")
"""Primitives that bring calls along."""
_FOREIGN = anywhere(lambda n: isinstance(n, ExternCall | AccessPtr))
"""Whether there is anything of the kind, which hardly any function has."""


def calls_out(func: PrimFunc) -> bool:
    """Whether a function calls functions of C."""
    if not _FOREIGN.within(func.body):
        return False
    return any(isinstance(n, ExternCall) for n in walk(func.body))


def require_memory_kept(primitive: str, before: PrimFunc, after: PrimFunc) -> None:
    """Raises LayoutError where a pointer of ``after`` leads to other memory than those of
    ``before``."""
    if primitive in BRINGS or before is after:
        return
    known, roots = set(_memory(before)), dict(_aligned(before))
    for p in walk(after.body):
        if not isinstance(p, AccessPtr):
            continue
        if not isinstance(p.element, BufferLoad):
            raise _refused(primitive, before, known)
        buffer = _root(p.buffer, after)
        is_same = buffer in known and dict(_aligned(after)).get(buffer) == roots.get(buffer)
        is_copy = primitive in _COPIES and any(_is_like(buffer, b) for b in known)
        if not (is_same or is_copy) or buffer.memory == "register":
            raise _refused(primitive, before, known)


def require_no_pointer(func: PrimFunc, buffer: Buffer, primitive: str) -> None:
    """Raises LayoutError where a function of C has a pointer to ``buffer``."""
    if any(b is buffer for b in _memory(func)):
        raise _refused(primitive, func, [buffer])


def _refused(primitive: str, func: PrimFunc, known: Iterable[Buffer]) -> LayoutError:
    names = ", ".join(sorted({repr(b.name) for b in known}))
    guilty = [n for n in walk(func.body) if isinstance(n, ExternCall)]
    found = (
        f"A function of C is called with a pointer to {names}, and would find other memory there, "
        "or another layout. Copy the buffer (cache_read, cache_write) and change the copy."
    )
    return fail(LayoutError, primitive, func, guilty, found)  # type: ignore[return-value]


def _memory(func: PrimFunc) -> Iterator[Buffer]:
    """The buffers that pointers lead to, views by their sources."""
    if not _FOREIGN.within(func.body):
        return
    for n in walk(func.body):
        if isinstance(n, AccessPtr):
            yield _root(n.buffer, func)


def _root(buffer: Buffer, func: PrimFunc) -> Buffer:
    views = {
        m.buffer: m.source.buffer
        for n in walk(func.body)
        if isinstance(n, Block)
        for m in n.match_buffers
    }
    while buffer in views:
        buffer = views[buffer]
    return buffer


def _aligned(func: PrimFunc) -> Iterator[tuple[Buffer, object]]:
    """The buffers whose rows blocks want aligned, and how."""
    for n in walk(func.body):
        if isinstance(n, Block):
            for key, value in n.annotations:
                if key == DIM_ALIGN:
                    for w in n.writes:
                        yield w.buffer, value


def _is_like(a: Buffer, b: Buffer) -> bool:
    return (
        a.dtype is b.dtype
        and structural_equal(a.shape, b.shape, map_free_vars=False)
        and structural_equal(a.strides, b.strides, map_free_vars=False)
    )


__all__ = ["BRINGS", "calls_out", "require_memory_kept", "require_no_pointer"]
