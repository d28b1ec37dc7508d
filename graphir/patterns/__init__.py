"""Patterns of graphs: what they say (pattern), where they stand (matching, context), and what is
put in their place (rewriting)."""

from .context import PatternContext
from .matching import Matched, find, match
from .pattern import (
    Pattern,
    PatternError,
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
    wildcard,
)
from .rewriting import rewrite_bindings, rewrite_call, rewrite_calls

__all__ = [
    "Matched", "Pattern", "PatternContext", "PatternError", "find", "is_call_dps",
    "is_call_dps_packed", "is_call_function", "is_const", "is_op", "is_param", "is_shape",
    "is_tuple", "is_tuple_get_item", "is_var", "match", "rewrite_bindings", "rewrite_call",
    "rewrite_calls", "wildcard",
]  # fmt: skip
