"""Programs on complex numbers as programs on real ones: of each complex tensor the real and the
imaginary part, two tensors of its shape.

    q = view_as_complex(x); r = view_as_real(q * f)    ->    a, b = x[..., 0], x[..., 1]
                                                             stack([a*c - b*d, a*d + b*c], -1)

One walk over the graph. What is linear (views, joins, sums) is done to each part; what is linear in
every operand (products) is the sum over the parts of all; what else has a formula has a row. Where
a complex tensor enters or leaves (weights, inputs, outputs, operators without a row, which the
fallback runs) it is one tensor of real numbers with a last axis of 2: ``view_as_complex`` and
``view_as_real`` stand there, and are no work.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch.export import ExportedProgram
from torch.fx import Graph, Node
from torch.utils import _pytree as pytree

from .functionalize import copied, with_graph
from .registry import REAL

aten = torch.ops.aten
BORDERS = ("aten.view_as_complex.default", "aten.view_as_real.default")
"""What stands where complex tensors are one tensor."""
_LINEAR = frozenset((
    "T", "_reshape_alias", "_unsafe_view", "alias", "broadcast_to", "cat", "chunk", "clone",
    "concat", "concatenate", "contiguous", "cumsum", "detach", "detach_",
    "diag", "diag_embed", "diagonal", "dstack", "empty_like", "expand", "expand_as", "flatten",
    "flip", "fliplr", "flipud", "gather", "hstack", "index", "index_select", "lift_fresh",
    "lift_fresh_copy", "mT", "mean", "moveaxis", "movedim", "narrow", "neg", "negative",
    "new_zeros", "numpy_T", "permute", "positive", "ravel", "repeat",
    "repeat_interleave", "reshape", "reshape_as", "resolve_conj", "resolve_neg", "roll",
    "rot90", "select", "slice", "split", "split_with_sizes", "squeeze", "stack", "sum",
    "swapaxes", "swapdims", "t", "take", "take_along_dim", "tensor_split", "tile", "trace",
    "transpose", "tril", "triu", "unbind", "unflatten", "unfold", "unsqueeze", "view_as",
    "vstack", "zeros_like",
))  # fmt: skip
"""Operators that do the same to both parts, by base name."""
_MULTILINEAR = frozenset((
    "bmm", "dot", "einsum", "inner", "kron", "matmul", "mm", "mul", "multiply", "mv", "outer",
    "tensordot",
))  # fmt: skip
"""Operators that are linear in each of their operands."""
_CREATE = frozenset((
    "arange", "empty", "eye", "full", "full_like", "new_empty", "new_full", "new_ones", "ones",
    "ones_like", "scalar_tensor", "zeros",
))  # fmt: skip
_CASTS = frozenset(("to", "_to_copy", "type_as", "cfloat"))
_IGNORED = ("aten._assert_tensor_metadata.default",)


@dataclass(frozen=True)
class Pair:
    """A complex value: nodes of its parts, or numbers."""

    real: Any
    imaginary: Any


Value: TypeAlias = Any
"""A node of real numbers or of a whole complex tensor, a Pair, a number, or a list of them."""
_Row: TypeAlias = Callable[..., Any]
_ROWS: dict[str, _Row] = {}


def without_complex(program: ExportedProgram) -> ExportedProgram:
    """The program whose operators on complex numbers are some on real ones, where they have a row
    here."""
    if not any(map(gives_complex, program.graph.nodes)):
        return program
    mode = torch._guards.detect_fake_mode([n.meta.get("val") for n in program.graph.nodes])
    if mode is None:
        return program
    with mode, torch.no_grad():
        return with_graph(program, Walk(program.graph).run())


def gives_complex(node: Node) -> bool:
    """Whether a node is, or holds, a tensor of complex numbers."""
    return any(map(_is_complex, pytree.tree_leaves(node.meta.get("val"))))


def _is_complex(fake: Any) -> bool:
    return isinstance(fake, torch.Tensor) and fake.dtype.is_complex


def row(*names: str) -> Callable[[_Row], _Row]:
    """Make a function the row of operators, by base name."""

    def register(function: _Row) -> _Row:
        _ROWS.update(dict.fromkeys(names, function))
        return function

    return register


class Walk:
    """One walk over a graph."""

    def __init__(self, graph: Graph) -> None:
        self._old = graph
        self._new = Graph()
        self._values: dict[Node, Value] = {}
        self._wholes: dict[Node, Node] = {}
        self._pairs: dict[Node, Pair] = {}
        self.node = next(iter(graph.nodes))
        """The one at hand."""

    def run(self) -> Graph:
        for node in self._old.nodes:
            self.node = node
            if str(node.target) not in _IGNORED or not any(
                map(gives_complex, node.all_input_nodes)
            ):
                self._values[node] = self._made(node)
        self._new.lint()
        self._new.eliminate_dead_code()
        return self._new

    def _made(self, node: Node) -> Value:
        if node.target is operator.getitem and isinstance(self._values[node.args[0]], list):  # type: ignore[index]
            return self._values[node.args[0]][node.args[1]]  # type: ignore[index]
        has_complex = any(map(gives_complex, (node, *node.all_input_nodes)))
        if has_complex and isinstance(node.target, torch._ops.OpOverload):
            found = self._converted(node)
            if found is not None:
                return found
        return copied(self._new, node, self._whole)

    def _converted(self, node: Node) -> Value | None:
        """What the row of an operator gives; None where there is none."""
        if not isinstance(node.meta.get("val"), (torch.Tensor, list, tuple)):
            # The size of an axis, which either part has.
            sized = [self._operand(a) for a in node.all_input_nodes]
            if all(isinstance(x, Pair) for x in sized):
                return self.call(node.target, sized[0].real, *node.args[1:])
            return None
        args, kwargs = pytree.tree_map_only(Node, self._operand, (node.args, dict(node.kwargs)))
        args, kwargs = pytree.tree_map_only(complex, _parts_of_number, (args, kwargs))
        name = _base_name(node)
        function = _ROWS.get(name) or _row_of_class(name)
        if function is None:
            return None
        found = function(self, *args, **kwargs)
        return None if found is None else self._typed(found, node.meta["val"])

    def _typed(self, found: Value, fakes: Any) -> Value:
        """A result with parts of the type that torch gives it."""
        if isinstance(fakes, (list, tuple)):
            return [self._typed(f, fake) for f, fake in zip(found, fakes, strict=True)]
        if not fakes.dtype.is_complex:
            return found.real if isinstance(found, Pair) else found
        pair, wanted = _pair(found), REAL[fakes.dtype]
        # A product with the number 0 is numbers alone, of the shape of its one operand.
        operands = [_pair(self._operand(n)) for n in self.node.all_input_nodes]
        parts = [x for p in (pair, *operands) for x in (p.real, p.imaginary)]
        like = next(x for x in parts if isinstance(x, Node))
        parts = [self.cast(self.node_of(x, like, wanted), wanted) for x in parts[:2]]
        return Pair(*self._of_one_shape(parts, fakes))

    def _of_one_shape(self, parts: list[Node], fake: torch.Tensor) -> list[Node]:
        """Of a sum, either part may be of one operand alone, and smaller."""
        wide = next((x for x in parts if _shape(x.meta["val"]) == _shape(fake)), None)
        if wide is None:
            return parts
        return [
            x
            if _shape(x.meta["val"]) == _shape(fake)
            else self.call(aten.expand_as.default, x, wide)
            for x in parts
        ]

    # -- values ---------------------------------------------------------------------------------
    def _operand(self, node: Node) -> Value:
        """What a node stands for: a pair where it is complex."""
        value = self._values[node]
        if isinstance(value, Node) and _is_complex(value.meta.get("val")):
            if value not in self._pairs:
                whole = value
                if value.meta["val"].is_conj():  # torch views no numbers that are yet to be negated
                    whole = self.call(aten.resolve_conj.default, value)
                both = self.call(aten.view_as_real.default, whole)
                self._pairs[value] = self.split(both)
            return self._pairs[value]
        return value

    def split(self, both: Node) -> Pair:
        """The parts of a tensor that has them along its last axis."""
        return Pair(*[self.call(aten.select.int, both, -1, i) for i in (0, 1)])

    def joined(self, pair: Pair) -> Node:
        """The parts along a last axis."""
        return self.call(aten.stack.default, [pair.real, pair.imaginary], -1)

    def _whole(self, node: Node) -> Node:
        """A node's tensor as one."""
        value = self._values[node]
        if not isinstance(value, Pair):
            assert isinstance(value, Node)
            return value
        if node not in self._wholes:
            both = self.joined(value)
            self._wholes[node] = self.call(aten.view_as_complex.default, both)
        return self._wholes[node]

    def call(self, target: Any, *args: Any, **kwargs: Any) -> Any:
        """A call of an operator on real numbers, with the type that it gives. Several results are a
        list of nodes."""
        fakes = pytree.tree_map_only(Node, lambda n: n.meta["val"], (args, kwargs))
        with enable_python_dispatcher():
            found = target(*fakes[0], **fakes[1])
        made = self._new.call_function(target, args, kwargs)
        made.meta = {**self.node.meta, "val": found}
        if not isinstance(found, (list, tuple)):
            return made
        parts = []
        for i, fake in enumerate(found):
            part = self._new.call_function(operator.getitem, (made, i))
            part.meta = {**self.node.meta, "val": fake}
            parts.append(part)
        return parts

    def cast(self, x: Node, dtype: torch.dtype) -> Node:
        if x.meta["val"].dtype is dtype:
            return x
        made: Node = self.call(aten.to.dtype, x, dtype)
        return made

    def zeros(self, like: Node) -> Node:
        made: Node = self.call(aten.zeros_like.default, like)
        return made

    # -- arithmetic of nodes and numbers, of which 0 is no work ---------------------------------
    def add(self, a: Any, b: Any) -> Any:
        if _is_zero(a) or _is_zero(b):
            return b if _is_zero(a) else a
        return self._commuting(aten.add.Tensor, a, b) if _has_node(a, b) else a + b

    def sub(self, a: Any, b: Any) -> Any:
        if _is_zero(a) or _is_zero(b):
            return a if _is_zero(b) else self.negative(b)
        if isinstance(b, Node) and not isinstance(a, Node):
            return self.call(aten.rsub.Scalar, b, a)
        return self.call(aten.sub.Tensor, a, b) if isinstance(a, Node) else a - b

    def mul(self, a: Any, b: Any) -> Any:
        if _is_zero(a) or _is_zero(b):
            return 0
        return self._commuting(aten.mul.Tensor, a, b) if _has_node(a, b) else a * b

    def div(self, a: Any, b: Any) -> Any:
        """By a node, or of one by a number."""
        return 0 if _is_zero(a) else self.call(aten.div.Tensor, a, b)

    def _commuting(self, target: Any, a: Any, b: Any) -> Any:
        return self.call(target, *((a, b) if isinstance(a, Node) else (b, a)))

    def negative(self, a: Any) -> Any:
        return self.call(aten.neg.default, a) if isinstance(a, Node) else -a

    def node_of(self, x: Any, like: Node, dtype: torch.dtype) -> Node:
        """A number as a tensor of the shape of another one."""
        if isinstance(x, Node):
            return x
        made: Node = self.call(aten.full_like.default, like, x, dtype=dtype)
        return made

    def unary(self, name: str, x: Node) -> Node:
        made: Node = self.call(getattr(aten, name).default, x)
        return made


