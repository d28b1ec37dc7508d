"""Executable: what ``build`` gives, whatever the module held: a program, its kernels, and the IR it
came from at every stage. It runs nothing by itself before it is asked to."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from ..graphir.module import IRModule
from ..graphir.passes.pass_list import PassList
from ..support.errors import ArgumentError, UnknownFunctionError
from ..support.keywords import hinted
from ..support.other_names import OtherName
from ..support.target import Target
from ..vm.binding import BoundKernel
from ..vm.interpreter import VirtualMachine
from ..vm.program import Program
from ..vm.timing import TimeEvaluator
from .report import CompileReport
from .runnable import check_runnable
from .threads import runtime


@hinted
@dataclass
class Executable:
    """``lib["main"](a, b, c)`` calls a PrimFunc (the last arguments are written); for graph
    functions use ``burnish.VirtualMachine(lib)``."""

    module: IRModule
    """The module at the last stage of IR: scheduled, weights packed."""
    program: Program
    target: Target
    report: CompileReport
    stages: Mapping[str, IRModule] = field(default_factory=dict)
    """The module after each stage, by the stage's name."""
    threads: int = 1
    """Threads of a call of ``lib[...]``."""
    passes: PassList | None = None
    """The user's passes among the compiler's, for compiling once more."""
    _vm: VirtualMachine | None = field(default=None, repr=False)

    entry_name = OtherName('lib["main"], which finds the only function under any name')
    get_function = OtherName('lib["main"]')
    import_module = OtherName("build(..., objects=)")
    imported_modules = OtherName("nothing: code of others comes in by build(..., objects=)")
    get_source = OtherName("stages, the module after each stage")
    imports = OtherName("nothing: code of others comes in by build(..., objects=)")
    inspect_source = OtherName("stages, the module after each stage")
    jit = OtherName('lib["main"], or burnish.VirtualMachine(lib)')
    stats = OtherName("program, which prints")
    as_text = OtherName("program, which prints")
    export_library = OtherName("a method of what burnish.compile(model) gives")
    save = OtherName("a method of what burnish.compile(model) gives")

    def __post_init__(self) -> None:
        self.report.compiled = weakref.ref(self)

    @property
    def mod(self) -> IRModule:
        """``module``, by the name that libraries have elsewhere."""
        return self.module

    def __repr__(self) -> str:
        count = len(self.program.kernels)
        names = ", ".join(self.module.functions)
        return f"<burnish executable of {names}: {count} kernel{'s' if count != 1 else ''}>"

    def __call__(self, *args: object) -> NoReturn:
        """Refused, with the functions to call."""
        names = ", ".join(f"lib[{name!r}](...)" for name in self.module.functions)
        raise ArgumentError(f"A library holds functions and is none: call {names}.")

    @property
    def vm(self) -> VirtualMachine:
        """The machine that runs the program; its object code is linked at the first use.

        Raises TargetError where the program was compiled for another CPU.
        """
        if self._vm is None:
            self._vm = VirtualMachine(self.program, runtime=self.runtime)
        return self._vm

    @property
    def runtime(self) -> int:
        """The address of the Runtime record a machine runs the program with: that of ``threads``
        threads. Raises TargetError where the program was compiled for another CPU."""
        check_runnable(self.target)
        return runtime(self.threads)

    def __getitem__(self, name: str) -> Callable[..., None]:
        """A kernel as a function of arrays, outputs last; ``"main"`` also finds the only one.

        Raises UnknownFunctionError with the nearest name, ArgumentError for a graph function.
        """
        return self._kernel(name)

    def time_evaluator(
        self, name: str = "main", number: int = 10, repeat: int = 3, min_repeat_ms: float = 0
    ) -> TimeEvaluator:
        """``lib.time_evaluator("main")(a, b, c).mean`` is seconds a call of the kernel alone."""
        return TimeEvaluator(self._kernel(name).prepare, number, repeat, min_repeat_ms)

    def _kernel(self, name: str) -> BoundKernel:
        if name in self.program.functions:
            raise ArgumentError(
                f"{name!r} is a graph function, which gives its results back: call it as "
                f"burnish.VirtualMachine(lib)[{name!r}](...)."
            )
        known = [n for n in self.module.prim_funcs if n in self.program.kernels]
        if name in known:
            return self.vm.kernels[name]
        if len(known) == 1 and name == "main":
            return self.vm.kernels[known[0]]
        raise UnknownFunctionError(name, known, "the library")
