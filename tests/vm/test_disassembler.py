from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.support.errors import ParseError, VMError
from burnish.vm.assembler import Assembler
from burnish.vm.disassembler import (
    constant_hash,
    object_hash,
    parse_program,
    print_function,
    print_program,
)
from burnish.vm.interpreter import VirtualMachine
from burnish.vm.program import Call, Const, Imm, Kernel, Param, Program, Reg, TensorSpec
from burnish.vm.tensor import array

VECTOR = TensorSpec(("n * 2",), "float32")


def example(add_kernel: Kernel) -> Program:
    asm = Assembler()
    asm.program.target = {"cpu": "znver4", "features": ["+avx2"]}
    asm.add_kernel(add_kernel)
    asm.add_object(b"object code")
    weight = asm.constant(np.arange(8, dtype=np.float32).reshape(2, 4))
    row = TensorSpec(("m", "4"), "float32")
    with asm.function("main", [Param("input.1", row)], (row, (row,)), ("m",)) as f:
        f.match_shape()
        end = f.label("end")
        f.branch(f.read_scalar(f.param(0)), end)
        y = f.alloc_tensor(("m", "4"), "float32")
        f.call_kernel("add", [f.param(0), weight, y], ("m",))
        f.call_env("env.relu", [y, y])
        f.place(end)
        f.ret(f.make_tuple([f.param(0), f.make_tuple([f.param(0)])]))
    return asm.finish()


TEXT = """\
target({"cpu": "znver4", "features": ["+avx2"]})
constant("sha256:be03f9eeb1865a29bd8670c48938aeed", float32[2, 4])
object("sha256:97b690c504d3da74c3f938ae0d6f52a1", 11)
kernel("add", symbol="add", params=[("a", float32[m, 4]), ("b", float32[m, 4]), \
("c", float32[m, 4])], outputs=(2,), dims=("m",), shared_bytes="m * 16", thread_bytes="0", \
inplace=False)

with function("main", params=[("input.1", float32[m, 4])], \
result=[float32[m, 4], [float32[m, 4]]], registers=5, dims=("m",)):
    call("builtin:match_shape", r0)
    r1 = call("builtin:read_scalar", r0)
    branch(r1, L0)
    r2 = call("builtin:alloc_tensor", ("m", "4"), "float32")
    call("kernel:add", r0, c0, r2, dims=("m",))
    call("env:env.relu", r2, r2)
    label(L0)
    r3 = call("builtin:make_tuple", r0)
    r4 = call("builtin:make_tuple", r0, r3)
    ret(r4)
"""


def contents(p: Program) -> tuple[dict[str, object], dict[str, bytes]]:
    return {constant_hash(c): c for c in p.constants}, {object_hash(o): o for o in p.objects}


def same(a: Program, b: Program) -> bool:
    return (a.functions, a.kernels, a.objects, a.target) == (
        b.functions,
        b.kernels,
        b.objects,
        b.target,
    ) and all(x is y for x, y in zip(a.constants, b.constants, strict=True))


def test_text_of_a_program(add_kernel: Kernel) -> None:
    assert print_program(example(add_kernel)) == TEXT


def test_round_trip(add_kernel: Kernel) -> None:
    program = example(add_kernel)
    parsed = parse_program(print_program(program), *contents(program))
    assert same(parsed, program)
    assert print_program(parsed) == TEXT


def test_a_parsed_program_runs(add_program: Program) -> None:
    parsed = parse_program(print_program(add_program), *contents(add_program))
    x = np.ones((3, 4), np.float32)
    assert (VirtualMachine(parsed)["main"](x, x).numpy() == 2).all()


def test_hashes_depend_on_dtype_and_shape() -> None:
    x = np.zeros((2, 2), np.float32)
    hashes = {constant_hash(v) for v in (x, x.reshape(4), x.view(np.int32), x + 1)}
    assert len(hashes) == 4
    assert constant_hash(array(x)) == constant_hash(x)
    with pytest.raises(VMError, match="not list"):
        constant_hash([1])


