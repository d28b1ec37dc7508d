"""KeepIntegerWeights: a product with weights that are computed of constant bytes reads the bytes.

Models that are quantised have their weights as integers with scales and zero points, and write

    (float32(w) - zero) * scale          perhaps as (columns, groups, weights of a group)

in front of a product, or the scale behind it. Folded, that is float32 again, four or eight times as
many bytes. ``scaled_linear`` computes it in registers instead; integers from -8 to 7, or from 0 to
15, are kept in 4 bits. Where the other operand is computed of bytes as well, the product is one of
bytes (``passes.dequantized``), and so is a convolution's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...support.dtype import bfloat16_bits
from ...support.passes import Pass
from ...tensorir.operators.scaled_linear import WORD
from ..dim import static_shape
from ..expr import Atom, Call, Constant, Value
from ..module import IRModule
from ..mutator import ExprMutator
from ..op import attr, get_op, type_of
from ..scaled_weights import words
from ..text.literal import readable
from ..type import TensorType
from .dequantized import BYTES, EXACT, product_of_bytes
from .to_integer_weights import FLOATS, group_of, scaled_product

LONGEST = 256
"""Terms that are summed before the scale is applied; longer groups are cut."""


@dataclass(frozen=True)
class KeepIntegerWeights(Pass):
    """Let ``linear`` and ``matmul`` of floats read constant bytes, in place of floats computed of
    them: a cast, perhaps less constant integers, the zero points, perhaps times constant scales,
    both the same along a group of the weights of an output.

    *requires*: canonicalize; casts of constant bytes that nobody folded. *ensures*: the types of
    all results are what they were; weights are not rounded, where folding rounds their products
    with the scale.

        lv = R.multiply(R.astype(w, dtype="float32"), s)        # w: int8 constant, s: constant
        y = R.linear(x, lv)
    becomes
        y = R.scaled_linear(x, w1, s1, z1, bits=8)              # w1: words of w's bytes
    """

    def run(self, module: IRModule) -> IRModule:
        return _Keeper(module).transform()


@dataclass(frozen=True)
class _Weight:
    """``(numbers - zero) * scale``, in the constant's shape; ``is_grouped``: that is (n, groups,
    depth), and the weight (n, groups * depth); ``turned``: the weight is that, transposed."""

    numbers: Constant
    zero: np.ndarray | None = None
    scale: np.ndarray | None = None
    is_grouped: bool = False
    turned: bool = False


class _Keeper(ExprMutator):
    def __init__(self, module: IRModule) -> None:
        super().__init__(module)
        self.known: dict[tuple[int, bool], tuple[tuple[Constant, ...], int] | None] = {}

    def visit_Call(self, call: Call) -> Value:  # noqa: N802
        new = super().visit_Call(call)
        assert isinstance(new, Call)
        if new.op in ("linear", "matmul", "conv"):
            whole = product_of_bytes(self, new, self.values)
            if whole is not None:
                return whole
        if new.op not in ("linear", "matmul") or attr(new, "out_dtype"):
            return new
        x, w = (type_of(a) for a in new.args[:2])
        if not isinstance(x, TensorType) or not isinstance(w, TensorType):
            return new
        if x.ndim == 0 or w.ndim != 2 or x.dtype != w.dtype or x.dtype not in FLOATS:
            return new
        if new.op == "matmul" and attr(new, "transpose_a"):
            return new
        across = new.op == "matmul" and not attr(new, "transpose_b")
        key = (id(new.args[1]), across)
        if key not in self.known:
            weight = self.traced(new.args[1])
            self.known[key] = None if weight is None else self.kept(weight, across)
        found = self.known[key]
        if found is None:
            return new
        made, bits = found
        return scaled_product(self, new, made, bits)

    def traced(self, atom: Atom) -> _Weight | None:
        """How a value is computed of constant bytes, or None."""
        value = self.lookup_binding(atom)
        if not isinstance(value, Call):
            return None
        if value.op == "astype":
            return self._cast(value)
        if value.op in ("subtract", "multiply"):
            return self._combined(value)
        if value.op in ("reshape", "permute_dims"):
            weight = self.traced(value.args[0])
            return None if weight is None else _moved(weight, value)
        return None

    def _cast(self, call: Call) -> _Weight | None:
        operand, dtype = call.args[0], str(attr(call, "dtype"))
        if dtype not in (*EXACT, *FLOATS):
            return None
        if isinstance(operand, Constant):
            is_bytes = operand.type.dtype in BYTES and len(operand.shape) in (2, 3)
            return _Weight(operand) if is_bytes else None
        weight = self.traced(operand)
        return weight if weight is not None and weight.scale is None else None

    def _combined(self, call: Call) -> _Weight | None:
        """Less a zero point, or times a scale."""
        first, other = call.args
        weight = self.traced(first)
        if weight is None and call.op == "multiply":
            first, other = other, first
            weight = self.traced(first)
        array, kind = self.values(other), type_of(call)
        if weight is None or array is None or not isinstance(kind, TensorType):
            return None
        is_whole = static_shape(kind.shape) == weight.numbers.shape
        if not is_whole or weight.is_grouped or weight.turned or weight.scale is not None:
            return None
        if call.op == "multiply":
            is_scale = array.dtype in (np.float32, np.float16)
            return replace(weight, scale=array.astype(np.float32)) if is_scale else None
        is_small = bool(np.all((array == np.rint(array)) & (np.abs(array) < 256)))
        if kind.dtype == "bfloat16":
            # Longer differences would be rounded.
            least, most = (int(f(self.array(weight.numbers), initial=0)) for f in (np.min, np.max))
            is_small = is_small and max(most - array.min(), array.max() - least) <= 256
        return replace(weight, zero=array) if weight.zero is None and is_small else None

    def values(self, atom: Atom) -> np.ndarray | None:
        """The values of a zero point or scale (bfloat16 as float32): a constant, or a cast or view
        of one, or places of it; None for anything else."""
        if isinstance(atom, Constant):
            return readable(self.array(atom), atom.type.dtype)
        value, kind = self.lookup_binding(atom), type_of(atom)
        if not isinstance(value, Call) or not isinstance(kind, TensorType):
            return None
        if value.op not in ("astype", "take") and not get_op(value.op).is_view:
            return None
        array, shape = self.values(value.args[0]), static_shape(kind.shape)
        if array is None or shape is None:
            return None
        if value.op == "take":
            places = self.values(value.args[1])
            if places is None:
                return None
            array = np.take(array, places, attr(value, "axis"), mode="clip")
        if kind.dtype == "bfloat16":
            return readable(bfloat16_bits(array.reshape(shape)), kind.dtype)
        return array.reshape(shape).astype(kind.dtype.to_numpy())

    def kept(self, weight: _Weight, across: bool) -> tuple[tuple[Constant, ...], int] | None:
        """The operands that stand for a weight, and the bits of a number; None where its scales
        have no groups."""
        numbers = weight.numbers
        turn = across != weight.turned
        if len(numbers.shape) == 3 and (turn or not weight.is_grouped):
            return None

        def rows(array: np.ndarray) -> np.ndarray:
            made = np.swapaxes(array, 0, 1) if turn else array
            return made.reshape(len(made), -1)

        factors = [
            None if f is None else rows(np.broadcast_to(f, numbers.shape))
            for f in (weight.zero, weight.scale)
        ]
        n, k = rows(self.array(numbers)).shape
        depth = numbers.shape[2] if len(numbers.shape) == 3 else k
        while depth and not all(f is None or _is_even(f, depth) for f in factors):
            depth = max([d for d in range(1, depth) if k % d == 0], default=0)
        bits, offset = _width(self.array(numbers))
        found = group_of(depth, bits, LONGEST) if depth else None
        if found is None and bits == 4:
            bits, offset = 8, 128 if numbers.type.dtype == "int8" else 0
            found = group_of(depth, bits, LONGEST) if depth else None
        if found is None or n == 0:
            return None
        group = found

        def as_words(array: np.ndarray) -> np.ndarray:
            shifted = (rows(array).astype(np.int16) + offset).astype(np.uint8)
            return words(shifted.reshape(n, k // group, group), bits)

        zero, scale = [None if f is None else f[:, ::group] for f in factors]
        add = self.builder.weights.add
        made = [
            self.derive("words", as_words, numbers, dtype=WORD),
            add(
                f"{numbers.name}.scales",
                np.ones((n, k // group), np.float32) if scale is None else np.array(scale),
            ),
        ]
        point = np.float64(offset) + (0 if zero is None else zero.astype(np.float64))
        if np.any(point != 1 << (bits - 1)):
            whole = np.all((point >= 0) & (point <= 255))
            kind = np.uint8 if whole else np.float32
            made.append(add(f"{numbers.name}.zeros", np.full((n, k // group), point, kind)))
        return tuple(made), bits


def _moved(weight: _Weight, call: Call) -> _Weight | None:
    """A weight behind a view or a transposition, where that is one of those that are known."""
    kind, shape = type_of(call), weight.numbers.shape
    if not isinstance(kind, TensorType):
        return None
    if call.op == "permute_dims":
        axes = attr(call, "axes")
        swapped = axes is None or tuple(axes) in ((1, 0), (-1, -2))
        is_matrix = kind.ndim == 2 and (len(shape) == 2 or weight.is_grouped)
        return replace(weight, turned=not weight.turned) if swapped and is_matrix else None
    if weight.turned or weight.is_grouped or len(shape) != 3 or kind.ndim != 2:
        return None
    rows = getattr(kind.shape[0], "value", None)
    return replace(weight, is_grouped=True) if rows == shape[0] else None


def _is_even(factor: np.ndarray, depth: int) -> bool:
    """Whether rows of numbers are the same along each group of ``depth``."""
    groups = factor.reshape(len(factor), -1, depth)
    return bool(np.array_equal(groups, np.broadcast_to(groups[..., :1], groups.shape)))


def _width(numbers: np.ndarray) -> tuple[int, int]:
    """The bits that hold some bytes, and what is added to them to make them unsigned."""
    low, high = (int(f(numbers, initial=0)) for f in (np.min, np.max))
    if numbers.dtype == np.uint8:
        return (4 if high < 16 else 8), 0
    return (4, 8) if low >= -8 and high < 8 else (8, 128)
