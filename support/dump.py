"""Dump: numbered files of every stage of a compilation, and an index with times and sizes.

    with Dump(directory) as dump:
        dump.write("00-import", module.script)           # 00-import.py
        dump.write("60-llvm/linear0", ir, suffix=".ll")  # one file a kernel, in a folder

A Dump without a directory does nothing and costs nothing: texts are given as functions and made
only if they are kept. It only writes; nothing is ever read back from it.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from .config import flag
from .errors import ConfigError

_UNSAFE = re.compile(r"[^0-9A-Za-z_.+-]+")


@dataclass(frozen=True, slots=True)
class DumpEntry:
    """A line of the index. ``seconds`` is the time since the previous entry, without writing."""

    file: str
    size: int
    seconds: float


class Dump:
    """Writes stages under ``directory``; with None, nowhere. Those ``printed`` go to stderr too."""

    def __init__(
        self, directory: str | os.PathLike[str] | None, printed: Collection[str] = ()
    ) -> None:
        self.directory = Path(directory) if directory is not None else None
        self.printed = frozenset(printed)
        self.entries: list[DumpEntry] = []
        if self.directory is not None:
            try:
                self.directory.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ConfigError(
                    f"Cannot keep stages in {str(self.directory)!r}: {error.strerror}."
                ) from error
        self._mark = time.perf_counter()

    @classmethod
    def from_flags(cls, name: str = "", printed: Collection[str] = ()) -> Dump:
        """The Dump that BURNISH_DUMP asks for, if any; stages that are ``printed`` go to stderr.

        Each compilation of a process gets a folder of its own below it, ``NAME`` or ``NAME-2`` ...,
        where ``name`` is given.
        """
        root: Path | None = flag("BURNISH_DUMP")
        if root is None or not name:
            return cls(root, printed)
        base = _UNSAFE.sub("_", name)
        number, folder = 1, root / base
        while folder.exists():
            number += 1
            folder = root / f"{base}-{number}"
        return cls(folder, printed)

    @property
    def enabled(self) -> bool:
        """Whether anything is kept or printed."""
        return self.directory is not None or bool(self.printed)

    def write(
        self, stage: str, content: str | bytes | Callable[[], str | bytes], *, suffix: str = ".py"
    ) -> Path | None:
        """Keep a stage and its line of the index; the path, or None where nothing is kept.

        A slash in ``stage`` makes a folder. Texts are UTF-8.
        """
        is_printed = stage.split("/")[0] in self.printed
        if self.directory is None and not is_printed:
            return None
        seconds = time.perf_counter() - self._mark
        data = content() if callable(content) else content
        if is_printed and isinstance(data, str):
            sys.stderr.write(f"# -- stage {stage}\n{data.rstrip()}\n")
        if self.directory is None:
            return None
        raw = data.encode() if isinstance(data, str) else data
        parts = [_UNSAFE.sub("_", part) for part in stage.split("/") if part.strip(".")]
        path = self.directory.joinpath(*parts[:-1], parts[-1] + suffix)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
        self.entries.append(
            DumpEntry(path.relative_to(self.directory).as_posix(), len(raw), seconds)
        )
        self._write_index()
        self._mark = time.perf_counter()
        return path

    def _write_index(self) -> None:
        """Rewritten at each stage, so that a compilation that fails leaves its index too."""
        assert self.directory is not None
        width = max(len(e.file) for e in self.entries)
        lines = [f"{'stage':<{width}}  {'seconds':>9}  {'bytes':>10}"]
        lines += [f"{e.file:<{width}}  {e.seconds:>9.4f}  {e.size:>10}" for e in self.entries]
        (self.directory / "index.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def __enter__(self) -> Dump:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """A failure is kept as well, in ``error.txt``."""
        if error is not None and self.directory is not None:
            (self.directory / "error.txt").write_text(
                f"{type(error).__name__}: {error}\n", encoding="utf-8"
            )
