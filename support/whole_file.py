"""Files that are there whole or not at all: written beside their place, and moved there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def written_whole(path: Path, *, sync: bool = True) -> Iterator[IO[bytes]]:
    """A file to write, which takes the place of ``path`` when the block ends and it is on the disk.

    Whoever looks finds the old file or the new one, also after a crash of the process, and with
    ``sync`` after one of the machine. Raises OSError; what stood at ``path`` then still does, and
    nothing is left beside it.
    """
    part = path.parent / f".{path.name}.{os.urandom(8).hex()}.part"
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with open(os.open(part, flags, 0o666), "w+b") as file:
        try:
            yield file
            file.flush()
            if sync:
                os.fsync(file.fileno())
            os.replace(part, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(part)
            raise
