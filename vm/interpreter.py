"""The register machine: runs a program, instruction by instruction.

A call of a function makes a frame (registers, dims) and walks its instructions. Kernels are bound
to the linked object code when the machine is made; environment functions are looked up in the
registry when a function is asked for, so a missing one is known before any work, and when they are
called, so the latest registration counts.

Where a function is a single kernel call, ``vm["main"]`` does not come here: see ``fast_entry``.
Both ways give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from ..support.abi import ALIGNMENT
from ..support.errors import UnknownFunctionError, VMError
from ..support.keywords import hinted
from ..support.other_names import OtherName
from . import registry
from .binding import BoundKernel, Library, bind_kernel
from .builtins import Frame, Observer, get_builtin, link_static
from .fast_entry import NUMPY, ArrayKind, FastEntry, fast_entry
from .native import load_objects
from .program import (
    Arg,
    Call,
    Const,
    Goto,
    If,
    Imm,
    Instruction,
    Program,
    Reg,
    Ret,
    VMFunction,
    verify_program,
)
from .shape_text import compile_shapes
from .signature import Signature
from .storage import WorkspacePool
from .tensor import Tensor, array, as_tensor, dtype_of, wrap
from .timing import TimeEvaluator

Step: TypeAlias = Callable[[Frame], Any]
"""A call with its callee and operands resolved."""


_CALL, _RET, _GOTO, _IF = range(4)
LinkedInstruction: TypeAlias = "tuple[int, int, Any]"
"""(operation, destination or offset or condition, step or other offset)"""


@runtime_checkable
class HasProgram(Protocol):
    """An executable: something built, that carries a program."""

    @property
    def program(self) -> Program: ...


TENSOR = ArrayKind(
    np.ndarray, {k: v for k, v in NUMPY.dtypes.items() if k != "uint16"}, NUMPY.usable,
    NUMPY.pointer, NUMPY.empty, view=NUMPY.view, unwrap="if type({x}) is tensor: {x} = {x}.data",
    wrap="wrap({x}, {dtype})", names={**NUMPY.names, "tensor": Tensor, "wrap": wrap},
)  # fmt: skip
"""Tensors or NumPy arrays in, Tensors out. Without uint16, the memory of bfloat16 tensors too."""


@hinted
class VirtualMachine:
    """Runs the functions of a program: ``vm["main"](x)`` gives Tensors.

    Takes a Program or anything with a ``program``. ``runtime`` is the address of the runtime record
    that kernels are handed (by default the executable's own, else the serial one); ``library`` is
    the linked object code, where that is not the program's; ``devices`` are refused. One machine
    may be used by many threads.
    Raises VMError where the program is not well formed or its object code cannot be linked.
    """

    module = OtherName("the machine itself, which has time_evaluator")
    set_input = OtherName('vm["main"](x), which takes the inputs')
    invoke_stateful = OtherName('vm["main"](x)')
    get_outputs = OtherName("what a call gives")
    get_function = OtherName('vm["main"]')
    invoke_closure = OtherName('vm["main"](x)')
    profile = OtherName("burnish.compile(model, (x,)).profile(x)")
    save_function = OtherName('functools.partial(vm["main"], x)')

    def __init__(
        self,
        executable: Program | HasProgram,
        *devices: object,
        runtime: int | None = None,
        library: Library | None = None,
    ) -> None:
        if devices:
            raise VMError(
                "A VirtualMachine takes the executable alone: everything runs on the CPU, without "
                f"devices; found {devices[0]!r} beside it."
            )
        if not isinstance(executable, (Program, HasProgram)):
            raise VMError(
                "A VirtualMachine runs a Program or what burnish.build gives; found "
                f"{type(executable).__name__}."
            )
        program = executable if isinstance(executable, Program) else executable.program
        if runtime is None:
            runtime = getattr(executable, "runtime", None)
        verify_program(program)
        self.program = program
        self.constants = [_constant(program.constants, i) for i in range(len(program.constants))]
        self.library = (
            load_objects(program.objects, program.symbols) if library is None else library
        )
        pool = WorkspacePool()
        self.kernels: dict[str, BoundKernel] = {
            name: bind_kernel(kernel, self.library, runtime=runtime, pool=pool)
            for name, kernel in program.kernels.items()
        }
        self._signatures: dict[str, Signature] = {}
        self._linked: dict[str, list[LinkedInstruction]] = {}
        self._callables: dict[str, Callable[..., Any]] = {}

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The function, to be called with arrays; gives a Tensor, or a tuple where it returns
        several.

        Raises UnknownFunctionError for it or for an environment function that it calls. A call
        raises ArityError, DTypeMismatchError, ShapeMismatchError or ArgumentError before any work,
        and EnvironmentFunctionError from inside.
        """
        found = self._callables.get(name)
        if found is None:
            if name not in self.program.functions:
                raise UnknownFunctionError(name, self.program.functions, "the program")
            self._require_environment(name, set())

            def slow(*args: object) -> Any:
                return self.run(name, args)

            fast = self.fast_entry(name, slow, kind=TENSOR)
            found = self._callables[name] = slow if fast is None else fast.call
        return found

    def time_evaluator(
        self, name: str, number: int = 10, repeat: int = 3, min_repeat_ms: float = 0
    ) -> TimeEvaluator:
        """``vm.time_evaluator("main", number=100)(x).mean``: seconds a call of the public path."""
        function = self[name]

        def prepare(*args: object) -> Callable[[], object]:
            return lambda: function(*args)

        return TimeEvaluator(prepare, number, repeat, min_repeat_ms)

    def fast_entry(
        self, name: str, slow: Callable[..., Any], *, kind: ArrayKind = NUMPY
    ) -> FastEntry | None:
        """The generated entry of a function for a kind of array, or None where it has none."""
        function = self.program.functions[name]
        return fast_entry(function, self.kernels, self.constants, slow, kind=kind)

    def run(self, name: str, args: Sequence[object], *, observer: Observer | None = None) -> Any:
        """Interpret a function on arguments from anybody; ``observer`` sees each call's time."""
        function = self.program.functions[name]
        self.signature(name).check_arity(len(args))
        tensors = [
            as_tensor(a, f"{name}, argument {p.name!r}")
            for a, p in zip(args, function.params, strict=True)
        ]
        return self._execute(function, tensors, observer)

    def signature(self, name: str) -> Signature:
        """The entry checks of a function."""
        found = self._signatures.get(name)
        if found is None:
            function = self.program.functions[name]
            found = Signature(name, function.params, function.entry_dims)
            self._signatures[name] = found
        return found

    def _require_environment(self, name: str, seen: set[str]) -> None:
        seen.add(name)
        for instruction in self.program.functions[name].instructions:
            if isinstance(instruction, Call):
                kind, callee = instruction.func.split(":", 1)
                if kind == "env":
                    registry.get_func(callee)
                elif kind == "vm" and callee not in seen:
                    self._require_environment(callee, seen)

    # -- the machine ------------------------------------------------------------------------------
    def _execute(self, function: VMFunction, args: Sequence[Any], observer: Observer | None) -> Any:
        registers: list[Any] = [None] * function.num_registers
        registers[: len(args)] = args
        dims = [0] * len(function.dim_names)
        frame = Frame(function, self.signature(function.name), registers, dims, observer)
        code = self._linked_code(function)
        pc = 0
        while True:
            operation, first, second = code[pc]
            if operation is _CALL:
                begin = 0 if observer is None else perf_counter_ns()
                value = second(frame)
                if observer is not None:
                    call = function.instructions[pc]
                    assert isinstance(call, Call)
                    observer(function, call, perf_counter_ns() - begin)
                if first >= 0:
                    registers[first] = value
                pc += 1
            elif operation is _RET:
                return second(frame)
            elif operation is _GOTO:
                pc += first
            else:
                pc += 1 if registers[first] else second

    def _linked_code(self, function: VMFunction) -> list[LinkedInstruction]:
        """A function's instructions with callees and operands resolved; made once."""
        found = self._linked.get(function.name)
        if found is None:
            found = [self._link(function, i) for i in function.instructions]
            self._linked[function.name] = found
        return found

    def _link(self, function: VMFunction, instruction: Instruction) -> LinkedInstruction:
        match instruction:
            case Call(dst):
                return _CALL, dst, self._link_call(function, instruction)
            case Goto(offset):
                return _GOTO, offset, None
            case If(condition, false_offset):
                return _IF, condition, false_offset
            case Ret(arg):
                operands = self._operands((arg,))
                return _RET, 0, lambda frame: operands(frame.registers)[0]

    def _operands(self, args: Sequence[Arg]) -> Callable[[list[Any]], list[Any]]:
        """Gives an instruction's operands from the registers; the rest is filled in already."""
        template: list[Any] = []
        places: list[tuple[int, int]] = []
        for slot, arg in enumerate(args):
            match arg:
                case Reg(index):
                    places.append((slot, index))
                    template.append(None)
                case Const(index):
                    template.append(self.constants[index])
                case Imm(value):
                    template.append(value)

        def fetch(registers: list[Any]) -> list[Any]:
            values = template.copy()
            for slot, index in places:
                values[slot] = registers[index]
            return values

        return fetch

    def _link_call(self, function: VMFunction, call: Call) -> Step:
        kind, name = call.func.split(":", 1)
        fetch = self._operands(call.args)
        match kind:
            case "kernel":
                kernel = self.kernels[name]
                dims = compile_shapes(call.dims, function.dim_names)
                return lambda frame: kernel.run(fetch(frame.registers), dims(frame.dims))
            case "env":
                return lambda frame: registry.call_func(name, fetch(frame.registers))
            case "vm":
                callee = self.program.functions[name]
                return lambda frame: self._execute(callee, fetch(frame.registers), frame.observer)
            case _:
                specialised = link_static(name, call.args)
                if specialised is not None:
                    return specialised
                builtin = get_builtin(name)
                return lambda frame: builtin(frame, *fetch(frame.registers))


def _constant(constants: list[object], index: int) -> Tensor:
    """A constant as a Tensor with the alignment kernels rely on; the program keeps that one
    copy."""
    value = constants[index]
    if isinstance(value, np.ndarray):
        value = wrap(np.ascontiguousarray(value).reshape(value.shape), dtype_of(value))
    if not isinstance(value, Tensor):
        raise VMError(
            f"Constant {index} of the program is {type(value).__name__}, "
            "not an array or a tensor. A program loaded from text needs its constants."
        )
    if value.pointer % ALIGNMENT:
        value = array(value)
    constants[index] = value
    return value
