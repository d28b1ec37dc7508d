from __future__ import annotations

import ctypes
import math
from pathlib import Path

import numpy as np
import pytest

import burnish
from burnish.script import I, R, T
from burnish.support.errors import ArgumentError, BurnishError, CodegenError, TuningError, VMError
from burnish.support.target import Target
from burnish.tensorir.codegen.object import emit_foreign_ir
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.text.parser import parse_func
from burnish.tests.tensorir.extern_programs import ADD_ONE, tiles

X = np.arange(64, dtype=np.float32)


def run(executable: burnish.Executable) -> np.ndarray:
    out = np.zeros(64, np.float32)
    executable["main"](X, out)
    return out


def scalar(call: str, a: str = "float32", b: str = "float32") -> PrimFunc:
    """``B[i] = call``, of four elements."""
    return parse_func(
        f"""
@T.prim_func
def main(A: T.Buffer((4,), "{a}"), B: T.Buffer((4,), "{b}")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = {call}
"""
    )


def test_code_comes_as_llvm_ir_as_object_and_as_paths_of_both(tmp_path: Path) -> None:
    image = emit_foreign_ir(ADD_ONE, Target("native"))
    (tmp_path / "k.ll").write_text(ADD_ONE)
    (tmp_path / "k.o").write_bytes(image)
    for given in (ADD_ONE, image, tmp_path / "k.ll", str(tmp_path / "k.o")):
        executable = burnish.build(tiles(), objects=[given])
        np.testing.assert_array_equal(run(executable), X + 1)
        assert not executable.program.symbols


def test_code_comes_as_an_address_and_as_a_function_of_ctypes() -> None:
    made = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.POINTER(ctypes.c_float), ctypes.POINTER(ctypes.c_float), ctypes.c_int
    )

    def add_one(out: object, given: object, n: int) -> int:
        for i in range(n):
            out[i] = given[i] + 1  # type: ignore[index]
        return 0

    function = made(add_one)
    address = ctypes.cast(function, ctypes.c_void_p)
    for given in (function, address, address.value):
        np.testing.assert_array_equal(
            run(burnish.build(tiles(), symbols={"add_one": given})), X + 1
        )


def test_a_shared_library_has_the_functions_that_are_called() -> None:
    func = scalar('T.call_extern("float64", "lgamma", A[vi])', "float64", "float64")
    x, out = np.array([0.5, 1.5, 4.0, 9.0]), np.zeros(4)
    burnish.build(func, objects=["libm.so.6"])["main"](x, out)
    np.testing.assert_allclose(out, [math.lgamma(v) for v in x])


def test_the_process_has_functions_of_its_own() -> None:
    func = scalar('T.call_extern("int32", "abs", A[vi]) + T.int32(1)', "int32", "int32")
    x, out = np.array([-3, 0, 5, -1], np.int32), np.zeros(4, np.int32)
    burnish.build(func)["main"](x, out)
    assert out.tolist() == [4, 1, 6, 2]


def test_scalars_of_all_widths_go_as_c_takes_them() -> None:
    ir = """
define double @mix(i8 signext %a, i16 zeroext %b, i1 zeroext %c, float %d, double %e, i64 %f) {
  %x = sitofp i8 %a to double
  %y = uitofp i16 %b to double
  %z = uitofp i1 %c to double
  %w = fpext float %d to double
  %v = sitofp i64 %f to double
  %s1 = fadd double %x, %y
  %s2 = fmul double %z, 1000.0
  %s3 = fadd double %s1, %s2
  %s4 = fadd double %s3, %w
  %s5 = fadd double %s4, %e
  %s6 = fadd double %s5, %v
  ret double %s6
}
"""
    call = (
        'T.call_extern("float64", "mix", T.Cast("int8", A[vi]), T.Cast("uint16", A[vi] + '
        "T.float32(40000)), A[vi] > T.float32(0), A[vi], T.float64(0.25), vi)"
    )
    x, out = np.array([-3, 2, -1, 4], np.float32), np.zeros(4)
    burnish.build(scalar(call, "float32", "float64"), objects=[ir])["main"](x, out)
    want = x + (x + 40000.0) + (x > 0) * 1000.0 + x + 0.25 + np.arange(4)
    np.testing.assert_array_equal(out, want)


