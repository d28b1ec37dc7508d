"""Every environment flag does what its row says: each changes something that a user can see."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import burnish
from burnish import errors
from burnish.driver import build_workers, stages
from burnish.driver.build_workers import build_jobs
from burnish.driver.code_cache import code_cache
from burnish.graphir.module import IRModule
from burnish.models import fashion_mnist
from burnish.support import host
from burnish.support.config import FLAGS
from burnish.support.host import native_target
from burnish.support.memory import probe_file
from burnish.tests.driver.programs import add_one, mixed
from burnish.tests.strategies.schedules import CORPUS
from burnish.tuner.analytic import schedule_analytically
from burnish.tuner.rules.matmul import MatmulRule
from burnish.tuner.session import default_seed
from burnish.vm import parallel
from burnish.vm.parallel import default_threads
from burnish.vm.perf_map import perf_map_path


def dumped(value: str) -> object:
    burnish.build(mixed())
    return sorted(p.name for p in Path(value).rglob("30-*")) if value else []


def frozen_nodes(_: str) -> object:
    """In a fresh interpreter: node classes are made once."""
    code = "from burnish.tensorir.expr import Var\nv = Var('x')\nv.name = 'y'"
    path = os.pathsep.join(p for p in sys.path if p)
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True)
    return run.returncode


def printed(_: str) -> object:
    burnish.build(mixed())
    return sys.stderr.getvalue().count("# -- after")  # type: ignore[attr-defined]


def verifications(_: str) -> object:
    seen: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "verify_module", seen.append)
        burnish.build(mixed())
    return len(seen)


def defects(_: str) -> object:
    """A rule that falls over: the next one takes over, or the mistake is seen."""

    def fail(*args: object) -> None:
        raise AssertionError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MatmulRule, "apply", fail)
        try:
            return bool(schedule_analytically(CORPUS["matmul"](), native_target()))
        except AssertionError:
            return "raised"


def seed(_: str) -> object:
    return default_seed()


def threads(_: str) -> object:
    return default_threads()


def jobs(_: str) -> object:
    return build_jobs()


def data(_: str) -> object:
    try:
        return fashion_mnist.load().source
    except errors.DataError as error:
        return str(error)


def kept_code(_: str) -> object:
    return code_cache() is None


def kept_bytes(_: str) -> object:
    found = code_cache()
    return None if found is None else found.limit


def perf_map(_: str) -> object:
    perf_map_path().unlink(missing_ok=True)
    burnish.build(add_one())["main"](np.zeros(8, np.float32), np.zeros(8, np.float32))
    try:
        return perf_map_path().exists()
    finally:
        perf_map_path().unlink(missing_ok=True)


def tiles(_: str) -> object:
    with mock.patch.object(host, "refused_tiles", return_value=""):
        return host._allowed({"amx-tile", "avx2"})


def cache(_: str) -> object:
    return probe_file("znver4", 2)


EFFECTS: dict[str, tuple[str, Callable[[str], object]]] = {
    "BURNISH_DUMP": ("dumps", dumped),
    "BURNISH_DEBUG_NODES": ("1", frozen_nodes),
    "BURNISH_PRINT_AFTER": ("fuse-ops", printed),
    "BURNISH_VERIFY": ("none", verifications),
    "BURNISH_RAISE_DEFECTS": ("1", defects),
    "BURNISH_TILES": ("0", tiles),
    "BURNISH_SEED": ("5", seed),
    "BURNISH_NUM_THREADS": ("1", threads),
    "OMP_NUM_THREADS": ("1", threads),
    "BURNISH_BUILD_JOBS": ("1", jobs),
    "BURNISH_DATA": ("empty", data),
    "BURNISH_CACHE_DIR": ("kept", cache),
    "BURNISH_CACHE": ("0", kept_code),
    "BURNISH_CACHE_SIZE": ("7", kept_bytes),
    "BURNISH_PERF_MAP": ("1", perf_map),
    "XDG_CACHE_HOME": ("kept", cache),
}
"""A value other than the default, and what is seen of it."""


def test_every_flag_has_an_effect_listed() -> None:
    assert list(EFFECTS) == list(FLAGS)


@pytest.mark.parametrize("name", EFFECTS)
def test_a_flag_changes_what_is_seen(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    value, look = EFFECTS[name]
    monkeypatch.chdir(tmp_path)
    native_target()  # Kept from here on: what follows is no such machine.
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    for module in (parallel, build_workers):
        monkeypatch.setattr(module, "cpu_quota", lambda: None)
    for flag in FLAGS:
        monkeypatch.delenv(flag, raising=False)
    before = look("")
    monkeypatch.setenv(name, value)
    assert look(value) != before


def test_what_is_imported_is_verified_whatever_the_flag_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BURNISH_VERIFY", "none")
    assert verifications("") == 1
    monkeypatch.setenv("BURNISH_VERIFY", "each")
    assert verifications("") > 10


def test_a_misspelt_pass_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURNISH_PRINT_AFTER", "fuse-op")
    with pytest.raises(errors.ConfigError, match=r"found 'fuse-op'\. Did you mean 'fuse-ops'\?"):
        burnish.build(mixed())


def test_a_misspelt_flag_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURNISH_DUMB", "x")
    with pytest.warns(UserWarning, match=r"BURNISH_DUMB is not a flag .* 'BURNISH_DUMP'\?") as seen:
        burnish.build(mixed())
    assert [w.filename for w in seen] == [__file__]


def test_a_misspelt_flag_is_told_of_kernels_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURNISH_DUMB", "x")
    with pytest.warns(UserWarning, match=r"BURNISH_DUMB is not a flag") as seen:
        burnish.build(IRModule(dict(mixed().prim_funcs)))
    assert [w.filename for w in seen] == [__file__]
