"""The walk over the nodes of a graph, of the graphs inside of it, and of functions.

A node is converted by its row of the table. Where it has none, but is a call of a function (one of
the model, or an operator that ONNX itself defines by others), the nodes of the function's body are
converted in its place, under names of their own. Nodes of a few known numbers are computed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import FunctionProto, GraphProto, NodeProto, TypeProto, helper

from ...graphir.dim import static_shape
from ...graphir.expr import Constant, constant
from ...support.errors import BurnishError, FrontendError, TypeInferenceError
from ...tensorir.expr import IntImm
from .initializers import bind_initializers
from .moved_parts import evaluated, moved
from .registry import (
    MOST_SIZES,
    REGISTRY,
    Context,
    Narrow,
    ShapeValue,
    Value,
    node_name,
)
from .well_formed import schema_of

MOST_NODES = 50_000
"""Nodes of graphs inside of others, these graphs, and nodes of functions, that a model may come
to."""
_GROWING = frozenset(
    [
        *("Constant", "ConstantOfShape", "Expand", "EyeLike", "OneHot", "Pad", "Range", "Resize"),
        *("Tile", "Upsample", "CenterCropPad", "Identity", "HannWindow", "HammingWindow"),
        *(
            "BlackmanWindow",
            "MelWeightMatrix",
            "Col2Im",
            "DFT",
            "STFT",
            "MaxUnpool",
            "TensorScatter",
        ),
        *("If", "Loop", "Scan", "SequenceMap", "RandomNormal", "RandomUniform", "RandomNormalLike"),
        *("RandomUniformLike", "Bernoulli", "Multinomial"),
    ]
)
"""Operators whose result may be large where their operands are small, or that are nothing to
compute."""


def operator_name(node: NodeProto) -> str:
    """What the table knows a node by."""
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


def all_nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Every node, those of graphs inside of nodes too."""
    for node in nodes:
        yield node
        for a in node.attribute:
            for graph in (a.g, *a.graphs):
                yield from all_nodes(graph.node)


def names_read(nodes: Sequence[NodeProto], outputs: Iterable[str]) -> frozenset[str]:
    """Names that some node or output reads."""
    return frozenset([*[i for n in all_nodes(nodes) for i in n.input], *outputs])


# -- nodes -----------------------------------------------------------------------------------------
def convert_nodes(context: Context, nodes: Iterable[NodeProto]) -> None:
    """Bind the results of each node in order."""
    for node in nodes:
        _convert(context, node)


def _convert(context: Context, node: NodeProto) -> None:
    """Bind the results of one node; every error says which node it was."""
    where = node_name(node)
    if context.depth > 0:
        _count(context, where)
    outer = context.place, context.where
    context.place = context.place or next(filter(None, node.output), where)
    context.where = context.where or where
    try:
        results = _results(context, node)
    except BurnishError as error:
        if isinstance(error, TypeInferenceError):
            error.cast_by("put a Cast in front of the node")
        if where not in str(error):
            raise error.note(f"while importing {where}") from None
        raise
    except (AttributeError, TypeError, ValueError, IndexError, ZeroDivisionError) as error:
        # attributes of a wrong kind, axes out of range: the model breaks ONNX's rules
        raise FrontendError(f"{where} is not valid ONNX: {error}.") from error
    finally:
        context.place, context.where = outer
    for name, value in zip(node.output, results, strict=False):
        if name:
            context.values[name] = value


def _count(context: Context, where: str) -> None:
    context.count += 1
    if context.count > MOST_NODES:
        raise FrontendError(
            f"{where}: its loops written out, the model comes to more than {MOST_NODES} nodes."
        )


