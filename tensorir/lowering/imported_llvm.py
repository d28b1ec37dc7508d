"""LLVM IR that a program brings along: the annotation ``pragma_import_llvm`` of a loop or block."""

from __future__ import annotations

from ...support.errors import CodegenError
from ...support.node import walk
from ..function import PrimFunc
from ..stmt import LEAVES, Block, For, annotation

IMPORT_LLVM = "pragma_import_llvm"
"""The annotation with the text."""


def imported_llvm(func: PrimFunc) -> tuple[str, ...]:
    """The texts of a function, each once, in order. Raises CodegenError for what is no text."""
    found: dict[str, None] = {}
    for n in walk(func.body, LEAVES):
        text = annotation(n, IMPORT_LLVM) if isinstance(n, (For, Block)) else None
        if text is None:
            continue
        if not isinstance(text, str):
            raise CodegenError(
                f"The annotation {IMPORT_LLVM} is the text of LLVM IR; found {text!r}."
            )
        found[text] = None
    return tuple(found)


__all__ = ["IMPORT_LLVM", "imported_llvm"]
