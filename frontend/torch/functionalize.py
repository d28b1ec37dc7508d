"""Programs that write in place, also through views, as programs that do not.

torch's own functionalisation traces the whole program once more, which takes longer than the rest
of an import. Here the graph is walked once: a write is the operator that gives a new tensor, and
whoever reads that memory afterwards reads the new one. What is a view of written memory (torch's
fake tensors say that by their storages) is taken anew where it is read after a write, and a write
into a view is a scatter into what it is a view of, in the graphs of branches and loops too::

    b = a[:, 0]; b.relu_(); use(a)    ->    r = relu(a[:, 0]); use(select_scatter(a, r, 1, 0))

What this file does not know (writes of inputs and weights, views whose inverse it has not) is left
to torch.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node
from torch.utils import _pytree as pytree

aten = torch.ops.aten
_SAME_VALUES = (
    aten.view.default, aten.reshape.default, aten.flatten.using_ints, aten.unflatten.int,
    aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.unsqueeze.default,
    aten.view_as.default, aten.reshape_as.default,
)  # fmt: skip
"""Views of all elements in their order, which a reshape takes back."""
_SCATTERS = {
    aten.slice.Tensor: aten.slice_scatter.default,
    aten.select.int: aten.select_scatter.default,
    aten.diagonal.default: aten.diagonal_scatter.default,
}
"""Views of some elements, and what puts others into their places."""


class _NotHere(Exception):
    """The program writes in a way that is left to torch."""


def is_write(node: Node) -> bool:
    """Whether an operator changes one of its operands."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def functionalized(program: ExportedProgram) -> ExportedProgram | None:
    """The program without writes; None where torch has to be asked for it."""
    try:
        graph = _Functionalization(program.graph).run()
        held = {name: _without_writes(part) for name, part in _parts(program.graph_module)}
    except _NotHere:
        return None
    made = with_graph(program, graph)
    for name, part in held.items():
        setattr(made.graph_module, name, part)
    return made


def _parts(module: GraphModule) -> Iterator[tuple[str, GraphModule]]:
    """The graphs that a graph holds, the branches and bodies of its control flow."""
    for name, part in module.named_children():
        if isinstance(part, GraphModule):
            yield name, part


def _without_writes(module: GraphModule) -> GraphModule:
    """A held graph without writes; itself where it has none. Of what it is given it writes nothing:
    whose memory that is, only the graph around it says."""
    if not any(
        is_write(n) for m in module.modules() if isinstance(m, GraphModule) for n in m.graph.nodes
    ):
        return module
    graph = _Functionalization(module.graph).run()
    made = GraphModule(module, graph)
    made.meta.update(module.meta)
    for name, part in _parts(module):
        setattr(made, name, _without_writes(part))
    return made


def copied(graph: Graph, node: Node, operand: Callable[[Node], Node]) -> Node:
    """A copy of a node in another graph. An input keeps its name, also one that a graph would not
    give: ``input`` is a function of Python."""
    made = graph.node_copy(node, operand)
    if node.op == "placeholder":
        made.name = node.name
    return made


def with_graph(program: ExportedProgram, graph: Graph) -> ExportedProgram:
    """The program with another graph of the same inputs and outputs."""
    made = copy.copy(program)
    made._graph_module = GraphModule(program.graph_module, graph)
    made._graph_module.meta.update(program.graph_module.meta)
    results = graph.output_node().args[0]
    assert isinstance(results, (tuple, list))
    outputs = [
        replace(spec, arg=replace(spec.arg, name=result.name)) if isinstance(result, Node) else spec
        for spec, result in zip(program.graph_signature.output_specs, results, strict=True)
    ]
    made._graph_signature = replace(program.graph_signature, output_specs=outputs)
    return made


@dataclass(slots=True)
class _Member:
    """A node whose tensor lies in memory that is written.

    ``parent`` is what it is a view of (None: what first held the memory), ``is_same`` a view that
    has all of it; ``value`` is the node of the new graph that holds its state after so many writes.
    """

    memory: int
    parent: Node | None
    is_same: bool
    value: Node
    version: int