def _results(context: Context, node: NodeProto) -> list[Value]:
    """What a node gives. A converter gives a list where its node has several results (or one that
    is a list), and NotImplemented where the operator's own function is to be taken."""
    computed = _computed(context, node)
    if computed is not None:
        return computed
    if _local(context, node) is None:
        result = _converted(context, node)
        if result is not NotImplemented:
            made = result if isinstance(result, list) else [result]
            return moved(context, node, made, _others)
    function = _function(context, node)
    if function is None and context.fallback is not None and context.fallback.can_run(node):
        return context.fallback.emit(context, node, operator_name(node))
    if function is None:
        raise FrontendError(f"{node_name(node)}: ONNX has no function for it in this form.")
    return _call(context, node, function)


def _converted(context: Context, node: NodeProto) -> Any:
    """What the node's converter gives; of one that refuses this form of it, what the fallback
    does. What is refused for its symbolic sizes is tried with known ones first."""
    convert = REGISTRY.get(operator_name(node))
    if convert is None:
        return NotImplemented
    try:
        return convert(context, node)
    except FrontendError:
        fallback = None if context.may_ask_types else context.fallback
        if fallback is None or not fallback.can_run(node):
            raise
        return fallback.emit(context, node, operator_name(node))


# -- numbers known here ----------------------------------------------------------------------------
def _computed(context: Context, node: NodeProto) -> list[Value] | None:
    """The results of a node whose operands are a few known numbers, by onnx's own evaluator."""
    if node.domain not in ("", "ai.onnx") or node.op_type in _GROWING or not node.input:
        return None
    given = [_known_array(context, context.values.get(n)) if n else None for n in node.input]
    if any(g is None and n for g, n in zip(given, node.input, strict=True)):
        return None
    arrays = {n: g for n, g in zip(node.input, given, strict=True) if g is not None}
    if sum(a.size for a in arrays.values()) > MOST_SIZES:
        return None
    found = evaluated(context, node, arrays)
    if found is None:
        return None
    made = [np.asarray(f) for f in found if isinstance(f, (np.ndarray, np.generic))]
    # float8_e5m2 has the kind "f" as NumPy's own floats have; they alone are builtin
    if len(made) < len(found) or any(f.dtype.isbuiltin != 1 for f in made):
        return None
    if any(f.dtype.kind not in "fiub" for f in made):
        return None
    if node.op_type in ("Cast", "CastLike") and not _fits(arrays[node.input[0]], made[0]):
        return None
    return [constant(f) for f in made]


def _others(context: Context, node: NodeProto) -> dict[str, np.ndarray] | None:
    """The inputs behind the first by name, where all are a few known numbers."""
    names = [n for n in node.input[1:] if n]
    arrays = [_known_array(context, context.values.get(n)) for n in names]
    found = {n: a for n, a in zip(names, arrays, strict=True) if a is not None}
    return found if len(found) == len(set(names)) else None


def _fits(x: np.ndarray, cast: np.ndarray) -> bool:
    """Whether floats fit the integers that they are cast to; NumPy wraps what does not."""
    if x.dtype.kind != "f" or cast.dtype.kind not in "iu":
        return True
    return np.array_equal(cast.astype(x.dtype), np.trunc(x))


def _known_array(context: Context, value: Value) -> np.ndarray | None:
    if isinstance(value, ShapeValue) and static_shape(value.dims) is not None:
        value = context.tensor(value, "")
    if not isinstance(value, Constant) or value.type.dtype == "bfloat16":
        return None
    return None if math.prod(value.shape) > MOST_SIZES else context.array(value)


# -- graphs inside of graphs -----------------------------------------------------------------------
def run_graph(context: Context, graph: GraphProto, inputs: Sequence[Value]) -> list[Value]:
    """Convert a graph that an attribute holds, with values for its inputs; it sees the names
    around it. Gives its outputs. A graph counts as a node, so that empty ones come to an end."""
    _count(context, f"the graph {graph.name!r}")
    outputs = [o.name for o in graph.output]
    given = {v.name: x for v, x in zip(graph.input, inputs, strict=False)}
    with context.scope(given, names_read(graph.node, outputs)):
        bind_initializers(context, graph, None)
        convert_nodes(context, graph.node)
        where = f"the graph {graph.name!r}"
        return [context.lookup(name, where) for name in outputs]


