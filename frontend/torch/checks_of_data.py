"""Branches on values of tensors that only raise or only tell something.

    assert not torch.isnan(x).any()
    if (ids < 0).any() or ids.max() >= n: raise IndexError(...)
    if x.max() > 1: warnings.warn(f"large values: {x.max()}")

torch.export does not know which way such a branch goes. But one of the ways ends in ``raise``: the
program is traced along the other one, and checks when it runs that this was the right one. Which
way raises, the bytecode behind the question tells. Of a chain of ``and`` and ``or`` each part is
answered as if the rest decided, where nothing but conditions stands between them; where that
raises, the parts together are what must not be so. A way that only tells something is left out.
"""

from __future__ import annotations

import bisect
import builtins
import dis
import functools
import inspect
import logging
import sys
import warnings
from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType

import torch
from torch import Tensor

_TORCH = f"{Path(torch.__file__).parent}/"
_HERE = f"{Path(__file__).parent}/"
_EXPORT = f"{_HERE}export.py"
_PASSED = frozenset({"NOP", "CACHE", "EXTENDED_ARG", "TO_BOOL", "RESUME", "NOT_TAKEN"})
_LEAVES = ("RETURN_", "FOR_ITER", "RERAISE")
"""What ends a way of which it is asked whether it raises."""
_COMPUTES = (
    "LOAD_", "CALL", "PRECALL", "KW_NAMES", "FORMAT_", "CONVERT_", "BUILD_", "BINARY_",
    "COMPARE_", "CONTAINS_OP", "IS_OP", "UNARY_", "POP_TOP", *_PASSED,
)  # fmt: skip
_NAMES = ("LOAD_GLOBAL", "LOAD_NAME")
_ATTRIBUTES = ("LOAD_METHOD", "LOAD_ATTR")
_HARMLESS = frozenset(
    {"len", "str", "repr", "float", "int", "bool", "type", "format", "join", "item", "tolist",
     "size", "numel", "dim", "min", "max", "mean", "sum", "any", "all", "isnan", "isinf",
     "isfinite", "isneginf", "isposinf", "is_complex", "is_floating_point", "eq", "ne", "lt", "le",
     "gt", "ge", "logical_not", "logical_and", "logical_or", "detach", "cpu", "float64"}
)  # fmt: skip
"""What may be called in a condition, and in the arguments of what tells something."""
_TELLING = frozenset(
    {"warn", "debug", "info", "warning", "warning_once", "error", "exception", "critical", "log"}
)
_FRAMES = frozenset({"no_grad", "inference_mode", "enable_grad", "set_grad_enabled", "autocast"})
"""Context managers that catch nothing."""
_MOST = 200
"""Instructions of a way that are looked at."""


class ChecksOfData:
    """Answers questions for values of tensors without values, where a wrong answer raises."""

    def __init__(self) -> None:
        self._open: _Open | None = None
        self.unsaid: list[str] = []
        """Where something would have been told."""

    def answer(self, value: Tensor | torch.SymBool) -> bool | None:
        """The truth of a value that does not raise where it is asked, which the program checks;
        None where neither or both do."""
        chain, self._open = self._open, None
        frame = _asking_frame()
        if frame is None or _may_be_caught(frame.f_back) or _is_called_by_syntax(frame.f_code):
            return None
        code = _code_of(frame.f_code)
        branch = code.branch_at(frame.f_lasti)
        if branch is None:
            return None
        parts = chain.parts if chain is not None and chain.goes_on(frame, branch) else []
        wrong = code.truth_that_raises(branch)
        if wrong is not None:
            _check([*parts, _is(value, wrong)], frame)
            return not wrong
        for condition in (True, False):
            leave = code.end_of(branch.way(not condition))
            more = code.next_branch(branch.way(condition))
            rest = None if more is None else code.chain_of(more, leave)
            if rest is not None:
                truth = branch.truth_for(condition)
                self._open = _Open(frame, rest, [*parts, _is(value, truth)])
                return truth
            if code.only_tells(branch.way(condition), leave, frame):
                self.unsaid.append(place_of(frame))
                return not branch.truth_for(condition)
        return None


@dataclass
class _Open:
    """A chain of conditions of which some have been answered."""

    frame: FrameType
    rest: set[int]
    """The places of its other branches, of which some may ask for what is known."""
    parts: list[Tensor]

    def goes_on(self, frame: FrameType, branch: _Branch) -> bool:
        return frame is self.frame and branch.at in self.rest


@dataclass(frozen=True)
class _Branch:
    """Where it is, where it goes on, and whether it asks for the contrary of a truth."""

    at: int
    if_true: int
    if_false: int
    negated: bool

    def way(self, condition: bool) -> int:
        return self.if_true if condition else self.if_false

    def truth_for(self, condition: bool) -> bool:
        """The truth of what is asked with which the condition is this."""
        return condition != self.negated


