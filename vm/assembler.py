"""Assembler: builds programs, with registers handed out and jumps written as labels.

    asm = Assembler()
    asm.add_kernel(Kernel("relu0", "relu0", params, outputs=(1,), dims=("m",)))
    with asm.function("main", [Param("x", TensorSpec(("m", "4"), "float32"))],
                      TensorSpec(("m", "4"), "float32"), dims=("m",)) as f:
        f.match_shape()
        y = f.alloc_tensor(("m", "4"), "float32")
        f.call_kernel("relu0", [f.param(0), y], dims=("m",))
        f.ret(y)
    program = asm.finish()

The assembler knows the form of instructions, not their meaning: ``finish`` runs ``verify_program``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from ..support.errors import VMError
from .program import (
    Arg,
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
    ResultSpec,
    Ret,
    ShapeText,
    VMFunction,
    verify_program,
)
from .tensor import Tensor


@dataclass(eq=False, slots=True)
class Label:
    """A place in a function; jumps may name it before it is placed."""

    name: str
    position: int = -1


class Assembler:
    """Collects kernels, constants, objects and functions into one Program."""

    def __init__(self) -> None:
        self.program = Program()
        self._constants: dict[int, Const] = {}
        # Constants are known by identity: keep them, so that no id is given out again.
        self._held: list[object] = []

    def add_kernel(self, kernel: Kernel) -> None:
        """Add a kernel; raises VMError where another one has its name."""
        if self.program.kernels.setdefault(kernel.name, kernel) != kernel:
            raise VMError(f"Two kernels of the program are called {kernel.name!r}.")

    def add_object(self, image: bytes) -> None:
        """Add object code, once."""
        if image not in self.program.objects:
            self.program.objects.append(image)

    def constant(self, value: np.ndarray | Tensor, dtype: str | None = None) -> Const:
        """A constant; the same object is stored once. ``dtype`` is needed for bfloat16, held as
        uint16."""
        found = self._constants.get(id(value))
        if found is None:
            found = self._constants[id(value)] = Const(len(self.program.constants))
            is_bits = dtype == "bfloat16" and isinstance(value, np.ndarray)
            self._held.append(value)
            self.program.constants.append(Tensor(value, dtype) if is_bits else value)  # type: ignore[arg-type]
        return found

    @contextmanager
    def function(
        self,
        name: str,
        params: Sequence[Param],
        result: ResultSpec,
        dims: Sequence[str] = (),
    ) -> Iterator[FunctionBuilder]:
        """Build a function; it is added when the block ends without an exception."""
        if name in self.program.functions:
            raise VMError(f"Two functions of the program are called {name!r}.")
        builder = FunctionBuilder(name, tuple(params), result, tuple(dims))
        yield builder
        self.program.functions[name] = builder.finish()

    def finish(self) -> Program:
        """The program, verified."""
        verify_program(self.program)
        return self.program


class FunctionBuilder:
    """Appends instructions to one function."""

    def __init__(
        self, name: str, params: tuple[Param, ...], result: ResultSpec, dims: tuple[str, ...]
    ) -> None:
        self.name, self.params, self.result, self.dims = name, params, result, dims
        self._registers = len(params)
        self._instructions: list[Instruction] = []
        self._jumps: list[tuple[int, Label]] = []

    def param(self, index: int) -> Reg:
        """The register of a parameter."""
        if not 0 <= index < len(self.params):
            raise VMError(f"{self.name}: there is no parameter {index}.")
        return Reg(index)

    def register(self) -> Reg:
        """A new register."""
        self._registers += 1
        return Reg(self._registers - 1)

    # -- calls
    # --------------------------------------------------------------------------------------
    def call(
        self,
        func: str,
        args: Sequence[Arg],
        *,
        dst: Reg | None = None,
        dims: Sequence[ShapeText] = (),
    ) -> None:
        """``dst = func(args)``, or without a destination."""
        target = -1 if dst is None else dst.index
        self._instructions.append(Call(target, func, tuple(args), tuple(dims)))

    def value(self, func: str, args: Sequence[Arg], *, dst: Reg | None = None) -> Reg:
        """As ``call``, for a callee that returns something: into ``dst`` or a new register."""
        dst = self.register() if dst is None else dst
        self.call(func, args, dst=dst)
        return dst

    def call_kernel(self, name: str, args: Sequence[Arg], dims: Sequence[ShapeText] = ()) -> None:
        self.call(f"kernel:{name}", args, dims=dims)

    def call_env(self, name: str, args: Sequence[Arg]) -> None:
        self.call(f"env:{name}", args)

    def call_function(self, name: str, args: Sequence[Arg]) -> Reg:
        return self.value(f"vm:{name}", args)

    def match_shape(self) -> None:
        """The entry check of all parameters; the first instruction of a function."""
        self.call("builtin:match_shape", [Reg(i) for i in range(len(self.params))])

    def check(self, condition: ShapeText, message: str) -> None:
        self.call("builtin:check", [Imm(condition), Imm(message)])

    def bind_dim(
        self,
        name: str,
        number: Arg,
        place: str = "",
        expected: str = "",
        sizes: Sequence[ShapeText] = (),
    ) -> None:
        told = [Imm(place), Imm(expected), Imm(tuple(sizes))] if place else []
        self.call("builtin:bind_dim", [Imm(name), number, *told])

    def alloc_tensor(self, shape: Sequence[ShapeText], dtype: str) -> Reg:
        return self.value("builtin:alloc_tensor", [Imm(tuple(shape)), Imm(dtype)])

    def alloc_storage(self, nbytes: ShapeText) -> Reg:
        return self.value("builtin:alloc_storage", [Imm(nbytes)])

    def tensor_at(
        self, storage: Reg, offset: ShapeText, shape: Sequence[ShapeText], dtype: str
    ) -> Reg:
        return self.value(
            "builtin:tensor_at", [storage, Imm(offset), Imm(tuple(shape)), Imm(dtype)]
        )

    def reshape(self, tensor: Arg, shape: Sequence[ShapeText]) -> Reg:
        return self.value("builtin:reshape", [tensor, Imm(tuple(shape))])

    def copy(self, source: Arg, destination: Arg) -> None:
        self.call("builtin:copy", [source, destination])

    def move(self, value: Arg, dst: Reg) -> None:
        self.value("builtin:move", [value], dst=dst)

    def make_tuple(self, fields: Sequence[Arg]) -> Reg:
        return self.value("builtin:make_tuple", fields)

    def tuple_get(self, value: Arg, index: int) -> Reg:
        return self.value("builtin:tuple_get", [value, Imm(index)])

    def make_shape(self, shape: Sequence[ShapeText]) -> Reg:
        return self.value("builtin:make_shape", [Imm(tuple(shape))])

    def read_scalar(self, tensor: Arg) -> Reg:
        return self.value("builtin:read_scalar", [tensor])

    # -- control
    # ------------------------------------------------------------------------------------
    def label(self, name: str) -> Label:
        """A label, to be placed once."""
        return Label(name)

    def place(self, label: Label) -> None:
        """The label stands before the next instruction."""
        if label.position >= 0:
            raise VMError(f"{self.name}: label {label.name!r} is placed twice.")
        label.position = len(self._instructions)

    def goto(self, label: Label) -> None:
        self._jumps.append((len(self._instructions), label))
        self._instructions.append(Goto(0))

    def branch(self, condition: Reg, otherwise: Label) -> None:
        """Go on where the register is true, else at ``otherwise``."""
        self._jumps.append((len(self._instructions), otherwise))
        self._instructions.append(If(condition.index, 0))

    def ret(self, value: Arg) -> None:
        self._instructions.append(Ret(value))

    def finish(self) -> VMFunction:
        """The function with its jumps resolved; raises VMError for a label that was never
        placed."""
        code = list(self._instructions)
        for at, label in self._jumps:
            if label.position < 0:
                raise VMError(f"{self.name}: label {label.name!r} is never placed.")
            jump = code[at]
            if isinstance(jump, Goto):
                code[at] = replace(jump, offset=label.position - at)
            elif isinstance(jump, If):
                code[at] = replace(jump, false_offset=label.position - at)
        return VMFunction(
            self.name, self.params, self._registers, tuple(code), self.result, self.dims
        )
