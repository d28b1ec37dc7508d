"""The file by which ``perf`` names machine code that was made at run time: ``/tmp/perf-<pid>.map``.

A line a function, ``address size name`` in hexadecimal: kernels, and their inner functions, which
object files keep to themselves and whose place is told by a kernel of the same section. Written
where BURNISH_PERF_MAP asks for it:

    BURNISH_PERF_MAP=1 perf record -g python program.py && perf report
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from .elf import elf_functions


def perf_map_path() -> Path:
    """Where ``perf`` looks for the functions of this process."""
    return Path(f"/tmp/perf-{os.getpid()}.map")


def write_perf_map(images: Sequence[bytes], addresses: Mapping[str, int]) -> None:
    """Add the functions of linked objects, whose global symbols are at ``addresses``. A file that
    cannot be written is not."""
    lines: list[str] = []
    for image in images:
        functions = list(elf_functions(image))
        bases = {f.section: addresses[f.name] - f.offset for f in functions if f.name in addresses}
        lines += [
            f"{bases[f.section] + f.offset:x} {f.size:x} {f.name}\n"
            for f in functions
            if f.section in bases and f.size
        ]
    try:
        with perf_map_path().open("a", encoding="utf-8") as file:
            file.writelines(lines)
    except OSError:
        return
