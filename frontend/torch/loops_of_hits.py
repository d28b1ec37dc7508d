"""Loops over the places where a flag is set, as mixtures of experts are written.

    for expert in (chosen.sum((-1, -2)) > 0).nonzero():
        slot, token = torch.where(chosen[expert].squeeze(0))
        out.index_add_(0, token, self.experts[expert](x[token]) * weights[token, slot, None])

How often such a loop runs data tell, and torch.export cannot trace it. Where it is known how many
flags there are, and few, ``Turns`` gives each place its turn while the module is traced, with a
mark before and behind it. ``take_turns`` then lets a turn count only where its flag is set::

    mark(flag, begins); out.index_add_(...); mark(flag, ends)
    ->  before = out.clone(); out.index_add_(...); out.copy_(where(flag, out, before))

A local variable that has another tensor of its type behind a turn (``out = out + y``) has that or
the one of before, which ``_kept`` notes. Nothing else may be seen of a turn afterwards.
"""

from __future__ import annotations

import bisect
import dis
import inspect
import math
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import count
from types import FrameType, FunctionType, ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Graph, Node
from torch.utils import _pytree as pytree

from ...support.errors import FrontendError
from .checks_of_data import place_of
from .functionalize import gives_its_operand, is_write, memories
from .registry import location

aten = torch.ops.aten
_MARK = aten._assert_async.msg
_YIELDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_BEGINS, _ENDS = "burnish: a turn begins ", "burnish: a turn ends "
_KEEPS = "burnish: a turn keeps"
_PLACES = (Tensor.nonzero, torch.nonzero, Tensor.argwhere, torch.argwhere)
_PLAIN = (int, float, str, bytes)
_MOST_HELD = 20_000
MOST = 256
"""Places that are given a turn each."""


class Turns:
    """Keeps of which flags the places were asked for, while a module is traced."""

    def __init__(self) -> None:
        self._flags: dict[int, tuple[Tensor, int, Tensor]] = {}
        """By what was given for them: that, in which version, and the flags."""
        self._made: dict[int, tuple[Tensor, int, Any]] = {}
        """The same of places, with their numbers."""
        self._numbers = count()
        self.taken: dict[str, int] = {}
        """How many turns the loops take, by their places."""

    def call(self, func: Any, args: Sequence[Any]) -> Any:
        """What ``func`` gives of places: the rows that a loop runs through, and the numbers of
        one. None where it is none of these, or of other tensors."""
        if func is Tensor.unbind:
            numbers = self._numbers_of(args[0])
            if numbers is not None:
                return tuple(map(self._given, numbers))
            given = self._flags.get(id(args[0]))
            loop = None if given is None or given[1] != args[0]._version else _asking_loop()
            return None if given is None or loop is None else self._rows(given[2], loop)
        if func is Tensor.__getitem__ and isinstance(args[1], int) and args[0].ndim:
            numbers = self._numbers_of(args[0])
            return None if numbers is None else self._given(numbers[args[1]])
        return None

    def remember(self, func: Any, args: Sequence[Any], result: Any) -> None:
        """Keep what ``result`` has the places of, where it has some."""
        if func not in _PLACES or not isinstance(result, Tensor) or not args:
            return
        known = all(isinstance(size, int) for size in args[0].shape)
        if known and args[0].numel() <= MOST:  # of now, whatever is written there later
            self._flags[id(result)] = (result, result._version, args[0] != 0)

    def _numbers_of(self, place: Tensor) -> Any:
        made = self._made.get(id(place))
        return None if made is None or made[1] != place._version else made[2]

    def _is_place(self, x: Tensor) -> bool:
        return id(x) in self._made

    def _given(self, numbers: Any) -> Tensor:
        """A place, or a number of one."""
        made = torch.tensor(numbers, dtype=torch.int64)
        self._made[id(made)] = (made, made._version, numbers)
        return made

    def _rows(self, flags: Tensor, loop: _Loop) -> Iterator[Tensor]:
        turns = math.prod(flags.shape)
        set_ = flags.reshape(-1)
        names = list(sys._getframe(1).f_locals)
        self.taken[place_of(sys._getframe(1))] = turns
        for i in range(turns):
            place: list[int] = []
            rest = i
            for size in reversed(flags.shape):
                rest, at = divmod(rest, int(size))
                place.insert(0, at)
            flag, number = set_[i], next(self._numbers)
            before = _Locals(names, sys._getframe(1), self._is_place)
            _MARK(flag, f"{_BEGINS}{number}")
            yield self._given(place)
            for old, new in before.changed(sys._getframe(1)):
                kept = torch.where(flag, new, old)
                _MARK((kept != kept).any(), _KEEPS)
            _MARK(flag, f"{_ENDS}{number}")
        frame = sys._getframe(1)
        for name in loop.names_behind:
            value = frame.f_locals.get(name)
            if not isinstance(value, Tensor) or self._is_place(value):
                raise _changes(name, value, frame)


