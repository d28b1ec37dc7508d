"""The values in a trace: random variables, expressions over them, index maps, plain data.

An argument of an instruction is one of these, or a list of them. Here are its variables, its
meaning on another schedule, its text as Python, and its form in JSON. Expressions are integer
arithmetic over sampled values and symbolic dimensions; a variable that no instruction gives is a
dimension.
"""

from __future__ import annotations

import ast
import json
import keyword
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias

from ....support.errors import TraceError
from ....support.node import walk
from ...arith import IndexMap
from ...expr import (
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
from ...visitor import free_vars, substitute
from .handles import BlockHandle, LoopHandle

RV: TypeAlias = BlockHandle | LoopHandle | Var


class Dimensions(Protocol):
    """What an expression needs of a schedule."""

    def get_shape_var(self, name: str) -> Var: ...


def variables_of(value: Any) -> Iterator[Any]:
    """The RVs inside an argument."""
    if isinstance(value, (BlockHandle, LoopHandle)):
        yield value
    elif isinstance(value, Expr):
        yield from (n for n in walk(value) if isinstance(n, Var))
    elif isinstance(value, IndexMap):
        yield from (v for v in free_vars(value.outputs) if v not in value.inputs)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from variables_of(item)
    elif isinstance(value, dict):
        yield from variables_of(list(value.values()))


def map_value(value: Any, table: Mapping[int, Any], sch: Dimensions) -> Any:
    """An argument on another schedule: ``table`` has its RVs, by the ids of those in the trace."""
    if isinstance(value, (BlockHandle, LoopHandle)):
        return table.get(id(value), value)
    if isinstance(value, Expr):
        return substitute(value, _present(value, table, sch))
    if isinstance(value, IndexMap):
        change = _present(value, table, sch)
        if not change:
            return value
        return IndexMap(value.inputs, tuple([substitute(e, change) for e in value.outputs]))
    if isinstance(value, (list, tuple)):
        return [map_value(item, table, sch) for item in value]
    if isinstance(value, dict):
        return {key: map_value(item, table, sch) for key, item in value.items()}
    return value


def _present(value: Any, table: Mapping[int, Any], sch: Dimensions) -> dict[Var, Expr]:
    return {
        v: table[id(v)] if id(v) in table else sch.get_shape_var(v.name)
        for v in variables_of(value)
    }


# -- text ------------------------------------------------------------------------------------------
def value_text(value: Any, names: Mapping[int, str]) -> str:
    """An argument as Python, over the RVs' names."""
    if isinstance(value, (BlockHandle, LoopHandle)):
        return names.get(id(value), repr(value))
    if isinstance(value, Expr):
        return expr_text(value, names)
    if isinstance(value, IndexMap):
        return index_map_text(value, names)
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, (list, tuple)):
        return f"[{', '.join([value_text(v, names) for v in value])}]"
    if isinstance(value, dict):
        items = [f"{value_text(k, names)}: {value_text(v, names)}" for k, v in value.items()]
        return "{" + ", ".join(items) + "}"
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
        return f"te.{type(e).__name__.lower()}({expr_text(e.a, names)}, {expr_text(e.b, names)})"
    if type(e) in _OPERATORS:
        sign, own = _OPERATORS[type(e)]
        a, b = e.a, e.b  # type: ignore[attr-defined]
        text = f"{expr_text(a, names, own)} {sign} {expr_text(b, names, own + 1)}"
        return f"({text})" if own < level else text
    raise TraceError(
        "trace", f"An expression with {type(e).__name__} cannot be recorded in a trace."
    )


def index_map_text(m: IndexMap, names: Mapping[int, str] | None = None) -> str:
    """An index map as a Python lambda; ``names`` are those of the RVs it may use."""
    outer = names or {}
    own: dict[int, str] = {}
    taken = {outer[id(v)] for v in variables_of(m) if id(v) in outer} | {"sch", "te"}
    for k, v in enumerate(m.inputs):
        name = v.name if v.name.isidentifier() and not keyword.iskeyword(v.name) else f"i{k}"
        while name in taken:
            name += "_"
        taken.add(name)
        own[id(v)] = name
    known = {**outer, **own}
    outputs = ", ".join([expr_text(e, known) for e in m.outputs])
    return f"lambda {', '.join(own.values())}: ({outputs}{',' if len(m.outputs) == 1 else ''})"


def parse_index_map(
    text: str, known: Mapping[str, RV] | None = None, dims: dict[str, Var] | None = None
) -> IndexMap:
    """The index map that ``index_map_text`` wrote."""
    tree = ast.parse(text, mode="eval").body
    if not isinstance(tree, ast.Lambda) or not isinstance(tree.body, ast.Tuple):
        raise ValueError(f"{text!r} is not a lambda that gives a tuple")
    inputs = {a.arg: Var(a.arg) for a in tree.args.args}
    names: dict[str, RV] = {**(known or {}), **inputs}
    outputs = [_parse_expr(e, names, {} if dims is None else dims) for e in tree.body.elts]
    return IndexMap(tuple(inputs.values()), tuple([as_expr(o) for o in outputs]))


# -- JSON ------------------------------------------------------------------------------------------
def encode(value: Any, names: Mapping[int, str]) -> Any:
    """An argument in JSON: plain data as it is, the rest as ``{kind: text}``."""
    if isinstance(value, (BlockHandle, LoopHandle)):
        if id(value) not in names:
            raise TraceError("as_json", f"No instruction of the trace gives {value!r}.")
        return {"rv": names[id(value)]}
    if isinstance(value, Expr):
        return {"expr": expr_text(value, names)}
    if isinstance(value, IndexMap):
        return {"index_map": index_map_text(value, names)}
    if isinstance(value, (list, tuple)):
        return [encode(v, names) for v in value]
    if isinstance(value, dict):
        return {"dict": [[key, encode(v, names)] for key, v in value.items()]}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}  # JSON has no number for it
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise TraceError(
        "as_json",
        f"Expected plain data in a trace; found something of type {type(value).__name__}.",
    )


def decode(value: Any, known: Mapping[str, RV], dims: dict[str, Var]) -> Any:
    """What ``encode`` wrote; raises ValueError for anything else."""
    if isinstance(value, dict):
        if len(value) != 1:
            raise ValueError(f"expected one tag in {value!r}")
        ((tag, text),) = value.items()
        if tag == "rv":
            return _known(text, known)
        if tag == "index_map":
            return parse_index_map(text, known, dims)
        if tag == "expr":
            return _parse_expr(ast.parse(text, mode="eval").body, known, dims)
        if tag == "float":
            return float(text)
        if tag == "dict":
            return {key: decode(v, known, dims) for key, v in text}
        raise ValueError(f"there is no value of the kind {tag!r}")
    if isinstance(value, list):
        return [decode(v, known, dims) for v in value]
    return value


def _known(name: str, known: Mapping[str, RV]) -> RV:
    if name not in known:
        raise ValueError(f"no instruction before gives {name!r}")
    return known[name]


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
            return _known(name, known)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _PARSED:
            a, b = _parse_expr(left, known, dims), _parse_expr(right, known, dims)
            return _PARSED[type(op)](a, b)
        case ast.Call(
            func=ast.Attribute(attr="get_shape_var"), args=[ast.Constant(value=str(name))]
        ):
            return dims.setdefault(name, Var(name))
        case ast.Call(func=ast.Attribute(attr="min" | "max" as which), args=[left, right]):
            combine = minimum if which == "min" else maximum
            return combine(_parse_expr(left, known, dims), _parse_expr(right, known, dims))
        case _:
            raise ValueError(f"unknown expression {ast.unparse(n)!r}")
