"""Control flow of ONNX: If, Loop, Scan, SequenceMap.

What data decide is in the program: an If is a branch (``data_control.py``), a Loop and a Scan are
loops (``data_loops.py``). What is known when the model is imported, or asked for, is not: the graph
that an If takes stands in its place, and a loop is written out, up to ``MOST_NODES`` nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import NodeProto

from ...graphir.dim import dim_equal, print_dim, static_shape, static_value
from ...graphir.expr import Atom, constant
from ...support.errors import FrontendError
from ...tensorir.expr import Expr
from .data_control import either, inlined
from .data_loops import Iteration, Lift, body_of, repeat
from .data_sizes import counted, positions
from .registry import Context, ShapeValue, Value, attribute, converts, node_name
from .term import Term
from .walk import run_graph


@converts("If")
def branch(context: Context, node: NodeProto) -> list[Value]:
    """A branch of the program, or (of a known condition) the graph that is taken."""
    graphs = attribute(node, "then_branch"), attribute(node, "else_branch")
    condition, why = context.required(node, 0), ""
    if context.is_data(condition):
        made = either(context, node, condition, graphs)
        if isinstance(made, list):
            return made
        why = made
    return run_graph(context, graphs[0 if context.number(node, 0, why) else 1], [])


@converts("Loop")
def loop(context: Context, node: NodeProto) -> list[Value]:
    """The body's outputs: a condition, the carried values, and an element of each scan.

    Written out where nothing of data says how often it runs; else a loop of the program, where that
    can be; else how often is asked for.
    """
    limit, condition = context.raw(node, 0), context.raw(node, 1)
    states = [context.lookup(n, node_name(node)) for n in node.input[2:]]
    is_named = isinstance(limit, ShapeValue) and static_shape(limit.dims) is None
    if not is_named and not any(map(context.is_data, (limit, condition))):
        written = inlined(context, lambda: _written_out(context, node, states, ""))
        if isinstance(written, list):
            return written
    body = attribute(node, "body")
    run = body_of(context, body)

    def iteration(i: Atom, carried: Sequence[Atom], lift: Lift) -> Iteration:
        going: Atom = constant(np.array(True))
        found = run([i, going, *carried], lift)
        return Iteration(found[0], found[1 : 1 + len(states)], found[1 + len(states) :])

    begins = constant(np.array(True)) if condition is None else context.answered(condition)
    collects = len(body.output) > 1 + len(states)
    limit = context.answered(limit)
    made = repeat(context, node, limit, begins, states, iteration, collects=collects)
    return made if isinstance(made, list) else _written_out(context, node, states, made)


def _written_out(
    context: Context, node: NodeProto, carried: Sequence[Value], why: str
) -> list[Value]:
    limit, condition = context.number(node, 0, why), context.number(node, 1, why)
    body = attribute(node, "body")
    scans: list[list[Value]] = [[] for _ in body.output[1 + len(carried) :]]
    count = 0
    goes_on = condition is None or bool(condition)
    while goes_on and (limit is None or count < limit):
        going: Atom = constant(np.array(True))
        found = run_graph(context, body, [constant(np.int64(count)), going, *carried])
        count += 1
        carried = found[1 : 1 + len(carried)]
        for scan, value in zip(scans, found[1 + len(carried) :], strict=True):
            scan.append(value)
        if limit is None or count < limit:
            after = context.known(found[0], node, 1, why)
            goes_on = bool(context.array(after).all())
    return [*carried, *[_stacked(context, node, s) for s in scans]]


def _stacked(context: Context, node: NodeProto, values: Sequence[Value], axis: int = 0) -> Value:
    """The elements of a scan along a new axis."""
    if not values:
        raise FrontendError(
            f"{node_name(node)}: it runs no iteration, so what it collects has no known shape."
        )
    atoms = [context.tensor(v, node_name(node)) for v in values]
    shapes = [context.type(a).shape for a in atoms]
    other = next((s for s in shapes if _differ(s, shapes[0])), None)
    if other is not None:
        found = " and ".join([f"({', '.join(map(print_dim, s))})" for s in (shapes[0], other)])
        raise FrontendError(
            f"{node_name(node)}: it collects elements of the shapes {found}, which cannot be one "
            "tensor: ONNX wants one shape. Carry what has been collected as a state, and join it "
            "with Concat."
        )
    parts = [context.op("expand_dims", a, axis=axis) for a in atoms]
    return parts[0] if len(parts) == 1 else context.op("concat", *parts, axis=axis)


def _differ(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    """Whether two shapes are known for different ones."""
    known = [(static_value(m), static_value(n)) for m, n in zip(a, b, strict=False)]
    return len(a) != len(b) or any(None not in both and both[0] != both[1] for both in known)


@converts("Scan")
def scan(context: Context, node: NodeProto) -> list[Value]:
    """States go from iteration to iteration; inputs are cut along an axis, outputs joined."""
    if context.opset < 9:
        return _batches(context, node)
    return _scan(context, node, context.inputs(node))


def _batches(context: Context, node: NodeProto) -> list[Value]:
    """Scan of opset 8: the first axis is the batch, each of which is scanned alone; behind the
    optional lengths come the states and the inputs."""
    if context.raw(node, 0) is not None:
        raise FrontendError(f"{node_name(node)}: lengths of its own for each batch are not read.")
    given = [context.tensor(v, node_name(node)) for v in context.inputs(node)]
    count = static_value(context.type(given[0]).shape[0])
    if not count:
        raise FrontendError(f"{node_name(node)}: its batches need a static number of them.")
    rows = [_scan(context, node, [_element(context, x, 0, b) for x in given]) for b in range(count)]
    return [_stacked(context, node, parts) for parts in zip(*rows, strict=True)]


def _scan(context: Context, node: NodeProto, given: Sequence[Value]) -> list[Value]:
    body, where = attribute(node, "body"), node_name(node)
    count = int(attribute(node, "num_scan_inputs"))
    states, inputs = list(given[:-count]), [context.tensor(v, where) for v in given[-count:]]
    axes = _ints(node, "scan_input_axes", count)
    backwards = _directions(context, node, count)
    axes = [a % max(context.type(x).ndim, 1) for a, x in zip(axes, inputs, strict=True)]
    lengths = [context.type(x).shape[a] for a, x in zip(axes, inputs, strict=True)]
    length = static_value(lengths[0])
    if any(not dim_equal(n, lengths[0]) for n in lengths):
        found = ", ".join([print_dim(n) for n in lengths])
        raise FrontendError(f"{where}: the lengths {found} are not one number.")
    if length is None:
        looped = _scan_loop(context, node, states, inputs)
        if isinstance(looped, list):
            return looped
        raise FrontendError(f"{where}: the length {lengths[0]} is no static number; {looped}")
    collected: list[list[Value]] = [[] for _ in body.output[len(states) :]]
    for i in range(length):
        parts = [
            _element(context, x, a, length - 1 - i if back else i)
            for x, a, back in zip(inputs, axes, backwards, strict=True)
        ]
        made = run_graph(context, body, [*states, *parts])
        states = made[: len(states)]
        for values, value in zip(collected, made[len(states) :], strict=True):
            values.append(value)
    out_axes = _ints(node, "scan_output_axes", len(collected))
    reversed_ = _ints(node, "scan_output_directions", len(collected))
    joined = [
        _stacked(context, node, values[::-1] if back else values, axis)
        for values, axis, back in zip(collected, out_axes, reversed_, strict=True)
    ]
    return [*states, *joined]


def _scan_loop(
    context: Context, node: NodeProto, states: Sequence[Value], inputs: Sequence[Atom]
) -> list[Value] | str:
    """A scan of a symbolic length as a loop of the program; or why there can be none."""
    axes = _ints(node, "scan_input_axes", len(inputs))
    backwards = _directions(context, node, len(inputs))
    axes = [a % context.type(x).ndim for a, x in zip(axes, inputs, strict=True)]
    length = context.type(inputs[0]).shape[axes[0]]
    last = counted(context, length) - 1
    run = body_of(context, attribute(node, "body"))

    def iteration(i: Atom, carried: Sequence[Atom], lift: Lift) -> Iteration:
        parts: list[Value] = []
        for x, axis, back in zip(inputs, axes, backwards, strict=True):
            whole, end = (context.tensor(lift(v), node_name(node)) for v in (x, last.atom))
            at = context.op("subtract", end, i) if back else i
            parts.append(context.op("take", whole, at, axis=axis))
        made = run([*carried, *parts], lift)
        return Iteration(constant(np.array(True)), made[: len(states)], made[len(states) :])

    limit, goes_on = ShapeValue((length,), scalar=True), constant(np.array(True))
    collects = len(attribute(node, "body").output) > len(states)
    made = repeat(context, node, limit, goes_on, states, iteration, collects=collects)
    if isinstance(made, str):
        return made
    rows = [Term(context, context.tensor(r, "")) for r in made[len(states) :]]
    out_axes = _ints(node, "scan_output_axes", len(rows))
    for k, (axis, back) in enumerate(
        zip(out_axes, _ints(node, "scan_output_directions", len(rows)), strict=True)
    ):
        if back:
            rows[k] = rows[k].op("take", last - positions(context, length), axis=0)
        order = list(range(1, rows[k].ndim))
        order.insert(axis % rows[k].ndim, 0)
        rows[k] = rows[k].permute(*order) if axis else rows[k]
    return [*made[: len(states)], *[r.atom for r in rows]]


def _directions(context: Context, node: NodeProto, count: int) -> list[int]:
    old = context.opset < 9
    return _ints(node, "directions" if old else "scan_input_directions", count)


def _ints(node: NodeProto, name: str, count: int) -> list[int]:
    found = attribute(node, name)
    return [0] * count if found is None else [int(v) for v in found]


def _element(context: Context, x: Atom, axis: int, index: int) -> Atom:
    cut = context.op(
        "strided_slice", x, axes=(axis,), begin=(index,), end=(index + 1,), strides=(1,)
    )
    return context.op("squeeze", cut, axis=axis)


@converts("SequenceMap")
def over_sequences(context: Context, node: NodeProto) -> list[Value]:
    """The body for each element; operands that are no sequences are the same for all."""
    given = context.inputs(node)
    first = given[0]
    if not isinstance(first, list):
        raise FrontendError(f"{node_name(node)}: its first input is no sequence.")
    body = attribute(node, "body")
    rows = [
        run_graph(context, body, [x[i] if isinstance(x, list) else x for x in given])
        for i in range(len(first))
    ]
    return [[row[k] for row in rows] for k in range(len(body.output))]
