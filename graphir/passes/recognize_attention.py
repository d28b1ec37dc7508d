"""RecognizeAttention: attention that a model writes out of parts becomes the operator.

    matmul(q, k, transpose_b) -> scale -> mask -> softmax -> matmul(., v)

Models do it in a dozen ways: the scale multiplies or divides the scores, the queries or the keys;
the mask is added or chosen by ``where``; the keys come transposed, or, of two dims, as the weights
of a linear layer. The operator computes the same sums in another order: results of float32 agree to
a few units of the last place of the largest score, those of half precision are rounded once and not
after each part. A row whose scores are all minus infinity stays NaN
(``zero_masked_rows=False``)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ...support.passes import Pass
from ..analysis import uses
from ..builder import call_op
from ..dim import shape_equal, static_shape
from ..expr import Atom, Binding, Call, Constant, Function, Value, Var, constant
from ..module import IRModule
from ..mutator import ExprMutator
from ..op import attr, reshaped, tensor_type_of, type_of
from ..type import TensorType

LARGE = 1e30
"""What is filled in for masked scores need not be infinite: added to a score, this is itself."""
MOST_DIMS = 4


@dataclass(frozen=True)
class RecognizeAttention(Pass):
    """Replace products with a softmax between by ``attention``, where nobody else reads what is
    computed on the way and the number of keys is static.

    *requires*: canonicalize. *ensures*: nothing; what is not recognised stays as it is.

        s = R.matmul(q, k, transpose_b=True)
        s1 = R.multiply(s, R.const(0.125))
        p = R.softmax(s1, axis=-1)
        y = R.matmul(p, v)
    becomes
        y = R.attention(q, k, v, scale=0.125, zero_masked_rows=False)
    """

    def run(self, module: IRModule) -> IRModule:
        return _Recognizer(module).transform()


@dataclass(frozen=True)
class _Scores:
    """What a softmax is taken of: ``q @ k`` times ``scale``, masked."""

    product: Call
    scale: float = 1.0
    mask: Atom | None = None
    fill: float | None = None
    """What stands where a bool mask is ``outside``; None for a mask that is added."""
    outside: bool = False


class _Recognizer(ExprMutator):
    def __init__(self, module: IRModule) -> None:
        super().__init__(module)
        self.uses: dict[Var, int] = {}
        self.single: set[Var] = set()
        """Variables (of the new function) that one binding reads."""

    def visit_function(self, func: Function) -> Function:
        self.uses, self.single = uses(func), set()
        return super().visit_function(func)

    def visit_binding(self, binding: Binding) -> None:
        super().visit_binding(binding)
        new = self.replaced.get(binding.var, binding.var)
        if isinstance(new, Var) and self.uses.get(binding.var) == 1:
            self.single.add(new)

    def visit_Call(self, call: Call) -> Value:  # noqa: N802
        new = super().visit_Call(call)
        assert isinstance(new, Call)
        product_ = _as_product(new)
        if product_ is None or attr(product_, "transpose_a"):
            return new
        found = self.attention(product_)
        return new if found is None else found.with_span(new.span)

    def made_by(self, atom: Atom, *ops: str) -> Call | None:
        """The call of one of the operators that a variable is bound to, where nobody else reads
        it."""
        value = self.lookup_binding(atom)
        known = isinstance(value, Call) and value.op in ops and atom in self.single
        return value if known and isinstance(value, Call) else None

    def attention(self, call: Call) -> Value | None:
        """The operator for a product with values, or None."""
        cast = self.made_by(call.args[0], "astype")
        softmax = self.made_by(call.args[0] if cast is None else cast.args[0], "softmax")
        if softmax is None:
            return None
        kind = tensor_type_of(softmax)
        if attr(softmax, "axis") not in (-1, kind.ndim - 1):
            return None
        scores = self.scores(softmax.args[0])
        if scores is None or static_shape(kind.shape[-1:]) is None:
            return None
        return self.operator(scores, call, kind)

    # -- the scores ----------------------------------------------------------------------------
    def scores(self, atom: Atom) -> _Scores | None:
        """Scores that were perhaps masked, scaled and cast, in this order from the end."""
        cast = self.made_by(atom, "astype")
        if cast is not None:
            return self.scores(cast.args[0])
        masked = self.made_by(atom, "add", "where")
        if masked is None:
            return self.scaled(atom)
        if masked.op == "add":
            for score, mask in (masked.args, masked.args[::-1]):
                found = self.scaled(score)
                if found is not None and _same_shape(score, atom):
                    return replace(found, mask=mask)
            return None
        condition, then, other = masked.args
        for score, filled, outside in ((then, other, False), (other, then, True)):
            fill = self.number(filled)
            if fill is None or not (fill <= -LARGE) or not _same_shape(score, atom):
                continue
            found = self.scaled(score)
            if found is not None:
                return replace(found, mask=condition, fill=fill, outside=outside)
        return None

    def scaled(self, atom: Atom) -> _Scores | None:
        """The product of queries and keys, and what it is multiplied by."""
        base, scale = self.factor(atom)
        made = self.made_by(base, "matmul", "linear")
        found = None if made is None else _as_product(made)
        if found is None:
            return None
        args, total = [], scale
        for arg in found.args:
            operand, factor = self.factor(arg)
            total *= factor
            args.append(operand)
        return _Scores(replace(found, args=tuple(args)), total)

    def factor(self, atom: Atom) -> tuple[Atom, float]:
        """What is multiplied or divided by a number, and the factor; 1 for anything else."""
        call = self.made_by(atom, "multiply", "divide")
        if call is None:
            return atom, 1.0
        x, by = call.args
        if call.op == "multiply" and isinstance(x, Constant):
            x, by = by, x
        number = self.number(by)
        if number is None or number == 0 or not math.isfinite(number) or not _same_shape(x, atom):
            return atom, 1.0
        return x, number if call.op == "multiply" else 1 / number

    # -- the operator --------------------------------------------------------------------------
    def operator(self, scores: _Scores, call: Call, kind: TensorType) -> Value | None:
        q, k, v = *scores.product.args, call.args[1]
        kinds = [type_of(x) for x in (q, k, v)]
        if not all(isinstance(x, TensorType) and x.dtype.is_float for x in kinds):
            return None
        types = [x for x in kinds if isinstance(x, TensorType)]
        lead = types[0].shape[:-2]
        if (
            not 2 <= types[0].ndim <= MOST_DIMS
            or any(x.dtype is not types[0].dtype for x in types)
            or not all(shape_equal(x.shape[:-2], lead) for x in types)
            or not (kind.dtype is types[0].dtype or types[0].dtype.bits < kind.dtype.bits)
            or (types[0].ndim == 2 and any(isinstance(x, Constant) for x in (k, v)))
        ):  # weights of two linear layers have layouts of their own
            return None
        mask, causal = self.mask(scores, kind, types[0])
        if mask is None and scores.mask is not None and not causal:
            return None
        product_ = scores.product
        q = self.turned(q) if attr(product_, "transpose_a") else q
        k = k if attr(product_, "transpose_b") else self.turned(k)
        v = self.turned(v) if attr(call, "transpose_b") else v
        operands = [self.with_batch(x) for x in (q, k, v)] + ([] if mask is None else [mask])
        result = call_op(
            "attention", *operands, scale=scores.scale, causal=causal, zero_masked_rows=False
        )
        if types[0].ndim == MOST_DIMS:
            return result
        return reshaped(self.emit(result), tensor_type_of(call).shape)

    def mask(self, scores: _Scores, kind: TensorType, q: TensorType) -> tuple[Atom | None, bool]:
        """The operator's mask, and whether it is causal instead; neither where it does not fit."""
        mask = scores.mask
        if mask is None:
            return None, False
        given = type_of(mask)
        if not isinstance(given, TensorType) or given.ndim > kind.ndim:
            return None, False
        if scores.fill is None:
            if self.is_causal(mask, kind, added=True):
                return None, True
            return (mask, False) if given.dtype is q.dtype else (None, False)
        if not given.dtype.is_bool:
            return None, False
        if scores.fill == -math.inf:
            if self.is_causal(mask, kind, outside=scores.outside):
                return None, True
            return (self.emit(call_op("logical_not", mask)) if scores.outside else mask), False
        # What is filled in swallows the score that it is added to.
        parts = [constant(np.array(x), q.dtype) for x in (0.0, scores.fill)]
        if scores.outside:
            parts.reverse()
        return self.emit(call_op("where", mask, *parts)), False

    def number(self, atom: Atom) -> float | None:
        """The one number that a constant holds everywhere."""
        if not isinstance(atom, Constant) or atom.type.dtype == "bfloat16":
            return None
        data = self.array(atom).reshape(-1)
        return float(data[0]) if data.size and bool((data == data[0]).all()) else None

    def is_causal(
        self, mask: Atom, kind: TensorType, *, added: bool = False, outside: bool = False
    ) -> bool:
        """Whether a constant mask lets query i see the keys up to i."""
        shape = static_shape(kind.shape[-2:])
        if not isinstance(mask, Constant) or shape is None or mask.shape[-2:] != shape:
            return False
        if math.prod(mask.shape) != math.prod(shape):
            return False
        data, below = self.array(mask).reshape(shape), np.tri(shape[0], shape[1]) > 0
        if added:
            return bool(np.array_equal(data, np.where(below, 0.0, -np.inf)))
        return bool(np.array_equal(data, ~below if outside else below))

    def turned(self, atom: Atom) -> Atom:
        """An operand with its last two axes exchanged."""
        count = tensor_type_of(atom).ndim
        axes = (*range(count - 2), count - 1, count - 2)
        return self.emit(call_op("permute_dims", atom, axes=axes))

    def with_batch(self, atom: Atom) -> Atom:
        """An operand of four dims; three are heads of one batch, two are one head."""
        kind = tensor_type_of(atom)
        if kind.ndim == MOST_DIMS:
            return atom
        return self.emit(reshaped(atom, (*[1] * (MOST_DIMS - kind.ndim), *kind.shape)))


def _as_product(call: Call) -> Call | None:
    """A product of matrices that keeps their dtype; a linear layer without a bias is one by the
    turned weights."""
    if call.op not in ("matmul", "linear") or attr(call, "out_dtype"):
        return None
    if call.op == "matmul":
        return call
    if call.op != "linear" or len(call.args) != 2:
        return None
    return call_op("matmul", *call.args, transpose_b=True)


def _same_shape(a: Atom, b: Atom) -> bool:
    return shape_equal(tensor_type_of(a).shape, tensor_type_of(b).shape)
