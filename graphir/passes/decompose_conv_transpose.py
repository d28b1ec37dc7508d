"""DecomposeConvTranspose: a transposed convolution is ordinary convolutions, one result a phase.

With a stride of s every s-th result, ``Y[q * s + r]`` for an r, sees the same taps of the kernel:
those that are r modulo s. This phase is a convolution of X itself, with a stride of 1 and 1/s of
the taps. No zero is put between the elements of X, and none is multiplied. Phases of as many taps
are one convolution with more channels; what it gives is put in its place by a permutation:

    4 taps, s = 2:   Y[2q + r] = X[q] W[r] + X[q - 1] W[r + 2]         r = 0, 1: 2 taps each
    3 taps, s = 2:   Y[2q]     = X[q] W[0] + X[q - 1] W[2]             2 taps
                     Y[2q + 1] = X[q] W[1]                             1 tap

Where the kernel is the stride that is a matrix product and a pixel shuffle (Shi et al., "Is the
deconvolution layer the same as a convolutional layer?", 2016); a stride of 1 is a convolution with
the kernel reversed. Padding takes results away at both ends: a phase begins with its first result
that is kept, and what its last round has too many is cut off the whole. Where phases of fewer taps
are computed with others they get zeros for the missing ones, and a kernel that has both a stride
and a dilation has zeros between its taps: there an infinity reaches results that it would not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...support.passes import Pass
from ...tensorir.expr import Expr
from ..dim import dim_equal, fold_dim, static_value
from ..expr import Atom, Call, Constant, Value
from ..module import IRModule
from ..mutator import ExprMutator
from ..op import attr, folded_shape, reshaped, tensor_type_of
from .channels_last import pointwise

Range = tuple[int, int]
Part = tuple[int, int | None]


@dataclass(frozen=True)
class DecomposeConvTranspose(Pass):
    """Replace ``conv_transpose``, channels last, by convolutions with a stride of 1.

    ``lanes`` is the number of output channels that a kernel computes at once: with fewer it pays to
    keep phases together though some have fewer taps. *requires*: channels-last. *ensures*: no
    ``conv_transpose`` is left.

        y = R.conv_transpose(x, w, strides=[2, 2], ...)    # x: (1, 28, 28, 64), w: (64, 32, 2, 2)
    becomes
        a = R.linear(x, v)                                 # v: (128, 64)
        b = R.reshape(a, R.shape([1, 28, 28, 1, 2, 2, 32]))
        c = R.permute_dims(b, axes=[0, 1, 4, 2, 5, 3, 6])
        y = R.reshape(c, R.shape([1, 56, 56, 32]))
    """

    lanes: int = 16

    def run(self, module: IRModule) -> IRModule:
        return _Decomposer(module, self.lanes).transform()


@dataclass(frozen=True)
class Phases:
    """Phases ``[first, last)`` of one spatial dim, in one convolution: they have ``taps`` at most,
    and results from q = ``start`` on."""

    first: int
    last: int
    taps: int
    start: int
    padding: Range

    @property
    def count(self) -> int:
        return self.last - self.first


@dataclass(frozen=True)
class Axis:
    """A spatial dim of a transposed convolution; results before padding are ``q * stride + r``."""

    kernel: int
    stride: int
    dilation: int
    before: int
    after: int
    extra: int

    @property
    def reach(self) -> int:
        """Elements from the first to the last tap."""
        return (self.kernel - 1) * self.dilation

    @property
    def step(self) -> int:
        """The dilation of the convolutions: with a stride the kernel is spread out instead."""
        return self.dilation if self.stride == 1 else 1

    @property
    def taps(self) -> int:
        """The most taps of a phase."""
        return self.reach // self.stride // self.step + 1

    def together(self) -> list[Phases]:
        """All phases, with as many taps as the longest, and all results of the first round and of
        the last."""
        start = self.before // self.stride
        behind = (self.reach + self.extra - self.after) // self.stride
        padding = ((self.taps - 1) * self.step - start, behind)
        return [Phases(0, self.stride, self.taps, start, padding)]

    def apart(self) -> list[Phases]:
        """Phases with the same taps, in the order of their first results that are kept: nothing is
        computed that is cut off in front. Those that are together where one of the convolutions
        would read less than all of X."""
        first, offset = self.before // self.stride, self.before % self.stride
        # Each phase: its round and its taps. Runs of equal ones are one convolution.
        order = [(first + (offset + j) // self.stride, (offset + j) % self.stride)
                 for j in range(self.stride)]  # fmt: skip
        total = self.reach + 1 + self.extra - self.before - self.after
        runs: list[Phases] = []
        for (start, taps), run in itertools.groupby(order, lambda p: (p[0], self._taps(p[1]))):
            phases = [r for _, r in run]
            padding = ((taps - 1) * self.step - start, -(-total // self.stride) - 1 + start)
            runs.append(Phases(phases[0], phases[-1] + 1, taps, start, padding))
        return runs if all(min(r.padding) >= 0 for r in runs) else self.together()

    def _taps(self, phase: int) -> int:
        """The taps of a phase; one, a zero, where it has none."""
        return max(1, (self.reach - phase) // self.stride // self.step + 1)

    def cut(self, parts: Sequence[Phases]) -> tuple[int, bool]:
        """The results in front that these parts compute in vain, and whether there are others
        behind."""
        front = self.before % self.stride if parts[0].first == 0 else 0
        total = self.reach + 1 + self.extra - self.before - self.after
        return front, (front + total) % self.stride != 0


class _Decomposer(ExprMutator):
    def __init__(self, module: IRModule, lanes: int) -> None:
        super().__init__(module)
        self.lanes = lanes

    def visit_Call(self, call: Call) -> Value:  # noqa: N802
        new = super().visit_Call(call)
        assert isinstance(new, Call)
        if new.op != "conv_transpose" or not attr(new, "channels_last"):
            return new
        axes = _axes(new)
        parts = _chosen(new, axes, self.lanes)
        weight = _kernels(self, new, axes)
        if all(a.stride == 1 for a in axes):
            return pointwise(self, _convolution(self, new, axes, weight, [p[0] for p in parts]))
        joined = self._joined(new, axes, weight, parts, ())
        return self._shuffled(new, [a.cut(p)[0] for a, p in zip(axes, parts, strict=True)], joined)

    def _joined(
        self,
        call: Call,
        axes: Sequence[Axis],
        weight: Atom,
        parts: Sequence[Sequence[Phases]],
        chosen: tuple[Phases, ...],
    ) -> Atom:
        """All phases as (batch, q..., groups, phases..., channels of a group), those of ``chosen``
        in the first dims."""
        if len(chosen) < len(axes):
            found = [
                self._joined(call, axes, weight, parts, (*chosen, p)) for p in parts[len(chosen)]
            ]
            if len(found) == 1:
                return found[0]
            axis = len(axes) + 2 + len(chosen)
            return self.emit(Call("concat", tuple(found), (("axis", axis),)), "phases")
        conv = pointwise(self, _convolution(self, call, axes, weight, chosen))
        made = self.emit(conv, "phase")
        groups, each = attr(call, "groups"), _each(call)
        shape = (*tensor_type_of(made).shape[:-1], groups, *[p.count for p in chosen], each)
        return _under(self, made, shape)

    def _shuffled(self, call: Call, begin: Sequence[int], joined: Atom) -> Value:
        """Phases put between each other, and what is beyond the result cut off."""
        n = len(begin)
        order = [0, *[a for d in range(n) for a in (1 + d, 2 + n + d)], 1 + n, 2 + 2 * n]
        moved = _permuted(self, joined, order)
        batch, *rest = tensor_type_of(moved).shape
        spatial = [fold_dim(rest[2 * d] * rest[2 * d + 1]) for d in range(n)]
        whole = reshaped(moved, (batch, *spatial, fold_dim(rest[-2] * rest[-1])))
        wanted = tensor_type_of(call).shape[1:-1]
        cut = [d for d in range(n) if not dim_equal(spatial[d], wanted[d])]
        if not cut:
            return whole
        ranges = [(begin[d], _end(begin[d], spatial[d], wanted[d])) for d in cut]
        return _sliced(self.emit(whole, "whole"), [1 + d for d in cut], ranges)


def _end(begin: int, whole: Expr, wanted: Expr) -> int | None:
    """Where a part of so many elements ends: counted from behind where the whole has a name."""
    size = static_value(wanted)
    if size is not None:
        return begin + size
    more = static_value(fold_dim(whole - wanted))
    assert more is not None
    return begin - more or None


def _each(call: Call) -> int:
    """The output channels of a group."""
    each = static_value(tensor_type_of(call.args[1]).shape[1])
    assert each is not None
    return each


def _axes(call: Call) -> list[Axis]:
    kernel = [static_value(k) for k in tensor_type_of(call.args[1]).shape[2:]]
    padding = attr(call, "padding")
    given = [attr(call, k) for k in ("strides", "dilation", "output_padding")]
    rows = zip(kernel, *given, padding[::2], padding[1::2], strict=True)
    return [Axis(k or 1, s, d, before, after, extra) for k, s, d, extra, before, after in rows]


def _chosen(call: Call, axes: Sequence[Axis], lanes: int) -> list[list[Phases]]:
    """The phases of each dim that are computed together: those of as many taps, unless all at once
    cost no more."""
    each = _each(call)

    def cost(parts: Sequence[Sequence[Phases]]) -> int:
        return sum(
            math.prod(p.taps for p in part)
            * math.ceil(math.prod(p.count for p in part) * each / lanes)
            for part in itertools.product(*parts)
        )

    ways = [[a.apart() for a in axes], [a.together() for a in axes]]
    return min(ways, key=cost)


# -- operands -----------------------------------------------------------------------------------
def _kernels(owner: ExprMutator, call: Call, axes: Sequence[Axis]) -> Atom:
    """The weight as (groups, phases..., out of a group, in of a group, taps...), taps reversed."""
    w, groups, n = call.args[1], attr(call, "groups"), len(axes)
    inputs = static_value(tensor_type_of(w).shape[0]) or 0
    channels = (inputs, _each(call))
    if any(a.dilation > a.step for a in axes):
        spread = [(a.kernel, a.dilation // a.step) for a in axes]
        w = _under(owner, w, (*channels, *[v for k, _ in spread for v in (k, 1)]))
        w = _padded(owner, w, [0, 0, *[v for _, d in spread for v in (0, d - 1)]])
        w = _under(owner, w, (*channels, *[k * d for k, d in spread]))
    sizes = [static_value(k) or 0 for k in tensor_type_of(w).shape[2:]]
    whole = [a.taps * a.stride for a in axes]
    w = _padded(owner, w, [0, 0, *[max(0, b - s) for s, b in zip(sizes, whole, strict=True)]])
    w = _part(owner, w, [(0, b) for b in whole])
    own = inputs // groups
    w = _under(owner, w, (groups, own, channels[1], *[v for a in axes for v in (a.taps, a.stride)]))
    taps, phases = [3 + 2 * d for d in range(n)], [4 + 2 * d for d in range(n)]
    return _permuted(owner, _reversed(owner, w, taps), [0, *phases, 2, 1, *taps])


def _convolution(
    owner: ExprMutator, call: Call, axes: Sequence[Axis], weight: Atom, part: Sequence[Phases]
) -> Call:
    """The convolution that computes some phases."""
    groups = attr(call, "groups")
    each, own = [static_value(d) or 0 for d in tensor_type_of(weight).shape[1 + len(axes) :][:2]]
    of_phases = [(p.first, p.last) for p in part]
    of_taps = [(a.taps - p.taps, a.taps) for a, p in zip(axes, part, strict=True)]
    w = _part(owner, weight, [*of_phases, (0, each), (0, own), *of_taps])
    count = math.prod(p.count for p in part)
    w = _under(owner, w, (groups * count * each, own, *[p.taps for p in part]))
    bias = [_repeated(owner, b, groups, count, each) for b in call.args[2:]]
    padding = [v for p in part for v in p.padding]
    attrs = (
        ("strides", (1,) * len(axes)),
        ("padding", tuple(padding)),
        ("dilation", tuple([a.step for a in axes])),
        ("groups", groups),
        ("channels_last", True),
    )
    return Call("conv", (call.args[0], w, *bias), attrs).with_span(call.span)


def _repeated(owner: ExprMutator, bias: Atom, groups: int, count: int, each: int) -> Atom:
    """A bias for every phase of each group."""
    if count == 1:
        return bias
    if isinstance(bias, Constant):

        def tiled(b: np.ndarray) -> np.ndarray:
            wide = np.broadcast_to(b.reshape(groups, 1, each), (groups, count, each))
            return wide.reshape(-1)

        return owner.derive("repeated", tiled, bias)
    rows = _under(owner, bias, (groups, 1, each))
    wide = owner.emit(Call("broadcast_to", (rows, folded_shape((groups, count, each)))), "bias")
    return _under(owner, wide, (groups * count * each,))


# -- moves, of constants at once ----------------------------------------------------------------
def _under(owner: ExprMutator, atom: Atom, dims: Sequence[Expr | int]) -> Atom:
    if isinstance(atom, Constant):
        sizes = [static_value(d) or 0 for d in folded_shape(dims).values]
        return owner.derive("moved", lambda a: a.reshape(sizes), atom)
    return owner.emit(reshaped(atom, dims), "v")


def _permuted(owner: ExprMutator, atom: Atom, axes: Sequence[int]) -> Atom:
    if isinstance(atom, Constant):
        return owner.derive("moved", lambda a: a.transpose(axes), atom)
    return owner.emit(Call("permute_dims", (atom,), (("axes", tuple(axes)),)), "v")


def _padded(owner: ExprMutator, atom: Atom, behind: Sequence[int]) -> Atom:
    """Zeros behind each axis."""
    if not any(behind):
        return atom
    if isinstance(atom, Constant):
        return owner.derive("moved", lambda a: np.pad(a, [(0, b) for b in behind]), atom)
    widths = tuple([v for b in behind for v in (0, b)])
    return owner.emit(Call("pad", (atom,), (("pad_width", widths),)), "v")


def _part(owner: ExprMutator, atom: Atom, ranges: Sequence[Range]) -> Atom:
    """What lies within a range of each of some axes: all but the first, as many as are given."""
    first = tensor_type_of(atom).ndim - len(ranges)
    sizes = [static_value(d) for d in tensor_type_of(atom).shape[first:]]
    if all(r == (0, s) for r, s in zip(ranges, sizes, strict=True)):
        return atom
    if isinstance(atom, Constant):
        kept = (slice(None),) * first + tuple([slice(*r) for r in ranges])
        return owner.derive("moved", lambda a: a[kept], atom)
    axes = range(first, first + len(ranges))
    return owner.emit(_sliced(atom, list(axes), ranges), "v")


def _sliced(atom: Atom, axes: Sequence[int], ranges: Sequence[Part]) -> Call:
    attrs = {"axes": axes, "begin": [b for b, _ in ranges], "end": [e for _, e in ranges]}
    return Call("strided_slice", (atom,), tuple([(k, tuple(v)) for k, v in attrs.items()]))


def _reversed(owner: ExprMutator, atom: Atom, axes: Sequence[int]) -> Atom:
    if isinstance(atom, Constant):
        return owner.derive("moved", lambda a: np.flip(a, tuple(axes)), atom)
    none = (None,) * len(axes)
    attrs = (("axes", tuple(axes)), ("begin", none), ("end", none), ("strides", (-1,) * len(axes)))
    return owner.emit(Call("strided_slice", (atom,), attrs), "v")
