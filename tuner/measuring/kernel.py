"""A lowered function as the kernel descriptor that vm binds: parameters, outputs, workspace sizes.

The descriptor is data: which arguments a kernel takes and how much memory its caller lends it. The
code it describes was emitted elsewhere and is bound elsewhere.
"""

from __future__ import annotations

from typing import Protocol

from ...support.errors import CodegenError
from ...support.node import walk
from ...tensorir.arith import Analyzer
from ...tensorir.buffer import Buffer
from ...tensorir.expr import Expr, IntImm, Var, is_const, mul
from ...tensorir.function import PrimFunc
from ...tensorir.text.dim_text import print_dim
from ...vm.program import Kernel, Param, TensorSpec


class Workspace(Protocol):
    """What a kernel's caller lends it, over the function's symbolic dims; a LoweredFunc, say."""

    @property
    def shared_bytes(self) -> Expr: ...
    @property
    def thread_bytes(self) -> Expr: ...


def describe_kernel(func: PrimFunc, lowered: Workspace, symbol: str | None = None) -> Kernel:
    """The descriptor of ``func``, whose object code needs the workspace of ``lowered``.

    Symbolic dims keep their names, made unique where two share one. Raises CodegenError for a
    function with scalar parameters, which no caller of ours passes, and for parameters that are
    not compact: callers pass contiguous arrays.
    """
    names: dict[int, str] = {}
    for var in func.shape_vars:
        name = var.name
        while name in names.values():
            name += "_"
        names[id(var)] = name

    def name_of(var: Var) -> str:
        return names[id(var)]

    _require_no_scalars(func)
    params = []
    for p in func.buffers:
        _require_compact(func, p)
        shape = tuple([print_dim(d, name_of) for d in p.shape])
        params.append(Param(p.name, TensorSpec(shape, str(p.dtype))))
    written = {id(b) for b in func.written}
    return Kernel(
        name=func.name,
        symbol=symbol or str(func.attr("global_symbol") or func.name),
        params=tuple(params),
        outputs=tuple([i for i, p in enumerate(func.params) if id(p) in written]),
        dims=tuple(names.values()),
        shared_bytes=print_dim(lowered.shared_bytes, name_of),
        thread_bytes=print_dim(lowered.thread_bytes, name_of),
        inplace=bool(func.attr("inplace")),
    )


def _require_no_scalars(func: PrimFunc) -> None:
    """Raises CodegenError for a parameter that is a scalar."""
    sizes = {n for b in func.buffers for d in b.shape for n in walk(d)}
    for p in func.params:
        if isinstance(p, Var) and p in sizes:
            raise CodegenError(
                f"{func.name}: the size {p.name!r} is a parameter. Leave it out of the parameters: "
                f'T.Buffer(("{p.name}",)), or {p.name} = T.int64() in the body, names a size that '
                "is read off the arguments."
            )
        if isinstance(p, Var):
            raise CodegenError(
                f"{func.name}: the parameter {p.name!r} is a scalar; pass it as a tensor of "
                "shape ()."
            )


def _require_compact(func: PrimFunc, p: Buffer) -> None:
    """Raises CodegenError unless the elements of a parameter lie one after another, from its
    beginning."""
    analyzer = Analyzer()
    step: Expr = IntImm(1)
    for size, stride in zip(reversed(p.shape), reversed(p.strides), strict=bool(p.strides)):
        if not is_const(size, 1) and not analyzer.can_prove_equal(stride, step):
            raise CodegenError(
                f"{func.name}: the parameter {p.name!r} is declared with strides that are not "
                "those of a contiguous array, which is what a call passes. Declare it without "
                "strides, or in the larger shape it is a part of."
            )
        step = mul(step, size)
    if not is_const(p.elem_offset, 0):
        raise CodegenError(
            f"{func.name}: the parameter {p.name!r} is declared with an elem_offset; a call passes "
            "arrays from their first element on. Declare it without one."
        )
