"""Asks the system for AMX's tile registers, which no process has by itself.

Linux (5.16 and newer) saves the 8 KiB of the tiles for processes that have asked, once each: the
permission holds for all threads, those that exist and those to come, and goes on to forks, not to
programs that are started. The first instruction on tiles of a process without it ends the process.
See Documentation/arch/x86/xstate.rst of the kernel.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

_ARCH_PRCTL = 158
_REQUEST_PERMISSION = 0x1023
_TILE_DATA = 18


@cache
def refused_tiles() -> str:
    """Why this process may not use tile registers; "" where it may. Ask where the CPU has them."""
    if not sys.platform.startswith("linux"):
        return f"permission is asked of Linux alone, and this is {sys.platform}"
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = [ctypes.c_long(v) for v in (_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA)]
    if libc.syscall(*arguments) == 0:
        return ""
    error = ctypes.get_errno()
    return f"the system refuses tile registers (arch_prctl: {os.strerror(error)})"
