"""A graph that TorchDynamo captured, as a module whose weights are its own.

Dynamo hands a backend a graph whose weights, sizes and tensors all are inputs. Here weights become
buffers again, by the names that their module has them by, so that a compiler may pack and fold
them and its user may name them. Sizes are read from the tensors that have them, and numbers, which
Dynamo hands over in tensors where everything is to be dynamic, are those of the first call. What is
left are the tensors of a call.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import nn
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

_Mark = tuple[int, int]

_ROOT = re.compile(r"[LG]\['(\w+)'\]")
_STEP = re.compile(r"\._(?:modules|parameters|buffers)\['([^'\]]+)'\]")


class _Number(NamedTuple):
    value: float


_Source: TypeAlias = str | _Number | tuple[int, int | None]
"""The name of a weight; a number; or the place of an input, with the axis whose size is meant."""


class CapturedGraph:
    """``gm`` with the inputs at ``inputs`` alone; ``as_inputs`` are weights that change between
    calls and therefore stay inputs. ``module`` computes it, and holds the weights."""

    def __init__(
        self, gm: GraphModule, examples: Sequence[Any], as_inputs: Sequence[int] = ()
    ) -> None:
        nodes = [n for n in gm.graph.nodes if n.op == "placeholder"]
        self._fakes = [n.meta.get("example_value", e) for n, e in zip(nodes, examples, strict=True)]
        self.numbers = {**_numbers(gm, examples), **_constants(self._fakes)}
        """Numbers by the place of their input."""
        self.weights = [i for i, e in enumerate(examples) if _is_weight(e) and i not in as_inputs]
        self.marks = {i: mark(examples[i]) for i in self.weights}
        self.names = _names([nodes[i] for i in self.weights])
        """Of the weights, as their module has them: ``blocks.0.fc.weight``."""
        symbols = self._symbols()
        self.sizes = {
            i: symbols[str(e)]
            for i, e in enumerate(self._fakes)
            if isinstance(e, torch.SymInt) and str(e) in symbols
        }
        self.inputs = [
            i
            for i in range(len(examples))
            if i not in self.sizes and i not in self.weights and i not in self.numbers
        ]
        held = [examples[i].detach() for i in self.weights]
        self.module = _CapturedModule(
            _with_numbers(gm, self.numbers) if self.numbers else gm,
            self._sources(),
            dict(zip(self.names, held, strict=True)),
        ).eval()

    def _sources(self) -> list[_Source]:
        """Where each input of the graph comes from."""
        found: dict[int, _Source] = dict(zip(self.weights, self.names, strict=True))
        found |= {place: (i, None) for i, place in enumerate(self.inputs)}
        found |= {place: (self.inputs.index(at), axis) for place, (at, axis) in self.sizes.items()}
        found |= {place: _Number(number) for place, number in self.numbers.items()}
        return [found[place] for place in range(len(self._fakes))]

    def _symbols(self) -> dict[str, tuple[int, int]]:
        """Symbol to a tensor, by its place among all inputs, and an axis that has this size."""
        found: dict[str, tuple[int, int]] = {}
        for i, fake in enumerate(self._fakes):
            if isinstance(fake, torch.Tensor) and i not in self.weights:
                for axis, size in enumerate(fake.shape):
                    if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                        found.setdefault(str(size), (i, axis))
        return found

    def changed(self, args: Sequence[Any]) -> list[int]:
        """The weights that a call gives in another state than the graph was captured with."""
        return [i for i, known in self.marks.items() if mark(args[i]) != known]

    def has_numbers(self, args: Sequence[Any]) -> bool:
        """Whether a call gives the numbers that are in the graph."""
        given = ((args[i], n) for i, n in self.numbers.items())
        return all(_is_same(a.item() if isinstance(a, torch.Tensor) else a, n) for a, n in given)

    def dynamic_shapes(self) -> tuple[dict[str, Any]] | None:
        """Names for the dims whose sizes are symbols, in the compiler's form; None without any.
        Numbers that no tensor has as a size are known at each call alone."""
        symbols = self._symbols()
        if not symbols or any(not isinstance(self._fakes[i], torch.Tensor) for i in self.inputs):
            return None
        entries = [
            {axis: str(s) for axis, s in enumerate(self._fakes[i].shape) if str(s) in symbols}
            for i in self.inputs
        ]
        return (tuple([e or None for e in entries]),)  # type: ignore[return-value]


class _CapturedModule(nn.Module):
    """A captured graph whose layers hold the weights and nothing else: they do not collide."""

    def __init__(
        self, gm: GraphModule, sources: Sequence[_Source], weights: Mapping[str, torch.Tensor]
    ) -> None:
        super().__init__()
        self.__gm = gm
        self.__sources = sources
        for name, weight in weights.items():
            *path, last = name.split(".")
            layer: nn.Module = self
            for part in path:
                if part not in layer._modules:
                    layer.add_module(part, nn.Module())
                layer = layer.get_submodule(part)
            layer.register_buffer(last, weight)

    def forward(self, *inputs: Any) -> Any:
        args = [self.__given(source, inputs) for source in self.__sources]
        # A graph's own __call__ prints what it raises, also where that is caught.
        return nn.Module.__call__(self.__gm, *args)

    def __given(self, source: _Source, inputs: Sequence[Any]) -> Any:
        if isinstance(source, str):
            return self.get_buffer(source)
        if isinstance(source, _Number):
            return source.value
        at, axis = source
        return inputs[at] if axis is None else inputs[at].shape[axis]


def _names(weights: Sequence[Node]) -> list[str]:
    """The names of weights, without that of the one module that has them all; where their source
    says none, numbers."""
    found = [_place(node) for node in weights]
    is_one = len({root for root, path in found if path}) == 1
    taken = {".".join(path if is_one else [root, *path]) for root, path in found}
    names: dict[str, None] = {}
    for i, (root, path) in enumerate(found):
        name = ".".join(path if is_one else [root, *path])
        if not path or name in names:
            name = f"weight_{i}"
            while name in names or name in taken:
                name += "_"
        names[name] = None
    return list(names)


def _place(weight: Node) -> tuple[str, list[str]]:
    """The variable that holds the module of a weight, and the steps from there; none where these
    are others than modules, parameters and buffers."""
    source = str(getattr(getattr(weight, "_dynamo_source", None), "name", ""))
    root = _ROOT.match(source)
    steps = source[root.end() :] if root else source
    known = _STEP.findall(steps)
    is_known = root is not None and known and not _STEP.sub("", steps)
    return (root[1], known) if root and is_known else ("", [])


def _numbers(gm: GraphModule, examples: Sequence[Any]) -> dict[int, float]:
    """The inputs that are but the number in them."""
    nodes = gm.graph.find_nodes(op="placeholder")
    return {
        i: example.item()
        for i, (node, example) in enumerate(zip(nodes, examples, strict=True))
        if isinstance(example, torch.Tensor)
        and example.dtype is torch.float64
        and not example.ndim
        and "tensor_dict" not in node.meta  # which real tensors have
        and node.users
        and all(u.op == "call_method" and u.target == "item" for u in node.users)
    }


def _constants(examples: Sequence[Any]) -> dict[int, float]:
    """The sizes that are constants by now: Dynamo found out what they have to be."""
    sizes = {i: e.node.expr for i, e in enumerate(examples) if isinstance(e, torch.SymInt)}
    return {i: int(expr) for i, expr in sizes.items() if expr.is_Integer}


def _with_numbers(gm: GraphModule, numbers: Mapping[int, float]) -> GraphModule:
    """The graph with numbers in the place of those that it reads out of inputs."""
    graph = Graph()
    known: dict[Node, Any] = {}
    nodes = gm.graph.find_nodes(op="placeholder")
    given = {nodes[i]: number for i, number in numbers.items()}
    for node in gm.graph.nodes:
        if node.op == "call_method" and node.args[0] in given:
            known[node] = given[node.args[0]]
        elif node.op == "output":
            graph.output(map_arg(node.args[0], known.__getitem__))
        else:
            known[node] = graph.node_copy(node, known.__getitem__)
    return GraphModule(gm, graph)


def _is_same(a: float, b: float) -> bool:
    """Whether two numbers are one, NaN and the sign of 0 included."""
    both_nan = math.isnan(a) and math.isnan(b)
    return both_nan or (a == b and math.copysign(1, a) == math.copysign(1, b))


def _is_weight(example: Any) -> bool:
    """Inference tensors are none: nothing tells that one was written."""
    if not isinstance(example, torch.Tensor) or example.is_inference():
        return False
    marked = getattr(example, "_dynamo_static_input_type", None) is not None
    return marked or isinstance(example, nn.Parameter)


def mark(tensor: torch.Tensor) -> _Mark:
    """What differs where a tensor was written, or is another one."""
    return tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version


def wants_gradients(examples: Sequence[Any]) -> bool:
    """Whether a graph that is captured now is one for training."""
    return torch.is_grad_enabled() and any(
        isinstance(e, torch.Tensor) and e.requires_grad for e in examples
    )


def gives_new_tensors(gm: GraphModule) -> bool:
    """Whether a graph gives tensors, none of which is an input or a view of one."""
    results = [
        n.meta.get("example_value")
        for output in gm.graph.find_nodes(op="output")
        for n in output.all_input_nodes
    ]
    tensors = [r for r in results if isinstance(r, torch.Tensor)]
    given = [n.meta.get("example_value") for n in gm.graph.find_nodes(op="placeholder")]
    memory = {_memory(g) for g in given if isinstance(g, torch.Tensor)}
    return bool(tensors) and not any(_memory(r) in memory for r in tensors)


def _memory(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


__all__ = ["CapturedGraph", "gives_new_tensors", "mark", "wants_gradients"]
