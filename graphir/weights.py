"""Weights: the values of a module's constants, kept beside the module by name.

In the IR a Constant is a name and a type; nothing that prints, compares, hashes or keeps a module
touches an array. ``module.weights`` finds a ``Weight`` by the name. A Weight holds its array, or
knows its *origin*, from which it has the array again when somebody asks:

    Source(read)               what belongs to somebody else: a torch parameter, a tensor of a file
    Derived(compute, inputs)   what a pass computed of other weights: folded, scaled, transformed
    Packed(weight, layout)     what the program holds in another layout; unpacking is exact

So a weight walks through the corridor, ``fc.weight`` being a parameter of a torch module:

    import     "fc.weight": Source                     the module's memory, and no copy
    fold       "fc.weight.scaled": Derived             an array; given up behind its last use
    pack       "fc.weight.scaled.packed": an array     the program's own, the only one that stays
               "fc.weight.scaled": Packed              of the array above

Origins refer to weights, not to names, so that what nobody can ask for any more is gone. Copies of
a module have name tables of their own and share the weights. The values of a name never change: a
pass that computes others takes a new name.

A small constant, and one that nobody has put into a module yet, has its values in the IR
(``Constant.bits``); it has no name and no Weight.
"""

from __future__ import annotations

import hashlib
import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ..support.abi import ALIGNMENT
from ..support.aligned import aligned_copy, slack
from ..support.dtype import DType
from ..support.errors import BurnishError, InternalError
from ..tensorir.schedule import pack_array, packed_shape, parse_index_map, unpack_array
from .expr import Constant, array_type, constant
from .text.literal import is_literal
from .type import TensorType

Layout: TypeAlias = "tuple[tuple[str, float | None], ...]"
"""Index maps as texts, each with the value that it pads with, one applied after the other."""
Compute: TypeAlias = Callable[..., np.ndarray]

_SAMPLE = 256
"""Elements of an array that tell most arrays apart, and whether its owner has changed it."""


@dataclass(frozen=True)
class Source:
    """An array of somebody else's, who may change it; ``sample`` is what it was."""

    read: Callable[[], np.ndarray]
    sample: bytes


@dataclass(frozen=True)
class Derived:
    """What a pass computed: ``compute(*arrays of the inputs)``."""

    compute: Compute
    inputs: tuple[Weight, ...]


@dataclass(frozen=True)
class Packed:
    """What a packed weight holds in another layout."""

    weight: Weight
    layout: Layout


class Weight:
    """The values of one constant. Without an origin the array is held for as long as this is."""

    __slots__ = ("_alive", "_digest", "_held", "is_read", "origin", "shape", "type")

    def __init__(
        self,
        kind: TensorType,
        array: np.ndarray,
        origin: Source | Derived | Packed | None = None,
    ) -> None:
        self.type, self.shape, self.origin = kind, array.shape, origin
        self._held: np.ndarray | None = _read_only(array)
        self.is_read = False
        """Some kernel reads the array as it is: packing does not let go of it."""
        self._alive = weakref.ref(array)
        self._digest: str | None = None

    def array(self) -> np.ndarray:
        """The values, read-only. Raises BurnishError where they are a source's and have changed."""
        found = self._alive() if self._held is None else self._held
        if found is None or (self._held is None and isinstance(self.origin, Source)):
            found = _read_only(self._from_origin())
            self._alive = weakref.ref(found)
        return found

    def _from_origin(self) -> np.ndarray:
        match self.origin:
            case Source(read, known):
                array = read()
                if array.shape == self.shape and sample_of(array) == known:
                    return array
                raise BurnishError(
                    "These weights cannot be had any more: they are those of the model that was "
                    "compiled, and they have changed since. Compile it again."
                )
            case Derived(compute, inputs):
                return compute(*[w.array() for w in inputs])
            case Packed(weight, layout):
                return unpack_values(weight.array(), layout, self.shape)
        raise InternalError("the values of a weight were given up, and nobody has them")

    def give_up(self) -> None:
        """Let go of the array, if it can be had again."""
        if self.origin is not None:
            self._held = None

    def keep_own(self) -> None:
        """Hold the array from here on, aligned and with no memory of anybody else's."""
        array = self.array()
        self._held = array if _is_own(array) else _read_only(aligned_copy(array))
        self.origin = None

    def pack(self, layout: Layout) -> Weight:
        """The values in another layout, and what this weight is unpacked from from here on, unless
        it is read itself."""
        if isinstance(self.origin, Packed) and self.origin.layout == layout:
            return self.origin.weight
        dtype = self.type.dtype
        array = pack_values(self.array(), layout, str(dtype))
        made = Weight(array_type(array, dtype), array)
        if not self.is_read:
            self.origin, self._held = Packed(made, layout), None
        return made

    @property
    def content(self) -> tuple[str, tuple[int, ...], bytes]:
        """Equal for weights of equal values, and different for most others."""
        return str(self.type.dtype), self.shape, sample_of(self.array())

    @property
    def digest(self) -> str:
        """A hash of dtype, shape and bytes, computed once: equal for equal values alone."""
        if self._digest is None:
            text = f"{self.type.dtype}{self.shape}"
            digest = hashlib.sha256(text.encode())
            digest.update(np.ascontiguousarray(self.array()).reshape(-1).view(np.uint8).data)
            self._digest = digest.hexdigest()
        return self._digest


