"""The file of a saved model: named parts behind a table of contents, each with its hash.

    bytes       what
    8           magic: ``b"BURNISH\\n"``
    8           size of the table of contents, little-endian
    32          its SHA-256
    ...         the table of contents: JSON, UTF-8
    ...         the parts, each at a multiple of 64 bytes, large ones at a multiple of 4,096

The table of contents is an object: ``schema`` (an integer; a reader refuses newer ones), ``parts``
(name to ``[offset, size, SHA-256]``, offsets from the end of the table rounded up to 4,096), and
``model``, which is ``driver.save``'s. Hashes are compared before anything is made of a part, unless
the reader asks that they are not, and nothing is unpickled. Parts are mapped into memory, so that
several processes have one copy of the weights.

A file is written beside its place and moved there when it is complete, so that whoever looks finds
the old one or the new one.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import mmap
import os
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from ..support.errors import ArtifactError
from ..support.file_kind import HEAD_BYTES, kind_of_file
from ..support.whole_file import written_whole

MAGIC = b"BURNISH\n"
SCHEMA = 1
_HEAD = len(MAGIC) + 8 + 32
_PAGE = 4096
_LINE = 64
_MOST_CONTENTS = 1 << 28
_LARGE = 1 << 18
"""Bytes of parts that are compared in the background."""
_MOST_THREADS = 4


class Artifact:
    """An opened file. ``path`` says where it came from; ``model`` is the description, ``image`` the
    whole file, ``part(name)`` the bytes of a part, mapped and read-only. Parts stay valid as long
    as somebody holds one."""

    def __init__(
        self,
        path: Path | str,
        model: Any,
        parts: Mapping[str, memoryview],
        image: memoryview,
        large: _Hashes,
    ) -> None:
        self.path, self.model, self.image = path, model, image
        self._parts, self._large = parts, large

    def finish_verifying(self) -> None:
        """Wait until the hashes of all parts have been compared. Raises ArtifactError."""
        damaged = self._large.finish()
        if damaged is not None:
            raise _damaged(self.path, damaged)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parts, in the order of the file."""
        return tuple(self._parts)

    def part(self, name: str) -> memoryview:
        """The bytes of a part. Raises ArtifactError for one that the file has not."""
        try:
            return self._parts[name]
        except KeyError:
            raise ArtifactError(f"{self.path} has no part {name!r}: it is incomplete.") from None


class _Hashes:
    """Hashes of parts, compared by threads and by who waits for them: hashing holds no lock."""

    def __init__(self, parts: Sequence[tuple[str, memoryview, str]]) -> None:
        self._left = deque(sorted(parts, key=lambda part: part[1].nbytes, reverse=True))
        self._damaged: list[str] = []
        count = min(len(parts), len(os.sched_getaffinity(0)), _MOST_THREADS)
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(count)]
        # Where no thread can be had, who waits does it all.
        with contextlib.suppress(RuntimeError):
            for thread in self._threads:
                thread.start()

    def _work(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                name, part, digest = self._left.popleft()
                if hashlib.sha256(part).hexdigest() != digest:
                    self._damaged.append(name)

    def finish(self) -> str | None:
        """A part whose hash is another, or None, when all have been compared."""
        self._work()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        self._threads = []
        return self._damaged[0] if self._damaged else None


def is_artifact(path: str | Path) -> bool:
    """Whether a file begins as saved models do."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def write_artifact(path: str | Path, model: Any, parts: Mapping[str, Any]) -> int:
    """Write a file; ``parts`` are names to bytes-like objects, ``model`` anything JSON has. Returns
    the file's size in bytes.

    Raises ArtifactError where the file cannot be written; what stood at ``path`` then still does.
    """
    path = Path(path)
    try:
        with written_whole(path) as file:
            return _write(file, model, parts)
    except OSError as error:
        raise ArtifactError(f"{path} cannot be written: {error.strerror or error}.") from error


def artifact_image(model: Any, parts: Mapping[str, Any]) -> bytes:
    """The bytes that ``write_artifact`` writes, in memory."""
    file = io.BytesIO()
    _write(file, model, parts)
    return file.getvalue()


def _write(file: IO[bytes], model: Any, parts: Mapping[str, Any]) -> int:
    """Write all to an empty file; its size."""
    views = {name: memoryview(part).cast("B") for name, part in parts.items()}
    table: dict[str, list[Any]] = {}
    offset = 0
    for name, view in views.items():
        offset = _up(offset, _PAGE if view.nbytes >= _PAGE else _LINE)
        table[name] = [offset, view.nbytes, hashlib.sha256(view).hexdigest()]
        offset += view.nbytes
    contents = json.dumps({"schema": SCHEMA, "model": model, "parts": table}).encode()
    head = MAGIC + len(contents).to_bytes(8, "little") + hashlib.sha256(contents).digest()
    start = _up(_HEAD + len(contents), _PAGE)
    file.write(head + contents)
    for name, view in views.items():
        _fill(file, start + table[name][0])
        file.write(view)
    return int(file.tell())


def read_artifact(path: str | Path, *, verify: bool = True) -> Artifact:
    """Open a file. ``verify=False`` does not compare the parts' hashes, which reads all of them;
    the table of contents is always compared.

    Raises ArtifactError for what is no such file, was written by a newer version, is truncated, or
    has a byte that is not as it was written.
    """
    artifact = open_artifact(path, verify=verify)
    artifact.finish_verifying()
    return artifact


def open_artifact(path: str | os.PathLike[str], *, verify: bool = True) -> Artifact:
    """``read_artifact`` that does not wait for the hashes of large parts: they are compared while
    the caller goes on, who calls ``finish_verifying`` before he hands out anything. Small parts,
    such as code and texts, have been compared. Raises as ``read_artifact`` does."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size < _HEAD:
                raise _foreign(path, file.read())
            view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror or error}.") from error
    return _opened(view, path, verify=verify)


