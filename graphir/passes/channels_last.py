"""ChannelsLast: convolutions and what stands between them work on (batch, spatial..., channels).

There, channels are the vectors of every kernel: a convolution is a matrix product with rows of
pixels, and pooling, scales and sums run along memory. A value has one layout; where somebody reads
it in the other, a permutation stands between, and dead-code-elimination removes those that nobody
reads. Permutations of the model itself disappear where they undo ours.

Weights keep their layout here: how a kernel wants them is its schedule's business."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...support.passes import Pass
from ...tensorir.expr import Expr
from ..dim import dim_equal, fold_dim, product, static_value
from ..expr import Atom, Binding, Call, Constant, Function, Value, Var
from ..module import IRModule
from ..mutator import ATOMS, ExprMutator
from ..op import attr, get_op, reshaped, tensor_type_of, type_of
from ..ops.shape import resolve_axes, resolve_reshape
from ..type import TensorType

FEW_CHANNELS = 4
"""An input of so few channels is read by its convolution as it is: nothing runs along them."""


@dataclass(frozen=True)
class ChannelsLast(Pass):
    """Give convolutions, pooling, and elementwise work on their results the channels-last layout.

    *requires*: canonicalize. *ensures*: every convolution writes channels last.

        a = R.conv(x, w, ...)                          # x: (1, 64, 56, 56)
        y = R.relu(a)
    becomes
        t = R.permute_dims(x, axes=[0, 2, 3, 1])
        a = R.conv(t, w, ..., channels_last=True)
        u = R.relu(a)
        y = R.permute_dims(u, axes=[0, 3, 1, 2])
    """

    def run(self, module: IRModule) -> IRModule:
        return _Mover(module).transform()


def to_last(ndim: int) -> tuple[int, ...]:
    """The permutation that puts axis 1 last."""
    return (0, *range(2, ndim), 1)


def from_last(ndim: int) -> tuple[int, ...]:
    """The permutation that puts the last axis at 1."""
    return (0, ndim - 1, *range(1, ndim - 1))


class _Mover(ExprMutator):
    def __init__(self, module: IRModule) -> None:
        super().__init__(module)
        self.last: dict[Var, Var] = {}
        """Values whose channels are axis 1, with the same value channels last."""

    def visit_function(self, func: Function) -> Function:
        self.last = {}
        return super().visit_function(func)

    def visit_binding(self, binding: Binding) -> None:
        value = self.visit_value(binding.value)
        if isinstance(value, ATOMS) and not isinstance(binding.value, ATOMS):
            self.replaced[binding.var] = value
            return
        moved = self._moved(value, binding.var) if isinstance(value, Call) else None
        if moved is None:
            self.rebind(binding, value)
            return
        if not isinstance(moved, Var):  # a value that has no channels any more
            self.rebind(binding, moved)
            return
        kind = moved.type
        assert isinstance(kind, TensorType)
        self.rebind(binding, _permuted(moved, from_last(kind.ndim)))
        new = self.replaced.get(binding.var, binding.var)
        assert isinstance(new, Var)
        self.last[new] = moved

    def _moved(self, call: Call, var: Var) -> Var | Value | None:
        """The value channels last, emitted; another value for the binding; or None to leave it."""
        rule = _RULES.get(call.op)
        if rule is not None:
            return rule(self, call, var)
        if get_op(call.op).is_elementwise:
            return _elementwise(self, call, var)
        return None

    def as_last(self, atom: Atom) -> Atom:
        """An operand channels last; a permutation is emitted where it is not."""
        if isinstance(atom, Var) and atom in self.last:
            return self.last[atom]
        kind = tensor_type_of(atom)
        if isinstance(atom, Constant):
            return self.derive("last", lambda a: a.transpose(to_last(a.ndim)), atom)
        return self.emit(_permuted(atom, to_last(kind.ndim)), "last")

    def is_last(self, atom: Atom) -> bool:
        return isinstance(atom, Var) and atom in self.last


def _permuted(atom: Atom, axes: Sequence[int]) -> Call:
    return Call("permute_dims", (atom,), (("axes", tuple(axes)),))


def _with_attr(call: Call, args: Sequence[Atom], **attrs: object) -> Call:
    kept = tuple([(k, v) for k, v in call.attrs if k not in attrs])
    return Call(call.op, tuple(args), (*kept, *attrs.items())).with_span(call.span)


def _tensor(atom: Atom) -> TensorType | None:
    kind = type_of(atom)
    return kind if isinstance(kind, TensorType) else None


# -- rules -------------------------------------------------------------------------------------
def _conv(owner: _Mover, call: Call, var: Var) -> Var | None:
    if attr(call, "channels_last") or attr(call, "out_channels_last"):
        return None
    x = call.args[0]
    kind = _tensor(x)
    assert kind is not None
    channels = static_value(kind.shape[1])
    if not owner.is_last(x) and channels is not None and channels <= FEW_CHANNELS:
        return owner.emit(_with_attr(call, call.args, out_channels_last=True), "last")
    args = [owner.as_last(x), *call.args[1:]]
    return owner.emit(pointwise(owner, _with_attr(call, args, channels_last=True)), "last")


def pointwise(owner: ExprMutator, call: Call) -> Call:
    """A convolution, channels last, as a linear layer of pixels where it is pointwise."""
    if not is_pointwise(call):
        return call
    x, w, *bias = call.args
    total = attr(call, "out_dtype")
    attrs = (("out_dtype", total),) if total else ()
    return Call("linear", (x, matrix_of(owner, w), *bias), attrs).with_span(call.span)


def _conv_transpose(owner: _Mover, call: Call, var: Var) -> Var | None:
    if attr(call, "channels_last"):
        return None
    args = [owner.as_last(call.args[0]), *call.args[1:]]
    return owner.emit(_with_attr(call, args, channels_last=True), "last")


def is_pointwise(call: Call) -> bool:
    """Whether each pixel of the result depends on the same pixel alone."""
    w = _tensor(call.args[1])
    assert w is not None
    return (
        all(static_value(k) == 1 for k in w.shape[2:])
        and all(s == 1 for s in attr(call, "strides"))
        and not any(attr(call, "padding"))
        and attr(call, "groups") == 1
    )


def matrix_of(owner: ExprMutator, w: Atom) -> Atom:
    """The weight of a pointwise convolution as (out, in)."""
    kind = _tensor(w)
    assert kind is not None
    if isinstance(w, Constant):
        return owner.derive("matrix", lambda a: a.reshape(a.shape[:2]), w)
    return owner.emit(reshaped(w, kind.shape[:2]), "w")


def _same_layout(owner: _Mover, call: Call, var: Var) -> Var | None:
    """Pooling: in the layout its operand has."""
    if not owner.is_last(call.args[0]) or attr(call, "channels_last"):
        return None
    args = [owner.as_last(call.args[0]), *call.args[1:]]
    return owner.emit(_with_attr(call, args, channels_last=True), "last")


def _elementwise(owner: _Mover, call: Call, var: Var) -> Var | None:
    """Where an operand of the result's shape is channels last: the others can follow."""
    shape = var.type.shape if isinstance(var.type, TensorType) else ()
    if not any(owner.is_last(a) for a in call.args):
        return None
    args: list[Atom] = []
    for atom in call.args:
        moved = _operand(owner, atom, shape)
        if moved is None:
            return None
        args.append(moved)
    return owner.emit(_with_attr(call, args), "last")


