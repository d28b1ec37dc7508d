"""The stages of a compilation, kept without their weights.

A stage is kept so that it can be printed and tuned from. Its text is small and its constants are
large, and most of them stand in the finished program too, in the order that the kernels read. So
weights are stored once:

- A kept stage has a *stub*, an array of the shape and dtype without memory, where an array stood.
- An array lives as long as a later stage needs it. From stage 30 on the running module has stubs
  itself; packing takes one array after the other, and lets go of each behind its last use.
- What the program holds unpacked is the program's own copy: the caller's parameters may change.
- Asking for a stage puts arrays back: those of the program as they are; packed ones by undoing the
  packing, which is exact. What is left were inputs of folding (a convolution's weight before its
  batch norm): they are the source's, which belongs to the caller (a torch module's parameters are
  shared and never copied, a file is read again), and the passes are run once more.

Stages 20 and later therefore never change; stages 00 and 10 may need the source as it was.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from ..graphir.expr import (
    Binding,
    BindingBlock,
    Call,
    CallDPS,
    CallDPSPacked,
    CallFunction,
    Constant,
    Function,
    If,
    SeqExpr,
    Tuple,
)
from ..graphir.module import IRModule
from ..graphir.passes.lift_weight_transforms import (
    LayoutMap,
    layout_maps,
    pack_values,
    unpack_values,
)
from ..support.abi import ALIGNMENT
from ..support.aligned import aligned_copy, slack
from ..support.errors import BurnishError, InternalError
from ..support.node import Node, map_children, walk

SMALL = 4096
"""Bytes of a constant that is kept as it is."""
_SAMPLE = 256
"""Elements of a source's array that tell whether it has changed."""

Maps: TypeAlias = tuple[LayoutMap, ...]
_HOLDERS = (
    *(Function, SeqExpr, BindingBlock, Binding, Tuple),
    *(Call, CallDPS, CallDPSPacked, CallFunction, If),
)
"""Nodes below which there are constants."""


@dataclass(eq=False)
class _Weight:
    """One array of a stage, and how to have it back."""

    stub: np.ndarray
    alive: weakref.ref[np.ndarray] | None
    held: np.ndarray | None = None
    packed: np.ndarray | None = None
    maps: Maps = ()
    sample: bytes | None = None
    """Of an array that the source may change."""

    def get(self) -> np.ndarray | None:
        """The array; None where it was given up."""
        if self.held is not None:
            return self.held
        found = self.alive() if self.alive is not None else None
        if found is None and self.packed is not None:
            found = unpack_values(self.packed, self.maps, self.stub.shape)
        return found


