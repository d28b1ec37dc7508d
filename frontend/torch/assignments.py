"""What ``forward()`` sets: tensors of a module that are others afterwards, and all else.

    self.last = self.last + x          self.sums["all"] = x.sum()          self.calls += 1

torch.export traces what is assigned as if nobody ever read it again, of a tensor as of a number. So
a module is exported with an eye on what its ``forward()`` sets. Where that is a tensor in the place
of another of its type, it is exported once more, in a form that torch follows everywhere: the place
holds a copy meanwhile, and the tensor that it held is written in place at the end. What is set
otherwise a compiled model cannot do; whether its results depend on that, two calls in eager tell.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.jit import ScriptModule
from torch.utils import _pytree as pytree

from .known_types import replaced_forward

_OWN = frozenset({*vars(nn.Module()), "_flat_weights", "forward"})
"""Attributes that torch keeps its own books in. A recurrent layer lists its weights anew."""
_ABSENT = object()


@dataclass(frozen=True, eq=False)
class Place:
    """Where a value stands: ``holder[key]``, the attributes of a module or a list or dict."""

    name: str
    holder: Any
    key: Any
    value: Any
    owner: nn.Module | None = None
    """The module whose buffer it is."""

    def now(self) -> Any:
        """What stands there by now."""
        try:
            return self.holder[self.key]
        except (KeyError, IndexError):
            # A buffer that was set while its place is not among the buffers.
            return _ABSENT if self.owner is None else vars(self.owner).get(self.key, _ABSENT)


@dataclass
class Assignments:
    """What one run of ``forward()`` has set."""

    tensors: list[str] = field(default_factory=list)
    """Places of tensors that have another of the same type, and of buffers that have anything."""
    others: list[str] = field(default_factory=list)
    """All else that is not what it was."""


def places_of(module: nn.Module) -> list[Place]:
    """The values that a module and those in it hold, scripts not: attributes, buffers, and what is
    in their lists and dicts, by the names that Python has for them."""
    found: list[Place] = []
    for path, part in module.named_modules():
        if isinstance(part, ScriptModule):
            continue
        prefix = f"{path}." if path else ""
        for key, value in vars(part).items():
            if key not in _OWN:
                found.append(Place(f"{prefix}{key}", vars(part), key, value))
        for key, value in part._buffers.items():
            found.append(Place(f"{prefix}{key}", part._buffers, key, value, part))
    seen: set[int] = set()
    for place in found:  # which grows meanwhile
        value = place.value
        if not isinstance(value, (list, dict)) or id(value) in seen:
            continue
        seen.add(id(value))
        items = value.items() if isinstance(value, dict) else enumerate(value)
        found += [Place(f"{place.name}[{key!r}]", value, key, held) for key, held in items]
    return found


def names_of_tensors(module: nn.Module) -> dict[int, str]:
    """The names of the tensors that a module holds, by their ids: the first of several."""
    places = [p for p in places_of(module) if isinstance(p.value, Tensor)]
    return {id(p.value): p.name for p in reversed(places)}


@contextmanager
def followed(module: nn.Module) -> Iterator[Assignments]:
    """Tells what ``forward()`` has set when it is through."""
    forward, found = module.forward, Assignments()

    @functools.wraps(forward)
    def following(*args: Any, **kwargs: Any) -> Any:
        places = places_of(module)
        result = forward(*args, **kwargs)
        _compare(places, places_of(module), found)
        return result

    with replaced_forward(module, following):
        yield found


def _compare(before: Sequence[Place], after: Sequence[Place], found: Assignments) -> None:
    known = {p.name for p in before}
    tensors: list[str] = []
    others: list[str] = []
    for place in before:
        now = place.now()
        if not _is_same(now, place.value):
            is_kept = is_of_type(now, place.value)
            is_kept = is_kept or (place.owner is not None and isinstance(place.value, Tensor))
            (tensors if is_kept else others).append(place.name)
    new = [p.name for p in after if p.name not in known]
    found.tensors = tensors
    found.others = [*others, *[n for n in new if not _is_within(n, others)]]


def _is_within(name: str, others: Sequence[str]) -> bool:
    return any(name.startswith((f"{other}[", f"{other}.")) for other in others)


def _is_same(now: Any, before: Any) -> bool:
    """Whether a value is what it was, or one that means the same. What lists and dicts hold has
    places of its own."""
    if now is before:
        return True
    if type(now) is not type(before):
        return False
    if isinstance(now, (list, dict)):
        return True
    if isinstance(now, tuple):
        return len(now) == len(before) and all(map(_is_same, now, before))
    if isinstance(now, (bool, int, float, str, torch.Size, torch.dtype)):
        return bool(now == before)
    return False


def is_of_type(now: Any, before: Any) -> bool:
    """Whether a tensor may be written into another: they have one dtype and one shape, of which
    torch notes what it is asked about."""
    if not isinstance(now, Tensor) or not isinstance(before, Tensor):
        return False
    is_plain = now.layout is torch.strided and before.layout is torch.strided
    shapes = [list(map(str, x.shape)) for x in (now, before)]
    return is_plain and now.dtype == before.dtype and shapes[0] == shapes[1]


@contextmanager
def written_in_place(module: nn.Module, names: Sequence[str]) -> Iterator[list[str]]:
    """``forward()`` works on copies of the tensors by these names, and at its end the tensors
    are what the copies have become. Gives a list, which then has the names of those that are of
    another type by then, and stay what they are."""
    forward, wanted = module.forward, set(names)
    lost: list[str] = []

    @functools.wraps(forward)
    def writing(*args: Any, **kwargs: Any) -> Any:
        places = [p for p in places_of(module) if p.name in wanted and isinstance(p.value, Tensor)]
        buffers = {id(p.owner): dict(p.owner._buffers) for p in places if p.owner is not None}
        for place in places:
            if place.owner is None:
                place.holder[place.key] = place.value.clone()
            else:  # out of the sight of torch, which follows buffers of the outermost module alone
                del place.owner._buffers[place.key]
                vars(place.owner)[place.key] = place.value.clone()
        try:
            result = forward(*args, **kwargs)
            made = [(p, p.now()) for p in places]
            lost[:] = [p.name for p, now in made if not is_of_type(now, p.value)]
            made = [(p, now.clone()) for p, now in made if p.name not in lost]
        finally:
            for place in places:
                if place.owner is None:
                    place.holder[place.key] = place.value
                else:
                    vars(place.owner).pop(place.key, None)
                    place.owner._buffers.clear()
                    place.owner._buffers.update(buffers[id(place.owner)])
        for place, now in made:
            place.value.copy_(now)
        return result

    with replaced_forward(module, writing):
        yield lost


def differs_when_repeated(call: Callable[[], Any]) -> bool:
    """Whether a second call gives something else than the first; False where one fails."""
    found = []
    for _ in range(2):
        torch.manual_seed(0)
        try:
            found.append([_kept(x) for x in pytree.tree_leaves(call())])
        except Exception:  # whatever the model's own code raises
            return False
    return len(found[0]) != len(found[1]) or not all(map(_are_equal, *found))


def _kept(x: Any) -> Any:
    return x.detach().clone() if isinstance(x, Tensor) else x


def _are_equal(a: Any, b: Any) -> bool:
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return type(a) is type(b) and (not isinstance(a, (int, float, str)) or a == b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return torch.allclose(a, b, equal_nan=True) if a.is_floating_point() else torch.equal(a, b)


__all__ = [
    "Assignments", "differs_when_repeated", "followed", "is_of_type", "names_of_tensors",
    "places_of", "written_in_place",
]  # fmt: skip
