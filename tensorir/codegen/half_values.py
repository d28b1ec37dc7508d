"""What is known of float32 values that become bfloat16, and saves instructions.

Few CPUs round to bfloat16 by one instruction. In integers it is four, for the nearest with ties to
even, and two more that keep NaN one: added to, its bits may become those of a zero. A value that
*fits* has nothing to round (the larger of two bfloat16), and one whose NaN is *plain* needs no care
of it, as such a NaN has no lower bits that could carry. The CPU's own is plain, and so are those
that were bfloat16.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...support.node import walk
from ..expr import (
    FLOAT32,
    AccessPtr,
    Add,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    Max,
    Min,
    Mul,
    Select,
    Sub,
    Var,
)
from ..stmt import Allocate, BufferStore, Stmt
from .llvm_types import bfloat16_bits

_BYTES = 8
"""Integers of so many bits and fewer fit into bfloat16."""
_SIGNS = ("abs", "neg", "copysign")
_WHOLE = ("floor", "ceil", "trunc", "round")
KEEP = (*_SIGNS, *_WHOLE)
"""Intrinsics whose results fit where their operands do."""
_CHOICES = ("if_then_else", "likely")
_ROUNDED = ("sqrt", "rsqrt", "fma")
_POLYNOMIALS = (
    "exp", "exp_negative", "exp2", "expm1", "sigmoid", "log", "log2", "log10", "log1p", "tanh",
    "erf", "gelu", "atan",
)  # fmt: skip
"""Functions that are arithmetic, besides choices and powers of two put together from bits."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The buffers of a function whose elements all fit, and those whose NaN are plain."""

    fits: frozenset[int] = frozenset()
    plain: frozenset[int] = frozenset()

    def renamed(self, names: Mapping[int, int]) -> Kept:
        """What is known, and of variables what is known of the buffers that they were read from."""
        fits, plain = [
            known | {var for var, buffer in names.items() if buffer in known}
            for known in (self.fits, self.plain)
        ]
        return Kept(fits, plain)

    def has_fitting(self, e: Expr) -> bool:
        """Whether a float32 is surely a bfloat16."""
        match e:
            case FloatImm(value):
                return value == _as_bfloat16(value)
            case Cast(_, value):
                source = value.dtype.scalar
                narrow = not source.is_float and source.bits <= _BYTES
                return source == "bfloat16" or narrow
            case BufferLoad(buffer):
                return id(buffer) in self.fits
            case Var():
                return id(e) in self.fits
            case Call(op) if op in _WHOLE:
                return self.has_fitting(e.args[0])
            case _:
                chosen = _chosen(e)
                return bool(chosen) and all(map(self.has_fitting, chosen))

    def has_plain_nan(self, e: Expr) -> bool:
        """Whether the NaN that a float32 may be has only zeros below the bits of a bfloat16."""
        match e:
            case FloatImm():
                return True
            case Cast(_, value):
                return not value.dtype.is_float or value.dtype.scalar == "bfloat16"
            case BufferLoad(buffer):
                return id(buffer) in self.plain
            case Var():
                return id(e) in self.plain
            case Add(a, b) | Sub(a, b) | Mul(a, b) | Div(a, b):
                return self.has_plain_nan(a) and self.has_plain_nan(b)
            case Call(op) if has_plain_nan(op):
                return all(map(self.has_plain_nan, e.args))
            case _:
                chosen = _chosen(e)
                return bool(chosen) and all(map(self.has_plain_nan, chosen))


def has_plain_nan(op: str) -> bool:
    """Whether an intrinsic of operands with plain NaN has no other."""
    return op in KEEP or op in _ROUNDED or op in _POLYNOMIALS


def _chosen(e: Expr) -> tuple[Expr, ...]:
    """Of what ``e`` is one, but for its sign; none where it is anything else."""
    match e:
        case Max(a, b) | Min(a, b) | Select(_, a, b):
            return a, b
        case Broadcast(value):
            return (value,)
        case Call(op):
            if op in _SIGNS:
                return e.args[:1]
            return e.args[-2:] if op == "if_then_else" else e.args[:1] if op in _CHOICES else ()
        case _:
            return ()


def _as_bfloat16(value: float) -> float:
    found: float = struct.unpack("f", struct.pack("I", bfloat16_bits(value) << 16))[0]
    return found


def kept_of(body: Stmt) -> Kept:
    """What is known of the float32 buffers that ``body`` allocates, by all that is stored there.
    Only what makes bfloat16 of float32 has a use for it."""
    nodes = list(walk(body))
    own = {id(n.buffer) for n in nodes if isinstance(n, Allocate) and n.buffer.dtype == FLOAT32} - {
        id(n.buffer) for n in nodes if isinstance(n, AccessPtr)
    }
    stores = [n for n in nodes if isinstance(n, BufferStore) and id(n.buffer) in own]
    fits = _settled(own, stores, lambda known: Kept(fits=known).has_fitting)
    return Kept(fits, _settled(own, stores, lambda known: Kept(plain=known).has_plain_nan))


def _settled(
    own: set[int],
    stores: Sequence[BufferStore],
    holds_of: Callable[[frozenset[int]], Callable[[Expr], bool]],
) -> frozenset[int]:
    """The most buffers of which something holds, where it holds of each value stored in one if it
    holds of them."""
    known = frozenset(own)
    while True:
        holds = holds_of(known)
        failed = {id(s.buffer) for s in stores if id(s.buffer) in known and not holds(s.value)}
        if not failed:
            return known
        known -= failed
