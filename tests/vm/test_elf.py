"""Symbols of object files."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from burnish.support.errors import VMError
from burnish.vm.elf import elf_functions, elf_symbols

INNER = """
define internal i64 @inner(i64 %x) noinline {
  %y = mul i64 %x, 3
  ret i64 %y
}
define i64 @outer(i64 %x) {
  %y = call i64 @inner(i64 %x)
  %z = call i64 @labs(i64 %y)
  ret i64 %z
}
declare i64 @labs(i64)
"""


def test_symbols_and_functions(assemble: Callable[[str], bytes]) -> None:
    image = assemble(INNER)
    assert dict(elf_symbols(image, "x")) == {"outer": True, "labs": False}
    found = {f.name: f for f in elf_functions(image)}
    assert set(found) == {"inner", "outer"}
    assert found["inner"].section == found["outer"].section
    assert found["inner"].size > 0
    first, second = sorted(found.values(), key=lambda f: f.offset)
    assert first.offset + first.size <= second.offset


def test_other_files() -> None:
    with pytest.raises(VMError, match="what is given is not a 64-bit little-endian ELF file"):
        list(elf_symbols(b"garbage", "what is given"))
