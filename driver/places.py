"""Where the commands write: looked at first, so that nothing is computed that could not be kept."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ..support.errors import ArgumentError


def verify_places(
    files: Mapping[str, str | None], folders: Mapping[str, str | None] | None = None
) -> None:
    """Raise ArgumentError where something could not be written to the file or folder (which is made
    where there is none) of an option. What is None is not asked for."""
    kept: list[tuple[str, Path]] = []
    for option, name in files.items():
        if name is None:
            continue
        place = Path(name).absolute()
        if place.is_dir():
            raise ArgumentError(f"{option}: expected the name of a file; {place} is a folder.")
        kept.append((option, place.parent))
    for option, name in (folders or {}).items():
        if name is not None:
            place = Path(name).absolute()
            kept.append((option, next(p for p in (place, *place.parents) if p.exists())))
    for option, folder in kept:
        if not (folder.is_dir() and os.access(folder, os.W_OK)):
            raise ArgumentError(
                f"{option}: nothing can be written into {folder}; expected a place in a folder "
                "that is there and may be written."
            )


__all__ = ["verify_places"]
