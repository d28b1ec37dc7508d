"""Makes every buffer one-dimensional: an index is a number of elements from the buffer's start.

Row-major strides, or the buffer's own; ``elem_offset`` of a parameter is added to each index, so
that afterwards every pointer points at element 0. Indices come out as canonical linear forms,
which the passes after this one rely on for speed, never for correctness.
"""

from __future__ import annotations

from typing import Any

from ...support.abi import ALIGNMENT
from ...support.node import map_children
from ..arith.linear import ONE, ZERO, Linear, render
from ..arith.rules_add import rewrite_sum
from ..buffer import Buffer
from ..dim_align import PADDED
from ..expr import (
    INDEX,
    AccessPtr,
    Add,
    Broadcast,
    BufferLoad,
    BufferStride,
    Expr,
    IntImm,
    Mul,
    Ramp,
    Var,
    add,
    mul,
    sub,
)
from ..function import Param, PrimFunc
from ..stmt import Allocate, BufferStore, For, annotation
from .scope import Scope


def flatten_buffers(func: PrimFunc) -> PrimFunc:
    """``func`` with one-dimensional buffers only."""
    flatten = _Flatten(func)
    params: list[Param] = [flatten.buffer(p) if isinstance(p, Buffer) else p for p in func.params]
    return PrimFunc(tuple(params), flatten.node(func.body), func.attrs, func.name)


class _Flatten:
    def __init__(self, func: PrimFunc) -> None:
        self.scope = Scope()
        for var in func.shape_vars:
            self.scope.declare_dim(var)
        self.flat: dict[int, Buffer] = {}
        self.strides: dict[int, list[Linear]] = {}

    def buffer(self, buffer: Buffer) -> Buffer:
        """The flat counterpart of ``buffer``."""
        known = self.flat.get(id(buffer))
        if known is not None:
            return known
        size: Expr = IntImm(1)
        if buffer.strides:
            for extent, stride in zip(buffer.shape, buffer.strides, strict=True):
                size = add(size, mul(sub(extent, 1), stride))
            size = add(size, buffer.elem_offset)
        else:
            for extent in buffer.shape:
                size = mul(size, extent)
            size = add(size, buffer.elem_offset)
        flat = Buffer(buffer.name, (size,), buffer.dtype, buffer.scope, alignment=buffer.alignment)
        self.flat[id(buffer)] = flat
        return flat

    def _strides_of(self, buffer: Buffer) -> list[Linear]:
        known = self.strides.get(id(buffer))
        if known is not None:
            return known
        if buffer.strides:
            result = [self.scope.linear(s) for s in buffer.strides]
        else:
            result = []
            step = ONE
            for extent in reversed(buffer.shape):
                result.insert(0, step)
                step = self._product(extent, step)
        self.strides[id(buffer)] = result
        return result

    def index(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
        """The element number of ``buffer[indices]``."""
        total = self.scope.linear(buffer.elem_offset)
        lanes: tuple[Expr, Linear] | None = None
        for i, stride in zip(indices, self._strides_of(buffer), strict=True):
            where = self.node(i)
            if where.dtype.lanes > 1:
                lanes = where, stride
            else:
                total = total + self._product(where, stride)
        if lanes is not None:
            return self._vector(total, *lanes)
        return self._joined(total)

    def _joined(self, total: Linear) -> Expr:
        """A sum as an expression, with quotients and remainders that belong together in one."""
        return render(rewrite_sum(self.scope, total))

    def _product(self, e: Expr, factor: Linear) -> Linear:
        return self.scope.atoms.multiply(self.scope.linear(e), factor)

    def _vector(self, total: Linear, where: Expr, stride: Linear) -> Expr:
        """The element numbers of a vector index, a program's own, behind scalar ones."""
        if isinstance(where, Ramp):
            first = self._joined(total + self._product(where.base, stride))
            step = self._joined(self._product(where.stride, stride))
            return Ramp(first, step, where.lanes)
        count = where.dtype.lanes
        scaled = where if stride.key == ONE.key else Mul(where, Broadcast(render(stride), count))
        if total.key == ZERO.key:
            return scaled
        return Add(Broadcast(self._joined(total), count), scaled)

    def node(self, n: Any) -> Any:
        kind = type(n)
        if kind is BufferLoad:
            guard = self.node(n.predicate) if n.predicate is not None else None
            return BufferLoad(self.buffer(n.buffer), (self.index(n.buffer, n.indices),), guard)
        if kind is BufferStore:
            where = self.index(n.buffer, n.indices)
            guard = self.node(n.predicate) if n.predicate is not None else None
            return BufferStore(self.buffer(n.buffer), self.node(n.value), (where,), guard)
        if kind is For:
            with self.scope.loop(n.var, n.min, n.extent):
                body = self.node(n.body)
            extent = self.node(n.extent)
            return For(n.var, self.node(n.min), extent, n.kind, body, n.thread, n.annotations)
        if kind is Allocate:
            flat = self.buffer(n.buffer)
            if annotation(n, PADDED):
                # Whole rows: a sum of (extent - 1) * stride is negative where an extent is 0.
                size = mul(n.buffer.shape[0], n.buffer.strides[0])
                flat = Buffer(flat.name, (size,), flat.dtype, flat.scope)
            flat = Buffer(flat.name, flat.shape, flat.dtype, flat.scope, alignment=ALIGNMENT)
            self.flat[id(n.buffer)] = flat
            return Allocate(flat, self.node(n.body), n.annotations)
        if kind is BufferStride:
            return render(self._strides_of(n.buffer)[n.axis])
        if kind is AccessPtr:
            where = self.index(n.buffer, n.element.indices)
            where = self._joined(self.scope.linear(where) + self.scope.linear(self.node(n.offset)))
            element = BufferLoad(self.buffer(n.buffer), (where,))
            return AccessPtr(element, IntImm(0, INDEX), n.mask)
        if kind is Var or kind is Buffer:
            return n
        return map_children(n, self.node)
