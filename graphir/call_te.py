"""From a function on compute Tensors to a PrimFunc and a call of it: what ``BlockBuilder.emit_te``
emits.

    def linear(x, w, b): ...                 # te.compute over placeholders
    call = lower_te(linear, (x, w, b), {})   # x, w, b: graph variables or constants

Each tensor among the arguments becomes a placeholder of its type, named after the parameter that
receives it; everything else is passed on. The PrimFunc has symbolic dims of its own, because the
caller's belong to the caller. Nothing is scheduled here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..support.errors import ComputeError
from ..support.node import walk
from ..tensorir import expr as tir
from ..tensorir.function import PrimFunc
from ..tensorir.te.create_prim_func import create_prim_func
from ..tensorir.te.tensor import Tensor, placeholder
from .dim import OwnDims, static_value, substitute_dim
from .expr import (
    Atom,
    Call,
    CallDPS,
    CallDPSPacked,
    CallFunction,
    Constant,
    GlobalVar,
    If,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from .op import type_of
from .type import TensorType, TupleType, Type

_UNBOUND = (Call, CallDPS, CallDPSPacked, CallFunction, TupleGetItem, If)


@dataclass(frozen=True)
class LoweredTE:
    """A PrimFunc, the graph values to call it with, and the type of what it writes."""

    func: PrimFunc
    args: tuple[Atom, ...]
    out_type: Type


def lower_te(
    func: Callable[..., Any],
    args: Sequence[Any],
    options: Mapping[str, Any],
    *,
    attrs: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> LoweredTE:
    """Call ``func`` with placeholders in place of graph values and make a PrimFunc of what it
    returns: one Tensor, or a list of them.

    ``attrs`` become attributes of the PrimFunc, ``name`` its name (else that of ``func``). Raises
    ComputeError where the arguments do not fit, or where something else than Tensors comes back.
    """
    title = name or _title(func)
    if not callable(func):
        raise ComputeError(
            "emit_te takes a function on te Tensors first, then its arguments; found "
            f"{type(func).__name__}."
        )
    inputs = _Inputs(title)
    given, named = _named_arguments(func, args, options, title)
    # Tensors first: a number may be a dim of a tensor that comes after it.
    positional = [inputs.tensors(key, value) for key, value in given]
    keywords = {key: inputs.tensors(key, value) for key, value in named.items()}
    result = func(
        *[inputs.dims(value) for value in positional],
        **{key: inputs.dims(value) for key, value in keywords.items()},
    )
    outputs = _outputs(result, inputs, title)
    made = create_prim_func([*inputs.placeholders, *outputs], title)
    for key, value in (attrs or {}).items():
        made = made.with_attr(key, value)
    inputs.check_dims(made)
    kinds = tuple([inputs.callers_type(t) for t in outputs])
    is_single = isinstance(result, Tensor)
    return LoweredTE(made, tuple(inputs.args), kinds[0] if is_single else TupleType(kinds))


def _title(func: object) -> str:
    """A name for the PrimFunc of a function: its own, if that is a name."""
    inner = getattr(func, "func", func)  # functools.partial
    name = getattr(inner, "__name__", "")
    return name if name.isidentifier() else "te_func"


def _named_arguments(
    func: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any], title: str
) -> tuple[list[tuple[str, Any]], dict[str, Any]]:
    """Each positional argument with the name of the parameter that receives it, and the keyword
    arguments."""
    try:
        signature = inspect.signature(func)
    except (TypeError, ValueError):  # a builtin, which Python cannot describe
        return [(f"arg{i}", a) for i, a in enumerate(args)], dict(options)
    try:
        signature.bind(*args, **options)
    except TypeError as error:
        bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
        raise ComputeError(
            f"emit_te: {title}{inspect.Signature(bare)} cannot be called so: {error}."
        ) from None
    names: list[str] = []
    for p in signature.parameters.values():
        if p.kind is p.VAR_POSITIONAL:
            names += [f"{p.name}_{i}" for i in range(len(args) - len(names))]
        elif p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            names.append(p.name)
    return list(zip(names, args, strict=False)), dict(options)


class _Inputs:
    """The arguments of one call: placeholders for the tensors, dims of the kernel's own."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.args: list[Atom] = []
        self.placeholders: list[Tensor] = []
        self.own = OwnDims()
        self.callers: dict[tir.Var, tir.Expr] = {}
        """The kernel's dims to the caller's."""

    def tensors(self, name: str, value: Any) -> Any:
        """The argument with every graph value in it replaced by a placeholder."""
        if isinstance(value, Tuple):
            value = list(value.fields)
        if isinstance(value, (list, tuple)):
            items = [self.tensors(f"{name}_{i}", v) for i, v in enumerate(value)]
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, dict):
            return {k: self.tensors(f"{name}_{k}", v) for k, v in value.items()}
        if isinstance(value, _UNBOUND):
            raise ComputeError(
                f"emit_te: the argument {name!r} of {self.title} is an operation that has no "
                "variable yet; emit it first: x = bb.emit(...)."
            )
        if isinstance(value, GlobalVar):
            raise ComputeError(
                f"emit_te: the argument {name!r} of {self.title} is the function {value.name!r}, "
                "not a tensor."
            )
        if not isinstance(value, (Var, Constant)):
            return value
        kind = type_of(value)
        if not isinstance(kind, TensorType):
            raise ComputeError(
                f"emit_te: the argument {name!r} of {self.title} has the type "
                f"{type(kind).__name__}; expected a tensor. Take a tuple apart with "
                "TupleGetItem."
            )
        shape = [self._own_dim(d) for d in kind.shape]
        self.args.append(value)
        self.placeholders.append(placeholder(shape, str(kind.dtype), name))
        return self.placeholders[-1]

    def _own_dim(self, dim: tir.Expr) -> tir.Expr:
        own = self.own(dim)
        if isinstance(own, tir.Var):
            self.callers[own] = dim
        return own

    def dims(self, value: Any) -> Any:
        """The argument with the caller's dims in it replaced by the kernel's."""
        if isinstance(value, ShapeExpr):
            return [self.dims(v) for v in value.values]
        if isinstance(value, (list, tuple)):
            items = [self.dims(v) for v in value]
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, dict):
            return {k: self.dims(v) for k, v in value.items()}
        if not isinstance(value, tir.Expr) or not value.dtype.is_integer:
            return value
        number = static_value(value)
        if number is not None:
            return number
        known = {theirs: own for own, theirs in self.callers.items() if isinstance(theirs, tir.Var)}
        variables = [n for n in walk(value) if isinstance(n, tir.Var)]
        if all(v in known for v in variables):
            return substitute_dim(value, known)
        return self._own_dim(value)

    def check_dims(self, func: PrimFunc) -> None:
        """Raise ComputeError for a dim that a caller cannot know from the shapes of the tensors."""
        solvable = {id(v) for v in func.shape_vars}
        for n in walk(func.body):
            if isinstance(n, tir.Var) and n in self.callers and id(n) not in solvable:
                raise ComputeError(
                    f"emit_te: {self.title} reads the size {n.name!r}, which is in the shape of "
                    "none of its tensors, so that the kernel cannot know it. Pass a tensor of "
                    "that size as well."
                )

    def callers_type(self, tensor: Tensor) -> TensorType:
        """The type of an output in the dims of the caller."""
        return TensorType(
            tuple([substitute_dim(d, self.callers) for d in tensor.shape]), tensor.dtype
        )


def _outputs(result: Any, inputs: _Inputs, title: str) -> list[Tensor]:
    """What the te function returned, checked."""
    found = [result] if isinstance(result, Tensor) else result
    if not isinstance(found, (list, tuple)) or not found:
        raise ComputeError(
            f"emit_te: {title} returned {_describe(result)}; expected a te Tensor or a list of "
            "them."
        )
    for t in found:
        if not isinstance(t, Tensor):
            raise ComputeError(
                f"emit_te: {title} returned a list with {_describe(t)} in it; expected te Tensors."
            )
        if t.op is None:
            raise ComputeError(
                f"emit_te: {title} returned its argument {t.name!r} as it came; there is nothing "
                "to compute. Use the graph value itself."
            )
    if len({id(t) for t in found}) != len(found):
        raise ComputeError(f"emit_te: {title} returned one Tensor twice; each output is its own.")
    return list(found)


def _describe(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
