"""register_onnx_op: a converter for an operator of a domain of one's own.

burnish.register_onnx_op("mine::SoftClip", "soft_clip")
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper

from ...support.errors import BurnishError, FrontendError
from ...support.keywords import hinted
from ..custom_ops import Converter, add_converter, call_converter, check_converter, emitted
from .registry import REGISTRY, Context, node_name, values_of


@hinted
def register_onnx_op(
    name: str,
    convert: Converter | None = None,
    *,
    environment: str | None = None,
    like: int = 0,
    override: bool = False,
) -> None:
    """Say what an operator of ONNX (``"domain::Type"``, or ``"Type"`` of the default domain) is in
    a graph.

    ``convert`` is called with the node's inputs as atoms (None for one that is absent) and its
    attributes by name, as Python values (a tensor is a NumPy array); it gives a graph value, or a
    tuple of them. It may be the name of a graph operator (``define_op``), whose attributes are
    called as the node's are. With ``environment`` the operator is an environment function of this
    name, which is called with the inputs and one result of the type of input number ``like``.

    An operator may be registered again. Raises BurnishError for one that burnish has a converter
    for, unless ``override``.
    """
    check_converter("register_onnx_op", convert, environment)
    if not isinstance(name, str) or not name.split("::")[-1].isidentifier():
        raise BurnishError(
            f'register_onnx_op takes an operator\'s name, as in "mine::SoftClip"; found {name!r}.'
        )
    domain, _, kind = name.rpartition("::")
    known = kind if domain in ("", "ai.onnx") else f"{domain}.{kind}"

    def converter(context: Context, node: NodeProto) -> Any:
        return _converted(context, node, convert, environment, like)

    add_converter(REGISTRY, known, converter, override=override)


def _converted(
    context: Context, node: NodeProto, convert: Converter | None, environment: str | None, like: int
) -> Any:
    where = node_name(node)
    raw = [context.raw(node, i) for i in range(len(node.input))]
    args = [None if v is None else context.tensor(v, where) for v in raw]
    options = {a.name: _attribute(helper.get_attribute_value(a), where) for a in node.attribute}

    def result() -> Any:
        if like >= len(args) or (model := args[like]) is None:
            raise FrontendError(
                f"{where}: it has no input {like}, whose type its result is to have."
            )
        return context.type(model)

    values = call_converter(convert, environment, args, options, result, where)
    atoms = emitted(context.builder, values)
    if len(atoms) < len(node.output):
        raise FrontendError(
            f"{where}: its converter gave {len(atoms)} values, and the node has "
            f"{len(node.output)} outputs."
        )
    return list(atoms)


def _attribute(value: Any, where: str) -> Any:
    """An attribute as a converter gets it. Raises FrontendError for a graph."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, TensorProto):
        array: np.ndarray = values_of(value, where)[0]
        return array
    if isinstance(value, (list, tuple)):
        return [_attribute(v, where) for v in value]
    if isinstance(value, (int, float, str)):
        return value
    raise FrontendError(f"{where}: an attribute is a {type(value).__name__}, which no converter of "
                        "one's own can be given.")  # fmt: skip


__all__ = ["register_onnx_op"]
