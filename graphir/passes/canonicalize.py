"""Canonicalize: copies, trivial tuples, views of views and foldable transposes disappear.

The first pass after import; later passes may assume that a variable is not just another one's name.
It removes what costs nothing to decide and never changes a value; it does not evaluate
(fold-constant) and leaves dead bindings behind (dead-code-elimination)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...support.passes import Pass
from ...tensorir.expr import Expr, IntImm
from ..dim import fold_dim, shape_equal
from ..expr import (
    Atom,
    Binding,
    Call,
    Function,
    Tuple,
    TupleGetItem,
    Value,
    Var,
    constant,
)
from ..module import IRModule
from ..mutator import ATOMS, ExprMutator
from ..op import attr, get_op, reshaped, tensor_type_of, type_of
from ..ops.operands import normal_axes
from ..ops.shape import resolve_axes
from ..type import TensorType, types_equal


@dataclass(frozen=True)
class Canonicalize(Pass):
    """Remove copies, trivial tuples, identity and chained views, and transposes a product can
    absorb.

    *requires*: A-normal form. *ensures*: no binding of a variable to a variable, constant or tuple;
    no view of a view.

        lv = R.reshape(x, R.shape([4, 1, 8]))            y = R.reshape(x, R.shape([4, 8]))
        y = R.flatten(lv, start_dim=1)             ->
        w1 = R.permute_dims(w, axes=[1, 0])              z = R.linear(y, w)
        z = R.matmul(y, w1)
    """

    def run(self, module: IRModule) -> IRModule:
        return _Canonicalizer(module).transform()


class _Canonicalizer(ExprMutator):
    def __init__(self, module: IRModule) -> None:
        super().__init__(module)
        self.definitions: dict[Var, Value] = {}

    def visit_function(self, func: Function) -> Function:
        self.definitions = {}
        return super().visit_function(func)

    def visit_binding(self, binding: Binding) -> None:
        value = self.visit_value(binding.value)
        if isinstance(value, ATOMS):
            self.replaced[binding.var] = value
            return
        self.rebind(binding, value)
        new = self.replaced.get(binding.var, binding.var)
        if isinstance(new, Var):
            self.definitions[new] = value

    def visit_TupleGetItem(self, item: TupleGetItem) -> Value:  # noqa: N802
        value = self.visit_atom(item.value)
        if isinstance(value, Tuple) and 0 <= item.index < len(value.fields):
            return value.fields[item.index]
        return super().visit_TupleGetItem(item)

    def visit_Call(self, call: Call) -> Value:  # noqa: N802
        new = super().visit_Call(call)
        assert isinstance(new, Call)
        if get_op(new.op).is_view:
            return self.view(new)
        rule = _RULES.get(new.op)
        return new if rule is None else rule(self, new)

    def defined_by(self, atom: Atom, op: str) -> Call | None:
        """The call of ``op`` that a variable is bound to, if it is."""
        value = self.definitions.get(atom) if isinstance(atom, Var) else None
        return value if isinstance(value, Call) and value.op == op else None

    def view(self, call: Call) -> Value:
        """Every view becomes a reshape of the memory's first view; of its own shape, the
        operand."""
        kind = tensor_type_of(call)
        source = call.args[0]
        inner = self.defined_by(source, "reshape")
        if inner is not None:
            source = inner.args[0]
        if types_equal(type_of(source), kind):
            return source
        same = self.interleaved(source, kind) or self.every_kth(source, kind)
        if same is not None:
            return same.with_span(call.span)
        if call.op == "reshape" and source is call.args[0]:
            return call
        return reshaped(source, kind.shape).with_span(call.span)

    def interleaved(self, source: Atom, kind: TensorType) -> Call | None:
        """A view of a stack along a new last axis without that axis: its parts in turn, which a
        kernel of the same nest can read."""
        stack = self.defined_by(source, "concat")
        if stack is None or not kind.shape:
            return None
        shape = tensor_type_of(source).shape
        own = (*shape[:-2], fold_dim(shape[-2] * shape[-1])) if len(shape) > 1 else ()
        axis, count = int(attr(stack, "axis")), len(stack.args)
        if axis not in (-1, len(shape) - 1) or not shape_equal(own, kind.shape):
            return None
        if count > MOST_IN_TURN or any(tensor_type_of(p).shape[-1] != 1 for p in stack.args):
            return None
        parts = [self.viewed(p, (*own[:-1], shape[-2])) for p in stack.args]
        return Call("interleave", tuple(parts), ())

    def every_kth(self, source: Atom, kind: TensorType) -> Call | None:
        """One place of a last axis that was split off, without that axis: a slice with a stride."""
        taken = self.defined_by(source, "strided_slice")
        split = taken and self.defined_by(taken.args[0], "reshape")
        if taken is None or not split:
            return None
        shape, whole = tensor_type_of(taken.args[0]).shape, tensor_type_of(split.args[0]).shape
        count, strides = shape[-1], attr(taken, "strides") or (1,)
        if not (isinstance(count, IntImm) and isinstance(whole[-1], IntImm)) or len(shape) < 2:
            return None
        if list(attr(taken, "axes")) not in ([-1], [len(shape) - 1]) or list(strides) != [1]:
            return None
        if tensor_type_of(source).shape[-1] != 1 or not shape_equal(kind.shape, shape[:-1]):
            return None
        if not shape_equal(whole, (*shape[:-2], fold_dim(shape[-2] * count))):
            return None
        begin = attr(taken, "begin")[0] or 0
        attrs = (
            ("axes", (-1,)),
            ("begin", (begin % count.value,)),
            ("end", (whole[-1].value,)),
            ("strides", (count.value,)),
        )
        return Call("strided_slice", (split.args[0],), attrs)

    def viewed(self, atom: Atom, shape: tuple[Expr, ...]) -> Atom:
        """A tensor under another shape."""
        value = self.view(reshaped(atom, shape))
        return value if isinstance(value, ATOMS) else self.builder.emit(value)


def _permute_dims(owner: _Canonicalizer, call: Call) -> Value:
    """Two permutations are one; the identity is none; one that moves nothing but axes of size 1 is
    a view."""
    axes, source = resolve_axes(call), call.args[0]
    inner = owner.defined_by(source, "permute_dims")
    if inner is not None:
        first = resolve_axes(inner)
        axes, source = tuple([first[a] for a in axes]), inner.args[0]
    if axes == tuple(range(len(axes))):
        return source
    kind, made = type_of(source), type_of(call)
    assert isinstance(kind, TensorType)
    assert isinstance(made, TensorType)
    long = [a for a in axes if kind.shape[a] != 1]
    if long == sorted(long):
        return owner.view(reshaped(source, made.shape).with_span(call.span))
    if source is call.args[0]:
        return call
    return Call("permute_dims", (source,), (("axes", axes),)).with_span(call.span)


def _matmul(owner: _Canonicalizer, call: Call) -> Value:
    """A product reads a transposed operand as it is; ``x @ w.T`` with a matrix ``w`` is a linear
    layer."""
    args, flips = list(call.args), [bool(attr(call, k)) for k in ("transpose_a", "transpose_b")]
    for index in (0, 1):
        inner = owner.defined_by(args[index], "permute_dims")
        if inner is not None and _swaps_last(resolve_axes(inner)):
            args[index], flips[index] = inner.args[0], not flips[index]
    kind = type_of(args[1])
    kept = [(k, v) for k, v in call.attrs if k not in ("transpose_a", "transpose_b")]
    if flips == [False, True] and isinstance(kind, TensorType) and kind.ndim == 2:
        return Call("linear", tuple(args), tuple(kept)).with_span(call.span)
    if all(a is b for a, b in zip(args, call.args, strict=True)):
        return call
    turned = [(k, True) for k, f in zip(("transpose_a", "transpose_b"), flips, strict=True) if f]
    return Call("matmul", tuple(args), (*kept, *turned)).with_span(call.span)


def _swaps_last(axes: tuple[int, ...]) -> bool:
    """Whether a permutation exchanges the last two axes and nothing else."""
    count = len(axes)
    return count >= 2 and axes == (*range(count - 2), count - 1, count - 2)


def _same_type(owner: _Canonicalizer, call: Call) -> Value:
    """A cast to its own dtype, or a broadcast to its own shape, is the operand."""
    return call.args[0] if types_equal(type_of(call.args[0]), type_of(call)) else call


def _reduction(owner: _Canonicalizer, call: Call) -> Value:
    """Along axes of one element it is the element. A sum begins with 0, of which -0.0 is 0.0."""
    kind, made = tensor_type_of(call.args[0]), tensor_type_of(call)
    axes = normal_axes(call, attr(call, "axis"), kind.ndim)
    if kind.dtype is not made.dtype or any(kind.shape[a] != 1 for a in axes):
        return call
    if call.op not in ("sum", "mean") or kind.dtype.kind != "float":
        return owner.view(reshaped(call.args[0], made.shape).with_span(call.span))
    element = owner.viewed(call.args[0], made.shape)
    return Call("add", (element, constant(0.0, str(made.dtype))), ()).with_span(call.span)


MOST_IN_TURN = 8
"""The most tensors whose elements one kernel takes in turn, each element asking which."""
MOST_NAMED_PARTS = 8
"""The most parts of symbolic sizes that one ``concat`` keeps. Where a part begins is a sum of all
sizes before it, so the work on a kernel grows with the square of their number, and each of its
elements asks every part in turn."""


def _concat(owner: _Canonicalizer, call: Call) -> Value:
    """Of one part it is the part. Of many with symbolic sizes it is one of neighbours joined, as
    equal in number as they come: they share kernels."""
    parts = list(call.args)
    if len(parts) == 1:
        return parts[0]
    axis = int(attr(call, "axis"))
    while _named(parts, axis) > MOST_NAMED_PARTS:
        groups = -(-len(parts) // MOST_NAMED_PARTS)
        each = -(-len(parts) // groups)
        parts = [_joined(owner, parts[i : i + each], call) for i in range(0, len(parts), each)]
    if len(parts) == len(call.args):
        return call
    return Call("concat", tuple(parts), call.attrs).with_span(call.span)


def _named(parts: Sequence[Atom], axis: int) -> int:
    """How many parts have a size along the axis that is no number."""
    kinds = [type_of(p) for p in parts]
    return sum(isinstance(k, TensorType) and not isinstance(k.shape[axis], IntImm) for k in kinds)


def _joined(owner: _Canonicalizer, parts: Sequence[Atom], call: Call) -> Atom:
    if len(parts) == 1:
        return parts[0]
    return owner.builder.emit(Call("concat", tuple(parts), call.attrs).with_span(call.span))


def _strided_slice(owner: _Canonicalizer, call: Call) -> Value:
    """A forward slice that keeps the type takes everything."""
    strides = attr(call, "strides") or (1,) * len(attr(call, "axes"))
    return _same_type(owner, call) if all(s == 1 for s in strides) else call


_RULES: dict[str, Callable[[_Canonicalizer, Call], Value]] = {
    "permute_dims": _permute_dims,
    "matmul": _matmul,
    "astype": _same_type,
    "broadcast_to": _same_type,
    "concat": _concat,
    "strided_slice": _strided_slice,
    **dict.fromkeys(("sum", "mean", "max", "min", "prod"), _reduction),
}
