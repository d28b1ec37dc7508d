"""Operators of ONNX that order, find or accumulate elements along one axis."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto

from ...support.errors import FrontendError
from ...tensorir.expr import IntImm
from .convert_index import elements_at
from .data_sizes import counted, entries, positions, size_of, term_of, valid
from .registry import Context, Value, attribute, converts, node_name
from .term import Term


@converts("ArgMax", "ArgMin")
def arg_extreme(context: Context, node: NodeProto) -> Value:
    return context.op(
        node.op_type.lower(), context.operand(node, 0),
        axis=int(attribute(node, "axis", 0)), keepdims=bool(attribute(node, "keepdims", 1)),
        last=bool(attribute(node, "select_last_index", 0)),
    )  # fmt: skip


@converts("TopK")
def top_k(context: Context, node: NodeProto) -> list[Value]:
    """Always in order; of equal elements those with the lower index."""
    x = context.operand(node, 0)
    old = context.opset < 10
    given = [IntImm(attribute(node, "k"))] if old else entries(context, node, 1)
    if given is None or len(given) != 1:
        raise FrontendError(f"{node_name(node)}: k must be one number.")
    axis = int(attribute(node, "axis", -1))
    descending = bool(attribute(node, "largest", 1))
    if isinstance(given[0], IntImm):
        count = given[0].value
        order = context.op("argsort", x, axis=axis, descending=descending, count=count)
    else:
        length = counted(context, context.type(x).shape[axis])
        k = term_of(context, given[0])
        size = size_of(context, valid(k, k <= length), node, 1)
        order = context.op("argsort", x, axis=axis, descending=descending)
        order = context.op("take", order, positions(context, size).atom, axis=axis)
    return [elements_at(context, x, order, axis), order]


@converts("CumSum", "CumProd")
def cumulative(context: Context, node: NodeProto) -> Value:
    axis = context.number(node, 1)
    return context.op(
        node.op_type.lower(), context.operand(node, 0), axis=int(axis or 0),
        exclusive=bool(attribute(node, "exclusive", 0)),
        reverse=bool(attribute(node, "reverse", 0)),
    )  # fmt: skip


@converts("Hardmax")
def hardmax(context: Context, node: NodeProto) -> Value:
    """1 at the first largest element of an axis, else 0. Before opset 13 the axes from ``axis`` on
    are one."""
    x = Term(context, context.operand(node, 0))
    shape = x.shape
    axis = int(attribute(node, "axis", -1 if context.opset >= 13 else 1)) % max(x.ndim, 1)
    if context.opset < 13:
        x, axis = x.reshape(*shape[:axis], -1), axis
    size = x.sizes(node_name(node))[axis]
    numbers = x.data(np.arange(size).reshape(-1, *[1] * (x.ndim - 1 - axis)), "int64")
    largest = x.op("argmax", axis=axis, keepdims=True)
    return largest.equals(numbers).cast(x.dtype).reshape(*shape).atom


@converts("ReverseSequence")
def reverse_sequence(context: Context, node: NodeProto) -> Value:
    """The first elements of a time axis in reverse, as many as each batch has."""
    x, lengths = (Term(context, context.operand(node, i)) for i in range(2))
    time, batch = int(attribute(node, "time_axis", 0)), int(attribute(node, "batch_axis", 1))
    sizes = x.sizes(node_name(node))
    at = x.data(np.arange(sizes[time]), "int64").reshape(
        *[sizes[time] if d == time else 1 for d in range(x.ndim)]
    )
    count = lengths.reshape(*[sizes[batch] if d == batch else 1 for d in range(x.ndim)])
    index = (at < count).where(count - 1 - at, at).expand(*sizes)
    return x.op("gather_elements", index, axis=time).atom


@converts("TfIdfVectorizer")
def tf_idf(context: Context, node: NodeProto) -> Value:
    """How often each n-gram of a pool occurs in a row, with up to ``max_skip_count`` elements left
    out between neighbours; counted, or weighted."""
    x = Term(context, context.operand(node, 0))
    where = node_name(node)
    pool = attribute(node, "pool_int64s")
    if not pool:
        raise FrontendError(f"{where}: only n-grams of numbers can be imported.")
    starts = [*attribute(node, "ngram_counts"), len(pool)]
    columns = list(attribute(node, "ngram_indexes"))
    rows = x if x.ndim == 2 else x.unsqueeze(0)
    batch, length = rows.sizes(where)
    low, high = int(attribute(node, "min_gram_length")), int(attribute(node, "max_gram_length"))
    skips = int(attribute(node, "max_skip_count"))
    counts = x.data(np.zeros((batch, max(columns) + 1)), "float32")
    first = 0
    for n in range(1, high + 1):
        grams = np.array(pool[starts[n - 1] : starts[n]]).reshape(-1, n)
        own, first = columns[first : first + len(grams)], first + len(grams)
        if n < low or not len(grams):
            continue
        for skip in range(skips + 1 if n > 1 else 1):
            windows = length - (n - 1) * (skip + 1)
            if windows <= 0:
                continue
            at = np.arange(windows)[:, None] + np.arange(n) * (skip + 1)
            taken = rows.op("take", x.data(at, "int64"), axis=1).unsqueeze(2)
            same = taken.equals(x.data(grams, str(x.dtype))).cast("int32").op("min", axis=-1)
            found = same.sum(1).cast("float32")
            place = np.zeros((len(grams), max(columns) + 1))
            place[np.arange(len(grams)), own] = 1
            counts = counts + found @ counts.data(place)
    weights = attribute(node, "weights")
    table = np.ones(max(columns) + 1, np.float32)
    if weights:
        table[columns] = weights
    mode = str(attribute(node, "mode"))
    if mode == "TF":
        made = counts
    else:
        seen = counts if mode == "TFIDF" else (counts > 0.0).cast("float32")
        made = seen * counts.data(table)
    return (made if x.ndim == 2 else made.at(0, 0)).atom