@dataclass(frozen=True)
class _Loop:
    """A ``for`` in the bytecode of a function."""

    names_behind: list[str]
    """The variables that it sets and that are read behind it."""

    @classmethod
    def of(cls, frame: FrameType) -> _Loop | None:
        """The loop that asks for what it runs through; None where ``enumerate``, a comprehension or
        another does, which counts turns."""
        code = list(dis.get_instructions(frame.f_code))
        at = bisect.bisect_right(code, frame.f_lasti, key=lambda ins: ins.offset) - 1
        behind = [i for i in code[at + 1 : at + 4] if i.opname not in ("CACHE", "EXTENDED_ARG")]
        is_for = code[at].opname == "GET_ITER" and behind and behind[0].opname == "FOR_ITER"
        if not is_for or frame.f_code.co_flags & _YIELDS:
            return None
        begin, end = behind[0].offset, behind[0].argval
        inside = [i for i in code if begin < i.offset < end]
        if any(i.opname in ("STORE_GLOBAL", "YIELD_VALUE") for i in inside):
            return None
        stored = [i.argval for i in inside if _is_of(i, "STORE_")]
        first: dict[str, str] = {}
        for ins in code:
            if ins.offset >= end and (_is_of(ins, "LOAD_") or _is_of(ins, "STORE_")):
                first.setdefault(str(ins.argval), ins.opname)
        found = [name for name in dict.fromkeys(stored) if first.get(name, "").startswith("LOAD_")]
        return cls(found)


def _is_of(ins: dis.Instruction, kind: str) -> bool:
    """Whether an instruction loads or stores a variable."""
    name = ins.opname.removeprefix(kind)
    return ins.opname.startswith(kind) and name.startswith(("FAST", "DEREF", "NAME", "GLOBAL"))


def _asking_loop() -> _Loop | None:
    """The ``for`` that asks what a mode of torch is asked for."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_name == "__torch_function__":
        frame = frame.f_back
    if frame.f_code is not Tensor.__iter__.__code__ or frame.f_back is None:
        return None
    return _Loop.of(frame.f_back)


class _Locals:
    """The local variables of a loop before a turn."""

    def __init__(
        self, names: Sequence[str], frame: FrameType, is_place: Callable[[Tensor], bool]
    ) -> None:
        self._is_place = is_place
        self._values = {name: frame.f_locals.get(name) for name in names}
        self._held = {name: _held(value) for name, value in self._values.items()}

    def changed(self, frame: FrameType) -> Iterator[tuple[Tensor, Tensor]]:
        """The tensors that variables had, and those of one type that they have now. Raises
        FrontendError for what is no tensor and another now: a turn that is none has changed it."""
        for name, old in self._values.items():
            new = frame.f_locals.get(name)
            if isinstance(old, Tensor) and isinstance(new, Tensor):
                if old is not new and not self._is_place(new):
                    if _type(old) != _type(new):
                        raise _changes(name, new, frame)
                    yield old, new
                continue
            if isinstance(old, Iterator):
                raise _changes(name, new, frame)
            is_equal = type(old) is type(new) and isinstance(new, _PLAIN) and old == new
            now, then = _held(new), self._held[name]
            is_held = len(now) == len(then) and all(
                a is b or (type(a) is type(b) and isinstance(a, _PLAIN) and a == b)
                for a, b in zip(now, then, strict=True)
            )
            if not (old is new or is_equal) or not is_held:
                raise _changes(name, new, frame)


def _held(value: Any) -> list[Any]:
    """What is in containers and objects that a value holds, other than tensors."""
    found: list[Any] = []
    seen: set[int] = set()
    waiting = [value]
    while waiting and len(found) < _MOST_HELD:
        held = waiting.pop()
        if id(held) in seen or isinstance(held, (Tensor, type, ModuleType, FunctionType)):
            continue
        seen.add(id(held))
        if isinstance(held, dict):
            parts = [*held, *held.values()]
        elif isinstance(held, (list, tuple, set, deque)):
            parts = [*held]
        else:
            parts = [*getattr(held, "__dict__", {}).values()]
        found += parts
        waiting += [x for x in parts if not isinstance(x, _PLAIN)]
    return found


def _changes(name: str, value: Any, frame: FrameType) -> FrontendError:
    kind = "a tensor" if isinstance(value, Tensor) else f"of {type(value)}"
    return FrontendError(
        f"{place_of(frame)}: a loop over the places that data tell changes {name!r}, {kind}, which "
        "cannot be compiled: how often it runs is not known. Compute it with tensors that are "
        "there before the loop."
    )


def _type(x: Tensor) -> tuple[Any, ...]:
    return x.dtype, list(map(str, x.shape))


def _is_asked_by_loop() -> bool:
    """Whether ``for`` asks what a mode of torch is asked for."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_name == "__torch_function__":
        frame = frame.f_back
    return frame.f_code is Tensor.__iter__.__code__