def _shape(fake: torch.Tensor) -> list[str]:
    return list(map(str, fake.shape))


def _is_zero(x: Any) -> bool:
    return not isinstance(x, Node) and bool(x == 0)


def _has_node(*values: Any) -> bool:
    return any(isinstance(x, Node) for x in values)


def _base_name(node: Node) -> str:
    return str(node.target._schema.name).partition("::")[2]  # type: ignore[union-attr]


def _parts_of_number(number: complex) -> Pair:
    return Pair(number.real, number.imag)


def _pair(x: Any) -> Pair:
    """A value with the imaginary part that it may not have: the number 0 then."""
    return x if isinstance(x, Pair) else Pair(x, 0)


def _row_of_class(name: str) -> _Row | None:
    for names, function in (
        (_LINEAR, _linear), (_MULTILINEAR, _multilinear), (_CREATE, _created), (_CASTS, _cast),
    ):  # fmt: skip
        if name in names:
            return function
    return None


# -- classes of operators ------------------------------------------------------------------------
def _real_dtype(value: Any) -> Any:
    return REAL.get(value, value) if isinstance(value, torch.dtype) else value


def _linear(walk: Walk, *args: Any, **kwargs: Any) -> Any:
    """The same to either part. A real tensor beside complex ones, in a list or in the place of a
    value, has an imaginary part of zeros; indices and masks are of both."""
    target = walk.node.target
    gives = any(map(_is_complex, pytree.tree_leaves(walk.node.meta["val"])))
    kwargs = {name: _real_dtype(value) for name, value in kwargs.items()}
    args = tuple([_real_dtype(a) for a in args])
    has_parts = any(map(gives_complex, walk.node.all_input_nodes))
    if not gives or not has_parts:  # of the shape alone, or of real numbers to complex ones
        return walk.call(target, *_part(walk, args, 0), **_part(walk, kwargs, 0))
    found = [walk.call(target, *_part(walk, args, i), **_part(walk, kwargs, i)) for i in (0, 1)]
    if isinstance(found[0], list):
        return [Pair(a, b) for a, b in zip(*found, strict=True)]
    return Pair(*found)


