"""Patterns of graphs under the names programs know them by: ``from burnish.patterns import is_op``.

    x, w = wildcard(), is_const()
    pattern = is_op("relu")(is_op("linear")(x, w))
    module = rewrite_call(pattern, lambda value, m: graph.op("my_linear_relu", m[x], m[w]), module)

Names only; the definitions are in ``graphir/patterns``. docs/patterns.md tells how they are used.
"""

from __future__ import annotations

from typing import NoReturn

from .graphir import ops as ops  # fills the operator table
from .graphir.passes.fuse_ops_by_pattern import FusionPattern
from .graphir.patterns import (
    Matched,
    Pattern,
    PatternContext,
    PatternError,
    find,
    is_call_dps,
    is_call_dps_packed,
    is_call_function,
    is_const,
    is_op,
    is_param,
    is_shape,
    is_tuple,
    is_tuple_get_item,
    is_var,
    match,
    rewrite_bindings,
    rewrite_call,
    rewrite_calls,
    wildcard,
)

_ELSEWHERE = {
    "DFPattern": "Pattern",
    "PatternMatchingRewriter": "rewrite_call, once for each pattern",
    "ExprPattern": "is_const(number), or a condition: wildcard().where(f)",
    "is_call_packed": "is_call_dps_packed",
    "is_call_tir": "is_call_dps",
    "is_dfv": "is_var",
    "is_expr": "is_const(number), or a condition: wildcard().where(f)",
    "is_gv": "is_call_dps(name) or is_call_function(name): a call of that function",
}
"""Names of TVM's relax.dpl that have another here."""


def __getattr__(name: str) -> NoReturn:
    known = _ELSEWHERE.get(name)
    hint = f"; here it is {known} (docs/patterns.md)" if known else ""
    raise AttributeError(f"module 'burnish.patterns' has no attribute {name!r}{hint}")


__all__ = [
    "FusionPattern", "Matched", "Pattern", "PatternContext", "PatternError", "find", "is_call_dps",
    "is_call_dps_packed", "is_call_function", "is_const", "is_op", "is_param", "is_shape",
    "is_tuple", "is_tuple_get_item", "is_var", "match", "rewrite_bindings", "rewrite_call",
    "rewrite_calls", "wildcard",
]  # fmt: skip