class _Code:
    """The instructions of a function by their places."""

    def __init__(self, code: CodeType) -> None:
        self._all = list(dis.get_instructions(code))
        self._index = {ins.offset: i for i, ins in enumerate(self._all)}
        entries = vars(dis.Bytecode(code)).get("exception_entries", ())
        begin: dict[int, int] = {}
        for entry in entries:
            begin[entry.target] = min(entry.start, begin.get(entry.target, entry.start))
        self._caught = [
            (entry.start, entry.end)
            for entry in entries
            if not self._passes_on(entry.target, begin[entry.target])
        ]

    def _passes_on(self, handler: int, begin: int) -> bool:
        """Whether the handler of what begins there is one of a context manager that catches
        nothing."""
        first = self._all[self._index[handler] :][:3]
        enter = self._index[begin] - 1
        is_with = any(ins.opname == "WITH_EXCEPT_START" for ins in first)
        if not is_with or self._all[enter].opname != "BEFORE_WITH":
            return False
        called = self._called(enter - 1)
        return called is not None and called.argval in _FRAMES

    def branch_at(self, at: int) -> _Branch | None:
        """The branch for a truth which is taken at a place. A function of Python that is called
        here is behind its caller's call, among what the interpreter keeps there."""
        negated = False
        i = bisect.bisect_right(self._all, at, key=lambda ins: ins.offset) - 1
        i += self._is_call_of_bool(i)
        while i < len(self._all):
            ins = self._all[i]
            if ins.opname == "UNARY_NOT":
                negated = not negated
            elif "JUMP" in ins.opname and "_IF_" in ins.opname and "NONE" not in ins.opname:
                behind = self._all[i + 1].offset
                jumps_if = "IF_TRUE" in ins.opname
                true, false = (ins.argval, behind) if jumps_if else (behind, ins.argval)
                return _Branch(ins.offset, true, false, negated)
            elif ins.opname not in _PASSED:
                return None
            i += 1
        return None

    def _is_call_of_bool(self, i: int) -> bool:
        """Whether ``bool(...)`` is called here, whose result is the truth itself."""
        called = self._called(i)
        if called is None or called.opname not in _NAMES:
            return False
        return bool(called.argval == "bool" and self._all[i].arg == 1)

    def _called(self, i: int) -> dis.Instruction | None:
        """What loads the function or method that is called here; None where that is no name, or
        there is no call."""
        call = self._all[i]
        if call.opname not in ("CALL", "CALL_KW"):
            return None
        missing = (call.arg or 0) + (call.opname == "CALL_KW")
        for ins in reversed(self._all[max(i - _MOST, 0) : i]):
            if not missing and ins.opname not in ("PRECALL", "KW_NAMES", "PUSH_NULL"):
                return ins if ins.opname in (*_NAMES, *_ATTRIBUTES) else None
            if "JUMP" in ins.opname:
                return None
            missing -= 0 if ins.opname == "PRECALL" else dis.stack_effect(ins.opcode, ins.arg)
        return None

    def end_of(self, at: int) -> int:
        """The place that a way comes to by jumps alone."""
        for _ in range(_MOST):
            ins = self._all[self._index[at]]
            if ins.opname in ("JUMP_FORWARD", "JUMP_ABSOLUTE"):
                at = ins.argval
            elif ins.opname in _PASSED:
                at = self._all[self._index[at] + 1].offset
            else:
                break
        return at

    def raises(self, at: int) -> bool:
        """Whether a way ends in ``raise``, whatever else it does."""
        for _ in range(_MOST):
            ins = self._all[self._index[at]]
            if ins.opname == "RAISE_VARARGS":
                return not self.catches(at)
            if ins.opname in ("JUMP_FORWARD", "JUMP_ABSOLUTE"):
                at = ins.argval
            elif (
                "JUMP" in ins.opname
                or ins.opname.startswith(_LEAVES)
                or self._index[at] + 1 == len(self._all)
            ):
                return False
            else:
                at = self._all[self._index[at] + 1].offset
        return False

    def truth_that_raises(self, branch: _Branch) -> bool | None:
        """The truth with which a branch raises; None where it does not."""
        for condition in (True, False):
            if self.raises(branch.way(condition)):
                return branch.truth_for(condition)
        return None

    def only_tells(self, at: int, leave: int, frame: FrameType) -> bool:
        """Whether a way calls functions that tell something, and then leads to ``leave``."""
        begins = True
        for _ in range(_MOST):
            at = self.end_of(at)
            if at == leave:
                return begins
            ins = self._all[self._index[at]]
            if begins and not (ins.opname in _NAMES and _tells(frame, ins.argval)):
                return False
            if not ins.opname.startswith(_COMPUTES):
                return False
            if not begins and not _is_harmless(ins, (*_HARMLESS, *_TELLING)):
                return False
            begins = ins.opname == "POP_TOP"
            at = self._all[self._index[at] + 1].offset
        return False

    def catches(self, at: int) -> bool:
        """Whether what is raised at a place may be caught in the function."""
        return any(low <= at < high for low, high in self._caught)

    def next_branch(self, at: int) -> _Branch | None:
        """The next branch of a way that does nothing but compute before it."""
        for _ in range(_MOST):
            ins = self._all[self._index[at]]
            found = self.branch_at(at)
            if found is not None:
                return found
            if not ins.opname.startswith(_COMPUTES) or ins.opname == "POP_TOP":
                return None
            if not _is_harmless(ins, _HARMLESS):
                return None
            if self._index[at] + 1 == len(self._all):
                return None
            at = self._all[self._index[at] + 1].offset
        return None

    def chain_of(self, branch: _Branch, leave: int) -> set[int] | None:
        """The places of a branch and of those behind it, where one of their ways raises and all
        others lead to ``leave``; else None."""
        found, some = {branch.at}, False
        for condition in (True, False):
            way = branch.way(condition)
            if self.raises(way):
                some = True
            elif self.end_of(way) != leave:
                more = self.next_branch(way)
                rest = None
                if more is not None and more.at > branch.at:
                    rest = self.chain_of(more, leave)
                if rest is None:
                    return None
                found, some = found | rest, True
        return found if some else None


