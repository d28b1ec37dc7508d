"""The graph of a compiled model as SVG: its calls from top to bottom, in the order they run.

A call is a box with the kernel's name and its result's type; what does nothing at run time (views,
tuples) is left out, and what it joins is joined by a line. A line to the next box is straight, one
past other boxes goes around them on the right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from math import prod

from ..graphir.expr import (
    Atom,
    Call,
    CallDPS,
    CallDPSPacked,
    CallFunction,
    Constant,
    Function,
    If,
    Tuple,
    TupleGetItem,
    Value,
    Var,
)
from ..graphir.op import get_op
from ..graphir.type import TensorType, TupleType, Type
from ..tensorir.expr import IntImm
from ..tensorir.text.printer import print_expr

WIDTH, HEIGHT, GAP = 260, 40, 18
_LANE = 13
_MOST_TEXT = 34


@dataclass(frozen=True)
class GraphNode:
    """A box: what it says, the kernel it calls (or ""), the boxes that it reads."""

    kind: str
    label: str
    type: str
    kernel: str
    reads: tuple[int, ...]
    weights: int = 0
    """How many constants it reads beside them."""
    nbytes: int | None = None
    """Of what it gives; None where that is not one size."""
    result: Type | None = None
    """The type itself."""


def graph_nodes(func: Function) -> list[GraphNode]:
    """The boxes of a function, in the order in which they run."""
    nodes = [GraphNode("input", p.name, _type(p.type), "", (), result=p.type) for p in func.params]
    known: dict[Var, tuple[int, ...]] = {p: (i,) for i, p in enumerate(func.params)}
    for block in func.body.blocks:
        for binding in block.bindings:
            reads = _reads(binding.value, known)
            found = _box(binding.var, binding.value, reads)
            if found is None:
                known[binding.var] = reads
            else:
                known[binding.var] = (len(nodes),)
                nodes.append(replace(found, result=binding.var.type))
    result = _reads_of([func.body.result], known)
    nodes.append(GraphNode("output", "result", _type(func.ret_type), "", result))
    return nodes


def _box(var: Var, value: Value, reads: tuple[int, ...]) -> GraphNode | None:
    """The box of a binding; None for what does nothing."""
    kind, size = _type(var.type), _size(var.type)
    weights = sum(isinstance(a, Constant) for a in _atoms(value))
    match value:
        case CallDPS(func):
            return GraphNode("kernel", func.name, kind, func.name, reads, weights, size)
        case CallDPSPacked(name):
            return GraphNode("function", name, kind, name, reads, weights, size)
        case CallFunction(func):
            return GraphNode("function", func.name, kind, "", reads, weights, size)
        case Call(op) if not get_op(op).is_view:
            return GraphNode("function", op, kind, "", reads, weights, size)
        case If():
            return GraphNode("function", "if", kind, "", reads, weights, size)
        case _:
            return None


def _reads(value: Value, known: Mapping[Var, tuple[int, ...]]) -> tuple[int, ...]:
    return _reads_of(list(_atoms(value)), known)


def _reads_of(atoms: Sequence[Atom], known: Mapping[Var, tuple[int, ...]]) -> tuple[int, ...]:
    found: dict[int, None] = {}
    for atom in atoms:
        for var in _variables(atom):
            found.update(dict.fromkeys(known.get(var, ())))
    return tuple(found)


def _variables(atom: Atom) -> Iterator[Var]:
    match atom:
        case Var():
            yield atom
        case Tuple(fields):
            for f in fields:
                yield from _variables(f)
        case _:
            return


def _atoms(value: Value) -> Iterator[Atom]:
    match value:
        case Call(_, args) | CallDPS(_, args) | CallDPSPacked(_, args) | CallFunction(_, args):
            yield from args
        case If(condition, first, second):
            yield condition
            for branch in (first, second):
                for block in branch.blocks:
                    for binding in block.bindings:
                        yield from _atoms(binding.value)
                yield branch.result
        case TupleGetItem(inner, _):
            yield inner
        case _:
            yield value


def draw_graph(nodes: Sequence[GraphNode], heat: Mapping[str, float]) -> str:
    """The SVG. ``heat`` is the share of the time of one call of each kernel, 0 to 1; each box of a
    kernel links to ``#kernel-<name>``."""
    lanes = _lanes(nodes)
    width = WIDTH + 24 + _LANE * (1 + max(lanes.values(), default=0))
    height = len(nodes) * (HEIGHT + GAP) + GAP
    hottest = max(heat.values(), default=0.0)
    parts = [
        f'<svg class="graph" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'xmlns="http://www.w3.org/2000/svg">'
    ]
    for reader, node in enumerate(nodes):
        for source in node.reads:
            parts.append(_line(source, reader, lanes.get((source, reader))))
    for row, node in enumerate(nodes):
        share = heat.get(node.kernel, 0.0)
        parts.append(_drawn(row, node, share, share / hottest if hottest else 0.0))
    return "\n".join([*parts, "</svg>"])


