"""Executable: what ``build`` gives, whatever the module held: a program, its kernels, and the IR it came
from at every stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..graphir.module import IRModule
from ..support.errors import UnknownFunctionError
from ..support.target import Target
from ..vm.interpreter import VirtualMachine
from ..vm.native import BoundKernel
from ..vm.program import Program
from ..vm.timing import TimeEvaluator
from .report import CompileReport
from .threads import runtime


@dataclass
class Executable:
    """``lib["main"](a, b, c)`` calls a PrimFunc (the last arguments are written); for graph functions
    use ``burnish.VirtualMachine(lib)``."""

    module: IRModule
    """The module at the last stage of IR: scheduled, weights packed."""
    program: Program
    target: Target
    report: CompileReport
    stages: dict[str, IRModule] = field(default_factory=dict)
    """The module after each stage, by the stage's name."""
    threads: int = 1
    _vm: VirtualMachine | None = field(default=None, repr=False)

    @property
    def vm(self) -> VirtualMachine:
        """The machine that runs the program; its object code is linked at the first use."""
        if self._vm is None:
            self._vm = VirtualMachine(self.program, runtime=runtime(self.threads))
        return self._vm

    def _kernel(self, name: str) -> BoundKernel:
        kernels = {n: k for n, k in self.vm.kernels.items() if n in self.module.prim_funcs}
        if name in kernels:
            return kernels[name]
        if len(kernels) == 1 and name == "main":
            return next(iter(kernels.values()))
        raise UnknownFunctionError(name, kernels, "the library")

    def __getitem__(self, name: str) -> Callable[..., None]:
        """A kernel as a function of arrays, outputs last; ``"main"`` finds the only one of a library.

        Raises UnknownFunctionError with the nearest name.
        """
        return self._kernel(name)

    def time_evaluator(
        self, name: str = "main", number: int = 10, repeat: int = 3, min_repeat_ms: float = 0
    ) -> TimeEvaluator:
        """``lib.time_evaluator("main")(a, b, c).mean`` is seconds a call of the kernel alone."""
        return TimeEvaluator(self._kernel(name).prepare, number, repeat, min_repeat_ms)
