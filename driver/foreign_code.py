"""Functions of C that kernels call: where their code comes from, and that all of it is there.

A program names them, ``T.call_extern(dtype, symbol, args)``; whoever builds it gives their code:

    symbols   addresses, or functions of ctypes, that live in this process alone
    objects   object files (their bytes, or a path), shared libraries (a path), LLVM IR (its text)

Object code becomes a part of the program, and LLVM IR is compiled to such. What neither gives, the
process may have itself, as it has libc. What nobody gives is an error before anything runs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeAlias

from ..graphir.module import IRModule
from ..support.dtype import DType
from ..support.errors import ArgumentError, BurnishError, nearest
from ..support.node import walk
from ..support.target import Target
from ..tensorir.codegen.object import defined_in, emit_foreign_ir
from ..tensorir.expr import ExternCall
from ..tensorir.function import PrimFunc
from ..tensorir.lowering.imported_llvm import imported_llvm
from ..vm.elf import elf_symbols
from ..vm.program import Program

Symbols: TypeAlias = Mapping[str, Any]
Objects: TypeAlias = Sequence[bytes | str | PathLike[str]]


def add_foreign_code(
    program: Program,
    module: IRModule,
    target: Target,
    symbols: Symbols | None,
    objects: Objects | None,
) -> None:
    """Give a program the code of the functions of C that its kernels call.

    Raises ArgumentError for code that is none, a name that nothing calls, and one that has two
    addresses; BurnishError for a function that is called with different types, otherwise than its
    LLVM IR or its ctypes say, or that nobody gives.
    """
    _require_kinds(symbols, objects)
    called = extern_calls(module.prim_funcs.values())
    libraries: list[ctypes.CDLL] = []
    for given in objects or ():
        found = _object(given, target, called)
        if isinstance(found, bytes):
            program.objects.append(found)
        else:
            libraries.append(found)
    images = enumerate(program.objects)
    symbols_of = [s for number, image in images for s in elf_symbols(image, f"object {number}")]
    defined = {name for name, is_defined in symbols_of if is_defined}
    for name, value in (symbols or {}).items():
        if name not in called:
            hint = nearest(name, called)
            raise ArgumentError(f"symbols= names {name!r}, which no function calls.{hint}")
        if name in defined:
            raise ArgumentError(f"symbols= and objects= both give the code of {name!r}.")
        program.symbols[name] = _address(name, value)
        _require_arity(called[name], value)
        program.held.append(value)
    open_ = [n for n in called if n not in defined and n not in program.symbols]
    found_in = {n: library for library in libraries for n in open_ if hasattr(library, n)}
    for name, library in found_in.items():
        program.symbols[name] = _address(name, getattr(library, name))
    program.held += libraries
    _require_all(called, [*defined, *program.symbols])


def _require_kinds(symbols: object, objects: object) -> None:
    """Raises ArgumentError for containers that are none."""
    if symbols is not None and (
        not isinstance(symbols, Mapping) or any(not isinstance(n, str) for n in symbols)
    ):
        raise ArgumentError(
            f"symbols= is a dict from names to addresses or functions of ctypes; found {symbols!r}."
        )
    is_alone = isinstance(objects, (str, bytes, bytearray, memoryview, PathLike))
    if objects is not None and (is_alone or not isinstance(objects, Sequence)):
        found = type(objects).__name__
        hint = " Put it into a list: objects=[...]." if is_alone else ""
        raise ArgumentError(f"objects= is a list of what has code; found one {found}.{hint}")


def _require_arity(called: tuple[PrimFunc, ExternCall], value: Any) -> None:
    """Raises BurnishError where a function of ctypes says that it takes another number."""
    caller, call = called
    takes = getattr(value, "argtypes", None)
    if takes is not None and len(takes) != len(call.args):
        raise BurnishError(
            f"{call.symbol!r} is called as {_type(call)} by {caller.name!r}; the function of "
            f"ctypes takes {len(takes)} argument{'s' if len(takes) != 1 else ''} "
            f"({', '.join([t.__name__ for t in takes])})."
        )


def _require_types(text: str, called: Mapping[str, tuple[PrimFunc, ExternCall]]) -> None:
    """Raises BurnishError where LLVM IR defines a function otherwise than it is called."""
    for name, (gives, takes) in defined_in(text).items():
        if name not in called:
            continue
        caller, call = called[name]
        fits = len(takes) == len(call.args) and all(
            _passes(_llvm_type(a.dtype), wanted) for a, wanted in zip(call.args, takes, strict=True)
        )
        if not fits or not (call.dtype == "handle" or _passes(gives, _llvm_type(call.dtype))):
            raise BurnishError(
                f"{name!r} is called as {_type(call)} by {caller.name!r}; its LLVM IR defines "
                f"{gives} ({', '.join(takes)})."
            )


def _llvm_type(dtype: DType) -> str:
    """What C's convention passes: integers of 32 bits or more."""
    if dtype == "handle":
        return "ptr"
    if dtype.is_float:
        return {32: "float", 64: "double"}.get(dtype.bits, "none")
    return f"i{max(dtype.bits, 32)}"


