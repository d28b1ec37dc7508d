"""RepeatCasts: a widening of half precision that several kernels read, each makes by itself.

Norms that are written out compute in float32 what they read twice, for their sum and for their
result. Made once, the wide numbers are a tensor of their own, twice as long as the one that they
are made of, which is written and read again; made where they are read, they are never in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...support.node import replace
from ...support.passes import Pass
from ...tensorir.buffer import Buffer
from ...tensorir.function import PrimFunc
from ..expr import Binding, CallDPS, Value, Var
from ..module import IRModule
from ..mutator import ExprMutator
from .legalize import LEGALIZED

_HALVES = ("bfloat16", "float16")
_TAKES_IN = ("elementwise", "broadcast", "injective", "reduction")
"""The patterns of kernels that what makes their operands is fused into."""


@dataclass(frozen=True)
class RepeatCasts(Pass):
    """Give each kernel that such a widening may be fused into one of its own.

    *requires*: annotate-pattern. *ensures*: the values are unchanged; what nothing reads any more
    is left to dead-code-elimination.

        h = R.call_dps(cls.astype, (x,), ...)       # bfloat16 to float32
        s = R.call_dps(cls.square_mean, (h,), ...)
        y = R.call_dps(cls.multiply, (h, s), ...)
    becomes
        h = R.call_dps(cls.astype, (x,), ...)
        h1 = R.call_dps(cls.astype, (x,), ...)
        s = R.call_dps(cls.square_mean, (h1,), ...)
        h2 = R.call_dps(cls.astype, (x,), ...)
        y = R.call_dps(cls.multiply, (h2, s), ...)
    """

    def run(self, module: IRModule) -> IRModule:
        if not any(_widens(f) for f in module.prim_funcs.values()):
            return module
        return _Repeater(module).transform()


class _Repeater(ExprMutator):
    def __init__(self, module: IRModule) -> None:
        super().__init__(module)
        self.casts: dict[Var, CallDPS] = {}

    def visit_binding(self, binding: Binding) -> None:
        super().visit_binding(binding)
        value = binding.value
        new = self.replaced.get(binding.var, binding.var)
        if isinstance(value, CallDPS) and isinstance(new, Var) and self._is_cast(value):
            made = self.lookup_binding(new)
            if isinstance(made, CallDPS):
                self.casts[new] = made

    def _is_cast(self, call: CallDPS) -> bool:
        func = self.module[call.func]
        return isinstance(func, PrimFunc) and _widens(func)

    def visit_CallDPS(self, call: CallDPS) -> Value:  # noqa: N802
        new = super().visit_CallDPS(call)
        assert isinstance(new, CallDPS)
        func = self.module[call.func]
        read = {a for a in new.args if isinstance(a, Var) and a in self.casts}
        if not read or not isinstance(func, PrimFunc) or not _takes_in(func):
            return new
        own = {a: self.emit(self.casts[a], a.name) for a in read}
        args = tuple([own.get(a, a) if isinstance(a, Var) else a for a in new.args])
        return replace(new, args=args)


def _takes_in(func: PrimFunc) -> bool:
    is_ours = func.attr(LEGALIZED) and not func.attr("is_scheduled")
    return bool(is_ours) and func.attr("op_pattern") in _TAKES_IN


def _widens(func: PrimFunc) -> bool:
    """Whether a kernel does nothing but make half precision float32."""
    if func.attr(LEGALIZED) != "astype" or not _takes_in(func) or len(func.params) != 2:
        return False
    x, y = func.params
    if not isinstance(x, Buffer) or not isinstance(y, Buffer):
        return False
    return x.dtype in _HALVES and y.dtype == "float32"
