"""The first step of lowering: ``global.A_reg`` is global memory; a tag is for who reads it."""

from __future__ import annotations

from ...support.node import replace, walk
from ..buffer import Buffer
from ..function import PrimFunc
from ..visitor import replace_buffers


def drop_scope_tags(func: PrimFunc) -> PrimFunc:
    """The function whose buffers have scopes without tags; the same one where none has a tag."""
    tagged: dict[Buffer, Buffer] = {}
    for b in [*func.buffers, *[n for n in walk(func.body) if isinstance(n, Buffer)]]:
        if b.scope != b.memory and b not in tagged:
            tagged[b] = replace(b, scope=b.memory)
    if not tagged:
        return func
    params = tuple([tagged.get(p, p) if isinstance(p, Buffer) else p for p in func.params])
    return replace(func, params=params, body=replace_buffers(func.body, tagged))