def _passes(given: str, wanted: str) -> bool:
    """Whether a value of one type of LLVM can be read as another: of an integer the low bits."""
    if given.startswith("i") and wanted.startswith("i"):
        return int(wanted[1:]) <= int(given[1:])
    return given == wanted


def _require_all(called: Mapping[str, tuple[PrimFunc, ExternCall]], given: Sequence[str]) -> None:
    """Raises BurnishError for functions whose code nobody has."""
    process = ctypes.CDLL(None)
    missing = [
        f"{name!r} (called by {caller.name!r}){nearest(name, given)}"
        for name, (caller, _) in called.items()
        if name not in given and name not in imported_names(caller) and not hasattr(process, name)
    ]
    if missing:
        raise BurnishError(
            f"Nobody gives the code of {', '.join(missing)}. Pass symbols={{name: address or "
            "ctypes function}, or objects=[object file, shared library or LLVM IR]; a loop or "
            'block may also bring its LLVM IR along, annotate(loop, "pragma_import_llvm", text).'
        )


def extern_calls(functions: Any) -> dict[str, tuple[PrimFunc, ExternCall]]:
    """The functions of C that PrimFuncs call, each with a place; raises BurnishError where one is
    called with different types, which a function of C does not have."""
    found: dict[str, tuple[PrimFunc, ExternCall]] = {}
    for func in functions:
        for n in walk(func.body):
            if not isinstance(n, ExternCall):
                continue
            caller, first = found.setdefault(n.symbol, (func, n))
            if _type(n) != _type(first):
                raise BurnishError(
                    f"{n.symbol!r} is called as {_type(first)} by {caller.name!r} and as "
                    f"{_type(n)} by {func.name!r}: a function of C has one type."
                )
    return found


def imported_names(func: PrimFunc) -> set[str]:
    """The functions that the LLVM IR which a function brings along defines."""
    return {name for text in imported_llvm(func) for name in defined_in(text)}


def _type(call: ExternCall) -> str:
    gives = "void" if call.dtype == "handle" else str(call.dtype)
    takes = ["pointer" if a.dtype == "handle" else str(a.dtype) for a in call.args]
    return f"{gives}({', '.join(takes)})"


def _object(
    given: Any, target: Target, called: Mapping[str, tuple[PrimFunc, ExternCall]]
) -> bytes | ctypes.CDLL:
    """The object code of what a user gives, or a library that is loaded."""
    if isinstance(given, str) and ("define " in given or "\n" in given):
        _require_types(given, called)
        return emit_foreign_ir(given, target)
    if isinstance(given, (bytes, bytearray, memoryview)):
        return _checked(bytes(given), "the bytes in objects=")
    if not isinstance(given, (str, PathLike)):
        raise ArgumentError(
            "objects= has the bytes of object files, paths of object files (.o), shared libraries "
            f"(.so) or LLVM IR (.ll), and LLVM IR as text; found {type(given).__name__}."
        )
    path = Path(fspath(given))
    try:
        if path.suffix == ".ll":
            return _object(path.read_text() + "\n", target, called)
        if ".so" in path.suffixes or path.suffix == ".dylib":
            return ctypes.CDLL(str(path.absolute()) if path.exists() else str(path))
        return _checked(path.read_bytes(), str(path))
    except OSError as error:
        raise ArgumentError(f"objects= names {path}, which cannot be read: {error}.") from None


def _checked(image: bytes, what: str) -> bytes:
    list(elf_symbols(image, what))  # raises for what is no object file
    return image


def _address(name: str, value: Any) -> int:
    """The address of a function that is given as one, or as ctypes has it."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    if isinstance(value, ctypes._CFuncPtr):  # type: ignore[attr-defined]
        found = ctypes.cast(value, ctypes.c_void_p).value
        if found:
            return found
    if isinstance(value, ctypes.c_void_p) and value.value:
        return value.value
    raise ArgumentError(
        f"symbols= gives {name!r} the value {value!r}; expected an address or a function of "
        "ctypes, such as ctypes.CDLL(path).name."
    )


__all__ = ["Objects", "Symbols", "add_foreign_code", "extern_calls"]
