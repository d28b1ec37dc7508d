"""What the system says of tile registers, and what becomes of a CPU whose system refuses them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from burnish.support import host, tile_permission
from burnish.support.tile_permission import refused_tiles


@pytest.fixture(autouse=True)
def asked_anew(monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setenv("BURNISH_TILES", "1")
    host.native_target.cache_clear()
    refused_tiles.cache_clear()
    yield
    host.native_target.cache_clear()
    refused_tiles.cache_clear()


def has_tiles() -> bool:
    return "amx-tile" in host._processor()[2]


def test_a_system_without_tiles_refuses() -> None:
    """Asked in a process of its own: what is granted stays granted."""
    code = "from burnish.support.tile_permission import refused_tiles; print(refused_tiles())"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    ).stdout.strip()
    if not sys.platform.startswith("linux"):
        assert "Linux alone" in found
    elif has_tiles():
        assert found == "" or "arch_prctl" in found
    else:
        assert "the system refuses tile registers (arch_prctl: " in found


def test_other_systems_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tile_permission.sys, "platform", "darwin")
    assert refused_tiles() == "permission is asked of Linux alone, and this is darwin"


@pytest.mark.parametrize("refused", ["", "no"])
def test_refused_tiles_are_not_used(monkeypatch: pytest.MonkeyPatch, refused: str) -> None:
    cpu, triple, features = host._processor()
    known = (cpu, triple, features | {"amx-tile", "amx-bf16", "amx-int8"})
    monkeypatch.setattr(host, "_processor", lambda: known)
    monkeypatch.setattr(host, "refused_tiles", lambda: refused)
    target = host.native_target()
    assert (target.instructions.tiles is None) == bool(refused)
    assert host.why_no_tiles() == refused


def test_nobody_asks_where_the_cpu_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu, triple, features = host._processor()
    plain = {f for f in features if not f.startswith("amx-")}
    monkeypatch.setattr(host, "_processor", lambda: (cpu, triple, plain))
    monkeypatch.setattr(host, "refused_tiles", lambda: pytest.fail("asked"))
    assert host.native_target().instructions.tiles is None
    assert host.why_no_tiles() == ""


def test_the_user_leaves_tiles_out(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu, triple, features = host._processor()
    known = (cpu, triple, features | {"amx-tile", "amx-bf16", "amx-int8"})
    monkeypatch.setattr(host, "_processor", lambda: known)
    monkeypatch.setattr(host, "refused_tiles", lambda: "")
    monkeypatch.setenv("BURNISH_TILES", "0")
    assert host.native_target().instructions.tiles is None
    assert host.why_no_tiles() == "BURNISH_TILES=0 leaves them out"
