"""Traces: what was done to a program, as data that replays, prints as Python and travels as JSON.

A trace is a sequence of instructions over *random variables* (RVs): handles of blocks and loops,
and Vars that stand for sampled integers. The program itself is not part of it. Replaying a trace on
the program it was recorded on gives the same program; other decisions give another program of the
same space. Text names RVs ``b0``, ``l1``, ``v2`` in order of appearance.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

from ...support.errors import TraceError
from ...support.node import walk
from ..arith import IndexMap
from ..expr import (
    Add,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Sub,
    Var,
    as_expr,
    maximum,
    minimum,
)
from ..visitor import substitute
from .handles import BlockHandle, LoopHandle

RV: TypeAlias = BlockHandle | LoopHandle | Var
Argument: TypeAlias = "tuple[str, Any]"
"""A parameter name and a value; the name is empty for a positional argument."""

QUERIES = frozenset(
    [
        "get_block",
        "get_loops",
        "get_child_blocks",
        "get_producers",
        "get_consumers",
        "get_output_blocks",
    ]
)
SAMPLERS = frozenset(["sample_perfect_tile", "sample_categorical", "sample_compute_location"])
REWRITES = frozenset(
    [
        "split",
        "fuse",
        "merge",
        "pad_einsum",
        "reorder",
        "add_unit_loop",
        "loop_partition",
        "parallel",
        "vectorize",
        "unroll",
        "bind",
        "annotate",
        "unannotate",
        "set_scope",
        "decompose_reduction",
        "rfactor",
        "cache_read",
        "cache_write",
        "cache_inplace",
        "reindex_cache_read",
        "transform_layout",
        "compute_at",
        "reverse_compute_at",
        "compute_inline",
        "reverse_compute_inline",
        "enter_postproc",
    ]
)
KINDS = QUERIES | SAMPLERS | REWRITES
LISTS = frozenset(
    [
        "get_loops",
        "get_child_blocks",
        "get_producers",
        "get_consumers",
        "get_output_blocks",
        "split",
        "loop_partition",
        "cache_inplace",
        "sample_perfect_tile",
    ]
)
"""Instructions that give a list, even of one."""


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

    ``decision`` is what a sampling instruction chose: factors, or the index of a candidate.
    """

    kind: str
    inputs: tuple[Argument, ...] = ()
    attrs: tuple[Argument, ...] = ()
    outputs: tuple[RV, ...] = ()
    decision: Any = None

    @property
    def is_sampling(self) -> bool:
        return self.kind in SAMPLERS


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """The instructions, in order."""

    instructions: tuple[Instruction, ...] = ()

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
        index = (
            instruction if isinstance(instruction, int) else self.instructions.index(instruction)
        )
        if not self.instructions[index].is_sampling:
            raise TraceError(
                "with_decision",
                f"Instruction {index} is {self.instructions[index].kind!r}, which takes "
                "no decision.",
            )
        changed = list(self.instructions)
        changed[index] = replace(changed[index], decision=decision)
        return Trace(tuple(changed))

    def simplified(self, *, remove_postproc: bool = False) -> Trace:
        """Without queries and samplings whose results nothing uses; with ``remove_postproc``,
        without what follows ``enter_postproc`` as well."""
        kept: list[Instruction] = []
        used: set[int] = set()
        for inst in reversed(self._until_postproc() if remove_postproc else self.instructions):
            pure = inst.kind in QUERIES or inst.is_sampling
            if pure and not any(id(rv) in used for rv in inst.outputs):
                continue
            kept.append(inst)
            used.update(id(rv) for _, value in inst.inputs for rv in _variables(value))
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
        decisions: Mapping[int, Any] | None = None,
        *,
        remove_postproc: bool = False,
    ) -> None:
        """Run the instructions on another schedule.

        ``decisions`` (by instruction index) take the place of the recorded ones; a sampling without
        either samples with the schedule's generator. A function name that the schedule does not
        have stands for its only function. Raises the error of the instruction that fails.
        """
        table: dict[int, Any] = {}
        given = decisions or {}
        for i, inst in enumerate(self._until_postproc() if remove_postproc else self.instructions):
            positional: list[Any] = []
            named: dict[str, Any] = {}
            for name, value in (*inst.inputs, *inst.attrs):
                mapped = _map_value(value, table, sch)
                if (
                    name == "func_name"
                    and not sch.knows_function(mapped)
                    and sch.only_function is not None
                ):
                    mapped = sch.only_function
                if name:
                    named[name] = mapped
                else:
                    positional.append(mapped)
            if inst.is_sampling:
                named["decision"] = given.get(i, inst.decision)
            result = getattr(sch, inst.kind)(*positional, **named)
            results = list(result) if isinstance(result, (list, tuple)) else [result]
            if len(inst.outputs) not in (0, len(results)):
                raise TraceError(
                    inst.kind,
                    f"The trace expects {len(inst.outputs)} results of instruction {i}; "
                    "this program gives "
                    f"{len(results)}. It was recorded on another program.",
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
        lines += ["  " + line for line in body.splitlines()] or ["  pass"]
        return "\n".join(lines)

    def show(self) -> None:
        """Print the trace as Python."""
        print(self)

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
                [[name, _encode(value, names)] for name, value in inst.inputs],
                [[name, _encode(value, names)] for name, value in inst.attrs],
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
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, SyntaxError) as error:
            raise TraceError("from_json", f"This is not a trace in JSON: {error}") from error


