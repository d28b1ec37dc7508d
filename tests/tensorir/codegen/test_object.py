"""Object code: what it exports, what the passes keep, and that another process can link it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from llvmlite import binding

from burnish.driver.runnable import check_runnable
from burnish.support.errors import CodegenError, TargetError
from burnish.support.host import native_target
from burnish.support.target import Target
from burnish.tensorir.codegen.object import emit_module, emit_object, may_lack_masks
from burnish.tensorir.lowering.pipeline import lower_func
from burnish.tensorir.text.parser import parse_func
from burnish.tests.native import Native, call_native, lower, value

TEXT = """
@T.prim_func
def add_one(A: T.Buffer((1000,), "float32"), B: T.Buffer((1000,), "float32")):
    T.func_attr({"global_symbol": "add_one", "is_scheduled": False})
    for i in range(1000):
        with T.block("B"):
            vi = T.axis.spatial(1000, i)
            B[vi] = A[vi] + T.float32(1)
"""
LOADER = """
import ctypes, sys
from llvmlite import binding
binding.initialize_native_target(); binding.initialize_native_asmprinter()
image = open(sys.argv[1], "rb").read()
library = binding.JITLibraryBuilder().add_object_img(image).export_symbol("add_one")
tracker = library.link(binding.create_lljit_compiler(), "fresh")
a, b = (ctypes.c_float * 1000)(*range(1000)), (ctypes.c_float * 1000)()
args = (ctypes.c_void_p * 2)(ctypes.addressof(a), ctypes.addressof(b))
kernel = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(tracker["add_one"])
kernel(args, None, None, None)
print(list(b) == [float(k + 1) for k in range(1000)])
"""


def test_an_image_links_in_a_fresh_process(tmp_path: Path) -> None:
    image = tmp_path / "kernel.o"
    image.write_bytes(emit_object([lower(parse_func(TEXT))], native_target()).image)
    done = subprocess.run(
        [sys.executable, "-c", LOADER, str(image)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "True", done.stderr


VECTORS = """
@T.prim_func
def add_one(A: T.Buffer((1000,), "float32"), B: T.Buffer((1000,), "float32")):
    T.func_attr({"is_scheduled": True})
    for i in range(250):
        for j in T.vectorized(4):
            with T.block("B"):
                vi = T.axis.spatial(1000, i * 4 + j)
                B[vi] = A[vi] + T.float32(1)
"""


def test_vectors_of_a_schedule_keep_their_shape() -> None:
    target = Target("llvm -mcpu=skylake-avx512")
    code = emit_object([lower_func(parse_func(VECTORS), target)], target, keep_text=True)
    assert "<4 x float>" in code.ir
    assert code.assembly.count("vaddps") == 1
    func = parse_func(VECTORS).with_attr("is_scheduled", False)
    free = emit_object([lower_func(func, target)], target, keep_text=True)
    assert free.assembly.count("vaddps") > 1


def test_scalar_loops_are_vectorised_scheduled_or_not() -> None:
    target = Target("llvm -mcpu=skylake-avx512")
    for scheduled in (False, True):
        func = parse_func(TEXT).with_attr("is_scheduled", scheduled)
        code = emit_object([lower_func(func, target)], target, keep_text=True)
        assert "<16 x float>" in code.ir, scheduled


def test_a_loop_that_nobody_shaped_is_vectorised_beside_one_that_was() -> None:
    func = parse_func("""
