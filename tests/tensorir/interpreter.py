"""A tiny interpreter of PrimFuncs over NumPy arrays: the meaning of the IR, as plainly as it can be
said.

Loops, blocks with init and predicate, stores, conditions. Parallel and vectorized loops run
backwards, so that a schedule that is only right in order is found out. Unwritten memory is NaN (or
a large negative integer), so that reading it is found out too. Slow by design: for shapes of a few
elements.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from burnish.tensorir import expr as E
from burnish.tensorir.buffer import Buffer
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.intrinsics import DOTS
from burnish.tensorir.stmt import (
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
)

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    E.Add: lambda a, b: a + b,
    E.Sub: lambda a, b: a - b,
    E.Mul: lambda a, b: a * b,
    E.Div: lambda a, b: a / b,
    E.FloorDiv: lambda a, b: a // b,
    E.FloorMod: lambda a, b: a % b,
    E.Min: lambda a, b: np.minimum(a, b),
    E.Max: lambda a, b: np.maximum(a, b),
    E.EQ: lambda a, b: a == b,
    E.NE: lambda a, b: a != b,
    E.LT: lambda a, b: a < b,
    E.LE: lambda a, b: a <= b,
    E.GT: lambda a, b: a > b,
    E.GE: lambda a, b: a >= b,
    E.And: lambda a, b: bool(a) and bool(b),
    E.Or: lambda a, b: bool(a) or bool(b),
}
_UNARY = {
    "exp": math.exp,
    "tanh": math.tanh,
    "sqrt": math.sqrt,
    "neg": lambda x: -x,
    "erf": math.erf,
    "abs": abs,
    "likely": lambda x: x,
}


def run(func: PrimFunc, *args: np.ndarray) -> None:
    """Run ``func`` on arrays, one for each buffer parameter; outputs are written in place."""
    Interpreter(func, args).execute(func.body)


def unwritten(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """An array whose elements are recognisably not results."""
    kind = np.dtype(dtype)
    fill = np.nan if kind.kind == "f" else 0 if kind.kind == "b" else np.iinfo(kind).min // 2
    return np.full(shape, fill, dtype)


class Interpreter:
    """Variables and buffers while a function runs."""

    def __init__(self, func: PrimFunc, args: tuple[np.ndarray, ...]) -> None:
        self.vars: dict[E.Var, Any] = {}
        self.arrays: dict[Buffer, np.ndarray] = {}
        for buffer, array in zip(func.buffers, args, strict=True):
            for dim, size in zip(buffer.shape, array.shape, strict=True):
                if isinstance(dim, E.Var):
                    assert self.vars.setdefault(dim, size) == size
            self.arrays[buffer] = array
        for buffer, array in zip(func.buffers, args, strict=True):
            assert tuple(self.value(d) for d in buffer.shape) == array.shape, buffer.name

    def value(self, e: E.Expr) -> Any:  # noqa: C901 - one case a node
        if type(e) in _BINARY:
            return _BINARY[type(e)](self.value(e.a), self.value(e.b))
        match e:
            case E.Var():
                return self.vars[e]
            case E.IntImm() | E.FloatImm():
                return e.value if e.dtype.is_integer else e.dtype.to_numpy().type(e.value)
            case E.Cast():
                return e.dtype.to_numpy().type(self.value(e.value))
            case E.Not():
                return not self.value(e.a)
            case E.Select():
                return self.value(e.true_value if self.value(e.condition) else e.false_value)
            case E.BufferLoad():
                return self.arrays[e.buffer][self.indices(e.buffer, e.indices)]
            case E.Call(op="if_then_else"):
                return self.value(e.args[1] if self.value(e.args[0]) else e.args[2])
            case E.Call(op=op) if op in DOTS:
                total, *both = [int(self.value(x)) for x in e.args]
                half = len(both) // 2
                total += sum(a * b for a, b in zip(both[:half], both[half:], strict=True))
                return np.int64(total).astype("int32")
            case E.Call(op="fma"):
                a, b, c = [self.value(x) for x in e.args]
                return a * b + c
            case E.Call():
                return e.dtype.to_numpy().type(_UNARY[e.op](*[self.value(a) for a in e.args]))
            case E.AccessPtr():
                array, at = self.arrays[e.buffer], self.indices(e.buffer, e.element.indices)
                start = sum(i * step for i, step in zip(at, array.strides, strict=True))
                return array.ctypes.data + start + int(self.value(e.offset)) * array.itemsize
            case E.ExternCall(symbol="memcpy", args=(target, source, count)):
                ctypes.memmove(self.value(target), self.value(source), int(self.value(count)))
                return 0
            case E.ExternCall(symbol="abs", args=(a,)):
                return np.abs(self.value(a))
            case E.Let():
                self.vars[e.var] = self.value(e.value)
                return self.value(e.body)
            case _:
                raise AssertionError(f"the interpreter does not know {type(e).__name__}")

    def indices(self, buffer: Buffer, indices: tuple[E.Expr, ...]) -> tuple[int, ...]:
        found = tuple(int(self.value(i)) for i in indices)
        shape = self.arrays[buffer].shape
        assert all(0 <= i < n for i, n in zip(found, shape, strict=True)), (
            buffer.name,
            found,
            shape,
        )
        return found

    def execute(self, s: Any) -> None:  # noqa: C901 - one case a node
        match s:
            case SeqStmt():
                for child in s.stmts:
                    self.execute(child)
            case For():
                low, extent = self.value(s.min), self.value(s.extent)
                order = range(low, low + extent)
                for i in reversed(order) if s.kind in ("parallel", "vectorized") else order:
                    self.vars[s.var] = i
                    self.execute(s.body)
            case IfThenElse():
                if self.value(s.condition):
                    self.execute(s.then_case)
                elif s.else_case is not None:
                    self.execute(s.else_case)
            case LetStmt():
                self.vars[s.var] = self.value(s.value)
                self.execute(s.body)
            case BufferStore():
                value = self.value(s.value)
                self.arrays[s.buffer][self.indices(s.buffer, s.indices)] = value
            case BlockRealize():
                if self.value(s.predicate):
                    self.realize(s.block, [self.value(v) for v in s.iter_values])
            case Evaluate():
                self.value(s.value)
            case _:
                raise AssertionError(f"the interpreter does not know {type(s).__name__}")

    def realize(self, block: Block, values: list[int]) -> None:
        first = True
        for it, v in zip(block.iter_vars, values, strict=True):
            low, extent = self.value(it.dom.min), self.value(it.dom.extent)
            assert low <= v < low + extent, (block.name, it.var.name, v)
            self.vars[it.var] = v
            first = first and (it.kind != "reduce" or v == low)
        for buffer in block.alloc_buffers:
            shape = tuple(self.value(d) for d in buffer.shape)
            self.arrays[buffer] = unwritten(shape, str(buffer.dtype))
        for view in block.match_buffers:
            box = [(self.value(r.min), self.value(r.extent)) for r in view.source.region]
            part = self.arrays[view.source.buffer][tuple([slice(a, a + n) for a, n in box])]
            self.arrays[view.buffer] = part.reshape([self.value(d) for d in view.buffer.shape])
            self.bind_layout(view.buffer, self.arrays[view.buffer], self.arrays[view.source.buffer])
        if block.init is not None and first:
            self.execute(block.init)
        self.execute(block.body)

    def bind_layout(self, view: Buffer, part: np.ndarray, source: np.ndarray) -> None:
        """Strides and offset of a view that are variables get their values."""
        for stride, found in zip(view.strides, part.strides, strict=bool(view.strides)):
            if isinstance(stride, E.Var):
                self.vars[stride] = found // part.itemsize
        if isinstance(view.elem_offset, E.Var):
            self.vars[view.elem_offset] = (part.ctypes.data - source.ctypes.data) // part.itemsize