def test_contents_must_be_given(add_kernel: Kernel) -> None:
    program = example(add_kernel)
    constants, objects = contents(program)
    with pytest.raises(VMError, match=r"needs the constant sha256:be03\w+, float32\[2, 4\]; pass"):
        parse_program(TEXT, {}, objects)
    with pytest.raises(VMError, match="needs the object sha256:97b6"):
        parse_program(TEXT, constants, {})
    with pytest.raises(VMError, match="needs the object sha256:97b6"):
        parse_program(TEXT, constants)
    with pytest.raises(VMError, match="needs the constant sha256:be03"):
        parse_program(TEXT, objects=objects)
    wrong = dict.fromkeys(constants, np.zeros(3, np.int8))
    with pytest.raises(VMError, match=r"is int8\[3\]; the program has float32\[2, 4\]"):
        parse_program(TEXT, wrong, objects)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("    jump(r0)", "expected call, ret, label, goto or branch"),
        ("    r0 = call(print, r0)", "expected a literal"),
        ("    x1 = call('builtin:move', r0)", "expected a register r0, r1"),
        ("    call('builtin:move', [i for i in r0])", "expected a literal"),
        ("    import os", "expected call, ret"),
        ("    call(", "was never closed"),
    ],
)
def test_text_that_is_no_program(line: str, message: str) -> None:
    head = "with function('main', params=[], result=float32[4], registers=1, dims=()):\n"
    with pytest.raises(ParseError, match=message):
        parse_program(head + line)


def test_a_parse_error_has_a_caret() -> None:
    text = "with function('main', params=[('x', int)], result=float32[4], registers=1, dims=()):\n"
    with pytest.raises(ParseError) as error:
        parse_program(text + "    ret(r0)\n", name="main.vm")
    assert str(error.value) == (
        "expected a tensor type, as float32[m, 4]\n"
        "  --> main.vm:1:37\n"
        "  |\n"
        "1 | with function('main', params=[('x', int)], result=float32[4], registers=1, dims=()):\n"
        "  |                                     ^^^"
    )


def test_missing_declarations() -> None:
    with pytest.raises(ParseError, match="the function's result are missing"):
        parse_program("with function('main', params=[], registers=1, dims=()):\n    ret(r0)")
    with pytest.raises(ParseError, match="a kernel has no 'size'"):
        parse_program("kernel('k', symbol='k', params=[], outputs=(), size=3)")
    with pytest.raises(ParseError, match="expected target, constant"):
        parse_program("import os")


literals = st.recursive(
    st.one_of(
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False),
        st.booleans(),
        st.text(max_size=8),
    ),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)
args = st.one_of(st.integers(0, 3).map(Reg), st.integers(0, 1).map(Const), literals.map(Imm))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(-1, 3), st.lists(args, max_size=4)), max_size=6), args)
def test_any_function_round_trips(calls: list[tuple[int, list[object]]], value: object) -> None:
    asm = Assembler()
    constants = [asm.constant(np.array(i)) for i in range(2)]
    with asm.function("main", [Param("x", VECTOR), Param("n", TensorSpec(("n",), "int8"))],
                      VECTOR, ("n",)) as f:  # fmt: skip
        f.register()
        f.register()
        f.match_shape()
        for dst, operands in calls:
            f.call("env:f", operands, dst=Reg(dst) if dst >= 0 else None)  # type: ignore[arg-type]
        f.ret(value)  # type: ignore[arg-type]
    program = asm.finish()
    assert len(constants) == 2
    assert same(parse_program(print_program(program), *contents(program)), program)


@pytest.mark.parametrize("text", ['say "x"', "it's", "both ' and \"", "line\nbreak", "\\", ""])
def test_special_strings(text: str) -> None:
    asm = Assembler()
    with asm.function("main", [], VECTOR) as f:
        f.value("builtin:make_tuple", [Imm(text)])
        f.ret(Imm(0))
    parsed = parse_program(print_program(asm.program))
    call = parsed.functions["main"].instructions[0]
    assert isinstance(call, Call)
    assert call.args == (Imm(text),)


def test_special_floats() -> None:
    asm = Assembler()
    with asm.function("main", [], VECTOR) as f:
        f.value("builtin:make_tuple", [Imm(math.nan), Imm(-math.inf), Imm(-0.0)])
        f.ret(Imm(0))
    parsed = parse_program(print_program(asm.program))
    call = parsed.functions["main"].instructions[0]
    assert isinstance(call, Call)
    nan, infinity, zero = [a.value for a in call.args if isinstance(a, Imm)]
    assert isinstance(nan, float)
    assert math.isnan(nan)
    assert infinity == -math.inf
    assert math.copysign(1, zero) == -1  # type: ignore[arg-type]
    assert 'float("nan"), float("-inf"), -0.0' in print_function(parsed.functions["main"])
