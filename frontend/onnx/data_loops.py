"""Loops that data tell: a function of the module that calls itself at its end.

    y = Loop(m, c, x) < body >   ->   y = cls.loop(0, c, x, m)

    def loop(i, going, s, m):
        if going and i < m:
            t, on = body(i, s)
            r = cls.loop(i + 1, on, t, m)       a jump, not a call (``graphir.emit.emit_vm``)
        else:
            r = (i, s)
        return r

What the body sees of the names around it becomes parameters that stay as they are. The states keep
their types from iteration to iteration. What an iteration gives besides is written into a tensor of
as many elements as there may be iterations, of which those that were made are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from onnx import GraphProto, NodeProto

from ...graphir.dim import product
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
from ...graphir.op import type_of
from ...graphir.text.printer import format_type
from ...graphir.type import TensorType, TupleType, dims_of, types_equal
from ...support.dtype import DType
from ...support.errors import BurnishError, FrontendError
from ...tensorir.expr import Expr, IntImm
from ...tensorir.visitor import free_vars
from .data_control import attempt, tensors
from .data_sizes import counted, positions, size_of
from .registry import MOST_ELEMENTS, Context, Narrow, NeedsValueError, ShapeValue, Value, node_name
from .term import Term
from .walk import names_read, run_graph

_NUMBER = TensorType((), DType("int64"))
_FLAG = TensorType((), DType("bool"))


@dataclass(frozen=True)
class Iteration:
    """What the body of a loop gives."""

    condition: Value
    """Whether it goes on."""
    states: Sequence[Value]
    elements: Sequence[Value]
    """Collected by the loop along a new first axis."""


Lift = Callable[[Value], Value]
"""A value around a loop as its body sees it."""
Body = Callable[[Atom, Sequence[Atom], Lift], Iteration]
"""Of the number of the iteration and the states."""


def repeat(
    context: Context,
    node: NodeProto,
    limit: Value,
    condition: Value,
    states: Sequence[Value],
    body: Body,
    *,
    collects: bool,
) -> list[Value] | str:
    """The states and the collected elements of a loop of the program, which ends after ``limit``
    iterations (None: any number) or where the condition fails; or why there can be none.
    ``collects``: whether the body gives such elements."""
    try:
        with attempt(context):
            made = _Loop(context, node).emit(limit, condition, states, body, collects=collects)
            sizes = context.sizes_of_data
    except (BurnishError, NeedsValueError) as error:
        return str(error).partition("\n")[0]
    context.sizes_of_data.update(sizes)
    return made


def body_of(context: Context, graph: GraphProto) -> Callable[..., list[Value]]:
    """The outputs of a graph as a function of its inputs and of what names around it are lifted
    with. It sees no name that is not lifted."""
    names = sorted(names_read(graph.node, [o.name for o in graph.output]))
    around = {n: context.values[n] for n in names if n in context.values}

    def run(inputs: Sequence[Value], lift: Lift) -> list[Value]:
        given = {n: lift(v) for n, v in around.items()}
        with context.scope(given, frozenset(names), context.opsets):
            return run_graph(context, graph, inputs)

    return run


class _Loop:
    """One loop under construction."""

    def __init__(self, context: Context, node: NodeProto) -> None:
        self.context, self.node, self.where = context, node, node_name(node)
        self.builder = context.builder
        self.held: dict[Var, Var] = {}
        """Values around the loop, and the parameters that they are in it."""
        self.around = [v for v in context.values.values() if isinstance(v, Var)]
        self.dims: list[Expr] = []
        """Sizes that the body may speak of."""

    def emit(
        self,
        limit: Value,
        condition: Value,
        states: Sequence[Value],
        body: Body,
        *,
        collects: bool,
    ) -> list[Value]:
        context, builder = self.context, self.builder
        first = self.scalar(condition)
        most = None if limit is None else self.scalar(limit)
        begun = tensors(context, states, self.where)
        length = self.length(limit) if collects else None
        i, going = self.param("i", _NUMBER), self.param("going", _FLAG)
        carried = [self.param("state", context.type(a)) for a in begun]
        self.dims += [d for v in carried for d in dims_of(v.type)]
        with attempt(context), builder.sequence() as head:
            builder.declare(i, going, *carried)
            with builder.dataflow():
                goes: Atom = going
                if most is not None:
                    held = self.scalar(self.lift(most))
                    goes = context.op("logical_and", going, context.op("less", i, held))
            with builder.sequence() as blocks:
                with builder.dataflow(), attempt(context):
                    made = body(i, carried, self.lift)
                    on = self.scalar(made.condition)
                    after = tensors(context, made.states, self.where)
                    self.check_states(carried, after)
                    rows, filled = self.collected(length, made.elements, i)
                    following = context.op("add", i, constant(1, "int64"))
                self.hold_dims()
                result = (i, *carried, *rows)
                kind = TupleType(tuple([v.type for v in result]))
                name = GlobalVar(context.function_names.fresh("loop"))
                args = (following, on, *after, *filled, *self.held.values())
                with builder.dataflow(is_dataflow=False):
                    again = builder.emit(CallFunction(name, args, kind))
            builder.declare(*rows, *self.held.values())
            choice = If(goes, SeqExpr(tuple(blocks), again), SeqExpr((), Tuple(result)))
            with builder.dataflow(is_dataflow=False):
                final = builder.emit(choice)
        params = (i, going, *carried, *rows, *self.held.values())
        sequence, symbol = SeqExpr(tuple(head), final), (("global_symbol", name.name),)
        context.functions_made[name.name] = Function(params, sequence, kind, symbol, name.name)
        args = (constant(0, "int64"), first, *begun, *map(self.blank, rows), *self.held)
        with builder.dataflow(is_dataflow=False):
            whole = builder.emit(CallFunction(name, args, kind))
        count, *found = [
            Term(context, builder.emit(TupleGetItem(whole, k))) for k in range(len(result))
        ]
        if rows and not (self.is_true(condition) and self.is_true(made.condition)):
            kept = positions(context, size_of(context, count, self.node))
            found[len(begun) :] = [f.op("take", kept, axis=0) for f in found[len(begun) :]]
        return [f.atom for f in found]

    # -- values --------------------------------------------------------------------------------
    def param(self, name: str, kind: TensorType) -> Var:
        return Var(self.builder.unique(name), kind)

    def scalar(self, value: Value) -> Atom:
        if isinstance(value, ShapeValue):
            return counted(self.context, product(value.dims)).atom
        atom = self.context.tensor(value, self.where)
        return atom if not self.context.type(atom).ndim else self.context.reshape(atom, ())

    def is_true(self, value: Value) -> bool:
        return isinstance(value, Constant) and bool(self.context.array(value).all())

    def lift(self, value: Value) -> Value:
        """A value around the loop as the body sees it: tensors are parameters."""
        value = self.context.answered(value)
        if isinstance(value, list):
            return [self.lift(v) for v in value]
        if isinstance(value, Narrow):
            stored = self.lift(value.stored)
            assert isinstance(stored, (Var, Constant))
            return replace(value, stored=stored)
        if isinstance(value, ShapeValue):
            self.dims += value.dims
        if not isinstance(value, Var):
            return value
        if value not in self.held:
            self.held[value] = made = self.param(value.name, self.context.type(value))
            self.builder.declare(made)
            self.dims += dims_of(made.type)
        return self.held[value]

    def hold_dims(self) -> None:
        """Each size that the body may speak of is one of a parameter: of one more, where need
        be."""
        for dim in free_vars(self.dims):
            if not any(dim in dims_of(v.type) for v in self.held.values()):
                carrier = next((v for v in self.around if dim in dims_of(v.type)), None)
                if carrier is None:
                    raise FrontendError(f"{self.where}: no tensor has the size {dim.name}.")
                self.lift(carrier)

    # -- what is carried and collected -----------------------------------------------------------
    def check_states(self, before: Sequence[Atom], after: Sequence[Atom]) -> None:
        """Raise FrontendError for a state that changes its type."""
        for old, new in zip(before, after, strict=True):
            if not types_equal(type_of(old), type_of(new)):
                kinds = f"{format_type(type_of(old))}, then {format_type(type_of(new))}"
                raise FrontendError(f"{self.where}: what it carries is {kinds}.")

    def length(self, limit: Value) -> Expr:
        """The most iterations. Raises FrontendError where that is no size."""
        if limit is None:
            raise FrontendError(f"{self.where}: how much it collects is not known before it ends.")
        if isinstance(limit, ShapeValue):
            return product(limit.dims)
        if isinstance(limit, Constant):
            known = max(0, int(self.context.array(limit).item()))
            if known > MOST_ELEMENTS:
                raise FrontendError(f"{self.where}: it may collect {known} elements.")
            return IntImm(known)
        count = Term(self.context, self.scalar(limit)).op("maximum", 0)
        return size_of(self.context, count, self.node)

    def collected(
        self, length: Expr | None, elements: Sequence[Value], i: Atom
    ) -> tuple[list[Var], list[Atom]]:
        """For each collected element the parameter with those so far, and that with it."""
        rows: list[Var] = []
        filled: list[Atom] = []
        for element in tensors(self.context, elements, self.where):
            assert length is not None
            kind = self.context.type(element)
            rows.append(self.param("rows", TensorType((length, *kind.shape), kind.dtype)))
            self.builder.declare(rows[-1])
            filled.append(self.context.op("scatter_index", rows[-1], element, i, axes=(0,)))
        return rows, filled

    def blank(self, row: Var) -> Atom:
        kind = self.context.type(row)
        zero = self.context.scalar(0, kind.dtype)
        return self.context.op("broadcast_to", zero, self.context.shape(kind.shape))