def _operand(owner: _Mover, atom: Atom, shape: tuple[Expr, ...]) -> Atom | None:
    """An operand of an elementwise call, for a result channels last."""
    kind = _tensor(atom)
    if kind is None:
        return None
    if owner.is_last(atom) or (kind.ndim == len(shape) and _is_full(kind.shape, shape)):
        return owner.as_last(atom)
    if kind.ndim == 0 or all(static_value(d) == 1 for d in kind.shape):
        return atom if kind.ndim == 0 else owner.emit(reshaped(atom, ()), "last")
    # One number a channel, as (channels, 1, ...) or (1, channels, 1, ...).
    rest = len(shape) - 2
    dims = kind.shape
    if len(dims) == len(shape) and static_value(dims[0]) == 1:
        dims = dims[1:]
    if len(dims) == rest + 1 and all(static_value(d) == 1 for d in dims[1:]):
        if isinstance(atom, Constant):
            return owner.derive("row", lambda a: a.reshape(-1), atom)
        return owner.emit(reshaped(atom, (dims[0],)), "last")
    if kind.ndim == len(shape):
        return owner.as_last(atom)
    return None


def _is_full(dims: Sequence[Expr], shape: Sequence[Expr]) -> bool:
    return all(dim_equal(a, b) for a, b in zip(dims, shape, strict=True))