@T.prim_func
def f(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")):
    T.func_attr({"is_scheduled": True})
    C = T.alloc_buffer((1024,), "float32")
    for i in range(1024):
        with T.block("C"):
            vi = T.axis.spatial(1024, i)
            C[vi] = A[vi] * A[vi]
    for i in range(256):
        for j in T.vectorized(4):
            with T.block("B"):
                vi = T.axis.spatial(1024, i * 4 + j)
                B[vi] = C[vi] + T.float32(1)
""")
    target = Target("llvm -mcpu=skylake-avx512")
    code = emit_object([lower_func(func, target)], target, keep_text=True)
    assert "fmul <16 x float>" in code.ir
    assert "fadd <4 x float>" in code.ir
    assert "fadd <16 x float>" not in code.ir
    # A rule of the tuner means what it leaves alone.
    meant = func.with_attr("legalized", "f")
    code = emit_object([lower_func(meant, target)], target, keep_text=True)
    assert "fmul <16 x float>" not in code.ir


HALVES = """
@T.prim_func
def halves(A: T.Buffer((1003, 3), "float16"), B: T.Buffer((1003,), "float16")):
    T.func_attr({"global_symbol": "halves", "is_scheduled": False})
    for i in range(1003):
        with T.block("B"):
            vi = T.axis.spatial(1003, i)
            B[vi] = T.Cast("float16", T.Cast("float32", A[vi, 0]) + T.Cast("float32", A[vi, 2]))
"""


@pytest.mark.parametrize(("cpu", "register"), [("skylake-avx512", "zmm"), ("haswell", "ymm")])
def test_scalars_of_float16_are_vectorised(cpu: str, register: str) -> None:
    target = Target(f"llvm -mcpu={cpu}")
    code = emit_object([lower(parse_func(HALVES), target)], target, keep_text=True)
    assert re.search(rf"vaddps.*%{register}", code.assembly)
    assert "llvm.canonicalize" not in code.ir


@pytest.mark.parametrize("lanes", [2, 3, 5, 8])
def test_vectors_of_few_float16_that_llvm_makes(lanes: int) -> None:
    """Of two, LLVM has no machine code for what stands in the place of fences."""
    text = HALVES.replace("1003", str(lanes))
    a = np.random.default_rng(0).standard_normal((lanes, 3)).astype("float16")
    found = np.zeros(lanes, "float16")
    call_native(parse_func(text), a, found)
    np.testing.assert_array_equal(found, (a[:, 0].astype("f4") + a[:, 2]).astype("float16"))


def test_an_accumulator_in_memory_becomes_a_register() -> None:
    func = parse_func("""
@T.prim_func
def f(A: T.Buffer((64, 256, 8), "float32"), B: T.Buffer((64, 8), "float32")):
    T.func_attr({"is_scheduled": True})
    for i, k in T.grid(64, 256):
        for j in T.vectorized(8):
            with T.block("B"):
                vi, vk, vj = T.axis.remap("SRS", [i, k, j])
                with T.init():
                    B[vi, vj] = T.float32(0)
                B[vi, vj] = B[vi, vj] + A[vi, vk, vj]
""")
    target = Target("llvm -mcpu=haswell")
    code = emit_object([lower_func(func, target)], target, keep_text=True)
    lines = code.assembly.split("f.impl:")[1].splitlines()
    add = next(i for i, line in enumerate(lines) if "vaddps" in line)
    jump = next(i for i in range(add, len(lines)) if lines[i].strip().startswith("j"))
    start = max(i for i in range(add) if lines[i].startswith(".L"))
    assert not any("vmovups" in line for line in lines[start:jump])


def test_sums_of_rows_that_are_written_out_are_stored_once() -> None:
    func = parse_func("""
@T.prim_func
def f(A: T.Buffer((4, 256), "float32"), B: T.Buffer((256,), "float32")):
    T.func_attr({"is_scheduled": True})
    for j in range(32):
        for k in T.unroll(4):
            for l in T.vectorized(8):
                with T.block("B"):
                    vj = T.axis.spatial(256, j * 8 + l)
                    vk = T.axis.reduce(4, k)
                    B[vj] = B[vj] + A[vk, vj]
""")
    target = Target("llvm -mcpu=haswell")
    code = emit_object([lower_func(func, target)], target, keep_text=True)
    lines = code.assembly.split("f.impl:")[1].splitlines()
    assert sum(["vaddps" in line for line in lines]) == 4
    assert sum(["%ymm0, (" in line for line in lines if "vmov" in line]) == 1


def test_what_llvm_spoils_is_optimised_again_without_it() -> None:
    # LLVM 22 joins vectors of these unrolled loops into a shuffle before their definition, and
    # would stop the process when asked for its code.
    func = parse_func("""
@T.prim_func
def f(
    X: T.Buffer((5, 6), "float32"),
    W: T.Buffer((8, 6), "float32"),
    B: T.Buffer((8,), "float32"),
    Z: T.Buffer((5, 8), "float32"),
):
    C = T.alloc_buffer((5, 8))
    for j, i_1, i_0, k in T.grid(8, 3, 2, 6):
        with T.block("C"):
            vi = T.axis.spatial(5, i_0 * 3 + i_1)
            vj = T.axis.spatial(8, j)
            vk = T.axis.reduce(6, k)
            T.where(i_0 * 3 + i_1 < 5)
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + X[vi, vk] * W[vj, vk]
    for i, j in T.grid(5, 8):
        with T.block("Z"):
            vi, vj = T.axis.remap("SS", [i, j])
            Z[vi, vj] = T.max(C[vi, vj] + B[vj], T.float32(0))
""")
    rng = np.random.default_rng(0)
    x, w, b = (rng.standard_normal(s).astype("float32") for s in ((5, 6), (8, 6), (8,)))
    z = np.empty((5, 8), "float32")
    call_native(func, x, w, b, z)
    np.testing.assert_allclose(z, np.maximum(x @ w.T + b, 0), rtol=1e-5, atol=1e-6)


SIGNS = """
target triple = "x86_64-unknown-linux-gnu"
define void @signs(ptr %a, ptr %b, ptr %c) {{
  %l = load <{n} x i{k}>, ptr %a, align 1
  %v = add <{n} x i{k}> %l, %l
  %m = icmp slt <{n} x i{k}> %v, zeroinitializer
  %bits = bitcast <{n} x i1> %m to i{n}
  %wide = zext i{n} %bits to i64
  %high = shufflevector <{n} x i1> %m, <{n} x i1> poison, <{h} x i32> <{high}>
  %w = sext <{h} x i1> %high to <{h} x i{k}>
  store <{h} x i{k}> %w, ptr %c, align 1
  store i64 %wide, ptr %b
  ret void
}}
"""


@pytest.mark.parametrize(("n", "k"), [(4, 32), (8, 32), (4, 64), (16, 8)])
def test_masks_that_llvm_loses_are_seen_in_the_code(n: int, k: int) -> None:
    high = ", ".join([f"i32 {i}" for i in range(n // 2, n)])
    text = SIGNS.format(n=n, k=k, h=n // 2, high=high)
    target = Target("llvm -mcpu=skylake-avx512")
    for features, seen in (((), True), (("-avx512vl",), False)):
        chosen = target.with_options(features=features)
        parsed = binding.parse_assembly(text, binding.create_context())
        code = emit_module(parsed, chosen, keep_text=True)
        assert may_lack_masks(code.image, chosen) is seen
        lost = "movmsk" in code.assembly and "2m" not in code.assembly
        assert lost is seen, "LLVM no longer loses masks: what avoids it can go"
    assert not may_lack_masks(code.image, Target("llvm -mcpu=haswell"))


def test_code_whose_masks_llvm_loses_is_made_again_without_them() -> None:
    # The signs of the remainders of four indices are one mask, of which one lane is used alone.
    func = parse_func("""
@T.prim_func
def f(A: T.Buffer((6, 8), "float32"), I: T.Buffer((6,), "int32"), C: T.Buffer((6, 8), "float32")):
    T.func_attr({"is_scheduled": True})
    B = T.alloc_buffer((6, 8))
    for i in range(6):
        for j in T.parallel(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
    for i in T.unroll(6):
        for j in range(8):
            with T.block("twice"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = B[vi, vj] * T.float32(2)
    for k, i, j in T.grid(3, 6, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = T.max(C[vi, vj], A[T.Cast("int64", I[vi] % T.int32(6)), (vj + vk) % 8])
""")
    target = Target("llvm -mcpu=znver4")
    lowered = lower_func(func, target)
    code = emit_object([lowered], target, keep_text=True)
    assert "movmsk" not in code.assembly
    try:
        check_runnable(target)
    except TargetError as error:
        pytest.skip(str(error))
    a = np.arange(48, dtype="float32").reshape(6, 8)
    i = np.array([-4, 3, -1, -2, 0, -3], "int32")
    c = np.zeros((6, 8), "float32")
    workspace = sum([value(e, lowered, ()) for e in (lowered.shared_bytes, lowered.thread_bytes)])
    Native([code.image], ["f"]).call("f", [a, i, c], [], workspace, 1)
    expected = np.max([np.roll(a[i % 6], -k, axis=1) for k in range(3)], axis=0)
    np.testing.assert_array_equal(c, expected)


def test_scheduled_and_other_functions_share_an_image() -> None:
    func = parse_func(TEXT)
    other = func.with_attr("global_symbol", "other").with_attr("is_scheduled", True)
    native = Native(
        [emit_object([lower(func), lower(other)], native_target()).image], ["add_one", "other"]
    )
    for name in ("add_one", "other"):
        a, b = np.arange(1000, dtype="float32"), np.empty(1000, "float32")
        native.call(name, [a, b], [], 0, 1)
        np.testing.assert_array_equal(b, a + 1)


def test_two_functions_of_one_name_are_an_error() -> None:
    with pytest.raises(CodegenError, match="Two functions are called add_one"):
        emit_object([lower(parse_func(TEXT))] * 2, native_target())


def test_text_is_kept_only_when_asked_for() -> None:
    code = emit_object([lower(parse_func(TEXT))], native_target())
    assert code.image.startswith(b"\x7fELF")
    assert (code.ir, code.assembly) == ("", "")


def test_no_functions_make_an_empty_image() -> None:
    assert emit_object([], native_target()).image.startswith(b"\x7fELF")


def test_a_zeroing_loop_calls_no_memset() -> None:
    func = parse_func(TEXT.replace("A[vi] + T.float32(1)", "T.float32(0)"))
    assembly = emit_object([lower(func)], native_target(), keep_text=True).assembly
    assert "memset" not in assembly
    copy = parse_func(TEXT.replace(" + T.float32(1)", ""))
    assert "memcpy" not in emit_object([lower(copy)], native_target(), keep_text=True).assembly


def test_the_same_function_gives_the_same_image() -> None:
    images = {emit_object([lower(parse_func(TEXT))], native_target()).image for _ in range(2)}
    assert len(images) == 1


def test_a_backend_that_is_not_there_is_an_error() -> None:
    target = Target("llvm -mcpu=haswell -mtriple=nonsense-unknown-unknown")
    with pytest.raises(CodegenError, match="LLVM has no backend for nonsense"):
        emit_object([], target)
