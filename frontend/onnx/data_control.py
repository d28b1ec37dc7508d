"""Control flow that data tell: branches of the program, where the parts of a graph allow that.

    If(c)  ->  if c:                  one program for both
                   a = Exp(x)
               else:
                   a = Neg(x)

Both branches are imported, and give tensors of the same ranks and dtypes. A size that differs
between them gets a name, which each branch binds to its own (``bind_size``). Where ranks or dtypes
differ, or a branch cannot be imported without a value that is data, nothing is kept of the attempt,
and the import asks for the condition (``Context.known``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from onnx import GraphProto, NodeProto

from ...graphir.dim import dim_equal, static_value
from ...graphir.expr import Atom, Call, Constant, If, SeqExpr, Tuple, TupleGetItem
from ...graphir.text.printer import format_type
from ...support.errors import BurnishError, FrontendError
from ...tensorir.expr import Expr
from ...tensorir.expr import Var as DimVar
from .data_sizes import counted, positions
from .registry import Context, NeedsValueError, Value, node_name
from .term import Term
from .walk import run_graph


@contextmanager
def attempt(context: Context) -> Iterator[None]:
    """What is imported inside may fail: nothing is asked for, and sizes bound inside are not known
    around it."""
    outer = context.is_attempt, context.sizes_of_data, context.counts
    count, functions = context.count, context.functions_made
    fallback = context.fallback.snapshot() if context.fallback else None
    context.is_attempt, context.sizes_of_data = True, dict(context.sizes_of_data)
    context.functions_made, context.counts = dict(functions), {}
    try:
        yield
    except BaseException:
        context.count, context.functions_made = count, functions
        if context.fallback and fallback:
            context.fallback.restore(fallback)
        raise
    finally:
        context.is_attempt, context.sizes_of_data, context.counts = outer


def inlined(context: Context, convert: Callable[[], list[Value]]) -> list[Value] | None:
    """The values that ``convert`` makes in this place; None, and nothing of it, where it needs a
    value that is data. Raises what else it raises."""
    builder = context.builder
    try:
        with attempt(context), builder.sequence() as blocks, builder.dataflow():
            made = convert()
            sizes = context.sizes_of_data
    except NeedsValueError:
        return None
    context.sizes_of_data.update(sizes)
    for block in blocks:
        with builder.dataflow(is_dataflow=block.is_dataflow):
            for binding in block.bindings:
                builder.emit_binding(binding)
    return made


def tensors(context: Context, values: Sequence[Value], where: str) -> tuple[Atom, ...]:
    """What a graph gives, which must be tensors."""
    atoms = [context.tensor(v, where) for v in values]
    return tuple(
        [context.builder.weights.adopt(a) if isinstance(a, Constant) else a for a in atoms]
    )


def either(
    context: Context, node: NodeProto, condition: Value, branches: tuple[GraphProto, GraphProto]
) -> list[Value] | str:
    """The results of an If whose condition is data; or why it cannot be in one program."""
    where = node_name(node)
    try:
        with attempt(context):
            flag = context.reshape(context.tensor(condition, where), ())
            made = [_branch(context, graph, where) for graph in branches]
            dims = _own_dims(context, node, *map(_fields, made))
            yes, no = (_of_one_type(context, branch, dims, i) for i, branch in enumerate(made))
            value = If(flag, yes, no)
    except (BurnishError, NeedsValueError) as error:
        return str(error).partition("\n")[0]
    with context.builder.dataflow(is_dataflow=False):
        chosen = context.builder.emit(value)
    for _, _, size in dims.pairs:
        context.sizes_of_data[context.numbers.fresh()] = size
    return [context.builder.emit(TupleGetItem(chosen, i)) for i in range(len(_fields(yes)))]


@dataclass
class _Dims:
    """Sizes that an If gives: those of its branches, and the name that stands for either."""

    pairs: list[tuple[Expr, Expr, DimVar]]
    shapes: list[tuple[Expr, ...]]
    """Of the results, in terms of these."""


def _own_dims(context: Context, node: NodeProto, yes: Sequence[Atom], no: Sequence[Atom]) -> _Dims:
    """A name for each size that differs between the branches. Raises FrontendError where results
    are of other ranks or dtypes."""
    dims = _Dims([], [])
    for name, a, b in zip(node.output, map(context.type, yes), map(context.type, no), strict=False):
        if a.dtype is not b.dtype or a.ndim != b.ndim:
            kinds = f"{format_type(a)} or {format_type(b)}"
            raise FrontendError(f"{name!r} would be {kinds}.")
        dims.shapes.append(
            tuple(
                [
                    _size_of_both(context, dims, name, *both)
                    for both in zip(a.shape, b.shape, strict=True)
                ]
            )
        )
    return dims


def _size_of_both(context: Context, dims: _Dims, name: str, a: Expr, b: Expr) -> Expr:
    if dim_equal(a, b):
        return a
    for one, other, size in dims.pairs:
        if dim_equal(one, a) and dim_equal(other, b):
            return size
    size = DimVar(context.dim_names.fresh(f"{name}_size"))
    dims.pairs.append((a, b, size))
    return size


def _of_one_type(context: Context, branch: SeqExpr, dims: _Dims, side: int) -> SeqExpr:
    """A branch that binds the sizes of the If to its own, and gives its results in these."""
    if not dims.pairs:
        return branch
    with attempt(context), context.builder.sequence() as blocks, context.builder.dataflow():
        own = [b.var for block in branch.blocks for b in block.bindings]
        context.builder.declare(*own)
        for pair in dims.pairs:
            count = counted(context, pair[side])
            context.builder.emit(Call("bind_size", (count.atom, context.shape((pair[2],)))))
        pairs = zip(_fields(branch), dims.shapes, strict=True)
        result = Tuple(tuple([with_sizes(context, atom, shape) for atom, shape in pairs]))
    return SeqExpr((*branch.blocks, *blocks), result)


def with_sizes(context: Context, atom: Atom, shape: Sequence[Expr]) -> Atom:
    """A tensor whose axes have these sizes, which are its own by another name."""
    x = Term(context, atom)
    for axis, (own, size) in enumerate(zip(x.shape, shape, strict=True)):
        if dim_equal(own, size):
            continue
        if static_value(own) == 0:
            rest = [size if i == axis else d for i, d in enumerate(x.shape)]
            return with_sizes(context, x.data(0).expand(*rest).atom, shape)
        last = counted(context, own) - 1
        x = x.op("take", positions(context, size).op("minimum", last), axis=axis)
    return x.atom


def _branch(context: Context, graph: GraphProto, where: str) -> SeqExpr:
    with attempt(context), context.builder.sequence() as blocks, context.builder.dataflow():
        result = Tuple(tensors(context, run_graph(context, graph, []), where))
    return SeqExpr(tuple(blocks), result)


def _fields(branch: SeqExpr) -> tuple[Atom, ...]:
    assert isinstance(branch.result, Tuple)
    return branch.result.fields