def take_turns(program: ExportedProgram) -> None:
    """Let what is between two marks count only where the flag of these is set. Raises FrontendError
    for a loop that is left early, and where what a turn computes is used afterwards."""
    graph = program.graph
    marks = [n for n in graph.nodes if n.target is _MARK]
    if not marks:
        return
    owners = _owners(graph)
    begun: list[Node] = []
    kept: list[Node] = []
    for node in marks:
        said = str(node.args[1])
        if said.startswith(_BEGINS):
            begun.append(node)
        elif said.startswith(_ENDS):
            # A turn that was left has no end; what encloses it ends with another number.
            if begun[-1].args[1] != _BEGINS + said.removeprefix(_ENDS):
                break
            kept += _take_turn(graph, begun.pop(), node, owners)
    if begun:
        raise FrontendError(
            f"{location(begun[-1])}: a loop over the places that data tell is left before its end "
            "(break, return), which cannot be compiled; let it run to its end, and mask what it "
            "is not to do."
        )
    if kept:
        _check_aliases(graph, kept)
    graph.lint()
    program.graph_module.recompile()


def _take_turn(graph: Graph, begin: Node, end: Node, owners: Mapping[int, Node]) -> list[Node]:
    """The variables that are kept behind a turn, each of which is the new one or the old."""
    inside: list[Node] = []
    node = begin.next
    while node is not end:
        inside.append(node)
        node = node.next
    inside, kept = _apart(inside)
    turn = set(inside)
    own = {m for n in inside for m in memories(n) if owners.get(m, n) in turn}
    flag = begin.args[0]
    _keep(inside, end, kept, own)
    _check_unseen(inside, {*inside, *kept, end}, own)
    written: dict[Node, None] = {}
    for node in inside:
        if node.target is _MARK:
            with graph.inserting_before(node):
                unset = _call(graph, begin, aten.logical_not.default, flag)
                holds = _call(graph, begin, aten.logical_or.default, node.args[0], unset)
            node.args = (holds, *node.args[1:])
        elif is_write(node) and not gives_its_operand(node):
            written |= {owners[m]: None for m in _places(node) if m not in own}
    for owner in written:
        with graph.inserting_before(begin):
            old = _call(graph, begin, aten.clone.default, owner)
        with graph.inserting_before(kept[0] if kept else end):
            new = _call(graph, begin, aten.where.self, flag, owner, old)
            _call(graph, begin, aten.copy_.default, owner, new)
    graph.erase_node(begin)
    graph.erase_node(end)
    return kept


