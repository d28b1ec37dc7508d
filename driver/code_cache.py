"""What was compiled before, kept on disk for the next process: object code and schedules.

An entry is a file ``code/<content>-<circumstances>`` in the cache folder. *Content* is a hash of
what was compiled: a function with its names, a segment. *Circumstances* are a hash of all else that
the result depends on: the target, the compiler's own source, the version of LLVM. So an entry that
does not fit is never found, and when only the circumstances are others, a miss can say which.

    bytes       what
    8           magic
    32          SHA-256 of the rest
    4           size of the header, little-endian
    ...         the header, JSON: kind, name, circumstances
    ...         the payload, of whoever keeps it

Entries are written beside their place and moved there. A file that is not as it was written counts
as none, and is written anew. A folder that cannot be written is read; one that others may write is
not used. When entries take more than BURNISH_CACHE_SIZE, those that were used longest ago go.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pickle
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from .. import __version__
from ..support.config import cache_dir, flag
from ..support.kept_text import keep_text, kept_text
from ..support.target import Target
from ..support.whole_file import written_whole

_MAGIC = b"BURNCODE"
_HEAD = len(_MAGIC) + 32 + 4
_ROOMS = ("support", "tensorir", "graphir", "tuner", "driver", "vm")
"""Folders of the package whose source decides what is compiled."""
_MEGABYTE = 1 << 20
_PRUNED_TO = 0.8
"""The share of the largest size that is left when entries go."""
_SHOWN = 4
"""How many names of parts that were not there a report shows."""
_BETWEEN_PRUNES = 64 << 20
"""Bytes that a process writes before it looks at the size of the folder again."""


@dataclass
class CacheUse:
    """What one compilation found: the names of entries that were there, and of those that were not
    with the reason; ``problems`` are sentences."""

    found: list[str] = field(default_factory=list)
    missed: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """For a report; none where no cache was used."""
        count = len(self.found) + len(self.missed)
        lines = [f"  cache: {len(self.found)} of {count} parts found"] if count else []
        by_reason: dict[str, list[str]] = {}
        for name, reason in self.missed.items():
            by_reason.setdefault(reason, []).append(name)
        for reason, names in by_reason.items():
            rest = len(names) - _SHOWN
            more = f" and {rest} more (report.cache.missed has all)" if rest > 0 else ""
            lines.append(f"    {reason}: {', '.join(names[:_SHOWN])}{more}")
        return lines + [f"    {problem}" for problem in self.problems]


@dataclass(frozen=True)
class Entry:
    """A file of the cache: ``header`` says what it is."""

    path: Path
    header: Mapping[str, Any]
    size: int
    used: float
    """When, in seconds of the epoch."""


class CodeCache:
    """The cache in a folder, which need not be there. Nothing here raises: a cache that fails is
    one that has nothing."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder, self.limit = folder, limit
        self._written = _BETWEEN_PRUNES
        self._refused = _is_open_to_others(folder)

    def get(self, kind: str, content: str, target: Target, name: str, use: CacheUse) -> Any:
        """What was kept, unpickled; None where it is not there, with the reason in ``use``."""
        if self._refused:
            use.problems = [f"{self.folder} is not used: others may write it."]
            return None
        path = self._path(kind, content, target)
        label = name if kind != "schedule" else f"the schedule of {name}"
        found = _read(path)
        if found is not None:
            with contextlib.suppress(OSError):
                os.utime(path)
            with contextlib.suppress(*_UNREADABLE):
                value = pickle.loads(found[1])
                use.found.append(label)
                return value
        use.missed[label] = self._reason(path, kind, content, target)
        return None

    def has(self, kind: str, content: str, target: Target) -> bool:
        """Whether there is an entry; its file may be damaged."""
        return not self._refused and self._path(kind, content, target).exists()

    def put(
        self, kind: str, content: str, target: Target, name: str, value: object, use: CacheUse
    ) -> None:
        """Keep a value; where that fails, ``use`` says why."""
        if self._refused:
            return
        path = self._path(kind, content, target)
        header = json.dumps({"kind": kind, "name": name, **_circumstances(target)}).encode()
        try:
            body = len(header).to_bytes(4, "little") + header + pickle.dumps(value)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with written_whole(path, sync=False) as file:
                file.write(_MAGIC + hashlib.sha256(body).digest() + body)
        except OSError as error:
            use.problems = [f"{self.folder} cannot be written: {error.strerror or error}."]
            return
        except RecursionError:  # a function that is nested too deeply to be kept
            return
        self._written += _HEAD + len(body)
        if self._written >= _BETWEEN_PRUNES:
            self._written = 0
            self.prune()

    def entries(self) -> Iterator[Entry]:
        """The entries that are whole, those used last first."""
        for size, used, path in sorted(self._files(), key=lambda f: -f[1]):
            whole = Path(path)
            found = _read(whole) if whole.name[0] != "." else None
            if found is not None:
                yield Entry(whole, found[0], size, used)

    def prune(self) -> None:
        """Where the folder is too large, remove what was used longest ago."""
        files = sorted(self._files(), key=lambda f: f[1])
        total = sum(size for size, _, _ in files)
        if total <= self.limit:
            return
        for size, _, path in files:
            if total <= self.limit * _PRUNED_TO:
                return
            with contextlib.suppress(OSError):
                os.unlink(path)
                total -= size

    def clear(self) -> int:
        """Remove all entries; how many there were."""
        count = 0
        for _, _, path in self._files():
            with contextlib.suppress(OSError):
                os.unlink(path)
                count += 1
        return count

    def _files(self) -> list[tuple[int, float, str]]:
        """(size, last use, path) of each file, also of those that a killed process left. There may
        be a hundred thousand, and each process looks once: paths stay texts."""
        found = []
        for name in (f"{number:02x}" for number in range(256)):
            with contextlib.suppress(OSError), os.scandir(self.folder / name) as files:
                for file in files:
                    with contextlib.suppress(OSError):
                        known = file.stat()
                        found.append((known.st_size, known.st_mtime, file.path))
        return found

    def _path(self, kind: str, content: str, target: Target) -> Path:
        first = hashlib.sha256(f"{kind}\n{content}".encode()).hexdigest()[:32]
        known = json.dumps(_circumstances(target), sort_keys=True)
        return (
            self.folder / first[:2] / f"{first}-{hashlib.sha256(known.encode()).hexdigest()[:32]}"
        )

    def _reason(self, path: Path, kind: str, content: str, target: Target) -> str:
        """Why there is no entry."""
        if path.exists():
            return "there, but damaged"
        wanted = _circumstances(target)
        first = path.name.partition("-")[0]
        headers = [_read(other) for other in path.parent.glob(f"{first}-*")]
        differences = [
            [k for k, value in wanted.items() if found[0].get(k) != value]
            for found in headers
            if found is not None
        ]
        if not differences:
            return "compiled for the first time"
        fewest = min(differences, key=len)
        return f"there, but with another {' and '.join(fewest)}"


