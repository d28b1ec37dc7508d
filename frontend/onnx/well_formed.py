"""What ONNX asks of any graph, whatever the sizes: looked at before anything is converted.

Every name that is read was given or made by a node before; none is made twice; an operator of
ONNX's has as many inputs and results as it may have, and its attributes; functions do not call
themselves. What sizes and dtypes have to be is the converters' affair, and may be told by the first
call alone; this never is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto

from ...support.errors import FrontendError, nearest
from .registry import node_name

_NUMBERS = (AttributeProto.FLOAT, AttributeProto.INT)
_BODIES = {"If": ("then_branch", "else_branch"), "Loop": ("body",), "Scan": ("body",)}


def verify_well_formed(model: ModelProto, opsets: Mapping[str, int]) -> None:
    """Raise FrontendError, for the first node that breaks ONNX's rules."""
    local = {(f.domain, f.name, f.overload): f for f in model.functions}
    _verify_calls(local)
    rules = _Rules(opsets, local)
    rules.graph(model.graph, frozenset())
    for function in model.functions:
        inner = dict(opsets) | {o.domain: o.version for o in function.opset_import}
        where = f"the function {function.name!r}"
        _Rules(inner, local).nodes(function.node, function.input, function.output, where)


class _Rules:
    """The rules of nodes, by these versions of operators."""

    def __init__(
        self, opsets: Mapping[str, int], local: Mapping[tuple[str, str, str], FunctionProto]
    ) -> None:
        self._opsets = opsets
        self._local = local

    def graph(self, graph: GraphProto, around: frozenset[str], where: str = "") -> None:
        names = [v.name for v in graph.input]
        weights = [t.name for t in graph.initializer]
        weights += [t.values.name for t in graph.sparse_initializer]
        for what, given in (("inputs", names), ("initializers", weights)):
            twice = [n for n, count in Counter(given).items() if count > 1]
            if twice:
                raise FrontendError(
                    f"two {what} of {where or 'the model'} are called {twice[0]!r}."
                )
        outputs = [o.name for o in graph.output]
        self.nodes(graph.node, [*names, *weights], outputs, where or "the model's output", around)

    def nodes(
        self,
        nodes: Sequence[NodeProto],
        given: Iterable[str],
        outputs: Iterable[str],
        where: str,
        around: frozenset[str] = frozenset(),
    ) -> None:
        known, made = {*around, *given}, set(given)
        for i, node in enumerate(nodes):
            self._node(node)
            for name in filter(None, node.input):
                if name not in known:
                    later = next((n for n in nodes[i:] if name in n.output), None)
                    raise _unknown(node_name(node), name, known, later)
            for graph, place in _held(node):
                self.graph(graph, frozenset(known), f"{node_name(node)}, {place}")
            for name in filter(None, node.output):
                if name in made:
                    raise FrontendError(
                        f"{node_name(node)}: {name!r} is made twice, or is an input or an "
                        "initializer too; each result has a name of its own."
                    )
                made.add(name)
                known.add(name)
        for name in outputs:
            if name not in known:
                raise _unknown(where, name, known, None)

    def _node(self, node: NodeProto) -> None:
        _verify_graphs(node)
        if (node.domain, node.op_type, node.overload) in self._local:
            return
        schema = schema_of(node, self._opsets)
        if schema is None:
            return
        where = node_name(node)
        for i, formal in enumerate(schema.inputs[: schema.min_input]):
            is_single = formal.option == onnx.defs.OpSchema.FormalParameterOption.Single
            if is_single and (i >= len(node.input) or not node.input[i]):
                raise FrontendError(
                    f"{where}: expected {schema.min_input} inputs or more, found no "
                    f"{formal.name!r} among {list(node.input)}."
                )
        counts = (
            ("inputs", len(node.input), 0, schema.max_input),
            ("results", len(node.output), schema.min_output, schema.max_output),
        )
        for what, count, least, most in counts:
            if not least <= count <= most:
                bound = f"{most} at most" if count > most else f"{least} or more"
                raise _invalid(node, f"expected {bound} {what}, found {count}.")
        _verify_attributes(node, schema)


