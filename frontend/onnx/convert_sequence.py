"""Sequences and optionals of ONNX: lists of values and None, known when the model is imported."""

from __future__ import annotations

from onnx import NodeProto

from ...graphir.dim import static_value
from ...graphir.expr import constant
from ...support.errors import FrontendError
from .registry import Context, Value, attribute, converts, node_name


def _sequence(context: Context, node: NodeProto) -> list[Value]:
    value = context.raw(node, 0)
    if not isinstance(value, list):
        raise FrontendError(f"{node_name(node)}: its first input is no sequence.")
    return value


def _position(context: Context, node: NodeProto, index: int, length: int) -> int | None:
    given = context.number(node, index)
    if given is None:
        return None
    if not -length <= given < length:
        raise FrontendError(f"{node_name(node)}: position {given} of {length} elements.")
    return int(given) % length


@converts("SequenceEmpty")
def empty(context: Context, node: NodeProto) -> list[Value]:
    return [[]]


@converts("SequenceConstruct")
def construct(context: Context, node: NodeProto) -> list[Value]:
    return [context.inputs(node)]


@converts("SequenceInsert")
def insert(context: Context, node: NodeProto) -> list[Value]:
    """Before a position, or at the end."""
    values = _sequence(context, node)
    at = _position(context, node, 2, len(values) + 1) if len(node.input) > 2 else None
    # A negative position counts from the end of the sequence as it was.
    given = context.number(node, 2)
    if given is not None and given < 0:
        at = int(given) + len(values)
    at = len(values) if at is None else at
    return [[*values[:at], context.required(node, 1), *values[at:]]]


@converts("SequenceErase")
def erase(context: Context, node: NodeProto) -> list[Value]:
    values = _sequence(context, node)
    at = _position(context, node, 1, len(values))
    at = len(values) - 1 if at is None else at
    return [[*values[:at], *values[at + 1 :]]]


@converts("SequenceAt")
def element(context: Context, node: NodeProto) -> list[Value]:
    values = _sequence(context, node)
    return [values[_position(context, node, 1, len(values)) or 0]]


@converts("SequenceLength")
def length(context: Context, node: NodeProto) -> Value:
    return constant(len(_sequence(context, node)), "int64")


@converts("ConcatFromSequence")
def joined(context: Context, node: NodeProto) -> Value:
    """Along an axis that is there, or a new one."""
    where = node_name(node)
    parts = [context.tensor(v, where) for v in _sequence(context, node)]
    axis = int(attribute(node, "axis"))
    if attribute(node, "new_axis", 0):
        parts = [context.op("expand_dims", p, axis=axis) for p in parts]
    return context.op("concat", *parts, axis=axis)


@converts("SplitToSequence")
def split(context: Context, node: NodeProto) -> list[Value]:
    """Into parts of one size (the last may be smaller), of given sizes, or into elements, whose
    axis goes unless ``keepdims``."""
    x = context.operand(node, 0)
    kind = context.type(x)
    axis = int(attribute(node, "axis", 0)) % max(kind.ndim, 1)
    whole = static_value(kind.shape[axis])
    if whole is None:
        raise FrontendError(f"{node_name(node)}: an axis of symbolic size; make the dim static.")
    given = None if context.raw(node, 1) is None else context.shape_value(node, 1)
    sizes = [1] * whole
    if given is not None:
        found = context.ints(node, 1) or []
        sizes = found
        if given.scalar:
            each = max(found[0], 1)
            sizes = [min(each, whole - i) for i in range(0, whole, each)]
    parts: list[Value] = []
    begin = 0
    for size in sizes:
        ends = {"begin": (begin,), "end": (begin + size,), "strides": (1,)}
        part = context.op("strided_slice", x, axes=(axis,), **ends)
        if given is None and not attribute(node, "keepdims", 1):
            part = context.op("squeeze", part, axis=axis)
        parts.append(part)
        begin += size
    return [parts]


@converts("Optional")
def optional(context: Context, node: NodeProto) -> list[Value]:
    return [context.raw(node, 0)]


@converts("OptionalHasElement")
def has_element(context: Context, node: NodeProto) -> Value:
    return constant(context.raw(node, 0) is not None, "bool")


@converts("OptionalGetElement")
def get_element(context: Context, node: NodeProto) -> list[Value]:
    return [context.required(node, 0)]
