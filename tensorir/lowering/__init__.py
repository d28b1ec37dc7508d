"""Blocks to loops over flat memory; ``pipeline`` is the ordered list."""

from .pipeline import LoweredFunc, lower_func

__all__ = ["LoweredFunc", "lower_func"]
