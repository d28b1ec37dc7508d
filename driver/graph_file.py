"""The graph of a compiled model as an ONNX file, which Netron draws.

Nodes are the calls of the compiled program, in a domain of their own: kernels by their names, with
what is known of them as attributes. Nobody can run the file, and it holds no weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..graphir.expr import Function
from ..graphir.type import TensorType, TupleType, Type
from ..support.errors import ArtifactError, MissingExtraError
from ..support.whole_file import written_whole
from ..tensorir.expr import IntImm
from ..tensorir.text.printer import print_expr
from .graph_drawing import GraphNode, graph_nodes
from .kernel_facts import KernelFacts

_DOMAIN = "burnish"
_NAMES = {"float32": "FLOAT", "float64": "DOUBLE"}
"""Dtypes that ONNX calls otherwise."""


def save_graph(
    func: Function, facts: Mapping[str, KernelFacts], path: str | Path, *, name: str
) -> None:
    """Write the graph of a function; ``facts`` are of kernels by name. Raises MissingExtraError
    without onnx, and ArtifactError where the file cannot be written."""
    try:
        import onnx
    except ImportError as error:
        raise MissingExtraError("onnx", "onnx", "save_graph") from error
    nodes = graph_nodes(func)
    results = [list(_values(node, i)) for i, node in enumerate(nodes)]
    by_kind: dict[str, list[Any]] = {"input": [], "inner": [], "output": []}
    calls = []
    for i, node in enumerate(nodes):
        read = [value for source in node.reads for value in results[source]]
        if node.kind == "output":
            by_kind["output"] = [_value_info(onnx, *value) for value in read]
            continue
        known = by_kind["input" if node.kind == "input" else "inner"]
        known += [_value_info(onnx, *value) for value in results[i]]
        if node.kind != "input":
            calls.append(
                onnx.helper.make_node(
                    node.label,
                    [value for value, _ in read],
                    [value for value, _ in results[i]],
                    name=f"{node.label}.{i}",
                    domain=_DOMAIN,
                    **_attributes(node, facts.get(node.kernel)),
                )
            )
    graph = onnx.helper.make_graph(
        calls, name, by_kind["input"], by_kind["output"], value_info=by_kind["inner"]
    )
    opset = onnx.helper.make_opsetid(_DOMAIN, 1)
    model = onnx.helper.make_model(graph, producer_name=_DOMAIN, opset_imports=[opset])
    try:
        with written_whole(Path(path)) as file:
            file.write(model.SerializeToString())
    except OSError as error:
        raise ArtifactError(f"{path} cannot be written: {error.strerror or error}.") from error


def _values(node: GraphNode, number: int) -> Iterator[tuple[str, TensorType]]:
    """(name, type) of what a box gives; a tuple's tensors one by one."""
    name = node.label if node.kind == "input" else f"v{number}"
    tensors = list(_tensors(node.result))
    for i, tensor in enumerate(tensors):
        yield (f"{name}_{i}" if len(tensors) > 1 else name), tensor


def _tensors(kind: Type | None) -> Iterator[TensorType]:
    match kind:
        case TensorType():
            yield kind
        case TupleType(fields):
            for field in fields:
                yield from _tensors(field)
        case _:
            return


def _value_info(onnx: Any, name: str, kind: TensorType) -> Any:
    dtype = str(kind.dtype)
    code = onnx.TensorProto.DataType.Value(_NAMES.get(dtype, dtype.upper()))
    shape = [d.value if isinstance(d, IntImm) else print_expr(d) for d in kind.shape]
    return onnx.helper.make_tensor_value_info(name, code, shape)


def _attributes(node: GraphNode, facts: KernelFacts | None) -> dict[str, Any]:
    found: dict[str, Any] = {"constants": node.weights}
    if node.nbytes is not None:
        found["bytes"] = node.nbytes
    if facts is not None:
        found |= {"rule": facts.rule, "sources": list(facts.sources)}
        found |= {"flop": facts.flop, "moved": facts.moved}
    return {name: value for name, value in found.items() if value not in (None, "", [])}


__all__ = ["save_graph"]
