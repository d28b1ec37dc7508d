"""LiftWeightTransforms: weights are packed when the model is compiled, not when it runs.

A schedule may change the layout of a ``layout_free`` parameter, one that is a constant at every
call. It records what it did in the attribute ``layout_maps``: ``[parameter, index map, pad
value]``, in order. This pass applies the maps to the constants, so that each call passes what its
kernel now expects. Packing is a renaming of elements plus padding: it is done here by indexing,
nothing is run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ...support.abi import ALIGNMENT
from ...support.errors import InternalError, LayoutError
from ...support.node import replace
from ...support.passes import Pass
from ...tensorir.arith import IndexMap
from ...tensorir.expr import Add, Expr, FloorDiv, FloorMod, IntImm, Max, Min, Mul, Sub, Var
from ...tensorir.function import PrimFunc
from ...tensorir.schedule import parse_index_map, whole_digits
from ..dim import static_shape
from ..expr import Atom, CallDPS, CallDPSPacked, Constant, Value
from ..module import IRModule
from ..mutator import ExprMutator
from ..op import type_of
from ..type import TensorType

MAPS, PACKED = "layout_maps", "packed_layouts"
"""Attributes of a PrimFunc: the maps its callers have yet to apply, and those they have applied."""

LayoutMap: TypeAlias = "tuple[int, str, float | None]"


@dataclass(frozen=True)
class LiftWeightTransforms(Pass):
    """Apply the layout maps of scheduled PrimFuncs to the constants they are called with.

    A constant that several calls want in one layout is packed once. *requires*: an argument whose
    layout changed is a constant. *ensures*: no ``layout_maps`` is left; they are kept, as
    ``packed_layouts``, for whoever wants the original layout back.

        y = R.call_dps(cls.linear, (x, w), ...)   # w: (784, 128); (k, n) -> (n // 16, k, n % 16)
    becomes
        y = R.call_dps(cls.linear, (x, w1), ...)  # w1: (8, 784, 16)
    """

    def run(self, module: IRModule) -> IRModule:
        result = _Lifter(module).transform()
        for name, func in module.prim_funcs.items():
            maps = func.attr(MAPS)
            if maps:
                done = [*(func.attr(PACKED) or ()), *maps]
                result[name] = func.without_attr(MAPS).with_attr(PACKED, done)
        return result


class _Lifter(ExprMutator):
    def __init__(self, module: IRModule) -> None:
        super().__init__(module)
        self.packed: dict[tuple[int, tuple[LayoutMap, ...]], Constant] = {}
        # Constants are known by the identity of their data: keep them while this runs.
        self.held: list[Constant] = []

    def visit_CallDPS(self, call: CallDPS) -> Value:  # noqa: N802
        func = self.module.functions.get(call.func.name)
        maps = _maps(func)
        if not maps or not isinstance(func, PrimFunc):
            return call
        if any(not isinstance(type_of(a), TensorType) for a in call.args):
            raise _refuse(
                func, "it is called with a tuple, and its parameters cannot be told apart"
            )
        args = tuple(
            [
                self.pack(func, atom, index, tuple([m for m in maps if m[0] == index]))
                for index, atom in enumerate(call.args)
            ]
        )
        return replace(call, args=args)

    def visit_CallDPSPacked(self, call: CallDPSPacked) -> Value:  # noqa: N802
        func = self.module.functions.get(call.name)
        if _maps(func) and isinstance(func, PrimFunc):
            raise _refuse(func, "call_dps_packed calls it by name, which keeps its layouts fixed")
        return call

    def pack(self, func: PrimFunc, atom: Atom, index: int, maps: tuple[LayoutMap, ...]) -> Atom:
        if not maps:
            return atom
        if not isinstance(atom, Constant):
            raise _refuse(
                func, f"argument {index} of a call is no constant, but its layout changed"
            )
        key = (id(atom.data), maps)
        known = self.packed.get(key)
        if known is None:
            data = atom.data
            for _, text, pad_value in maps:
                data = pack_array(data, parse_index_map(text), pad_value, str(atom.type.dtype))
            data.flags.writeable = False
            shape = tuple([IntImm(n) for n in data.shape])
            known = Constant(data, TensorType(shape, atom.type.dtype)).with_span(atom.span)
            expected = static_shape(func.buffers[index].shape)
            if expected != data.shape:
                raise InternalError(
                    f"{func.name}: parameter {index} was packed to {data.shape}, not {expected}"
                )
            self.packed[key] = known
            self.held.append(atom)
        return known


def _maps(func: object) -> list[LayoutMap]:
    found = func.attr(MAPS) if isinstance(func, PrimFunc) else None
    return [(int(i), str(text), pad) for i, text, pad in found or ()]


def _refuse(func: PrimFunc, found: str) -> LayoutError:
    return LayoutError(
        "lift-weight-transforms", f"The weights of {func.name!r} cannot be packed: {found}."
    )


def pack_array(
    data: np.ndarray, index_map: IndexMap, pad_value: float | None, dtype: str
) -> np.ndarray:
    """The array whose element at ``index_map(i)`` is ``data[i]``; elements that no ``i`` reaches
    are ``pad_value``.

    64-byte aligned. ``dtype`` matters for bfloat16, whose bits ``data`` holds as uint16. The map is
    an injection of the array's shape, as ``transform_layout`` made sure.
    """
    shape: tuple[Expr, ...] = tuple([IntImm(n) for n in data.shape])
    sizes = static_shape(
        index_map.map_shape(shape if pad_value is None else whole_digits(index_map, shape))
    )
    if sizes is None:
        raise InternalError(f"the layout of a constant of shape {data.shape} is symbolic")
    packed = _aligned(sizes, data.dtype)
    if packed.size != data.size:
        packed[...] = _pad_element(0.0 if pad_value is None else pad_value, dtype, data.dtype)
    # Open grids: an output of one index stays a vector, and NumPy broadcasts when it assigns.
    grids = np.ogrid[tuple([slice(n) for n in data.shape])]
    values = dict(zip(index_map.inputs, grids, strict=True))
    where = tuple([_evaluate(o, values) for o in index_map.outputs])
    if where:
        packed[where] = data
    else:
        packed[...] = data
    return packed


def _aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    # Kernels rely on the alignment of constants; memory that has it need not be copied at load.
    raw = np.empty(math.prod(shape) * dtype.itemsize + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return np.ndarray(shape, dtype, raw, start)


def _pad_element(pad_value: float, dtype: str, held: np.dtype[Any]) -> Any:
    if dtype != "bfloat16":
        return held.type(pad_value)
    bits = int(np.float32(pad_value).view(np.uint32))
    return np.uint16((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)


def _evaluate(e: Expr, values: dict[Var, np.ndarray]) -> Any:
    match e:
        case IntImm(value):
            return value
        case Var():
            return values[e]
        case Add(a, b):
            return _evaluate(a, values) + _evaluate(b, values)
        case Sub(a, b):
            return _evaluate(a, values) - _evaluate(b, values)
        case Mul(a, b):
            return _evaluate(a, values) * _evaluate(b, values)
        case FloorDiv(a, b):
            return _evaluate(a, values) // _evaluate(b, values)
        case FloorMod(a, b):
            return _evaluate(a, values) % _evaluate(b, values)
        case Min(a, b):
            return np.minimum(_evaluate(a, values), _evaluate(b, values))
        case Max(a, b):
            return np.maximum(_evaluate(a, values), _evaluate(b, values))
        case _:
            raise InternalError(f"a layout map holds {type(e).__name__}")
