"""Program: what the register virtual machine executes.

A program has functions (bytecode), kernels (symbols of object code under the ABI of
``support.abi``), constants, and names of environment functions it expects. A *segment* (several
kernel calls joined into one native function) is a kernel like any other.

Registers hold tensors, tuples, shapes (tuples of int) or Python scalars. Symbolic sizes live in the
frame's *dims*: named int64 slots, filled by the builtin ``match_shape`` at entry, and read by
``ShapeText`` expressions: Python integer arithmetic over the dim names, e.g. ``(m + 7) // 8 * 8``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from ..support.errors import VMError, nearest
from .shape_text import parse_shape

ShapeText: TypeAlias = str


@dataclass(frozen=True, slots=True)
class Reg:
    """The value of a register."""

    index: int


@dataclass(frozen=True, slots=True)
class Const:
    """A constant of the program."""

    index: int


@dataclass(frozen=True, slots=True)
class Imm:
    """A literal: int, float, bool, string (shape texts are strings) or a tuple of literals."""

    value: int | float | bool | str | tuple[object, ...]


Arg: TypeAlias = Reg | Const | Imm


@dataclass(frozen=True, slots=True)
class Call:
    """``dst = func(args)``; ``dst`` is -1 where nothing is returned (destination-passing callees).

    ``func`` is ``kind:name`` with kind one of kernel, builtin (``vm.builtins``), env (an
    environment function) and vm (a function of the program). For kernels ``dims`` gives the
    callee's symbolic dims as shape texts over the caller's.
    """

    dst: int
    func: str
    args: tuple[Arg, ...]
    dims: tuple[ShapeText, ...] = ()


@dataclass(frozen=True, slots=True)
class Ret:
    value: Arg


@dataclass(frozen=True, slots=True)
class Goto:
    """Jump by ``offset`` instructions (1 is the next one)."""

    offset: int


@dataclass(frozen=True, slots=True)
class If:
    """Fall through where the register (a Python scalar) is true, else jump by ``false_offset``."""

    condition: int
    false_offset: int


Instruction: TypeAlias = Call | Ret | Goto | If


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Type of a parameter or result: dims as shape texts (``"784"``, ``"m"``, ``"m * 2"``)."""

    shape: tuple[ShapeText, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Param:
    name: str
    spec: TensorSpec


ResultSpec: TypeAlias = "TensorSpec | tuple[ResultSpec, ...]"


@dataclass(frozen=True, slots=True)
class VMFunction:
    """A function with ``dim_names`` begins with ``match_shape``, which binds them. Parameters
    arrive in registers 0, 1, ...; ``result`` describes the returned structure."""

    name: str
    params: tuple[Param, ...]
    num_registers: int
    instructions: tuple[Instruction, ...]
    result: ResultSpec
    """A TensorSpec, or a (nested) tuple of them."""
    dim_names: tuple[str, ...] = ()
    """Those that parameters have, then those that ``bind_dim`` sets."""

    @property
    def entry_dims(self) -> tuple[str, ...]:
        """The dims that the parameters' shapes give."""
        computed = {
            i.args[0].value
            for i in self.instructions
            if isinstance(i, Call) and i.func == "builtin:bind_dim" and isinstance(i.args[0], Imm)
        }
        return tuple([name for name in self.dim_names if name not in computed])


@dataclass(frozen=True, slots=True)
class Kernel:
    """A native function. Workspace sizes are shape texts over ``dims``; ``outputs`` are the indices
    of the arguments it writes."""

    name: str
    symbol: str
    params: tuple[Param, ...]
    outputs: tuple[int, ...]
    dims: tuple[str, ...] = ()
    shared_bytes: ShapeText = "0"
    thread_bytes: ShapeText = "0"
    inplace: bool = False


@dataclass
class Program:
    """``constants`` are NumPy arrays or tensors of vm.tensor; ``objects`` is object code (ELF
    images)."""

    functions: dict[str, VMFunction] = field(default_factory=dict)
    kernels: dict[str, Kernel] = field(default_factory=dict)
    constants: list[object] = field(default_factory=list)
    objects: list[bytes] = field(default_factory=list)
    target: dict[str, object] = field(default_factory=dict)
    """CPU name and features that the objects need: {"triple", "cpu", "features"}."""
    symbols: dict[str, int] = field(default_factory=dict)
    """Addresses of functions that the objects call, in this process: no file can keep them."""
    held: list[object] = field(default_factory=list, repr=False)
    """What keeps the code at those addresses."""


KINDS = ("kernel", "builtin", "env", "vm")


def verify_program(program: Program) -> None:
    """Check that the program can be run: registers, constants, callees, jumps and shape texts.

    Raises VMError naming the function and the instruction, ParseError for a shape text.
    """
    for kernel in program.kernels.values():
        _verify_kernel(kernel)
    for function in program.functions.values():
        _verify_params(function.name, function.params, function.dim_names)
        count = len(function.instructions)
        if not count or not isinstance(function.instructions[-1], (Ret, Goto)):
            raise VMError(
                f"{function.name}: control reaches the end of the function without a ret."
            )
        if function.num_registers < len(function.params):
            raise VMError(
                f"{function.name}: {function.num_registers} registers do not hold "
                f"{len(function.params)} parameters."
            )
        first = function.instructions[0]
        if function.entry_dims and not (
            isinstance(first, Call) and first.func == "builtin:match_shape"
        ):
            raise VMError(
                f"{function.name}: a function with symbolic dims begins with match_shape."
            )
        for position, instruction in enumerate(function.instructions):
            found = _fault(program, function, position, instruction)
            if found:
                raise VMError(f"{function.name}, instruction {position} ({instruction}): {found}")


def _verify_params(owner: str, params: tuple[Param, ...], dims: tuple[str, ...]) -> None:
    names = [p.name for p in params]
    if len(set(names)) != len(names):
        raise VMError(f"{owner}: two parameters have one name ({', '.join(names)}).")
    for param in params:
        for text in param.spec.shape:
            parse_shape(text, dims)


def _verify_kernel(kernel: Kernel) -> None:
    _verify_params(kernel.name, kernel.params, kernel.dims)
    for text in (kernel.shared_bytes, kernel.thread_bytes):
        parse_shape(text, kernel.dims)
    for index in kernel.outputs:
        if not 0 <= index < len(kernel.params):
            raise VMError(f"{kernel.name}: output {index} is no parameter.")


def _fault(
    program: Program, function: VMFunction, position: int, instruction: Instruction
) -> str | None:
    count = len(function.instructions)
    match instruction:
        case Call(dst, func, args, dims):
            if not -1 <= dst < function.num_registers:
                return f"there is no register {dst}"
            return (
                _callee_fault(program, func, args, dims)
                or next((f for a in args if (f := _arg_fault(program, function, a))), None)
                or _dims_fault(function, dims)
            )
        case Ret(value):
            return _arg_fault(program, function, value)
        case Goto(offset):
            return None if 0 <= position + offset < count else "the jump leaves the function"
        case If(condition, offset):
            if not 0 <= condition < function.num_registers:
                return f"there is no register {condition}"
            return None if 0 <= position + offset < count else "the jump leaves the function"


def _callee_fault(
    program: Program, func: str, args: tuple[Arg, ...], dims: tuple[ShapeText, ...]
) -> str | None:
    kind, separator, name = func.partition(":")
    if not separator or kind not in KINDS:
        return f"{func!r} is not kind:name with kind one of {', '.join(KINDS)}"
    if kind == "kernel":
        kernel = program.kernels.get(name)
        if kernel is None:
            return f"the program has no kernel {name!r}.{nearest(name, program.kernels)}"
        if (len(args), len(dims)) != (len(kernel.params), len(kernel.dims)):
            return (
                f"kernel {name!r} takes {len(kernel.params)} arguments and {len(kernel.dims)} "
                f"dims; got {len(args)} and {len(dims)}"
            )
    if kind == "vm" and name not in program.functions:
        return f"the program has no function {name!r}.{nearest(name, program.functions)}"
    return None


def _arg_fault(program: Program, function: VMFunction, arg: Arg) -> str | None:
    match arg:
        case Reg(index) if not 0 <= index < function.num_registers:
            return f"there is no register {index}"
        case Const(index) if not 0 <= index < len(program.constants):
            return f"there is no constant {index}"
        case _:
            return None


def _dims_fault(function: VMFunction, dims: tuple[ShapeText, ...]) -> str | None:
    for text in dims:
        parse_shape(text, function.dim_names)
    return None