def _verify_attributes(node: NodeProto, schema: Any) -> None:
    held = {a.name: a for a in node.attribute}
    unknown = next((n for n in held if n not in schema.attributes and not n.startswith("__")), None)
    if unknown is not None:
        known = nearest(unknown, list(schema.attributes))
        raise _invalid(node, f"it has no attribute {unknown!r} in this version.{known}")
    for name, rule in schema.attributes.items():
        if name not in held:
            if rule.required:
                raise _invalid(node, f"the attribute {name!r} is missing.")
            continue
        kind, wanted = held[name].type, int(rule.type.value)
        if kind in (0, wanted) or held[name].ref_attr_name or {kind, wanted} <= {*_NUMBERS}:
            continue
        names = AttributeProto.AttributeType.Name
        raise _invalid(node, f"the attribute {name!r} is {names(kind)}; expected {names(wanted)}.")


def _verify_graphs(node: NodeProto) -> None:
    """How many values control flow gives its graphs, and takes of them."""
    if node.domain not in ("", "ai.onnx") or node.op_type not in _BODIES:
        return
    held = {a.name: a.g for a in node.attribute if a.HasField("g")}
    graphs = [held[name] for name in _BODIES[node.op_type] if name in held]
    counts = [len(graph.output) for graph in graphs]
    if len(counts) < len(_BODIES[node.op_type]):
        raise _invalid(node, f"expected the graphs {_BODIES[node.op_type]}.")
    if node.op_type == "If" and (counts[0] != counts[1] or len(node.output) > counts[0]):
        raise _invalid(
            node,
            f"its branches give {counts[0]} and {counts[1]} results, and it has "
            f"{len(node.output)}; these are as many.",
        )
    if node.op_type == "Loop":
        states = max(len(node.input) - 2, 0)
        takes = len(graphs[0].input)
        if takes != states + 2 or counts[0] < states + 1:
            raise _invalid(
                node,
                f"its body takes {takes} values and gives {counts[0]}; with {states} "
                f"states it takes {states + 2} (the iteration and the condition first) and "
                f"gives {states + 1} (the condition first) or more.",
            )


def schema_of(node: NodeProto, opsets: Mapping[str, int]) -> Any:
    """What ONNX says of a node's operator in this version; None for one that is not ONNX's."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    try:
        return onnx.defs.get_schema(node.op_type, opsets.get(domain, 1), domain)
    except (onnx.defs.SchemaError, TypeError):  # TypeError: a name that is no text
        return None


def _held(node: NodeProto) -> list[tuple[GraphProto, str]]:
    graphs = [(a.g, a.name) for a in node.attribute if a.HasField("g")]
    return [*graphs, *[(g, a.name) for a in node.attribute for g in a.graphs]]


def _invalid(node: NodeProto, what: str) -> FrontendError:
    return FrontendError(f"{node_name(node)} is not valid ONNX: {what}")


def _unknown(
    reader: str, name: str, known: Iterable[str], later: NodeProto | None
) -> FrontendError:
    text = (
        f"{reader} reads {name!r}, which is no input, no initializer and no result of a node "
        f"before it."
    )
    if later is not None:
        return FrontendError(
            f"{text} {node_name(later)} makes it: nodes have to stand behind those whose results "
            "they read, and none may need its own."
        )
    return FrontendError(text + nearest(name, list(known)))


def _verify_calls(local: Mapping[tuple[str, str, str], FunctionProto]) -> None:
    """Raise FrontendError for a function that comes to call itself."""
    done: set[tuple[str, str, str]] = set()

    def calls(nodes: Iterable[NodeProto]) -> Iterable[tuple[str, str, str]]:
        for node in nodes:
            yield node.domain, node.op_type, node.overload
            for graph, _ in _held(node):
                yield from calls(graph.node)

    for start in local:
        # A path of functions, each with the calls of it that are still to be followed.
        path = {start: iter(calls(local[start].node))}
        while path:
            key = next(reversed(path))
            called = next(path[key], None)
            if called is None:
                done.add(key)
                path.popitem()
            elif called in path:
                raise FrontendError(f"the function {local[called].name!r} calls itself.")
            elif called in local and called not in done:
                path[called] = iter(calls(local[called].node))


__all__ = ["schema_of", "verify_well_formed"]
