from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from burnish.support.errors import UnknownFunctionError, VMError
from burnish.vm.elf import elf_symbols
from burnish.vm.native import load_objects

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


FAR_APART = '''
import ctypes
import numpy as np
import burnish

GIB, PAGE = 1 << 30, 4096
NO_ACCESS, ANONYMOUS, AT_THIS_PLACE = 0, 0x4022, 0x100000
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def fill_gaps():
    lines = open("/proc/self/maps").read().splitlines()
    spans = [tuple(int(p, 16) for p in line.split()[0].split("-")) for line in lines]
    for (_, end), (begin, _) in zip(spans, spans[1:]):
        if 0 < begin - end < 64 * GIB:
            libc.mmap(end, begin - end, NO_ACCESS, ANONYMOUS | AT_THIS_PLACE, -1, 0)


module = burnish.parse("""
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((4, 64), "float32")):
        with R.dataflow():
            a = R.gelu(x)
            b = R.softmax(a, axis=-1)
            R.output(b)
        return b
""")
executable = burnish.build(module)
x = np.random.default_rng(0).standard_normal((4, 64)).astype("float32")
expected = burnish.VirtualMachine(executable)["main"](x).numpy().copy()
kept = []
for pages in range(1, 7):
    fill_gaps()
    base = libc.mmap(None, 4 * GIB, NO_ACCESS, ANONYMOUS, -1, 0)
    fill_gaps()
    libc.munmap(base + 4 * GIB - PAGE * (pages + 1), PAGE * pages)
    kept.append(burnish.VirtualMachine(executable))
    np.testing.assert_array_equal(kept[-1]["main"](x).numpy(), expected)
print("linked", len(kept))
'''


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/maps")
def test_sections_are_linked_where_memory_near_them_is_taken() -> None:
    """Where free places are so small that one takes the code and another, more than 2 GiB away, the
    constants, an object must still be put into one place."""
    path = os.pathsep.join(p for p in sys.path if p)
    run = subprocess.run(
        [sys.executable, "-c", FAR_APART],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout == "linked 6\n"
