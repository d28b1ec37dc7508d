"""Operators without a converter as environment functions: ``fallback="torch"``.

    %y = aten._linalg_svd.default(%x)   ->   R.call_dps_packed("torch.aten._linalg_svd.default.0",
                                                              x, ...)

The node's own operator is called on tensors that share the program's memory, and its results are
copied into the memory that the program planned for them: shapes are those of the exported program's
metadata, so that the callee's results must have them. A complex tensor is one of real numbers with
a last axis of 2; a node that takes or gives complex numbers, of which ``complex_pairs`` has made no
real ones, runs here whatever converters there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.fx.node import map_arg

from ...graphir.expr import Atom
from ...graphir.type import TensorType
from ...support.errors import EnvironmentFunctionError
from ...tensorir.expr import Expr
from ..fallback import FallbackCalls
from .complex_pairs import BORDERS
from .registry import DTYPES, REAL, REGISTRY, Context, location, operator_name


class Fallback(FallbackCalls):
    """The operators of one program that run in torch."""

    def __init__(self) -> None:
        super().__init__("torch", "torch")

    def emit(self, context: Context, node: Node) -> Any:
        """Emit the call of a node's operator. Raises FrontendError where a result has a size that
        only data tell, or a dtype that no tensor of ours has."""
        operands: list[Atom] = []
        kinds: list[Any] = []

        def take(argument: Node) -> Any:
            value, fake = context.values[argument.name], argument.meta.get("val")
            if isinstance(value, (bool, int, float)):
                return value
            is_size = isinstance(value, Expr)
            if is_size:
                kinds.append(torch.int64)
            elif isinstance(fake, torch.Tensor):
                kinds.append(fake.dtype)
            else:
                raise context.refuse(f"takes {argument.name!r}, which cannot be handed to torch.")
            operands.append(context.operand(argument))
            return _Operand(len(operands) - 1, is_size=is_size)

        args = map_arg(node.args, take)
        kwargs = map_arg(node.kwargs, take)
        fakes = node.meta["val"]
        is_several = isinstance(fakes, (tuple, list))
        types = [self._type(context, f) for f in (fakes if is_several else [fakes])]
        operator = operator_name(node)
        self.note(operator, location(node), types)
        function = _adapter(node, args, kwargs, kinds)
        made = self.emit_call(context.builder, operator, function, operands, types)
        return made if is_several else made[0]

    def _type(self, context: Context, fake: Any) -> TensorType:
        assert context.node is not None
        if not isinstance(fake, torch.Tensor):
            raise context.refuse("gives something that is no tensor, which torch cannot do for us.")
        return context.tensor_type(fake, location(context.node))


class _Operand:
    """An argument that is the call's operand ``index``; ``is_size`` of a number given as one."""

    def __init__(self, index: int, *, is_size: bool) -> None:
        self.index, self.is_size = index, is_size


def can_fall_back(node: Node) -> bool:
    """Whether a node is a pure operator whose results are tensors of sizes known before the
    call."""
    target, fakes = node.target, node.meta.get("val")
    if not isinstance(target, torch._ops.OpOverload) or target._schema.is_mutable:
        return False
    results = fakes if isinstance(fakes, (tuple, list)) else [fakes]
    return bool(results) and all(map(_has_type, results))


def _has_type(fake: Any) -> bool:
    if not isinstance(fake, torch.Tensor) or fake.layout is not torch.strided:
        return False
    return (fake.dtype in DTYPES or fake.dtype in REAL) and not _depends_on_data(fake)


def _depends_on_data(fake: torch.Tensor) -> bool:
    return bool(free_unbacked_symbols(fake))


def must_fall_back(node: Node) -> bool:
    """Whether no converter can do: there is none, or complex numbers are at hand."""
    if operator_name(node) in ("operator.getitem", *BORDERS):
        return False
    return REGISTRY.get(operator_name(node)) is None or has_complex(node)


def has_complex(node: Node) -> bool:
    """Whether a node takes or gives complex numbers."""
    return any([is_complex(n.meta.get("val")) for n in (node, *node.all_input_nodes)])


def real_of(tensor: Any) -> Any:
    """A weight as it is handed to operators that run here: a complex one as real numbers."""
    is_one = isinstance(tensor, torch.Tensor) and tensor.dtype in REAL
    return torch.view_as_real(tensor.detach().resolve_conj()) if is_one else tensor


def is_complex(fake: Any) -> bool:
    """Whether a value is, or holds, a tensor of complex numbers."""
    if isinstance(fake, (tuple, list)):
        return any(map(is_complex, fake))
    return isinstance(fake, torch.Tensor) and fake.dtype.is_complex


def _adapter(
    node: Node, args: Any, kwargs: Any, kinds: Sequence[torch.dtype]
) -> Callable[..., None]:
    """The environment function: inputs first, then outputs to write."""
    target, place = node.target, f"{operator_name(node)} at {location(node)}"
    assert callable(target)
    several = isinstance(node.meta["val"], (tuple, list))
    dtypes = [f.dtype for f in (node.meta["val"] if several else [node.meta["val"]])]

    def call(*tensors: Any) -> None:
        inputs = [_shared(t, k) for t, k in zip(tensors, kinds, strict=False)]
        outs = [_shared(t, k) for t, k in zip(tensors[len(kinds) :], dtypes, strict=True)]
        with torch.no_grad():
            found = target(*_filled(args, inputs), **_filled(kwargs, inputs))
            for out, value in zip(outs, found if several else [found], strict=True):
                if value.shape != out.shape or value.dtype != out.dtype:
                    raise EnvironmentFunctionError(
                        f"{place} gave a result of shape {list(value.shape)} and {value.dtype}; "
                        f"the exported program says {list(out.shape)} and {out.dtype}. Correct the "
                        "operator's fake implementation."
                    )
                out.copy_(value)

    return call


def _filled(given: Any, inputs: Sequence[torch.Tensor]) -> Any:
    """Arguments with the call's operands in their places."""
    if isinstance(given, _Operand):
        value = inputs[given.index]
        return int(value) if given.is_size else value
    if isinstance(given, (tuple, list)):
        return type(given)([_filled(g, inputs) for g in given])
    if isinstance(given, dict):
        return {k: _filled(g, inputs) for k, g in given.items()}
    return given


def _shared(tensor: Any, dtype: torch.dtype) -> torch.Tensor:
    """A tensor of the program as one of torch, on the same memory."""
    found = torch.utils.dlpack.from_dlpack(tensor.data)
    if dtype is torch.bfloat16:
        return found.view(dtype)
    return torch.view_as_complex(found) if dtype.is_complex else found
