"""What the parser of the text form knows while parsing: values that are no expressions, and words.

``T.Buffer(...)`` before it has a name, a handle before it is matched, a word before it is called:
the halves of the parser hand these to each other. The tables say which words of ``T`` are nodes,
which are intrinsics under another name, and what to write instead of those that make no sense for
a function of a CPU.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from ...support.dtype import DType
from .. import expr as e
from ..buffer import Buffer
from ..expr import Expr

Value: TypeAlias = Any
"""Expr | int | float | bool | str | DType | Buffer | Alias | BufferDecl | Word | PrimFunc |
tuple.
"""


@dataclass(frozen=True)
class Word:
    """A word of the vocabulary that was not called yet: ``T``, ``T.axis``, ``T.grid``."""

    path: str


@dataclass(frozen=True)
class BufferDecl:
    """``T.Buffer(...)`` before it has a name; ``data`` is the buffer whose memory it views, if
    any.
    """

    make: Callable[[str], Buffer]
    data: Buffer | None = None


@dataclass(frozen=True)
class Alias:
    """Another shape over the memory of a compact buffer: ``A_1 = T.Buffer((2097152,),
    data=A.data)``.
    """

    shape: tuple[Expr, ...]
    target: Buffer


@dataclass(frozen=True)
class Handle:
    """A parameter of type ``T.handle`` until a ``T.match_buffer`` says what it points to."""

    name: str


@dataclass(frozen=True)
class FreshVar:
    """``T.int64()``: a variable that the assignment it stands in names."""

    dtype: DType


NODE_WORDS: dict[str, type[Expr]] = {
    "min": e.Min,
    "max": e.Max,
    "truncdiv": e.Div,
    "Div": e.Div,
    "floordiv": e.FloorDiv,
    "FloorDiv": e.FloorDiv,
    "floormod": e.FloorMod,
    "FloorMod": e.FloorMod,
    "And": e.And,
    "Or": e.Or,
    "Min": e.Min,
    "Max": e.Max,
    "Add": e.Add,
    "Sub": e.Sub,
    "Mul": e.Mul,
    "div": e.Div,
    "indexdiv": e.FloorDiv,
    "indexmod": e.FloorMod,
    "EQ": e.EQ,
    "NE": e.NE,
    "LT": e.LT,
    "LE": e.LE,
    "GT": e.GT,
    "GE": e.GE,
}

INTRINSIC_ALIASES = {"power": "pow", "nearbyint": "round", "fabs": "abs", "ceiling": "ceil"}

DTYPE_WORDS = frozenset(
    f"{kind}{bits}"
    for kind, sizes in (
        ("float", (16, 32, 64)),
        ("int", (8, 16, 32, 64)),
        ("uint", (8, 16, 32, 64)),
    )
    for bits in sizes
) | {"bfloat16", "bool", "handle"}

_INSTEAD = {
    "IfExp": "Write T.if_then_else(condition, a, b).",
    "While": "Write a loop over a range, with an if inside.",
    "Return": "A PrimFunc returns nothing: its results are stored into its parameters.",
    "ListComp": "Write a loop.",
    "FunctionDef": "Functions stand beside one another, in a class decorated with @I.ir_module.",
    "Lambda": "Write the expression where it is used.",
    "Break": "Write the condition as an if inside of the loop.",
    "Continue": "Write the condition as an if inside of the loop.",
    "Assert": "A kernel checks nothing while it runs: its caller checks shapes and dtypes.",
    "Delete": "A name ends with the suite it stands in.",
    "NamedExpr": "Write name: T.int64 = value as a statement of its own.",
    "GeneratorExp": "Write a loop.",
    "JoinedStr": "Write the string.",
    "Raise": "A kernel raises nothing: its caller checks shapes and dtypes.",
    "Try": "A kernel raises nothing, so there is nothing to catch.",
}

_EXTERN = (
    "A PrimFunc calls functions of C, T.call_extern(dtype, symbol, args), and no others: those of "
    'Python a graph function calls, R.call_dps_packed("name", args, out_type).'
)
_POINTER = (
    "A pointer is an argument of T.call_extern alone: A.access_ptr(mask). Elsewhere index the "
    "buffer, or name a region of it with T.match_buffer."
)
_THREADS = (
    "The threads of T.thread_binding run as a loop on a CPU, one after the other: write a loop "
    "before the barrier and one after it."
)
_BARRIER = (
    "Leave it out: where threads of T.thread_binding exchange values through shared memory, each "
    "statement of all of them runs before the next."
)
_ATTRIBUTE = (
    "Write it where it belongs: annotations= of a loop, T.block_attr of a block, T.func_attr of "
    "the function; a number of threads is T.thread_binding(extent, thread=...)."
)
ELSEWHERE: dict[str, str] = {
    **dict.fromkeys(
        (
            "call_packed",
            "call_packed_lowered",
            "call_cpacked",
            "call_llvm_intrin",
            "call_llvm_pure_intrin",
            "call_intrin",
        ),
        _EXTERN,
    ),
    **dict.fromkeys(("ptr_byte_offset", "isnullptr"), _POINTER),
    **dict.fromkeys(("tvm_thread_allreduce", "tvm_warp_shuffle"), _THREADS),
    "tvm_storage_sync": _BARRIER,
    **dict.fromkeys(("attr", "iter_var", "env_thread", "AttrStmt"), _ATTRIBUTE),
    **dict.fromkeys(
        ("Assert", "assert"),
        "A kernel checks nothing: leave it out, or guard with T.if_then_else.",
    ),
    "allocate_const": "A constant comes in as a parameter, from a graph function's R.const.",
    "buffer_store": "Write A[i] = value.",
    "buffer_load": "Write A[i].",
    "store": "Write A[i] = value.",
    "load": "Write A[i].",
    "preflattened_buffer": "Write the parameter as T.Buffer(shape, dtype).",
    "realize": "Write A = T.alloc_buffer(shape, dtype).",
    "buffer_realize": "Write A = T.alloc_buffer(shape, dtype).",
    "comm_reducer": "Write a block with a reduce axis: T.init() and an update of the element.",
    "reduce": "Write a block with a reduce axis: T.init() and an update of the element.",
    "let": "Write T.Let(body, where={name: value}), or name: T.dtype = value as a statement.",
    "target": "The target belongs to burnish.build(mod, target=...).",
    "Shuffle": "Write loads of single elements, or a loop of T.vectorized.",
    "vscale": "Vectors have a fixed width here: write T.vectorized(extent).",
    "undef": "Write a value, such as a zero of the dtype.",
    "atomic_add": "Give each thread a buffer of its own (rfactor) and sum them afterwards.",
    "While": "Write a loop over a range, with an if inside.",
    "ret": "A PrimFunc returns nothing: its results are stored into its parameters.",
    "ldexp": "Write x * T.exp2(T.cast(e, dtype)).",
    "nextafter": "Write it with T.reinterpret: the neighbours of a float are those of its bits.",
    "clamp": "Write T.max(T.min(x, high), low).",
    "dynamic": "A size that only the caller knows is a variable: n = T.int64().",
}
"""Words of TVM that a PrimFunc of this compiler does not have, and what to write instead."""

SAME_WORD: dict[str, str] = {
    "T.sblock": "T.block",
    "T.sblock_attr": "T.block_attr",
    "T.sblock_alloc_buffer": "T.alloc_buffer",
    "T.ramp": "T.Ramp",
    "T.broadcast": "T.Broadcast",
    "T.axis.S": "T.axis.spatial",
    "T.axis.R": "T.axis.reduce",
}
"""Other spellings of words."""


def no_part(node: ast.AST) -> str:
    """The message for Python that the text form does not have."""
    kind = type(node).__name__
    advice = f" {_INSTEAD[kind]}" if kind in _INSTEAD else ""
    return f"Python's {kind} is not part of the text form of PrimFuncs.{advice}"


def is_dtype_word(name: str) -> bool:
    """Whether ``T.name`` is a dtype: ``float32``, or a vector of it, ``float32x8``."""
    scalar, x, lanes = name.partition("x")
    return scalar in DTYPE_WORDS and (not x or lanes.isdecimal())


def describe(value: Value) -> str:
    """A few words for a value, in errors."""
    if isinstance(value, Word):
        return f"the word {value.path}"
    if isinstance(value, Buffer):
        return f"the buffer {value.name!r}"
    if isinstance(value, Handle):
        return f"the handle {value.name!r} (no T.match_buffer says what it points to)"
    if isinstance(value, Expr):
        return f"an expression of dtype {value.dtype}"
    if isinstance(value, DType):
        return f"the dtype {value}"
    if isinstance(value, str):
        return f"the string {str(value)!r}"
    return f"a {type(value).__name__}"
