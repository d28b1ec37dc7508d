"""The one table of environment flags. Nothing else in burnish reads the environment.

``flag("BURNISH_SEED")`` reads a flag now, so that a change of ``os.environ`` counts at once (only
``BURNISH_DEBUG_NODES`` acts when the node classes are made). An empty value means unset. A value
that a flag cannot have is a ConfigError, never ignored.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import ConfigError, InternalError, nearest


@dataclass(frozen=True, slots=True)
class Flag:
    """A row of the table. ``kind`` names a reader; ``default`` is the value of an unset flag."""

    name: str
    kind: str
    default: Any
    help: str

    def read(self, text: str) -> Any:
        """The value of a non-empty text; raises ConfigError where it has none."""
        expected, reader = _READERS[self.kind]
        try:
            return reader(text.strip())
        except ValueError:
            raise ConfigError(
                f"{self.name} expects {expected}, found {text!r}. Unset it or give it such a value."
            ) from None


@dataclass(frozen=True, slots=True)
class DebugSpec:
    """``BURNISH_DEBUG=2,graphir/passes/fuse_ops.py``: messages up to ``level`` from files whose
    path contains ``place`` (all of them where it is empty)."""

    level: int = 0
    place: str = ""

    def wants(self, level: int, file: str) -> bool:
        """Whether a message of this level from this file is to be shown."""
        return level <= self.level and self.place in file.replace(os.sep, "/")


def _read_bool(text: str) -> bool:
    known = {"1": True, "true": True, "yes": True, "on": True}
    known |= {"0": False, "false": False, "no": False, "off": False}
    if text.lower() not in known:
        raise ValueError(text)
    return known[text.lower()]


def _read_count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def _read_omp_count(text: str) -> int:
    """OpenMP allows one count for each nesting level; the outermost is ours."""
    return _read_count(text.split(",", 1)[0])


def _read_debug(text: str) -> DebugSpec:
    level, _, place = text.partition(",")
    return DebugSpec(int(level), place.strip())


def _read_names(text: str) -> tuple[str, ...]:
    return tuple([part.strip() for part in text.split(",") if part.strip()])


def _read_verify(text: str) -> str:
    if text not in ("none", "each"):
        raise ValueError(text)
    return text


def _read_path(text: str) -> Path:
    return Path(text).expanduser()


_READERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "bool": ("0 or 1", _read_bool),
    "count": ("a whole number of at least 1", _read_count),
    "omp": ("a whole number of at least 1 (or a list of them)", _read_omp_count),
    "int": ("a whole number", int),
    "dir": ("a directory", _read_path),
    "debug": ("LEVEL or LEVEL,PLACE with a whole number LEVEL", _read_debug),
    "names": ("names of passes separated by commas", _read_names),
    "verify": ("none or each", _read_verify),
}

FLAGS: dict[str, Flag] = {
    f.name: f
    for f in (
        Flag(
            "BURNISH_DUMP", "dir", None, "keep every stage of every compilation in this directory"
        ),
        Flag(
            "BURNISH_DEBUG",
            "debug",
            DebugSpec(),
            "LEVEL[,PLACE]: print messages up to LEVEL from files at PLACE",
        ),
        Flag(
            "BURNISH_DEBUG_NODES",
            "bool",
            False,
            "freeze IR nodes: assignment after construction raises",
        ),
        Flag("BURNISH_PRINT_AFTER", "names", (), "print the module after these passes (or `all`)"),
        Flag(
            "BURNISH_VERIFY",
            "verify",
            "none",
            "`each` verifies the module after every pass; `none` does not",
        ),
        Flag("BURNISH_SEED", "int", None, "seed of every search that is not given one"),
        Flag("BURNISH_NUM_THREADS", "count", None, "most threads a kernel may use"),
        Flag("OMP_NUM_THREADS", "omp", None, "the same; the smaller of the two counts"),
        Flag("BURNISH_BUILD_JOBS", "count", None, "most processes that compile a model's kernels"),
        Flag(
            "BURNISH_CACHE_DIR",
            "dir",
            Path("~/.cache/burnish"),
            "where object code and tuning records are kept",
        ),
        Flag(
            "BURNISH_DATA", "dir", None, "directory with the data sets of the demo and the examples"
        ),
    )
}


def flag(name: str) -> Any:
    """The value of an environment flag, or its default where it is unset or empty.

    Raises ConfigError for a value the flag cannot have, InternalError for a name not in the table.
    """
    row = FLAGS.get(name)
    if row is None:
        raise InternalError(f"{name} is not in the table of flags.{nearest(name, FLAGS)}")
    text = os.environ.get(name, "")
    if text.strip():
        return row.read(text)
    return row.default.expanduser() if isinstance(row.default, Path) else row.default


def unknown_flags() -> list[str]:
    """A complaint for each BURNISH_ variable of the environment that is no flag (a misspelling)."""
    return [
        f"{name} is not a flag of burnish.{nearest(name, FLAGS)}"
        for name in sorted(os.environ)
        if name.startswith("BURNISH_") and name not in FLAGS
    ]


def describe_flags() -> str:
    """The table as Markdown, as the README has it."""
    rows = ["| flag | default | meaning |", "|---|---|---|"]
    for row in FLAGS.values():
        unset = row.default in (None, (), DebugSpec())
        shown = str(int(row.default)) if row.kind == "bool" else str(row.default)
        rows.append(f"| `{row.name}` | {'' if unset else f'`{shown}`'} | {row.help} |")
    return "\n".join(rows) + "\n"


def debug(level: int, file: str, message: str | Callable[[], str]) -> None:
    """Print a message to stderr if BURNISH_DEBUG asks for this level and file (pass ``__file__``).

    A message that is costly to make is given as a function and made only if wanted.
    """
    spec: DebugSpec = flag("BURNISH_DEBUG")
    if spec.wants(level, file):
        text = message if isinstance(message, str) else message()
        place = "/".join(file.replace(os.sep, "/").split("/")[-2:])
        print(f"[{level} {place}] {text}", file=sys.stderr)
