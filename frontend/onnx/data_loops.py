"""Loops that data tell: a function of the module that calls itself at its end.

    y = Loop(m, c, x) < body >   ->   y = cls.loop(0, c, x, m)

    def loop(i, going, s, m):
        if going and i < m:
            t, on = body(i, s)
            r = cls.loop(i + 1, on, t, m)       a jump, not a call (``graphir.emit.emit_vm``)
        else:
            r = (i, s)
        return r

What the body sees of the names around it becomes parameters that stay as they are. What an
iteration gives besides is written into a tensor of as many elements as there may be iterations, of
which those that were made are kept.

The states keep their ranks and dtypes from iteration to iteration. An axis whose size changes has a
named size of the function, which each jump binds anew; which axes these are, trials of the body
tell. What they are at the end has names too: the function gives them as numbers, and the sizes of
its results are bound to these.

    def loop(i, going, s: (n,), m):
        ...     r = cls.loop(i + 1, on, t, m)                        t has n + 1 elements
        else:   end = bind_size(n); r = (i, s as (end,), end)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from onnx import GraphProto, NodeProto

from ...graphir.dim import dim_equal, product
from ...graphir.expr import (
    Atom,
    Call,
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
from ...graphir.type import TensorType, TupleType, dims_of, substitute_type
from ...support.dtype import DType
from ...support.errors import BurnishError, FrontendError
from ...tensorir.expr import Expr, IntImm
from ...tensorir.expr import Var as DimVar
from ...tensorir.visitor import free_vars
from .data_control import attempt, tensors, with_sizes
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
    own: dict[_Axis, DimVar] = {}
    while True:
        try:
            with attempt(context):
                made = _Loop(context, node, own).emit(
                    limit, condition, states, body, collects=collects
                )
                sizes = context.sizes_of_data
        except _SizesChangeError as change:
            for k, axis in change.axes:
                hint = node.output[k] or node.op_type
                own[k, axis] = DimVar(context.dim_names.fresh(f"{hint}_size"))
        except (BurnishError, NeedsValueError) as error:
            return str(error).partition("\n")[0]
        else:
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


_Axis = tuple[int, int]
"""The number of a state and an axis of it."""


class _SizesChangeError(Exception):
    """The body gives states of other sizes than it takes. Never leaves this file."""

    def __init__(self, axes: Sequence[_Axis]) -> None:
        super().__init__("sizes of states change")
        self.axes = axes


class _Loop:
    """One loop under construction; ``own`` has the names of sizes that change."""

    def __init__(self, context: Context, node: NodeProto, own: Mapping[_Axis, DimVar]) -> None:
        self.context, self.node, self.where = context, node, node_name(node)
        self.builder = context.builder
        self.own = own
        self.last = {d: DimVar(context.dim_names.fresh(f"last_{d.name}")) for d in own.values()}
        """What they are behind the last iteration, in the function."""
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
        carried = [self.param("state", self.state_type(k, a)) for k, a in enumerate(begun)]
        self.dims += [d for v in carried for d in dims_of(v.type)]
        for dim in self.own.values():
            context.sizes_of_data[context.numbers.fresh()] = dim
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
                counts = [_NUMBER for _ in self.last]
                kinds = [*[substitute_type(v.type, self.last) for v in result], *counts]
                kind = TupleType(tuple(kinds))
                name = GlobalVar(context.function_names.fresh("loop"))
                args = (following, on, *after, *filled, *self.held.values())
                with builder.dataflow(is_dataflow=False):
                    again = builder.emit(CallFunction(name, args, kind))
            builder.declare(*rows, *self.held.values())
            choice = If(goes, SeqExpr(tuple(blocks), again), self.end(carried, result))
            with builder.dataflow(is_dataflow=False):
                final = builder.emit(choice)
        params = (i, going, *carried, *rows, *self.held.values())
        sequence, symbol = SeqExpr(tuple(head), final), (("global_symbol", name.name),)
        context.functions_made[name.name] = Function(params, sequence, kind, symbol, name.name)
        args = (constant(0, "int64"), first, *begun, *map(self.blank, rows), *self.held)
        count, *found = self.call(name, args, kind, len(result))
        if rows and not (self.is_true(condition) and self.is_true(made.condition)):
            kept = positions(context, size_of(context, count, self.node))
            found[len(begun) :] = [f.op("take", kept, axis=0) for f in found[len(begun) :]]
        return [f.atom for f in found]

    def end(self, carried: Sequence[Var], result: Sequence[Var]) -> SeqExpr:
        """The branch behind the last iteration: sizes that have changed are the last ones."""
        if not self.last:
            return SeqExpr((), Tuple(tuple(result)))
        context, builder = self.context, self.builder
        with attempt(context), builder.sequence() as blocks, builder.dataflow():
            counts = [counted(context, dim) for dim in self.last]
            for count, dim in zip(counts, self.last.values(), strict=True):
                builder.emit(Call("bind_size", (count.atom, context.shape((dim,)))))
            states = [
                with_sizes(context, v, dims_of(substitute_type(v.type, self.last))) for v in carried
            ]
        rest = result[1 + len(carried) :]
        final = (result[0], *states, *rest, *[count.atom for count in counts])
        return SeqExpr(tuple(blocks), Tuple(final))

    def call(
        self, name: GlobalVar, args: tuple[Atom, ...], kind: TupleType, many: int
    ) -> list[Term]:
        """The first results of the loop, called from around it; sizes that changed in it are bound
        to what it says they are."""
        context, builder = self.context, self.builder
        dims = {end: DimVar(context.dim_names.fresh(own.name)) for own, end in self.last.items()}
        with builder.dataflow(is_dataflow=False):
            given = substitute_type(kind, dims)
            whole = builder.emit(CallFunction(name, args, given))
        for k, dim in enumerate(dims.values()):
            count = builder.emit(TupleGetItem(whole, many + k))
            builder.emit(Call("bind_size", (count, context.shape((dim,)))))
            context.sizes_of_data[context.numbers.of(count)] = dim
        return [Term(context, builder.emit(TupleGetItem(whole, k))) for k in range(many)]

    # -- values --------------------------------------------------------------------------------
    def state_type(self, k: int, atom: Atom) -> TensorType:
        """That of a state in the function."""
        kind = self.context.type(atom)
        shape = [self.own.get((k, axis), d) for axis, d in enumerate(kind.shape)]
        return TensorType(tuple(shape), kind.dtype)

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
            if dim not in self.last and not any(dim in dims_of(v.type) for v in self.held.values()):
                carrier = next((v for v in self.around if dim in dims_of(v.type)), None)
                if carrier is None:
                    raise FrontendError(f"{self.where}: no tensor has the size {dim.name}.")
                self.lift(carrier)

    # -- what is carried and collected -----------------------------------------------------------
    def check_states(self, before: Sequence[Atom], after: Sequence[Atom]) -> None:
        """Raise FrontendError for a state that changes its rank or dtype, and _SizesChangeError for
        sizes that do and have no names yet."""
        changing: list[_Axis] = []
        for k, (old, new) in enumerate(zip(before, after, strict=True)):
            one, other = self.context.type(old), self.context.type(new)
            if one.ndim != other.ndim or one.dtype is not other.dtype:
                kinds = f"{format_type(one)}, then {format_type(other)}"
                raise FrontendError(f"{self.where}: what it carries is {kinds}.")
            changing += [
                (k, axis)
                for axis, (a, b) in enumerate(zip(one.shape, other.shape, strict=True))
                if (k, axis) not in self.own and not dim_equal(a, b)
            ]
        if changing:
            raise _SizesChangeError(changing)

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
            sizes = set(free_vars(kind.shape))
            if not sizes.isdisjoint(self.last):
                raise FrontendError(f"{self.where}: what it collects changes its sizes.")
            found = sizes.difference(free_vars(self.dims))
            if found:
                names = ", ".join(sorted([d.name for d in found]))
                raise FrontendError(
                    f"{self.where}: it collects elements of sizes that each iteration finds in "
                    f"data ({names}), which have no room before."
                )
            rows.append(self.param("rows", TensorType((length, *kind.shape), kind.dtype)))
            self.builder.declare(rows[-1])
            filled.append(self.context.op("scatter_index", rows[-1], element, i, axes=(0,)))
        return rows, filled

    def blank(self, row: Var) -> Atom:
        kind = self.context.type(row)
        zero = self.context.scalar(0, kind.dtype)
        return self.context.op("broadcast_to", zero, self.context.shape(kind.shape))
