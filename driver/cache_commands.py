"""What the commands of ``burnish cache`` do: look into the cache of compiled code, and empty it."""

from __future__ import annotations

import argparse
import time

from ..support.errors import ConfigError
from ..support.target import Target
from .code_cache import CodeCache, code_cache
from .console import print_table
from .model_options import compile_model


def _cache() -> CodeCache:
    found = code_cache()
    if found is None:
        raise ConfigError("BURNISH_CACHE=0 says that nothing is kept. Unset it.")
    return found


def run_list(options: argparse.Namespace) -> int:
    cache = _cache()
    entries = list(cache.entries())
    count = len(entries) if options.all else options.limit
    rows = [
        [
            f"{e.header['kind']} {e.header['name']}",
            Target(e.header["target"]).cpu,
            f"{e.size / 1e3:.1f} kB",
            _ago(e.used),
        ]
        for e in entries[:count]
    ]
    if rows:
        print_table(str(cache.folder), ["entry", "for", "size", "used"], rows)
    if entries[count:]:
        size = sum(e.size for e in entries[count:])
        print(f"and {len(entries) - count} more of {size / 1e6:.1f} MB; --all lists them")
    total = sum(e.size for e in entries)
    used = f"{total / 1e6:.1f} of {cache.limit / 1e6:.0f} MB"
    print(f"{len(entries)} entries, {used}, in {cache.folder}")
    return 0


def _ago(moment: float) -> str:
    seconds = max(0.0, time.time() - moment)
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit} ago"
    return "just now"


def run_clear(options: argparse.Namespace) -> int:
    cache = _cache()
    print(f"removed {cache.clear()} entries of {cache.folder}")
    return 0


def run_explain(options: argparse.Namespace) -> int:
    _cache()
    use = compile_model(options).report.cache
    print(f"{len(use.found)} of {len(use.found) + len(use.missed)} parts were there")
    rows = [[name, "found"] for name in use.found] + [[n, r] for n, r in use.missed.items()]
    print_table(options.model, ["part", ""], rows)
    for problem in use.problems:
        print(problem)
    return 0
