from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from burnish.support.errors import VMError
from burnish.vm.assembler import Assembler, FunctionBuilder
from burnish.vm.program import Call, Goto, If, Imm, Kernel, Param, Reg, Ret, TensorSpec
from burnish.vm.tensor import Tensor

F4 = TensorSpec(("4",), "float32")


def test_registers_labels_and_calls() -> None:
    asm = Assembler()
    with asm.function("main", [Param("x", F4)], F4) as f:
        f.match_shape()
        end = f.label("end")
        condition = f.read_scalar(f.param(0))
        f.branch(condition, end)
        again = f.label("again")
        f.place(again)
        f.goto(again)
        f.place(end)
        f.ret(f.param(0))
    function = asm.finish().functions["main"]
    assert function.num_registers == 2
    assert function.instructions == (
        Call(-1, "builtin:match_shape", (Reg(0),)),
        Call(1, "builtin:read_scalar", (Reg(0),)),
        If(1, 2),
        Goto(0),
        Ret(Reg(0)),
    )


def test_constants_of_bits() -> None:
    asm = Assembler()
    bits = np.array([0x3F80, 0xC020], np.uint16)
    asm.constant(bits, "bfloat16")
    asm.constant(np.zeros(2, np.uint16))
    held, plain = asm.program.constants
    assert isinstance(held, Tensor)
    assert (held.dtype, held.tolist()) == ("bfloat16", [1.0, -2.5])
    assert isinstance(plain, np.ndarray)


def test_constants_objects_and_kernels_are_stored_once(add_kernel: Kernel) -> None:
    asm = Assembler()
    weight = np.zeros(4, np.float32)
    assert asm.constant(weight) == asm.constant(weight)
    assert asm.constant(weight.copy()) != asm.constant(weight)
    asm.add_object(b"code")
    asm.add_object(b"code")
    asm.add_kernel(add_kernel)
    asm.add_kernel(add_kernel)
    program = asm.finish()
    assert (len(program.constants), len(program.objects), len(program.kernels)) == (2, 1, 1)
    with pytest.raises(VMError, match="Two kernels of the program are called 'add'"):
        asm.add_kernel(replace(add_kernel, symbol="other"))


def test_labels_are_placed_once() -> None:
    asm = Assembler()
    with (
        pytest.raises(VMError, match="main: label 'end' is never placed"),
        asm.function("main", [], F4) as f,
    ):
        f.goto(f.label("end"))
    builder = FunctionBuilder("main", (), F4, ())
    end = builder.label("end")
    builder.place(end)
    with pytest.raises(VMError, match="main: label 'end' is placed twice"):
        builder.place(end)
    assert asm.program.functions == {}


def test_names_and_parameters() -> None:
    asm = Assembler()
    with asm.function("main", [], F4) as f:
        with pytest.raises(VMError, match="there is no parameter 0"):
            f.param(0)
        f.ret(Imm(0))
    with (
        pytest.raises(VMError, match="Two functions of the program are called 'main'"),
        asm.function("main", [], F4),
    ):
        pass