def _part(walk: Walk, given: Any, i: int) -> Any:
    """Arguments with a part in the place of each complex one."""
    if isinstance(given, Pair):
        return given.imaginary if i else given.real
    if isinstance(given, dict):
        return {name: _part(walk, value, i) for name, value in given.items()}
    if isinstance(given, (list, tuple)):
        mixed = any(isinstance(x, Pair) for x in given) and type(given) is not tuple
        return type(given)([_in_list(walk, x, i, mixed=mixed) for x in given])
    return given


def _in_list(walk: Walk, x: Any, i: int, *, mixed: bool) -> Any:
    if mixed and i and isinstance(x, Node):
        return walk.zeros(x)
    return _part(walk, x, i)


_PADDED = {"constant_pad_nd": 2, "pad": 3}
"""Operators that put a number around a tensor, by its place."""


@row(*_PADDED)
def _pad(walk: Walk, *args: Any, **kwargs: Any) -> Any:
    place = _PADDED[_base_name(walk.node)]
    number = [_pair(a) for a in args[place : place + 1] if a is not None]
    return _linear(walk, *args[:place], *number, **kwargs)


@row("where")
def _where(walk: Walk, condition: Any, a: Any, b: Any) -> Pair:
    dtype = REAL[walk.node.meta["val"].dtype]

    def chosen(*values: Any) -> Any:
        nodes = [
            v if isinstance(v, Node) else walk.call(aten.scalar_tensor.default, v, dtype=dtype)
            for v in values
        ]
        return walk.call(aten.where.self, condition, *nodes)

    p, q = _pair(a), _pair(b)
    return Pair(chosen(p.real, q.real), chosen(p.imaginary, q.imaginary))