_UNREADABLE = (
    *(pickle.UnpicklingError, ValueError, TypeError, KeyError, IndexError, AttributeError),
    *(ImportError, EOFError),
)


def code_cache() -> CodeCache | None:
    """The process's cache as the flags want it; None where there is none."""
    if not flag("BURNISH_CACHE"):
        return None
    return _opened(cache_dir() / "code", int(flag("BURNISH_CACHE_SIZE")) * _MEGABYTE)


@cache
def _opened(folder: Path, limit: int) -> CodeCache:
    return CodeCache(folder, limit)


def _circumstances(target: Target) -> dict[str, str]:
    return {"target": str(target), **_versions()}


@cache
def _versions() -> dict[str, str]:
    return {
        "burnish": __version__,
        "source": _source_digest(),
        "llvmlite": metadata.version("llvmlite"),
        "Python": ".".join(map(str, sys.version_info[:2])),
    }


def _source_digest() -> str:
    """A hash of the compiler's source: what another one compiled is not ours. That of files that
    nobody has touched since is kept, since reading all of them takes as long as a small model."""
    root = Path(__file__).resolve().parent.parent
    inside = [found for room in _ROOMS for found in os.walk(root / room)]
    files = sorted(
        [os.path.join(at, f) for at, _, names in inside for f in names if f[-3:] == ".py"]
    )
    touched = hashlib.sha256()
    for path in files:
        known = os.stat(path)
        when = (known.st_ino, known.st_size, known.st_mtime_ns, known.st_ctime_ns)
        touched.update(f"{path}\0{when}\0".encode())
    place = hashlib.sha256(str(root).encode()).hexdigest()[:16]
    kept = cache_dir() / f"source-{place}.txt"
    if flag("BURNISH_CACHE"):
        stamp, _, digest = (kept_text(kept) or "").partition(" ")
        if stamp == touched.hexdigest():
            return digest
    found = hashlib.sha256()
    for source in map(Path, files):
        found.update(source.relative_to(root).as_posix().encode() + b"\0" + source.read_bytes())
    digest = found.hexdigest()[:16]
    if flag("BURNISH_CACHE"):
        keep_text(kept, f"{touched.hexdigest()} {digest}")
    return digest


def _read(path: Path) -> tuple[dict[str, Any], bytes] | None:
    """(header, payload) of a file that is as it was written."""
    try:
        whole = path.read_bytes()
    except OSError:
        return None
    body = whole[len(_MAGIC) + 32 :]
    if whole[: len(_MAGIC)] != _MAGIC or len(whole) < _HEAD:
        return None
    if hashlib.sha256(body).digest() != whole[len(_MAGIC) : len(_MAGIC) + 32]:
        return None
    size = int.from_bytes(body[:4], "little")
    try:
        header = json.loads(body[4 : 4 + size])
    except ValueError:
        return None
    return (header, body[4 + size :]) if isinstance(header, dict) else None


def _is_open_to_others(folder: Path) -> bool:
    """Whether somebody else may put machine code there."""
    try:
        known = folder.stat()
    except OSError:
        return False
    return bool(known.st_mode & stat.S_IWOTH) or known.st_uid not in (os.geteuid(), 0)
