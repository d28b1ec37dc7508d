"""Native code: object files linked into this process, and the addresses of their symbols.

The only file of vm that touches llvmlite, and only its linker: objects come in as bytes and nothing
is compiled. All objects of a program are linked as one library, in which they see each other's
symbols and, behind those, the process's (libc, pthread). The library lives as long as its
NativeLibrary, which every bound kernel holds.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
import threading
from collections.abc import Iterator, Sequence

import llvmlite.binding as llvm

from ..support.errors import UnknownFunctionError, VMError

_ELF_MAGIC = b"\x7fELF\x02\x01"
_SYMBOL_TABLE = 2
_GLOBAL, _WEAK = 1, 2

_lock = threading.Lock()
_numbers = itertools.count()
_linker: llvm.LLJIT | None = None


class NativeLibrary:
    """Linked object code. Symbols stay valid as long as this object is referenced."""

    def __init__(self, tracker: llvm.ResourceTracker | None, addresses: dict[str, int]) -> None:
        self._tracker = tracker
        self._addresses = addresses

    def address(self, symbol: str) -> int:
        """The address of a symbol; raises UnknownFunctionError with the nearest one."""
        try:
            return self._addresses[symbol]
        except KeyError:
            raise UnknownFunctionError(symbol, self._addresses, "the object code") from None

    @property
    def symbols(self) -> tuple[str, ...]:
        """The defined symbols, in the objects' order."""
        return tuple(self._addresses)


def load_objects(images: Sequence[bytes]) -> NativeLibrary:
    """Link ELF images into the process as one library.

    The images resolve each other's symbols and the process's. Raises VMError for what is no object
    of this machine, for a symbol defined twice, and for one defined nowhere.
    """
    if not images:
        return NativeLibrary(None, {})
    defined: dict[str, int] = {}
    undefined: dict[str, None] = {}
    builder = llvm.JITLibraryBuilder()
    for number, image in enumerate(images):
        for name, is_defined in elf_symbols(image, f"object {number}"):
            if not is_defined:
                undefined[name] = None
            elif name in defined:
                raise VMError(
                    f"The symbol {name!r} is defined by object {defined[name]} and object "
                    f"{number}; symbols of one program are unique."
                )
            else:
                defined[name] = number
        builder.add_object_img(image)
    process = ctypes.CDLL(None)
    missing = [n for n in undefined if n not in defined and not hasattr(process, n)]
    if missing:
        raise VMError(
            f"The object code needs {', '.join(map(repr, missing))}, which neither another object "
            "of the program nor the process defines."
        )
    builder.add_current_process()
    for name in defined:
        builder.export_symbol(name)
    with _lock:
        try:
            tracker = builder.link(_lljit(), f"burnish.{next(_numbers)}")
        except RuntimeError as error:
            raise VMError(f"The object code cannot be linked: {error}") from error
    return NativeLibrary(tracker, {name: tracker[name] for name in defined})


def _lljit() -> llvm.LLJIT:
    """The process's linker, made at the first load and kept.

    JITLink puts all sections of an object into one reservation of memory and makes stubs for what
    is far away; the older linker takes memory section by section, and ends the process where two of
    them, which the code expects near each other, come to lie more than 2 GiB apart.
    """
    global _linker
    if _linker is None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        _linker = llvm.create_lljit_compiler(use_jit_link=True, suppress_errors=True)
    return _linker


def elf_symbols(image: bytes, what: str) -> Iterator[tuple[str, bool]]:
    """(name, is defined) of each global symbol of a 64-bit little-endian ELF relocatable object.

    Raises VMError for any other file.
    """
    if image[:6] != _ELF_MAGIC:
        raise VMError(f"{what} is not a 64-bit little-endian ELF file.")
    try:
        yield from _read_symbols(image)
    except (struct.error, ValueError, IndexError) as error:
        raise VMError(f"{what} is a damaged ELF file: {error}.") from error


def _read_symbols(image: bytes) -> Iterator[tuple[str, bool]]:
    (table,) = struct.unpack_from("<Q", image, 40)
    entry_size, count = struct.unpack_from("<HH", image, 58)
    # A section header: name, type, flags, address, offset, size, link, info, alignment, entry size.
    sections = [
        struct.unpack_from("<IIQQQQIIQQ", image, table + i * entry_size) for i in range(count)
    ]
    for section in sections:
        if section[1] != _SYMBOL_TABLE:
            continue
        strings = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 24):
            name, info, _, index, _, _ = struct.unpack_from("<IBBHQQ", image, at)
            # An undefined weak symbol may stay so; the linker makes the offset table itself.
            if info >> 4 == _GLOBAL or (info >> 4 == _WEAK and index):
                text = image[strings + name : image.index(b"\0", strings + name)].decode()
                if text != "_GLOBAL_OFFSET_TABLE_":
                    yield text, index != 0
