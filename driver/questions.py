"""Models whose program depends on values of their inputs: a program for each answer.

An import that asks (``Imported.question``) is repeated with the answer, until it asks no more. What
was asked and answered is a tree: the questions are small programs, or are read off the inputs, and
the models are its leaves. A call goes from the root to its leaf, and compiles what is not there
yet.

            shape of x?  --- (2, 3) ---> how many are not zero? --- 4 ---> model
                                                               \\-- 6 ---> model
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from ..frontend.imported import Imported, InputTypes
from ..support.caller import callers_level
from ..support.errors import ArgumentError, VMError
from .arrays import to_tensors
from .signature import CompiledSignature

MOST_PROGRAMS = 64
NOTE_PROGRAMS = 4

S = TypeVar("S", bound=CompiledSignature)

Again = Callable[[Sequence[Any]], Imported]
"""Imports the model once more, with the answers so far."""


@dataclass
class _Step(Generic[S]):
    """An import, with the answers that led to it; compiled where that has been needed."""

    imported: Imported
    answers: tuple[Any, ...] = ()
    program: S | None = None
    after: dict[Any, _Step[S]] = field(default_factory=dict)


class Asking(Generic[S]):
    """The programs of one model. ``build`` compiles an import that asks no more, ``build_question``
    one whose program answers its question."""

    def __init__(
        self,
        root: Imported,
        again: Again,
        build: Callable[[Imported], S],
        build_question: Callable[[Imported], S],
    ) -> None:
        self._root: _Step[S] = _Step(root)
        self._again, self._build, self._build_question = again, build, build_question
        self._leaves: list[_Step[S]] = []
        self._lock = threading.Lock()

    def select(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> S:
        """The program of a call. Raises what importing and compiling it raises, and VMError where
        there are too many of them."""
        step = self._root
        while step.imported.question is not None:
            answer = self._answer(step, args, kwargs)
            key = _key(answer)
            if key not in step.after:
                with self._lock:
                    if key not in step.after:
                        kept = () if isinstance(answer, InputTypes) else step.answers
                        answers = (*kept, answer)
                        step.after[key] = _Step(self._again(answers), answers)
            step = step.after[key]
        with self._lock:
            if step.program is None:
                self._check_count(len(self._leaves))
                step.program = self._build(step.imported)
                self._leaves.append(step)
        return step.program

    def replace(self, old: S, new: S) -> None:
        """Put a program in the place of one."""
        with self._lock:
            for step in self._leaves:
                if step.program is old:
                    step.program = new

    def _answer(self, step: _Step[S], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        question = step.imported.question
        assert question is not None
        given = step.imported.flatten_inputs(args, kwargs)
        if question.wanted == "types":
            return InputTypes(tuple([_shapes(x) for x in given]))
        if isinstance(question.wanted, int):
            name = step.imported.input_names[question.wanted]
            (found,) = to_tensors([given[question.wanted]], [f"input {name!r}"])
            return np.array(found.data)
        with self._lock:
            if step.program is None:
                step.program = self._build_question(step.imported)
        return np.array(step.program.run(given)[0].data)

    def _check_count(self, count: int) -> None:
        question = self._root.imported.question
        reason = "" if question is None else f" The first of them: {question.reason}."
        if count >= MOST_PROGRAMS:
            raise VMError(
                f"This model's program depends on values of its inputs, and was compiled for "
                f"{count} of them; the next one is refused.{reason}"
            )
        if count + 1 == NOTE_PROGRAMS:
            warnings.warn(
                "burnish compiled this model for the fourth time: its program depends on values of "
                f"its inputs, and after {MOST_PROGRAMS} programs no more are made.{reason}",
                UserWarning,
                stacklevel=callers_level(),
            )


def _shapes(x: Any) -> Any:
    if x is None:
        return None
    if isinstance(x, (list, tuple)):
        return [_shapes(item) for item in x]
    if isinstance(x, Mapping) or not hasattr(x, "shape"):
        raise ArgumentError(f"expected an array, a list of them or None; got {type(x).__name__}.")
    return tuple(int(n) for n in x.shape)


def _key(answer: Any) -> Any:
    if isinstance(answer, InputTypes):
        return repr(answer.shapes)
    return answer.shape, answer.tobytes()
