"""Index maps: how ``transform_layout`` and tensor intrinsics rename the elements of a buffer.

An ``IndexMap`` sends the indices of the old layout to those of the new one,
``(n, c) -> (n, c // 16, c % 16)``. A map is a bijection of a shape if the iterator map of its
outputs (``iter_map``) is; sizes that the tiles do not divide are rounded up by ``map_shape``, and
``padding_predicate`` tells which elements of the new layout are inside.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...support.errors import LayoutError
from ..buffer import Range
from ..expr import Expr, ExprLike, IntImm, Var, all_of, as_expr, const
from ..visitor import free_vars, substitute
from .analyzer import Analyzer
from .iter_map import IterMap, IterMark, IterSplit, IterSum, detect_iter_map
from .linear import ZERO, Linear, render
from .region import limits

_PLAIN = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Digit(NamedTuple):
    """``var // lower % extent``."""

    var: Var
    lower: int
    extent: int


@dataclass(frozen=True, eq=False, slots=True)
class IndexMap:
    """``inputs -> outputs``, int64 expressions over the input variables."""

    inputs: tuple[Var, ...]
    outputs: tuple[Expr, ...]
    _found: dict[tuple[int, ...], IterMap | None] = field(default_factory=dict, repr=False)
    """What was detected for shapes of constants, which is asked for several times."""

    @staticmethod
    def from_function(fn: Callable[..., Any], ndim: int) -> IndexMap:
        """The map that a Python function of ``ndim`` indices writes down: ``lambda i, j: (j, i)``.

        The variables take the parameters' names; ``*args`` gives ``i0, i1, ...``. Raises
        LayoutError where the function takes another number of indices or returns no index.
        """
        names: list[str] = []
        for p in inspect.signature(fn).parameters.values():
            if p.kind in _PLAIN:
                names.append(p.name)
            elif p.kind is inspect.Parameter.VAR_POSITIONAL:
                names.extend(f"i{k}" for k in range(len(names), ndim))
        if len(names) != ndim:
            raise _error(f"the index map takes {len(names)} indices, the buffer has {ndim}")
        inputs = tuple([Var(name) for name in names])
        result = fn(*inputs)
        outputs = result if isinstance(result, Iterable) else (result,)
        return IndexMap(inputs, tuple([as_expr(o) for o in outputs]))

    def map_indices(
        self, indices: Sequence[ExprLike], analyzer: Analyzer | None = None
    ) -> tuple[Expr, ...]:
        """The new indices of an element, simplified with what ``analyzer`` knows."""
        if len(indices) != len(self.inputs):
            raise _error(f"the index map takes {len(self.inputs)} indices, found {len(indices)}")
        analyzer = analyzer or Analyzer()
        mapping = dict(zip(self.inputs, [as_expr(i) for i in indices], strict=True))
        return tuple([analyzer.simplify(substitute(o, mapping)) for o in self.outputs])

    def map_shape(
        self, shape: Sequence[ExprLike], analyzer: Analyzer | None = None
    ) -> tuple[Expr, ...]:
        """The new shape; sizes that are not divided by their tiles are rounded up.

        Raises LayoutError where an output has no bound over the shape, or goes below 0.
        """
        analyzer = self._analyzer(shape, analyzer)
        loops = self._loops(shape)
        found = self._detect(shape, analyzer)
        if found is not None and _is_box(found):
            return tuple([analyzer.simplify(render(_extent(t))) for t in found.sums])
        sizes: list[Expr] = []
        for o in self.outputs:
            low, high = limits(analyzer, o, loops)
            if low is None or high is None or not analyzer.can_prove(low >= 0):
                raise _error(f"output {len(sizes)} of the index map has no known range from 0 up")
            sizes.append(analyzer.simplify(high + 1))
        return tuple(sizes)

    def is_bijective(self, shape: Sequence[ExprLike], analyzer: Analyzer | None = None) -> bool:
        """Whether the map is a bijection of ``shape`` onto ``map_shape(shape)``."""
        found = self._detect(shape, self._analyzer(shape, analyzer))
        return found is not None and found.is_bijective and _is_box(found)

    def inverse(self, shape: Sequence[ExprLike], analyzer: Analyzer | None = None) -> IndexMap:
        """The map back, from ``map_shape(shape)`` to ``shape``; LayoutError if not a bijection."""
        analyzer = self._analyzer(shape, analyzer)
        found = self._detect(shape, analyzer)
        if found is None or not found.is_bijective or not _is_box(found):
            raise _error(
                "the index map is not a bijection of the buffer's shape"
                + (": it needs padding" if found is not None and found.is_injective else "")
            )
        return self._invert(found, shape, analyzer)

    def padded_inverse(
        self, shape: Sequence[ExprLike], analyzer: Analyzer | None = None
    ) -> tuple[IndexMap, Expr]:
        """The map back and, over its inputs, the condition of being inside ``shape``.

        The condition is true where the map is a bijection. Raises LayoutError where two elements
        would share a place.
        """
        analyzer = self._analyzer(shape, analyzer)
        found = self._detect(shape, analyzer)
        if found is None or not found.is_injective or not _is_box(found):
            raise _error("the index map is not injective: two elements would share a place")
        inverse = self._invert(found, shape, analyzer)
        sizes = self.map_shape(shape, analyzer)
        with analyzer.scope():
            for v, size in zip(inverse.inputs, sizes, strict=True):
                analyzer.bind(v, Range(const(0), size))
            inside = [
                analyzer.simplify(o < as_expr(size))
                for o, size in zip(inverse.outputs, shape, strict=True)
            ]
        return inverse, all_of(inside)

    def padding_predicate(
        self, shape: Sequence[ExprLike], analyzer: Analyzer | None = None
    ) -> tuple[tuple[Var, ...], Expr]:
        """New index variables and, over them, the condition of being an element of ``shape``."""
        inverse, inside = self.padded_inverse(shape, analyzer)
        return inverse.inputs, inside

    def digits(self, shape: Sequence[int]) -> list[Digit | None] | None:
        """What each output counts of one input, which has this many values; None for those that
        are 0. None where one is anything else."""
        found = self._detect(shape, Analyzer())
        if found is None:
            return None
        digits: list[Digit | None] = []
        for total in found.sums:
            if total.base.key != ZERO.key or len(total.splits) > 1 or not total.is_unit:
                return None
            p = total.splits[0] if total.splits else None
            if p is None:
                digits.append(None)
            elif isinstance(p.mark.source, Var):
                digits.append(Digit(p.mark.source, p.lower.const, p.extent.const))
            else:
                return None
        return digits

    # -- details ---------------------------------------------------------------------------------
    def _loops(self, shape: Sequence[ExprLike]) -> list[tuple[Var, Range]]:
        if len(shape) != len(self.inputs):
            raise _error(
                f"the index map takes {len(self.inputs)} indices, the shape has {len(shape)}"
            )
        sizes = [as_expr(n) for n in shape]
        return [(v, Range(const(0), n)) for v, n in zip(self.inputs, sizes, strict=True)]

    def _analyzer(self, shape: Sequence[ExprLike], analyzer: Analyzer | None) -> Analyzer:
        """The given analyzer, or a new one that knows the variables of the shape as dimensions."""
        if analyzer is None:
            analyzer = Analyzer()
            for v in free_vars([n for n in shape if isinstance(n, Expr)]):
                analyzer.declare_dim(v)
        return analyzer

    def _detect(self, shape: Sequence[ExprLike], analyzer: Analyzer) -> IterMap | None:
        loops = {v: r.extent for v, r in self._loops(shape)}
        sizes = tuple([n.value for n in loops.values() if isinstance(n, IntImm)])
        own = all(v in self.inputs for v in free_vars(self.outputs))
        if len(sizes) < len(loops) or not own:  # the answer depends on what the analyzer knows
            return detect_iter_map(self.outputs, loops, None, analyzer)
        if sizes not in self._found:
            self._found[sizes] = detect_iter_map(self.outputs, loops, None, analyzer)
        return self._found[sizes]

    def _invert(self, found: IterMap, shape: Sequence[ExprLike], analyzer: Analyzer) -> IndexMap:
        s = analyzer.simplifier
        outputs = tuple([Var(f"o{k}") for k in range(len(self.outputs))])
        with analyzer.scope():
            for v, total in zip(outputs, found.sums, strict=True):
                analyzer.bind(v, Range(const(0), render(_extent(total))))
            values: dict[IterMark, Linear] = {}
            pending = [
                (total, Linear({v: 1}) - total.base)
                for v, total in zip(outputs, found.sums, strict=True)
            ]
            waiting = _uses_of_marks(found)
            while pending:
                total, value = pending.pop(0)
                for p, piece in reversed(_pieces(total, value, analyzer)):
                    part = s.atoms.multiply(piece, p.lower)
                    values[p.mark] = values.get(p.mark, ZERO) + part
                    waiting[p.mark] -= 1
                    if not waiting[p.mark] and isinstance(p.mark.source, IterSum):
                        pending.append((p.mark.source, values[p.mark]))
            by_var = {m.source: x for m, x in values.items()}
            results = tuple([analyzer.simplify(render(by_var.get(v, ZERO))) for v in self.inputs])
        return IndexMap(outputs, results)


