"""Links object code of x86-64 into this process, without LLVM.

Objects as the emitter writes them: 64-bit ELF, relocatable, position-independent. All their
sections come into one reservation of memory, so that whatever is near in the code is near here:

    code and constants | jumps to what is far away || addresses | data

What stands before ``||`` is made executable and read-only when it is complete, and nothing is ever
both writable and executable. What this linker does not know (another machine, thread-local data, a
kind of relocation that the emitter does not use) it leaves to LLVM's, which ``native`` has.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence

from ..support.errors import VMError

_RELOCATABLE, _X86_64 = 1, 62
_SYMBOLS, _RELOCATIONS, _EMPTY, _PLAIN_RELOCATIONS = 2, 4, 8, 9
_WRITABLE, _ALLOCATED, _THREAD_LOCAL = 1, 2, 0x400
_ABSOLUTE, _FIRST_RESERVED = 0xFFF1, 0xFF00

_64, _PC32, _PLT32, _PC64 = 1, 2, 4, 24
_GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX = 9, 41, 42
_GOTOFF64, _GOT64, _GOTPC64 = 25, 27, 29
_SLOT_OFFSETS = (_GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX)
_WITH_SLOT = (*_SLOT_OFFSETS, _GOT64)
_WIDE = (_64, _PC64, _GOTOFF64, _GOT64, _GOTPC64)
_KNOWN = (*_WIDE, _PC32, _PLT32, *_SLOT_OFFSETS)

_JUMP = b"\xff\x25\x00\x00\x00\x00"
"""``jmp [rip]``: to the address that follows."""
_JUMP_SIZE = 16

_LOCAL = 0
_READ_AND_RUN = 5
_MOST_BYTES = 1 << 28


class _Unknown(Exception):
    """Something that LLVM's linker is left with."""


class _Object:
    """An object file: its sections, its symbols, and where its sections come to lie."""

    def __init__(self, image: bytes) -> None:
        self.image = image
        if struct.unpack_from("<HH", image, 16) != (_RELOCATABLE, _X86_64):
            raise _Unknown
        (table,) = struct.unpack_from("<Q", image, 40)
        step, count = struct.unpack_from("<HH", image, 58)
        # A header: name, type, flags, address, offset, size, link, info, alignment, entry size.
        at = range(table, table + step * count, step) if step else ()
        self.sections = [struct.unpack_from("<IIQQQQIIQQ", image, i) for i in at]
        self.places: dict[int, int] = {}
        """Offsets in the reservation, of the sections that come into memory."""
        self.symbols: list[tuple[str, int, int, int]] = []
        """(name, binding, section, value)."""
        for section in self.sections:
            if section[1] == _SYMBOLS:
                self._read_symbols(section)
            elif section[1] == _PLAIN_RELOCATIONS or section[2] & _THREAD_LOCAL:
                raise _Unknown

    def _read_symbols(self, section: tuple[int, ...]) -> None:
        strings = self.sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 24):
            name, info, _, index, value, _ = struct.unpack_from("<IBBHQQ", self.image, at)
            if index >= _FIRST_RESERVED and index != _ABSOLUTE:
                raise _Unknown
            end = self.image.index(b"\0", strings + name)
            text = self.image[strings + name : end].decode()
            self.symbols.append((text, info >> 4, index, value))

    def relocations(self) -> Iterator[tuple[int, int, int, int]]:
        """(offset in the reservation, kind, symbol, addend) of each place to be filled in."""
        for section in self.sections:
            if section[1] != _RELOCATIONS or section[7] not in self.places:
                continue
            size = self.sections[section[7]][5]
            for at in range(section[4], section[4] + section[5], 24):
                offset, info, addend = struct.unpack_from("<QQq", self.image, at)
                kind, symbol = info & 0xFFFFFFFF, info >> 32
                if kind not in _KNOWN:
                    raise _Unknown
                if offset + (8 if kind in _WIDE else 4) > size or symbol >= len(self.symbols):
                    raise ValueError(f"a relocation at {offset} of {size} bytes")
                yield self.places[section[7]] + offset, kind, symbol, addend


def link_x86_64(
    images: Sequence[bytes], external: Callable[[str], int]
) -> tuple[object, dict[str, int]] | None:
    """(memory, addresses of the global symbols) of objects that see each other's, and behind these
    those that ``external`` gives the address of. The code is there as long as somebody holds the
    memory.

    None where LLVM's linker is needed. Raises VMError for a damaged object, and as ``external``.
    """
    try:
        return _Link([_Object(image) for image in images], external).run()
    except _Unknown:
        return None
    except OSError as error:
        raise VMError(f"There is no memory for the object code: {error}.") from error
    except (struct.error, ValueError, LookupError, OverflowError) as error:
        raise VMError(f"The object code is damaged: {error}.") from error