class _Functionalization:
    """One walk over a graph."""

    def __init__(self, graph: Graph) -> None:
        self._old = graph
        self._new = Graph()
        self._nodes: dict[Node, Node] = {}
        self._members: dict[Node, _Member] = {}
        self._versions: dict[int, int] = {}
        """How often memory was written, for all that is."""
        self._shared: dict[int, int] = {}
        """Memory of fake tensors that is another's when the program runs."""

    def run(self) -> Graph:
        for node in self._old.nodes:
            if gives_its_operand(node):
                ours, operands = memories(node), memories(node.all_input_nodes[0])
                self._shared |= {m: self._one(n) for m, n in zip(ours, operands, strict=True)}
        for node in self._old.nodes:
            if is_write(node) and not gives_its_operand(node):
                self._versions[self._one(memories(_written(node))[0])] = 0
        for node in self._old.nodes:
            if is_write(node) and not gives_its_operand(node):
                self._write(node)
            else:
                self._keep(node)
        self._new.lint()
        self._new.eliminate_dead_code()
        return self._new

    def _one(self, memory: int) -> int:
        return self._shared.get(memory, memory)

    def _written_memories(self, node: Node) -> set[int]:
        return {m for m in map(self._one, memories(node)) if m in self._versions}

    # -- reading --------------------------------------------------------------------------------
    def _keep(self, node: Node) -> None:
        is_operand = gives_its_operand(node)
        made = self._read(node.all_input_nodes[0]) if is_operand else self._copied(node)
        self._nodes[node] = made
        written = self._written_memories(node)
        if not written:
            return
        if node.op != "call_function" or len(written) > 1:
            raise _NotHere
        memory = written.pop()
        operands = [a for a in node.all_input_nodes if memory in self._written_memories(a)]
        parent = operands[0] if operands else None
        if parent is not None and not (is_operand or _is_view(node)):
            raise _NotHere
        is_same = parent is not None and (is_operand or _is_same(node, parent))
        self._members[node] = _Member(memory, parent, is_same, made, self._versions[memory])

    def _copied(self, node: Node) -> Node:
        return copied(self._new, node, self._read)

    def _read(self, node: Node) -> Node:
        """The state of a node's tensor now."""
        member = self._members.get(node)
        if member is None:
            return self._nodes[node]
        version = self._versions[member.memory]
        if member.version != version and member.parent is not None:
            parent = self._read(member.parent)
            member.value = parent if member.is_same else self._copied(node)
        member.version = version
        return member.value

    # -- writing --------------------------------------------------------------------------------
    def _write(self, node: Node) -> None:
        target = _written(node)
        if target not in self._members or not _is_same(node, target):
            raise _NotHere
        made = self._without_write(node)
        self._put(target, made)
        memory = self._members[target].memory
        self._members[node] = _Member(memory, target, True, made, self._versions[memory])

    def _without_write(self, node: Node) -> Node:
        """What a write gives, in its type."""
        kind = node.meta["val"]
        tensors = [a.meta["val"] for a in node.all_input_nodes]
        is_one_type = all(x.dtype == kind.dtype for x in tensors if isinstance(x, torch.Tensor))
        if node.target is aten.copy_.default and is_one_type:
            source = node.all_input_nodes[-1]
            if _shape(source.meta["val"]) == _shape(kind):
                return self._read(source)
        function = _function_of(node.target)
        made = self._call(node, function, *pytree.tree_map(self._mapped, (node.args, node.kwargs)))
        if not is_one_type:
            made.meta["val"] = _computed(node, function)
            if made.meta["val"].dtype != kind.dtype:
                made = self._call(node, aten.to.dtype, (made, kind.dtype))
        return made

    def _mapped(self, argument: Any) -> Any:
        return self._read(argument) if isinstance(argument, Node) else argument

    def _put(self, node: Node, value: Node) -> None:
        """Make ``value`` the state of a node's tensor, and so of all that shares its memory."""
        member = self._members[node]
        if member.parent is None:
            self._versions[member.memory] += 1
        elif member.is_same:
            self._put(member.parent, value)
        else:
            self._put_view(node, member.parent, value)
        member.value, member.version = value, self._versions[member.memory]

    def _put_view(self, node: Node, parent: Node, value: Node) -> None:
        """Write a view of ``parent``: that with the view's elements replaced."""
        rest = node.args[1:]
        if node.kwargs or any(isinstance(a, Node) for a in pytree.tree_leaves(rest)):
            raise _NotHere
        if node.target in _SCATTERS:
            whole = self._read(parent)
            made = self._call(parent, _SCATTERS[node.target], (whole, value, *rest))
        elif node.target is aten.transpose.int:
            made = self._call(parent, aten.transpose.int, (value, *rest))
        elif node.target in _SAME_VALUES:
            made = self._call(parent, aten.reshape.default, (value, _static_shape(parent)))
        else:
            raise _NotHere
        self._put(parent, made)

    def _call(self, like: Node, target: Any, args: Any, kwargs: Any = None) -> Node:
        """A call with the place in the source, and at first the type, of another node."""
        made = self._new.call_function(target, tuple(args), dict(kwargs or {}))
        made.meta = dict(like.meta)
        return made


