"""Integers, floats and flags that a program reads out of its tensors (``.item()``, ``x[:n]``).

    n = x.sum().item();  torch.zeros(n)     n = bind_size(sum(x)): a dim from here on
    n = x.min().item();  x - n              subtract(x, min(x)): a number, of either sign
    x[n:]                                   m = bind_size(max(0, size - clip(n))): torch's new dim
    torch._check(n <= 5)                    bind_size(n <= 5 ? 0 : -1): refused when the model runs

A number is a dim where a tensor has it in its shape. What torch only supposes of dims, and asserts
behind that (two that broadcast are one), is supposed here too, and asserted.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from ...graphir.expr import Atom, Call, ShapeExpr, constant
from ...support.dtype import DType
from ...support.errors import RAISES
from ...tensorir.expr import Expr
from ...tensorir.expr import Var as DimVar
from .registry import INDEX, Context, location, operator_name

OF_SIZES = "burnish.sizes: "
"""What the words of an assertion begin with that is one on sizes."""
READS = ("aten.item.default", "aten._local_scalar_dense.default")
SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_ASSERT = torch.ops.aten._assert_scalar.default
_DTYPES: tuple[tuple[Any, DType], ...] = (
    (torch.SymInt, INDEX), (torch.SymFloat, DType("float64")), (torch.SymBool, INDEX),
)  # fmt: skip


def sizes_in_shapes(program: ExportedProgram) -> set[str]:
    """The symbols that stand in the shape of any tensor of a program."""
    shapes = [
        leaf.shape
        for module in program.graph_module.modules()
        if isinstance(module, GraphModule)
        for node in module.graph.nodes
        for leaf in pytree.tree_leaves(node.meta.get("val"))
        if isinstance(leaf, torch.Tensor)
    ]
    sizes: list[Any] = [s for shape in shapes for s in shape if isinstance(s, torch.SymInt)]
    return {str(symbol) for s in sizes for symbol in s.node.expr.free_symbols}


def supposed_equal(program: ExportedProgram) -> dict[Any, Any]:
    """Numbers out of data that the program asserts to be others, or arithmetic on them where it is
    one of them: what stands in the place of each, by torch's expression."""
    found: dict[Any, Any] = {}
    made: dict[str, int] = {}
    for node in program.graph.nodes:
        for symbol in node.meta.get("unbacked_bindings") or ():
            made.setdefault(str(symbol), len(made))
    for node in program.graph.nodes:
        condition = _condition(node)
        if type(condition).__name__ != "Equality" or not _reads(condition):
            continue
        a, b = (arithmetic.xreplace(found) for arithmetic in condition.args)
        symbols = [s for s in (a - b).free_symbols if str(s) in made]
        if not symbols:
            continue
        last = max(symbols, key=lambda s: made[str(s)])
        difference = (a - b).expand()
        factor = difference.coeff(last)
        rest = (difference - factor * last).expand()
        if factor in (1, -1) and last not in rest.free_symbols:
            found[last] = -rest / factor
        else:
            kept, gone = sorted((a, b), key=lambda e: e.count_ops())
            found[gone] = kept
    return found


def read_by_program(program: ExportedProgram) -> set[str]:
    """The symbols of integers and floats that a program reads itself, before operators are written
    with others: what these read is by construction what they assert of it."""
    fakes = [n.meta.get("val") for n in program.graph.nodes if operator_name(n) in READS]
    numbers: list[Any] = [f for f in fakes if isinstance(f, (torch.SymInt, torch.SymFloat))]
    return {symbol for f in numbers for symbol in _reads(f.node.expr)}


def _condition(node: Node) -> Any:
    """What an assertion asserts, as an expression of torch's."""
    if node.op != "call_function" or node.target is not _ASSERT:
        return None
    value = node.args[0].meta.get("val") if isinstance(node.args[0], Node) else node.args[0]
    return value.node.expr if isinstance(value, torch.SymBool) else None


def _reads(e: Any) -> set[str]:
    """The symbols in an expression that are not sizes of inputs."""
    return {str(s) for s in e.free_symbols if str(s).lstrip("z").startswith("u")}


def read(context: Context, node: Node) -> Any:
    """``.item()``: a dim where a shape has it, and the tensor's own number otherwise."""
    return number(context, context.operand(node.args[0]), node.meta.get("val"))


def number(context: Context, held: Atom, fake: Any) -> Any:
    """What stands for torch's symbol ``fake``, whose value the tensor ``held`` is."""
    for kind, dtype in _DTYPES:
        symbols = list(fake.node.expr.free_symbols) if isinstance(fake, kind) else []
        if len(symbols) == 1 and not context.sizes_in_shapes & set(map(str, symbols)):
            number = context.op("reshape", context.cast(held, dtype), context.shape([]))
            context.read[str(symbols[0])] = number
            return fake
    if isinstance(fake, torch.SymBool) and not fake.node.expr.free_symbols:
        # Asserted (torch._check_tensor_all), of which torch keeps nothing but that it is so.
        holds = context.cast(held, DType("bool"))
        if not bool(fake):
            holds = context.op("logical_not", holds)
        check(context, holds, [], _place(context), f"{RAISES} in torch._check")
        return bool(fake)
    if not isinstance(fake, torch.SymInt):
        raise context.refuse(
            "reads a number out of a tensor (.item()) that is no integer, and makes sizes of it, "
            "which cannot be compiled; make the tensor one of integers first: x.long().item()."
        )
    return bound(context, held, fake)