# -- values ----------------------------------------------------------------------------------------
def _variables(value: Any) -> Iterator[Any]:
    """The RVs inside an argument."""
    if isinstance(value, (BlockHandle, LoopHandle)):
        yield value
    elif isinstance(value, Expr):
        yield from (n for n in walk(value) if isinstance(n, Var))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _variables(item)


def _map_value(value: Any, table: Mapping[int, Any], sch: Replayable) -> Any:
    if isinstance(value, (BlockHandle, LoopHandle)):
        return table.get(id(value), value)
    if isinstance(value, Expr):
        change: dict[Var, Expr] = {}
        for v in _variables(value):
            change[v] = table[id(v)] if id(v) in table else sch.get_shape_var(v.name)
        return substitute(value, change)
    if isinstance(value, (list, tuple)):
        return [_map_value(item, table, sch) for item in value]
    return value


def _statement(inst: Instruction, names: Mapping[int, str]) -> str:
    parts = [
        f"{name}={_text(value, names)}" if name else _text(value, names)
        for name, value in (*inst.inputs, *inst.attrs)
    ]
    if inst.is_sampling:
        parts.append(f"decision={inst.decision!r}")
    call = f"sch.{inst.kind}({', '.join(parts)})"
    if not inst.outputs:
        return call
    targets = ", ".join(names[id(rv)] for rv in inst.outputs)
    comma = "," if len(inst.outputs) == 1 and inst.kind in LISTS else ""
    return f"{targets}{comma} = {call}"


def _text(value: Any, names: Mapping[int, str]) -> str:
    if isinstance(value, (BlockHandle, LoopHandle)):
        return names.get(id(value), repr(value))
    if isinstance(value, Expr):
        return expr_text(value, names)
    if isinstance(value, IndexMap):
        return index_map_text(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join([_text(v, names) for v in value])}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


_OPERATORS: dict[type[Expr], tuple[str, int]] = {
    Add: ("+", 1),
    Sub: ("-", 1),
    Mul: ("*", 2),
    FloorDiv: ("//", 2),
    FloorMod: ("%", 2),
}


def expr_text(e: Expr, names: Mapping[int, str], level: int = 0) -> str:
    """An integer expression over RVs and symbolic dimensions as Python."""
    if isinstance(e, Var):
        return names.get(id(e)) or f'sch.get_shape_var("{e.name}")'
    if isinstance(e, (IntImm, FloatImm)):
        return repr(e.value)
    if isinstance(e, (Min, Max)):
        return f"{type(e).__name__.lower()}({expr_text(e.a, names)}, {expr_text(e.b, names)})"
    if type(e) in _OPERATORS:
        sign, own = _OPERATORS[type(e)]
        a, b = e.a, e.b  # type: ignore[attr-defined]
        text = f"{expr_text(a, names, own)} {sign} {expr_text(b, names, own + 1)}"
        return f"({text})" if own < level else text
    raise TraceError(
        "trace", f"An expression with {type(e).__name__} cannot be recorded in a trace."
    )