class Weights(Mapping[str, np.ndarray]):
    """A module's weights by name. As a mapping it gives arrays, each put together when asked for;
    ``weight(name)`` gives the Weight itself."""

    def __init__(self, known: Mapping[str, Weight] | None = None) -> None:
        self._weights = dict(known or {})

    def __getitem__(self, name: str) -> np.ndarray:
        return self._weights[name].array()

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)

    def __contains__(self, name: object) -> bool:
        return name in self._weights

    def weight(self, name: str) -> Weight:
        """Raises KeyError for an unknown name."""
        return self._weights[name]

    def weight_of(self, constant: Constant) -> Weight:
        """That of a constant's name; a new one for a constant that has its values itself."""
        if constant.bits is not None:
            return Weight(constant.type, constant.values())
        return self._weights[constant.name]

    def array(self, constant: Constant) -> np.ndarray:
        """The values of a constant, whether it has them itself or a name for them."""
        return self.weight_of(constant).array()

    def copy(self) -> Weights:
        """Another table of the same weights."""
        return Weights(self._weights)

    def update(self, other: Weights) -> None:
        """Take over the names of another table."""
        self._weights.update(other._weights)

    def retain(self, names: Sequence[str]) -> None:
        """Forget all other names, and give up their arrays where they can be had again."""
        kept = {name: self._weights.pop(name) for name in names if name in self._weights}
        for weight in self._weights.values():
            weight.give_up()
        self._weights = kept

    # -- new constants -----------------------------------------------------------------------------
    def add(
        self,
        hint: str,
        array: np.ndarray,
        dtype: DType | str | None = None,
        origin: Source | Derived | None = None,
    ) -> Constant:
        """A constant with these values: a literal where they are few, else called ``hint``, or
        ``hint_1`` ... where that is taken. The array is taken over, and must not change unless a
        Source is its origin."""
        kind = array_type(array, dtype)
        if is_literal(array, kind.dtype):
            return constant(array, kind.dtype)
        return self.put(hint, Weight(kind, array, origin))

    def put(self, hint: str, weight: Weight) -> Constant:
        """A constant for a weight, under a name like ``hint``."""
        name, number = hint, 0
        while name in self._weights:
            number += 1
            name = f"{hint}_{number}"
        self._weights[name] = weight
        return Constant(name, weight.type)

    def derive(
        self,
        word: str,
        compute: Compute,
        *inputs: Constant,
        dtype: DType | None = None,
        array: np.ndarray | None = None,
    ) -> Constant:
        """What ``compute`` makes of the arrays of some constants, of the dtype of the first where
        none is given; ``array``, where that is known. It is called after the first of them that
        has a name, and the word: ``fc.weight.scaled``."""
        weights = tuple([self.weight_of(c) for c in inputs])
        made = compute(*[w.array() for w in weights]) if array is None else array
        return self.add(
            derived_name([c.name for c in inputs], word),
            np.asarray(made, order="C"),
            inputs[0].type.dtype if dtype is None else dtype,
            Derived(compute, weights),
        )

    def pack(self, constant: Constant, layout: Layout) -> Constant:
        """The constant in another layout, from which it is unpacked when somebody asks for it."""
        made = self.weight_of(constant).pack(layout)
        return self.put(derived_name([constant.name], "packed"), made)

    def adopt(self, held: Constant) -> Constant:
        """A constant that has its values itself as one of this module: a literal stays, larger ones
        are named by their contents."""
        if held.bits is None or is_literal(held.values(), held.type.dtype):
            return held
        weight = self.weight_of(held)
        name = f"sha256:{weight.digest[:16]}"
        self._weights.setdefault(name, weight)
        return Constant(name, held.type).with_span(held.span)


