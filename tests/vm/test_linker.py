"""The linker of x86-64: what the emitter writes, refusals, and damaged objects."""

from __future__ import annotations

import ctypes
import gc
import random
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from burnish.support.errors import VMError
from burnish.vm.linker import link_x86_64

pytestmark = pytest.mark.skipif(
    not llvm.get_process_triple().startswith("x86_64"), reason="links objects of x86-64"
)

PROGRAM = """
@table = internal constant [4 x i64] [i64 1, i64 2, i64 3, i64 4]
@count = internal global i64 10
@zeros = internal global [3000 x i64] zeroinitializer, align 64
@names = internal global [2 x ptr] [ptr @inner, ptr @given]
declare i64 @given(i64)
declare extern_weak i64 @nowhere(i64)
define internal i64 @inner(i64 %x) noinline {
  %y = mul i64 %x, 3
  ret i64 %y
}
define i64 @from_table(i64 %i) {
  %at = getelementptr [4 x i64], ptr @table, i64 0, i64 %i
  %v = load i64, ptr %at
  ret i64 %v
}
define i64 @counted(i64 %x) {
  %v = load i64, ptr @count
  %w = add i64 %v, %x
  store i64 %w, ptr @count
  %last = getelementptr [3000 x i64], ptr @zeros, i64 0, i64 2999
  %z = load i64, ptr %last
  %r = add i64 %w, %z
  ret i64 %r
}
define i64 @through(i64 %x) {
  %at = getelementptr [2 x ptr], ptr @names, i64 0, i64 %x
  %f = load ptr, ptr %at
  %r = call i64 %f(i64 5)
  ret i64 %r
}
define i64 @far(i64 %x) {
  %r = call i64 @given(i64 %x)
  ret i64 %r
}
define i64 @is_nowhere(i64 %x) {
  %known = icmp eq ptr @nowhere, null
  %r = zext i1 %known to i64
  ret i64 %r
}
"""
CALLER = """
declare i64 @from_table(i64)
define i64 @caller(i64 %x) {
  %r = call i64 @from_table(i64 %x)
  ret i64 %r
}
"""

Function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
given = Function(lambda x: x + 100)


def emit(text: str, model: str = "default") -> bytes:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(reloc="pic", codemodel=model)
    return bytes(machine.emit_object(llvm.parse_assembly(text)))


def external(name: str) -> int:
    addresses = {"given": ctypes.cast(given, ctypes.c_void_p).value or 0}
    return addresses.get(name, 0)


@pytest.mark.parametrize("model", ["default", "small", "large"])
def test_code_constants_data_and_what_is_far_away(model: str) -> None:
    linked = link_x86_64([emit(CALLER, model), emit(PROGRAM, model)], external)
    assert linked is not None
    memory, addresses = linked
    run = {name: Function(address) for name, address in addresses.items()}
    assert set(run) == {"caller", "from_table", "counted", "through", "far", "is_nowhere"}
    assert [run["caller"](i) for i in range(4)] == [1, 2, 3, 4]
    assert [run["counted"](1), run["counted"](1)] == [11, 12]
    assert [run["through"](0), run["through"](1)] == [15, 105]
    assert run["far"](7) == 107
    assert run["is_nowhere"](0) == 1
    del memory


def test_nothing_is_writable_and_executable_and_memory_is_given_back() -> None:
    linked = link_x86_64([emit(PROGRAM)], external)
    assert linked is not None
    address = linked[1]["far"]

    def rights() -> str | None:
        for line in Path("/proc/self/maps").read_text().splitlines():
            first, last = (int(text, 16) for text in line.split()[0].split("-"))
            if first <= address < last:
                return line.split()[1]
        return None

    assert rights() == "r-xp"
    del linked
    gc.collect()
    assert rights() != "r-xp"


def test_what_it_leaves_to_llvm() -> None:
    local = "@x = thread_local global i64 3\ndefine ptr @f() {\n  ret ptr @x\n}\n"
    assert link_x86_64([emit(local)], external) is None
    other = bytearray(emit(CALLER))
    other[18] = 183  # the machine is AArch64
    assert link_x86_64([bytes(other)], external) is None


def test_damaged_objects_are_told_or_linked() -> None:
    image, rng = emit(PROGRAM), random.Random(0)
    refused = 0
    for _ in range(400):
        damaged = bytearray(image)
        for _ in range(rng.choice([1, 4])):
            damaged[rng.randrange(16, len(image))] = rng.randrange(256)
        cut = len(image) if rng.random() < 0.7 else rng.randrange(64, len(image))
        try:
            link_x86_64([bytes(damaged[:cut])], external)
        except VMError:
            refused += 1
    assert refused > 20
