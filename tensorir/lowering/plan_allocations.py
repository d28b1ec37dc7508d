"""Decides where each intermediate buffer lives: registers, the stack, or the caller's workspace.

An ``Allocate`` comes out with a ``storage`` annotation: ``register`` (scope register), ``stack``
(small and of constant size), ``thread`` (inside a parallel loop: a piece of each thread's
workspace) or ``shared``; for the last two the buffer's ``elem_offset`` is its place, 64-byte
aligned. Every buffer has memory of its own, so that code generation may say that no two overlap;
``share_allocations`` has made one buffer of those that could share. Runs on flat buffers, before
loops multiply.
"""

from __future__ import annotations

from ...support.abi import ALIGNMENT
from ...support.node import map_children
from ..buffer import Buffer
from ..expr import Expr, IntImm, add, floordiv, mul
from ..function import PrimFunc
from ..stmt import Allocate, For, Stmt
from ..visitor import replace_buffers

STORAGE = "storage"

STACK_BUFFER = 1024
"""Bytes of the largest buffer kept on the stack."""
_STACK_TOTAL = 4096


def plan_allocations(func: PrimFunc) -> tuple[PrimFunc, Expr, Expr]:
    """``func`` with planned buffers, and the bytes of its shared and of each thread's workspace."""
    plan = _Plan()
    body = plan.stmt(func.body, in_parallel=False)
    if plan.moved:
        body = replace_buffers(body, plan.moved)
    planned = PrimFunc(func.params, body, func.attrs, func.name)
    units = [mul(n, ALIGNMENT) for n in (plan.units["shared"], plan.units["thread"])]
    return planned, units[0], units[1]


class _Plan:
    def __init__(self) -> None:
        self.units: dict[str, Expr] = {"shared": IntImm(0), "thread": IntImm(0)}
        self.stack = 0
        self.moved: dict[Buffer, Buffer] = {}

    def stmt(self, s: Stmt, *, in_parallel: bool) -> Stmt:
        match s:
            case Allocate(buffer, body, annotations):
                storage = self._storage(buffer, in_parallel=in_parallel)
                kept = (*annotations, (STORAGE, storage))
                return Allocate(buffer, self.stmt(body, in_parallel=in_parallel), kept)
            case For():
                body = self.stmt(s.body, in_parallel=in_parallel or s.kind == "parallel")
                if body is s.body:
                    return s
                return For(s.var, s.min, s.extent, s.kind, body, s.thread, s.annotations)
            case _:
                return map_children(
                    s,
                    lambda n: (
                        n if isinstance(n, Expr | Buffer) else self.stmt(n, in_parallel=in_parallel)
                    ),
                )

    def _storage(self, buffer: Buffer, *, in_parallel: bool) -> str:
        if buffer.scope == "register":
            return "register"
        size = mul(buffer.shape[0], buffer.dtype.itemsize)
        if isinstance(size, IntImm) and size.value <= min(STACK_BUFFER, _STACK_TOTAL - self.stack):
            self.stack += size.value
            return "stack"
        storage = "thread" if in_parallel else "shared"
        first = self.units[storage]
        self.units[storage] = add(first, floordiv(add(size, ALIGNMENT - 1), ALIGNMENT))
        self.moved[buffer] = Buffer(
            buffer.name,
            buffer.shape,
            buffer.dtype,
            buffer.scope,
            elem_offset=mul(first, ALIGNMENT // buffer.dtype.itemsize),
            alignment=ALIGNMENT,
        )
        return storage