def forked(tables: Sequence[Weights]) -> list[Weights]:
    """The same weights once more, for another program that will pack them anew: they share arrays,
    and what becomes of one is not seen by the other."""
    made: dict[int, Weight] = {}

    def fork(weight: Weight) -> Weight:
        if id(weight) not in made:
            known = made[id(weight)] = copy(weight)
            known.is_read = False
            match weight.origin:
                case Derived(compute, inputs):
                    known.origin = Derived(compute, tuple([fork(w) for w in inputs]))
                case Packed(packed, layout):
                    known.origin = Packed(fork(packed), layout)
        return made[id(weight)]

    return [Weights({name: fork(t.weight(name)) for name in t}) for t in tables]


def in_common(table: Weights, known: Weights) -> Weights:
    """The weights of a table whose name and values some program's have, forked off those."""
    same = {
        name: known.weight(name)
        for name in table
        if name in known
        and not isinstance(known.weight(name).origin, Source)
        and known.weight(name).digest == table.weight(name).digest
    }
    return forked([Weights(same)])[0]


def derived_name(names: Sequence[str], word: str) -> str:
    """What is made of weights is called after the first that has a name. A word is not repeated."""
    name = next((n for n in names if n), "")
    if not name:
        return word
    again = re.fullmatch(rf"(.*\.{word})(_\d+)?", name)
    return again[1] if again else f"{name}.{word}"


# -- arrays ----------------------------------------------------------------------------------------
def pack_values(array: np.ndarray, layout: Layout, dtype: str) -> np.ndarray:
    """An array as index maps, one after the other, lay it out; aligned, and read-only."""
    for text, pad_value in layout:
        array = pack_array(array, parse_index_map(text), pad_value, dtype)
    return _read_only(array)


def unpack_values(packed: np.ndarray, layout: Layout, shape: Sequence[int]) -> np.ndarray:
    """The array of ``shape`` that ``pack_values`` packed in this layout, bit by bit; read-only."""
    indices = [parse_index_map(text) for text, _ in layout]
    shapes = [tuple(shape)]
    for index, (_, pad_value) in zip(indices, layout, strict=True):
        shapes.append(packed_shape(shapes[-1], index, pad_value))
    for index, before in zip(reversed(indices), reversed(shapes[:-1]), strict=True):
        packed = unpack_array(packed, index, before)
    return _read_only(packed)


def sample_of(array: np.ndarray) -> bytes:
    """Some elements, evenly spread."""
    flat = array.reshape(-1)
    return flat[:: max(1, flat.size // _SAMPLE)].tobytes()


def _is_own(array: np.ndarray) -> bool:
    """Whether an array is aligned and of memory that NumPy holds for it alone: of nobody else's,
    and no part of a larger one."""
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    is_whole = owner.base is None and owner.nbytes <= array.nbytes + slack(array.nbytes)
    return is_whole and array.ctypes.data % ALIGNMENT == 0


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array
