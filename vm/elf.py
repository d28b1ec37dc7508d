"""The symbols of an object file: 64-bit little-endian ELF, relocatable."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from ..support.errors import VMError

_MAGIC = b"\x7fELF\x02\x01"
_SYMBOL_TABLE = 2
_GLOBAL, _WEAK = 1, 2
_FUNCTION = 2


@dataclass(frozen=True)
class ElfFunction:
    """A function of an object: where in which section it is, and its size in bytes."""

    name: str
    section: int
    offset: int
    size: int


def elf_symbols(image: bytes, what: str) -> Iterator[tuple[str, bool]]:
    """(name, is defined) of each global symbol of a 64-bit little-endian ELF relocatable object.

    Raises VMError for any other file.
    """
    if image[:6] != _MAGIC:
        raise VMError(f"{what} is not a 64-bit little-endian ELF file.")
    try:
        for name, info, section, _, _ in _entries(image):
            # An undefined weak symbol may stay so; the linker makes the offset table itself.
            is_needed = info >> 4 == _GLOBAL or (info >> 4 == _WEAK and section)
            if is_needed and name != "_GLOBAL_OFFSET_TABLE_":
                yield name, section != 0
    except (struct.error, ValueError, IndexError) as error:
        raise VMError(f"{what} is a damaged ELF file: {error}.") from error


def elf_functions(image: bytes) -> Iterator[ElfFunction]:
    """The functions that an object defines, those that it keeps to itself included."""
    for name, info, section, offset, size in _entries(image):
        if info & 15 == _FUNCTION and section:
            yield ElfFunction(name, section, offset, size)


def _entries(image: bytes) -> Iterator[tuple[str, int, int, int, int]]:
    """(name, binding and type, section, offset, size) of each symbol."""
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
            name, info, _, index, offset, size = struct.unpack_from("<IBBHQQ", image, at)
            text = image[strings + name : image.index(b"\0", strings + name)].decode()
            yield text, info, index, offset, size
