"""Small tensors joined of sizes and of data, moved about: which element is which stays known.

    pads = Concat(0, h - Shape(x)[0], ...)       parts: 0, a scalar of data, ...
    Reshape(pads, [-1, 2]), reversed, transposed  the same parts in another order

That is how exporters turn PyTorch's pads into ONNX's. What a node does to places it does to their
numbers: onnx's own evaluator runs it on those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from onnx import NodeProto, TypeProto, helper
from onnx.reference import ReferenceEvaluator

from ...graphir.expr import Var
from ...tensorir.expr import Expr
from .registry import MOST_SIZES, Context, ShapeValue, Value, parts_array

Known: TypeAlias = "Callable[[Context, NodeProto], Mapping[str, np.ndarray] | None]"
_MOVING = frozenset(
    ("Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Tile")
) | {"Transpose", "Unsqueeze"}
"""Operators whose results have elements of their first input, at places that the others say."""


def evaluated(
    context: Context, node: NodeProto, arrays: Mapping[str, np.ndarray]
) -> Sequence[object] | None:
    """What onnx's own evaluator gives for a node; None where it cannot say."""
    graph = helper.make_graph(
        [node],
        "node",
        [helper.make_value_info(n, TypeProto()) for n in arrays],
        [helper.make_value_info(n, TypeProto()) for n in node.output],
    )
    imports = [helper.make_opsetid("", context.opset)]
    try:
        with np.errstate(all="ignore"):
            evaluator = ReferenceEvaluator(helper.make_model(graph, opset_imports=imports))
            found = evaluator.run(None, dict(arrays))
    except Exception:  # whatever it does not know, or the model does wrong: its converter says so
        return None
    return found if isinstance(found, list) else None


def moved(context: Context, node: NodeProto, made: list[Value], known: Known) -> list[Value]:
    """The results of a node, whose parts are remembered: ``known`` gives its inputs but the first,
    where they are. A vector that is all sizes is a shape value."""
    if node.op_type not in _MOVING or node.domain not in ("", "ai.onnx"):
        return made
    parts = parts_of(context, context.values.get(node.input[0]))
    if parts is None or not 0 < parts.size <= MOST_SIZES:
        return made
    others = known(context, node)
    if others is None:
        return made
    places = np.arange(parts.size).reshape(parts.shape)
    of_places = NodeProto()
    of_places.CopyFrom(node)
    # The first input may be read again as another: there it is the number itself.
    of_places.input[0] = "".join(["places", *node.input])
    found = evaluated(context, of_places, {of_places.input[0]: places, **others})
    if found is None:
        return made
    elements = parts.reshape(-1)
    results = list(made)
    for i, place in enumerate(found[: len(made)]):
        if isinstance(place, (np.ndarray, np.generic)) and place.size <= MOST_SIZES:
            results[i] = _result(context, made[i], elements[np.asarray(place, np.int64)])
    return results


def parts_of(context: Context, value: Value) -> np.ndarray | None:
    """The elements of a small tensor: sizes, and scalars of data; None where they are not known."""
    if isinstance(value, ShapeValue):
        return parts_array(value.dims).reshape(() if value.scalar else (-1,))
    return context.parts.get(value) if isinstance(value, Var) else None


def _result(context: Context, value: Value, parts: np.ndarray | object) -> Value:
    if not isinstance(value, Var):
        return value
    array = parts if isinstance(parts, np.ndarray) else parts_array([parts]).reshape(())
    elements = list(array.reshape(-1))
    sizes = [p for p in elements if isinstance(p, Expr)]
    if array.ndim < 2 and len(sizes) == len(elements):
        return ShapeValue(tuple(sizes), scalar=array.ndim == 0)
    context.parts[value] = array
    return value
