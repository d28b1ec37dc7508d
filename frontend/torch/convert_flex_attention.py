"""``flex_attention``: attention whose scores and mask functions of the user's change.

    score_mod(score, b, h, i, j) -> score          mask_mod(b, h, i, j) -> bool

torch.export gives either as a graph over scalars. Here it runs once, on the scores of all pairs and
on positions of the shapes (B, 1, 1, 1), (1, H, 1, 1), (1, 1, Q, 1) and (1, 1, 1, K): elementwise
operators and look-ups at one place broadcast, and others are refused. As eager PyTorch does on a
CPU, the blocks of a mask are not looked at, sums are float32, and a row in which no key takes part
is zero.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import torch
from torch.fx import GraphModule, Node

from ...graphir.dim import static_shape
from ...graphir.expr import Atom
from ...graphir.type import TensorType, tensor_type
from ...support.dtype import DType
from ...tensorir.expr import Expr, IntImm
from ..log_sum_exp import log_sum_exp
from .registry import Context, converts, import_dtype, operator_name

_SCALARS = (
    "aten.index.Tensor", "aten.new_ones.default", "aten.new_zeros.default", "aten.new_full.default",
    "aten.full.default", "aten.ones.default", "aten.zeros.default", "aten.scalar_tensor.default",
    "aten._to_copy.default", "aten.lift_fresh_copy.default", "aten._assert_tensor_metadata.default",
)  # fmt: skip
"""What may stand in a function of scalars beside operators that torch marks as elementwise."""
_UNMARKED = re.compile(r"aten\.(where|__(and|or|xor|lshift|rshift)__)\.")
"""Elementwise operators that torch does not mark."""


@converts("flex_attention")
def flex_attention(context: Context, node: Node) -> list[Atom]:
    """The output, and what the softmax was divided by and its largest score, as logarithms to the
    base 2."""
    q, k, v, change, blocks, scale, _, held, mask_held = [context.value(a) for a in node.args[:9]]
    kind = context.type(q)
    if len(kind.shape) != 4:
        raise context.refuse("flex_attention takes (batch, heads, tokens, size).")
    dtype = DType("float64") if kind.dtype == "float64" else DType("float32")
    places = _positions(context, [*kind.shape[:3], context.type(k).shape[2]])
    scores = _grouped(context, context.cast(q, dtype), context.cast(k, dtype), transposed=True)
    scores = context.op("multiply", scores, context.scalar(float(scale), dtype))
    whole = context.type(scores)
    changed = _run(context, change, [scores], places, held)
    taken = _run(context, blocks[-1], [], places, mask_held)
    lowest = context.scalar(-math.inf, dtype)
    scores = context.op(
        "where", context.cast(taken, DType("bool")), context.cast(changed, dtype), lowest
    )
    scores = context.broadcast(scores, whole)
    most = context.op("max", scores, axis=-1, keepdims=True)
    empty = context.op("equal", most, lowest)
    zero, base = context.scalar(0, dtype), context.scalar(1 / math.log(2), dtype)
    weights = context.op("where", empty, zero, context.op("softmax", scores, axis=-1))
    y = _grouped(context, context.cast(weights, kind.dtype), v, transposed=False)
    total = log_sum_exp(context, scores, (-1,))
    row = tensor_type(whole.shape[:-1], dtype)
    return [y, *(context.op("multiply", context.reshaped(x, row), base) for x in (total, most))]


def _positions(context: Context, sizes: Sequence[Expr]) -> list[Atom]:
    """0, 1, ... along each of the four axes."""
    found: list[Atom] = []
    for axis, size in enumerate(sizes):
        shape: list[Expr | int] = [1, 1, 1, 1]
        shape[axis] = size
        found.append(context.reshape(context.positions(size), shape))
    return found


def _run(
    context: Context,
    graph: GraphModule,
    values: Sequence[Atom],
    places: Sequence[Atom],
    held: Sequence[Atom],
) -> Atom:
    """A function of scalars on all pairs at once."""
    for node in graph.graph.nodes:
        if node.op != "call_function":
            continue
        name, fake = operator_name(node), node.meta.get("val")
        tags = getattr(node.target, "tags", ())
        is_scalar = not isinstance(fake, torch.Tensor) or fake.ndim == 0
        known = torch.Tag.pointwise in tags or name in _SCALARS or _UNMARKED.match(name)
        if not (is_scalar and known):
            raise context.refuse(
                f"score_mod or mask_mod of flex_attention does {name}, which is not elementwise. "
                "Index held tensors at all their axes at once (x[b, i], not x[b][i]), or use "
                "scaled_dot_product_attention with a mask."
            )
    inputs = [n.meta["val"] for n in graph.graph.find_nodes(op="placeholder")]
    kinds = [import_dtype(x.dtype, context.place) for x in inputs[len(values) :]]
    given = [context.cast(x, kind) for x, kind in zip(places, kinds, strict=False)]
    found: Atom = context.operand(context.run_graph(graph, [*values, *given, *held])[0])
    return found


def _grouped(context: Context, a: Atom, b: Atom, *, transposed: bool) -> Atom:
    """The product of each head of ``a`` with the head of ``b`` that it shares with its
    neighbours."""
    kinds: list[TensorType] = [context.type(x) for x in (a, b)]
    (batch, heads, rows, depth), (_, own, _, columns) = kinds[0].shape, kinds[1].shape
    counts = static_shape((heads, own))
    if counts is None or counts[0] % counts[1]:
        raise context.refuse("heads of queries must be a multiple of those of keys.")
    each = counts[0] // counts[1]
    shared = context.op("reshape", a, context.shape([batch, own, rows * IntImm(each), depth]))
    y = context.op("matmul", shared, b, transpose_b=transposed)
    last = kinds[1].shape[2] if transposed else columns
    return context.op("reshape", y, context.shape([batch, heads, rows, last]))
