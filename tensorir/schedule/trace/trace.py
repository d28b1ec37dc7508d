"""Traces: what was done to a program, as data that replays, prints as Python and travels as JSON.

A trace is a sequence of instructions over *random variables* (RVs): handles of blocks and loops,
and Vars that stand for sampled integers. The program itself is not part of it. Replaying a trace on
the program it was recorded on gives the same program; other decisions give another program of the
same space. Text names RVs ``b0``, ``l1``, ``v2`` in order of appearance.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

from ....support.display import as_html, show_text
from ....support.errors import BurnishError, TraceError, nearest
from ....support.keywords import hinted
from ....support.other_names import OtherName
from ...expr import Var
from .handles import BlockHandle, LoopHandle
from .rows import ROWS
from .values import RV, decode, encode, map_value, value_text, variables_of

Argument: TypeAlias = "tuple[str, Any]"
"""A parameter name and a value; the name is empty for a positional argument."""


class Replayable(Protocol):
    """What a trace needs of a schedule: a method for each instruction, and its symbolic
    dimensions."""

    def get_shape_var(self, name: str) -> Var: ...

    def knows_function(self, name: str) -> bool: ...

    @property
    def only_function(self) -> str | None: ...


@dataclass(frozen=True, slots=True, eq=False)
class Instruction:
    """One step. ``inputs`` hold RVs (also inside lists and expressions), ``attrs`` plain values.

    ``decision`` is what a sampling instruction chose: factors, the index of a candidate, or values
    by the names of a rule's decisions.
    """

    kind: str
    inputs: tuple[Argument, ...] = ()
    attrs: tuple[Argument, ...] = ()
    outputs: tuple[RV, ...] = ()
    decision: Any = None

    @property
    def is_sampling(self) -> bool:
        """Whether it takes a decision, and draws one where it has none."""
        return ROWS[self.kind].role in ("sampling", "composite")

    def variables(self) -> Iterator[Any]:
        """The RVs that the arguments use, and the symbolic dimensions."""
        for _, value in (*self.inputs, *self.attrs):
            yield from variables_of(value)


@hinted
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Trace:
    """The instructions, in order."""

    instructions: tuple[Instruction, ...] = ()
    insts = OtherName("instructions")
    apply_to_schedule = OtherName("apply_to(schedule)")
    apply_json_to_schedule = OtherName("from_json(rows).apply_to(schedule)")
    get_decision = OtherName("decisions, by the index of an instruction")
    append = OtherName("Trace((*trace, instruction)): a trace is never changed")
    pop = OtherName("Trace(trace.instructions[:-1]): a trace is never changed")

    def __len__(self) -> int:
        return len(self.instructions)

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.instructions)

    # -- decisions ---------------------------------------------------------------------------------
    @property
    def decisions(self) -> dict[int, Any]:
        """Index of each sampling instruction to its decision."""
        return {i: inst.decision for i, inst in enumerate(self.instructions) if inst.is_sampling}

    def with_decision(self, instruction: int | Instruction, decision: Any) -> Trace:
        """The trace with another decision of one sampling instruction; None means to sample
        anew."""
        return self.with_decisions({instruction: decision})

    def with_decisions(self, decisions: Mapping[int | Instruction, Any]) -> Trace:
        """The trace with other decisions of some sampling instructions, by index or by
        themselves. Raises TraceError for an instruction that takes none."""
        changed = list(self.instructions)
        for instruction, decision in decisions.items():
            i = self._sampling_index(instruction)
            changed[i] = replace(changed[i], decision=decision)
        return Trace(tuple(changed))

    def _sampling_index(self, instruction: int | Instruction) -> int:
        if isinstance(instruction, int):
            i = instruction
            if not 0 <= i < len(self.instructions):
                raise TraceError(
                    "decisions",
                    f"There is no instruction {i}; the trace has {len(self.instructions)}.",
                )
        elif instruction in self.instructions:
            i = self.instructions.index(instruction)
        elif not isinstance(instruction, Instruction):
            raise TraceError(
                "decisions",
                "Expected decisions by instruction, or by its number in the trace, such as "
                f"{{0: {{'rows': 4}}}} where that is an apply_rule; found {instruction!r}.",
            )
        else:
            raise TraceError("decisions", f"This {instruction.kind!r} is not of this trace.")
        inst = self.instructions[i]
        if not inst.is_sampling:
            samplings = ", ".join([f"{k} ({self.instructions[k].kind})" for k in self.decisions])
            raise TraceError(
                "decisions",
                f"Instruction {i} is {inst.kind!r}, which takes no decision. Those that do: "
                f"{samplings or 'none'}.",
            )
        return i

    def simplified(self, *, remove_postproc: bool = False) -> Trace:
        """Without queries and samplings whose results nothing uses; with ``remove_postproc``,
        without what follows ``enter_postproc`` as well."""
        kept: list[Instruction] = []
        used: set[int] = set()
        for inst in reversed(self._until_postproc() if remove_postproc else self.instructions):
            pure = ROWS[inst.kind].role in ("query", "sampling")
            if pure and not any(id(rv) in used for rv in inst.outputs):
                continue
            kept.append(inst)
            used.update(id(rv) for rv in inst.variables())
        kept.reverse()
        return Trace(tuple(kept))

    def _until_postproc(self) -> tuple[Instruction, ...]:
        for i, inst in enumerate(self.instructions):
            if inst.kind == "enter_postproc":
                return self.instructions[:i]
        return self.instructions

    # -- replay ------------------------------------------------------------------------------------
    def apply_to(
        self,
        sch: Replayable,
        decisions: Mapping[int | Instruction, Any] | None = None,
        *,
        remove_postproc: bool = False,
    ) -> None:
        """Run the instructions on another schedule.

        ``decisions`` (by instruction, or its index) take the place of the recorded ones; a sampling
        without either samples with the schedule's generator. A function name that the schedule does
        not have stands for its only function. Raises the error of the instruction that fails, with
        a note which one it is.
        """
        if not hasattr(sch, "knows_function"):
            raise TraceError(
                "apply_to",
                f"Expected a Schedule to run the instructions on; found {type(sch).__name__}. "
                "Of a function or module, Schedule(...) makes one.",
            )
        table: dict[int, Any] = {}
        given = {self._sampling_index(key): d for key, d in (decisions or {}).items()}
        for i, inst in enumerate(self._until_postproc() if remove_postproc else self.instructions):
            try:
                results = _run(inst, given.get(i, inst.decision), table, sch)
            except BurnishError as error:
                raise error.note(
                    f"This is instruction {i} of the trace: {_statement(inst, self._names())}"
                ) from None
            if len(inst.outputs) not in (0, len(results)):
                raise TraceError(
                    inst.kind,
                    f"The trace expects {len(inst.outputs)} results of instruction {i}; this "
                    f"program gives {len(results)}. It was recorded on another program.",
                )
            table.update({id(rv): new for rv, new in zip(inst.outputs, results, strict=False)})

    # -- text --------------------------------------------------------------------------------------
    def as_python(self) -> str:
        """The body's statements, one a line, over a schedule called ``sch``."""
        names = self._names()
        return "\n".join([_statement(inst, names) for inst in self.instructions])

    def __str__(self) -> str:
        lines = ["# import burnish", "def apply_trace(sch) -> None:"]
        body = self.as_python()
        if "te.min(" in body or "te.max(" in body:
            lines.append("  from burnish import te")
        lines += ["  " + line for line in body.splitlines()] or ["  pass"]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Trace({len(self.instructions)} instructions)"

    def show(self) -> None:
        """Print the trace as Python, in colours where that is possible."""
        show_text(str(self))

    def _repr_html_(self) -> str:
        """What a notebook shows of a trace that ends a cell."""
        return as_html(str(self))

    def _names(self) -> dict[int, str]:
        names: dict[int, str] = {}
        for inst in self.instructions:
            for rv in inst.outputs:
                letter = (
                    "b"
                    if isinstance(rv, BlockHandle)
                    else "l"
                    if isinstance(rv, LoopHandle)
                    else "v"
                )
                names[id(rv)] = f"{letter}{len(names)}"
        return names

    # -- JSON --------------------------------------------------------------------------------------
    def as_json(self) -> list[Any]:
        """``[kind, inputs, attrs, outputs, decision]`` for each instruction: lists, strings and
        numbers."""
        names = self._names()
        return [
            [
                inst.kind,
                [[name, encode(value, names)] for name, value in inst.inputs],
                [[name, encode(value, names)] for name, value in inst.attrs],
                [names[id(rv)] for rv in inst.outputs],
                inst.decision,
            ]
            for inst in self.instructions
        ]

    @classmethod
    def from_json(cls, data: str | list[Any]) -> Trace:
        """The trace written by ``as_json`` (or its text); raises TraceError for anything else."""
        try:
            rows = json.loads(data) if isinstance(data, str) else data
            return cls(_decode_rows(rows))
        except (ValueError, TypeError, AttributeError, SyntaxError) as error:
            raise TraceError("from_json", f"This is not a trace in JSON: {error}") from error