def read_image(image: memoryview | bytes, path: Path | str, *, verify: bool = True) -> Artifact:
    """An artifact whose bytes are at hand; ``path`` is what errors call it. Raises as
    ``read_artifact`` does."""
    artifact = _opened(image, path, verify=verify)
    artifact.finish_verifying()
    return artifact


def _opened(image: memoryview | bytes, path: Path | str, *, verify: bool) -> Artifact:
    view = memoryview(image)
    contents = _contents(path, view)
    schema, model, places = _table(path, contents)
    if schema > SCHEMA:
        raise ArtifactError(
            f"{path} has format {schema}; this burnish reads up to {SCHEMA}. Load it with a newer "
            "burnish, or save the model again with this one."
        )
    start = _up(_HEAD + len(contents), _PAGE)
    parts: dict[str, memoryview] = {}
    large: list[tuple[str, memoryview, str]] = []
    for name, offset, count, digest in places:
        part = view[start + offset : start + offset + count]
        if offset < 0 or part.nbytes != count:
            raise ArtifactError(
                f"{path} is truncated: part {name!r} ends behind the end of the file "
                f"({view.nbytes} bytes)."
            )
        if verify and count >= _LARGE:
            large.append((name, part, digest))
        elif verify and hashlib.sha256(part).hexdigest() != digest:
            raise _damaged(path, name)
        parts[name] = part
    return Artifact(path, model, parts, view, _Hashes(large))


def _foreign(path: Path | str, head: bytes) -> ArtifactError:
    """Of a file that begins so."""
    kind, advice = kind_of_file(path, head)
    return ArtifactError(
        f"{path} is not a model saved by burnish: it is {kind}. "
        f"{advice or 'Such files are written by model.save and by burnish compile -o.'}"
    )


def _damaged(path: Path | str, part: str) -> ArtifactError:
    return ArtifactError(f"{path} is damaged: the hash of part {part!r} is another.")


def _contents(path: Path | str, view: memoryview) -> bytes:
    """The table of contents, which is as it was written."""
    head = bytes(view[:_HEAD])
    if head[: len(MAGIC)] != MAGIC or len(head) < _HEAD:
        raise _foreign(path, bytes(view[:HEAD_BYTES]))
    length = int.from_bytes(head[len(MAGIC) : len(MAGIC) + 8], "little")
    if length > min(view.nbytes - _HEAD, _MOST_CONTENTS):
        raise ArtifactError(f"{path} is truncated: its table of contents is not whole.")
    contents = bytes(view[_HEAD : _HEAD + length])
    if hashlib.sha256(contents).digest() != head[len(MAGIC) + 8 :]:
        raise ArtifactError(f"{path} is damaged: the hash of its table of contents is another.")
    return contents


def _table(path: Path | str, contents: bytes) -> tuple[int, Any, list[tuple[str, int, int, str]]]:
    """(schema, description, parts) of a table of contents."""
    try:
        table = json.loads(contents)
        places = [(str(n), int(o), int(c), str(d)) for n, (o, c, d) in table["parts"].items()]
        return int(table["schema"]), table["model"], places
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ArtifactError(f"{path}: its table of contents is none: {error!r}.") from error


def _fill(file: Any, position: int) -> None:
    file.write(bytes(position - file.tell()))


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
