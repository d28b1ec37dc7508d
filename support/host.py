"""Looks at the machine: CPU name, features, caches and cores, as a resolved Target.

Nothing else in the compiler asks the machine anything. Name and features are LLVM's answers, kept
in the cache for the next process, because importing it takes longer than loading a model: in a file
that is named by what the kernel says of the processor and by the installed llvmlite. The permission
to use tile registers is the system's (``tile_permission``). Sizes come from sysfs where it tells
them, cores from the process's affinity, and what memory can do from a probe that somebody asked for
(``support/memory.py``), where there was one.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from .config import cache_dir, flag
from .instructions import implied_features
from .kept_text import keep_text, kept_text
from .memory import load_probe
from .target import CPUS, Target
from .tile_permission import refused_tiles

_DEFAULT_L1, _DEFAULT_L2, _DEFAULT_L3 = 32 * 1024, 512 * 1024, 8 * 1024 * 1024
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_PROCESSORS = Path("/proc/cpuinfo")
_VARYING = ("processor", "cpu MHz", "bogomips", "core id", "apicid", "initial apicid")
"""Lines on a processor that are not the same for all and always."""

Processor = tuple[str, str, set[str]]
"""(name, triple, features that are there)."""


@cache
def native_target() -> Target:
    """The machine at hand as a resolved target."""
    cpu, triple, features = _processor()
    features = _allowed(features)
    bits, registers = _vectors(triple, features)
    known, probe = CPUS.get(cpu), load_probe(cpu, cores())
    caches = _cache_sizes()
    return Target(
        "llvm",
        triple=triple,
        cpu=cpu,
        features=_feature_list(features, cpu),
        vector_bits=bits,
        vector_registers=registers,
        l1_bytes=caches.get(1) or (known.l1_bytes if known else _DEFAULT_L1),
        l2_bytes=caches.get(2) or (known.l2_bytes if known else _DEFAULT_L2),
        l3_bytes=caches.get(3) or (known.l3_bytes if known else _DEFAULT_L3),
        bandwidth=probe.bandwidth if probe else (),
        shared_bandwidth=probe.shared_bandwidth if probe else (),
        cores=cores(),
    )


def resolve(target: Target) -> Target:
    """``target`` with everything open taken from this machine."""
    return target if target.is_resolved and target.cores else target.resolved(native_target())


def cores() -> int:
    """CPUs this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _processor() -> Processor:
    """What LLVM says of the processor, now or in an earlier process."""
    path = _kept_in()
    found = _kept(path) if path else None
    if found is None:
        found = _asked()
        if path:
            _keep(path, found)
    return found


def _asked() -> Processor:
    from llvmlite import binding

    features = {name for name, on in binding.get_host_cpu_features().items() if on}
    return binding.get_host_cpu_name(), binding.get_process_triple(), features


def _kept_in() -> Path | None:
    """The file for this processor and this LLVM; None where the system does not tell enough, or
    nothing is to be kept."""
    llvm = find_spec("llvmlite")
    if not flag("BURNISH_CACHE") or llvm is None or llvm.origin is None:
        return None
    try:
        with _PROCESSORS.open() as file:
            first = itertools.takewhile(str.strip, file)
            known = [x for x in first if x.partition("\t")[0].strip() not in _VARYING]
        known += [llvm.origin, str(os.stat(llvm.origin).st_mtime_ns), os.uname().machine]
    except OSError:
        return None
    return cache_dir() / f"cpu-{hashlib.sha256(''.join(known).encode()).hexdigest()[:16]}.json"


def _kept(path: Path) -> Processor | None:
    """What a file says; None where it is not there, not as it was written, or somebody else's."""
    text = kept_text(path)
    if text is None:
        return None
    cpu, triple, features = json.loads(text)
    return cpu, triple, set(features)


def _keep(path: Path, processor: Processor) -> None:
    cpu, triple, features = processor
    keep_text(path, json.dumps([cpu, triple, sorted(features)]))


def why_no_tiles() -> str:
    """Why tile registers that the CPU has are not used; "" where they are, or there are none."""
    if "amx-tile" not in _processor()[2]:
        return ""
    return refused_tiles() if flag("BURNISH_TILES") else "BURNISH_TILES=0 leaves them out"


def _allowed(features: set[str]) -> set[str]:
    """Without tile registers where the system refuses them, or the user. Every process that runs
    kernels comes here first, and asks."""
    if "amx-tile" not in features or (flag("BURNISH_TILES") and not refused_tiles()):
        return features
    return {name for name in features if not name.startswith("amx-")}


def _vectors(triple: str, features: set[str]) -> tuple[int, int]:
    """Width and number of the vector registers."""
    if not triple.startswith(("x86_64", "i686", "amd64")):
        return 128, 32
    if "avx512f" in features:
        return 512, 32
    return (256, 16) if "avx2" in features else (128, 16)


def _feature_list(features: set[str], cpu: str) -> tuple[str, ...]:
    """The machine's features, and those that others of its name have and it has not: a virtual
    machine may hide some. Where 512-bit vectors exist, LLVM is told to use them."""
    listed = [f"+{name}" for name in sorted(features)]
    listed += [f"-{name}" for name in implied_features(cpu) if name not in features]
    if "avx512f" in features:
        listed.append("-prefer-256-bit")
    return tuple(listed)


def _cache_sizes() -> dict[int, int]:
    """Bytes of the data caches by level, from sysfs; empty where it is not there."""
    sizes: dict[int, int] = {}
    for entry in sorted(_CACHES.glob("index*")):
        try:
            if (entry / "type").read_text().strip() == "Instruction":
                continue
            level = int((entry / "level").read_text())
            sizes[level] = _bytes((entry / "size").read_text().strip())
        except (OSError, ValueError):
            continue
    return sizes


def _bytes(text: str) -> int:
    unit = {"K": 1024, "M": 1024**2, "G": 1024**3}.get(text[-1:], 1)
    return int(text[:-1] if unit != 1 else text) * unit
