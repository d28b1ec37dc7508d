"""Loads of one of several buffers: the pointer is chosen, outside of the loops that it is the same
in, and loaded from once.

A concatenation is a chain of ``if_then_else``, a load on each side. As branches that is a block of
code for each buffer, run through by every vector of a row, and LLVM takes more than linear time for
it. The conditions of a row, and how far its elements are from the buffer's first, are known before
the row. What the sides have in common of their index is added after the choice, all else before.
"""

from __future__ import annotations

from typing import NamedTuple

from llvmlite import ir

from ...support.node import walk
from ..arith import expr_key
from ..arith.linear import Linear
from ..expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BufferLoad,
    Call,
    Expr,
    IntImm,
    Mul,
    Not,
    Or,
    Ramp,
    Sub,
    Var,
)
from ..lowering.vectorize_loops import may_fault
from .frames import Key
from .llvm_types import memory_type
from .loads import MemoryEmitter

_PURE = (Var, IntImm, Add, Sub, Mul, EQ, NE, LT, LE, GT, GE, And, Or, Not)
"""What a condition may be made of to be looked at before it is asked for: it cannot trap."""


class _Side(NamedTuple):
    """A buffer's part of the choice: ``own`` is what its index has and the others' have not."""

    load: BufferLoad
    form: Linear
    own: Linear


class ChosenLoads(MemoryEmitter):
    """``MemoryEmitter`` with loads whose buffer a condition chooses."""

    def chosen_load(self, e: Call) -> ir.Value | None:
        """The value of a chain of ``if_then_else`` whose sides are loads of one form; None where
        they are not, and where the choice is made in the innermost frame, for every access: CPUs
        guess branches well, and wait for what is chosen."""
        conditions, loads = _chain(e)
        if not loads or not all(map(_is_pure, conditions)):
            return None
        first = loads[0]
        if not all(self._is_alike(first, load) for load in loads):
            return None
        forms = [self.linear(_base(load)) for load in loads]
        common = _common(forms)
        sides = [_Side(load, f, f - common) for load, f in zip(loads, forms, strict=True)]
        level = self._level(conditions, sides)
        if level == len(self.frames) - 1:
            return None
        dtype, element = first.dtype, memory_type(first.dtype.scalar)
        pointer = self._chosen_pointer(conditions, sides, level)
        for at, terms in self.grouped(common):
            # Together with other loads of the same choice as far out as it goes.
            place = max(at, level)
            key: Key = ("chosen", id(pointer), self.identity(terms))
            known = self.recall(key)
            if known is None:
                offset = self.terms(at, terms)
                with self.at_level(place):
                    known = self.builder.gep(pointer, [offset], source_etype=element)
                self.frames[place].memo[key] = known
            pointer = known
        if common.const:
            offset = self.index(IntImm(common.const))
            pointer = self.builder.gep(pointer, [offset], source_etype=element)
        align = min(
            self.alignment(self.memory[id(s.load.buffer)], s.form, dtype.itemsize) for s in sides
        )
        value: ir.Value
        if first.predicate is None:
            value = self.builder.load(pointer, align=align, typ=memory_type(dtype))
        else:
            value = self._masked_load(pointer, self.expr(first.predicate), dtype, align)
        return self._from_memory(value, dtype)

    def _is_alike(self, first: BufferLoad, load: BufferLoad) -> bool:
        """Whether a load is one instruction at a pointer, and the same as the first but for it."""
        index = load.indices[0]
        if id(load.buffer) in self.registers or id(load.buffer) not in self.memory:
            return False
        if load.dtype is not first.dtype or not _is_contiguous(index):
            return False
        if load.predicate is None or first.predicate is None:
            return load.predicate is first.predicate
        same = expr_key(load.predicate) == expr_key(first.predicate)
        return same and not may_fault(index, self.scope)

    def _level(self, conditions: list[Expr], sides: list[_Side]) -> int:
        """The innermost frame that binds what the choice depends on."""
        named = [n for c in conditions for n in walk(c) if isinstance(n, Var)]
        levels = [self.levels.get(id(v), 0) for v in named]
        levels += [self.level_of(atom) for s in sides for atom in s.own.terms]
        return max(levels, default=0)

    def _chosen_pointer(self, conditions: list[Expr], sides: list[_Side], level: int) -> ir.Value:
        """A pointer to the element of the chosen buffer at its own part of the index."""
        parts = tuple([(id(s.load.buffer), self.form_key(s.own)) for s in sides])
        key: Key = ("choice", tuple(map(expr_key, conditions)), parts)
        known = self.recall(key)
        if known is not None:
            return known
        element = memory_type(sides[0].load.dtype.scalar)
        with self.at_level(level):
            pointers = [self.address(s.load.buffer, s.own, element) for s in sides]
            known = pointers.pop()
            for condition, pointer in zip(reversed(conditions), reversed(pointers), strict=True):
                known = self.builder.select(self.expr(condition), pointer, known)
        self.frames[level].memo[key] = known
        return known


def _chain(e: Expr) -> tuple[list[Expr], list[BufferLoad]]:
    """Conditions and loads of ``a if p else b if q else ... z``; no loads where a side is another
    thing."""
    conditions: list[Expr] = []
    loads: list[BufferLoad] = []
    while isinstance(e, Call) and e.op == "if_then_else":
        condition, side, e = e.args
        if not isinstance(side, BufferLoad) or condition.dtype.lanes != 1:
            return [], []
        conditions.append(condition)
        loads.append(side)
    return (conditions, [*loads, e]) if isinstance(e, BufferLoad) else ([], [])


def _is_pure(condition: Expr) -> bool:
    return all(isinstance(n, _PURE) for n in walk(condition))


def _is_contiguous(index: Expr) -> bool:
    if isinstance(index, Ramp):
        return isinstance(index.stride, IntImm) and index.stride.value == 1
    return index.dtype.lanes == 1


def _base(load: BufferLoad) -> Expr:
    index = load.indices[0]
    return index.base if isinstance(index, Ramp) else index


def _common(forms: list[Linear]) -> Linear:
    """The terms that all forms have; the first one's constant."""
    terms = {
        atom: c for atom, c in forms[0].terms.items() if all(f.terms.get(atom) == c for f in forms)
    }
    return Linear(terms, forms[0].const)
