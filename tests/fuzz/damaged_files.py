"""The command behind ``make damaged-files``: saved models and caches that somebody damaged.

Bits are flipped, bytes and stretches overwritten, pieces cut out, the end cut off or something put
behind it: of a saved model, or of the files of a cache. What may happen is the model's own results,
bit for bit, or (of a saved model) an ArtifactError. Another exception, another result, a process
that ends, hangs or takes more memory than the budget is a failure. Cases run in worker processes, a
chunk each.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import burnish
from burnish.driver import code_cache, kernels
from burnish.driver.kernels import _Cache
from burnish.support import host

CHUNK = 100
LIMIT = 300.0
"""Seconds that a chunk may take."""
BUDGET = 4 << 30
"""Bytes of addresses that a process may take."""
KINDS = ("artifact", "cache")

MODULE = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4, 6), dtype="float32"), w: R.Tensor((3, 6), dtype="float32")):
        with R.dataflow():
            y = R.relu(R.linear(x, w))
            z = R.exp(R.softmax(y))
            R.output(z)
        return z
"""


def damaged(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    """What was done, and the bytes, which are others."""
    how = rng.choice(["bit", "bit", "bytes", "stretch", "cut out", "cut off", "behind", "swapped"])
    place, length = rng.randrange(len(data)), 1 + rng.randrange(min(5000, len(data)))
    found = bytearray(data)
    if how == "bit":
        found[place] ^= 1 << rng.randrange(8)
    elif how == "bytes":
        for _ in range(rng.randrange(2, 40)):
            found[rng.randrange(len(data))] = rng.randrange(256)
    elif how == "stretch":
        found[place : place + length] = bytes([rng.choice([0, 255])]) * len(
            found[place : place + length]
        )
    elif how == "cut out":
        del found[place : place + length]
    elif how == "cut off":
        del found[place:]
    elif how == "behind":
        found += rng.randbytes(length)
    else:
        other = rng.randrange(len(data))
        one, two = found[place : place + 64], found[other : other + 64]
        found[other : other + 64], found[place : place + 64] = one, two
    return how, bytes(found)


def prepare(folder: Path) -> None:
    """The files that workers damage copies of, and what is right. Of the model one weight is so
    large that its hash is compared in the background."""
    import torch

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(300, 400), torch.nn.ReLU(), torch.nn.Linear(400, 3))
    x = torch.randn(4, 300)
    model = burnish.compile(net, (x,), threads=2)
    model.save(folder / "whole.burnish")
    np.savez(folder / "right.npz", x=x.numpy(), y=model(x).numpy())


def check_artifact(seed: int, folder: Path) -> str:
    """How loading and running a damaged file ended; raises what is none of the endings."""
    how, data = damaged((folder / "whole.burnish").read_bytes(), random.Random(seed))
    path = folder / f"damaged-{os.getpid()}.burnish"
    path.write_bytes(data)
    try:
        model = burnish.load(path, threads=2)
    except burnish.errors.ArtifactError:
        return f"{how}: refused"
    finally:
        path.unlink()
    with np.load(folder / "right.npz") as right:
        if model(right["x"]).tobytes() != right["y"].tobytes():
            raise AssertionError(f"{how}: another result")
    return f"{how}: as it was"


def compiled() -> Any:
    """The result of the small module, compiled as a process does that has compiled nothing."""
    kernels._cache = _Cache(64)
    rng = np.random.default_rng(0)
    model = burnish.compile(burnish.parse(MODULE), threads=1)
    return model(rng.random((4, 6), np.float32), rng.random((3, 6), np.float32))


def check_cache(seed: int, folder: Path) -> str:
    """How compiling with a damaged file in the cache ended; raises what is none of the endings."""
    rng, cache = random.Random(seed), folder / f"cache-{os.getpid()}"
    os.environ |= {"BURNISH_CACHE": "1", "BURNISH_CACHE_DIR": str(cache)}
    if not cache.exists():
        host._processor()
        code_cache._source_digest()
        compiled()
    right = compiled()
    path = rng.choice(sorted(p for p in cache.rglob("*") if p.is_file()))
    whole = path.read_bytes()
    how, data = damaged(whole, rng)
    path.write_bytes(data)
    if path.parent == cache and path.name.startswith("source-"):
        if code_cache._source_digest() != code_cache._versions()["source"]:
            raise AssertionError(f"{how}: another source")
    elif path.parent == cache:
        if host._processor() != host._asked():
            raise AssertionError(f"{how}: another processor")
    elif compiled().tobytes() != right.tobytes():
        raise AssertionError(f"{how}: another result")
    if path.read_bytes() != whole:
        raise AssertionError(f"{how}: {path.name} is not written anew")
    return f"{how}: made anew"


def check(kind: str, seed: int, folder: Path) -> tuple[str, str]:
    """(ending, failure) of a case; one of them is empty."""
    try:
        if kind == "artifact":
            return check_artifact(seed, folder), ""
        return check_cache(seed, folder), ""
    except Exception as error:
        trace = traceback.format_exc(limit=-4)
        return "", f"{kind} {seed}: {type(error).__name__}: {error}\n{trace}"


def run_chunk(kind: str, first: int, count: int, folder: Path) -> None:
    """The worker: a line of JSON for each case."""
    resource.setrlimit(resource.RLIMIT_AS, (BUDGET, BUDGET))
    for seed in range(first, first + count):
        print(json.dumps(check(kind, seed, folder)), flush=True)


def run(kind: str, seed: int, count: int) -> tuple[Counter[str], list[str]]:
    """Endings by what was done, and failures, of so many cases in worker processes."""
    endings: Counter[str] = Counter()
    failures = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        prepare(folder)
        for first in range(seed, seed + count, CHUNK):
            number = min(CHUNK, seed + count - first)
            command = [sys.executable, "-m", "burnish.tests.fuzz.damaged_files", "--worker", kind]
            command += [str(first), str(number), scratch]
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=LIMIT, check=False
                )
                lines, code, error = done.stdout, done.returncode, done.stderr
            except subprocess.TimeoutExpired as late:
                lines, code, error = (late.stdout or b"").decode(), -1, f"took over {LIMIT} s"
            found = [json.loads(line) for line in lines.splitlines()]
            endings.update(ending for ending, _ in found if ending)
            failures += [failure for _, failure in found if failure]
            if len(found) < number:
                failures.append(f"{kind} {first + len(found)}: ended with {code}: {error[-500:]}")
    return endings, failures


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases of both kinds; 1 where one failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2000, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        kind, first, count, folder = options.worker
        run_chunk(kind, int(first), int(count), Path(folder))
        return 0
    failed = False
    for kind in KINDS:
        endings, failures = run(kind, options.seed, options.count)
        print(f"{kind}: {sum(endings.values())} as they should be, {len(failures)} failures")
        for ending, count in sorted(endings.items()):
            print(f"  {count:5} {ending}")
        for failure in failures[:20]:
            print(failure)
        failed = failed or bool(failures)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
