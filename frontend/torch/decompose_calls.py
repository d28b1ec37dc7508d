"""Calls of operators without a converter, each replaced by what torch decomposes it to.

torch decomposes a program by tracing all of it again, whatever little there is to decompose. Here a
program of nothing but those calls is made, one of each kind (operator, types of the tensors, other
arguments), and torch's tracing has that to do; what comes out takes the place of the calls::

    program: a, b, einsum(a, b), ..., einsum(c, d), ..., swapaxes(e)
    calls:   x0, x1, x2 -> einsum(x0, x1), swapaxes(x2)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Graph, GraphModule, Node
from torch.utils import _pytree as pytree

from .functionalize import copied, with_graph

_SIZE = torch.ops.aten.sym_size.int


def decompose_calls(
    program: ExportedProgram,
    calls: Iterable[Node],
    decompose: Callable[[ExportedProgram], ExportedProgram],
) -> ExportedProgram | None:
    """The program with the calls replaced by what ``decompose`` makes of a program of such calls.
    None where a call does not stand for itself: its arguments or results have sizes of their own.
    """
    kinds: dict[Any, list[Node]] = {}
    for node in calls:
        if not _stands_alone(node):
            return None
        kinds.setdefault(_kind(node), []).append(node)
    firsts = [alike[0] for alike in kinds.values()]
    made = decompose(_program_of(firsts, program))
    changes = any(o.kind is not OutputKind.USER_OUTPUT for o in made.graph_signature.output_specs)
    if changes or any(n.op == "get_attr" for n in made.graph.nodes):
        return None
    splicing = _Splicing(program, made, firsts)
    if not splicing.is_possible:
        return None
    alike = zip(kinds.values(), splicing.parts, strict=True)
    return splicing.run({node: part for nodes, part in alike for node in nodes})


def _stands_alone(node: Node) -> bool:
    """Whether a call can be traced by itself: no operand is a size, none is found in data, and
    several results are tensors that are taken one by one."""
    takes = all(map(_is_tensor, node.all_input_nodes))
    gives = _is_tensor(node) or all(
        _is_item(user) and (_is_tensor(user) or not user.users) for user in node.users
    )
    return takes and gives and not node.meta.get("unbacked_bindings")


def _is_tensor(node: Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def _is_item(node: Node) -> bool:
    return node.target is operator.getitem


def _kind(node: Node) -> Any:
    """What calls have in common that decompose to the same."""
    arguments = pytree.tree_map_only(Node, lambda n: _type(n.meta["val"]), (node.args, node.kwargs))
    leaves, structure = pytree.tree_flatten(arguments)
    texts = tuple([f"{type(x).__name__} {x}" for x in leaves])
    return node.target, texts, str(structure), _same_operands(node), tuple(_items(node))


def _same_operands(node: Node) -> tuple[int, ...]:
    """Which operands are one tensor."""
    given = [a for a in pytree.tree_leaves((node.args, node.kwargs)) if isinstance(a, Node)]
    return tuple([given.index(a) for a in given])


def _type(tensor: torch.Tensor) -> str:
    sizes = (tensor.shape, tensor.stride(), tensor.storage_offset())
    return f"{tensor.dtype} {sizes} {tensor.layout} {tensor.device}"


def _items(node: Node) -> list[int]:
    """Which of a call's results are used, where there are several."""
    return sorted({int(user.args[1]) for user in node.users if _is_item(user) and user.users})  # type: ignore[arg-type]


def _results(node: Node) -> list[Node]:
    """The nodes of a call's tensors: itself, or one for each of several results that is used."""
    if isinstance(node.meta.get("val"), torch.Tensor):
        return [node]
    return [next(u for u in node.users if u.args[1] == i and u.users) for i in _items(node)]


def _program_of(calls: Sequence[Node], program: ExportedProgram) -> ExportedProgram:
    """A program whose operators are these calls, each of inputs of its own, and that gives their
    results in order."""
    graph = Graph()
    inputs: list[Node] = []
    outputs: list[Node] = []
    for call in calls:
        known: dict[Node, Node] = {}
        for operand in call.all_input_nodes:
            known[operand] = graph.placeholder(f"x{len(inputs)}")
            known[operand].meta["val"] = operand.meta["val"]
            inputs.append(known[operand])
        known[call] = graph.node_copy(call, known.__getitem__)
        for result in _results(call):
            if result is not call:
                known[result] = graph.node_copy(result, known.__getitem__)
            outputs.append(known[result])
    graph.output(tuple(outputs))
    module = GraphModule({}, graph)
    taken = pytree.tree_structure((tuple([0] * len(inputs)), {}))
    given = pytree.tree_structure(tuple([0] * len(outputs)))
    names = [x.name for x in inputs]
    return ExportedProgram(
        module,
        module.graph,
        ExportGraphSignature(
            [InputSpec(InputKind.USER_INPUT, TensorArgument(x), None) for x in names],
            [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(x.name), None) for x in outputs],
        ),
        {},
        dict(program.range_constraints),
        [ModuleCallEntry("", ModuleCallSignature([], [], taken, given, names))],
        verifiers=program.verifiers,
    )