def _written(node: Node) -> Node:
    """The operand that a write changes, which has to be its first and its result."""
    schema = node.target._schema  # type: ignore[union-attr]
    changed = [i for i, a in enumerate(schema.arguments) if a.alias_info and a.alias_info.is_write]
    tags = node.target.tags  # type: ignore[union-attr]
    first = node.args[0] if node.args else None
    if changed != [0] or len(schema.returns) != 1 or torch.Tag.inplace_view in tags:
        raise _NotHere
    if not isinstance(first, Node) or not isinstance(first.meta.get("val"), torch.Tensor):
        raise _NotHere
    return first


def _function_of(target: Any) -> Any:
    """The operator that gives what ``target`` writes: ``aten.relu.default`` of
    ``aten.relu_.default``. An overload of the same name may take other things (``pow.Scalar`` is
    that of a number), and one of another name the same."""
    namespace, _, name = target._schema.name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), name.removesuffix("_"), None)
    if namespace != "aten" or not name.endswith("_") or packet is None:
        raise _NotHere
    names = packet.overloads()
    for overload in sorted(names, key=lambda n: n != target._overloadname):
        found = getattr(packet, overload)
        if not found._schema.is_mutable and _takes(found) == _takes(target):
            return found
    raise _NotHere


def _takes(target: Any) -> list[tuple[str, str]]:
    """The arguments of an operator, by type, and behind the first by name too."""
    given = target._schema.arguments
    return [(a.name if i else "", str(a.type)) for i, a in enumerate(given)]


def _computed(node: Node, function: Callable[..., Any]) -> Any:
    """The fake tensor that an operator gives for a node's operands."""
    fakes = pytree.tree_map_only(Node, lambda n: n.meta["val"], (node.args, node.kwargs))
    mode = torch._guards.detect_fake_mode(pytree.tree_leaves(fakes))
    if mode is None:
        raise _NotHere
    with mode:
        return function(*fakes[0], **fakes[1])


def memories(node: Node) -> list[int]:
    """The memory of a node's tensors."""
    values = pytree.tree_leaves(node.meta.get("val"))
    return [_storage(x) for x in values if isinstance(x, torch.Tensor)]


def gives_its_operand(node: Node) -> bool:
    """Whether a call gives its operand, and changes nothing: so where a tensor is copied into
    itself (``self.b = self.b.to(x.dtype)``). Of dropout that does nothing the fake tensors do not
    say so."""
    if node.target is aten.dropout.default:
        return node.args[-1] is False
    if node.target is aten.copy_.default:
        target, source = node.args[:2]
        return isinstance(source, Node) and _is_same(target, source)  # type: ignore[arg-type]
    return node.target is aten.detach_.default


def _is_view(node: Node) -> bool:
    """Whether a call is known for giving views, by itself or as one of several results."""
    if node.target is operator.getitem:
        return True
    returns = node.target._schema.returns if isinstance(node.target, torch._ops.OpOverload) else ()
    return any(r.alias_info is not None for r in returns)


def _storage(tensor: torch.Tensor) -> int:
    if tensor.layout is not torch.strided or not torch._C._has_storage(tensor):
        raise _NotHere
    return int(tensor.untyped_storage()._cdata)


def _is_same(a: Node, b: Node) -> bool:
    """Whether the tensors of two nodes are the same elements of one memory."""
    x, y = a.meta.get("val"), b.meta.get("val")
    return (
        isinstance(x, torch.Tensor)
        and isinstance(y, torch.Tensor)
        and _storage(x) == _storage(y)
        and (x.dtype, *_place(x)) == (y.dtype, *_place(y))
    )


def _place(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Where the elements of a tensor lie in its memory. Symbols are compared as text, since torch
    notes what it is asked about them."""
    return _shape(tensor), list(map(str, tensor.stride())), str(tensor.storage_offset())


def _shape(tensor: torch.Tensor) -> list[str]:
    return list(map(str, tensor.shape))


def _static_shape(node: Node) -> list[int]:
    shape = list(node.meta["val"].shape)
    if not all(isinstance(size, int) for size in shape):
        raise _NotHere
    return shape
