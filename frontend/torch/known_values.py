"""Values that are known while a module is exported, though torch.export hides them: those of its
buffers, and of what is made of nothing else.

    if self.is_initialised: ...                    a flag among the buffers
    if (times[1:] > times[:-1]).all(): ...         times = torch.linspace(0, 1, 5)
    F.pad(x, (self.kernel - self.stride, 0))       sizes, which torch reads by itself

torch.export traces with tensors that have no values, where Python asks for one it raises. Here the
real tensors go along with those without values, and answer as long as nothing writes them. A buffer
that the module writes behind an answer is no such value: the next call would have another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

_LARGEST = 1 << 16
"""Elements of a tensor that is computed twice."""
_ASKS = frozenset(
    {
        Tensor.__bool__, Tensor.__int__, Tensor.__float__, Tensor.__index__, Tensor.item,
        Tensor.tolist, torch.is_nonzero, torch.equal, torch.allclose,
    }
)  # fmt: skip
"""Functions whose results are numbers of Python."""
_MAKES = frozenset(
    {torch.arange, torch.linspace, torch.logspace, torch.full, torch.zeros, torch.ones, torch.eye}
)
_TAKES_SIZES = frozenset(
    {
        "pad", "view", "reshape", "expand", "repeat", "repeat_interleave", "narrow", "unfold",
        "split", "split_with_sizes", "chunk", "unflatten", "roll", "topk", "interpolate",
        "new_zeros", "new_ones", "new_empty", "new_full", "empty",
    }
)  # fmt: skip
"""Names of functions that take integers besides the tensor they are of, or tensors for them."""
_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
_WRITES = frozenset({Tensor.__setitem__, Tensor.set_, Tensor.data.__set__})  # type: ignore[attr-defined]


class KnownValues:
    """The real tensors of one export, beside those without values."""

    def __init__(self, module: nn.Module, *, tell_sizes: bool = True) -> None:
        self.read: set[str] = set()
        """Buffers, and tensors made of numbers, that an answer was made of."""
        self.sizes: set[str] = set()
        """Those that a size was made of, which ``read`` has not: a size may stay one of data."""
        self.written: set[str] = set()
        self._tells_sizes = tell_sizes
        self._module = module
        self._buffers = {n: b for n, b in module.named_buffers() if b.numel() <= _LARGEST}
        self._known: dict[int, tuple[Tensor, Tensor, frozenset[str]]] = {}
        """By the id of a tensor without values: itself, the real one, and what that is made of."""

    def tells(self, tensor: Tensor) -> bool:
        """Whether the values of a tensor are known, and will be at the next call."""
        entry = self._entry(tensor)
        return entry is not None and not entry[2] & self.written

    def call(self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What a function gives, by real values where it asks for one that is known."""
        takes_sizes = getattr(func, "__name__", "") in _TAKES_SIZES or func in _MAKES
        if takes_sizes and self._tells_sizes:
            args, kwargs = self._with_sizes(func, args, kwargs)
        given = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        entries = [self._entry(x) for x in given]
        known = [entry for entry in entries if entry is not None]
        sources = frozenset().union(*[entry[2] for entry in known])
        if known and _is_write(func, kwargs):
            self.written |= sources
            return func(*args, **kwargs)
        has_all = len(known) == len(given)
        if given and has_all and func in _ASKS and not sources & self.written:
            self.read |= sources
            return self._real(func, args, kwargs)
        found = func(*args, **kwargs)
        if has_all and isinstance(found, Tensor):
            if not given and func in _MAKES and _is_plain((args, kwargs)):
                sources = frozenset({f"made {len(self._known)}"})
            if sources:
                self._follow(found, func, args, kwargs, sources)
        return found

    def _with_sizes(
        self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """The arguments with a number for each known integer; what a method is of stays."""

        def sized(x: Any) -> Any:
            if type(x) in (tuple, list):
                return type(x)([sized(y) for y in x])
            if not isinstance(x, Tensor) or x.ndim or x.dtype not in _INTEGERS:
                return x
            entry = self._entry(x)
            if entry is None or entry[2] & self.written:
                return x
            self.sizes |= entry[2]
            return int(entry[1])

        is_of = 1 if args and isinstance(args[0], Tensor) and func not in _MAKES else 0
        rest = [sized(x) for x in args[is_of:]]
        return (*args[:is_of], *rest), {name: sized(x) for name, x in kwargs.items()}

    def _follow(
        self,
        found: Tensor,
        func: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        sources: frozenset[str],
    ) -> None:
        sizes = list(found.shape)
        # A symbol would become the number that it has in the example.
        if not _is_plain((sizes, args, kwargs)) or found.numel() > _LARGEST or _draws(func):
            return
        real = self._real(func, args, kwargs)
        if isinstance(real, Tensor) and real.shape == found.shape:
            self._known[id(found)] = (found, real, sources)

    def _entry(self, tensor: Tensor) -> tuple[Tensor, Tensor, frozenset[str]] | None:
        """What is known of a tensor: that of a buffer is found when it is first seen."""
        if id(tensor) not in self._known:
            for name, held in self._module.named_buffers():
                if held is tensor and name in self._buffers:
                    entry = (tensor, self._buffers[name], frozenset({name}))
                    self._known[id(tensor)] = entry
        return self._known.get(id(tensor))

    def _real(
        self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        def real(x: Any) -> Any:
            return self._known[id(x)][1] if isinstance(x, Tensor) else x

        args, kwargs = pytree.tree_map(real, (tuple(args), dict(kwargs)))
        with _disable_current_modes(), torch._C.DisableTorchFunction():
            return func(*args, **kwargs)


def _is_write(func: Callable[..., Any], kwargs: Mapping[str, Any]) -> bool:
    name = getattr(func, "__name__", "")
    in_place = name.endswith("_") and not name.endswith("__")
    by_operator = name.startswith("__i") and name not in ("__index__", "__int__", "__invert__")
    return func in _WRITES or in_place or by_operator or kwargs.get("out") is not None


def _is_plain(values: Any) -> bool:
    symbols = (torch.SymInt, torch.SymFloat, torch.SymBool)
    return not any(isinstance(x, symbols) for x in pytree.tree_leaves(values))


def _draws(func: Callable[..., Any]) -> bool:
    """Whether results are random, by the function's name."""
    name = getattr(func, "__name__", "")
    return any(word in name for word in ("rand", "normal", "bernoulli", "multinomial", "dropout"))