def _apart(inside: Sequence[Node]) -> tuple[list[Node], list[Node]]:
    """The nodes of a turn, and behind them what is kept of variables, without the marks of it."""
    marks = [n for n in inside if n.target is _MARK and n.args[1] == _KEEPS]
    kept: list[Node] = []
    gone: set[Node] = set()
    for mark in marks:
        (found,) = mark.all_input_nodes
        (differs,) = found.all_input_nodes
        kept.append(differs.all_input_nodes[0])
        for node in (mark, found, differs):
            gone.add(node)
            node.graph.erase_node(node)
    return [n for n in inside if n not in gone and n not in kept], kept


def _keep(inside: Sequence[Node], end: Node, kept: Sequence[Node], own: set[int]) -> None:
    """Let what reads the variables behind a turn read what is kept of them."""
    held = {*inside, end, *kept}
    news = [node.args[1] for node in kept]
    for node, new in zip(kept, news, strict=True):
        assert isinstance(new, Node)
        if new not in inside or news.count(new) > 1 or not own.issuperset(memories(new)):
            raise FrontendError(
                f"{location(end)}: a loop over the places that data tell gives one tensor to "
                "several variables, which cannot be compiled; write into tensors that are there "
                "before the loop."
            )
        new.replace_all_uses_with(node, delete_user_cb=lambda user: user not in held)


def _check_aliases(graph: Graph, kept: Sequence[Node]) -> None:
    """Raise FrontendError where a variable that is kept is written, and what it may be otherwise,
    the tensor of before, is read afterwards or is not the program's own."""
    owners = _owners(graph)
    order = {node: i for i, node in enumerate(graph.nodes)}
    writes = [n for n in graph.nodes if is_write(n) and not gives_its_operand(n)]
    written = {owners[m] for n in writes for m in _places(n)}
    for node in [n for n in kept if n in written]:
        old = node.args[2]
        while old in kept:  # of an earlier turn
            old = old.args[2]  # type: ignore[union-attr]
        assert isinstance(old, Node)
        owner = owners[memories(old)[0]]
        same = [n for n in graph.nodes if any(owners[m] is owner for m in memories(n))]
        readers = {u for n in same for u in n.users if order[u] > order[node] and u not in kept}
        if owner.op == "placeholder" or readers:
            raise FrontendError(
                f"{location(node)}: a loop over the places that data tell gives a variable another "
                "tensor, which is written afterwards, and the one that it had before is used; "
                "write into a copy (x.clone())."
            )


def _check_unseen(inside: Sequence[Node], held: set[Node], own: set[int]) -> None:
    """Raise FrontendError where a result of a turn is used behind it, other than what it was given
    to write."""
    for node in inside:
        has_own = not _places(node) or bool(own.intersection(_places(node)))
        if has_own and any(user not in held for user in node.users):
            raise FrontendError(
                f"{location(node)}: a loop over the places that data tell computes what is used "
                "behind it, which cannot be compiled; write into a tensor that is there before "
                "the loop: out[...] = y, out += y, out.index_add_(0, rows, y)."
            )


def _owners(graph: Graph) -> dict[int, Node]:
    """By memory, the first node whose tensor lies there."""
    found: dict[int, Node] = {}
    same: dict[int, int] = {}
    for node in graph.nodes:
        mine = memories(node)
        if gives_its_operand(node):
            same |= dict(zip(mine, memories(node.all_input_nodes[0]), strict=True))
        for memory in mine:
            while memory in same and same[memory] != memory:
                memory = same[memory]
            found.setdefault(memory, node)
    return {**found, **{m: found[n] for m, n in same.items() if n in found}}


def _places(node: Node) -> list[int]:
    return memories(node.args[0]) if is_write(node) else memories(node)  # type: ignore[arg-type]


def _call(graph: Graph, like: Node, target: Any, *args: Any) -> Node:
    """A call with the place in the source of another node, and its type."""
    made = graph.call_function(target, args)
    made.meta = {k: v for k, v in like.meta.items() if k != "val"}
    fakes = pytree.tree_map_only(Node, lambda n: n.meta["val"], args)
    with torch._guards.detect_fake_mode(fakes) or nullcontext():
        made.meta["val"] = target(*fakes)
    return made


__all__ = ["MOST", "Turns", "take_turns"]
