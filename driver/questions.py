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
from dataclasses import replace
from typing import Any, Generic, TypeVar

import numpy as np

from ..frontend.imported import Imported, InputTypes, KnownSizes, RelatedSizes, SizeRelation
from ..graphir.emit.plan_segments import spec_of
from ..graphir.module import IRModule
from ..graphir.type import TensorType
from ..graphir.weights import Weights, in_common
from ..support.caller import callers_level
from ..support.errors import ArgumentError, VMError
from ..vm.program import Param
from ..vm.shape_text import compile_shape
from ..vm.signature import Signature, named_dims
from ..vm.tensor import Tensor
from .arrays import to_tensors
from .signature import CompiledSignature, listed_inputs

MOST_PROGRAMS = 64
NOTE_PROGRAMS = 4

S = TypeVar("S", bound=CompiledSignature)

Again = Callable[[Sequence[Any]], Imported]
"""Imports the model once more, with the answers so far."""


class _Step(Generic[S]):
    """An import, with the answers that led to it; compiled where that has been needed. Its module
    goes when nothing is compiled of it any more."""

    def __init__(self, imported: Imported, answers: tuple[Any, ...] = ()) -> None:
        self.imported, self.answers = imported, answers
        self.program: S | None = None
        self.after: dict[Any, _Step[S]] = {}
        self.signature = _signature(imported.module)
        if imported.question is not None and isinstance(imported.question.wanted, int):
            self.imported = imported.without_module()

    def check(self, given: list[Any]) -> list[Tensor]:
        """The inputs of a call as tensors. Raises where one does not fit its parameter."""
        tensors = to_tensors(given, [f"input {n!r}" for n in self.imported.input_names])
        if self.signature is not None:
            self.signature.bind(tensors)
        return tensors


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
        self._weights = Weights()
        """Those of the programs so far."""
        self._lock = threading.RLock()

    def select(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> S:
        """The program of a call. Raises what importing and compiling it raises, and VMError where
        there are too many of them; of a call that is refused nothing is kept."""
        step = self._root
        while step.imported.question is not None:
            answer = self._answer(step, args, kwargs)
            after = step.after.get(_key(answer))
            if after is None:
                with self._lock:
                    after = step.after.get(_key(answer))
                    if after is None:
                        return self._grow(step, answer, args, kwargs)
            step = after
        assert step.program is not None
        return step.program

    def inputs(self) -> tuple[tuple[str, tuple[str, ...], str], ...] | None:
        """(name, shape, dtype) of each input before the first call; None where a call tells."""
        signature, imported = self._root.signature, self._root.imported
        if signature is None:
            return imported.declared or None
        return listed_inputs(imported, signature.params)

    def replace(self, old: S, new: S) -> None:
        """Put a program in the place of one."""
        with self._lock:
            for step in self._leaves:
                if step.program is old:
                    step.program = new

    def _grow(
        self, step: _Step[S], answer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> S:
        """The program behind an answer that is new: all up to it is imported, and compiled."""
        self._check_count(len(self._leaves))
        first = last = self._next(step, answer)
        while last.imported.question is not None:
            following = self._answer(last, args, kwargs)
            last.after[_key(following)] = made = self._next(last, following)
            last = made
        last.check(last.imported.flatten_inputs(args, kwargs))
        self._note_count(len(self._leaves) + 1)
        program = self._build_step(last, self._build)
        step.after[_key(answer)] = first
        self._leaves.append(last)
        return program

    def _next(self, step: _Step[S], answer: Any) -> _Step[S]:
        imported = self._again(answers := _together(step.answers, answer))
        question = step.imported.question
        assert question is not None
        of = "shapes" if question.wanted == "types" else "values"
        note = f"the program is for these {of} of the inputs alone: {question.reason}"
        if isinstance(answer, RelatedSizes):
            asked, verb = answer.relation, "is" if answer.holds else "is not"
            note = f"the program is for inputs whose {asked.name} {verb} {asked.other}: "
            note += question.reason
        notes = (*imported.notes, *step.imported.notes, f"{note.rstrip('.')}.")
        imported = replace(imported, notes=notes)
        imported.module.weights.update(in_common(imported.module.weights, self._weights))
        return _Step(imported, answers)

    def _build_step(self, step: _Step[S], build: Callable[[Imported], S]) -> S:
        """Compile an import, whose module is needed no more then but for its weights."""
        step.program = build(step.imported)
        self._weights.update(step.imported.module.weights)
        step.imported = step.imported.without_module()
        return step.program

    def _answer(self, step: _Step[S], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        question = step.imported.question
        assert question is not None
        given = step.imported.flatten_inputs(args, kwargs)
        if question.wanted == "types":
            return InputTypes(tuple([_shapes(x) for x in given]))
        if question.wanted == "sizes":
            return KnownSizes()
        if isinstance(question.wanted, SizeRelation):
            return RelatedSizes(question.wanted, _holds(question.wanted, given))
        tensors = step.check(given)
        if isinstance(question.wanted, int):
            return np.array(tensors[question.wanted].data)
        with self._lock:
            program = step.program or self._build_step(step, self._build_question)
        return np.array(program.run(tensors)[0].data)

    def _reason(self) -> str:
        question = self._root.imported.question
        return "" if question is None else f" The first of them: {question.reason}."

    def _check_count(self, count: int) -> None:
        if count >= MOST_PROGRAMS:
            raise VMError(
                f"This model's program depends on values of its inputs, and was compiled for "
                f"{count} of them; the next one is refused.{self._reason()}"
            )

    def _note_count(self, count: int) -> None:
        if count == NOTE_PROGRAMS:
            warnings.warn(
                "burnish compiled this model for the fourth time: its program depends on values of "
                f"its inputs, and after {MOST_PROGRAMS} programs no more are made.{self._reason()}",
                UserWarning,
                stacklevel=callers_level(),
            )


def _signature(module: IRModule) -> Signature | None:
    """What the inputs of an import must be; None where the import has no module yet."""
    if "main" not in module:
        return None
    main = module.graph_functions["main"]
    types = [p.type for p in main.params]
    specs = [spec_of(kind) for kind in types if isinstance(kind, TensorType)]
    params = [Param(p.name, spec) for p, spec in zip(main.params, specs, strict=True)]
    return Signature("main", params, named_dims(params))


def _together(answers: tuple[Any, ...], answer: Any) -> tuple[Any, ...]:
    """All answers so far, less those that the last one makes void."""
    if isinstance(answer, InputTypes):
        return (answer,)
    if isinstance(answer, KnownSizes):
        return (*[a for a in answers if isinstance(a, (InputTypes, RelatedSizes))], answer)
    return (*answers, answer)


def _holds(relation: SizeRelation, given: Sequence[Any]) -> bool:
    """Whether inputs have sizes that are so related."""
    names, sizes = [], []
    for name, index, axis in relation.places:
        shape = _shapes(given[index])
        if not isinstance(shape, tuple) or axis >= len(shape):
            return False
        names.append(name)
        sizes.append(shape[axis])
    other = compile_shape(relation.other, tuple(names))(sizes)
    return bool(other == sizes[names.index(relation.name)])


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
    if isinstance(answer, (KnownSizes, RelatedSizes)):
        return answer
    return answer.shape, answer.tobytes()
