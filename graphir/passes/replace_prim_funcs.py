"""ReplacePrimFuncs: scheduled versions take the place of the PrimFuncs they were made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...support.errors import VerifyError
from ...support.node import replace
from ...support.passes import Pass
from ...support.structural import first_difference, structural_hash
from ...tensorir.buffer import Buffer
from ...tensorir.function import PrimFunc
from ..module import IRModule
from ..text.printer import format_type
from ..type import TensorType


@dataclass(frozen=True)
class ReplacePrimFuncs(Pass):
    """Swap PrimFuncs by structural hash.

    ``replacements`` maps ``structural_hash(func)`` of an unscheduled function to the version to
    use. The new version takes the name of the function that it replaces; its parameters must have
    the same shapes and dtypes, except that a ``layout_free`` one may have another shape.

    *requires*: nothing. *ensures*: no function with a hash of ``replacements`` is left.

        def relu(X: ..., Y: ...): ...      ->      def relu(X: ..., Y: ...): ...   # vectorised
    """

    replacements: Mapping[str, PrimFunc] = field(default_factory=dict)

    def run(self, module: IRModule) -> IRModule:
        for name, func in module.prim_funcs.items():
            new = self.replacements.get(structural_hash(func))
            if new is None:
                continue
            _check_signature(name, func, new)
            module[name] = replace(new, name=name).with_attr("global_symbol", name)
        return module


def _check_signature(name: str, old: PrimFunc, new: PrimFunc) -> None:
    law = "A replacement has the parameters of the function it replaces."
    if len(old.params) != len(new.params):
        raise VerifyError(
            law, f"{len(new.params)} parameters instead of {len(old.params)} for {name!r}"
        )
    free = old.attr("layout_free") or []
    for index, (a, b) in enumerate(zip(old.params, new.params, strict=True)):
        if index in free or not (isinstance(a, Buffer) and isinstance(b, Buffer)):
            continue
        first, second = TensorType(a.shape, a.dtype), TensorType(b.shape, b.dtype)
        if first_difference(first, second) is not None:
            raise VerifyError(
                law,
                f"parameter {index} of {name!r} is {format_type(second)}, not {format_type(first)}",
            )
