"""The one table of environment flags. Nothing else in burnish reads the environment.

``flag("BURNISH_SEED")`` reads a flag now, so that a change of ``os.environ`` counts at once (only
``BURNISH_DEBUG_NODES`` acts when the node classes are made). An empty value means unset. A value
that a flag cannot have is a ConfigError, never ignored.
"""

from __future__ import annotations

import os
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
    "names": ("names of passes or stages separated by commas", _read_names),
    "verify": ("none or each", _read_verify),
}

FLAGS: dict[str, Flag] = {
    f.name: f
    for f in (
        Flag(
            "BURNISH_DUMP", "dir", None, "keep every stage of every compilation in this directory"
        ),
        Flag(
            "BURNISH_DEBUG_NODES",
            "bool",
            False,
            "freeze IR nodes: assignment after construction raises",
        ),
        Flag(
            "BURNISH_PRINT_AFTER",
            "names",
            (),
            "print the module after these passes or stages, comma-separated (or `all` passes)",
        ),
        Flag(
            "BURNISH_VERIFY",
            "verify",
            "each",
            "`each` verifies the module after every pass; `none` verifies only what is imported",
        ),
        Flag(
            "BURNISH_RAISE_DEFECTS",
            "bool",
            False,
            "raise what goes wrong inside a schedule rule; otherwise the next rule takes over",
        ),
        Flag(
            "BURNISH_TILES",
            "bool",
            True,
            "`0`: registers that are tiles (AMX) are not used, though the CPU has them",
        ),
        Flag("BURNISH_SEED", "int", None, "seed of every search that is not given one"),
        Flag("BURNISH_NUM_THREADS", "count", None, "most threads a kernel may use"),
        Flag("OMP_NUM_THREADS", "omp", None, "the same; the smaller of the two counts"),
        Flag("BURNISH_BUILD_JOBS", "count", None, "most processes that compile a model's kernels"),
        Flag(
            "BURNISH_DATA",
            "dir",
            None,
            "directory with the data set of the demo and the examples, where `--data` names none",
        ),
        Flag(
            "BURNISH_CACHE_DIR",
            "dir",
            None,
            "directory of what is kept between processes; otherwise `burnish` in the next one",
        ),
        Flag(
            "BURNISH_CACHE",
            "bool",
            True,
            "keep object code and schedules there, for the next process that compiles the same",
        ),
        Flag("BURNISH_CACHE_SIZE", "count", 512, "megabytes that these may take"),
        Flag(
            "BURNISH_PERF_MAP",
            "bool",
            False,
            "write /tmp/perf-PID.map, by which `perf` names kernels",
        ),
        Flag("XDG_CACHE_HOME", "dir", Path("~/.cache"), "directory of all programs' such files"),
    )
}


def cache_dir() -> Path:
    """The directory of what is kept between processes; it need not be there."""
    own: Path | None = flag("BURNISH_CACHE_DIR")
    home: Path = flag("XDG_CACHE_HOME")
    try:
        return own or home.expanduser() / "burnish"
    except RuntimeError:  # a user without a home, as in some containers
        return Path(os.environ.get("TMPDIR", "/tmp")) / f"burnish-{os.getuid()}"


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
    return row.default


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
        unset = row.default in (None, ())
        shown = str(int(row.default)) if row.kind == "bool" else str(row.default)
        rows.append(f"| `{row.name}` | {'' if unset else f'`{shown}`'} | {row.help} |")
    return "\n".join(rows) + "\n"
