"""Operators that a foreign framework runs: environment functions in the middle of the program.

    y = Foo(x)   ->   R.call_dps_packed("onnx.Foo.0", x, ...)

What both front ends share: the names of these functions, the calls of them, and a sentence on what
each operator costs. Nothing is registered here: the driver does that.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from ..graphir.builder import BlockBuilder
from ..graphir.dim import static_shape
from ..graphir.expr import Atom, CallDPSPacked, TupleGetItem, Var
from ..graphir.type import TensorType, TupleType

_numbers = itertools.count()
"""Names of environment functions are the process's, so are the numbers in them."""


class FallbackCalls:
    """The operators of one program that ``framework`` runs: ``functions`` by name, ``notes`` on
    them."""

    def __init__(self, framework: str, called: str) -> None:
        self.framework, self.called = framework, called
        self.functions: dict[str, Callable[..., None]] = {}
        self.seen: dict[str, list[tuple[str, int | None]]] = {}
        """Of each operator where its calls stand, and the bytes of results that each copies."""

    def emit_call(
        self,
        builder: BlockBuilder,
        operator: str,
        function: Callable[..., None],
        operands: Sequence[Atom],
        types: Sequence[TensorType],
    ) -> list[Var]:
        """Call ``function`` on the operands; it writes what it gives into tensors of ``types``,
        which come behind them."""
        name = f"{self.framework}.{operator}.{next(_numbers)}"
        self.functions[name] = function
        if len(types) == 1:
            return [builder.emit(CallDPSPacked(name, tuple(operands), types[0]))]
        whole = builder.emit(CallDPSPacked(name, tuple(operands), TupleType(tuple(types))))
        return [builder.emit(TupleGetItem(whole, i)) for i in range(len(types))]

    def note(self, operator: str, place: str, types: Sequence[TensorType]) -> None:
        """Remember where an operator stands, and the results that its calls copy."""
        self.seen.setdefault(operator, []).append((place, _bytes(types)))

    def snapshot(self) -> Any:
        """What ``restore`` brings back, where a part of the program is given up."""
        return dict(self.functions), {name: list(places) for name, places in self.seen.items()}

    def restore(self, snapshot: Any) -> None:
        self.functions, self.seen = snapshot

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence on each operator: where, how often, and what its calls cost."""
        return tuple([self._sentence(name, places) for name, places in self.seen.items()])

    def _sentence(self, name: str, places: Sequence[tuple[str, int | None]]) -> str:
        sizes = [size for _, size in places]
        known = [size for size in sizes if size is not None]
        copied = f"{sum(known)} bytes of" if len(known) == len(sizes) else "its"
        times = "once" if len(places) == 1 else f"{len(places)} times"
        return (
            f"{name} runs in {self.called}, {times} in a call of the model, first at "
            f"{places[0][0]}: each time it ends a native segment, and {copied} results are copied."
        )


def _bytes(types: Sequence[TensorType]) -> int | None:
    """What results take; None where that depends on symbolic dims."""
    shapes = [static_shape(kind.shape) for kind in types]
    known = [
        math.prod(s) * k.dtype.itemsize for s, k in zip(shapes, types, strict=True) if s is not None
    ]
    return sum(known) if len(known) == len(types) else None
