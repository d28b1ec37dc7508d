"""The first step of lowering: ``global.A_reg`` is global memory; a tag is for who reads it."""

from __future__ import annotations

from collections.abc import Iterator

from ...support.node import replace, walk
from ..buffer import Buffer
from ..function import PrimFunc
from ..stmt import LEAVES, MatchBuffer
from ..visitor import replace_buffers


def drop_scope_tags(func: PrimFunc) -> PrimFunc:
    """The function whose buffers have scopes without tags; the same one where none has a tag."""
    tagged: dict[Buffer, Buffer] = {}
    for b in [*func.buffers, *_made(func)]:
        if b.scope != b.memory and b not in tagged:
            tagged[b] = replace(b, scope=b.memory)
    if not tagged:
        return func
    params = tuple([tagged.get(p, p) if isinstance(p, Buffer) else p for p in func.params])
    return replace(func, params=params, body=replace_buffers(func.body, tagged))


def _made(func: PrimFunc) -> Iterator[Buffer]:
    """The buffers that a body brings along: what it allocates, and views."""
    for n in walk(func.body, LEAVES):
        if isinstance(n, Buffer):
            yield n
        elif isinstance(n, MatchBuffer):
            yield n.buffer
