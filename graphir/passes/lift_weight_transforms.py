"""LiftWeightTransforms: weights are packed when the model is compiled, not when it runs.

A schedule may change the layout of a ``layout_free`` parameter, one that is a constant at every
call. It records what it did in the attribute ``layout_maps``: ``[parameter, index map, pad
value]``, in order. This pass applies the maps to the constants, so that each call passes what its
kernel now expects. Packing is a renaming of elements plus padding: it is done here by indexing,
nothing is run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ...support.errors import InternalError, LayoutError
from ...support.node import replace
from ...support.passes import Pass
from ...tensorir.function import PrimFunc
from ..dim import static_shape
from ..expr import Atom, CallDPS, CallDPSPacked, Constant, Identity, Value
from ..module import IRModule
from ..mutator import ExprMutator
from ..op import type_of
from ..type import TensorType
from ..weights import Layout

MAPS, PACKED = "layout_maps", "packed_layouts"
"""Attributes of a PrimFunc: the maps its callers have yet to apply, and those they have applied."""

LayoutMap: TypeAlias = "tuple[int, str, float | None]"


@dataclass(frozen=True)
class LiftWeightTransforms(Pass):
    """Apply the layout maps of scheduled PrimFuncs to the constants they are called with.

    A constant that several calls want in one layout is packed once; the constant itself is unpacked
    again when somebody asks for it. *requires*: an argument whose layout changed is a constant.
    *ensures*: no ``layout_maps`` is left; they are kept, as ``packed_layouts``, for whoever wants
    the original layout back.

        y = R.call_dps(cls.linear, (x, w), ...)   # w: (784, 128); (k, n) -> (n // 16, k, n % 16)
    becomes
        y = R.call_dps(cls.linear, (x, w1), ...)  # w1: (8, 784, 16)
    """

    def run(self, module: IRModule) -> IRModule:
        result = _Lifter(module).transform()
        for name, func in module.prim_funcs.items():
            if func.attr(MAPS):
                result[name] = as_packed(func)
        return result


def as_packed(func: PrimFunc) -> PrimFunc:
    """A scheduled function as this pass leaves it: its callers have applied its layout maps."""
    maps = func.attr(MAPS)
    if not maps:
        return func
    done = [*(func.attr(PACKED) or ()), *maps]
    return func.without_attr(MAPS).with_attr(PACKED, done)


class _Lifter(ExprMutator):
    def __init__(self, module: IRModule) -> None:
        super().__init__(module)
        self.packed: dict[tuple[Identity, Layout], Constant] = {}

    def visit_CallDPS(self, call: CallDPS) -> Value:  # noqa: N802
        func = self.module.functions.get(call.func.name)
        maps = layout_maps(func)
        if not maps or not isinstance(func, PrimFunc):
            return super().visit_CallDPS(call)
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

    def visit_Constant(self, constant: Constant) -> Atom:  # noqa: N802
        """One that is read as it is: it need not be unpacked where another call packs it."""
        if constant.bits is None:
            self.builder.weights.weight(constant.name).is_read = True
        return constant

    def visit_CallDPSPacked(self, call: CallDPSPacked) -> Value:  # noqa: N802
        func = self.module.functions.get(call.name)
        if layout_maps(func) and isinstance(func, PrimFunc):
            raise _refuse(func, "call_dps_packed calls it by name, which keeps its layouts fixed")
        return call

    def pack(self, func: PrimFunc, atom: Atom, index: int, maps: tuple[LayoutMap, ...]) -> Atom:
        if not maps:
            return self.visit_atom(atom)
        if not isinstance(atom, Constant):
            raise _refuse(
                func, f"argument {index} of a call is no constant, but its layout changed"
            )
        layout = tuple([(text, pad) for _, text, pad in maps])
        key = (atom.identity, layout)
        known = self.packed.get(key)
        if known is None:
            known = self.packed[key] = self.builder.weights.pack(atom, layout).with_span(atom.span)
            if (expected := static_shape(func.buffers[index].shape)) != known.shape:
                raise InternalError(
                    f"{func.name}: parameter {index} was packed to {known.shape}, not {expected}"
                )
        return known


def layout_maps(func: object) -> list[LayoutMap]:
    """The maps that a function's callers have yet to apply; none for what is no PrimFunc."""
    found = func.attr(MAPS) if isinstance(func, PrimFunc) else None
    return [(int(i), str(text), pad) for i, text, pad in found or ()]


def _refuse(func: PrimFunc, found: str) -> LayoutError:
    return LayoutError(
        "lift-weight-transforms", f"The weights of {func.name!r} cannot be packed: {found}."
    )
