"""Control flow that data tell: branches of the program, where the parts of a graph allow that.

    If(c)  ->  if c:                  one program for both
                   a = Exp(x)
               else:
                   a = Neg(x)

Both branches are imported, and give tensors of the same types. Where they do not, or one of them
cannot be imported without a value that is data, nothing is kept of the attempt, and the import asks
for the condition (``Context.known``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from onnx import GraphProto, NodeProto

from ...graphir.expr import Atom, Constant, If, SeqExpr, Tuple, TupleGetItem
from ...graphir.op import type_of
from ...graphir.printer import format_type
from ...graphir.type import types_equal
from ...support.errors import BurnishError, FrontendError
from .registry import Context, NeedsValueError, Value, node_name
from .walk import run_graph


@contextmanager
def attempt(context: Context) -> Iterator[None]:
    """What is imported inside may fail: nothing is asked for, and sizes bound inside are not known
    around it."""
    outer = context.is_attempt, context.sizes_of_data
    count, functions = context.count, context.functions_made
    fallback = context.fallback.snapshot() if context.fallback else None
    context.is_attempt, context.sizes_of_data = True, dict(context.sizes_of_data)
    context.functions_made = dict(functions)
    try:
        yield
    except BaseException:
        context.count, context.functions_made = count, functions
        if context.fallback and fallback:
            context.fallback.restore(fallback)
        raise
    finally:
        context.is_attempt, context.sizes_of_data = outer[:2]


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
            yes, no = (_branch(context, graph, where) for graph in branches)
            value = If(flag, yes, no)
            for name, a, b in zip(node.output, *map(_fields, (yes, no)), strict=False):
                if not types_equal(type_of(a), type_of(b)):
                    kinds = f"{format_type(type_of(a))} or {format_type(type_of(b))}"
                    raise FrontendError(f"{name!r} would be {kinds}.")
    except (BurnishError, NeedsValueError) as error:
        return str(error).partition("\n")[0]
    with context.builder.dataflow(is_dataflow=False):
        made = context.builder.emit(value)
    return [context.builder.emit(TupleGetItem(made, i)) for i in range(len(_fields(yes)))]


def _branch(context: Context, graph: GraphProto, where: str) -> SeqExpr:
    with context.builder.sequence() as blocks, context.builder.dataflow():
        result = Tuple(tensors(context, run_graph(context, graph, []), where))
    return SeqExpr(tuple(blocks), result)


def _fields(branch: SeqExpr) -> tuple[Atom, ...]:
    assert isinstance(branch.result, Tuple)
    return branch.result.fields
