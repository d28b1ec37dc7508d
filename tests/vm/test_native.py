from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
from collections.abc import Callable

import pytest

from burnish.support.errors import UnknownFunctionError, VMError
from burnish.vm.native import elf_symbols, load_objects

Assemble = Callable[[str], bytes]
CALLER = """
declare i64 @callee(i64)
define i64 @caller(i64 %x) {
  %y = call i64 @callee(i64 %x)
  ret i64 %y
}
"""
CALLEE = """
declare i64 @labs(i64)
define i64 @callee(i64 %x) {
  %y = call i64 @labs(i64 %x)
  %z = add i64 %y, 1
  ret i64 %z
}
define internal i64 @hidden(i64 %x) {
  ret i64 %x
}
"""


def function(address: int) -> Callable[[int], int]:
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)


def test_images_see_each_other_and_the_process(assemble: Assemble) -> None:
    library = load_objects([assemble(CALLER), assemble(CALLEE)])
    assert library.symbols == ("caller", "callee")
    assert function(library.address("caller"))(-5) == 6


def test_libraries_do_not_clash_and_unload_alone(assemble: Assemble) -> None:
    images = [assemble(CALLER), assemble(CALLEE)]
    kept, dropped = load_objects(images), load_objects(images)
    assert kept.address("caller") != dropped.address("caller")
    del dropped
    gc.collect()
    assert function(kept.address("caller"))(-7) == 8


def test_symbols_of_an_object(assemble: Assemble) -> None:
    assert list(elf_symbols(assemble(CALLEE), "x")) == [("callee", True), ("labs", False)]


def test_an_unknown_symbol(assemble: Assemble) -> None:
    library = load_objects([assemble(CALLEE)])
    with pytest.raises(UnknownFunctionError, match=r"Did you mean 'callee'\?"):
        library.address("calee")


def test_what_cannot_be_linked(assemble: Assemble) -> None:
    with pytest.raises(VMError, match="needs 'callee', which neither another object"):
        load_objects([assemble(CALLER)])
    with pytest.raises(VMError, match="'callee' is defined by object 0 and object 1"):
        load_objects([assemble(CALLEE), assemble(CALLEE)])
    with pytest.raises(VMError, match="object 0 is not a 64-bit little-endian ELF file"):
        load_objects([b"garbage"])
    with pytest.raises(VMError, match="object 0 is a damaged ELF file"):
        load_objects([assemble(CALLEE)[:100]])


def test_no_objects_at_all() -> None:
    assert load_objects([]).symbols == ()


def test_a_process_that_still_holds_a_library_ends_cleanly(assemble: Assemble) -> None:
    program = (
        "import sys\n"
        "from burnish.vm.native import load_objects\n"
        "image = bytes.fromhex(sys.stdin.read())\n"
        "library = load_objects([image])\n"
        "print(len(library.symbols))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        input=assemble(CALLEE).hex(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "1\n", "")