class _Part:
    """What one call became: nodes of the decomposed program, over the operands of the call."""

    def __init__(self, inputs: Sequence[Node], results: Sequence[Node]) -> None:
        self.inputs, self.results = inputs, results
        found: set[Node] = set()
        stack = list(results)
        while stack:
            node = stack.pop()
            if node not in found:
                found.add(node)
                stack += node.all_input_nodes if self.size_of(node) is None else []
        self.nodes = [n for n in results[0].graph.nodes if n in found] if results else []

    def takes(self, given: Iterable[Node]) -> bool:
        """Whether of all inputs that are given to calls it takes none but its own."""
        return set(given).intersection(self.nodes) <= set(self.inputs)

    def size_of(self, node: Node) -> tuple[int, int] | None:
        """The operand and axis that a node takes the size of. That may have been read off the
        operand of another call."""
        if node.target is not _SIZE:
            return None
        for i, operand in enumerate(self.inputs):
            sizes = [str(size) for size in operand.meta["val"].shape]
            if str(node.meta["val"]) in sizes:
                return i, sizes.index(str(node.meta["val"]))
        return None


class _Splicing:
    """The program with calls replaced by parts of another."""

    def __init__(
        self, program: ExportedProgram, decomposed: ExportedProgram, calls: Sequence[Node]
    ) -> None:
        self._program, self._decomposed = program, decomposed
        nodes = {n.name: n for n in decomposed.graph.nodes if n.op == "placeholder"}
        specs = decomposed.graph_signature.input_specs
        given = [nodes[s.arg.name] for s in specs if s.kind is InputKind.USER_INPUT]
        inputs, results = iter(given), iter(_outputs(decomposed))
        self.parts: list[_Part] = []
        for call in calls:
            operands = [next(inputs) for _ in call.all_input_nodes]
            self.parts.append(_Part(operands, [next(results) for _ in _results(call)]))
        self.is_possible = all(part.takes(given) for part in self.parts)
        """Whether no part needs what another call is given."""
        self._graph = Graph()
        self._known: dict[Node, Node] = {}
        self._constants: dict[Node, Node] = {}

    def run(self, parts: Mapping[Node, _Part]) -> ExportedProgram:
        """The program with each call replaced by its part."""
        specs, tensors = self._take_constants()
        for node in self._program.graph.nodes:
            if node in parts:
                results = _results(node)
                self._known |= zip(results, self._spliced(node, parts[node]), strict=True)
            elif not (_is_item(node) and node.args[0] in parts):
                self._known[node] = copied(self._graph, node, self._known.__getitem__)
        self._graph.lint()
        made = with_graph(self._program, self._graph)
        signature = made.graph_signature
        made._graph_signature = replace(signature, input_specs=[*specs, *signature.input_specs])
        made._constants = {**made.constants, **tensors}
        return made

    def _take_constants(self) -> tuple[list[InputSpec], dict[str, Any]]:
        """Make the constants of the decomposed calls some of the program: their rows, and their
        tensors by name."""
        specs: list[InputSpec] = []
        tensors: dict[str, Any] = {}
        nodes = {n.name: n for n in self._decomposed.graph.nodes if n.op == "placeholder"}
        for spec in self._decomposed.graph_signature.input_specs:
            if spec.kind is InputKind.USER_INPUT:
                continue
            name = f"decomposed_constant_{len(self._program.constants) + len(specs)}"
            node = nodes[spec.arg.name]
            made = self._constants[node] = self._graph.placeholder(name)
            made.meta = dict(node.meta)
            specs.append(InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(made.name), name))
            tensors[name] = self._decomposed.constants[spec.target or ""]
        return specs, tensors

    def _spliced(self, call: Node, part: _Part) -> list[Node]:
        """The nodes of a part in the place of a call; those of its results."""
        operands = [self._known[a] for a in call.all_input_nodes]
        own = {**self._constants, **dict(zip(part.inputs, operands, strict=True))}
        for node in part.nodes:
            if node in own:
                continue
            place = part.size_of(node)
            if place is None:
                own[node] = self._graph.node_copy(node, own.__getitem__)
            else:
                operand, axis = place
                own[node] = self._graph.call_function(_SIZE, (operands[operand], axis))
            own[node].meta = {**call.meta, "val": node.meta.get("val")}
        return [own[result] for result in part.results]


def _outputs(program: ExportedProgram) -> Sequence[Any]:
    results = program.graph.output_node().args[0]
    assert isinstance(results, (tuple, list))
    return results