def _error(found: str) -> LayoutError:
    return LayoutError("index_map", found)


def _extent(total: IterSum) -> Linear:
    assert total.extent is not None
    return total.extent


def _is_box(found: IterMap) -> bool:
    """Whether every output counts through ``[0, extent)`` without holes."""
    return all(t.extent is not None and t.is_unit and t.base.key == ZERO.key for t in found.sums)


def _uses_of_marks(found: IterMap) -> dict[IterMark, int]:
    """How many splits there are of each mark, those below fused marks included once."""
    counts: dict[IterMark, int] = {}
    pending = list(found.sums)
    while pending:
        for p in pending.pop().splits:
            if p.mark not in counts and isinstance(p.mark.source, IterSum):
                pending.append(p.mark.source)
            counts[p.mark] = counts.get(p.mark, 0) + 1
    return counts


def _pieces(total: IterSum, value: Linear, analyzer: Analyzer) -> list[tuple[IterSplit, Linear]]:
    """The value of each split of a compact sum: ``value // scale % extent``."""
    s = analyzer.simplifier
    result = []
    for k, p in enumerate(total.splits):
        piece = s.floordiv(value, p.scale)
        if k + 1 < len(total.splits):
            piece = s.floormod(piece, p.extent)
        result.append((p, piece))
    return result
