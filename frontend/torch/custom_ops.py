"""register_torch_op: a converter for an operator of torch that burnish has none for.

    @torch.library.custom_op("mine::soft_clip", mutates_args=())
    def soft_clip(x: torch.Tensor, limit: float) -> torch.Tensor: ...

    burnish.register_torch_op("mine::soft_clip", "soft_clip")

torch.export keeps such an operator whole, of whose results it needs a ``register_fake``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from ...graphir.dim import print_shape, static_value
from ...graphir.expr import Atom
from ...graphir.type import TensorType, TupleType
from ...support.errors import BurnishError, FrontendError
from ...support.keywords import hinted
from ..custom_ops import Converter, add_converter, call_converter, check_converter, emitted
from .registry import REGISTRY, Context, arguments, location


@hinted
def register_torch_op(
    name: Any,
    convert: Converter | None = None,
    *,
    environment: str | None = None,
    override: bool = False,
) -> None:
    """Say what an operator of torch (``"mine::op"``, ``"mine::op.overload"``, or the operator
    itself) is in a graph.

    ``convert`` is called with the operator's arguments: atoms for tensors (lists of them for lists,
    None for what is absent), Python values for all else; it gives a graph value, or a tuple of them
    for an operator of several results. It may be the name of a graph operator (``define_op``),
    whose attributes are called as the arguments are. With ``environment`` the operator is an
    environment function of this name, which is called with its tensors and the results.

    An operator may be registered again. Raises BurnishError for one that burnish has a converter
    for, unless ``override``.
    """
    check_converter("register_torch_op", convert, environment)
    known = _operator_name(name)

    def converter(context: Context, node: Node) -> Any:
        return _converted(context, node, convert, environment)

    add_converter(REGISTRY, known, converter, override=override)


def _operator_name(operator: Any) -> str:
    """``mine.op.default`` of what names an operator."""
    if isinstance(operator, torch._ops.OpOverload):
        return str(operator)
    if isinstance(operator, torch._ops.OpOverloadPacket):
        return f"{operator._qualified_op_name.replace('::', '.')}.default"
    qualified = getattr(operator, "_qualname", operator)  # torch.library.custom_op's own class
    if not isinstance(qualified, str) or "::" not in qualified:
        raise BurnishError(
            'register_torch_op takes an operator\'s name, as in "mine::op", or the operator; '
            f"found {operator!r}."
        )
    namespace, _, rest = qualified.partition("::")
    base, _, overload = rest.partition(".")
    return f"{namespace}.{base}.{overload or 'default'}"


def _converted(
    context: Context, node: Node, convert: Converter | None, environment: str | None
) -> Any:
    target = node.target
    assert isinstance(target, torch._ops.OpOverload)
    given = {k: _argument(context, v) for k, v in arguments(node).items()}
    keyword_only = {a.name for a in target._schema.arguments if a.kwarg_only}
    fakes = node.meta["val"]
    several = isinstance(fakes, (tuple, list))
    kinds = [context.tensor_type(f, location(node)) for f in (fakes if several else [fakes])]

    def result() -> TensorType | TupleType:
        return TupleType(tuple(kinds)) if several else kinds[0]

    if isinstance(convert, str):
        args, options = list(given.values()), given
    else:
        args = [v for k, v in given.items() if k not in keyword_only]
        options = {k: v for k, v in given.items() if k in keyword_only}
    values = call_converter(convert, environment, args, options, result, context.place)
    atoms = emitted(context.builder, values)
    if len(atoms) != len(kinds):
        raise FrontendError(
            f"{context.place}: its converter gave {len(atoms)} values, and torch has {len(kinds)}."
        )
    for atom, kind in zip(atoms, kinds, strict=True):
        _check_type(context, atom, kind)
    return atoms if several else atoms[0]


def _argument(context: Context, argument: Any) -> Any:
    """An argument as a converter gets it."""
    value = context.value(argument)
    return value if not isinstance(argument, torch.dtype) else str(argument).partition(".")[2]


def _check_type(context: Context, atom: Atom, wanted: TensorType) -> None:
    """Raise FrontendError where a converter's value is of another dtype, or of other known sizes,
    than torch says."""
    found = context.type(atom)
    known = [[static_value(d) for d in kind.shape] for kind in (found, wanted)]
    if (
        found.dtype is not wanted.dtype
        or found.ndim != wanted.ndim
        or any(None not in (a, b) and a != b for a, b in zip(*known, strict=True))
    ):
        raise FrontendError(
            f"{context.place}: its converter gave {_text(found)}, and torch says {_text(wanted)}."
        )


def _text(kind: TensorType) -> str:
    return f"{kind.dtype}{print_shape(kind.shape)}"


__all__ = ["register_torch_op"]
