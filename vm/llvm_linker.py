"""Links object code into this process with LLVM's linker: what ``linker`` leaves to it.

The only file of vm that touches llvmlite, and only its linker.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Sequence

import llvmlite.binding as llvm

from ..support.errors import VMError

_lock = threading.Lock()
_numbers = itertools.count()
_linker: llvm.LLJIT | None = None


def link_with_llvm(
    images: Sequence[bytes], symbols: Iterable[str]
) -> tuple[object, dict[str, int]]:
    """(what keeps the code, addresses of these symbols) of objects that see each other's symbols
    and the process's. Raises VMError."""
    builder = llvm.JITLibraryBuilder()
    for image in images:
        builder.add_object_img(image)
    builder.add_current_process()
    for name in symbols:
        builder.export_symbol(name)
    with _lock:
        try:
            tracker = builder.link(_lljit(), f"burnish.{next(_numbers)}")
        except RuntimeError as error:
            raise VMError(f"The object code cannot be linked: {error}") from error
    return tracker, {name: tracker[name] for name in symbols}


def _lljit() -> llvm.LLJIT:
    """The process's linker, made at the first load and kept.

    JITLink puts all sections of an object into one reservation of memory and makes stubs for what
    is far away; the older linker takes memory section by section, and ends the process where two of
    them, which the code expects near each other, come to lie more than 2 GiB apart.
    """
    global _linker
    if _linker is None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        _linker = llvm.create_lljit_compiler(use_jit_link=True, suppress_errors=True)
    return _linker