@functools.cache
def _code_of(code: CodeType) -> _Code:
    return _Code(code)


def _asking_frame() -> FrameType | None:
    """Where the model's own code stands."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != _EXPORT:
        if not frame.f_code.co_filename.startswith((_TORCH, _HERE)):
            return frame
        frame = frame.f_back
    return None


def _is_harmless(ins: dis.Instruction, names: Container[str]) -> bool:
    """Whether an instruction prepares no call but one of these."""
    if ins.opname == "KW_NAMES":
        return "out" not in str(ins.argval)
    is_called = ins.opname == "LOAD_METHOD" or "NULL" in ins.argrepr
    return not is_called or ins.argval in names


def _tells(frame: FrameType, name: str) -> bool:
    """Whether a name of a file stands for what tells something: by what it is."""
    held = frame.f_globals.get(name, vars(builtins).get(name))
    is_known = held is print or held is warnings or held is warnings.warn or held is logging
    return is_known or isinstance(held, logging.Logger)


def _is_called_by_syntax(code: CodeType) -> bool:
    """Whether Python itself may catch what is raised, as it does StopIteration, or code runs in
    turns with others."""
    is_special = code.co_name.startswith("__") and code.co_name not in ("__call__", "__init__")
    return is_special or bool(code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE))


def _may_be_caught(frame: FrameType | None) -> bool:
    """Whether code of the model's around a question may catch what is raised behind it."""
    while frame is not None and frame.f_code.co_filename != _EXPORT:
        is_own = not frame.f_code.co_filename.startswith((_TORCH, _HERE))
        if is_own and _code_of(frame.f_code).catches(frame.f_lasti):
            return True
        frame = frame.f_back
    return False


def _is(value: Tensor | torch.SymBool, truth: bool) -> Tensor:
    """Whether a value has a truth."""
    if not isinstance(value, Tensor):
        flag = torch.scalar_tensor(value, dtype=torch.bool)  # type: ignore[arg-type]
    else:
        flag = value.reshape(()) != 0
    return flag if truth else torch.logical_not(flag)


def _check(wrong: Sequence[Tensor], frame: FrameType) -> None:
    """Have the program check that not all of this is so."""
    right = torch.logical_not(functools.reduce(torch.logical_and, wrong))
    torch.ops.aten._assert_async.msg(right, place_of(frame))


def place_of(frame: FrameType) -> str:
    """Where a frame is, for messages."""
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def wrong_truth(places: Sequence[tuple[CodeType, int]]) -> bool | None:
    """The truth with which the branch at the first of some places raises, which the others call;
    None where it raises with neither, or what is raised may be caught."""
    (code, at), *callers = places
    branch = _code_of(code).branch_at(at)
    if branch is None or _is_called_by_syntax(code) or are_caught(callers):
        return None
    return _code_of(code).truth_that_raises(branch)


def are_caught(places: Sequence[tuple[CodeType, int]]) -> bool:
    """Whether what is raised may be caught at one of some places in code."""
    return any(_code_of(code).catches(at) for code, at in places)


def may_be_caught() -> bool:
    """Whether the model may catch what is raised where it stands."""
    return _may_be_caught(_asking_frame())


def caught_at() -> str | None:
    """Where the model stands, if it may catch what is raised there."""
    frame = _asking_frame()
    return place_of(frame) if frame is not None and _may_be_caught(frame) else None


__all__ = ["ChecksOfData", "are_caught", "caught_at", "may_be_caught", "wrong_truth"]