@row("masked_fill")
def _masked_fill(walk: Walk, x: Any, mask: Any, value: Any) -> Pair:
    return _where(walk, mask, value, x)


@row("fill")
def _fill(walk: Walk, x: Pair, value: Any) -> Pair:
    def filled(v: Any) -> Node:
        made = walk.node_of(v, x.real, x.real.meta["val"].dtype)
        return made if made is not v else walk.call(aten.expand_as.default, v, x.real)

    q = _pair(value)
    return Pair(filled(q.real), filled(q.imaginary))


def _multilinear(walk: Walk, *args: Any, **kwargs: Any) -> Any:
    """The sum over the parts of all complex operands, each imaginary one times i."""
    flat, structure = pytree.tree_flatten((args, kwargs), is_leaf=lambda x: isinstance(x, Pair))
    places = [i for i, x in enumerate(flat) if isinstance(x, Pair)]
    sums: list[Any] = [0, 0]
    for choice in itertools.product((0, 1), repeat=len(places)):
        given = list(flat)
        for place, part in zip(places, choice, strict=True):
            given[place] = flat[place].imaginary if part else flat[place].real
        if any(_is_zero(given[place]) for place in places):
            continue
        made_args, made_kwargs = pytree.tree_unflatten(given, structure)
        made = walk.call(walk.node.target, *made_args, **made_kwargs)
        count = sum(choice)
        combine = walk.sub if count % 4 >= 2 else walk.add
        sums[count % 2] = combine(sums[count % 2], made)
    return Pair(*sums) if _has_node(*sums) else None