def test_a_graph_calls_a_kernel_that_calls_c() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((64,), "float32"), w: R.Tensor((64,), "float32")):
            with R.dataflow():
                y = R.call_dps(cls.plus, (x,), R.Tensor((64,), "float32"))  # noqa: F821
                z = R.call_dps(cls.plus, (w,), R.Tensor((64,), "float32"))  # noqa: F821
                out = R.multiply(R.add(y, z), R.const(2.0, "float32"))
                R.output(out)
            return out

        @T.prim_func
        def plus(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
            with T.block("all"):
                T.reads(A[0:64])
                T.writes(B[0:64])
                T.evaluate(T.call_extern("int32", "add_one", B.data, A.data, 64))

    bound = burnish.transform.BindParams("main", {"w": X})(Module)
    executable = burnish.build(bound, objects=[ADD_ONE])
    found = burnish.VirtualMachine(executable)["main"](X).numpy()
    np.testing.assert_array_equal(found, (X + 1) * 4)


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({}, BurnishError, "Nobody gives the code of 'add_one' (called by 'main')"),
        ({"symbols": {"add_on": 1}}, ArgumentError, "Did you mean 'add_one'?"),
        ({"symbols": {"add_one": "f"}}, ArgumentError, "expected an address or a function"),
        ({"symbols": {"add_one": 0}}, ArgumentError, "expected an address or a function"),
        ({"symbols": {"add_one": 8}, "objects": [ADD_ONE]}, ArgumentError, "both give the code"),
        ({"symbols": [("add_one", 8)]}, ArgumentError, "a dict from names to addresses"),
        ({"symbols": {8: 8}}, ArgumentError, "a dict from names to addresses"),
        ({"symbols": ctypes.CDLL(None)}, ArgumentError, "a dict from names to addresses"),
        ({"objects": ADD_ONE}, ArgumentError, "Put it into a list"),
        ({"objects": b"text"}, ArgumentError, "Put it into a list"),
        ({"objects": 8}, ArgumentError, "a list of what has code; found one int"),
        ({"objects": [b"text"]}, VMError, "is not a 64-bit little-endian ELF file"),
        ({"objects": [3]}, ArgumentError, "found int"),
        ({"objects": ["/nowhere/k.o"]}, ArgumentError, "cannot be read"),
        (
            {"objects": ["define i32 @f() { ret float 0 }"]},
            CodegenError,
            "does not read the LLVM IR",
        ),
    ],
)
def test_code_that_is_not_there_is_an_error_before_anything_runs(
    options: dict[str, object], kind: type[BurnishError], words: str
) -> None:
    with pytest.raises(kind) as error:
        burnish.build(tiles(), **options)  # type: ignore[arg-type]
    assert words in str(error.value)


def test_a_function_has_one_type_in_a_program() -> None:
    module = burnish.IRModule(
        {
            "a": scalar('T.call_extern("float32", "f", A[vi])').with_attr("global_symbol", "a"),
            "b": scalar('T.call_extern("float32", "f", A[vi], 1)').with_attr("global_symbol", "b"),
        }
    )
    with pytest.raises(BurnishError, match=r"called as float32.float32. by 'a' and as float32"):
        burnish.build(module)


def test_llvm_ir_stands_with_the_program_and_its_types_are_checked() -> None:
    sch = burnish.Schedule(tiles())
    sch.annotate(sch.get_loops("tile")[0], "pragma_import_llvm", ADD_ONE)
    np.testing.assert_array_equal(run(burnish.build(sch.mod)), X + 1)
    other = burnish.Schedule(tiles())
    text = "define void @add_one(ptr %out, ptr %in) { ret void }"
    other.annotate("tile", "pragma_import_llvm", text)
    with pytest.raises(CodegenError, match=r"its LLVM IR defines void .ptr, ptr."):
        burnish.build(other.mod)


@pytest.mark.parametrize(
    "takes", ["ptr %a", "ptr %a, ptr %b, float %n", "ptr %a, ptr %b, i64 %n, i64 %m"]
)
def test_llvm_ir_of_other_types_than_the_call_is_refused(takes: str) -> None:
    ir = f"define i32 @add_one({takes}) {{ ret i32 0 }}"
    with pytest.raises(BurnishError, match=r"int32.pointer, pointer, int64. by 'main'; its LLVM"):
        burnish.build(tiles(), objects=[ir])


@pytest.mark.parametrize(("gives", "n"), [("i32", "i8"), ("i64", "i64"), ("i32", "i32")])
def test_llvm_ir_may_read_the_low_bits_of_an_integer(gives: str, n: str) -> None:
    ir = f"define {gives} @add_one(ptr %a, ptr %b, {n} %n) {{ ret {gives} 0 }}"
    assert run(burnish.build(tiles(), objects=[ir])).tolist() == [0] * 64


@pytest.mark.parametrize("gives", ["void", "float", "i8"])
def test_llvm_ir_that_gives_less_than_is_read_is_refused(gives: str) -> None:
    value = {"void": "void", "float": "float 0.0", "i8": "i8 0"}[gives]
    ir = f"define {gives} @add_one(ptr %a, ptr %b, i64 %n) {{ ret {value} }}"
    with pytest.raises(BurnishError, match=f"its LLVM IR defines {gives} "):
        burnish.build(tiles(), objects=[ir])


def test_a_function_of_ctypes_of_other_arity_is_refused() -> None:
    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(abs)
    with pytest.raises(BurnishError, match=r"by 'main'; the function of ctypes takes 1 argument "):
        burnish.build(tiles(), symbols={"add_one": function})


def test_what_calls_c_is_not_tuned() -> None:
    with pytest.raises(TuningError, match="calls the function of C 'add_one'"):
        burnish.tune_tir(tiles(), target="native -threads=1", max_trials=1)


def test_parallel_loops_call_too() -> None:
    sch = burnish.Schedule(tiles())
    sch.parallel(sch.get_loops("tile")[0])
    np.testing.assert_array_equal(run(burnish.build(sch.mod, objects=[ADD_ONE], threads=2)), X + 1)
