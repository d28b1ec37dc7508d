"""Small texts kept in the cache folder between processes: whole, one's own, or not there."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from .whole_file import written_whole


def kept_text(path: Path) -> str | None:
    """What ``keep_text`` wrote; None where nothing is there, it is not as it was written, or it is
    somebody else's."""
    try:
        if path.stat().st_uid not in (os.geteuid(), 0):
            return None
        text, _, digest = path.read_text().rpartition("\n")
    except (OSError, ValueError):
        return None
    return text if hashlib.sha256(text.encode()).hexdigest() == digest else None


def keep_text(path: Path, text: str) -> None:
    """Keep a text for the next process; where the folder cannot be written, nothing is kept."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(path, sync=False) as file:
            file.write(f"{text}\n{hashlib.sha256(text.encode()).hexdigest()}".encode())