# -- functions -------------------------------------------------------------------------------------
def is_known(context: Context, node: NodeProto) -> bool:
    """Whether a node has a converter, is a call of a function, or can be left to the fallback."""
    return (
        operator_name(node) in REGISTRY
        or (context.fallback is not None and context.fallback.can_run(node))
        or _local(context, node) is not None
        or _has_function(schema_of(node, context.opsets))
    )


def _local(context: Context, node: NodeProto) -> FunctionProto | None:
    return context.functions.get((node.domain, node.op_type, node.overload))


def _has_function(schema: Any) -> bool:
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def _function(context: Context, node: NodeProto) -> FunctionProto | None:
    """The function that a node calls: of the model, or that ONNX defines its operator by."""
    local = _local(context, node)
    schema = schema_of(node, context.opsets)
    if local is not None or not _has_function(schema):
        return local
    if schema.has_function:
        return schema.function_body
    kinds = [_type_of(context, context.values.get(n)) for n in node.input]
    data = schema.get_context_dependent_function(
        node.SerializeToString(), [k.SerializeToString() for k in kinds]
    )
    return FunctionProto.FromString(data) if data else None


def _type_of(context: Context, value: Value) -> TypeProto:
    """The type that a context-dependent function is asked for with."""
    if isinstance(value, list):
        element = _type_of(context, value[0]) if value else TypeProto()
        return helper.make_sequence_type_proto(element)
    if value is None:
        return TypeProto()
    if isinstance(value, ShapeValue):
        sizes = [] if value.scalar else [len(value.dims)]
        return helper.make_tensor_type_proto(onnx.TensorProto.INT64, sizes)
    shape = context.type(value.stored if isinstance(value, Narrow) else value).shape
    number = context.dtype_number(value)
    dims_known = [d.value if isinstance(d, IntImm) else None for d in shape]
    return helper.make_tensor_type_proto(number, dims_known)


def _call(context: Context, node: NodeProto, function: FunctionProto) -> list[Value]:
    """The results of a function's body."""
    given = {
        name: context.raw(node, i) if i < len(node.input) else None
        for i, name in enumerate(function.input)
    }
    attributes = {a.name: a for a in function.attribute_proto}
    schema = None if _local(context, node) else schema_of(node, context.opsets)
    for name, known in schema.attributes.items() if schema is not None else ():
        if known.default_value.name:
            attributes[name] = known.default_value
    attributes |= {a.name: a for a in node.attribute}
    body = [_bound(n, attributes) for n in function.node]
    opsets = dict(context.opsets) | {o.domain: o.version for o in function.opset_import}
    with context.scope(given, names_read(body, function.output), opsets):
        convert_nodes(context, body)
        where = f"the function {function.name!r}"
        count = len(node.output)
        wanted = [o for o, n in zip(function.output, node.output, strict=False) if n]
        found = {name: context.lookup(name, where) for name in wanted}
        return [found.get(name) for name in list(function.output)[:count]]


def _bound(node: NodeProto, attributes: Mapping[str, onnx.AttributeProto]) -> NodeProto:
    """A node of a function's body with the attributes that refer to the call's in their place."""
    made = NodeProto()
    made.CopyFrom(node)
    _bind_attributes(made, attributes)
    return made


def _bind_attributes(node: NodeProto, attributes: Mapping[str, onnx.AttributeProto]) -> None:
    kept = []
    for a in node.attribute:
        if a.ref_attr_name:
            source = attributes.get(a.ref_attr_name)
            if source is None:
                continue
            bound = onnx.AttributeProto()
            bound.CopyFrom(source)
            bound.name = a.name
            kept.append(bound)
            continue
        for graph in (a.g, *a.graphs):
            for inner in graph.node:
                _bind_attributes(inner, attributes)
        kept.append(a)
    copies = []
    for a in kept:
        copy = onnx.AttributeProto()
        copy.CopyFrom(a)
        copies.append(copy)
    del node.attribute[:]
    node.attribute.extend(copies)