def _created(walk: Walk, *args: Any, **kwargs: Any) -> Pair:
    """A tensor made of numbers."""
    real = [x.real if isinstance(x, Pair) else x for x in args]
    options = {k: x.real if isinstance(x, Pair) else x for k, x in kwargs.items()}
    options["dtype"] = _real_dtype(walk.node.meta["val"].dtype)
    made = walk.call(walk.node.target, *real, **options)
    numbers = [x for x in args if isinstance(x, Pair) and not isinstance(x.real, Node)]
    if not numbers:
        return Pair(made, walk.zeros(made))
    parts = [x.imaginary if x in numbers else r for x, r in zip(args, real, strict=True)]
    return Pair(made, walk.call(walk.node.target, *parts, **options))


@row("linspace")
def _linspace(walk: Walk, start: Any, end: Any, *steps: Any, **kwargs: Any) -> Any:
    if _has_node(start, end):
        return None
    p, q = _pair(start), _pair(end)
    options = {name: _real_dtype(value) for name, value in kwargs.items()}
    ends = (p.real, q.real), (p.imaginary, q.imaginary)
    return Pair(*[walk.call(walk.node.target, *given, *steps, **options) for given in ends])


def _cast(walk: Walk, x: Any, *args: Any, **kwargs: Any) -> Any:
    """To or from complex numbers; to real ones the imaginary part is lost, as torch says, and flags
    are of both."""
    wanted = walk.node.meta["val"].dtype
    pair = _pair(x)
    if wanted is torch.bool and isinstance(x, Pair):
        return walk.call(aten.logical_or.default, x.real, x.imaginary)
    return pair if wanted.is_complex else walk.cast(pair.real, wanted)


# -- parts ---------------------------------------------------------------------------------------
@row("view_as_complex")
def _view_as_complex(walk: Walk, x: Node) -> Pair:
    return walk.split(x)


@row("view_as_real")
def _view_as_real(walk: Walk, x: Pair) -> Node:
    return walk.joined(x)


@row("view")
def _view(walk: Walk, x: Any, sizes: Any) -> Any:
    """Of other sizes, or the same memory as another type: pairs of numbers as complex ones."""
    if not isinstance(sizes, torch.dtype):
        return _linear(walk, x, sizes)
    if isinstance(x, Pair):
        is_real = REAL[walk.node.args[0].meta["val"].dtype] is sizes
        return walk.call(aten.flatten.using_ints, walk.joined(x), -2) if is_real else None
    is_complex = REAL.get(sizes) is x.meta["val"].dtype
    return walk.split(walk.call(aten.unflatten.int, x, -1, [-1, 2])) if is_complex else None


@row("complex")
def _complex(walk: Walk, real: Node, imaginary: Node) -> Pair:
    return Pair(real, imaginary)


@row("polar")
def _polar(walk: Walk, length: Any, angle: Any) -> Pair:
    return Pair(*[walk.mul(length, walk.unary(f, angle)) for f in ("cos", "sin")])


_PUT = {
    "select_scatter": 1, "slice_scatter": 1, "diagonal_scatter": 1, "copy": 1, "index_put": 2,
}  # fmt: skip
"""Operators that put values into a tensor, by the place of these, which may be real."""


@row(*_PUT)
def _put(walk: Walk, *args: Any, **kwargs: Any) -> Any:
    place = _PUT[_base_name(walk.node)]
    if not isinstance(args[0], Pair) or len(args) <= place:
        return None
    value = args[place]
    if isinstance(value, Node):
        value = Pair(value, walk.zeros(value))
    dtype = args[0].real.meta["val"].dtype
    value = Pair(walk.cast(value.real, dtype), walk.cast(value.imaginary, dtype))
    return _linear(walk, *args[:place], value, *args[place + 1 :], **kwargs)


@row("real")
def _real(walk: Walk, x: Pair) -> Any:
    return x.real


@row("imag")
def _imaginary(walk: Walk, x: Pair) -> Any:
    return x.imaginary


@row("conj", "_conj", "conj_physical", "_conj_physical")
def _conjugate(walk: Walk, x: Pair) -> Pair:
    return Pair(x.real, walk.negative(x.imaginary))


@row("adjoint", "matrix_H", "mH")
def _adjoint(walk: Walk, x: Pair) -> Pair:
    return _conjugate(walk, Pair(*[walk.call(walk.node.target, p) for p in (x.real, x.imaginary)]))


@row("abs", "absolute")
def _abs(walk: Walk, x: Pair) -> Node:
    made: Node = walk.call(aten.hypot.default, x.real, x.imaginary)
    return made