def _run(inst: Instruction, decision: Any, table: Mapping[int, Any], sch: Replayable) -> list[Any]:
    """The results of one instruction on another schedule."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for name, value in (*inst.inputs, *inst.attrs):
        mapped = map_value(value, table, sch)
        if name == "func_name" and not sch.knows_function(mapped) and sch.only_function is not None:
            mapped = sch.only_function
        if name:
            named[name] = mapped
        else:
            positional.append(mapped)
    if inst.is_sampling:
        named["decision"] = decision
    primitive = getattr(sch, inst.kind)
    try:
        result = primitive(*positional, **named)
    except TypeError as error:
        try:
            inspect.signature(primitive).bind(*positional, **named)
        except TypeError as mismatch:
            raise TraceError(
                inst.kind, f"The trace's arguments are not those of {inst.kind}: {mismatch}."
            ) from error
        raise
    return list(result) if isinstance(result, (list, tuple)) else [result]


def _statement(inst: Instruction, names: Mapping[int, str]) -> str:
    parts = [
        f"{name}={value_text(value, names)}" if name else value_text(value, names)
        for name, value in (*inst.inputs, *inst.attrs)
    ]
    if inst.is_sampling:
        named = isinstance(inst.decision, dict)
        parts.append(f"decision={json.dumps(inst.decision) if named else repr(inst.decision)}")
    call = f"sch.{inst.kind}({', '.join(parts)})"
    if not inst.outputs:
        return call
    targets = ", ".join(names[id(rv)] for rv in inst.outputs)
    comma = "," if len(inst.outputs) == 1 and ROWS[inst.kind].gives_list else ""
    return f"{targets}{comma} = {call}"


def _decode_rows(rows: Any) -> tuple[Instruction, ...]:
    known: dict[str, RV] = {}
    dims: dict[str, Var] = {}
    result: list[Instruction] = []
    if not isinstance(rows, list):
        raise ValueError(f"expected a list of instructions; found {_described(rows)}")
    for at, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != 5:
            raise ValueError(
                f"instruction {at} is not [kind, inputs, attrs, outputs, decision]: "
                f"{_described(row)}"
            )
        kind, inputs, attrs, outputs, decision = row
        if kind not in ROWS:
            raise ValueError(f"there is no instruction {kind!r}.{nearest(str(kind), ROWS)}")
        try:
            decoded = [
                tuple([(str(n), decode(v, known, dims)) for n, v in part])
                for part in (inputs, attrs)
            ]
        except (ValueError, TypeError) as error:
            raise ValueError(f"instruction {at} ({kind}): {error}") from error
        made: list[RV] = []
        for name in outputs:
            if not isinstance(name, str):
                raise ValueError(f"instruction {at} ({kind}) calls a result {_described(name)}")
            rv: RV = Var(name)
            if name.startswith("b"):
                rv = BlockHandle(name, "")
            elif name.startswith("l"):
                rv = LoopHandle(Var(name), "")
            known[name] = rv
            made.append(rv)
        result.append(Instruction(kind, decoded[0], decoded[1], tuple(made), decision))
    return tuple(result)


def _described(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
