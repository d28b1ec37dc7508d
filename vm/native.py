"""Native code: object files linked into this process, and the addresses of their symbols.

The only file of vm that touches llvmlite, and only its linker: objects come in as bytes and nothing
is compiled. All objects of a program are linked as one library, in which they see each other's
symbols and, behind those, the process's (libc, pthread). The library lives as long as its
NativeLibrary, which every bound kernel holds.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Sequence

import llvmlite.binding as llvm

from ..support.config import flag
from ..support.errors import UnknownFunctionError, VMError
from .elf import elf_symbols
from .perf_map import write_perf_map

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
    addresses = {name: tracker[name] for name in defined}
    if flag("BURNISH_PERF_MAP"):
        write_perf_map(images, addresses)
    return NativeLibrary(tracker, addresses)


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
