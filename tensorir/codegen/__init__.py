"""Lowered functions to object code, through LLVM."""

from .object import ObjectCode, emit_object
from .segment import SegmentCall, emit_segment

__all__ = ["ObjectCode", "SegmentCall", "emit_object", "emit_segment"]
