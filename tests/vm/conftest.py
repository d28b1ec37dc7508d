"""Object code for the tests of vm: small kernels written as LLVM assembly.

The ABI of every kernel: (void **args, const int64_t *dims, void *workspace, const Runtime *rt).
"""

from __future__ import annotations

from collections.abc import Callable

import llvmlite.binding as llvm
import pytest

from burnish.vm.assembler import Assembler
from burnish.vm.program import Kernel, Param, Program, TensorSpec

ADD = """
define void @add(ptr %args, ptr %dims, ptr %workspace, ptr %rt) {
entry:
  %a = load ptr, ptr %args
  %b.slot = getelementptr ptr, ptr %args, i64 1
  %b = load ptr, ptr %b.slot
  %c.slot = getelementptr ptr, ptr %args, i64 2
  %c = load ptr, ptr %c.slot
  %m = load i64, ptr %dims
  %n = mul i64 %m, 4
  br label %test
test:
  %i = phi i64 [0, %entry], [%next, %body]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %done
body:
  %a.at = getelementptr float, ptr %a, i64 %i
  %b.at = getelementptr float, ptr %b, i64 %i
  %w.at = getelementptr float, ptr %workspace, i64 %i
  %c.at = getelementptr float, ptr %c, i64 %i
  %x = load float, ptr %a.at
  %y = load float, ptr %b.at
  %z = fadd float %x, %y
  store float %z, ptr %w.at
  %again = load float, ptr %w.at
  store float %again, ptr %c.at
  %next = add i64 %i, 1
  br label %test
done:
  ret void
}
"""
"""c = a + b for float32 (m, 4), by way of the workspace."""

ADD_WORK = """
define i64 @add.work(ptr %dims) {
  %m = load i64, ptr %dims
  %work = mul i64 %m, 100000000
  ret i64 %work
}
"""
"""How long ``add`` pretends to take."""

DOUBLE = """
define void @double(ptr %args, ptr %dims, ptr %workspace, ptr %rt) {
  %x = load ptr, ptr %args
  %y.slot = getelementptr ptr, ptr %args, i64 1
  %y = load ptr, ptr %y.slot
  %v = load <4 x float>, ptr %x, align 4
  %w = fadd <4 x float> %v, %v
  store <4 x float> %w, ptr %y, align 4
  ret void
}
"""
"""y = x + x for float32 (1, 4)."""

F32_M4 = TensorSpec(("m", "4"), "float32")
F32_14 = TensorSpec(("1", "4"), "float32")
ADD_KERNEL = Kernel(
    "add",
    "add",
    (Param("a", F32_M4), Param("b", F32_M4), Param("c", F32_M4)),
    outputs=(2,),
    dims=("m",),
    shared_bytes="m * 16",
)
DOUBLE_KERNEL = Kernel("double", "double", (Param("x", F32_14), Param("y", F32_14)), outputs=(1,))


def assemble_ir(ir: str) -> bytes:
    """Object code of LLVM assembly for this machine."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    triple = llvm.get_process_triple()
    machine = llvm.Target.from_triple(triple).create_target_machine(reloc="pic")
    module = llvm.parse_assembly(ir)
    module.triple = triple
    return machine.emit_object(module)


@pytest.fixture(scope="session")
def assemble() -> Callable[[str], bytes]:
    return assemble_ir


@pytest.fixture(scope="session")
def add_object() -> bytes:
    return assemble_ir(ADD)


@pytest.fixture(scope="session")
def add_work_object() -> bytes:
    return assemble_ir(ADD_WORK)


@pytest.fixture(scope="session")
def double_object() -> bytes:
    return assemble_ir(DOUBLE)


@pytest.fixture
def add_kernel() -> Kernel:
    return ADD_KERNEL


@pytest.fixture
def double_kernel() -> Kernel:
    return DOUBLE_KERNEL


@pytest.fixture
def add_program(add_object: bytes) -> Program:
    """main(x: float32[m, 4], y: float32[m, 4]) = x + y."""
    asm = Assembler()
    asm.add_object(add_object)
    asm.add_kernel(ADD_KERNEL)
    params = [Param("x", F32_M4), Param("y", F32_M4)]
    with asm.function("main", params, F32_M4, ("m",)) as f:
        f.match_shape()
        out = f.alloc_tensor(("m", "4"), "float32")
        f.call_kernel("add", [f.param(0), f.param(1), out], ("m",))
        f.ret(out)
    return asm.finish()


@pytest.fixture
def double_program(double_object: bytes) -> Program:
    """main(x: float32[1, 4]) = x + x, seen as (4,)."""
    asm = Assembler()
    asm.add_object(double_object)
    asm.add_kernel(DOUBLE_KERNEL)
    result = TensorSpec(("4",), "float32")
    with asm.function("main", [Param("x", F32_14)], result) as f:
        f.match_shape()
        out = f.alloc_tensor(("1", "4"), "float32")
        f.call_kernel("double", [f.param(0), out])
        f.ret(f.reshape(out, ("4",)))
    return asm.finish()
