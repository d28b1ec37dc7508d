"""PassList: the compiler's passes with some of one's own among them.

    passes = pipeline().insert_after("recognize-attention", MyPass())
    print(passes)                                       the list, stage by stage
    burnish.compile(net, (x,), passes=passes)

It holds what is inserted, not the list: what a stage begins with depends on the target and the
precision, which ``apply`` is handed. A place is the name of a pass, or of a stage, which means all
of its passes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...support.errors import ConfigError, nearest
from ...support.passes import Pass, Pipeline
from .fold_constant import FoldConstant
from .pipeline import stages

FIRST = "fold-scale"
"""Passes without a place go in front of this one: operators are as the model has them, and what
depends on constants alone is folded."""


@dataclass(frozen=True)
class Edit:
    """Passes before or behind a place: the first pass of that name, or the last."""

    place: str
    passes: tuple[Pass, ...]
    behind: bool
    last: bool


@dataclass(frozen=True)
class PassList:
    """The default passes and what is inserted; ``print`` it for their names. Each method gives
    a new list."""

    edits: tuple[Edit, ...] = ()

    def insert_after(self, place: str, *passes: Pass, last: bool = False) -> PassList:
        """Passes behind the first pass called ``place`` (the ``last``), or behind a stage.

        Raises ConfigError for a name that neither has, and for what is no pass.
        """
        return self._with(Edit(place, _checked(passes), True, last))

    def insert_before(self, place: str, *passes: Pass, last: bool = False) -> PassList:
        """Passes in front of the first pass called ``place`` (the ``last``), or of a stage; raises
        as ``insert_after`` does."""
        return self._with(Edit(place, _checked(passes), False, last))

    def _with(self, edit: Edit) -> PassList:
        made = PassList((*self.edits, edit))
        made.apply(_default())
        return made

    @property
    def inserted(self) -> tuple[Pass, ...]:
        """The passes that are not the compiler's, in the order in which they were inserted."""
        return tuple([p for edit in self.edits for p in edit.passes])

    def apply(self, known: Mapping[str, Pipeline]) -> dict[str, Pipeline]:
        """The pipelines of stages with the passes in their places. Raises ConfigError for a place
        that there is not."""
        listed = {stage: list(pipeline.passes) for stage, pipeline in known.items()}
        for edit in self.edits:
            _insert(listed, edit)
        return {stage: Pipeline(passes) for stage, passes in listed.items()}

    def __str__(self) -> str:
        """The names of the passes by stage; those with options of their own have these."""
        lines = []
        for stage, made in self.apply(_default()).items():
            lines.append(f"{stage}:")
            lines += [f"    {_text(p)}" for p in made]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<passes of burnish, {len(self.inserted)} inserted>"


def as_pass_list(given: Any) -> PassList:
    """What ``passes=`` takes: a PassList, one pass, or several, which go in front of the
    compiler's own (see FIRST). Raises ConfigError for anything else."""
    if given is None:
        return PassList()
    if isinstance(given, PassList):
        return given
    if isinstance(given, Pass) and not isinstance(given, Pipeline):
        given = [given]
    if isinstance(given, (Pipeline, list, tuple)):
        return PassList().insert_before(FIRST, *given)
    raise ConfigError(
        "passes takes a pass, a list of passes, or burnish.transform.pipeline() with some "
        f"inserted; found {given!r}."
    )


def _insert(listed: dict[str, list[Pass]], edit: Edit) -> None:
    if edit.place in listed:
        at = len(listed[edit.place]) if edit.behind else 0
        listed[edit.place][at:at] = edit.passes
        return
    found = [(stage, i) for stage, ps in listed.items() for i, p in enumerate(ps)
             if p.name == edit.place]  # fmt: skip
    if not found:
        names = list(dict.fromkeys([p.name for ps in listed.values() for p in ps]))
        raise ConfigError(
            f"There is no pass {edit.place!r} to insert at; there are {', '.join(names)}, and the "
            f"stages {', '.join(listed)}.{nearest(edit.place, [*names, *listed])}"
        )
    stage, at = found[-1 if edit.last else 0]
    at += edit.behind
    listed[stage][at:at] = edit.passes


def _default() -> dict[str, Pipeline]:
    """The default list, constant folding among it, as it is printed."""
    return stages("default", evaluate=lambda func, inputs: [])


def _text(pass_: Pass) -> str:
    return pass_.name if isinstance(pass_, FoldConstant) else str(pass_)


def _checked(passes: Sequence[Any]) -> tuple[Pass, ...]:
    if not passes:
        raise ConfigError("insert at least one pass: insert_after('fold-scale', MyPass()).")
    return Pipeline(passes).passes
