"""What ``forward()`` sets: tensors of a module that are others afterwards, and all else.

    self.last = self.last + x          self.sums["all"] = x.sum()          self.calls += 1

torch.export traces what is assigned as if nobody ever read it again, of a tensor as of a number. So
a module is exported with an eye on what its ``forward()`` sets. Where that is a tensor in the place
of another of its type, it is exported once more, in a form that torch follows everywhere: the place
holds a copy meanwhile, and the tensor that it held is written in place at the end. What is set
otherwise a compiled model cannot do; whether its results depend on that, calls in eager tell, and
the code that they ran.
"""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from .known_types import replaced_forward
from .reachable_state import ABSENT, UNKNOWN, Holder, holders_of, is_foreign, value_at
from .reads_of_state import codes_run, is_read

_CALLS = 3
"""In eager: the first fills caches, the second meets them, the third tells what calls still set."""
_MOST_ALONE = 8
"""Places of which each is tried by itself whether it is used; of more all are named."""


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
        found = value_at(self.holder, self.key)
        if found is ABSENT and self.owner is not None:
            # A buffer that was set while its place is not among the buffers.
            return vars(self.owner).get(self.key, ABSENT)
        return found


@dataclass
class Assignments:
    """What one run of ``forward()`` has set."""

    tensors: list[str] = field(default_factory=list)
    """Places of tensors that have another of the same type, and of buffers that have anything."""
    others: list[str] = field(default_factory=list)
    """All else that is not what it was."""
    unknown: list[str] = field(default_factory=list)
    """What may not be what it was, without showing it."""


def places_of(module: nn.Module) -> list[Place]:
    """The values that a module and those in it hold, scripts not, and what their code reaches
    beyond: attributes, buffers, what is in containers and plain objects, globals, by the names that
    Python has for them."""
    return _places_in(holders_of(module))


def _places_in(holders: Sequence[Holder]) -> list[Place]:
    return [
        Place(holder.name_of(key), holder.where, key, value, holder.owner)
        for holder in holders
        for key, value in holder.values.items()
    ]


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
    unknown = [p.name for p in before if p.value is UNKNOWN]
    for place in before:
        now = place.now()
        if now is not UNKNOWN and not _is_same(now, place.value):
            is_kept = is_of_type(now, place.value)
            is_kept = is_kept or (place.owner is not None and isinstance(place.value, Tensor))
            (tensors if is_kept else others).append(place.name)
    new = [p.name for p in after if p.name not in known]
    found.tensors, found.unknown = tensors, unknown
    found.others = [*others, *[n for n in new if not _is_within(n, others)]]


def _is_within(name: str, others: Sequence[str]) -> bool:
    return any(name.startswith((f"{other}[", f"{other}.")) for other in others)


def _is_same(now: Any, before: Any) -> bool:
    """Whether a value is what it was, or one that means the same. What is set within a list or dict
    that stays has places of its own."""
    if now is before:
        return True
    if type(now) is not type(before):
        return False
    if isinstance(now, frozenset):
        return now == before
    if isinstance(now, (list, tuple)):
        return len(now) == len(before) and all(map(_is_same, now, before))
    if isinstance(now, dict):
        return now.keys() == before.keys() and all(_is_same(x, before[k]) for k, x in now.items())
    if isinstance(now, (bool, int, float, str, bytes, torch.Size, torch.dtype)):
        return bool(now == before or (now != now and before != before))
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


@contextmanager
def empty_buffers_aside(module: nn.Module) -> Iterator[None]:
    """Where a module's code sets buffers, those that are None are attributes meanwhile, and
    ``register_buffer`` sets attributes: torch.export counts the buffers before ``forward()`` and
    after, and takes one that came between for the one behind it."""
    parts = [part for part in module.modules() if type(part._buffers) is dict]
    parts = [part for part in parts if _sets_buffers(part)]
    held = [(part, dict(part._buffers)) for part in parts if None in part._buffers.values()]
    own, traced = nn.Module.register_buffer, set(map(id, parts))

    @functools.wraps(own)
    def register(
        part: nn.Module, name: str, tensor: Tensor | None, persistent: bool = True
    ) -> None:
        if id(part) not in traced:
            own(part, name, tensor, persistent)
        elif name in part._buffers:
            part._buffers[name] = tensor
        elif name in vars(part) or not hasattr(part, name):
            vars(part)[name] = tensor
        else:
            own(part, name, tensor, persistent)  # which raises

    for part, buffers in held:
        for name in [name for name, buffer in buffers.items() if buffer is None]:
            vars(part)[name] = part._buffers.pop(name)
    nn.Module.register_buffer = register  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        nn.Module.register_buffer = own  # type: ignore[method-assign]
        for part, buffers in held:
            for name in buffers.keys() - part._buffers.keys():
                vars(part).pop(name, None)
            part._buffers.clear()
            part._buffers.update(buffers)