def index_map_text(m: IndexMap) -> str:
    """An index map as a Python lambda."""
    names: dict[int, str] = {}
    for v in m.inputs:
        name = v.name
        while name in names.values():
            name += "_"
        names[id(v)] = name
    outputs = ", ".join([expr_text(e, names) for e in m.outputs])
    return f"lambda {', '.join(names.values())}: ({outputs}{',' if len(m.outputs) == 1 else ''})"


def parse_index_map(text: str) -> IndexMap:
    """The index map that ``index_map_text`` wrote."""
    tree = ast.parse(text, mode="eval").body
    if not isinstance(tree, ast.Lambda) or not isinstance(tree.body, ast.Tuple):
        raise ValueError(f"{text!r} is not a lambda that gives a tuple")
    inputs = {a.arg: Var(a.arg) for a in tree.args.args}
    outputs = [_parse_expr(e, inputs, {}) for e in tree.body.elts]
    return IndexMap(tuple(inputs.values()), tuple([as_expr(o) for o in outputs]))


def _encode(value: Any, names: Mapping[int, str]) -> Any:
    if isinstance(value, (BlockHandle, LoopHandle)):
        return {"rv": names[id(value)]}
    if isinstance(value, Expr):
        return {"expr": expr_text(value, names)}
    if isinstance(value, IndexMap):
        return {"index_map": index_map_text(value)}
    if isinstance(value, (list, tuple)):
        return [_encode(v, names) for v in value]
    return value


def _decode_rows(rows: Sequence[Any]) -> tuple[Instruction, ...]:
    known: dict[str, RV] = {}
    dims: dict[str, Var] = {}
    result: list[Instruction] = []
    for kind, inputs, attrs, outputs, decision in rows:
        if kind not in KINDS:
            raise ValueError(f"there is no instruction {kind!r}")
        decoded = [
            tuple([(n, _decode(v, known, dims)) for n, v in part]) for part in (inputs, attrs)
        ]
        made: list[RV] = []
        for name in outputs:
            rv: RV = Var(name)
            if name.startswith("b"):
                rv = BlockHandle(name, "")
            elif name.startswith("l"):
                rv = LoopHandle(Var(name), "")
            known[name] = rv
            made.append(rv)
        result.append(Instruction(kind, decoded[0], decoded[1], tuple(made), decision))
    return tuple(result)


def _decode(value: Any, known: Mapping[str, RV], dims: dict[str, Var]) -> Any:
    if isinstance(value, dict):
        ((tag, text),) = value.items()
        if tag == "rv":
            return known[text]
        if tag == "index_map":
            return parse_index_map(text)
        if tag == "expr":
            return _parse_expr(ast.parse(text, mode="eval").body, known, dims)
        raise ValueError(f"there is no value of the kind {tag!r}")
    if isinstance(value, list):
        return [_decode(v, known, dims) for v in value]
    return value


_PARSED: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}


def _parse_expr(n: ast.expr, known: Mapping[str, RV], dims: dict[str, Var]) -> Any:
    match n:
        case ast.Constant(value=int() as value):
            return value
        case ast.Name(id=name):
            return known[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _PARSED:
            a, b = _parse_expr(left, known, dims), _parse_expr(right, known, dims)
            return _PARSED[type(op)](a, b)
        case ast.Call(
            func=ast.Attribute(attr="get_shape_var"), args=[ast.Constant(value=str(name))]
        ):
            return dims.setdefault(name, Var(name))
        case ast.Call(func=ast.Name(id="min" | "max" as which), args=[left, right]):
            combine = minimum if which == "min" else maximum
            return combine(_parse_expr(left, known, dims), _parse_expr(right, known, dims))
        case _:
            raise ValueError(f"unknown expression {ast.unparse(n)!r}")
