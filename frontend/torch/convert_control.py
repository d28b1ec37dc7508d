"""Control flow that data tell: ``torch.cond``, ``while_loop``, ``scan`` and ``map``.

torch.export gives each a graph, and all that the graph reads as operands. A cond is a branch of the
program. The others are functions of the module that call themselves at their end, which is a jump
(``graphir.emit.emit_vm``)::

    while_loop(c, body, (s,), (w,))   ->   y = cls.loop(s, w)

    def loop(s, w):
        going = c(s, w)
        if going:
            r = cls.loop(body(s, w), w)
        else:
            r = (s,)
        return r

A scan and a map count: a state more says which row the body reads, and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch.fx import Node

from ...graphir.expr import (
    Atom,
    CallFunction,
    Constant,
    Function,
    GlobalVar,
    If,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    constant,
)
from ...graphir.text.printer import format_type
from ...graphir.type import TensorType, TupleType, dims_of, types_equal
from ...support.dtype import DType
from ...tensorir.expr import Expr
from ...tensorir.visitor import free_vars
from .numbers_of_data import SYMBOLIC, number
from .registry import Context, converts

_FLAG = TensorType((), DType("bool"))


@converts("cond")
def cond(context: Context, node: Node) -> list[Atom]:
    """A branch of the program: both sides give tensors of the same types."""
    predicate, yes, no, operands = map(context.value, node.args)
    flag = _flag(context, predicate)
    branches = [_branch(context, graph, operands) for graph in (yes, no)]
    _same_types(context, "its branches give", *map(_fields, branches))
    with context.builder.dataflow(is_dataflow=False):
        made = context.builder.emit(If(flag, *branches))
    return _unpacked(context, made, len(_fields(branches[0])))


@converts("while_loop")
def while_loop(context: Context, node: Node) -> list[Any]:
    """The states when the condition fails, after any number of iterations."""
    condition, body, begun, operands = map(context.value, node.args)

    def goes(states: Sequence[Any], given: Sequence[Any]) -> Atom:
        return _flag(context, context.run_graph(condition, [*states, *given])[0])

    def run(states: Sequence[Any], given: Sequence[Any]) -> Sequence[Any]:
        return context.run_graph(body, [*states, *given])

    made = _repeat(context, begun, operands, _Body(goes, run))
    fakes = node.meta["val"]
    return [
        number(context, held, fake) if isinstance(fake, SYMBOLIC) else held
        for held, fake in zip(made, fakes, strict=True)
    ]


@converts("scan", "map_impl")
def scan(context: Context, node: Node) -> list[Atom]:
    """The last states, and a row of each iteration; a map has no states."""
    given = [context.value(a) for a in node.args]
    graph, begun, rows, operands = given if len(given) == 4 else [given[0], [], *given[1:]]
    begun, rows = _tensors(context, begun), _tensors(context, rows)
    length = context.type(rows[0]).shape[0]
    end = context.counted(length)
    kinds = [context.result_type(node, i) for i in range(len(begun), len(node.meta["val"]))]
    blanks = [context.broadcast(context.scalar(0, kind.dtype), kind) for kind in kinds]

    def goes(states: Sequence[Any], given: Sequence[Any]) -> Atom:
        return context.op("less", states[0], given[0])

    def run(states: Sequence[Any], given: Sequence[Any]) -> Sequence[Any]:
        at, carried, filled = states[0], states[1 : 1 + len(begun)], states[1 + len(begun) :]
        parts = [context.op("take", row, at, axis=0) for row in given[1 : 1 + len(rows)]]
        made = context.run_graph(graph, [*carried, *parts, *given[1 + len(rows) :]])
        found = _tensors(context, made)
        written = [
            context.op("scatter_index", old, element, at, axes=(0,))
            for old, element in zip(filled, found[len(begun) :], strict=True)
        ]
        return [context.op("add", at, constant(1, "int64")), *found[: len(begun)], *written]

    states = [constant(0, "int64"), *begun, *blanks]
    return _repeat(context, states, [end, *rows, *operands], _Body(goes, run))[1:]


# -- branches and loops --------------------------------------------------------------------------
def _branch(context: Context, graph: Any, operands: Sequence[Any]) -> SeqExpr:
    sizes = dict(context.sizes)
    with context.builder.sequence() as blocks, context.builder.dataflow():
        result = Tuple(tuple(_named(context, context.run_graph(graph, operands))))
    context.sizes = sizes
    return SeqExpr(tuple(blocks), result)


def _fields(branch: SeqExpr) -> Sequence[Atom]:
    assert isinstance(branch.result, Tuple)
    return branch.result.fields


@dataclass(frozen=True)
class _Body:
    """What an iteration does, of the states and of what stays as it is."""

    goes: Callable[[Sequence[Any], Sequence[Any]], Atom]
    run: Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]


def _repeat(
    context: Context, states: Sequence[Any], operands: Sequence[Any], body: _Body
) -> list[Atom]:
    """The states after the last iteration of a loop of the program."""
    builder, sizes = context.builder, dict(context.sizes)
    operands = [context.operand(a) if isinstance(a, SYMBOLIC) else a for a in operands]
    begun = _named(context, states)
    carried = [_param(context, "state", a) for a in begun]
    held = {a: _param(context, a.name, a) for a in operands if isinstance(a, Var)}
    given = [held.get(a, a) if isinstance(a, Var) else a for a in operands]
    _require_sizes(context, [*carried, *held.values()], operands)
    kind = TupleType(tuple([v.type for v in carried]))
    name = GlobalVar(context.function_names.fresh("loop"))
    with builder.sequence() as head:
        builder.declare(*carried, *held.values())
        with builder.dataflow():
            going = body.goes(carried, given)
        with builder.sequence() as blocks:
            with builder.dataflow():
                after = _named(context, body.run(carried, given))
                _same_types(context, "what it carries is", carried, after)
            with builder.dataflow(is_dataflow=False):
                again = builder.emit(CallFunction(name, (*after, *held.values()), kind))
        rest = SeqExpr((), Tuple(tuple(carried)))
        with builder.dataflow(is_dataflow=False):
            final = builder.emit(If(going, SeqExpr(tuple(blocks), again), rest))
    symbol = (("global_symbol", name.name),)
    params, sequence = (*carried, *held.values()), SeqExpr(tuple(head), final)
    context.functions_made[name.name] = Function(params, sequence, kind, symbol, name.name)
    context.sizes = sizes
    with builder.dataflow(is_dataflow=False):
        whole = builder.emit(CallFunction(name, (*begun, *held), kind))
    return _unpacked(context, whole, len(carried))


def _require_sizes(context: Context, params: Sequence[Var], operands: Sequence[Any]) -> None:
    """Raise FrontendError for a size among the operands that no tensor of the loop has."""
    sizes = [a for a in operands if isinstance(a, Expr)]
    known = free_vars([d for v in params for d in dims_of(v.type)])
    missing = [d.name for d in free_vars(sizes) if d not in known]
    if missing:
        raise context.refuse(
            f"its body reads the size {', '.join(missing)}, which no tensor that it is given has; "
            "pass one that has it."
        )


# -- values --------------------------------------------------------------------------------------
def _flag(context: Context, value: Any) -> Atom:
    """A condition as a scalar bool."""
    if isinstance(value, bool):
        return constant(value, "bool")
    flag = context.operand(value, _FLAG.dtype)
    return context.reshaped(flag, _FLAG) if context.type(flag).ndim else flag


def _tensors(context: Context, values: Sequence[Any]) -> list[Atom]:
    return [context.operand(v, DType("int64") if isinstance(v, int) else None) for v in values]


def _named(context: Context, values: Sequence[Any]) -> list[Atom]:
    """Tensors that leave a graph: constants are weights of the module."""
    adopt = context.builder.weights.adopt
    atoms = _tensors(context, values)
    return [adopt(a) if isinstance(a, Constant) else a for a in atoms]


def _param(context: Context, name: str, like: Atom) -> Var:
    return Var(context.builder.unique(name), context.type(like))


def _same_types(context: Context, what: str, one: Sequence[Atom], other: Sequence[Atom]) -> None:
    for a, b in zip(one, other, strict=True):
        if not types_equal(context.type(a), context.type(b)):
            kinds = f"{format_type(context.type(a))} and {format_type(context.type(b))}"
            raise context.refuse(f"{what} {kinds}, which have to be of one type.")


def _unpacked(context: Context, value: Var, count: int) -> list[Atom]:
    return [context.builder.emit(TupleGetItem(value, i)) for i in range(count)]