def _sets_buffers(part: nn.Module) -> bool:
    """Whether methods of a module register buffers, or set attributes that are empty ones."""
    empty = {name for name, buffer in part._buffers.items() if buffer is None}
    methods = [
        method.__code__
        for kind in type(part).__mro__
        if not is_foreign(kind.__module__)
        for name, method in vars(kind).items()
        if isinstance(method, FunctionType) and name != "__init__"
    ]
    if any("register_buffer" in code.co_names for code in methods):
        return True
    stored = [code for code in methods if not empty.isdisjoint(code.co_names)]
    return any(
        ins.opname == "STORE_ATTR" and ins.argval in empty
        for code in stored
        for ins in dis.get_instructions(code)
    )


def lost_when_repeated(
    module: nn.Module, call: Callable[[], Any], kept: Sequence[Tensor] = ()
) -> tuple[list[str], bool]:
    """What a module loses whose state is that of its first call ever after: the names of what calls
    set, and whether results differ for that. Tensors ``kept``, which a compiled model writes, are
    what they were before each call.

    What the first call alone sets is a cache, and no loss where the second gives the same: further
    calls meet what the second met. What every call sets is lost if code that ran reads it for
    anything but itself. Nothing is lost where a call fails.
    """
    own = {id(x) for x in kept}
    values = [(x, x.detach().clone()) for x in kept]
    results: list[Any] = []
    ran: set[CodeType] = set()
    changed: list[str] = []
    before = places_of(module)
    for i in range(_CALLS):
        torch.manual_seed(0)
        try:
            with codes_run(ran) if i == 1 else nullcontext():
                results.append([_kept(x) for x in pytree.tree_leaves(call())])
        except Exception:  # whatever the model's own code raises
            return [], False
        found = Assignments()
        for place in before:
            if id(place.value) in own:
                place.holder[place.key] = place.value
        with torch.no_grad():
            for x, value in values:
                x.copy_(value)
        after = places_of(module)
        _compare(before, after, found)
        before = after
        latest = [*found.tensors, *found.others]
        changed = list(dict.fromkeys([*changed, *latest, *found.unknown]))
        first, last = results[0], results[-1]
        if len(first) != len(last) or not all(map(_are_equal, first, last)):
            return changed, True
        if not latest and not (found.unknown and i == 0):
            return [], False

    def is_used(names: Sequence[str]) -> bool:
        return _is_used(module, call, names, results[-1])

    if not is_used(latest):
        return [], False
    read = [name for name in latest if is_read(name, ran)]
    return [name for name in read if len(read) > _MOST_ALONE or is_used([name])], False


class _Unusable:
    """What a place holds whose value may not be read before it is set: there is nothing that could
    be done with it."""

    __slots__ = ()

    def _fail(self, *_: Any) -> Any:
        raise TypeError("a value of the call before")

    __bool__ = __len__ = __iter__ = __call__ = __index__ = __float__ = __eq__ = __hash__ = _fail
    __lt__ = __le__ = __gt__ = __ge__ = __getitem__ = __setitem__ = __contains__ = _fail
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __iadd__ = _fail


def _is_used(
    module: nn.Module, call: Callable[[], Any], names: Sequence[str], expected: Sequence[Any]
) -> bool:
    """Whether a call needs what the one before has left in places by these names."""
    held = holders_of(module)
    places = {p.name: p for p in _places_in(held)}
    try:
        for name in names:
            if name not in places or isinstance(places[name].value, (frozenset, bytes)):
                return True
            places[name].holder[places[name].key] = _Unusable()
        torch.manual_seed(0)
        found = [_kept(x) for x in pytree.tree_leaves(call())]
        return len(found) != len(expected) or not all(map(_are_equal, expected, found))
    except Exception:  # whatever the model's own code raises
        return True
    finally:
        for holder in held:
            holder.restore()


def _kept(x: Any) -> Any:
    return x.detach().clone() if isinstance(x, Tensor) else x


def _are_equal(a: Any, b: Any) -> bool:
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return type(a) is type(b) and (not isinstance(a, (int, float, str)) or a == b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.is_complex():
        a, b = torch.view_as_real(a.resolve_conj()), torch.view_as_real(b.resolve_conj())
    return torch.allclose(a, b, equal_nan=True) if a.is_floating_point() else torch.equal(a, b)


__all__ = [
    "Assignments", "empty_buffers_aside", "followed", "is_of_type", "lost_when_repeated",
    "names_of_tensors", "places_of", "written_in_place",
]  # fmt: skip