def _concat(owner: _Mover, call: Call, var: Var) -> Var | None:
    if not all(owner.is_last(a) for a in call.args):
        return None
    kind = _tensor(call.args[0])
    assert kind is not None
    axis = from_axis(int(attr(call, "axis")) % kind.ndim, kind.ndim)
    return owner.emit(_with_attr(call, [owner.as_last(a) for a in call.args], axis=axis), "last")


def from_axis(axis: int, ndim: int) -> int:
    """Where an axis of a value stands when its channels are last."""
    return to_last(ndim).index(axis)


def _pad(owner: _Mover, call: Call, var: Var) -> Var | None:
    if not owner.is_last(call.args[0]):
        return None
    widths = attr(call, "pad_width")
    pairs = [widths[2 * a : 2 * a + 2] for a in to_last(len(widths) // 2)]
    flat = tuple([w for pair in pairs for w in pair])
    return owner.emit(_with_attr(call, [owner.as_last(call.args[0])], pad_width=flat), "last")


def _reduction(owner: _Mover, call: Call, var: Var) -> Var | Value | None:
    """A reduction over spatial axes leaves the channels; without keepdims the order is the same."""
    if not owner.is_last(call.args[0]):
        return None
    kind = _tensor(call.args[0])
    assert kind is not None
    given = attr(call, "axis")
    if given is None:
        return None
    axes = [a % kind.ndim for a in ((given,) if isinstance(given, int) else given)]
    if sorted(axes) != list(range(2, kind.ndim)):
        return None
    moved = tuple([from_axis(a, kind.ndim) for a in sorted(axes)])
    new = _with_attr(call, [owner.as_last(call.args[0])], axis=moved)
    return owner.emit(new, "last") if attr(call, "keepdims") else new


def _reshape(owner: _Mover, call: Call, var: Var) -> Var | Value | None:
    """Pixels in a row stay rows of channels; one pixel is a row of channels."""
    if not owner.is_last(call.args[0]):
        return None
    kind = _tensor(call.args[0])
    assert kind is not None
    shape = resolve_reshape(call)
    pixels = fold_dim(product(kind.shape[2:]))
    same = len(shape) >= 2 and all(
        dim_equal(a, b) for a, b in zip(shape[:2], kind.shape[:2], strict=True)
    )
    if same and len(shape) == 3:
        rows = (shape[0], pixels, shape[1])
        return owner.emit(reshaped(owner.as_last(call.args[0]), rows), "last")
    if static_value(pixels) == 1:
        return reshaped(owner.as_last(call.args[0]), shape)
    return None


def _permute_dims(owner: _Mover, call: Call, var: Var) -> Var | Value | None:
    """A permutation of a value whose channels are last already. That of a convolution of bytes,
    which is a product of pixels, is such a value."""
    if not owner.is_last(call.args[0]):
        (source,) = call.args
        kind = _tensor(source)
        assert kind is not None
        if not isinstance(source, Var) or kind.ndim < 3:
            return None
        turned = resolve_axes(call) == from_last(kind.ndim)
        return source if turned and _is_of_bytes(owner, source) else None
    moved = owner.as_last(call.args[0])
    kind = _tensor(moved)
    assert kind is not None
    axes = tuple([from_axis(a, kind.ndim) for a in resolve_axes(call)])
    if axes == tuple(range(kind.ndim)):
        return reshaped(moved, kind.shape)
    return _permuted(moved, axes)


def _is_of_bytes(owner: _Mover, atom: Atom) -> bool:
    """Whether a value is a product of bytes, or elementwise work on one."""
    value = owner.lookup_binding(atom)
    while isinstance(value, Call) and get_op(value.op).is_elementwise:
        value = owner.lookup_binding(value.args[0])
    return isinstance(value, Call) and value.op == "integer_matmul"


_RULES: dict[str, Callable[[_Mover, Call, Var], Var | Value | None]] = {
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "max_pool": _same_layout,
    "avg_pool": _same_layout,
    "adaptive_pool": _same_layout,
    "concat": _concat,
    "pad": _pad,
    "sum": _reduction,
    "mean": _reduction,
    "max": _reduction,
    "min": _reduction,
    "reshape": _reshape,
    "permute_dims": _permute_dims,
}