@row("angle")
def _angle(walk: Walk, x: Pair) -> Node:
    made: Node = walk.call(aten.atan2.default, x.imaginary, x.real)
    return made


# -- arithmetic ----------------------------------------------------------------------------------
@row("add")
def _add(walk: Walk, a: Any, b: Any, *, alpha: Any = 1) -> Pair:
    p, q = _pair(a), scaled(walk, b, alpha)
    return Pair(walk.add(p.real, q.real), walk.add(p.imaginary, q.imaginary))


@row("sub", "subtract")
def _sub(walk: Walk, a: Any, b: Any, *, alpha: Any = 1) -> Pair:
    p, q = _pair(a), scaled(walk, b, alpha)
    return Pair(walk.sub(p.real, q.real), walk.sub(p.imaginary, q.imaginary))


@row("rsub")
def _rsub(walk: Walk, a: Any, b: Any, alpha: Any = 1) -> Pair:
    return _sub(walk, b, a) if alpha == 1 else _sub(walk, b, scaled(walk, a, alpha))


def scaled(walk: Walk, x: Any, by: Any) -> Pair:
    p = _pair(x)
    return p if not isinstance(by, (Node, Pair)) and by == 1 else times(walk, p, _pair(by))


def times(walk: Walk, a: Pair, b: Pair) -> Pair:
    real = walk.sub(walk.mul(a.real, b.real), walk.mul(a.imaginary, b.imaginary))
    return Pair(real, walk.add(walk.mul(a.real, b.imaginary), walk.mul(a.imaginary, b.real)))


@row("square")
def _square(walk: Walk, x: Pair) -> Pair:
    return times(walk, x, x)


@row("div", "divide", "true_divide")
def _div(walk: Walk, a: Any, b: Any) -> Pair:
    """By the divisor over its larger part, so that no square overflows."""
    p, q = _pair(a), _pair(b)
    if not isinstance(b, Pair):
        return Pair(walk.div(p.real, b), walk.div(p.imaginary, b))
    if not isinstance(q.real, Node):
        number = complex(q.real, q.imaginary)
        inverse = 1 / number if number else complex(math.nan, math.nan)
        return times(walk, p, Pair(inverse.real, inverse.imag))
    sizes = [walk.unary("abs", part) for part in (q.real, q.imaginary)]
    size = walk.call(aten.maximum.default, *sizes)
    c, d = walk.div(q.real, size), walk.div(q.imaginary, size)
    rest = walk.add(walk.mul(c, c), walk.mul(d, d))
    found = times(walk, p, Pair(c, walk.negative(d)))
    return Pair(*[walk.div(walk.div(x, rest), size) for x in (found.real, found.imaginary)])


@row("reciprocal")
def _reciprocal(walk: Walk, x: Pair) -> Pair:
    return _div(walk, walk.call(aten.ones_like.default, x.real), x)


@row("linear")
def _linear_layer(walk: Walk, x: Any, weight: Any, bias: Any = None) -> Pair:
    operands = _pair(weight)
    turned = [
        walk.call(aten.transpose.int, w, 0, 1) if isinstance(w, Node) else w
        for w in (operands.real, operands.imaginary)
    ]
    made = _products(walk, aten.matmul.default, x, Pair(*turned))
    return made if bias is None else _add(walk, made, bias)


def _products(walk: Walk, target: Any, a: Any, b: Any) -> Pair:
    """What a product gives for two operands of which one at least is complex."""
    p, q = _pair(a), _pair(b)

    def product(x: Any, y: Any) -> Any:
        return walk.call(target, x, y) if isinstance(x, Node) and isinstance(y, Node) else 0

    both, crossed = product(p.imaginary, q.imaginary), product(p.imaginary, q.real)
    real = product(p.real, q.real)
    return Pair(walk.sub(real, both), walk.add(product(p.real, q.imaginary), crossed))


@row("vdot")
def _vdot(walk: Walk, a: Pair, b: Pair) -> Pair:
    return _products(walk, aten.dot.default, _conjugate(walk, a), b)