def _lanes(nodes: Sequence[GraphNode]) -> dict[tuple[int, int], int]:
    """A lane for each line that passes boxes, so that no two lie on each other."""
    lines = sorted((s, r) for r, node in enumerate(nodes) for s in node.reads if r > s + 1)
    taken: list[tuple[int, int]] = []
    """Of each lane: (the row where its last line ends, the row where that line begins)."""
    found: dict[tuple[int, int], int] = {}
    for source, reader in lines:
        for lane, (end, begin) in enumerate(taken):
            if end <= source or begin == source:
                taken[lane] = (max(reader, end), source)
                found[source, reader] = lane
                break
        else:
            found[source, reader] = len(taken)
            taken.append((reader, source))
    return found


def _line(source: int, reader: int, lane: int | None) -> str:
    top = GAP + source * (HEIGHT + GAP) + HEIGHT
    bottom = GAP + reader * (HEIGHT + GAP)
    if lane is None:
        middle = 12 + WIDTH // 2
        return f'<path class="line" d="M{middle} {top}V{bottom}"/>'
    right = 12 + WIDTH
    x, first, last = right + _LANE * (lane + 1), top - HEIGHT // 2, bottom + HEIGHT // 2
    return f'<path class="line" d="M{right} {first}H{x - 5}q5 0 5 5V{last - 5}q0 5 -5 5H{right}"/>'


def _drawn(row: int, node: GraphNode, share: float, heat: float) -> str:
    x, y = 12, GAP + row * (HEIGHT + GAP)
    label, kind = _cut(node.label), _cut(node.type)
    weights = f"{node.weights} constant{'s' if node.weights != 1 else ''}" if node.weights else ""
    title = ", ".join([t for t in (node.label, node.type, weights) if t])
    shown = f'<text x="{x + WIDTH - 8}" y="{y + 32}" class="share">{share:.1%}</text>'
    box = (
        f'<g class="{node.kind}"><title>{escape(title)}</title>'
        f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6"/>'
        f'<rect class="heat" x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6" '
        f'style="opacity:{0.75 * heat:.2f}"/>'
        f'<text x="{x + 8}" y="{y + 16}" class="label">{escape(label)}</text>'
        f'<text x="{x + 8}" y="{y + 32}" class="type">{escape(kind)}</text>'
        f"{shown if share else ''}</g>"
    )
    if node.kind != "kernel":
        return box
    return f'<a href="#kernel-{escape(node.kernel)}">{box}</a>'


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "…"


def _size(kind: Type) -> int | None:
    """Bytes of a type; None where a dim has a name."""
    match kind:
        case TensorType(shape, dtype):
            known = [d.value for d in shape if isinstance(d, IntImm)]
            return prod(known) * dtype.itemsize if len(known) == len(shape) else None
        case TupleType(fields):
            sizes = [_size(f) for f in fields]
            return None if None in sizes else sum([n or 0 for n in sizes])
        case _:
            return None


def _type(kind: Type) -> str:
    """``float32[1, m, 8]``."""
    match kind:
        case TensorType(shape, dtype):
            return f"{dtype}[{', '.join([print_expr(d) for d in shape])}]"
        case TupleType(fields):
            return ", ".join([_type(f) for f in fields])
        case _:
            return type(kind).__name__
