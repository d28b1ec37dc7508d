"""Lowered functions to object code, through LLVM."""

from .object import ObjectCode, emit_object
from .segment import emit_segment

__all__ = ["ObjectCode", "emit_object", "emit_segment"]
