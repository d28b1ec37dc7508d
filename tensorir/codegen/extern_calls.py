"""Calls of functions that are not the compiler's: C's convention on a 64-bit machine.

Scalars go by value and pointers as addresses; integers narrower than 32 bits are widened as their
signs say, which C's callers do, and a bool is 0 or 1. A function whose LLVM IR is known
(``import_llvm``) gets integers of the width that it declares. A symbol has one type in a module of
LLVM: calls that differ are refused here, and calls of different modules by who links them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llvmlite import ir

from ...support.dtype import DType
from ...support.errors import CodegenError
from ..expr import ExternCall
from .llvm_types import I8, I32, VOID, memory_type

Imported = Mapping[str, tuple[str, tuple[str, ...]]]
"""The functions that LLVM IR of the program's defines: what each gives and takes, as LLVM says
it."""


def emit_extern_call(
    builder: ir.IRBuilder, call: ExternCall, args: Sequence[ir.Value], imported: Imported
) -> ir.Value:
    """The value of a call (of no meaning where it gives none). Raises CodegenError where the
    symbol is called, or defined, with other types."""
    given = [_widened(builder, v, a.dtype) for v, a in zip(args, call.args, strict=True)]
    result = _result_type(call.dtype)
    known = imported.get(call.symbol)
    if known is not None:
        given = _fitted(builder, call, given, result, known)
    kind = ir.FunctionType(result, [v.type for v in given])
    function = _declared(builder.module, call.symbol, kind)
    value = builder.call(function, given)
    return builder.trunc(value, ir.IntType(1)) if call.dtype.is_bool else value


def string_pointer(builder: ir.IRBuilder, text: str) -> ir.Value:
    """The address of a string that ends with a zero byte."""
    content = bytearray(text.encode() + b"\0")
    kind = ir.ArrayType(I8, len(content))
    made = ir.GlobalVariable(builder.module, kind, builder.module.get_unique_name("text"))
    made.linkage, made.global_constant = "private", True
    made.initializer = ir.Constant(kind, content)
    return builder.gep(made, [ir.Constant(I32, 0)], source_etype=I8)


def _result_type(dtype: DType) -> ir.Type:
    return VOID if dtype == "handle" else memory_type(dtype)


def _widened(builder: ir.IRBuilder, value: ir.Value, dtype: DType) -> ir.Value:
    if dtype == "handle" or dtype.is_float or dtype.bits >= 32:
        return value
    widen = builder.sext if dtype.kind == "int" else builder.zext
    return widen(value, I32)


def _fitted(
    builder: ir.IRBuilder,
    call: ExternCall,
    given: list[ir.Value],
    result: ir.Type,
    known: tuple[str, tuple[str, ...]],
) -> list[ir.Value]:
    """The arguments with integers as wide as the function of LLVM IR takes them."""
    gives, takes = known
    fitted: list[ir.Value] = []
    for value, wanted in zip(given, takes, strict=False):
        if isinstance(value.type, ir.IntType) and wanted.startswith("i") and wanted != "i1":
            width = ir.IntType(int(wanted[1:]))
            if width.width < value.type.width:
                value = builder.trunc(value, width)
            elif width.width > value.type.width:
                value = builder.sext(value, width)
        fitted.append(value)
    if (
        len(given) != len(takes)
        or gives != str(result)
        or [str(v.type) for v in fitted] != [*takes]
    ):
        found = f"{result} ({', '.join(str(v.type) for v in given)})"
        raise CodegenError(
            f"{call.symbol!r} is called as {found}; its LLVM IR defines {gives} "
            f"({', '.join(takes)})."
        )
    return fitted


def _declared(module: ir.Module, symbol: str, kind: ir.FunctionType) -> ir.Function:
    known = module.globals.get(symbol)
    if known is None:
        return ir.Function(module, kind, symbol)
    if not isinstance(known, ir.Function) or not known.is_declaration:
        raise CodegenError(
            f"{symbol!r} is called as a function from outside, and is one that burnish makes. "
            "Give one of them another name."
        )
    if known.function_type != kind:
        raise CodegenError(
            f"{symbol!r} is called as {kind} and as {known.function_type}: a function of C has "
            "one type."
        )
    return known


__all__ = ["Imported", "emit_extern_call", "string_pointer"]