def _place(context: Context) -> str:
    return location(context.node) if context.node is not None else "forward()"


def bound(context: Context, count: Atom, size: torch.SymInt) -> Expr:
    """The dim of torch's symbol ``size``, whose value ``count`` is from here on. One that is
    supposed to be another number is that, which an assertion compares with this; and so is one for
    which torch has put that number (masks of lengths, as long as the longest, beside a tensor whose
    length is known), which a check of the program's own compares."""
    number = context.numbers.of(count)
    known = context.sizes.get(number)
    if context.symbols.supposes(size.node.expr):
        supposed, name = context.symbols.convert(size), str(size.node.expr)
        if supposed is known:
            context.symbols.computed(size, known)
            context.asserted.discard(name)
        else:
            context.read[name] = count
            context.asserted.add(name)
        return supposed
    dim = context.symbols.computed(size, known)
    if dim is None:
        supposed = context.symbols.convert(size)
        scalar = context.op("reshape", context.cast(count, INDEX), context.shape([]))
        holds = context.op("equal", scalar, context.operand(supposed, INDEX))
        expected = f"with a size read out of a tensor that is {supposed}"
        check(context, holds, [], context.place, expected)
        return supposed
    if known is None:
        context.sizes[number] = dim
        context.builder.emit(Call("bind_size", (count, ShapeExpr((dim,)))))
    return context.symbols.convert(size)


def is_new(context: Context, size: Any) -> bool:
    """Whether a size is a symbol that torch has made for a result, and nothing has bound yet."""
    if not isinstance(size, torch.SymInt):
        return False
    symbol = size.node.expr
    name = str(symbol)
    is_known = context.symbols.knows(symbol) or name in context.read
    return bool(symbol.is_Symbol and _reads(symbol) and not is_known)


def sliced(
    context: Context, x: Atom, axis: int, bounds: tuple[Any, Any], step: int, size: torch.SymInt
) -> Atom:
    """An axis between bounds that data tell, each clipped to it, as Python's slices: torch's new
    symbol ``size`` is how many elements are there."""
    op = context.op
    length = context.operand(context.type(x).shape[axis], INDEX)
    zero, stride = constant(0, INDEX), constant(step, INDEX)

    def place(bound: Any, absent: Atom) -> Atom:
        if bound is None:
            return absent
        at = context.operand(bound, INDEX)
        at = op("where", op("less", at, zero), op("add", at, length), at)
        return op("minimum", op("maximum", at, zero), length)

    begin, end = place(bounds[0], zero), place(bounds[1], length)
    reach = op("add", op("subtract", end, begin), constant(step - 1, INDEX))
    count = op("maximum", op("floor_divide", reach, stride), zero)
    places = context.positions(bound(context, count, size))
    if step != 1:
        places = op("multiply", places, stride)
    return op("take", x, op("add", places, begin), axis=axis)


def asserts(context: Context, node: Node) -> None:
    """What the program asserts of numbers out of data, checked when the model runs; sizes that
    torch has made are what they are by construction, and bound ones are not negative."""
    condition = _condition(node)
    if condition is None or not _reads(condition) & context.asserted:
        return
    if _is_size(condition) and not _reads(condition) & context.read.keys():
        return
    knows = context.symbols.knows
    with context.symbols.supposing_nothing():
        if type(condition).__name__ == "Equality" and all(map(knows, condition.free_symbols)):
            check_equal(context, *map(context.symbols.expression, condition.args))
            return
        holds = context.operand(context.value(node.args[0]))
    symbols = sorted(condition.free_symbols, key=str)
    dims = [context.symbols.expression(s) for s in symbols if knows(s)]
    named = {s: str(context.symbols.expression(s)) for s in symbols if knows(s)}
    check(context, holds, dims, location(node), f"with {condition.subs(named)}")


def check(context: Context, holds: Atom, dims: list[Expr], place: str, expected: str) -> None:
    """Refuses calls for which a flag is false: where, and what is expected of sizes."""
    told = (("place", place), ("expected", expected))
    flag = context.op("where", holds, constant(0, INDEX), constant(-1, INDEX))
    dim = DimVar(f"checked{len(context.checks)}")
    context.checks.append(dim)
    sizes = (flag, ShapeExpr((dim,)), ShapeExpr(tuple(dims)))
    context.builder.emit(Call("bind_size", sizes, told))


def check_equal(context: Context, one: Expr, other: Expr) -> None:
    """Refuses calls whose inputs have these sizes, which some operator needs to be equal, not
    so."""
    context.builder.emit(Call("check_equal", (ShapeExpr((one, other)),)))


def _is_size(condition: Any) -> bool:
    """Whether all that a condition says is that a number is not negative."""
    return bool(
        type(condition).__name__ in ("GreaterThan", "LessThan")
        and condition.gts.is_Symbol
        and condition.lts.is_number
        and condition.lts <= 0
    )