@row("addmm", "baddbmm", "addmv", "addbmm")
def _product_and_sum(walk: Walk, c: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    name = {"addmm": aten.mm, "baddbmm": aten.bmm, "addmv": aten.mv}.get(_base_name(walk.node))
    if name is None:
        return None
    product = scaled(walk, _products(walk, name.default, a, b), alpha)
    return product if beta == 0 else _add(walk, scaled(walk, c, beta), product)


@row("addcmul")
def _addcmul(walk: Walk, c: Any, a: Any, b: Any, *, value: Any = 1) -> Pair:
    return _add(walk, c, scaled(walk, _products(walk, aten.mul.Tensor, a, b), value))


# -- functions -----------------------------------------------------------------------------------
@row("exp")
def _exp(walk: Walk, x: Pair) -> Pair:
    return _polar(walk, walk.unary("exp", x.real), x.imaginary)


@row("log")
def _log(walk: Walk, x: Pair) -> Pair:
    return Pair(walk.unary("log", _abs(walk, x)), _angle(walk, x))


@row("sqrt")
def _sqrt(walk: Walk, x: Pair) -> Pair:
    """Without the difference of two numbers that are nearly equal."""
    length = walk.add(_abs(walk, x), walk.unary("abs", x.real))
    larger = walk.unary("sqrt", walk.mul(length, 0.5))
    quotient = walk.div(walk.unary("abs", x.imaginary), walk.mul(larger, 2))
    is_zero = walk.call(aten.eq.Scalar, larger, 0)
    smaller = walk.call(aten.where.self, is_zero, walk.zeros(larger), quotient)
    is_right = walk.call(aten.ge.Scalar, x.real, 0)
    real = walk.call(aten.where.self, is_right, larger, smaller)
    imaginary = walk.call(aten.where.self, is_right, smaller, larger)
    return Pair(real, walk.call(aten.copysign.Tensor, imaginary, x.imaginary))


@row("pow")
def _pow(walk: Walk, x: Any, exponent: Any) -> Any:
    """A length to the power, an angle times it; small whole powers are products."""
    if not isinstance(x, Pair) or not isinstance(exponent, (int, float)):
        return None
    if exponent == 0:
        return Pair(walk.call(aten.ones_like.default, x.real), 0)
    if exponent in (1, 2, 3, 4):
        found = x
        for _ in range(int(exponent) - 1):
            found = times(walk, found, x)
        return found
    length = walk.call(aten.pow.Tensor_Scalar, _abs(walk, x), exponent)
    return _polar(walk, length, walk.mul(_angle(walk, x), exponent))


@row("sgn")
def _sgn(walk: Walk, x: Pair) -> Pair:
    length = _abs(walk, x)
    is_zero = walk.call(aten.eq.Scalar, length, 0)
    safe = walk.call(aten.where.self, is_zero, walk.call(aten.ones_like.default, length), length)
    return Pair(walk.div(x.real, safe), walk.div(x.imaginary, safe))


# -- questions -----------------------------------------------------------------------------------
@row("eq")
def _eq(walk: Walk, a: Any, b: Any) -> Any:
    return _compared(walk, a, b, aten.eq, aten.logical_and.default)


@row("ne", "not_equal")
def _ne(walk: Walk, a: Any, b: Any) -> Any:
    return _compared(walk, a, b, aten.ne, aten.logical_or.default)


def _compared(walk: Walk, a: Any, b: Any, op: Any, combine: Any) -> Any:
    p, q = _pair(a), _pair(b)
    found = []
    for x, y in ((p.real, q.real), (p.imaginary, q.imaginary)):
        x, y = (x, y) if isinstance(x, Node) else (y, x)
        if not isinstance(x, Node):
            return None
        found.append(walk.call(op.Tensor if isinstance(y, Node) else op.Scalar, x, y))
    return walk.call(combine, *found)


@row("isnan", "isinf", "isfinite")
def _predicate(walk: Walk, x: Pair) -> Any:
    parts = [walk.unary(_base_name(walk.node), part) for part in (x.real, x.imaginary)]
    is_and = _base_name(walk.node) == "isfinite"
    return walk.call(aten.logical_and.default if is_and else aten.logical_or.default, *parts)


@row("linalg_vector_norm", "norm")
def _norm(walk: Walk, x: Pair, *args: Any, **kwargs: Any) -> Any:
    """Of the lengths."""
    options = {name: _real_dtype(value) for name, value in kwargs.items()}
    return walk.call(walk.node.target, _abs(walk, x), *map(_real_dtype, args), **options)


__all__ = ["BORDERS", "Pair", "gives_complex", "without_complex"]
