"""A lowered function as the kernel descriptor that vm binds: parameters, outputs, workspace sizes."""

from __future__ import annotations

from ..support.errors import CodegenError
from ..tensorir.dim_text import print_dim
from ..tensorir.expr import Var
from ..tensorir.function import PrimFunc
from ..tensorir.lowering import LoweredFunc
from ..vm.program import Kernel, Param, TensorSpec


def describe_kernel(func: PrimFunc, lowered: LoweredFunc, symbol: str | None = None) -> Kernel:
    """The descriptor of ``func``, whose object code was emitted from ``lowered``.

    Symbolic dims keep their names, made unique where two share one. Raises CodegenError for a function
    with scalar parameters, which no caller of ours passes.
    """
    names: dict[int, str] = {}
    for var in func.shape_vars:
        name = var.name
        while name in names.values():
            name += "_"
        names[id(var)] = name
    params = []
    for p in func.params:
        if isinstance(p, Var):
            raise CodegenError(f"{func.name}: the parameter {p.name!r} is a scalar; pass it as a tensor of shape ().")
        shape = tuple([print_dim(d, lambda v: names[id(v)]) for d in p.shape])
        params.append(Param(p.name, TensorSpec(shape, str(p.dtype))))
    written = {id(b) for b in func.written}
    return Kernel(
        name=func.name,
        symbol=symbol or str(func.attr("global_symbol") or func.name),
        params=tuple(params),
        outputs=tuple([i for i, p in enumerate(func.params) if id(p) in written]),
        dims=tuple(names.values()),
        shared_bytes=print_dim(lowered.shared_bytes, lambda v: names[id(v)]),
        thread_bytes=print_dim(lowered.thread_bytes, lambda v: names[id(v)]),
        inplace=bool(func.attr("inplace")),
    )
