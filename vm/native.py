"""Native code: object files linked into this process, and the addresses of their symbols.

Objects come in as bytes and nothing is compiled. All objects of a program are linked as one
library, in which they see each other's symbols and, behind those, the process's (libc, pthread).
The library lives as long as its NativeLibrary, which every bound kernel holds. ``linker`` links
objects of x86-64; the others are for ``llvm_linker``, whose import takes longer than loading.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence

from ..support.config import flag
from ..support.errors import UnknownFunctionError, VMError
from .elf import elf_symbols
from .linker import link_x86_64
from .perf_map import write_perf_map


class NativeLibrary:
    """Linked object code. Symbols stay valid as long as this object is referenced."""

    def __init__(self, memory: object, addresses: dict[str, int]) -> None:
        self._memory = memory
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


def _names(images: Sequence[bytes]) -> tuple[dict[str, int], dict[str, None]]:
    """What objects define, with the number of the object, and what they leave to others."""
    defined: dict[str, int] = {}
    undefined: dict[str, None] = {}
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
    return defined, undefined


def load_objects(
    images: Sequence[bytes], symbols: Mapping[str, int] | None = None
) -> NativeLibrary:
    """Link ELF images into the process as one library.

    The images resolve each other's symbols, those of ``symbols`` (addresses), and the process's.
    Raises VMError for what is no object
    of this machine, for a symbol defined twice, and for one defined nowhere.
    """
    if not images:
        return NativeLibrary(None, {})
    defined, undefined = _names(images)
    process, given = ctypes.CDLL(None), symbols or {}
    missing = [
        n for n in undefined if n not in defined and n not in given and not hasattr(process, n)
    ]
    if missing:
        raise VMError(
            f"The object code needs {', '.join(map(repr, missing))}, which neither another object "
            "of the program nor the process defines."
        )

    def external(name: str) -> int:
        if name in given:
            return given[name]
        # A weak symbol that is nowhere stands for 0.
        found = getattr(process, name, None)
        return 0 if found is None else ctypes.cast(found, ctypes.c_void_p).value or 0

    linked = link_x86_64(images, external)
    if linked is None and any(n in given for n in undefined):
        raise VMError(
            "The object code calls functions by addresses of this process, and has relocations "
            "that only LLVM's linker knows, which takes none: pass their code as objects."
        )
    if linked is None:
        from .llvm_linker import link_with_llvm

        linked = link_with_llvm(images, defined)
    memory, every = linked
    addresses = {name: every[name] for name in defined}
    if flag("BURNISH_PERF_MAP"):
        write_perf_map(images, addresses)
    return NativeLibrary(memory, addresses)
