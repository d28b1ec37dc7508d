"""Tile registers as memory: what AMX's instructions do, as LLVM functions of this module.

A target that says ``+emulated-tiles`` has its tiles here, so that what uses them can be tried on a
CPU that has none. Tiles are 1,024 bytes each; a function does what its instruction does under a
configuration of ``rows`` and ``bytes`` of a row, which it is handed: rows and bytes outside of it
become zero when a tile is loaded. Intel, "Architecture Instruction Set Extensions Programming
Reference" (2024), chapter 3, has the operations. Products of bfloat16 are summed as there, those of
elements at even and at odd places apart; denormal numbers are kept, which the instruction takes for
zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir

from ..lowering.tile_nests import MOST, ROW_BYTES
from .llvm_types import F32, I8, I16, I32, I64, PTR, VOID, call_intrinsic

TILE_BYTES = MOST * ROW_BYTES
_HALVES = ("bfloat16", "float16")


def emulated(module: ir.Module, name: str) -> ir.Function:
    """The function ``tile.<name>``: ``zero(tile)``; ``load`` and ``store(tile, memory, pitch, rows,
    bytes)``; ``<x>.<w>(sums, x, w, rows, groups)`` for dtypes of operands."""
    known: ir.Function | None = module.globals.get(f"tile.{name}")
    if known is not None:
        return known
    if name == "zero":
        return _define(module, name, [PTR], _zero)
    if name == "load":
        return _define(module, name, [PTR, PTR, I64, I64, I64], _load)
    if name == "store":
        return _define(module, name, [PTR, PTR, I64, I64, I64], _store)
    return _define(module, name, [PTR, PTR, PTR, I64, I64], _product)


def _define(module: ir.Module, name: str, kinds: list[ir.Type], body: object) -> ir.Function:
    function = ir.Function(module, ir.FunctionType(VOID, kinds), f"tile.{name}")
    function.linkage = "internal"
    function.attributes.add("nounwind")
    function.attributes.add("noinline")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    body(b, function, name)  # type: ignore[operator]
    b.ret_void()
    return function


@contextmanager
def _each(b: ir.IRBuilder, count: ir.Value) -> Iterator[ir.Value]:
    """A loop over ``count`` numbers from 0, which are at least one."""
    before, body = b.block, b.append_basic_block()
    b.branch(body)
    b.position_at_end(body)
    n = b.phi(I64)
    n.add_incoming(_int(0), before)
    yield n
    following = b.add(n, _int(1))
    n.add_incoming(following, b.block)
    after = b.append_basic_block()
    b.cbranch(b.icmp_unsigned("<", following, count), body, after)
    b.position_at_end(after)


def _int(value: int) -> ir.Constant:
    return ir.Constant(I64, value)


def _at(b: ir.IRBuilder, tile: ir.Value, row: ir.Value, offset: ir.Value) -> ir.Value:
    """A pointer to a byte of a row of a tile."""
    place = b.add(b.mul(row, _int(ROW_BYTES)), offset)
    return b.gep(tile, [place], source_etype=I8)


def _zero(b: ir.IRBuilder, function: ir.Function, name: str) -> None:
    with _each(b, _int(TILE_BYTES // 8)) as n:
        b.store(_int(0), b.gep(function.args[0], [n], source_etype=I64), align=8)


def _load(b: ir.IRBuilder, function: ir.Function, name: str) -> None:
    tile, memory, pitch, rows, count = function.args
    _zero(b, function, name)
    with _each(b, rows) as row, _each(b, count) as n:
        source = b.gep(memory, [b.add(b.mul(row, pitch), n)], source_etype=I8)
        b.store(b.load(source, typ=I8, align=1), _at(b, tile, row, n), align=1)


def _store(b: ir.IRBuilder, function: ir.Function, name: str) -> None:
    tile, memory, pitch, rows, count = function.args
    with _each(b, rows) as row, _each(b, count) as n:
        place = b.gep(memory, [b.add(b.mul(row, pitch), n)], source_etype=I8)
        b.store(b.load(_at(b, tile, row, n), typ=I8, align=1), place, align=1)


def _product(b: ir.IRBuilder, function: ir.Function, name: str) -> None:
    sums, x, w, rows, groups = function.args
    first, second = name.split(".")
    halves = first in _HALVES
    word: ir.Type = F32 if halves else I32
    parts = 2 if halves else 4
    size = 2 if halves else 1
    partial = [b.alloca(word) for _ in range(parts if halves else 1)]
    with _each(b, rows) as row, _each(b, _int(MOST)) as column:
        place = _at(b, sums, row, b.mul(column, _int(4)))
        for p in partial:
            b.store(ir.Constant(word, 0.0 if halves else 0), p)
        with _each(b, groups) as k:
            for part in range(parts):
                left = _at(b, x, row, b.add(b.mul(k, _int(4)), _int(part * size)))
                right = _at(b, w, k, b.add(b.mul(column, _int(4)), _int(part * size)))
                p = partial[part] if halves else partial[0]
                mine, theirs = _widened(b, left, first), _widened(b, right, second)
                before = b.load(p, typ=word)
                if halves:
                    b.store(call_intrinsic(b, "fma", F32, [mine, theirs, before]), p)
                else:
                    b.store(b.add(before, b.mul(mine, theirs)), p)
        total: ir.Value = b.load(partial[0], typ=word)
        for p in partial[1:]:
            total = b.fadd(total, b.load(p, typ=word))
        before = b.load(place, typ=word, align=4)
        b.store(b.fadd(before, total) if halves else b.add(before, total), place, align=4)


def _widened(b: ir.IRBuilder, place: ir.Value, dtype: str) -> ir.Value:
    if dtype == "bfloat16":
        bits = b.zext(b.load(place, typ=I16, align=2), I32)
        return b.bitcast(b.shl(bits, ir.Constant(I32, 16)), F32)
    if dtype == "float16":
        return b.fpext(b.load(place, typ=ir.HalfType(), align=2), F32)
    value = b.load(place, typ=I8, align=1)
    return b.sext(value, I32) if dtype == "int8" else b.zext(value, I32)