class KeptStages(Mapping[str, IRModule]):
    """Modules by the names of stages, in order; each is put together when it is asked for.

    ``run_again(stage, module)`` runs the passes from the first stage's module to ``stage``.
    ``import_again`` gives the first stage's module once more; without it that module's arrays are
    the source's own and are shared.
    """

    def __init__(
        self,
        run_again: Callable[[str, IRModule], IRModule],
        import_again: Callable[[], IRModule] | None = None,
    ) -> None:
        self._run_again, self._import_again = run_again, import_again
        self._modules: dict[str, IRModule] = {}
        self._weights: dict[int, _Weight] = {}
        """By the stub."""
        self._arrays: dict[int, _Weight] = {}
        """By the array, while it lives."""
        self._wanted: dict[int, set[Maps]] = {}
        """The layouts in which the kernels read an array, by the stub: () is its own."""
        self._whole: weakref.WeakValueDictionary[str, IRModule] = weakref.WeakValueDictionary()

    # -- reading -----------------------------------------------------------------------------------
    def __getitem__(self, name: str) -> IRModule:
        """A stage with all its arrays.

        Raises BurnishError where it needs the source and that has changed.
        """
        module = self._modules[name]
        whole = self._whole.get(name)
        if whole is None:
            whole = self._whole[name] = self.filled(module) or self._made_again(name)
        return whole

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)

    def structure(self, name: str) -> IRModule:
        """A stage as it is kept: functions and types, and stubs for large arrays."""
        return self._modules[name]

    def script(self, module: IRModule) -> str:
        """The text of a module that may have stubs."""
        return (self.filled(module) or module).script()

    def filled(self, module: IRModule) -> IRModule | None:
        """A module with arrays in place of stubs; None where one was given up. Raises BurnishError
        for an array that the source has changed."""
        missing = False

        def fill(constant: Constant) -> Constant:
            nonlocal missing
            weight = self._weights.get(id(constant.data))
            if weight is None:
                return constant
            array = weight.get()
            if array is None:
                missing = True
                return constant
            if weight.sample is not None and weight.sample != _sample(array):
                raise _changed()
            self._know(array, weight)
            return Constant(array, constant.type).with_span(constant.span)

        result = _map_constants(module, fill)
        return None if missing else result

    def _made_again(self, name: str) -> IRModule:
        first = next(iter(self._modules))
        if name != first:
            return self._run_again(name, self[first])
        if self._import_again is None:
            raise InternalError(f"an array of stage {name} was given up")
        kept = [self._weights.get(id(c.data)) for c in _constants(self._modules[name])]
        module = self._import_again()
        found = _constants(module)
        if len(kept) != len(found):
            raise _changed()
        for weight, constant in zip(kept, found, strict=True):
            if weight is None or weight.sample is None:
                continue
            same = weight.stub.shape == constant.data.shape
            if not same or weight.sample != _sample(constant.data):
                raise _changed()
        return module

    # -- while the compiler runs -------------------------------------------------------------------
    def keep(self, name: str, module: IRModule) -> None:
        """Keep a stage. The arrays of the first are shared with the source, which may change them;
        those of others live as long as somebody else holds them."""
        first = not self._modules
        self._modules[name] = self._stripped(module)
        if first:
            for constant in _constants(module):
                weight = self._arrays.get(id(constant.data))
                if weight is not None:
                    weight.sample = _sample(constant.data)
                    weight.held = constant.data if self._import_again is None else None

    def keep_last(self, name: str, module: IRModule) -> None:
        """Keep the stage whose arrays are the program's, as it is."""
        self._modules[name] = module

    def without_weights(self, module: IRModule) -> IRModule:
        """The module with stubs. From here on its arrays are held here, until ``pack`` has taken
        them."""
        for constant in _constants(module):
            weight = self._weight(constant)
            if weight is not None:
                weight.held = constant.data
        return self._stripped(module)

    def expect(self, module: IRModule) -> None:
        """Note what ``pack`` will be asked for: the layouts of a scheduled module."""
        self._wanted.clear()
        called: set[int] = set()
        for func in module.graph_functions.values():
            for n in walk(func):
                if isinstance(n, CallDPS):
                    maps = layout_maps(module.functions.get(n.func.name))
                    for index, atom in enumerate(n.args):
                        if isinstance(atom, Constant):
                            called.add(id(atom))
                            own = tuple([m for m in maps if m[0] == index])
                            self._wanted.setdefault(id(atom.data), set()).add(own)
                elif isinstance(n, Constant) and id(n) not in called:
                    self._wanted.setdefault(id(n.data), set()).add(())

    def pack(self, constant: Constant, maps: Maps) -> np.ndarray:
        """The values of a constant in another layout, for LiftWeightTransforms. The array is given
        up with the last layout that it is wanted in, since it can be had from that one."""
        weight = self._weights.get(id(constant.data))
        if weight is None:
            return pack_values(constant.data, maps, str(constant.type.dtype))
        if weight.packed is None or _texts(weight.maps) != _texts(maps):
            array = weight.get()
            assert array is not None
            weight.packed = pack_values(array, maps, str(constant.type.dtype))
            weight.maps = maps
        wanted = self._wanted.get(id(constant.data), set())
        wanted.discard(maps)
        if not wanted:
            # From here on the packed array alone is known: what the caller does to his is his.
            weight.held, weight.sample, weight.alive = None, None, None
            for key in [key for key, w in self._arrays.items() if w is weight]:
                del self._arrays[key]
        return weight.packed

    def settled(self, module: IRModule) -> IRModule:
        """The packed module with the arrays that stayed as they were: the program's own, aligned,
        and no memory of the source's."""
        for constant in _constants(module):
            weight = self._weights.get(id(constant.data))
            if weight is not None:
                array = weight.get()
                assert array is not None
                weight.held = array if _is_own(array) else _read_only(aligned_copy(array))
                weight.packed, weight.sample = None, None
        result = self.filled(module)
        assert result is not None
        return result

    def again(self) -> KeptStages:
        """The same stages for another compilation from one of them, which will pack anew; what it
        packs alike is shared."""
        made = KeptStages(self._run_again, self._import_again)
        made._modules = dict(self._modules)
        made._weights = {key: replace(w, alive=None) for key, w in self._weights.items()}
        return made

    # -- details -----------------------------------------------------------------------------------
    def _stripped(self, module: IRModule) -> IRModule:
        def strip(constant: Constant) -> Constant:
            weight = self._weight(constant)
            if weight is None:
                return constant
            return Constant(weight.stub, constant.type).with_span(constant.span)

        return _map_constants(module, strip)

    def _weight(self, constant: Constant) -> _Weight | None:
        """The record of a constant's array, made where it is new; None for a small one."""
        array = constant.data
        if array.nbytes < SMALL or id(array) in self._weights:
            return None
        weight = self._arrays.get(id(array))
        if weight is None:
            stub = np.broadcast_to(np.zeros((), array.dtype), array.shape)
            weight = self._weights[id(stub)] = _Weight(stub, None)
            self._know(array, weight)
        return weight

    def _know(self, array: np.ndarray, weight: _Weight) -> None:
        """Find ``weight`` by ``array`` while that lives, and the other way round."""
        key = id(array)
        if self._arrays.get(key) is not weight:
            arrays = self._arrays
            weight.alive = weakref.ref(array, lambda _: arrays.pop(key, None))
            arrays[key] = weight


def give_back_memory() -> None:
    """Let the C library return the memory of arrays that are gone, which it may keep for later
    ones (glibc; others do so by themselves)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _map_constants(module: IRModule, fn: Callable[[Constant], Constant]) -> IRModule:
    """The module with ``fn`` applied to every constant of its graph functions."""

    def visit(n: Node) -> Node:
        if isinstance(n, Constant):
            return fn(n)
        return map_children(n, visit) if isinstance(n, _HOLDERS) else n

    result = module.copy()
    for name, func in module.graph_functions.items():
        result[name] = map_children(func, visit)
    return result


def _constants(module: IRModule) -> list[Constant]:
    found = [n for f in module.graph_functions.values() for n in walk(f) if isinstance(n, Constant)]
    return list({id(c): c for c in found}.values())


def _texts(maps: Maps) -> list[tuple[str, float | None]]:
    """What maps do, whatever parameter they are of."""
    return [(text, pad) for _, text, pad in maps]


def _sample(array: np.ndarray) -> bytes:
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


def _changed() -> BurnishError:
    return BurnishError(
        "This stage cannot be shown any more: its weights are those of the model that was "
        "compiled, and they have changed since. Compile it again, or set BURNISH_DUMP=DIR before, "
        "to have every stage as files."
    )