class _Link:
    """One linking: places for all, then bytes and addresses."""

    def __init__(self, objects: Sequence[_Object], external: Callable[[str], int]) -> None:
        self._objects, self._external = objects, external
        self._defined = {
            name: (known, index, value)
            for known in objects
            for name, binding, index, value in known.symbols
            if index and binding != _LOCAL
        }
        self._base = self._got = 0

    def run(self) -> tuple[object, dict[str, int]]:
        end = self._place(0, writable=False)
        jumps: dict[str, int] = {}
        slots: dict[tuple[int, int], int] = {}
        for number, known in enumerate(self._objects):
            for _, kind, symbol, _ in known.relocations():
                name, _, index, _ = known.symbols[symbol]
                if kind == _PLT32 and not index and name not in self._defined:
                    jumps.setdefault(name, _up(end, _JUMP_SIZE) + len(jumps) * _JUMP_SIZE)
                elif kind in _WITH_SLOT:
                    slots.setdefault((number, symbol), len(slots) * 8)
        code = _up(_up(end, _JUMP_SIZE) + len(jumps) * _JUMP_SIZE, mmap.PAGESIZE)
        size = self._place(code + len(slots) * 8, writable=True)
        memory = mmap.mmap(-1, max(size, mmap.PAGESIZE), flags=mmap.MAP_PRIVATE | mmap.MAP_ANON)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self._got = self._base + code
        for name, place in jumps.items():
            memory[place : place + 14] = _JUMP + struct.pack("<Q", self._external(name))
        for (number, symbol), slot in slots.items():
            struct.pack_into("<Q", memory, code + slot, self._value(self._objects[number], symbol))
        for number, known in enumerate(self._objects):
            self._copy(memory, known)
            for place, kind, symbol, addend in known.relocations():
                slot = self._got + slots.get((number, symbol), 0)
                self._fill(memory, known, (place, kind, symbol, addend), slot, jumps)
        _protect(self._base, code)
        return memory, {name: self._address(*found) for name, found in self._defined.items()}

    def _place(self, end: int, *, writable: bool) -> int:
        """Lay the sections of a kind out behind ``end``; where they end."""
        for known in self._objects:
            for index, section in enumerate(known.sections):
                if section[2] & _ALLOCATED and bool(section[2] & _WRITABLE) == writable:
                    end = _up(end, max(1, section[8]))
                    if section[5] > _MOST_BYTES or section[8] > mmap.PAGESIZE:
                        raise _Unknown
                    known.places[index] = end
                    end += section[5]
        return end

    def _copy(self, memory: mmap.mmap, known: _Object) -> None:
        for index, place in known.places.items():
            _, kind, _, _, offset, size, *_ = known.sections[index]
            if kind != _EMPTY:
                if offset + size > len(known.image):
                    raise ValueError(f"a section of {size} bytes at {offset}")
                memory[place : place + size] = known.image[offset : offset + size]

    def _address(self, known: _Object, index: int, value: int) -> int:
        return value if index == _ABSOLUTE else self._base + known.places[index] + value

    def _value(self, known: _Object, symbol: int) -> int:
        """The address that a symbol of an object stands for."""
        name, _, index, value = known.symbols[symbol]
        if index:
            return self._address(known, index, value)
        if name in self._defined:
            return self._address(*self._defined[name])
        return self._external(name)

    def _fill(
        self,
        memory: mmap.mmap,
        known: _Object,
        relocation: tuple[int, int, int, int],
        slot: int,
        jumps: Mapping[str, int],
    ) -> None:
        offset, kind, symbol, addend = relocation
        here, name = self._base + offset, known.symbols[symbol][0]
        if kind in _SLOT_OFFSETS:
            value = slot + addend - here
        elif kind == _GOT64:
            value = slot + addend - self._got
        elif kind == _GOTPC64:
            value = self._got + addend - here
        elif kind == _PLT32 and not known.symbols[symbol][2] and name in jumps:
            value = self._base + jumps[name] + addend - here
        else:
            value = self._value(known, symbol) + addend
            value -= self._got if kind == _GOTOFF64 else 0 if kind == _64 else here
        if kind in _WIDE:
            struct.pack_into("<Q", memory, offset, value & (1 << 64) - 1)
        elif -(1 << 31) <= value < 1 << 31:
            struct.pack_into("<i", memory, offset, value)
        else:
            raise _Unknown


def _protect(base: int, size: int) -> None:
    """Make the code runnable and read-only."""
    libc = ctypes.CDLL(None, use_errno=True)
    if size and libc.mprotect(ctypes.c_void_p(base), ctypes.c_size_t(size), _READ_AND_RUN):
        raise VMError(
            "The system allows no code to be made runnable (mprotect: "
            f"{os.strerror(ctypes.get_errno())})."
        )


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


__all__ = ["link_x86_64"]
