"""What a CPU's memory can do: the bytes that loads bring in a cycle, level by level.

``target.memory`` has the figures: of one core from L1, L2, L3 and memory, and of all cores together
from L3 and memory, which they share. They are data of the target (``-bandwidth``,
``-shared-bandwidth``), in its text where they are not those of the table: equal targets give equal
programs.

The table (``target.py``) has figures by CPU. ``burnish info --probe`` measures those of this
machine and keeps them on disk, in a file for each CPU and number of cores; ``native`` takes them
from there. Nothing else writes the file: what is compiled changes when somebody asks for a probe,
and at no other time.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

from .abi import PAGE_BYTES
from .caller import callers_level
from .config import cache_dir
from .errors import ConfigError
from .whole_file import written_whole

VERSION = 2
"""Of the file."""
_RATES = {"bandwidth": 4, "shared_bandwidth": 2}
"""How many figures there are of each."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The ``sizes`` in bytes of L1, L2 and L3, and the bytes a cycle that come to one core from
    each of them and from memory, and to all together from L3 and memory."""

    sizes: tuple[int, ...]
    one_core: tuple[float, ...]
    all_cores: tuple[float, ...]

    @property
    def ways(self) -> int:
        """How many lines with one place in their pages L1 holds."""
        return self.sizes[0] // PAGE_BYTES

    def bytes_a_cycle(self, size: float) -> float:
        """What a core loads where so many bytes are used again and again."""
        return self.one_core[sum([size > held for held in self.sizes])]


@dataclass(frozen=True, slots=True)
class Probe:
    """Figures that were measured: see ``Memory``; ``clock`` in GHz makes bytes a second of them."""

    cpu: str
    cores: int
    clock: float
    bandwidth: tuple[float, ...]
    shared_bandwidth: tuple[float, ...]


def probe_file(cpu: str, cores: int) -> Path:
    """Where the figures of a CPU are kept."""
    return cache_dir() / f"memory-{cpu}-{cores}.json"


def save_probe(probe: Probe) -> Path:
    """Keep figures. The file is there whole or not at all. Raises ConfigError where it cannot be
    written."""
    path = probe_file(probe.cpu, probe.cores)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(path) as file:
            file.write(json.dumps({"version": VERSION, **asdict(probe)}).encode())
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error}. Set BURNISH_CACHE_DIR to a directory that can."
        ) from error
    return path


def load_probe(cpu: str, cores: int) -> Probe | None:
    """The figures that are kept; None where there are none. A file that is no such probe is left
    alone, with a warning."""
    path = probe_file(cpu, cores)
    try:
        kept = json.loads(path.read_text())
        if kept.pop("version") != VERSION:
            raise ValueError("another version")
        kept |= {name: _rates(kept[name], n) for name, n in _RATES.items()}
        probe = Probe(**kept)
        if (probe.cpu, probe.cores) != (cpu, cores) or not float(probe.clock) > 0:
            raise ValueError("another machine")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        warnings.warn(
            f"{path} is no probe of {cpu} with {cores} cores: the table's figures are used. "
            "`burnish info --probe` measures and writes it anew.",
            stacklevel=callers_level(),
        )
        return None
    return probe


def _rates(values: object, count: int) -> tuple[float, ...]:
    if not isinstance(values, list) or len(values) != count:
        raise ValueError(values)
    found = tuple([float(v) for v in values])
    if not all(0 < v < float("inf") for v in found):
        raise ValueError(values)
    return found
