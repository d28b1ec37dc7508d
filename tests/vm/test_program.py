from __future__ import annotations

from dataclasses import replace

import pytest

from burnish.support.errors import ParseError, VMError
from burnish.vm.program import (
    Call,
    Const,
    Goto,
    If,
    Imm,
    Instruction,
    Kernel,
    Param,
    Program,
    Reg,
    Ret,
    TensorSpec,
    VMFunction,
    verify_program,
)

M4 = TensorSpec(("m", "4"), "float32")
MATCH = Call(-1, "builtin:match_shape", (Reg(0),))
RET = Ret(Reg(0))


def function(*code: Instruction) -> VMFunction:
    return VMFunction("main", (Param("x", M4),), 2, code, M4, ("m",))


def program(f: VMFunction) -> Program:
    kernel = Kernel("k", "k", (Param("x", M4), Param("y", M4)), (1,), ("m",))
    return Program({"main": f}, {"k": kernel})


def test_a_good_program() -> None:
    verify_program(program(function(MATCH, If(0, 2), Goto(1), RET)))


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ([MATCH, Ret(Reg(2))], "there is no register 2"),
        ([MATCH, Ret(Const(0))], "there is no constant 0"),
        ([MATCH, Call(5, "builtin:move", (Reg(0),)), RET], "there is no register 5"),
        ([MATCH, If(7, 1), RET], "there is no register 7"),
        ([MATCH, If(2, 1), RET], "there is no register 2"),
        ([MATCH, If(-1, 1), RET], "there is no register -1"),
        ([MATCH, Goto(2), RET], "the jump leaves the function"),
        ([MATCH, If(0, -2), RET], "the jump leaves the function"),
        ([MATCH, Call(-1, "relu", ()), RET], "'relu' is not kind:name"),
        ([MATCH, Call(-1, "sql:k", ()), RET], "'sql:k' is not kind:name"),
        ([MATCH, Call(-1, "kernel:q", ()), RET], "has no kernel 'q'"),
        (
            [MATCH, Call(-1, "kernel:k", (Reg(0),)), RET],
            "takes 2 arguments and 1 dims; got 1 and 0",
        ),
        ([MATCH, Call(1, "vm:mian", ()), RET], "Did you mean 'main'"),
        ([MATCH], "control reaches the end"),
        ([RET], "begins with match_shape"),
    ],
)
def test_faults_are_found(code: list[Instruction], message: str) -> None:
    with pytest.raises(VMError, match=message):
        verify_program(program(function(*code)))


def test_instructions_are_values() -> None:
    assert {MATCH, RET, If(0, 2), Goto(1)} == {
        Call(-1, "builtin:match_shape", (Reg(0),)), Ret(Reg(0)), If(0, 2), Goto(1),
    }  # fmt: skip


def test_a_fault_names_function_and_instruction() -> None:
    with pytest.raises(VMError) as error:
        verify_program(program(function(MATCH, Ret(Reg(9)))))
    assert (
        str(error.value) == "main, instruction 1 (Ret(value=Reg(index=9))): there is no register 9"
    )


def test_declarations() -> None:
    good = function(MATCH, RET)
    with pytest.raises(VMError, match="1 registers do not hold 2 parameters"):
        verify_program(
            program(replace(good, params=(Param("x", M4), Param("y", M4)), num_registers=1))
        )
    with pytest.raises(VMError, match="two parameters have one name"):
        verify_program(program(replace(good, params=(Param("x", M4), Param("x", M4)))))
    with pytest.raises(ParseError, match="unknown dimension 'm'"):
        verify_program(program(replace(good, dim_names=())))
    bad = program(good)
    bad.kernels["k"] = replace(bad.kernels["k"], outputs=(2,))
    with pytest.raises(VMError, match="output 2 is no parameter"):
        verify_program(bad)
    bad.kernels["k"] = replace(bad.kernels["k"], outputs=(1,), shared_bytes="q * 4")
    with pytest.raises(ParseError, match="unknown dimension 'q'"):
        verify_program(bad)
    call = Call(-1, "kernel:k", (Reg(0), Reg(1)), ("p",))
    with pytest.raises(ParseError, match="unknown dimension 'p'"):
        verify_program(program(function(MATCH, call, RET)))


def test_immediates_are_free() -> None:
    verify_program(program(function(MATCH, Call(1, "builtin:move", (Imm(1),)), RET)))
